//! Guards the files that control this program: its configuration, secrets, tool files and stored state. No tool may
//! change them, and no tool may read those that contain secrets.
//!
//! A name does not identify a file: links, `--config`, `include` and `tools_dir` lead to the same file by other names.
//! Therefore each guarded file is known by the path as given, by its canonical path, and by device and inode.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum number of files below guarded folders that are compared by inode. Only needed for files with several names.
#[cfg(unix)]
const MAX_COMPARED_FILES: usize = 10_000;

/// The allowed access to a guarded path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    Hidden,
}

#[derive(Debug, Clone)]
struct Item {
    /// The path as given, the same with its folder resolved, and the path with all links resolved.
    names: Vec<PathBuf>,
    access: Access,
}

/// The paths that the tools of this pack must not touch.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    items: Vec<Item>,
    patterns: Vec<Pattern>,
}

/// Files that are guarded by name.
#[derive(Debug, Clone)]
struct Pattern {
    files: GlobSet,
    /// Folders that may contain such files, below the first wildcard.
    folders: GlobSet,
    /// The part without wildcards, by all its names.
    fixed: Vec<PathBuf>,
    access: Access,
}

impl Guard {
    /// Protects a file, or a folder with everything in it, against changes.
    pub fn protect(&mut self, path: impl AsRef<Path>) {
        self.add(path.as_ref(), Access::ReadOnly);
    }

    /// Protects a file, or a folder with everything in it, against reading too.
    pub fn hide(&mut self, path: impl AsRef<Path>) {
        self.add(path.as_ref(), Access::Hidden);
    }

    /// Protects every file whose absolute path matches, even a future one. A malformed pattern matches nothing.
    pub fn protect_matching(&mut self, pattern: &str) {
        self.add_matching(pattern, Access::ReadOnly);
    }

    /// The same, but the files may not be read either.
    pub fn hide_matching(&mut self, pattern: &str) {
        self.add_matching(pattern, Access::Hidden);
    }

    fn add_matching(&mut self, pattern: &str, access: Access) {
        let folder = fixed_part(Path::new(pattern));
        let rest = Path::new(pattern).strip_prefix(&folder).unwrap_or(Path::new(pattern)).to_owned();
        let fixed = names_of(&folder);
        // `*/*.py`: the files, and the folders that lead to them.
        let parts: Vec<PathBuf> =
            rest.ancestors().map(Path::to_owned).filter(|part| part.iter().next().is_some()).collect();
        let Some((files, folders)) = parts.split_first() else { return };
        let set = |parts: &[PathBuf]| {
            let mut set = GlobSetBuilder::new();
            for (name, part) in fixed.iter().flat_map(|name| parts.iter().map(move |part| (name, part))) {
                let pattern = format!("{}{}", globset::escape(&name.join("").to_string_lossy()), part.display());
                set.add(GlobBuilder::new(&pattern).literal_separator(true).build().ok()?);
            }
            set.build().ok()
        };
        if let (Some(files), Some(folders)) = (set(std::slice::from_ref(files)), set(folders)) {
            self.patterns.push(Pattern { files, folders, fixed, access });
        }
    }

    fn add(&mut self, path: &Path, access: Access) {
        self.items.push(Item { names: names_of(path), access });
    }

    /// Whether this path may not be written, replaced, moved or deleted. Folders above guarded ones may not be moved or
    /// deleted either.
    pub(super) fn forbids_change(&self, path: &Path) -> bool {
        let touches = |name: &PathBuf| path.starts_with(name) || name.starts_with(path);
        self.items.iter().any(|item| item.names.iter().any(touches))
            || self.patterns.iter().any(|pattern| pattern.files.is_match(path))
            || self.is_another_name(path, |_| true)
    }

    /// Whether nothing may be written in this folder. Writing in folders above guarded ones is allowed.
    pub(super) fn forbids_writing_in(&self, folder: &Path) -> bool {
        self.items.iter().any(|item| item.names.iter().any(|name| folder.starts_with(name)))
            || self.patterns.iter().any(|pattern| pattern.files.is_match(folder))
    }

    /// Whether a folder, or a link to one, may not be moved to or from this path: the move could add or remove files
    /// that match a pattern.
    pub(super) fn forbids_moving_folder(&self, path: &Path) -> bool {
        self.patterns
            .iter()
            .any(|pattern| pattern.folders.is_match(path) || pattern.fixed.iter().any(|fixed| fixed.starts_with(path)))
    }

    /// Whether this path may not be read.
    pub(super) fn forbids_reading(&self, path: &Path) -> bool {
        let is_hidden = |item: &Item| item.access == Access::Hidden;
        self.items
            .iter()
            .filter(|item| is_hidden(item))
            .any(|item| item.names.iter().any(|name| path.starts_with(name)))
            || self.patterns.iter().any(|pattern| pattern.access == Access::Hidden && pattern.files.is_match(path))
            || self.is_another_name(path, is_hidden)
    }

    /// Whether a file with several hard links is a guarded one under another name.
    #[cfg(unix)]
    fn is_another_name(&self, path: &Path, counts: impl Fn(&Item) -> bool) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
        if !metadata.is_file() || metadata.nlink() < 2 {
            return false;
        }
        let identity = (metadata.dev(), metadata.ino());
        let mut left = MAX_COMPARED_FILES;
        self.items
            .iter()
            .filter(|item| counts(item))
            .filter_map(|item| item.names.last())
            .any(|name| holds_file(name, identity, &mut left))
    }

    #[cfg(not(unix))]
    fn is_another_name(&self, _: &Path, _: impl Fn(&Item) -> bool) -> bool {
        false
    }
}

/// Whether `path` is this file, or a folder that contains it.
#[cfg(unix)]
fn holds_file(path: &Path, identity: (u64, u64), left: &mut usize) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    if *left == 0 {
        // Too many to compare: assume a match.
        return true;
    }
    *left -= 1;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
    if metadata.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        return entries.flatten().any(|entry| holds_file(&entry.path(), identity, left));
    }
    (metadata.dev(), metadata.ino()) == identity
}

/// The names of `path`: as given, with its folder resolved, and with everything resolved. The last one is the most
/// resolved.
fn names_of(path: &Path) -> Vec<PathBuf> {
    let given = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut names = vec![given.clone()];
    if let (Some(folder), Some(name)) = (given.parent(), given.file_name()) {
        names.push(resolved(folder).join(name));
    }
    names.push(resolved(&given));
    names.dedup();
    names
}

/// The path with links resolved as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => resolved(folder).join(name),
        _ => path.to_owned(),
    }
}

/// The leading folders of a pattern that contain no wildcard.
fn fixed_part(pattern: &Path) -> PathBuf {
    let is_wild = |part: &std::path::Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let fixed: PathBuf = pattern.components().take_while(|part| !is_wild(part)).collect();
    if fixed == pattern { fixed.parent().map(Path::to_owned).unwrap_or_default() } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_file_is_known_by_every_name_that_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("real/sub")).unwrap();
        std::fs::write(folder.join("real/sub/conf.yaml"), "x").unwrap();
        std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
        std::fs::hard_link(folder.join("real/sub/conf.yaml"), folder.join("twin.yaml")).unwrap();
        std::fs::write(folder.join("other.yaml"), "x").unwrap();
        let mut guard = Guard::default();
        guard.hide(folder.join("link/sub/conf.yaml"));
        for name in ["link/sub/conf.yaml", "real/sub/conf.yaml", "twin.yaml"] {
            assert!(guard.forbids_reading(&folder.join(name)), "{name}");
            assert!(guard.forbids_change(&folder.join(name)), "{name}");
        }
        // Folders above may be read, but not moved.
        for name in ["real", "real/sub"] {
            assert!(!guard.forbids_reading(&folder.join(name)), "{name}");
            assert!(guard.forbids_change(&folder.join(name)), "{name}");
        }
        assert!(!guard.forbids_change(&folder.join("other.yaml")));
        assert!(!guard.forbids_change(&folder.join("real/sub/other.yaml")));
    }

    #[test]
    fn what_a_pattern_would_load_cannot_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let mut guard = Guard::default();
        guard.protect_matching(&folder.join("tools/*.py").display().to_string());
        assert!(guard.forbids_change(&folder.join("tools/new.py")));
        assert!(!guard.forbids_change(&folder.join("tools/new.txt")));
        assert!(!guard.forbids_change(&folder.join("src/new.py")));
        assert!(!guard.forbids_reading(&folder.join("tools/new.py")));
    }

    #[test]
    fn folders_do_not_carry_files_to_or_from_where_a_pattern_loads_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let mut guard = Guard::default();
        guard.protect_matching(&folder.join("packs/*/*_tools.py").display().to_string());
        guard.protect_matching(&folder.join("deep/**/x.py").display().to_string());
        guard.protect_matching(&folder.join("*.py").display().to_string());
        for name in ["packs", "packs/evil", "deep", "deep/a", "deep/a/b/c"] {
            assert!(guard.forbids_moving_folder(&folder.join(name)), "{name}");
        }
        for name in ["src", "packs2", "packs/evil/data", "src/packs/evil"] {
            assert!(!guard.forbids_moving_folder(&folder.join(name)), "{name}");
        }
        assert!(!guard.forbids_change(&folder.join("packs/notes.md")), "other files are free");
    }

    #[test]
    fn a_file_may_be_hidden_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let mut guard = Guard::default();
        guard.hide_matching(&folder.join("*secrets.yaml*").display().to_string());
        for name in ["secrets.yaml~", "secrets.yaml.bak", ".secrets.yaml.swp"] {
            assert!(guard.forbids_reading(&folder.join(name)), "{name}");
            assert!(guard.forbids_change(&folder.join(name)), "{name}");
        }
        assert!(!guard.forbids_reading(&folder.join("other.yaml")));
    }

    #[test]
    fn a_link_that_is_guarded_cannot_be_replaced_itself() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.join("elsewhere"), folder.join(".onetool")).unwrap();
        let mut guard = Guard::default();
        guard.protect(folder.join(".onetool"));
        assert!(guard.forbids_change(&folder.join(".onetool")));
        assert!(guard.forbids_change(&folder.join("elsewhere/onetool.yaml")));
        assert!(guard.forbids_change(&folder.join("elsewhere")));
    }
}
