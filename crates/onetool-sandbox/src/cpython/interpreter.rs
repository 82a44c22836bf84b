//! Finds the Python that the engine runs, and the files it must be able to read.
//!
//! The first `python3` on the path may be a script that picks another one. So a candidate in an unusual location (see
//! `layout`) is started once, outside the sandbox and with only a few lines of our own, to print its real executable,
//! its library and the shared objects it loads.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use super::layout;

const OLDEST: (u32, u32) = (3, 10);
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long `uv` may take to install an interpreter.
const INSTALL_TIMEOUT: Duration = Duration::from_mins(5);
const MAX_CANDIDATES: usize = 12;

/// Modules that load shared objects, whose folders must be known.
pub(super) const SHARED_MODULES: [&str; 10] =
    ["_ctypes", "_ssl", "_hashlib", "_sqlite3", "_lzma", "_bz2", "zlib", "_decimal", "_uuid", "_socket"];

/// Prints a [`Description`]. Its arguments are [`SHARED_MODULES`].
const DESCRIBE: &str = r#"
import json, os, sys
for name in sys.argv[1:]:
    try:
        __import__(name)
    except ImportError:
        pass
objects = set()
try:
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")
            if path[1] and ".so" in path[2]:
                objects.add("/" + path[2])
except OSError:
    pass
library = os.path.dirname(os.path.realpath(os.__file__))
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": list(sys.version_info[:2]),
    "implementation": sys.implementation.name,
    "library": [library] + [os.path.realpath(path) for path in sys.path if path],
    "objects": sorted(objects),
}))
"#;

/// Files of the system that Python's own library reads.
const SYSTEM_FILES: &[&str] =
    &["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/dev/null", "/dev/urandom"];

/// A Python that can run programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interpreter {
    pub(super) version: (u32, u32),
    pub(super) executable: PathBuf,
    /// Files and folders that it may read.
    pub(super) read: Vec<PathBuf>,
    /// Files that the kernel may execute: the interpreter and the dynamic loader.
    pub(super) execute: Vec<PathBuf>,
}

/// An interpreter's description of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Description {
    pub(super) executable: PathBuf,
    pub(super) version: (u32, u32),
    pub(super) implementation: String,
    pub(super) library: Vec<PathBuf>,
    /// Shared objects that it loads.
    pub(super) objects: Vec<PathBuf>,
}

/// Returns the named interpreter, or the first on the path that is new enough. The error says what was tried.
pub(super) async fn find(named: Option<&Path>, folders: &[PathBuf]) -> Result<Interpreter, String> {
    let candidates = match named {
        Some(version) if is_version(version) => return of_version(&version.to_string_lossy(), folders).await,
        Some(name) if name.components().count() == 1 => on_path(&[name], folders),
        Some(path) => vec![path.to_owned()],
        None => on_path(&[Path::new("python3"), Path::new("python")], folders),
    };
    let mut refused = Vec::new();
    for candidate in candidates {
        let candidate = behind_shim(&candidate, std::env::var("PYENV_VERSION").ok()).unwrap_or(candidate);
        match probe(&candidate).await {
            Ok(interpreter) => return Ok(interpreter),
            Err(reason) => refused.push(format!("{}: {reason}", candidate.display())),
        }
    }
    let tried = if refused.is_empty() { "no python3 on the path".to_owned() } else { refused.join("; ") };
    let (major, minor) = OLDEST;
    Err(format!(
        "no usable Python interpreter ({tried})\nhint: install Python {major}.{minor} or newer, or name one in the configuration"
    ))
}

/// Whether the settings name a version, such as `3.13`, rather than a file.
pub(super) fn is_version(named: &Path) -> bool {
    let text = named.to_string_lossy();
    let parts: Vec<&str> = text.split('.').collect();
    (2..=3).contains(&parts.len())
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()))
}

/// Returns an interpreter of this version: an installed one, or the one that `uv` has or downloads.
async fn of_version(version: &str, folders: &[PathBuf]) -> Result<Interpreter, String> {
    let minor = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut installed = Vec::new();
    if minor == version {
        installed = on_path(&[Path::new(&format!("python{minor}"))], folders);
    }
    installed.extend(of_pyenv(version, &minor, folders));
    for candidate in installed {
        if let Some(interpreter) = probe_version(&candidate, version).await {
            return Ok(interpreter);
        }
    }
    let failed = |reason: &str| {
        format!(
            "no Python {version} ({reason})\nhint: install it with `uv python install {version}`, or set run.python to a file"
        )
    };
    let Some(uv) = on_path(&[Path::new("uv")], folders).into_iter().next() else {
        return Err(failed("uv, which would install it, is not in PATH"));
    };
    let find = ["python", "find", "--no-config", "--no-project"];
    let find_own = ["python", "find", "--no-config", "--no-project", "--managed-python"];
    let install = ["python", "install", "--no-config", "--quiet"];
    let mut reason = String::new();
    for (arguments, time) in [
        (&find[..], PROBE_TIMEOUT),
        (&find_own, PROBE_TIMEOUT),
        (&install, INSTALL_TIMEOUT),
        (&find_own, PROBE_TIMEOUT),
    ] {
        match ask_uv(&uv, arguments, version, time).await {
            Ok(path) if arguments[1] == "find" => {
                if let Some(interpreter) = probe_version(Path::new(path.trim()), version).await {
                    return Ok(interpreter);
                }
            }
            Ok(_) => {}
            Err(why) => reason = why,
        }
    }
    Err(failed(&reason))
}

/// Returns pyenv's interpreters whose version has this prefix. The shims in PATH serve only the chosen version.
fn of_pyenv(version: &str, minor: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = folders
        .iter()
        .filter(|folder| folder.ends_with(".pyenv/shims"))
        .filter_map(|folder| std::fs::read_dir(folder.parent()?.join("versions")).ok())
        .flat_map(|entries| entries.flatten().take(MAX_CANDIDATES * 8))
        .filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .map(|entry| entry.path().join("bin").join(format!("python{minor}")))
        .collect();
    found.sort();
    found
}

/// Returns the interpreter that a pyenv shim would start, if that is easy to determine: running the script takes longer
/// than running the interpreter. `chosen` is the version that the environment names.
fn behind_shim(candidate: &Path, chosen: Option<String>) -> Option<PathBuf> {
    let shims = candidate.parent().filter(|folder| folder.ends_with("shims"))?;
    let root = shims.parent()?;
    // A folder may choose another version; the script would run in `/`.
    if Path::new("/.python-version").exists() {
        return None;
    }
    let chosen = match chosen {
        Some(version) => version,
        None => std::fs::read_to_string(root.join("version")).ok()?,
    };
    let version = Path::new(chosen.lines().next()?.trim());
    let is_plain = version.components().count() == 1 && version.file_name().is_some();
    let interpreter = root.join("versions").join(version).join("bin").join(candidate.file_name()?);
    (is_plain && interpreter.is_file()).then_some(interpreter)
}

/// Returns the interpreter at a path if it has this version.
async fn probe_version(candidate: &Path, version: &str) -> Option<Interpreter> {
    let interpreter = probe(candidate).await.ok()?;
    let (major, minor) = interpreter.version;
    let is_it = version.split('.').take(2).eq([major.to_string(), minor.to_string()]);
    is_it.then_some(interpreter)
}

/// Runs `uv` with a version as the last argument and returns its output.
async fn ask_uv(uv: &Path, arguments: &[&str], version: &str, time: Duration) -> Result<String, String> {
    let mut command = Command::new(uv);
    command.args(arguments).arg(version).current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(time, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Ok(Err(error)) => Err(format!("uv: {error}")),
        Err(_) => Err(format!("uv gave no answer in {} s", time.as_secs())),
    }
}

fn on_path(names: &[&Path], folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for name in names {
        for candidate in folders.iter().map(|folder| folder.join(name)) {
            if found.len() < MAX_CANDIDATES && candidate.is_file() && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
    }
    found
}

async fn probe(candidate: &Path) -> Result<Interpreter, String> {
    let description = match layout::describe(candidate) {
        Some(description) => description,
        None => ask(candidate).await?,
    };
    if description.implementation != "cpython" {
        return Err(format!("is {}, not CPython", description.implementation));
    }
    if description.version < OLDEST {
        return Err(format!("is Python {}.{}", description.version.0, description.version.1));
    }
    Ok(resolve(description))
}

/// Starts an interpreter and returns its description.
pub(super) async fn ask(candidate: &Path) -> Result<Description, String> {
    let mut command = Command::new(candidate);
    command.args(["-I", "-S", "-B", "-c", DESCRIBE]).args(SHARED_MODULES);
    command.current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROBE_TIMEOUT, command.output())
        .await
        .map_err(|_| format!("gave no answer in {} s", PROBE_TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("ended with {}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|_| "gave no description of itself".to_owned())
}

pub(super) fn resolve(description: Description) -> Interpreter {
    let mut read: Vec<PathBuf> = SYSTEM_FILES.iter().map(PathBuf::from).collect();
    read.extend(description.library);
    let mut execute = vec![description.executable.clone()];
    for object in &description.objects {
        let name = object.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if (name.starts_with("ld-") || name.starts_with("ld.")) && !execute.contains(object) {
            execute.push(object.clone());
        }
        read.extend(object.parent().map(Path::to_owned));
    }
    read.push(description.executable.clone());
    read.retain(|path| path.parent().is_some());
    read.sort();
    read.dedup();
    Interpreter { version: description.version, executable: description.executable, read, execute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_python_is_refused_with_the_reason() {
        let error = find(Some(Path::new("/bin/cat")), &[]).await.unwrap_err();
        assert!(error.contains("/bin/cat") && error.contains("hint:"), "{error}");
    }

    #[test]
    fn a_version_is_told_from_a_file() {
        for version in ["3.13", "3.12.1"] {
            assert!(is_version(Path::new(version)), "{version}");
        }
        for file in ["/usr/bin/python3.11", "python3", "3", "3.x", ""] {
            assert!(!is_version(Path::new(file)), "{file}");
        }
    }

    #[tokio::test]
    async fn a_version_that_is_installed_is_found_without_uv() {
        let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
        let (major, minor) = find(None, &folders).await.unwrap().version;
        let without_uv: Vec<PathBuf> = folders.into_iter().filter(|folder| !folder.join("uv").exists()).collect();
        let found = find(Some(Path::new(&format!("{major}.{minor}"))), &without_uv).await.unwrap();
        assert_eq!(found.version, (major, minor));
        let error = find(Some(Path::new("3.98")), &without_uv).await.unwrap_err();
        assert!(error.contains("no Python 3.98") && error.contains("hint:"), "{error}");
    }

    /// The pyenv shims in PATH fail for every version but the chosen one.
    #[cfg(unix)]
    #[tokio::test]
    async fn versions_of_pyenv_are_found_behind_its_stand_ins() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
        let real = find(None, &folders).await.unwrap();
        let version = format!("{}.{}", real.version.0, real.version.1);
        let home = tempfile::tempdir().unwrap();
        let shims = home.path().join(".pyenv/shims");
        let installed = home.path().join(format!(".pyenv/versions/{version}.99/bin"));
        for folder in [&shims, &installed] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let shim = shims.join(format!("python{version}"));
        std::fs::write(&shim, "#!/bin/sh\nexit 127\n").unwrap();
        std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&real.executable, installed.join(format!("python{version}"))).unwrap();
        assert_eq!(find(Some(Path::new(&version)), &[shims]).await.unwrap().version, real.version);
    }

    #[cfg(unix)]
    #[test]
    fn the_interpreter_behind_a_stand_in_of_pyenv_is_asked_itself() {
        let root = tempfile::tempdir().unwrap();
        let (shim, installed) = (root.path().join("shims/python3"), root.path().join("versions/3.12.1/bin/python3"));
        for file in [&shim, &installed] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        assert_eq!(behind_shim(&shim, None), None, "nothing is chosen");
        for (chosen, expected) in
            [("3.12.1\n", Some(&installed)), ("system\n", None), ("../../etc\n", None), ("..\n", None), ("", None)]
        {
            std::fs::write(root.path().join("version"), chosen).unwrap();
            assert_eq!(behind_shim(&shim, None).as_ref(), expected, "{chosen:?}");
        }
        assert_eq!(behind_shim(&shim, Some("3.12.1".to_owned())), Some(installed.clone()));
        assert_eq!(behind_shim(&installed, None), None, "not a stand-in");
    }

    #[test]
    fn the_root_is_never_readable() {
        let description = Description {
            executable: "/opt/python/bin/python3".into(),
            version: (3, 12),
            implementation: "cpython".into(),
            library: vec!["/".into(), "/opt/python/lib/python3.12".into()],
            objects: vec!["/lib/ld-musl-x86_64.so.1".into()],
        };
        let found = resolve(description);
        assert!(!found.read.contains(&PathBuf::from("/")), "{found:?}");
        assert!(found.execute.contains(&PathBuf::from("/lib/ld-musl-x86_64.so.1")), "{found:?}");
    }
}
