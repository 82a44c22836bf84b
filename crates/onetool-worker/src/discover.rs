//! Finds tool files: in the project's folder, by the configured patterns, and in the user's folder, in that order. The
//! order is the precedence: if two files offer the same pack, the one found first wins.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;
use onetool_config::UNTRUSTED;
use onetool_sdk::Severity;

use super::metadata::{self, Header};
use super::settings::WorkerSettings;
use super::tool_file::FileProblem;

/// Maximum number of folder entries per search, so that a pattern such as `/**/*.py` ends.
const MAX_ENTRIES: usize = 50_000;

/// Larger files are not tool files.
const MAX_HEADER_FILE: u64 = 4 << 20;

/// A file that may offer tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// The pack's name unless the file sets another.
    pub(super) default_pack: String,
}

/// A note about a place that the user should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlaceNote {
    pub(super) severity: Severity,
    pub(super) subject: String,
    pub(super) reason: String,
    /// The pack that a user may expect because of it.
    pub(super) pack: Option<String>,
}

impl PlaceNote {
    fn error(subject: impl Into<String>, problem: FileProblem) -> Self {
        Self { severity: Severity::Error, subject: subject.into(), reason: problem.reason, pack: None }
    }

    /// A note about a file that looks as if it should offer tools but does not.
    fn unused(path: &Path, name: &str, reason: String) -> Self {
        let pack = Some(onetool_sdk::to_python_identifier(name));
        Self { severity: Severity::Info, subject: path.display().to_string(), reason, pack }
    }
}

/// Returns all candidates in order of precedence, and problems with the places themselves.
pub(super) fn candidates(settings: &WorkerSettings) -> (Vec<Candidate>, Vec<PlaceNote>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    if let Some(file) = &settings.authored {
        push_file(file.clone(), &mut found);
    }
    if let Some(folder) = &settings.project_tools {
        in_folder(folder, &mut found, &mut problems);
    }
    for pattern in &settings.tools_dir {
        if let Err(problem) = by_pattern(&settings.folder, pattern, &mut found) {
            problems.push(PlaceNote::error(pattern, problem));
        }
    }
    if let Some(folder) = &settings.global_tools {
        in_folder(folder, &mut found, &mut problems);
    }
    let mut seen = HashSet::new();
    found.retain(|candidate: &Candidate| seen.insert(candidate.path.clone()));
    found.retain(|candidate| {
        let is_global = settings.global_tools.as_deref().is_some_and(|folder| candidate.path.starts_with(folder));
        let is_authored = settings.authored.as_ref() == Some(&candidate.path);
        let is_trusted = is_global || is_authored || settings.trust.covers(&candidate.path);
        if !is_trusted {
            let problem = FileProblem::new(format!("is not used: {UNTRUSTED}"));
            let pack = Some(candidate.default_pack.clone());
            problems.push(PlaceNote { pack, ..PlaceNote::error(candidate.path.display().to_string(), problem) });
        }
        is_trusted
    });
    for folder in [&settings.project_tools, &settings.global_tools].into_iter().flatten() {
        misplaced(folder, &seen, &mut problems);
    }
    (found, problems)
}

/// Returns the tool files that are disabled because their folder is not trusted.
pub fn untrusted_files(settings: &WorkerSettings) -> Vec<PathBuf> {
    let everything = WorkerSettings { trust: onetool_config::FileTrust::default(), ..settings.clone() };
    let used: HashSet<PathBuf> = candidates(settings).0.into_iter().map(|candidate| candidate.path).collect();
    let all = candidates(&everything).0.into_iter().map(|candidate| candidate.path);
    all.filter(|path| !used.contains(path)).collect()
}

/// Returns the files that run when tools do and may be anywhere: the tool files themselves, with links resolved, and
/// the local packages that their headers name.
pub fn governing_files(settings: &WorkerSettings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for Candidate { path, .. } in candidates(settings).0 {
        let is_small = fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_HEADER_FILE);
        let source = is_small.then(|| fs::read_to_string(&path).ok()).flatten().unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new("/"));
        if let Header::Script(header) = metadata::read(&source) {
            found.extend(header.local_packages().into_iter().map(|package| folder.join(package)));
        }
        found.push(path);
    }
    found
}

/// Finds `<pack>/<pack>_tools.py` below a folder.
fn in_folder(folder: &Path, found: &mut Vec<Candidate>, problems: &mut Vec<PlaceNote>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let problem = FileProblem::new(format!("can't be read: {error}"));
            problems.push(PlaceNote::error(folder.display().to_string(), problem));
            return;
        }
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(['.', '_']))
        .take(MAX_ENTRIES)
        .collect();
    names.sort();
    for name in names {
        let path = folder.join(&name).join(format!("{name}_tools.py"));
        if path.is_file() {
            found.push(Candidate { path, default_pack: onetool_sdk::to_python_identifier(&name) });
        } else if path.symlink_metadata().is_ok() {
            let problem = FileProblem::new("is not a file, or a link that leads nowhere");
            let pack = Some(onetool_sdk::to_python_identifier(&name));
            problems.push(PlaceNote { pack, ..PlaceNote::error(path.display().to_string(), problem) });
        }
    }
}

/// Reports Python files that are ignored because they are next to the places where tool files are expected.
fn misplaced(folder: &Path, used: &HashSet<PathBuf>, problems: &mut Vec<PlaceNote>) {
    let python_files = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).take(MAX_ENTRIES);
        let is_tool_like = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".py") && !name.starts_with(['_', '.']) && path.is_file()
        };
        entries.map(|entry| entry.path()).filter(is_tool_like).collect()
    };
    let mut notes = Vec::new();
    for path in python_files(folder).into_iter().filter(|path| !used.contains(path)) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.strip_suffix("_tools").unwrap_or(&stem);
        let reason = format!("is not used: move it to {name}/{name}_tools.py, or name it in tools_dir");
        notes.push(PlaceNote::unused(&path, name, reason));
    }
    let folders = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).take(MAX_ENTRIES);
    for path in folders.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = python_files(&path);
        let is_used = path.join(format!("{name}_tools.py")).symlink_metadata().is_ok()
            || files.iter().any(|file| used.contains(file));
        if !files.is_empty() && !is_used && !name.starts_with(['_', '.']) {
            let reason = format!("is not used: its tools are looked for in {name}_tools.py, which it lacks");
            notes.push(PlaceNote::unused(&path, &name, reason));
        }
    }
    notes.sort_by(|one, other| one.subject.cmp(&other.subject));
    problems.extend(notes);
}

fn by_pattern(base: &Path, pattern: &str, found: &mut Vec<Candidate>) -> Result<(), FileProblem> {
    let full = base.join(pattern);
    // The part before the first wildcard is a plain folder; `base` may contain anything.
    let is_wild = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let fixed: PathBuf = Path::new(pattern).components().take_while(|part| !is_wild(part)).collect();
    let root = base.join(&fixed);
    if root == full {
        if full.is_dir() {
            return by_pattern(base, &format!("{}/*.py", pattern.trim_end_matches('/')), found);
        }
        push_file(full, found);
        return Ok(());
    }
    let rest = Path::new(pattern).strip_prefix(&fixed).unwrap_or(Path::new(pattern));
    let matcher = GlobBuilder::new(&format!("{}{}", globset::escape(&root.join("").to_string_lossy()), rest.display()))
        .literal_separator(true)
        .build()
        .map_err(|error| FileProblem::new(format!("is not a valid pattern: {error}")))?
        .compile_matcher();
    let depth = if pattern.contains("**") { usize::MAX } else { full.components().count() - root.components().count() };
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut folders = vec![(root, 1_usize)];
    let mut looked_at = 0;
    while let Some((folder, level)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            looked_at += 1;
            if looked_at > MAX_ENTRIES {
                return Err(FileProblem::new(format!(
                    "matches more than {MAX_ENTRIES} entries; use a narrower pattern"
                )));
            }
            let path = entry.path();
            // Links to folders are not followed: they may form a cycle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if level < depth {
                    folders.push((path, level + 1));
                }
            } else if matcher.is_match(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    for path in paths {
        push_file(path, found);
    }
    Ok(())
}

fn push_file(path: PathBuf, found: &mut Vec<Candidate>) {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    if !is_python || stem.starts_with(['_', '.']) || !path.is_file() {
        return;
    }
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = match (stem.strip_suffix("_tools"), folder) {
        (Some(pack), Some(folder)) if pack == folder => pack.to_owned(),
        _ => stem,
    };
    found.push(Candidate { path, default_pack: onetool_sdk::to_python_identifier(&name) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "def a(): ...\n").unwrap();
    }

    #[test]
    fn brackets_in_the_name_of_the_project_are_no_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a[b]{c}*");
        put(&root, "p/x/x_tools.py");
        let settings =
            WorkerSettings { tools_dir: vec!["p/*/*.py".into()], folder: root.clone(), ..WorkerSettings::default() };
        let (found, problems) = candidates(&settings);
        assert!(problems.is_empty());
        assert_eq!(found[0].path, root.join("p/x/x_tools.py"));
    }

    #[test]
    fn places_are_searched_in_order_of_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [
            "p/a/a_tools.py",
            "p/b/other.py",
            "p/c.py",
            "p/_d.py",
            "p/deep/er/e.py",
            "g/a/a_tools.py",
            "g/z/z_tools.py",
        ] {
            put(root, name);
        }
        let settings = WorkerSettings {
            project_tools: Some(root.join("p")),
            global_tools: Some(root.join("g")),
            tools_dir: vec!["p/*.py".into(), "p/*/*.py".into(), "p/[".into(), "missing/*.py".into()],
            folder: root.to_owned(),
            ..WorkerSettings::default()
        };
        let (found, problems) = candidates(&settings);
        let found: Vec<(String, &str)> = found
            .iter()
            .map(|c| (c.path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), c.default_pack.as_str()))
            .collect();
        let expected = [
            ("p/a/a_tools.py", "a"),
            ("p/c.py", "c"),
            ("p/b/other.py", "other"),
            ("g/a/a_tools.py", "a"),
            ("g/z/z_tools.py", "z"),
        ];
        assert_eq!(found, expected.map(|(path, pack)| (path.to_owned(), pack)));
        assert_eq!(problems.iter().map(|note| note.subject.as_str()).collect::<Vec<_>>(), ["p/["]);
    }

    #[test]
    fn files_beside_the_right_place_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["a/a_tools.py", "b/other.py", "c.py", "d_tools.py", "_e.py", "named.py", "__pycache__/x.py"] {
            put(root, name);
        }
        fs::create_dir_all(root.join("f/f_tools.py")).unwrap();
        let settings = WorkerSettings {
            project_tools: Some(root.to_owned()),
            tools_dir: vec!["named.py".into()],
            folder: root.to_owned(),
            ..WorkerSettings::default()
        };
        let (_, notes) = candidates(&settings);
        let told: Vec<(String, &str)> = notes
            .iter()
            .map(|note| {
                let subject = Path::new(&note.subject).strip_prefix(root).unwrap().display();
                (format!("{subject} {}", note.reason), note.pack.as_deref().unwrap())
            })
            .collect();
        let expected = [
            ("f/f_tools.py is not a file, or a link that leads nowhere", "f"),
            ("b is not used: its tools are looked for in b_tools.py, which it lacks", "b"),
            ("c.py is not used: move it to c/c_tools.py, or name it in tools_dir", "c"),
            ("d_tools.py is not used: move it to d/d_tools.py, or name it in tools_dir", "d"),
        ];
        assert_eq!(told, expected.map(|(text, pack)| (text.to_owned(), pack)));
    }
}
