//! Folder trust, as in editors.
//!
//! Files that came with a repository and can run code or loosen rules stay disabled until the user has trusted the
//! folder once. Files that the user created in place just work, and keep working after they are committed: they are
//! remembered while git does not track them (see [`crate::trust_record`]). The same applies to the state that OneTool
//! itself keeps below `.onetool`: what came with a repository is not used as such.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value as Json};

use crate::files::ConfigPlaces;
use crate::git_index::{TrackedFiles, folded};
use crate::trust_record::{MadeHere, Recorded, TrustRecord};

/// For one process: `1` trusts the folder, `0` leaves it untrusted without asking.
const VARIABLE: &str = "ONETOOL_TRUST";
/// Maximum number of files that are checked.
const MAX_GOVERNING_FILES: usize = 2_000;
/// Maximum number of files of OneTool's own that are remembered.
const MAX_STATE_FILES: usize = 500;
/// Below `.onetool`: what OneTool writes itself and acts upon, which logs and stored results are not.
const STATE: &[&str] =
    &["runs", "state", "saved", "pins.json", "switches.json", "cache", "credentials", "environments", "audit", "stats"];
const LOCK: &str = ".lock";
/// Below the user's own folder: the state of folders whose own state is not used.
const UNTRUSTED_STATE: &str = "untrusted";

/// The reason shown for a disabled part.
pub const UNTRUSTED: &str =
    "it came with the repository or another user, and this folder is not trusted; `onetool trust` shows and trusts it";

/// Which files of a project may run code and loosen rules. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileTrust {
    /// The files that came with a repository that is not trusted.
    tracked: Option<Arc<TrackedFiles>>,
    /// The project, if it contains files of another user.
    visited: Option<PathBuf>,
    /// Those that were made here before they were tracked, relative to the project.
    made: Arc<BTreeSet<PathBuf>>,
    project: PathBuf,
    /// The user's own folder and an explicitly named file, which are always trusted.
    own: Vec<PathBuf>,
    /// Whether state below `.onetool` came with the repository or from another user.
    is_state_foreign: bool,
    /// The lock file of a git command that is at work.
    lock: Option<PathBuf>,
}

impl FileTrust {
    /// Decides for a project. Remembers files that are in use without being tracked.
    pub fn decide(places: &ConfigPlaces) -> Self {
        let folder = &places.project;
        let own = places.global.iter().chain(&places.explicit).cloned().collect();
        let full = Self { own, ..Self::default() };
        let record = TrustRecord::in_folder(places.global.as_deref());
        if is_set() {
            return full;
        }
        let recorded = record.of(folder);
        if recorded == Recorded::Folder {
            return full;
        }
        // Found before the index is read: what git writes afterwards is not among them.
        let files = governing_files(places);
        let state = state_files(places);
        if files.found.is_empty() && state.found.is_empty() {
            return full;
        }
        let tracked = TrackedFiles::of(folder);
        let found = MadeHere { files: relative(&files.found, folder), state: relative(&state.found, folder) };
        let has_no_list = !matches!(recorded, Recorded::Files(_));
        let made = match recorded {
            Recorded::Files(made) => made,
            // From then on, only these.
            Recorded::Present => found.clone(),
            Recorded::Nothing | Recorded::Folder => MadeHere::default(),
        };
        let came_with_it = |tracked: &TrackedFiles| {
            // If there are too many files, each is checked when it is used.
            let is_foreign = |file: &PathBuf| tracked.contains(file) && !is_among(&made.files, file, folder);
            !files.are_all || files.found.iter().any(is_foreign)
        };
        let has_foreign_state = |tracked: &TrackedFiles| has_foreign_state(places, tracked, &made.state, &state);
        let is_tracked = tracked.as_ref().is_some_and(came_with_it);
        let visited = files.found.iter().any(|file| is_strangers(file, folder));
        let is_state_foreign = tracked.as_ref().is_some_and(has_foreign_state)
            || state.found.iter().any(|file| is_strangers(file, folder));
        if is_tracked || visited || is_state_foreign {
            let lock = tracked.as_ref().and_then(TrackedFiles::lock).map(Path::to_owned);
            return Self {
                tracked: tracked.filter(|_| is_tracked).map(Arc::new),
                visited: visited.then(|| folder.clone()),
                made: Arc::new(made.files),
                project: folder.clone(),
                is_state_foreign,
                lock,
                ..full
            };
        }
        // Created here, even if the user makes the folder a repository later, or commits it.
        let files: BTreeSet<PathBuf> = made.files.union(&found.files).cloned().collect();
        if has_no_list || files != made.files || !found.state.is_subset(&made.state) {
            let made = MadeHere { files, state: found.state };
            if let Err(error) = record.add_made_here(folder, made) {
                tracing::debug!(%error, "that this folder's files were made here is not remembered");
            }
        }
        full
    }

    /// Whether everything is trusted.
    pub fn is_full(&self) -> bool {
        self.tracked.is_none() && self.visited.is_none() && !self.is_state_foreign
    }

    /// Whether a file may run code and loosen rules.
    pub fn covers(&self, file: &Path) -> bool {
        let is_made_here = || is_among(&self.made, file, &self.project);
        let is_tracked = || self.tracked.as_ref().is_some_and(|tracked| tracked.contains(file)) && !is_made_here();
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

    /// The folder with OneTool's own state: `.onetool`, or one of the user's if that came with a repository.
    pub fn state_home(&self, places: &ConfigPlaces) -> PathBuf {
        if !self.is_state_foreign {
            return places.own();
        }
        // The same path below the user's folder, so that two projects never share one.
        let base = places.global.as_ref().map_or_else(temporary_home, |global| global.join(UNTRUSTED_STATE));
        let folder = std::fs::canonicalize(&places.project).unwrap_or_else(|_| places.project.clone());
        let names = folder.components().filter(|part| matches!(part, Component::Normal(_)));
        base.join(names.collect::<PathBuf>()).join("onetool-state")
    }

    /// Whether state below `.onetool` is not used.
    pub fn is_state_foreign(&self) -> bool {
        self.is_state_foreign
    }

    /// The lock file of a git command during which nothing is known about the files.
    pub fn lock(&self) -> Option<&Path> {
        self.lock.as_deref()
    }

    /// Whether a file is the user's own, whichever file includes it.
    pub(crate) fn is_own(&self, file: &Path) -> bool {
        // Without `..`, only links that are in the user's own folder lead out of it.
        let is_plain = !file.components().any(|part| part == Component::ParentDir);
        let real = std::fs::canonicalize(file).ok();
        self.own.iter().any(|own| {
            let within =
                |file: &Path, own: &Path| file.starts_with(own) && !file.starts_with(own.join(UNTRUSTED_STATE));
            let is_really_within =
                || real.as_ref().zip(std::fs::canonicalize(own).ok()).is_some_and(|(real, own)| within(real, &own));
            (is_plain && within(file, own)) || is_really_within()
        })
    }
}

/// The paths below `folder`, relative to it.
fn relative(files: &[PathBuf], folder: &Path) -> BTreeSet<PathBuf> {
    files.iter().filter_map(|file| file.strip_prefix(folder).ok()).map(Path::to_owned).collect()
}

fn is_among(made: &BTreeSet<PathBuf>, file: &Path, folder: &Path) -> bool {
    file.strip_prefix(folder).is_ok_and(|file| made.contains(file))
}

/// Whether any of OneTool's own state came with the repository.
fn has_foreign_state(places: &ConfigPlaces, tracked: &TrackedFiles, made: &BTreeSet<PathBuf>, now: &Files) -> bool {
    let own = places.own();
    if Some(&own) == places.global.as_ref() {
        return false;
    }
    let Some(names) = tracked.names_below(&own) else {
        return !now.are_all || now.found.iter().any(|file| !is_among(made, file, &places.project));
    };
    let made: BTreeSet<Vec<u8>> = made
        .iter()
        .filter_map(|file| places.project.join(file).strip_prefix(&own).ok().map(Path::to_owned))
        .map(|file| folded(file.as_os_str().as_encoded_bytes()))
        .collect();
    let is_state = |name: &[u8]| {
        if name.ends_with(LOCK.as_bytes()) {
            return false;
        }
        // Without a name: `.onetool` itself came with it, as a link.
        let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
        first.is_empty() || STATE.iter().any(|state| state.as_bytes() == first)
    };
    names.iter().any(|name| is_state(name) && !made.contains(name))
}

/// For a user without a home: a private folder for as long as this process lives.
fn temporary_home() -> PathBuf {
    static HOME: LazyLock<Option<tempfile::TempDir>> =
        LazyLock::new(|| tempfile::Builder::new().prefix("onetool-state-").tempdir().ok());
    HOME.as_ref().map_or_else(|| PathBuf::from("/nonexistent"), |folder| folder.path().to_owned())
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

/// Files of a project.
struct Files {
    found: Vec<PathBuf>,
    are_all: bool,
}

/// The files of a project that determine what runs and what is allowed.
fn governing_files(places: &ConfigPlaces) -> Files {
    let names = ["onetool.yaml", "prompts.yaml", "snippets.yaml", "secrets.yaml", "config", "tools", "bundles"];
    files_of_project(places, &names, MAX_GOVERNING_FILES)
}

/// The files of a project that OneTool wrote itself.
fn state_files(places: &ConfigPlaces) -> Files {
    files_of_project(places, STATE, MAX_STATE_FILES)
}

fn files_of_project(places: &ConfigPlaces, names: &[&str], most: usize) -> Files {
    let own = places.own();
    let mut found = Vec::new();
    if Some(&own) == places.global.as_ref() {
        return Files { found, are_all: true };
    }
    let mut left = most;
    for name in names {
        collect(&own.join(name), &mut found, &mut left);
    }
    Files { found, are_all: left > 0 }
}

fn collect(path: &Path, found: &mut Vec<PathBuf>, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect(&entry.path(), found, left));
    } else if path.symlink_metadata().is_ok() && !is_without_effect(path) {
        found.push(path.to_owned());
    }
}

/// Whether OneTool writes a file beside others and reads nothing from it that matters: locks, and counts of calls.
fn is_without_effect(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(LOCK.as_bytes()) || name == b"usage.jsonl"
}

/// The keys that an untrusted file may set: they neither run code, nor reach files or the network, nor loosen a rule.
/// Everything else is left out.
const HARMLESS: &[&str] = &["version", "include", "alias", "snippets", "prompts", "projects", "log_level", "locale"];
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
        // Anything else would drop the user's own rules.
        if key == "inherit" && *value == "global" {
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

    fn git(folder: &Path, arguments: &[&str]) {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments).current_dir(folder);
        let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository with a configuration that is not tracked yet.
    fn repository() -> (tempfile::TempDir, ConfigPlaces) {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("app");
        std::fs::create_dir_all(project.join(".onetool")).unwrap();
        std::fs::write(project.join(".onetool/onetool.yaml"), "servers: {a: {command: sh}}\n").unwrap();
        git(&project, &["init", "-q"]);
        let places = ConfigPlaces { project, global: Some(place.path().join("home/.onetool")), explicit: None };
        (place, places)
    }

    #[test]
    fn a_clone_under_way_is_not_recorded_as_made_here() {
        let (_place, places) = repository();
        let lock = places.project.join(".git/index.lock");
        std::fs::write(&lock, "").unwrap();
        let trust = FileTrust::decide(&places);
        assert!(!trust.covers(&places.own().join("onetool.yaml")) && trust.lock().is_some());
        std::fs::remove_file(&lock).unwrap();
        git(&places.project, &["add", "-A"]);
        assert!(!FileTrust::decide(&places).covers(&places.own().join("onetool.yaml")), "the clone is complete");
    }

    #[test]
    fn git_at_work_does_not_take_trust_away() {
        let (_place, places) = repository();
        assert!(FileTrust::decide(&places).is_full());
        git(&places.project, &["add", "-A"]);
        std::fs::write(places.project.join(".git/index.lock"), "").unwrap();
        assert!(FileTrust::decide(&places).is_full());
    }

    #[test]
    fn a_record_of_an_earlier_version_covers_the_files_that_are_there_then() {
        let (_place, places) = repository();
        let global = places.global.clone().unwrap();
        std::fs::create_dir_all(&global).unwrap();
        let folder = std::fs::canonicalize(&places.project).unwrap().display().to_string();
        let old = json!({"folders": {folder: {"by": "origin", "since": "2026-01-01T00:00:00Z"}}});
        std::fs::write(global.join("trust.json"), old.to_string()).unwrap();
        git(&places.project, &["add", "-A"]);
        assert!(FileTrust::decide(&places).is_full());
        let pulled = places.own().join("prompts.yaml");
        std::fs::write(&pulled, "instructions: x\n").unwrap();
        git(&places.project, &["add", "-A"]);
        let trust = FileTrust::decide(&places);
        assert!(trust.covers(&places.own().join("onetool.yaml")) && !trust.covers(&pulled));
    }

    #[test]
    fn state_that_came_with_a_repository_is_kept_apart() {
        for name in ["runs/queue/a.json", "state/access-tokens/a.json", "Saved/a.json", "pins.json"] {
            let (_place, places) = repository();
            let file = places.own().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "{}").unwrap();
            git(&places.project, &["add", "-f", &format!(".onetool/{name}")]);
            let trust = FileTrust::decide(&places);
            assert!(trust.is_state_foreign() && trust.covers(&places.own().join("onetool.yaml")), "{name}");
            assert!(trust.state_home(&places).starts_with(places.global.clone().unwrap()), "{name}");
            assert!(!trust.is_own(&trust.state_home(&places).join("tmp/a.yaml")), "{name}");
        }
        let (_place, places) = repository();
        std::fs::create_dir_all(places.own().join("runs/queue")).unwrap();
        std::fs::write(places.own().join("runs/queue/a.json"), "{}").unwrap();
        assert_eq!(FileTrust::decide(&places).state_home(&places), places.own());
    }

    #[test]
    fn only_what_really_is_in_the_users_own_folder_is_the_users() {
        let (place, places) = repository();
        let home = place.path().join("home");
        let global = places.global.clone().unwrap();
        std::fs::create_dir_all(&global).unwrap();
        let elsewhere = home.join("dotfiles.yaml");
        std::fs::write(&elsewhere, "").unwrap();
        std::fs::write(global.join("a.yaml"), "").unwrap();
        let trust = FileTrust::decide(&places);
        assert!(trust.is_own(&global.join("a.yaml")));
        assert!(trust.is_own(&global.join("../.onetool/a.yaml")));
        assert!(!trust.is_own(&global.join("../dotfiles.yaml")) && !trust.is_own(&global.join("../missing.yaml")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&elsewhere, global.join("linked.yaml")).unwrap();
            assert!(trust.is_own(&global.join("linked.yaml")), "the user's own link");
        }
    }

    #[test]
    fn only_what_is_harmless_or_stricter_stays_of_an_untrusted_file() {
        let Json::Object(mut root) = json!({
            "servers": {"a": {"command": "sh"}}, "tools_dir": ["x.py"], "alias": {"a": "file.read"},
            "run": {"python": "./evil", "allow_unconfined": true, "timeout": 5},
            "security": {"policy": {"*": "allow", "file.*": "deny"}, "allow": ["os.system"], "blocked": ["x"]},
            "inherit": "none", "http": {"allowed_hosts": ["*"]}, "tools": {"file": {"roots": ["/"]}}, "server": {"tokens": []},
        }) else {
            unreachable!()
        };
        let taken = take_risky(&mut root);
        let kept = json!({
            "alias": {"a": "file.read"}, "run": {"timeout": 5},
            "security": {"policy": {"file.*": "deny"}, "blocked": ["x"]},
        });
        assert_eq!(Json::Object(root), kept);
        for key in
            ["servers", "tools_dir", "run.python", "run.allow_unconfined", "security.allow", "http", "tools", "inherit"]
        {
            assert!(taken.iter().any(|taken| taken == key), "{key}: {taken:?}");
        }
    }
}
