//! Packages that programs can import, resolved and installed once by `uv` into their own folder.
//!
//! An environment is a folder named after its contents: `packages.lock`, the exact versions, and `site-packages`, the
//! only part that programs can read. It is created under a temporary name and renamed, so an existing one is complete.
//! It then needs neither `uv` nor a network; without `site-packages` it is created again from its lock file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use onetool_process::{self as process, ChildCommand, Group, ProgramError, SearchPath};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::interpreter::Interpreter;
use super::settings::PackageSettings;

/// How long `uv` may take for one step.
const UV_TIMEOUT: Duration = Duration::from_mins(20);
/// Maximum length of a line of `uv` output that is passed on, of one that is read, and number kept for an error.
const MAX_LINE: usize = 400;
const MAX_READ: u64 = 64 << 10;
const KEPT_LINES: usize = 12;
/// Maximum number of files of an environment that are searched for shared objects.
const MAX_FILES: usize = 200_000;
/// Address space that loading packages takes in addition to the files themselves.
const LOADING: usize = 128 << 20;

const LOCK: &str = "packages.lock";
const LIBRARY: &str = "site-packages";
const DESCRIPTION: &str = "environment.json";

/// Installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    /// The folder that Python imports from.
    pub(super) library: PathBuf,
    /// Additional address space that a program needs if it imports all packages.
    pub(super) headroom: usize,
}

/// Written into an environment when it is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    requirements: Vec<String>,
    python: String,
    headroom: usize,
}

/// Receives progress reports.
pub(super) type Report<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Returns the configured packages, installing them if necessary. The error is human-readable.
pub(super) async fn install(
    settings: &PackageSettings,
    interpreter: &Interpreter,
    search_path: &SearchPath,
    report: Report<'_>,
) -> Result<Installed, String> {
    let requirements = requirements(settings)?;
    let (major, minor) = interpreter.version;
    let python = format!("{major}.{minor}");
    let place = settings.folder.join(key(&requirements, interpreter));
    if let Some(found) = existing(&place) {
        return Ok(found);
    }
    let failed = |what: &str, error: std::io::Error| format!("{what} {}: {error}", settings.folder.display());
    std::fs::create_dir_all(&settings.folder).map_err(|error| failed("cannot make the folder", error))?;
    // Another process may be creating the same one: the second one to get the lock finds it complete.
    let lock = std::fs::File::create(settings.folder.join("lock")).map_err(|error| failed("cannot lock", error))?;
    let locking = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await;
    let _held = locking.map_err(|error| error.to_string())?.map_err(|error| failed("cannot lock", error))?;
    if let Some(found) = existing(&place) {
        return Ok(found);
    }
    make(&place, &requirements, &python, interpreter, &Uv { search_path, report }).await
}

async fn make(
    place: &Path,
    requirements: &[String],
    python: &str,
    interpreter: &Interpreter,
    uv: &Uv<'_>,
) -> Result<Installed, String> {
    let parent = place.parent().unwrap_or(place);
    let unfinished = parent.join(format!("unfinished-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&unfinished);
    let written = |error: std::io::Error| format!("cannot write {}: {error}", unfinished.display());
    std::fs::create_dir_all(&unfinished).map_err(written)?;
    let cleanup = Cleanup(unfinished.clone());
    let (input, lock, library) = (unfinished.join("packages.in"), unfinished.join(LOCK), unfinished.join(LIBRARY));
    let executable = interpreter.executable.as_os_str();
    if std::fs::copy(place.join(LOCK), &lock).is_err() {
        std::fs::write(&input, requirements.join("\n") + "\n").map_err(written)?;
        (uv.report)(format!("resolving {}", shown(requirements)));
        let mut resolve: Vec<&OsStr> =
            ["pip", "compile", "--quiet", "--no-header", "--python"].map(OsStr::new).to_vec();
        resolve.extend([executable, OsStr::new("--output-file"), lock.as_os_str(), input.as_os_str()]);
        uv.run(&resolve, &unfinished).await.map_err(|error| about(requirements, &error))?;
    }
    (uv.report)(format!("installing {}", shown(requirements)));
    let mut install: Vec<&OsStr> =
        ["pip", "install", "--compile-bytecode", "--no-deps", "--python"].map(OsStr::new).to_vec();
    install.extend([
        executable,
        OsStr::new("--target"),
        library.as_os_str(),
        OsStr::new("--requirement"),
        lock.as_os_str(),
    ]);
    uv.run(&install, &unfinished).await.map_err(|error| about(requirements, &error))?;
    let measured = library.clone();
    let headroom = tokio::task::spawn_blocking(move || shared_objects(&measured)).await.unwrap_or(0) + LOADING;
    let description = Description { requirements: requirements.to_vec(), python: python.to_owned(), headroom };
    let text = serde_json::to_vec_pretty(&description).map_err(|error| error.to_string())?;
    std::fs::write(unfinished.join(DESCRIPTION), text).map_err(written)?;
    let _ = std::fs::remove_dir_all(place);
    std::fs::rename(&unfinished, place).map_err(|error| format!("cannot keep {}: {error}", place.display()))?;
    drop(cleanup);
    (uv.report)(format!("installed {}", shown(requirements)));
    existing(place).ok_or_else(|| format!("{} is not complete", place.display()))
}

/// Removes an unfinished environment when dropped.
struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says why packages cannot be installed, and what to do.
fn about(requirements: &[String], error: &UvFailure) -> String {
    let packages = shown(requirements);
    match error {
        UvFailure::Missing => format!(
            "run.packages ({packages}) needs uv, which is not in PATH\nhint: install uv, e.g. with `pip install uv`; see https://docs.astral.sh/uv/"
        ),
        UvFailure::Failed(output) => format!(
            "uv could not install run.packages ({packages}):\n{output}\nhint: check the names and versions in run.packages, and the network"
        ),
    }
}

fn shown(requirements: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = requirements.len().saturating_sub(SHOWN);
    let listed = requirements.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// Returns all requirements, sorted. Options are rejected, since they would make `uv` read other files or indexes.
fn requirements(settings: &PackageSettings) -> Result<Vec<String>, String> {
    let mut all = settings.requirements.clone();
    all.sort();
    all.dedup();
    match all.iter().find(|line| line.starts_with('-') || line.contains(['\n', '\r', '\0'])) {
        Some(line) => Err(format!(
            "run.packages: '{line}' is not a package\nhint: name packages as `pandas` or `numpy==2.*`, or a requirements file without options"
        )),
        None => Ok(all),
    }
}

/// Names an environment after its contents.
fn key(requirements: &[String], interpreter: &Interpreter) -> String {
    // Stable across processes: the hasher has fixed keys.
    let mut hasher = DefaultHasher::new();
    (requirements, &interpreter.executable, interpreter.version).hash(&mut hasher);
    let (major, minor) = interpreter.version;
    format!("python{major}.{minor}-{:016x}", hasher.finish())
}

fn existing(place: &Path) -> Option<Installed> {
    let library = place.join(LIBRARY);
    let description = std::fs::read(place.join(DESCRIPTION)).ok()?;
    let description: Description = serde_json::from_slice(&description).ok()?;
    library.is_dir().then_some(Installed { library, headroom: description.headroom })
}

/// Total size of the shared objects in a folder, in bytes.
fn shared_objects(folder: &Path) -> usize {
    let (mut bytes, mut seen, mut waiting) = (0_usize, 0, vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_FILES {
                return bytes;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if entry.file_name().to_string_lossy().contains(".so") {
                bytes = bytes.saturating_add(entry.metadata().map_or(0, |found| found.len() as usize));
            }
        }
    }
    bytes
}

/// Why `uv` failed.
enum UvFailure {
    Missing,
    Failed(String),
}

struct Uv<'a> {
    search_path: &'a SearchPath,
    report: Report<'a>,
}

impl Uv<'_> {
    /// Runs `uv` in a folder of ours, outside any project and without its configuration.
    async fn run(&self, arguments: &[&OsStr], folder: &Path) -> Result<(), UvFailure> {
        let uv = self.search_path.find(OsStr::new("uv")).map_err(|error| match error {
            ProgramError::Missing { .. } => UvFailure::Missing,
            other => UvFailure::Failed(other.to_string()),
        })?;
        let mut args = arguments.to_vec();
        args.push(OsStr::new("--no-config"));
        let environment = BTreeMap::from([("UV_NO_PROGRESS".to_owned(), "1".to_owned())]);
        let mut command = process::guarded(&ChildCommand {
            program: uv.as_os_str(),
            args,
            folder: Some(folder),
            environment: &environment,
            inherit_prefixes: &["UV_"],
            search_path: self.search_path,
        });
        command.command_mut().stdout(Stdio::null()).stderr(Stdio::piped());
        let started = |error: std::io::Error| UvFailure::Failed(format!("uv could not be started: {error}"));
        let mut child = command.spawn().map_err(started)?;
        // Dropped with this future: no process of uv is left when it is no longer awaited.
        let _group = Group::of(child.id());
        let _input = child.stdin().take();
        let stderr = child.stderr().take();
        let mut last: std::collections::VecDeque<String> = std::collections::VecDeque::new();
        let talk = async {
            let Some(stderr) = stderr else { return };
            let mut lines = BufReader::new(stderr);
            let mut line = Vec::new();
            while (&mut lines).take(MAX_READ).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
                let text: String = String::from_utf8_lossy(&line).trim_end().chars().take(MAX_LINE).collect();
                if !text.trim().is_empty() {
                    (self.report)(text.trim().to_owned());
                    last.push_back(text);
                    if last.len() > KEPT_LINES {
                        last.pop_front();
                    }
                }
                line.clear();
            }
        };
        if tokio::time::timeout(UV_TIMEOUT, talk).await.is_err() {
            return Err(UvFailure::Failed(format!("uv did not finish in {} s", UV_TIMEOUT.as_secs())));
        }
        let status = child.wait().await.map_err(|error| UvFailure::Failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(UvFailure::Failed(last.into_iter().collect::<Vec<_>>().join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(requirements: &[&str]) -> PackageSettings {
        let requirements = requirements.iter().map(|&text| text.to_owned()).collect();
        PackageSettings { requirements, ..PackageSettings::default() }
    }

    #[test]
    fn the_same_packages_are_the_same_environment() {
        assert_eq!(requirements(&settings(&["six", "attrs", "six"])), requirements(&settings(&["attrs", "six"])));
    }

    #[test]
    fn options_are_refused() {
        for line in ["--index-url=http://x", "-r other.txt", "-e .", "a\n--hash"] {
            let error = requirements(&settings(&[line])).unwrap_err();
            assert!(error.contains("run.packages") && error.contains("hint:"), "{error}");
        }
    }
}
