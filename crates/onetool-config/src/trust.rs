//! Folder trust, as in editors.
//!
//! Files that came with a repository and can run code or loosen rules stay disabled until the user has trusted the
//! folder once. Files that the user created in place just work, and keep working after they are committed: a folder in
//! use whose files are not tracked is remembered as trusted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::files::ConfigPlaces;
use crate::git_index::TrackedFiles;

/// For one process: `1` trusts the folder, `0` leaves it untrusted without asking.
const VARIABLE: &str = "ONETOOL_TRUST";
/// Maximum number of files that are checked.
const MAX_GOVERNING_FILES: usize = 2_000;
/// A larger record is not read.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// How a folder came to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustedBy {
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
}

impl Entry {
    /// A user's decision applies to whatever is at the path, as in editors; an automatic one only to the folder that it
    /// was made for.
    fn holds_for(&self, folder: &Path) -> bool {
        let is_same = self.born.is_none() || born(folder).is_none_or(|born| Some(born) == self.born);
        self.by == TrustedBy::User || is_same
    }
}

impl TrustRecord {
    /// The record in the user's folder (`~/.onetool`). Without a folder, nothing is remembered.
    pub fn in_folder(global: Option<&Path>) -> Self {
        Self { file: global.map(|folder| folder.join("trust.json")) }
    }

    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub fn contains(&self, folder: &Path) -> bool {
        let folder = real(folder);
        self.read().is_some_and(|stored| stored.folders.get(&folder).is_some_and(|entry| entry.holds_for(&folder)))
    }

    pub fn add(&self, folder: &Path, by: TrustedBy) -> std::io::Result<()> {
        self.change(|folders| {
            // Automatic entries are removed with their folder.
            folders.retain(|folder, entry| entry.by == TrustedBy::User || folder.is_dir());
            let folder = real(folder);
            let is_known = |entry: &Entry| entry.by == TrustedBy::User || (entry.by == by && entry.holds_for(&folder));
            if !folders.get(&folder).is_some_and(is_known) {
                let born = born(&folder);
                folders.insert(folder, Entry { by, since: now(), born });
            }
        })
    }

    /// Returns whether the folder was trusted.
    pub fn remove(&self, folder: &Path) -> std::io::Result<bool> {
        let mut was_there = false;
        self.change(|folders| was_there = folders.remove(&real(folder)).is_some())?;
        Ok(was_there)
    }

    pub fn folders(&self) -> Vec<PathBuf> {
        self.read().map(|stored| stored.folders.into_keys().collect()).unwrap_or_default()
    }

    /// A damaged record trusts nothing.
    fn read(&self) -> Option<Stored> {
        let file = self.file.as_deref()?;
        let length = std::fs::metadata(file).ok()?.len();
        (length <= MAX_RECORD_BYTES).then(|| serde_json::from_slice(&std::fs::read(file).ok()?).ok()).flatten()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<PathBuf, Entry>)) -> std::io::Result<()> {
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
        serde_json::to_writer_pretty(&mut temporary, &stored)?;
        temporary.as_file().sync_all()?;
        temporary.persist(file)?;
        Ok(())
    }
}

/// The reason shown for a disabled part.
pub const UNTRUSTED: &str =
    "it came with the repository or another user, and this folder is not trusted; `onetool trust` shows and trusts it";

/// Which files of a project may run code and loosen rules. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct FileTrust {
    /// The files that came with a repository that is not trusted.
    tracked: Option<Arc<TrackedFiles>>,
    /// The project, if it contains files of another user.
    visited: Option<PathBuf>,
    /// The user's own folder and an explicitly named file, which are always trusted.
    own: Vec<PathBuf>,
}

impl PartialEq for FileTrust {
    fn eq(&self, other: &Self) -> bool {
        self.tracked == other.tracked && self.visited == other.visited && self.own == other.own
    }
}

impl FileTrust {
    /// Decides for a project. Remembers a folder that is in use without tracked files.
    pub fn decide(places: &ConfigPlaces) -> Self {
        let folder = &places.project;
        let own = places.global.iter().chain(&places.explicit).cloned().collect();
        let record = TrustRecord::in_folder(places.global.as_deref());
        let files = governing_files(places);
        if files.found.is_empty() || is_set() || record.contains(folder) {
            return Self { own, ..Self::default() };
        }
        // If there are too many files, each is checked when it is used.
        let is_tracked =
            |tracked: &TrackedFiles| !files.are_all || files.found.iter().any(|file| tracked.contains(file));
        let visited = Some(folder.clone()).filter(|_| files.found.iter().any(|file| is_strangers(file, folder)));
        let tracked = TrackedFiles::of(folder).filter(is_tracked).map(Arc::new);
        if tracked.is_some() || visited.is_some() {
            return Self { tracked, visited, own };
        }
        // Created here, even if the user makes the folder a repository later.
        if let Err(error) = record.add(folder, TrustedBy::Origin) {
            tracing::debug!(%error, "that this folder's files were made here is not remembered");
        }
        Self { own, ..Self::default() }
    }

    /// Whether everything is trusted.
    pub fn is_full(&self) -> bool {
        self.tracked.is_none() && self.visited.is_none()
    }

    /// Whether a file may run code and loosen rules.
    pub fn covers(&self, file: &Path) -> bool {
        let is_tracked = || self.tracked.as_ref().is_some_and(|tracked| tracked.contains(file));
        let is_strangers = || self.visited.as_ref().is_some_and(|folder| is_strangers(file, folder));
        self.is_own(file) || !(is_tracked() || is_strangers())
    }

    /// The same for everything in a folder. `false` if there are too many files to check.
    pub fn covers_below(&self, folder: &Path) -> bool {
        if self.is_full() {
            return true;
        }
        let (mut found, mut left) = (Vec::new(), MAX_GOVERNING_FILES);
        collect(folder, &mut found, &mut left);
        left > 0 && found.iter().all(|file| self.covers(file))
    }

    /// Whether a file is the user's own, whichever file includes it.
    pub(crate) fn is_own(&self, file: &Path) -> bool {
        self.own.iter().any(|own| file.starts_with(own))
    }
}

/// Whether a file was created, or can be replaced through its folder, by somebody other than us, the project folder's
/// owner and the administrator: in `/tmp` everybody can leave a `.onetool`.
#[cfg(unix)]
fn is_strangers(file: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let owner = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let known = [Some(0), Some(rustix::process::geteuid().as_raw()), owner(folder)];
    let around = file.ancestors().skip(1).take_while(|above| above.starts_with(folder));
    std::iter::once(file).chain(around).any(|path| owner(path).is_some_and(|owner| !known.contains(&Some(owner))))
}

#[cfg(not(unix))]
fn is_strangers(_: &Path, _: &Path) -> bool {
    false
}

fn is_set() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// Whether the environment variable has answered the question already.
pub fn is_trust_decided() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1" || value == "0")
}

/// The files of a project that determine what runs and what is allowed.
struct GoverningFiles {
    found: Vec<PathBuf>,
    are_all: bool,
}

fn governing_files(places: &ConfigPlaces) -> GoverningFiles {
    let own = places.own();
    let mut found = Vec::new();
    if Some(&own) == places.global.as_ref() {
        return GoverningFiles { found, are_all: true };
    }
    let mut left = MAX_GOVERNING_FILES;
    for name in ["onetool.yaml", "prompts.yaml", "snippets.yaml", "secrets.yaml", "config", "tools", "bundles"] {
        collect(&own.join(name), &mut found, &mut left);
    }
    GoverningFiles { found, are_all: left > 0 }
}

fn collect(path: &Path, found: &mut Vec<PathBuf>, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect(&entry.path(), found, left));
    } else if path.symlink_metadata().is_ok() {
        found.push(path.to_owned());
    }
}

/// The keys that an untrusted file may set: they neither run code, nor reach files or the network, nor loosen a rule.
/// Everything else is left out.
const HARMLESS: &[&str] =
    &["version", "include", "inherit", "alias", "snippets", "prompts", "projects", "log_level", "locale"];
/// The allowed keys of other sections.
const HARMLESS_KEYS: &[(&str, &[&str])] = &[
    ("output", &["max_inline_size", "result_ttl", "preview_lines"]),
    ("run", &["engine", "timeout", "type_check"]),
    ("stats", &["enabled"]),
];

/// Removes from an untrusted file what only a trusted one may set; returns the removed keys. Stricter rules stay:
/// `security.policy` with `ask` or `deny`, and `security.blocked`.
pub(crate) fn take_risky(root: &mut Map<String, Json>) -> Vec<String> {
    let mut taken = Vec::new();
    root.retain(|key, value| {
        if HARMLESS.contains(&key.as_str()) || key.starts_with("x-") {
            return true;
        }
        if key == "security" {
            loosening(value, &mut taken);
            return true;
        }
        match (HARMLESS_KEYS.iter().find(|(section, _)| section == key), value) {
            (Some((_, harmless)), Json::Object(keys)) => {
                keys.retain(|name, _| {
                    let stays = harmless.contains(&name.as_str());
                    if !stays {
                        taken.push(format!("{key}.{name}"));
                    }
                    stays
                });
                true
            }
            _ => {
                taken.push(key.clone());
                false
            }
        }
    });
    taken
}

fn loosening(security: &mut Json, taken: &mut Vec<String>) {
    let Json::Object(keys) = security else { return };
    keys.retain(|name, value| match (name.as_str(), value) {
        ("blocked" | "warned", _) => true,
        ("policy", Json::Object(rules)) => {
            rules.retain(|_, word| matches!(word.as_str(), Some("ask" | "deny")));
            true
        }
        ("sanitize", Json::Object(sanitize)) if sanitize.get("enabled") == Some(&Json::Bool(true)) => true,
        _ => {
            taken.push(format!("security.{name}"));
            false
        }
    });
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

    #[cfg(unix)]
    #[test]
    fn what_another_user_left_in_a_folder_is_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        let (project, own) = (place.path().join("shared"), place.path().join("shared/.onetool"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("onetool.yaml"), "servers: {a: {command: sh}}\n").unwrap();
        let places = ConfigPlaces { project: project.clone(), global: Some(place.path().join("home")), explicit: None };
        assert!(FileTrust::decide(&places).is_full());
        TrustRecord::in_folder(places.global.as_deref()).remove(&project).unwrap();
        // Only an administrator can create files of other users.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let give = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None).unwrap();
        give(&own.join("onetool.yaml"), 4711);
        let trust = FileTrust::decide(&places);
        assert!(!trust.covers(&own.join("onetool.yaml")) && !trust.is_full());
        give(&own.join("onetool.yaml"), 0);
        give(&own, 4711);
        assert!(!FileTrust::decide(&places).covers(&own.join("onetool.yaml")), "they can replace it");
        // A folder that belongs to them entirely is one where the user chose to work.
        give(&project, 4711);
        assert!(FileTrust::decide(&places).is_full());
    }

    #[test]
    fn another_folder_in_the_place_of_one_that_was_made_here_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let (record, folder) = (TrustRecord::in_folder(Some(home.path())), home.path().join("app"));
        let again = || {
            let _ = std::fs::remove_dir(&folder);
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::create_dir(&folder).unwrap();
        };
        again();
        record.add(&folder, TrustedBy::Origin).unwrap();
        assert!(record.contains(&folder));
        again();
        if born(&folder).is_some() {
            assert!(!record.contains(&folder));
        }
        record.add(&folder, TrustedBy::Origin).unwrap();
        assert!(record.contains(&folder));
        // A user's decision is not replaced by an automatic one.
        record.add(&folder, TrustedBy::User).unwrap();
        again();
        assert!(record.contains(&folder));
        record.add(&folder, TrustedBy::Origin).unwrap();
        again();
        assert!(record.contains(&folder));
        // The format of earlier versions.
        let old = json!({"folders": {real(&folder).display().to_string(): {"by": "origin", "since": "2026-01-01"}}});
        std::fs::write(home.path().join("trust.json"), old.to_string()).unwrap();
        assert!(record.contains(&folder));
    }

    #[test]
    fn only_what_is_harmless_or_stricter_stays_of_an_untrusted_file() {
        let Json::Object(mut root) = json!({
            "servers": {"a": {"command": "sh"}}, "tools_dir": ["x.py"], "alias": {"a": "file.read"},
            "run": {"python": "./evil", "allow_unconfined": true, "timeout": 5},
            "security": {"policy": {"*": "allow", "file.*": "deny"}, "allow": ["os.system"], "blocked": ["x"]},
            "http": {"allowed_hosts": ["*"]}, "tools": {"file": {"roots": ["/"]}}, "server": {"tokens": []},
        }) else {
            unreachable!()
        };
        let taken = take_risky(&mut root);
        let kept = json!({
            "alias": {"a": "file.read"}, "run": {"timeout": 5},
            "security": {"policy": {"file.*": "deny"}, "blocked": ["x"]},
        });
        assert_eq!(Json::Object(root), kept);
        for key in ["servers", "tools_dir", "run.python", "run.allow_unconfined", "security.allow", "http", "tools"] {
            assert!(taken.iter().any(|taken| taken == key), "{key}: {taken:?}");
        }
    }
}
