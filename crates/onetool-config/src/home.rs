//! The user's home folder.

use std::path::{Path, PathBuf};

/// `HOME`; if it is empty or relative, the home folder in the system's list of users. An empty one would make the user's
/// own folder one of the project's.
pub fn home_folder() -> Option<PathBuf> {
    match std::env::var_os("HOME").map(PathBuf::from) {
        Some(home) if home.is_absolute() => Some(home),
        Some(_) if cfg!(unix) => listed_home(),
        _ => std::env::home_dir().filter(|home| home.is_absolute()),
    }
}

#[cfg(unix)]
fn listed_home() -> Option<PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    home_in(&users, rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn listed_home() -> Option<PathBuf> {
    None
}

/// Lines of `name:password:user id:group id:comment:home:shell`.
#[cfg(unix)]
fn home_in(users: &str, id: u32) -> Option<PathBuf> {
    let line = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = line
        .filter(|fields| fields.get(2).is_some_and(|field| *field == id.to_string()))
        .find_map(|fields| fields.get(5).map(PathBuf::from))?;
    home.is_absolute().then_some(home)
}

/// Whether a folder is the home folder, or contains it.
pub fn contains_home(folder: &Path) -> bool {
    home_folder().is_some_and(|home| real(&home).starts_with(real(folder)))
}

pub(crate) fn is_home(folder: &Path) -> bool {
    home_folder().is_some_and(|home| real(&home) == real(folder))
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_home_folder_is_found_in_the_list_of_users() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\n# x\nbroken\nme:x:1000:1000:Me,,,:/home/me:/bin/zsh\nno:x:7:7::x:/bin/sh\n";
        assert_eq!(home_in(users, 1000), Some(PathBuf::from("/home/me")));
        assert_eq!(home_in(users, 0), Some(PathBuf::from("/root")));
        assert_eq!((home_in(users, 5), home_in(users, 7)), (None, None));
    }

    #[test]
    fn folders_above_the_home_folder_contain_it() {
        let home = home_folder().unwrap();
        assert!(contains_home(&home) && contains_home(home.parent().unwrap()) && contains_home(Path::new("/")));
        assert!(!contains_home(&home.join("work")));
    }
}
