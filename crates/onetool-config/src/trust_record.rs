//! The folders that the user trusts, in `~/.onetool/trust.json`.
//!
//! A user's decision applies to a folder. What was made in a folder is remembered file by file, while git does not
//! track it: such files stay trusted after they are committed, and files that a later pull brings are not among them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A larger record is neither read nor written.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// How a folder came to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TrustedBy {
    /// `onetool trust`, or an answer to the question.
    User,
    /// Its files were created here: they were in use before they were tracked.
    Origin,
}

/// The folders that the user trusts, in one of the user's own files.
#[derive(Debug, Clone)]
pub struct TrustRecord {
    file: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    folders: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    by: TrustedBy,
    since: String,
    /// When the folder was created, if the file system knows it: a new folder in its place is not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<String>,
    /// What was made here. Missing in an entry of a user, and in automatic ones of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<MadeHere>,
}

/// Files that were in a folder before git tracked them, relative to the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeHere {
    /// Configuration, secrets, tool files and bundles.
    #[serde(default)]
    pub(crate) files: BTreeSet<PathBuf>,
    /// Files that OneTool wrote itself.
    #[serde(default)]
    pub(crate) state: BTreeSet<PathBuf>,
}

/// What the record says about a folder.
#[derive(Debug, PartialEq)]
pub(crate) enum Recorded {
    Nothing,
    /// The user trusts everything in it.
    Folder,
    /// These files were made here.
    Files(MadeHere),
    /// The files that are there now were made here: an earlier version did not remember which.
    Present,
}

impl Entry {
    /// A user's decision applies to whatever is at the path, as in editors; an automatic one only to the folder that it
    /// was made for.
    fn holds_for(&self, folder: &Path) -> bool {
        let is_same = self.born.is_none() || born(folder).is_none_or(|born| Some(born) == self.born);
        self.by == TrustedBy::User || is_same
    }

    /// Whether it is about more than files that OneTool wrote itself.
    fn governs(&self) -> bool {
        self.made.as_ref().is_none_or(|made| !made.files.is_empty())
    }
}

/// Whether a change must survive a power failure. What is made here is seen again at the next start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Safety {
    Durable,
    Quick,
}

impl TrustRecord {
    /// The record in the user's folder (`~/.onetool`). Without a folder, nothing is remembered.
    pub fn in_folder(global: Option<&Path>) -> Self {
        Self { file: global.map(|folder| folder.join("trust.json")) }
    }

    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether the folder is trusted, or files in it that govern are.
    pub fn contains(&self, folder: &Path) -> bool {
        let folder = real(folder);
        let governs = |entry: &Entry| entry.holds_for(&folder) && entry.governs();
        self.read().is_some_and(|stored| stored.folders.get(&folder).is_some_and(governs))
    }

    pub(crate) fn of(&self, folder: &Path) -> Recorded {
        let folder = real(folder);
        let entry = self.read().and_then(|mut stored| stored.folders.remove(&folder));
        match entry.filter(|entry| entry.holds_for(&folder)) {
            None => Recorded::Nothing,
            Some(Entry { by: TrustedBy::User, .. }) => Recorded::Folder,
            Some(Entry { made: Some(made), .. }) => Recorded::Files(made),
            Some(_) => Recorded::Present,
        }
    }

    /// Trusts a folder, because its user says so.
    pub fn add(&self, folder: &Path) -> std::io::Result<()> {
        self.change(Safety::Durable, |folders| {
            let folder = real(folder);
            if folders.get(&folder).is_none_or(|entry| entry.by != TrustedBy::User) {
                let born = born(&folder);
                folders.insert(folder, Entry { by: TrustedBy::User, since: now(), born, made: None });
            }
        })
    }

    /// Remembers what was made in a folder, unless its user trusts it anyway.
    pub(crate) fn add_made_here(&self, folder: &Path, made: MadeHere) -> std::io::Result<()> {
        self.change(Safety::Quick, |folders| {
            // Automatic entries are removed with their folder.
            folders.retain(|folder, entry| entry.by == TrustedBy::User || folder.is_dir());
            let folder = real(folder);
            let known = folders.get(&folder).filter(|entry| entry.by == TrustedBy::User || entry.holds_for(&folder));
            let since = known.map_or_else(now, |entry| entry.since.clone());
            if known.is_none_or(|entry| entry.by != TrustedBy::User) {
                let born = born(&folder);
                folders.insert(folder, Entry { by: TrustedBy::Origin, since, born, made: Some(made) });
            }
        })
    }

    /// Returns whether the folder was trusted.
    pub fn remove(&self, folder: &Path) -> std::io::Result<bool> {
        let mut was_there = false;
        self.change(Safety::Durable, |folders| was_there = folders.remove(&real(folder)).is_some())?;
        Ok(was_there)
    }

    pub fn folders(&self) -> Vec<PathBuf> {
        let folders = self.read().map(|stored| stored.folders).unwrap_or_default();
        folders.into_iter().filter(|(_, entry)| entry.governs()).map(|(folder, _)| folder).collect()
    }

    /// A damaged record trusts nothing.
    fn read(&self) -> Option<Stored> {
        let file = self.file.as_deref()?;
        let length = std::fs::metadata(file).ok()?.len();
        (length <= MAX_RECORD_BYTES).then(|| serde_json::from_slice(&std::fs::read(file).ok()?).ok()).flatten()
    }

    fn change(&self, safety: Safety, change: impl FnOnce(&mut BTreeMap<PathBuf, Entry>)) -> std::io::Result<()> {
        let Some(file) = &self.file else {
            return Err(std::io::Error::other("cannot remember trust: no home folder"));
        };
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let lock = std::fs::File::create(folder.join("trust.lock"))?;
        lock.lock()?;
        let mut stored = self.read().unwrap_or_default();
        change(&mut stored.folders);
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        let text = serde_json::to_vec_pretty(&stored)?;
        if text.len() as u64 > MAX_RECORD_BYTES {
            return Err(std::io::Error::other("the record of trusted folders would become too large"));
        }
        temporary.write_all(&text)?;
        if safety == Safety::Durable {
            temporary.as_file().sync_all()?;
        }
        temporary.persist(file)?;
        Ok(())
    }
}

fn real(folder: &Path) -> PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// When a folder was created.
fn born(folder: &Path) -> Option<String> {
    let created = std::fs::metadata(folder).and_then(|metadata| metadata.created()).ok()?;
    Some(chrono::DateTime::<chrono::Utc>::from(created).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true))
}

fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_folder_in_the_place_of_one_that_was_made_here_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let (record, folder) = (TrustRecord::in_folder(Some(home.path())), home.path().join("app"));
        let made = || MadeHere { files: [PathBuf::from(".onetool/onetool.yaml")].into(), ..MadeHere::default() };
        let again = || {
            let _ = std::fs::remove_dir(&folder);
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::create_dir(&folder).unwrap();
        };
        again();
        record.add_made_here(&folder, made()).unwrap();
        assert!(record.contains(&folder));
        again();
        if born(&folder).is_some() {
            assert!(!record.contains(&folder));
        }
        record.add_made_here(&folder, made()).unwrap();
        assert!(record.contains(&folder));
        // A user's decision is not replaced by an automatic one.
        record.add(&folder).unwrap();
        again();
        assert!(record.contains(&folder));
        record.add_made_here(&folder, made()).unwrap();
        again();
        assert!(record.contains(&folder));
        // The format of earlier versions.
        let old = json!({"folders": {real(&folder).display().to_string(): {"by": "origin", "since": "2026-01-01"}}});
        std::fs::write(home.path().join("trust.json"), old.to_string()).unwrap();
        assert!(record.contains(&folder) && record.of(&folder) == Recorded::Present);
    }
}
