//! The command with which a client starts this program: a path that survives updates.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Cache folders of package runners, which may be emptied at any time.
const RUNNERS: &[(&str, &[&str])] = &[
    ("archive-v0", &["uvx", "onetool"]),
    ("environments-v2", &["uvx", "onetool"]),
    ("_npx", &["npx", "-y", "onetool"]),
];

/// The command that starts this program.
pub fn program() -> anyhow::Result<Vec<String>> {
    let executable = std::env::current_exe().context("cannot tell where onetool is")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(words(&executable, std::env::split_paths(&path)))
}

fn words(executable: &Path, path: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let has = |name: &str| executable.components().any(|part| part.as_os_str() == name);
    if let Some((_, words)) = RUNNERS.iter().find(|(folder, _)| has(folder)) {
        return words.iter().map(|&word| word.to_owned()).collect();
    }
    // A package manager keeps each version in its own folder, and a link to the newest in `PATH`.
    let real = executable.canonicalize().ok();
    let name = executable.file_name().unwrap_or_default();
    let on_path = path
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|link| real.is_some() && link.canonicalize().ok() == real);
    vec![on_path.unwrap_or_else(|| executable.to_owned()).display().to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_given_what_stays() {
        let none = std::iter::empty::<PathBuf>;
        assert_eq!(words(Path::new("/me/.cache/uv/archive-v0/x/bin/onetool"), none()), ["uvx", "onetool"]);
        assert_eq!(words(Path::new("/me/.npm/_npx/1/node_modules/x/bin/onetool"), none()), ["npx", "-y", "onetool"]);
        assert_eq!(words(Path::new("/opt/onetool"), none()), ["/opt/onetool"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_on_the_path_is_preferred() {
        let folder = tempfile::tempdir().unwrap();
        let (real, links) = (folder.path().join("1.0"), folder.path().join("bin"));
        std::fs::create_dir_all(&real).unwrap();
        std::fs::create_dir_all(&links).unwrap();
        std::fs::write(real.join("onetool"), "").unwrap();
        std::os::unix::fs::symlink(real.join("onetool"), links.join("onetool")).unwrap();
        let found = words(&real.join("onetool"), [PathBuf::from("."), links.clone()].into_iter());
        assert_eq!(found, [links.join("onetool").display().to_string()]);
    }
}
