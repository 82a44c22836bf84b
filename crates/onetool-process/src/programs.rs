//! Where programs are looked up.
//!
//! Programs are not looked up in folders that tools can write to: a tool could otherwise choose what runs outside the
//! sandbox. Such folders are left out of the search, and of the `PATH` that children inherit.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The folders of `PATH` that programs are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
    skipped: Vec<PathBuf>,
    /// The folders that tools may write to, as given and with links resolved.
    writable: Vec<PathBuf>,
}

/// Programs that other programs look up: a folder is skipped if one of these links to a folder that tools can write to.
const LOOKED_UP: &[&str] = &["python3", "python", "uv"];

impl Default for SearchPath {
    /// All of `PATH`.
    fn default() -> Self {
        Self::from_environment(&[])
    }
}

impl SearchPath {
    /// `PATH` without relative folders and without those at or below a folder that tools may write to.
    pub fn from_environment(writable: &[PathBuf]) -> Self {
        Self::new(&std::env::var_os("PATH").unwrap_or_default(), writable)
    }

    fn new(path: &OsStr, writable: &[PathBuf]) -> Self {
        let real = |folder: &Path| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let writable: Vec<PathBuf> = writable.iter().flat_map(|root| [root.clone(), real(root)]).collect();
        let is_below = |path: &Path| {
            let resolved = real(path);
            writable.iter().any(|root| path.starts_with(root) || resolved.starts_with(root))
        };
        let is_safe = |folder: &PathBuf| {
            let leads_there = || LOOKED_UP.iter().any(|name| is_below(&folder.join(name)));
            folder.is_absolute() && !is_below(folder) && !leads_there()
        };
        let (folders, skipped) = std::env::split_paths(path).partition(is_safe);
        Self { folders, skipped, writable }
    }

    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Finds a program by name, as an absolute path. A path is the user's own choice: it is only made absolute.
    pub fn find(&self, program: &OsStr) -> Result<PathBuf, ProgramError> {
        let shown = program.to_string_lossy().into_owned();
        let path = Path::new(program);
        if path.components().count() > 1 {
            return std::path::absolute(path).map_err(|_| ProgramError::Missing { program: shown });
        }
        if let Some(found) = find_in(&self.folders, path) {
            let real = std::fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
            if self.writable.iter().any(|root| real.starts_with(root)) {
                return Err(ProgramError::Writable { program: shown, found: real });
            }
            return Ok(found);
        }
        match find_in(&self.skipped, path) {
            Some(found) => Err(ProgramError::Writable { program: shown, found }),
            None => Err(ProgramError::Missing { program: shown }),
        }
    }

    /// The folders as a value for `PATH`.
    pub fn joined(&self) -> OsString {
        std::env::join_paths(&self.folders).unwrap_or_default()
    }
}

/// Why a program cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("'{program}' can't be started: it is not in PATH")]
    Missing { program: String },
    #[error(
        "'{program}' can't be started: it is only in {}, which tools may write to; name it by its absolute path to use it",
        found.parent().unwrap_or(found).display()
    )]
    Writable { program: String, found: PathBuf },
}

fn find_in(folders: &[PathBuf], program: &Path) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(program)).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn programs_are_not_taken_from_where_tools_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        let inside = program(&project.join(".venv/bin"), "python3");
        let outside = program(&root.join("usr/bin"), "python3");
        program(&project.join(".venv/bin"), "only-here");
        std::os::unix::fs::symlink(project.join(".venv/bin"), root.join("link")).unwrap();
        let path = std::env::join_paths([
            project.join(".venv/bin"),
            root.join("link"),
            PathBuf::from("relative"),
            root.join("usr/bin"),
        ])
        .unwrap();
        let search = SearchPath::new(&path, std::slice::from_ref(&project));
        assert_eq!(search.find(OsStr::new("python3")).unwrap(), outside);
        assert_eq!(search.joined(), root.join("usr/bin").into_os_string());
        assert!(matches!(search.find(OsStr::new("only-here")), Err(ProgramError::Writable { .. })));
        assert!(matches!(search.find(OsStr::new("nothing")), Err(ProgramError::Missing { .. })));
        // A link to a program in a writable folder is treated like the program.
        for (folder, name) in [("with-python", "python3"), ("with-other", "server")] {
            std::fs::create_dir(root.join(folder)).unwrap();
            std::os::unix::fs::symlink(&inside, root.join(folder).join(name)).unwrap();
        }
        let path = ["with-python", "with-other", "usr/bin"].map(|folder| root.join(folder));
        let links = SearchPath::new(&std::env::join_paths(path).unwrap(), std::slice::from_ref(&project));
        assert_eq!(links.find(OsStr::new("python3")).unwrap(), outside);
        assert!(matches!(links.find(OsStr::new("server")), Err(ProgramError::Writable { .. })));
        assert_eq!(links.folders(), [root.join("with-other"), root.join("usr/bin")]);
        assert_eq!(search.find(inside.as_os_str()).unwrap(), inside, "an absolute path is the user's own choice");
    }
}
