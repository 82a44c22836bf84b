//! Detects changes in a folder of documents.
//!
//! A usual scan checks the folders' times, and the files of folders that changed: every atomic replacement changes its
//! folder. A thorough scan checks every file, and so also sees edits made in place. A file so recent that its stamp
//! proves nothing is read again. Each difference gets the next number, so that later readers can ask for what came
//! after.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::DocumentFolder;
use super::stamp::{FolderStamp, Stamp};
use crate::interface::{Cursor, Effort, Key, Revision};

/// Temporary files left by a killed process are removed after this long.
const TEMPORARY_AGE: Duration = Duration::from_hours(1);
/// Maximum number of removals remembered. A reader that is further behind gets everything.
const REMEMBERED: usize = 10_000;
/// Folder for documents that were set aside.
pub(super) const QUARANTINE: &str = "quarantine";

/// How the files last looked.
#[derive(Debug, Default)]
pub(super) struct Index {
    root: Option<FolderStamp>,
    folders: HashMap<String, Option<FolderStamp>>,
    pub(super) known: BTreeMap<Key, Known>,
    /// Removed documents, and the number of their removal.
    pub(super) gone: BTreeMap<Key, u64>,
    /// Files that are not documents, and the number at which they were found.
    pub(super) foreign: BTreeMap<PathBuf, u64>,
    /// A batch of documents is being created, or was interrupted.
    pub(super) has_batch: bool,
    /// Removals up to this number are forgotten.
    pub(super) floor: u64,
    pub(super) sequence: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    /// `None` makes the next scan treat the file as changed.
    pub(super) stamp: Option<Stamp>,
    /// The stamp was taken so soon after a change that it proves nothing.
    pub(super) is_racy: bool,
    /// The revision last given to readers.
    pub(super) revision: Option<Revision>,
    pub(super) sequence: u64,
}

impl Index {
    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor(self.sequence)
    }

    /// Makes the next scan list the folder of this key, whatever its time.
    pub(super) fn distrust(&mut self, key: &Key) {
        self.root = None;
        if let Some(seen) = key.folder().and_then(|folder| self.folders.get_mut(folder)) {
            *seen = None;
        }
    }

    /// Makes the next scan of every kind list everything.
    pub(super) fn distrust_all(&mut self) {
        self.root = None;
        self.folders.values_mut().for_each(|seen| *seen = None);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if self.known.remove(key).is_some() {
            let sequence = self.next();
            self.gone.insert(key.clone(), sequence);
            if self.gone.len() > REMEMBERED {
                let mut sequences: Vec<u64> = self.gone.values().copied().collect();
                sequences.sort_unstable();
                self.floor = sequences[REMEMBERED / 2];
                let floor = self.floor;
                self.gone.retain(|_, sequence| *sequence > floor);
            }
        }
    }

    /// The last change of any document whose key begins with `prefix`.
    pub(super) fn last_change(&self, prefix: &str) -> u64 {
        let known = self.known.iter().filter(|(key, _)| key.as_str().starts_with(prefix)).map(|(_, one)| one.sequence);
        let gone = self.gone.iter().filter(|(key, _)| key.as_str().starts_with(prefix)).map(|(_, sequence)| *sequence);
        known.chain(gone).max().unwrap_or(0)
    }

    pub(super) fn scan(&mut self, place: &DocumentFolder, effort: Effort) {
        if let Some(only) = &place.only {
            let Ok(key) = only.parse::<Key>() else { return };
            let present = Stamp::read(&path(place, &key)).is_some();
            self.take_in(place, None, present.then_some(key).into_iter().collect());
            return;
        }
        self.scan_root(place, effort);
        let folders: Vec<String> = self.folders.keys().cloned().collect();
        for folder in folders {
            self.scan_folder(place, &folder, effort);
        }
    }

    fn scan_root(&mut self, place: &DocumentFolder, effort: Effort) {
        let now = FolderStamp::read(&place.folder);
        let unchanged = matches!((self.root, now), (Some(seen), Some(now)) if seen.still(now));
        if unchanged && effort == Effort::Usual {
            return;
        }
        self.root = now;
        self.has_batch = false;
        let mut folders = HashSet::new();
        let mut present: HashSet<Key> = HashSet::new();
        for entry in fs::read_dir(&place.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if Key::is_part(name) && name != QUARANTINE {
                    folders.insert(name.to_owned());
                }
            } else if name.starts_with(".tmp-") {
                remove_if_old(&entry.path());
            } else if name == super::batch::FILE {
                self.has_batch = true;
            } else if let Some(key) = name.strip_suffix(".json").and_then(|stem| stem.parse::<Key>().ok()) {
                present.insert(key);
            }
        }
        let gone: Vec<String> = self.folders.keys().filter(|folder| !folders.contains(*folder)).cloned().collect();
        for folder in gone {
            self.folders.remove(&folder);
            self.take_in(place, Some(&folder), HashSet::new());
            let below = place.folder.join(&folder);
            self.foreign.retain(|path, _| !path.starts_with(&below));
        }
        for folder in folders {
            self.folders.entry(folder).or_default();
        }
        self.take_in(place, None, present);
    }

    fn scan_folder(&mut self, place: &DocumentFolder, folder: &str, effort: Effort) {
        let below = place.folder.join(folder);
        let now = FolderStamp::read(&below);
        let seen = self.folders.get(folder).copied().flatten();
        let unchanged = matches!((seen, now), (Some(seen), Some(now)) if seen.still(now));
        if unchanged && effort == Effort::Usual {
            return;
        }
        self.folders.insert(folder.to_owned(), now);
        let mut present: HashSet<Key> = HashSet::new();
        let mut foreign = HashSet::new();
        for entry in fs::read_dir(&below).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(".tmp-") {
                remove_if_old(&entry.path());
                continue;
            }
            let key = name.strip_suffix(".json").and_then(|stem| format!("{folder}/{stem}").parse::<Key>().ok());
            match key {
                Some(key) => {
                    present.insert(key);
                }
                None => {
                    foreign.insert(entry.path());
                }
            }
        }
        self.foreign.retain(|path, _| path.parent() != Some(&*below) || foreign.contains(path));
        for path in foreign {
            if !self.foreign.contains_key(&path) {
                let sequence = self.next();
                self.foreign.insert(path, sequence);
            }
        }
        self.take_in(place, Some(folder), present);
    }

    /// Compares a folder's content with the index. `None` is the folder of the collection itself.
    fn take_in(&mut self, place: &DocumentFolder, folder: Option<&str>, present: HashSet<Key>) {
        let of_folder: Vec<Key> = match folder {
            None => self.known.keys().filter(|key| key.folder().is_none()).cloned().collect(),
            Some(folder) => {
                let prefix = format!("{folder}/");
                let from: Option<Key> = format!("{folder}/-").parse().ok();
                // Keys are ordered, and '-' is the lowest character that a part may begin with.
                let range = from.map(|from| self.known.range(from..)).into_iter().flatten();
                range.map(|(key, _)| key.clone()).take_while(|key| key.as_str().starts_with(&prefix)).collect()
            }
        };
        for key in of_folder {
            if !present.contains(&key) {
                self.remove(&key);
            }
        }
        for key in present {
            let file = path(place, &key);
            let Some(stamp) = Stamp::read(&file) else { continue };
            if self.known.get(&key).is_some_and(|known| known.is_same(stamp, &file)) {
                if let Some(known) = self.known.get_mut(&key) {
                    known.is_racy &= stamp.is_racy();
                }
                continue;
            }
            let sequence = self.next();
            self.gone.remove(&key);
            let known = Known { stamp: Some(stamp), is_racy: stamp.is_racy(), revision: None, sequence };
            self.known.insert(key, known);
        }
    }
}

impl Known {
    /// Whether the file is unchanged. If the stamp proves nothing, the content is compared.
    fn is_same(&self, now: Stamp, file: &Path) -> bool {
        if self.stamp != Some(now) {
            return false;
        }
        match &self.revision {
            Some(revision) if self.is_racy => fs::read(file).is_ok_and(|content| Revision::of(&content) == *revision),
            // No reader has seen it yet, so any later read returns the current content.
            _ => true,
        }
    }
}

pub(super) fn path(place: &DocumentFolder, key: &Key) -> PathBuf {
    // The parts of a key are plain names: none can lead out of the folder.
    place.folder.join(format!("{key}.json"))
}

/// Removes a half-written file left by a killed process.
fn remove_if_old(path: &Path) {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age > TEMPORARY_AGE) {
        let _ = fs::remove_file(path);
    }
}
