//! `run`: the engine and its limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onetool_config::{MAX_KB, MAX_MB, Reader, Section, Shape, keys};
use onetool_sandbox::{Engine, FileAccess, Limits, SessionLimits};

const DEFAULTS: Limits = Limits::DEFAULT;

keys! {
    /// How code runs: the engine and its limits.
    pub struct RunKeys {
        /// Engine: `auto` runs code in Monty and what Monty cannot run in CPython.
        engine: Engine = Engine::Auto, live;
        /// Seconds that the code itself may compute. Waiting for tools does not count.
        timeout: Duration = DEFAULTS.max_compute, live;
        /// Seconds from start to end, tools included.
        total_timeout: Duration = DEFAULTS.timeout, live;
        /// Memory of a run, in megabytes.
        max_memory_mb: usize [Shape::Count(8, MAX_MB)] = DEFAULTS.max_memory >> 20, live;
        /// Tool calls in one run, at most.
        max_calls: usize = DEFAULTS.max_calls, live;
        /// Depth of recursion, at most.
        max_recursion: usize [Shape::Count(10, 10_000)] = DEFAULTS.max_recursion, live;
        /// Size of the code, in kilobytes.
        max_source_kb: usize [Shape::Count(1, MAX_KB)] = DEFAULTS.max_source >> 10, live;
        /// Printed text that is kept, in kilobytes.
        max_printed_kb: usize [Shape::Count(0, MAX_KB)] = DEFAULTS.max_printed >> 10, live;
        /// Length of an error, in kilobytes; longer ones are cut.
        max_error_kb: usize [Shape::Count(1, MAX_KB)] = 16, live;
        /// Refuse calls that cannot work before anything runs.
        type_check: bool = true, live;
        /// Interpreters that are started right away and kept ready.
        prewarm: usize [Shape::Count(0, 64)] = 1, restart;
        /// Seconds of quiet after which interpreters beyond `prewarm` end and memory is given back.
        idle_timeout: Duration = Duration::from_mins(1), restart;
        /// Interpreters at once, at most.
        max_parallel: usize [Shape::Count(1, 1024)] = 16, restart;
        /// Runs that may wait for an interpreter; more are refused.
        max_waiting: usize [Shape::Count(0, 1_000_000)] = 1024, restart;
        /// Seconds that a run waits for an interpreter.
        max_wait: Duration = Duration::from_mins(1), restart;
        /// Python for code that needs CPython: a file, or a version for uv to find. Without it, the first `python3` in PATH that is new enough.
        python: Option<String> = None, live, example "/usr/bin/python3";
        /// Run CPython where the system cannot confine it.
        allow_unconfined: bool = false, live;
        /// Keep a warm Python that each run forks, instead of starting one per run.
        zygote: bool = true, live;
        /// What code may do with files, through the file pack: `full`, `read` or `off`.
        files: FileAccess = FileAccess::Full, live;
        /// Sessions that one client may have open (`__session__ = "name"`); eight times as many in all.
        max_sessions: usize [Shape::Count(0, 1000)] = 8, live;
        /// Seconds after which a session that nobody uses ends.
        session_idle: Duration = Duration::from_mins(30), live;
        /// Packages that code can import, as pip takes them, and names of requirements files. `uv` installs them once.
        packages: Vec<String> [Shape::OneOrMore(&Shape::Text)] = Vec::new(), live, example "[pandas, numpy==2.*]";
        /// Record every run and what it calls, so that another server continues it when its own ends. Background runs always are.
        durable: bool = false, live;
        /// Modules of these packages that are imported ahead, so that runs need not wait for them.
        preload: Vec<String> [Shape::OneOrMore(&Shape::Text)] = Vec::new(), live, example "[pandas]";
    }
}

pub const RUN: Section<RunKeys> = Section::new("run");

/// Maximum size of a requirements file.
const MAX_REQUIREMENTS: u64 = 1 << 20;
const PACKAGES: &[&str] = &["run", "packages"];

impl RunKeys {
    /// The requirements files among the packages, relative to the project.
    pub fn requirements_files(&self, project: &Path) -> Vec<PathBuf> {
        self.packages.iter().filter_map(|entry| requirements_file(entry)).map(|file| project.join(file)).collect()
    }

    /// The packages, including those of requirements files.
    pub fn requirements(&self, reader: &mut Reader, project: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in &self.packages {
            let Some(file) = requirements_file(entry) else {
                found.push(entry.trim().to_owned());
                continue;
            };
            let file = project.join(file);
            match read_requirements(&file) {
                Ok(lines) => found.extend(lines),
                Err(reason) => reader.problem(PACKAGES, &format!("{}: {reason}", file.display())),
            }
        }
        let (packages, options): (Vec<String>, Vec<String>) =
            found.into_iter().partition(|line| !line.starts_with('-'));
        for line in options {
            reader.problem(PACKAGES, &format!("found the option '{line}', expected packages alone"));
        }
        packages
    }

    pub fn session_limits(&self) -> SessionLimits {
        SessionLimits { max: self.max_sessions, idle: self.session_idle }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            max_compute: self.timeout,
            timeout: self.total_timeout,
            max_memory: self.max_memory_mb << 20,
            max_calls: self.max_calls,
            max_recursion: self.max_recursion,
            max_printed: self.max_printed_kb << 10,
            max_source: self.max_source_kb << 10,
            ..DEFAULTS
        }
    }
}

/// The file that an entry of `run.packages` names: `requirements.txt`, `-r requirements.txt` or a path.
fn requirements_file(entry: &str) -> Option<PathBuf> {
    let entry = entry.trim();
    let named = entry.strip_prefix("-r").map(str::trim);
    let is_file = entry.ends_with(".txt") || entry.ends_with(".in");
    let file = named.or((is_file && !entry.contains([' ', '@', '='])).then_some(entry))?;
    let home = file.strip_prefix("~/").and_then(|rest| Some(onetool_config::home_folder()?.join(rest)));
    Some(home.unwrap_or_else(|| PathBuf::from(file)))
}

/// Reads the lines of a requirements file that are not blank or comments.
fn read_requirements(file: &Path) -> Result<Vec<String>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_REQUIREMENTS {
        return Err("it is larger than 1 MB".to_owned());
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim());
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_files_are_told_from_packages() {
        for (entry, file) in [
            ("pandas", None),
            ("numpy==2.*", None),
            ("x @ https://example.org/a.txt", None),
            ("requirements.txt", Some("requirements.txt")),
            ("-r deps/base.in", Some("deps/base.in")),
        ] {
            assert_eq!(requirements_file(entry), file.map(PathBuf::from), "{entry}");
        }
    }

    #[test]
    fn a_requirements_file_is_read_without_comments() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requirements.txt");
        std::fs::write(&file, "# what we need\nzipp==3.*  # small\n\nattrs\n").unwrap();
        assert_eq!(read_requirements(&file).unwrap(), ["zipp==3.*", "attrs"]);
        assert!(read_requirements(&folder.path().join("none.txt")).is_err());
    }
}
