//! Switches for packs and tools that no bundle has a flag for (Python files, MCP servers).
//!
//! One file, written whole under a lock, so that several processes may change it; or, if servers share their state, one
//! document. Invalid content disables nothing and is reported; the next change replaces it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::atomic::{self, Lock, StoreError};
use crate::interface::{Collection, Condition, Document, Documents, Expect, Key, StateError};
use crate::wait;

/// Minimum interval between checks of the file for changes by others.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A larger file is not ours.
const MAX_BYTES: u64 = 4 << 20;
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// What is disabled, as stored in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SwitchFile {
    disabled_packs: BTreeSet<String>,
    /// `pack.function`
    disabled_tools: BTreeSet<String>,
}

/// What a switch applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchTarget<'a> {
    Pack(&'a str),
    Tool { pack: &'a str, function: &'a str },
}

/// Where switches are kept.
#[derive(Clone)]
pub enum SwitchPlace {
    File(PathBuf),
    /// In the state that servers share.
    Shared(Arc<dyn Documents>),
}

/// The switches of one project. Cheap to clone; clones share.
#[derive(Clone)]
pub struct Switches {
    inner: Arc<Inner>,
}

struct Inner {
    place: Mutex<SwitchPlace>,
    generation: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    file: Arc<SwitchFile>,
    stamp: Option<(SystemTime, u64)>,
    looked_at: Option<Instant>,
    problem: Option<String>,
}

impl Switches {
    /// Switches in a file. Reads nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(SwitchPlace::File(path.into()))
    }

    /// Reads nothing yet.
    pub fn at(place: SwitchPlace) -> Self {
        let known = Known { file: Arc::default(), stamp: None, looked_at: None, problem: None };
        let inner = Inner { place: Mutex::new(place), generation: AtomicU64::new(0), known: Mutex::new(known) };
        Self { inner: Arc::new(inner) }
    }

    /// Moves the switches to another place from now on.
    pub fn move_to(&self, place: SwitchPlace) {
        *self.inner.place.lock() = place;
        let mut known = self.inner.known.lock();
        (known.stamp, known.looked_at) = (None, None);
    }

    /// Where the switches are kept, for display.
    pub fn subject(&self) -> String {
        match self.place() {
            SwitchPlace::File(path) => path.display().to_string(),
            SwitchPlace::Shared(_) => "switches in the shared state".to_owned(),
        }
    }

    fn place(&self) -> SwitchPlace {
        self.inner.place.lock().clone()
    }

    pub fn is_pack_on(&self, pack: &str) -> bool {
        !self.current().disabled_packs.contains(pack)
    }

    /// Whether a tool may be called: both the tool and its pack are enabled.
    pub fn is_on(&self, pack: &str, function: &str) -> bool {
        let file = self.current();
        if file.disabled_packs.is_empty() && file.disabled_tools.is_empty() {
            return true;
        }
        !file.disabled_packs.contains(pack) && !file.disabled_tools.contains(&format!("{pack}.{function}"))
    }

    /// Changes whenever the switches may have changed.
    pub fn generation(&self) -> u64 {
        self.current();
        self.inner.generation.load(Ordering::Acquire)
    }

    /// Why the content is invalid, if it is.
    pub fn problem(&self) -> Option<String> {
        self.current();
        self.inner.known.lock().problem.clone()
    }

    /// Switches a pack or a tool. Enabling a tool also enables its pack, with the pack's other tools disabled, so that
    /// only the requested tool becomes available. `tools` are all functions of the pack.
    pub fn set(&self, target: SwitchTarget<'_>, on: bool, tools: &[String]) -> Result<(), StoreError> {
        match self.place() {
            SwitchPlace::File(path) => {
                let _lock = Lock::take(&path.with_extension("lock"), LOCK_PATIENCE)?;
                let mut file = read(&path).unwrap_or_default();
                file.set(target, on, tools);
                atomic::write(&path, &file.bytes(&path)?)?;
            }
            SwitchPlace::Shared(documents) => {
                let change = change_document(&*documents, |file| file.set(target, on, tools));
                wait(change)
                    .map_err(|error| StoreError::io(Path::new(DOCUMENT), std::io::Error::other(error.to_string())))?;
            }
        }
        self.inner.known.lock().looked_at = None;
        self.current();
        Ok(())
    }

    fn current(&self) -> Arc<SwitchFile> {
        let mut known = self.inner.known.lock();
        if known.looked_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return known.file.clone();
        }
        let is_first = known.looked_at.replace(Instant::now()).is_none();
        let found = match self.place() {
            SwitchPlace::File(path) => {
                let found = std::fs::metadata(&path).ok();
                let stamp = found.and_then(|found| Some((found.modified().ok()?, found.len())));
                if stamp == known.stamp {
                    return known.file.clone();
                }
                known.stamp = stamp;
                read(&path)
            }
            // Only the first read, and the one after a change, waits for the database.
            SwitchPlace::Shared(documents) if is_first => wait(read_document(&*documents)),
            SwitchPlace::Shared(documents) => {
                self.look_soon(documents);
                return known.file.clone();
            }
        };
        self.inner.learn(&mut known, found);
        known.file.clone()
    }

    fn look_soon(&self, documents: Arc<dyn Documents>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let inner = self.inner.clone();
        runtime.spawn(async move {
            // While the database is unreachable, the last known switches stay in effect.
            if let Ok(found) = documents.get(Collection::SWITCHES, &key()?).await {
                inner.learn(&mut inner.known.lock(), parsed(found.as_ref()));
            }
            Some(())
        });
    }
}

impl Inner {
    fn learn(&self, known: &mut Known, found: Result<SwitchFile, String>) {
        let (file, problem) = match found {
            Ok(file) => (file, None),
            Err(problem) => (SwitchFile::default(), Some(problem)),
        };
        known.problem = problem;
        if *known.file != file {
            known.file = Arc::new(file);
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The name of the only document.
const DOCUMENT: &str = "switches";
/// Attempts at a change that conflicts with another one.
const ATTEMPTS: usize = 10;

fn key() -> Option<Key> {
    DOCUMENT.parse().ok()
}

fn parsed(document: Option<&Document>) -> Result<SwitchFile, String> {
    let Some(document) = document else { return Ok(SwitchFile::default()) };
    serde_json::from_slice(&document.content).map_err(|error| error.to_string())
}

async fn read_document(documents: &dyn Documents) -> Result<SwitchFile, String> {
    let Some(key) = key() else { return Ok(SwitchFile::default()) };
    let found = documents.get(Collection::SWITCHES, &key).await.map_err(|error| error.to_string())?;
    parsed(found.as_ref())
}

async fn change_document(documents: &dyn Documents, change: impl Fn(&mut SwitchFile)) -> Result<(), StateError> {
    let key: Key = DOCUMENT.parse()?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let found = documents.get(Collection::SWITCHES, &key).await?;
        let mut file = parsed(found.as_ref()).unwrap_or_default();
        change(&mut file);
        let content = serde_json::to_vec_pretty(&file).map_err(|error| StateError::Invalid(error.to_string()))?;
        let expect = found.map_or(Expect::Absent, |found| Expect::Revision(found.revision));
        match documents.put(Collection::SWITCHES, &key, &content, &Condition::from(expect)).await {
            Err(StateError::Conflict(_) | StateError::Stale(_)) if attempt < ATTEMPTS => {}
            outcome => return outcome.map(drop),
        }
    }
}

fn read(path: &Path) -> Result<SwitchFile, String> {
    match std::fs::metadata(path) {
        Err(_) => return Ok(SwitchFile::default()),
        Ok(found) if found.len() > MAX_BYTES => return Err(format!("it has more than {MAX_BYTES} bytes")),
        Ok(_) => {}
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

impl SwitchFile {
    fn bytes(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let bytes = serde_json::to_vec_pretty(self);
        let mut bytes = bytes.map_err(|error| StoreError::io(path, std::io::Error::other(error)))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn set(&mut self, target: SwitchTarget<'_>, on: bool, tools: &[String]) {
        let file = self;
        match (target, on) {
            (SwitchTarget::Pack(pack), true) => {
                file.disabled_packs.remove(pack);
                // A pack that is enabled with all of its tools disabled would still offer nothing.
                let prefix = format!("{pack}.");
                let all_off = !tools.is_empty()
                    && tools.iter().all(|tool| file.disabled_tools.contains(&format!("{prefix}{tool}")));
                if all_off {
                    file.disabled_tools.retain(|tool| !tool.starts_with(&prefix));
                }
            }
            (SwitchTarget::Pack(pack), false) => {
                file.disabled_packs.insert(pack.to_owned());
            }
            (SwitchTarget::Tool { pack, function }, true) => {
                if file.disabled_packs.remove(pack) {
                    file.disabled_tools.extend(tools.iter().map(|tool| format!("{pack}.{tool}")));
                }
                file.disabled_tools.remove(&format!("{pack}.{function}"));
            }
            (SwitchTarget::Tool { pack, function }, false) => {
                file.disabled_tools.insert(format!("{pack}.{function}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 2] = ["a", "b"];

    fn tools() -> Vec<String> {
        TOOLS.map(str::to_owned).to_vec()
    }

    fn state(switches: &Switches) -> (bool, bool, bool) {
        (switches.is_pack_on("p"), switches.is_on("p", "a"), switches.is_on("p", "b"))
    }

    #[test]
    fn packs_and_tools_switch_as_one_expects() {
        let folder = tempfile::tempdir().unwrap();
        let switches = Switches::new(folder.path().join("switches.json"));
        assert_eq!(state(&switches), (true, true, true));
        let before = switches.generation();
        let set = |target, on| switches.set(target, on, &tools()).unwrap();
        let a = SwitchTarget::Tool { pack: "p", function: "a" };
        let b = SwitchTarget::Tool { pack: "p", function: "b" };
        set(a, false);
        assert_eq!(state(&switches), (true, false, true));
        assert_ne!(switches.generation(), before);
        set(SwitchTarget::Pack("p"), false);
        assert_eq!(state(&switches), (false, false, false));
        set(SwitchTarget::Pack("p"), true);
        assert_eq!(state(&switches), (true, false, true));
        set(SwitchTarget::Pack("p"), false);
        set(a, true);
        assert_eq!(state(&switches), (true, true, false));
        set(a, false);
        set(b, false);
        set(SwitchTarget::Pack("p"), true);
        assert_eq!(state(&switches), (true, true, true));
    }

    #[test]
    fn another_process_sees_the_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        let (one, other) = (Switches::new(&path), Switches::new(&path));
        one.set(SwitchTarget::Pack("p"), false, &[]).unwrap();
        assert!(!other.is_on("p", "a"));
    }

    #[test]
    fn a_file_that_is_not_ours_switches_nothing_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        std::fs::write(&path, "[").unwrap();
        let switches = Switches::new(&path);
        assert!(switches.is_on("p", "a"));
        assert!(switches.problem().is_some());
        switches.set(SwitchTarget::Pack("p"), false, &[]).unwrap();
        assert!(!switches.is_on("p", "a"));
        assert_eq!(switches.problem(), None);
    }
}
