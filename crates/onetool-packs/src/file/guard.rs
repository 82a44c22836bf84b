//! Guards the files that control this program: its configuration, secrets, tool files and stored state. No tool may
//! change them, and no tool may read those that contain secrets.
//!
//! A name does not identify a file: links, `--config`, `include` and `tools_dir` lead to the same file by other names.
//! Therefore each guarded file is known by the path as given, by its canonical path, and by device and inode.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum number of files below guarded folders that are compared by inode. Only needed for files with several names.
#[cfg(unix)]
const MAX_COMPARED_FILES: usize = 10_000;
/// Maximum number of files that are compared for one pattern. Only their names are read.
#[cfg(unix)]
const MAX_LISTED_FILES: usize = 100_000;

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
    /// Folders whose files do not count, by all their names.
    except: Vec<PathBuf>,
    /// How many folders deep such files may be, from the fixed part.
    depth: usize,
    access: Access,
    reason: Reason,
}

/// Why a pattern is guarded, for the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Governs,
    Imported,
    /// Would be imported if it existed.
    NewPackage,
}

impl Pattern {
    fn is_match(&self, path: &Path) -> bool {
        self.files.is_match(path) && !self.except.iter().any(|folder| path.starts_with(folder))
    }
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

    /// Protects every file below `base` that matches, even a future one. Only the pattern may have wildcards; it may also
    /// be an absolute path. A malformed pattern matches nothing.
    pub fn protect_matching(&mut self, base: &Path, pattern: &str) {
        self.add_matching(base, pattern, &[], Access::ReadOnly, Reason::Governs);
    }

    /// The same for files that tools may import.
    pub fn protect_imports(&mut self, base: &Path, pattern: &str) {
        self.add_matching(base, pattern, &[], Access::ReadOnly, Reason::Imported);
    }

    /// The same for files that would make a folder a package that tools may import, except in existing packages.
    pub fn protect_new_packages(&mut self, base: &Path, pattern: &str, existing: &[PathBuf]) {
        self.add_matching(base, pattern, existing, Access::ReadOnly, Reason::NewPackage);
    }

    /// The same, but the files may not be read either.
    pub fn hide_matching(&mut self, base: &Path, pattern: &str) {
        self.add_matching(base, pattern, &[], Access::Hidden, Reason::Governs);
    }

    fn add_matching(&mut self, base: &Path, pattern: &str, except: &[PathBuf], access: Access, reason: Reason) {
        let folder = fixed_part(Path::new(pattern));
        let rest = Path::new(pattern).strip_prefix(&folder).unwrap_or(Path::new(pattern)).to_owned();
        let fixed = names_of(&base.join(&folder));
        // `*/*.py`: the files, and the folders that lead to them.
        let parts: Vec<PathBuf> =
            rest.ancestors().map(Path::to_owned).filter(|part| part.iter().next().is_some()).collect();
        let Some((files, folders)) = parts.split_first() else { return };
        let depth = if pattern.contains("**") { usize::MAX } else { folders.len() };
        let set = |parts: &[PathBuf]| {
            let mut set = GlobSetBuilder::new();
            for (name, part) in fixed.iter().flat_map(|name| parts.iter().map(move |part| (name, part))) {
                let pattern = format!("{}{}", globset::escape(&name.join("").to_string_lossy()), part.display());
                set.add(GlobBuilder::new(&pattern).literal_separator(true).build().ok()?);
            }
            set.build().ok()
        };
        let except = except.iter().flat_map(|folder| names_of(folder)).collect();
        if let (Some(files), Some(folders)) = (set(std::slice::from_ref(files)), set(folders)) {
            self.patterns.push(Pattern { files, folders, fixed, except, depth, access, reason });
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
            || self.patterns.iter().any(|pattern| pattern.is_match(path))
            || self.is_another_name(path, |_| true)
    }

    /// Whether nothing may be written in this folder. Writing in folders above guarded ones is allowed.
    pub(super) fn forbids_writing_in(&self, folder: &Path) -> bool {
        self.items.iter().any(|item| item.names.iter().any(|name| folder.starts_with(name)))
            || self.patterns.iter().any(|pattern| pattern.is_match(folder))
    }

    /// Whether a folder, or a link to one, may not be moved to or from this path: the move could add or remove files
    /// that match a pattern.
    pub(super) fn forbids_moving_folder(&self, path: &Path) -> bool {
        // An existing folder is not a new package.
        let counts = |pattern: &Pattern| pattern.reason != Reason::NewPackage || !path.exists();
        self.patterns.iter().any(|pattern| {
            pattern.folders.is_match(path) && counts(pattern)
                || pattern.fixed.iter().any(|fixed| fixed.starts_with(path))
        })
    }

    /// Whether this path may not be read.
    pub(super) fn forbids_reading(&self, path: &Path) -> bool {
        let is_hidden = |item: &Item| item.access == Access::Hidden;
        self.items
            .iter()
            .filter(|item| is_hidden(item))
            .any(|item| item.names.iter().any(|name| path.starts_with(name)))
            || self.patterns.iter().any(|pattern| pattern.access == Access::Hidden && pattern.is_match(path))
            || self.is_another_name(path, is_hidden)
    }

    /// Whether a protected path is protected because tools may import it.
    pub(super) fn is_import(&self, path: &Path) -> bool {
        self.patterns.iter().any(|pattern| pattern.reason != Reason::Governs && pattern.is_match(path))
    }

    /// Whether a file with several hard links is a guarded one under another name. Of the files guarded by pattern, only
    /// the hidden ones are compared.
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
            || self
                .patterns
                .iter()
                .filter(|pattern| pattern.access == Access::Hidden)
                .filter_map(|pattern| Some((pattern, pattern.fixed.last()?)))
                .any(|(pattern, folder)| has_match(pattern, folder, pattern.depth, identity, &mut { MAX_LISTED_FILES }))
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

/// Whether a file that matches the pattern, in this folder or as deep below it, is this file.
#[cfg(unix)]
fn has_match(pattern: &Pattern, folder: &Path, depth: usize, identity: (u64, u64), left: &mut usize) -> bool {
    use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    for entry in entries.flatten() {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 && has_match(pattern, &entry.path(), depth - 1, identity, left) {
                return true;
            }
        } else if entry.ino() == identity.1
            && pattern.is_match(&entry.path())
            && entry.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == identity)
        {
            return true;
        }
    }
    false
}

/// The names of `path`: as given, without `..`, with its folder resolved, and with everything resolved. The last one is
/// the most resolved.
fn names_of(path: &Path) -> Vec<PathBuf> {
    let given = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut names = vec![given.clone()];
    // `missing/../file` can't be resolved yet. It is `file` once there is a folder `missing`, and something else if that
    // is a link: so neither may be created.
    if given.components().any(|part| part == Component::ParentDir) {
        let mut clean = PathBuf::new();
        for part in given.components() {
            if part == Component::ParentDir {
                if clean.symlink_metadata().is_err() {
                    names.extend([clean.clone(), resolved(&clean)]);
                }
                clean.pop();
            } else {
                clean.push(part);
            }
        }
        names.extend([clean.clone(), resolved(&clean)]);
    }
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
        guard.protect_matching(&folder, "tools/*.py");
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
        guard.protect_matching(&folder, "packs/*/*_tools.py");
        guard.protect_matching(&folder, "deep/**/x.py");
        guard.protect_matching(&folder, "*.py");
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
        guard.hide_matching(&folder, "*secrets.yaml*");
        for name in ["secrets.yaml~", "secrets.yaml.bak", ".secrets.yaml.swp"] {
            assert!(guard.forbids_reading(&folder.join(name)), "{name}");
            assert!(guard.forbids_change(&folder.join(name)), "{name}");
        }
        assert!(!guard.forbids_reading(&folder.join("other.yaml")));
        for (file, other) in [("secrets.yaml.bak", "hard.txt"), ("plain.txt", "plain_too.txt")] {
            std::fs::write(folder.join(file), "x").unwrap();
            std::fs::hard_link(folder.join(file), folder.join(other)).unwrap();
        }
        assert!(guard.forbids_reading(&folder.join("hard.txt")), "a hard link to a copy");
        assert!(!guard.forbids_reading(&folder.join("plain_too.txt")));
    }

    #[test]
    fn a_path_through_a_missing_folder_is_guarded_where_it_will_lead() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("conf")).unwrap();
        let mut guard = Guard::default();
        guard.protect(folder.join("conf/../missing/../later.yaml"));
        for name in ["later.yaml", "missing"] {
            assert!(guard.forbids_change(&folder.join(name)), "{name}");
        }
        assert!(!guard.forbids_change(&folder.join("other.yaml")));
    }

    #[test]
    fn brackets_in_the_name_of_the_project_are_no_wildcards() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("a[b]{c}*");
        std::fs::create_dir(&project).unwrap();
        let mut guard = Guard::default();
        guard.protect_matching(&project, "tools/*.py");
        guard.hide_matching(&project, "*secrets.yaml*");
        assert!(guard.forbids_change(&project.join("tools/x.py")));
        assert!(guard.forbids_reading(&project.join("secrets.yaml~")));
    }

    #[test]
    fn imports_are_protected_except_in_other_packages() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let mut guard = Guard::default();
        std::fs::create_dir(folder.join("data")).unwrap();
        guard.protect_new_packages(&folder, "*/__init__.py", &[folder.join("app")]);
        assert!(
            guard.forbids_change(&folder.join("new/__init__.py")) && guard.is_import(&folder.join("new/__init__.py"))
        );
        assert!(!guard.forbids_change(&folder.join("app/__init__.py")));
        assert!(!guard.forbids_change(&folder.join("new/data.json")));
        assert!(guard.forbids_moving_folder(&folder.join("new")) && !guard.forbids_moving_folder(&folder.join("data")));
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
