//! The Python environment of a tool file: created by `uv` from the file's own PEP 723 block, separate from any project.
//!
//! `uv sync --script` creates the environment and `uv python find --script` names its interpreter, so that the worker
//! is our own child and not one of `uv`. Without `uv`, files that need no packages run on the available `python3`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use onetool_sdk::ToolError;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;

use super::settings::WorkerSettings;
use super::stderr::Tail;
use super::tool_file::ToolFile;
use onetool_process::{self as process, BoundedLines, ChildCommand, Group, Line, ProgramError};

/// Maximum number of environments that are created concurrently.
const MAX_AT_ONCE: usize = 4;
/// Maximum length of a line of `uv` output that is passed on, and maximum amount of its output that is read.
const MAX_LINE: usize = 400;
const MAX_OUTPUT: usize = 64 << 10;
/// Exit code of a shell for a program that it can't find.
const NOT_FOUND: i32 = 127;

pub(super) const UV_HINT: &str = "install uv (https://docs.astral.sh/uv/getting-started/installation/), for example with \
                       `curl -LsSf https://astral.sh/uv/install.sh | sh` or `pip install uv`, and see that it is in PATH";

/// A cache of interpreters.
pub(super) struct Environments {
    settings: Arc<WorkerSettings>,
    at_once: Semaphore,
    /// By file: the block that the environment was created for, and its interpreter.
    scripts: Mutex<HashMap<PathBuf, (String, PathBuf)>>,
    plain: Mutex<Option<PathBuf>>,
}

/// Why `uv` failed.
enum UvFailure {
    Missing,
    Failed(String),
}

/// Receives progress reports.
pub(super) type Report<'a> = &'a (dyn Fn(String) + Send + Sync);

impl Environments {
    pub(super) fn new(settings: Arc<WorkerSettings>) -> Self {
        Self { settings, at_once: Semaphore::new(MAX_AT_ONCE), scripts: Mutex::default(), plain: Mutex::default() }
    }

    /// Whether `uv` can be found.
    pub(super) fn has_uv(&self) -> bool {
        self.settings.search_path.find(self.settings.uv.as_os_str()).is_ok_and(|uv| uv.is_file())
    }

    /// Returns the interpreter for a file, after installing its packages.
    pub(super) async fn prepare(&self, file: &ToolFile, report: Report<'_>) -> Result<PathBuf, ToolError> {
        let _turn = self.at_once.acquire().await.map_err(|_| ToolError::unavailable("workers are shut down"))?;
        match &file.metadata {
            Some(metadata) => {
                let known = self.scripts.lock().get(&file.path).cloned();
                if let Some((text, interpreter)) = known
                    && text == metadata.text
                    && interpreter.exists()
                {
                    return Ok(interpreter);
                }
                match self.for_script(&file.path, report).await {
                    Ok(interpreter) => {
                        let entry = (metadata.text.clone(), interpreter.clone());
                        self.scripts.lock().insert(file.path.clone(), entry);
                        Ok(interpreter)
                    }
                    Err(UvFailure::Missing) if metadata.dependencies.is_empty() => Ok(self.settings.python.clone()),
                    Err(UvFailure::Missing) => Err(ToolError::unavailable(format!(
                        "{} needs packages ({}), and uv, which installs them, is not there",
                        file.path.display(),
                        metadata.dependencies.join(", ")
                    ))
                    .with_hint(UV_HINT)),
                    Err(UvFailure::Failed(output)) => Err(ToolError::unavailable(format!(
                        "uv could not make the environment of {}:\n{output}",
                        file.path.display()
                    ))
                    .with_hint("check the dependencies and requires-python in the file's '# /// script' block")),
                }
            }
            None => Ok(self.plain(report).await),
        }
    }

    async fn for_script(&self, path: &Path, report: Report<'_>) -> Result<PathBuf, UvFailure> {
        self.uv(&["sync".as_ref(), "--script".as_ref(), path.as_os_str()], report).await?;
        let found =
            self.uv(&["python".as_ref(), "find".as_ref(), "--script".as_ref(), path.as_os_str()], report).await?;
        interpreter_in(&found)
    }

    /// Returns the interpreter for a file without requirements: a Python of the system, or one that `uv` installs.
    async fn plain(&self, report: Report<'_>) -> PathBuf {
        if let Some(interpreter) = self.plain.lock().clone()
            && interpreter.exists()
        {
            return interpreter;
        }
        let find: [&OsStr; 4] = ["python", "find", "--no-project", "--system"].map(OsStr::new);
        let mut found = self.uv(&find, report).await;
        if matches!(found, Err(UvFailure::Failed(_)))
            && self.uv(&["python".as_ref(), "install".as_ref()], report).await.is_ok()
        {
            found = self.uv(&["python", "find", "--no-project"].map(OsStr::new), report).await;
        }
        match found.and_then(|output| interpreter_in(&output)) {
            Ok(interpreter) => {
                *self.plain.lock() = Some(interpreter.clone());
                interpreter
            }
            Err(_) => self.settings.python.clone(),
        }
    }

    /// Runs `uv` outside any project, and returns its standard output.
    async fn uv(&self, arguments: &[&OsStr], report: Report<'_>) -> Result<String, UvFailure> {
        let uv = self.settings.search_path.find(self.settings.uv.as_os_str()).map_err(|error| match error {
            ProgramError::Missing { .. } => UvFailure::Missing,
            other => UvFailure::Failed(other.to_string()),
        })?;
        // A folder of our own and no configuration, so that no other `uv.toml` or `.python-version` applies.
        let neutral = tempfile::Builder::new()
            .prefix("onetool-uv-")
            .tempdir()
            .map_err(|error| UvFailure::Failed(format!("no temporary folder can be made: {error}")))?;
        let environment = BTreeMap::from([
            ("UV_NO_PROGRESS".to_owned(), "1".to_owned()),
            ("UV_NO_CONFIG".to_owned(), "1".to_owned()),
        ]);
        let mut args = arguments.to_vec();
        args.push(OsStr::new("--no-config"));
        let mut command = process::guarded(&ChildCommand {
            program: uv.as_os_str(),
            args,
            folder: Some(neutral.path()),
            environment: &environment,
            inherit_prefixes: &["UV_"],
            search_path: &self.settings.search_path,
        });
        command.command_mut().stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => UvFailure::Missing,
            _ => UvFailure::Failed(format!("uv could not be started: {error}")),
        })?;
        // Dropped with this future: no process of uv is left when the call is abandoned.
        let _group = Group::of(child.id());
        let _input = child.stdin().take();
        let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
        let mut output = String::new();
        let mut tail = Tail::default();
        let read_output = async {
            if let Some(stdout) = stdout {
                let _ = stdout.take(MAX_OUTPUT as u64).read_to_string(&mut output).await;
            }
        };
        let read_talk = async {
            if let Some(stderr) = stderr {
                let mut lines = BoundedLines::new(stderr, MAX_OUTPUT);
                loop {
                    let next = lines.next().await;
                    let (Line::Whole(line) | Line::TooLong(line) | Line::End(line)) = next;
                    tail.push(line);
                    tail.push(b"\n");
                    let text: String = String::from_utf8_lossy(line).trim().chars().take(MAX_LINE).collect();
                    if !text.is_empty() {
                        report(text);
                    }
                    if matches!(next, Line::End(_)) {
                        break;
                    }
                }
            }
        };
        tokio::join!(read_output, read_talk);
        match child.wait().await {
            Ok(status) if status.success() => Ok(output),
            Ok(status) if status.code() == Some(NOT_FOUND) => Err(UvFailure::Missing),
            Ok(_) => Err(UvFailure::Failed(tail.last_lines())),
            Err(error) => Err(UvFailure::Failed(format!("uv could not be waited for: {error}"))),
        }
    }
}

fn interpreter_in(output: &str) -> Result<PathBuf, UvFailure> {
    match output.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => Ok(PathBuf::from(line)),
        None => Err(UvFailure::Failed("uv named no interpreter".to_owned())),
    }
}
