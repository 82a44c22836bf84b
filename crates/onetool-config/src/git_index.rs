//! Determines which files of a folder came with a repository: those in git's index.
//!
//! The index is read as a file; `git` itself is never run, because a repository can make it run programs. If the index
//! cannot be parsed, everything counts as tracked, which is the safe answer. Names that some file system considers
//! equal count as equal: a repository with `.OneTool/` creates a `.onetool/` on a case-insensitive file system.
//!
//! Git writes the index after the files. While it is at work, every file may be one of its own, so everything counts as
//! tracked then too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A larger index is not read.
const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Maximum number of files in an index.
const MAX_ENTRIES: usize = 4_000_000;
/// How long to wait for a git command to finish. Most take milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
/// A larger list of references is not read.
const MAX_REFS_BYTES: u64 = 64 << 20;
/// Bytes of an entry before its object name, and of the flags after it.
const STAT_BYTES: usize = 40;
const FLAG_BYTES: usize = 2;

/// The tracked files of one repository.
#[derive(Debug, PartialEq)]
pub struct TrackedFiles {
    /// The folder that the names are relative to.
    root: PathBuf,
    names: Names,
    /// The lock of a git command that is at work.
    lock: Option<PathBuf>,
}

#[derive(Debug, PartialEq)]
enum Names {
    /// Files by their [`folded`] name; folders of a sparse index end in `/`.
    Known(HashSet<Vec<u8>>),
    /// The index could not be parsed, or is not written yet.
    Unknown,
}

impl TrackedFiles {
    /// Reads the index of the repository that contains `folder`; `None` if there is none.
    pub fn of(folder: &Path) -> Option<Self> {
        let folder = std::fs::canonicalize(folder).ok()?;
        let (root, git) = folder.ancestors().find_map(|root| Some((root.to_owned(), git_folder(root)?)))?;
        let lock = lock_after(&git, PATIENCE);
        let names = if lock.is_some() { None } else { read(&git) };
        Some(Self { root, names: names.map_or(Names::Unknown, Names::Known), lock })
    }

    /// The lock file of a git command that is at work, or that was interrupted.
    pub fn lock(&self) -> Option<&Path> {
        self.lock.as_deref()
    }

    /// The tracked names below a folder, relative to it and [`folded`]; an empty one if the folder itself came with the
    /// repository, as a link does. `None` if the index is unknown.
    pub fn names_below(&self, folder: &Path) -> Option<Vec<Vec<u8>>> {
        let Names::Known(names) = &self.names else { return None };
        let mut found = Vec::new();
        let above = folder.parent().and_then(|above| std::fs::canonicalize(above).ok());
        let beside = above.zip(folder.file_name()).map(|(above, name)| above.join(name));
        for place in beside.into_iter().chain(std::fs::canonicalize(folder)) {
            let Ok(relative) = place.strip_prefix(&self.root) else { continue };
            let mut start = folded(relative.as_os_str().as_encoded_bytes());
            if !start.is_empty() && self.contains_real(&place) {
                found.push(Vec::new());
            }
            if !start.is_empty() {
                start.push(b'/');
            }
            found.extend(names.iter().filter_map(|name| Some(name.strip_prefix(start.as_slice())?.to_vec())));
        }
        Some(found)
    }

    /// Whether a file is tracked: by its own name, by the name of its link target, or because a folder above it is a
    /// tracked link, wherever that leads.
    pub fn contains(&self, path: &Path) -> bool {
        if std::fs::canonicalize(path).is_ok_and(|real| self.contains_real(&real)) {
            return true;
        }
        path.ancestors().any(|part| {
            let folder = part.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
            folder.zip(part.file_name()).is_some_and(|(folder, name)| self.contains_real(&folder.join(name)))
        })
    }

    fn contains_real(&self, path: &Path) -> bool {
        let Ok(relative) = path.strip_prefix(&self.root) else { return false };
        let Names::Known(names) = &self.names else { return true };
        let name = folded(relative.as_os_str().as_encoded_bytes());
        names.contains(&name)
            || name.iter().enumerate().any(|(at, byte)| *byte == b'/' && names.contains(&name[..=at]))
            // A link among its parent folders, or a nested repository.
            || name.iter().enumerate().any(|(at, byte)| *byte == b'/' && names.contains(&name[..at]))
    }
}

/// Normalizes a name, so that names that any file system considers equal are equal: in one case, and without the
/// characters that some ignore.
pub(crate) fn folded(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let is_ignored = |letter: &char| matches!(letter, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let text = String::from_utf8_lossy(name);
    let letters = text.chars().filter(|letter| !is_ignored(letter));
    // Through upper case first, so that a long s becomes an s.
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>().into_bytes()
}

/// The folder with the index: `.git` itself, or the target of a linked work tree's `.git` file. An invalid `.git` file
/// is returned itself, and reading it fails.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    let metadata = std::fs::metadata(&git).ok()?;
    if metadata.is_dir() {
        return Some(git);
    }
    let text = std::fs::read_to_string(&git).ok().filter(|text| text.len() < 8192);
    let named = text.as_deref().and_then(|text| text.strip_prefix("gitdir:"));
    Some(named.map_or(git, |named| root.join(named.trim())))
}

/// The folder of a repository and the one that its work trees share, unless it is an ordinary `.git`.
pub fn separate_git_folders(folder: &Path) -> Vec<PathBuf> {
    let found = folder.ancestors().find_map(|root| Some((root.join(".git"), git_folder(root)?)));
    let Some((usual, git)) = found else { return Vec::new() };
    let is_usual = usual.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink()) && git == usual;
    if is_usual {
        return Vec::new();
    }
    let common = common_folder(&git);
    std::iter::once(git).chain(common).collect()
}

/// The folder that all work trees of a repository share, if it is another one.
fn common_folder(git: &Path) -> Option<PathBuf> {
    std::fs::read_to_string(git.join("commondir")).ok().map(|text| git.join(text.trim()))
}

/// The lock of the index, if it is still there after a while.
fn lock_after(git: &Path, patience: Duration) -> Option<PathBuf> {
    let lock = git.join("index.lock");
    let deadline = Instant::now() + patience;
    while lock.symlink_metadata().is_ok() {
        if Instant::now() >= deadline {
            return Some(lock);
        }
        std::thread::sleep(POLL);
    }
    None
}

/// Whether there is a commit that a checkout would take files from. If that cannot be told, there is one.
fn has_commit(git: &Path) -> bool {
    let Ok(head) = std::fs::read_to_string(git.join("HEAD")) else { return true };
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return true };
    let common = common_folder(git);
    let folders = || std::iter::once(git).chain(common.as_deref());
    // Other ways to store references are not read.
    if folders().any(|folder| folder.join("reftable").exists() || folder.join(branch).symlink_metadata().is_ok()) {
        return true;
    }
    folders().map(|folder| folder.join("packed-refs")).filter(|file| file.symlink_metadata().is_ok()).any(|file| {
        let is_small = std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() <= MAX_REFS_BYTES);
        let text = is_small.then(|| std::fs::read_to_string(&file).ok()).flatten();
        text.is_none_or(|text| text.lines().any(|line| line.split_once(' ').is_some_and(|(_, name)| name == branch)))
    })
}

/// The names in an index; empty if there is no index and nothing to check out. `None` if they are not known.
fn read(git: &Path) -> Option<HashSet<Vec<u8>>> {
    let mut names = HashSet::new();
    let id_bytes = object_id_bytes(git);
    let index = git.join("index");
    // A broken link does not count as a missing index.
    if std::fs::symlink_metadata(&index).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return (!has_commit(git)).then_some(names);
    }
    let shared = parse(&bytes_of(&index)?, id_bytes, &mut names)?;
    if let Some(id) = shared {
        parse(&bytes_of(&git.join(format!("sharedindex.{id}")))?, id_bytes, &mut names)?;
    }
    Some(names)
}

fn bytes_of(path: &Path) -> Option<Vec<u8>> {
    let length = std::fs::metadata(path).ok()?.len();
    (length <= MAX_INDEX_BYTES).then(|| std::fs::read(path).ok()).flatten()
}

/// Length of object ids in this repository.
fn object_id_bytes(git: &Path) -> usize {
    let common = common_folder(git);
    let config = std::fs::read_to_string(common.as_deref().unwrap_or(git).join("config")).unwrap_or_default();
    let config = config.to_ascii_lowercase();
    let is_long = config.lines().any(|line| line.trim().starts_with("objectformat") && line.contains("sha256"));
    if is_long { 32 } else { 20 }
}

/// Adds the names of one index file. Returns the id of its shared index, if it has one.
fn parse(data: &[u8], id_bytes: usize, names: &mut HashSet<Vec<u8>>) -> Option<Option<String>> {
    let number = |at: usize| Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
    if data.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(4)?;
    let count = number(8)? as usize;
    if !(2..=4).contains(&version) || count > MAX_ENTRIES {
        return None;
    }
    let mut at = 12;
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..count {
        let flags_at = at + STAT_BYTES + id_bytes;
        let flags = u16::from_be_bytes(data.get(flags_at..flags_at + FLAG_BYTES)?.try_into().ok()?);
        let is_extended = version >= 3 && flags & 0x4000 != 0;
        let mut name_at = flags_at + FLAG_BYTES + if is_extended { 2 } else { 0 };
        let mut name = if version == 4 {
            let (cut, used) = offset(data.get(name_at..)?)?;
            name_at += used;
            last.get(..last.len().checked_sub(cut)?)?.to_vec()
        } else {
            Vec::new()
        };
        let rest = data.get(name_at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..length]);
        // Before version 4, entries are padded with one to eight zero bytes to a multiple of eight.
        at = if version == 4 { name_at + length + 1 } else { at + (name_at + length - at + 8) / 8 * 8 };
        last.clone_from(&name);
        // An entry that replaces one of the shared index has no name of its own.
        if !name.is_empty() {
            names.insert(folded(&name));
        }
    }
    extension(data, at, id_bytes)
}

/// Parses a number in git's offset encoding: seven bits per byte, with the high bit for "more".
fn offset(data: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (index, byte) in data.iter().take(9).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
        value = value.checked_add(1)?;
    }
    None
}

/// The shared index that a `link` extension names.
fn extension(data: &[u8], mut at: usize, id_bytes: usize) -> Option<Option<String>> {
    while at + 8 <= data.len().saturating_sub(id_bytes) {
        let name = data.get(at..at + 4)?;
        let length = u32::from_be_bytes(data.get(at + 4..at + 8)?.try_into().ok()?) as usize;
        let body = data.get(at + 8..(at + 8).checked_add(length)?)?;
        if name == b"link" {
            let id = body.get(..id_bytes)?;
            return Some(Some(id.iter().map(|byte| format!("{byte:02x}")).collect()));
        }
        at += 8 + length;
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(status.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&status.stderr));
    }

    fn repository(arguments: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        git(&root, &[&["init", "-q"], arguments].concat());
        std::fs::create_dir_all(root.join("app/.onetool/tools")).unwrap();
        for name in ["app/.onetool/onetool.yaml", "app/.onetool/tools/a.py", "app/é.txt", "own.txt"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        git(&root, &["add", "app"]);
        (folder, root)
    }

    fn check(root: &Path) {
        let tracked = TrackedFiles::of(&root.join("app")).unwrap();
        for name in ["app/.onetool/onetool.yaml", "app/.onetool/tools/a.py", "app/é.txt"] {
            assert!(tracked.contains(&root.join(name)), "{name}");
        }
        for name in ["own.txt", "app/.onetool/tools/b.py"] {
            assert!(!tracked.contains(&root.join(name)), "{name}");
        }
    }

    #[test]
    fn every_version_of_the_index_is_read() {
        let (_folder, root) = repository(&[]);
        check(&root);
        for version in ["2", "3", "4"] {
            git(&root, &["update-index", "--index-version", version]);
            check(&root);
        }
        git(&root, &["add", "-N", "own.txt"]);
        let tracked = TrackedFiles::of(&root).unwrap();
        assert!(tracked.contains(&root.join("own.txt")), "with extended flags");
    }

    #[test]
    fn longer_object_names_linked_work_trees_and_split_indexes_are_read() {
        let (_folder, root) = repository(&["--object-format=sha256"]);
        check(&root);
        let (_folder, root) = repository(&[]);
        git(&root, &["commit", "-qm", "x"]);
        git(&root, &["worktree", "add", "-q", "linked"]);
        check(&root.join("linked"));
        git(&root, &["update-index", "--split-index"]);
        check(&root);
    }

    #[test]
    fn what_lies_behind_a_tracked_link_came_with_it() {
        let (_folder, root) = repository(&[]);
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("c.py"), "x").unwrap();
        let link = root.join("app/.onetool/tools/out");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        assert!(!TrackedFiles::of(&root).unwrap().contains(&link.join("c.py")), "the user's own link");
        git(&root, &["add", "app"]);
        assert!(TrackedFiles::of(&root).unwrap().contains(&link.join("c.py")));
    }

    #[test]
    fn what_cannot_be_understood_is_tracked() {
        let (_folder, root) = repository(&[]);
        std::fs::write(root.join(".git/index"), b"DIRC\0\0\0\x09garbage").unwrap();
        assert!(TrackedFiles::of(&root).unwrap().contains(&root.join("own.txt")));
        std::fs::remove_file(root.join(".git/index")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join(".git/index")).unwrap();
        assert!(TrackedFiles::of(&root).unwrap().contains(&root.join("own.txt")));
        std::fs::remove_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git"), "not a folder").unwrap();
        assert!(TrackedFiles::of(&root).unwrap().contains(&root.join("own.txt")));
        let empty = tempfile::tempdir().unwrap();
        git(empty.path(), &["init", "-q"]);
        assert!(!TrackedFiles::of(empty.path()).unwrap().contains(&empty.path().join("x")));
    }

    /// Git writes the index last, from a lock file: until then, its files look as if they were made here.
    #[test]
    fn a_clone_under_way_is_not_taken_for_hand_made_files() {
        let (_folder, root) = repository(&[]);
        git(&root, &["commit", "-qm", "x"]);
        let index = root.join(".git/index");
        let file = root.join("app/.onetool/onetool.yaml");
        std::fs::rename(&index, root.join(".git/index.lock")).unwrap();
        let tracked = TrackedFiles::of(&root).unwrap();
        assert!(tracked.contains(&file) && tracked.lock().is_some());
        // `git clone --no-checkout`, and files from it that were restored.
        std::fs::remove_file(root.join(".git/index.lock")).unwrap();
        let tracked = TrackedFiles::of(&root).unwrap();
        assert!(tracked.contains(&file) && tracked.lock().is_none());
        git(&root, &["pack-refs", "--all"]);
        assert!(TrackedFiles::of(&root).unwrap().contains(&file), "packed references");
        git(&root, &["reset", "-q"]);
        git(&root, &["checkout", "-q", "--detach"]);
        std::fs::remove_file(&index).unwrap();
        assert!(TrackedFiles::of(&root).unwrap().contains(&file), "a detached head");
    }

    #[test]
    fn a_separate_git_folder_is_known() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("app/deep")).unwrap();
        git(&root, &["init", "-q", "--separate-git-dir", "app/repo.d", "app"]);
        assert_eq!(separate_git_folders(&root.join("app/deep")), [root.join("app/repo.d")]);
        assert_eq!(separate_git_folders(&root), Vec::<PathBuf>::new());
    }

    /// On a case-insensitive file system these are the same files.
    #[test]
    fn a_name_that_some_file_system_takes_for_the_same_is_tracked() {
        let (_folder, root) = repository(&[]);
        let mine = root.join(".onetool/tools/mine.py");
        std::fs::create_dir_all(mine.parent().unwrap()).unwrap();
        std::fs::write(&mine, "x").unwrap();
        assert!(!TrackedFiles::of(&root).unwrap().contains(&mine));
        for folder in [".ONETOOL/tools", ".onetool/TOOLS", ".onetool/tool\u{17f}", ".one\u{200c}tool/tools"] {
            let theirs = root.join(folder);
            std::fs::create_dir_all(&theirs).unwrap();
            std::fs::write(theirs.join("mine.py"), "x").unwrap();
            git(&root, &["-c", "core.protectHFS=false", "add", &format!("{folder}/mine.py")]);
            assert!(TrackedFiles::of(&root).unwrap().contains(&mine), "{folder}");
            git(&root, &["rm", "-q", "-f", &format!("{folder}/mine.py")]);
            assert!(!TrackedFiles::of(&root).unwrap().contains(&mine), "{folder}");
        }
    }
}
