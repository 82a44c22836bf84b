//! The current tool files: read in parallel at the start, and again when they change.
//!
//! A file counts as changed when its time, size or inode differs *and* its content does; modules beside it that it
//! imports are part of it. A read file is immutable; a changed file gives a new [`ToolFile`], and the generation
//! increases. If an edited file cannot be read, the last good version is kept, and a note says so.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use onetool_sdk::{HealthNote, NoteFacts, Pack, Severity};
use parking_lot::{Mutex, RwLock};

use super::discover::{self, Candidate, PlaceNote};
use super::settings::WorkerSettings;
use super::tool_file::{self, FileProblem, MAX_FILE_BYTES, READER_STACK, ToolFile};

/// Checking for changes may take at most one part in this many of the time.
const CHECK_SHARE: u32 = 20;
/// Minimum interval between checks for a missing pack.
const MISSING_CHECK: Duration = Duration::from_millis(20);
/// Maximum number of imported names that are checked, and of modules beside a file that belong to it.
const MAX_IMPORTED: usize = 200;
const MAX_HELPERS: usize = 32;
const MAX_READERS: usize = 8;
/// Number of files per reader thread; with fewer files, one thread reads them all.
const FILES_A_READER: usize = 16;

/// All tool files.
pub(super) struct Registry {
    settings: Arc<WorkerSettings>,
    generation: AtomicU64,
    offered: RwLock<Offered>,
    files: Mutex<Files>,
    /// Set when the files have been read for the first time.
    first: OnceLock<()>,
}

/// The state that callers see.
#[derive(Default)]
struct Offered {
    packs: Vec<Arc<Pack>>,
    by_pack: HashMap<String, Arc<ToolFile>>,
    notes: Vec<HealthNote>,
}

struct Files {
    known: HashMap<PathBuf, Known>,
    order: Vec<Candidate>,
    problems: Vec<PlaceNote>,
    looked_at: Instant,
    next_check: Instant,
}

#[derive(Clone)]
struct Known {
    stamp: Stamp,
    default_pack: String,
    hash: Option<blake3::Hash>,
    reading: Result<Arc<ToolFile>, FileProblem>,
    /// Modules beside the file that it imports, and the paths of missing ones.
    helpers: Vec<(PathBuf, Stamp)>,
    /// Why the current version of the file cannot be read, if `reading` is the last good version.
    broken: Option<FileProblem>,
}

impl Known {
    /// Whether the file and its helpers are unchanged.
    fn is_fresh(&self, stamp: Stamp) -> bool {
        self.stamp == stamp && self.helpers.iter().all(|(path, known)| Stamp::of(path) == *known)
    }
}

/// Metadata that quickly shows that a file may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let Ok(metadata) = fs::metadata(path) else { return Self::default() };
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { modified: metadata.modified().ok(), size: metadata.len(), inode }
    }
}

impl Registry {
    /// Finds and reads all files on a separate thread: the program starts meanwhile, and waits where it needs them.
    pub(super) fn new(settings: Arc<WorkerSettings>) -> Arc<Self> {
        let files = Files {
            known: HashMap::new(),
            order: Vec::new(),
            problems: Vec::new(),
            looked_at: Instant::now(),
            next_check: Instant::now(),
        };
        let registry = Arc::new(Self {
            settings,
            generation: AtomicU64::new(0),
            offered: RwLock::default(),
            files: Mutex::new(files),
            first: OnceLock::new(),
        });
        let reader = registry.clone();
        // If no thread can be started, the first caller that needs the files reads them.
        let _ = std::thread::Builder::new().name("tool-files".to_owned()).spawn(move || reader.await_first());
        registry
    }

    fn await_first(&self) {
        self.first.get_or_init(|| self.look());
    }

    pub(super) fn packs(&self) -> Vec<Arc<Pack>> {
        self.await_first();
        self.offered.read().packs.clone()
    }

    pub(super) fn notes(&self) -> Vec<HealthNote> {
        self.await_first();
        self.offered.read().notes.clone()
    }

    /// Returns the packs whose files need packages to be installed.
    pub(super) fn packs_with_dependencies(&self) -> Vec<String> {
        self.await_first();
        let offered = self.offered.read();
        let needs = |file: &ToolFile| file.metadata.as_ref().is_some_and(|metadata| !metadata.dependencies.is_empty());
        let names = offered.packs.iter().map(|pack| pack.name.clone());
        names.filter(|name| offered.by_pack.get(name).is_some_and(|file| needs(file))).collect()
    }

    /// Returns the generation, after checking for changes unless that was done recently.
    pub(super) fn generation(&self) -> u64 {
        self.await_first();
        let due = self.files.try_lock().is_some_and(|files| Instant::now() >= files.next_check);
        if due {
            self.refresh();
        }
        self.generation.load(Ordering::Acquire)
    }

    /// Checks for new, changed and removed files.
    pub(super) fn refresh(&self) {
        self.await_first();
        self.look();
    }

    fn look(&self) {
        let mut files = self.files.lock();
        let started = Instant::now();
        let (order, problems) = discover::candidates(&self.settings);
        let stale: Vec<(&Candidate, Stamp)> = order
            .iter()
            .map(|candidate| (candidate, Stamp::of(&candidate.path)))
            .filter(|(candidate, stamp)| {
                files
                    .known
                    .get(&candidate.path)
                    .is_none_or(|known| !known.is_fresh(*stamp) || known.default_pack != candidate.default_pack)
            })
            .collect();
        let mut changed = order != files.order || problems != files.problems;
        for (path, known) in read_all(&stale, &files.known) {
            let same = files.known.get(&path).is_some_and(|old| old.hash.is_some() && old.hash == known.hash);
            changed |= !same;
            files.known.insert(path, known);
        }
        let checked = started.elapsed();
        if changed {
            let present: HashSet<&PathBuf> = order.iter().map(|candidate| &candidate.path).collect();
            files.known.retain(|path, _| present.contains(path));
            files.order = order;
            files.problems = problems;
            self.offer(&files);
        }
        files.looked_at = Instant::now();
        files.next_check = files.looked_at + checked * CHECK_SHARE;
    }

    /// Returns the file behind a pack, read again if it has changed.
    pub(super) fn current(&self, pack: &str) -> Option<Arc<ToolFile>> {
        self.await_first();
        let file = self.offered.read().by_pack.get(pack).cloned()?;
        let stamp = Stamp::of(&file.path);
        let fresh = self.files.lock().known.get(&file.path).is_some_and(|known| known.is_fresh(stamp));
        if fresh {
            return Some(file);
        }
        self.refresh();
        self.offered.read().by_pack.get(pack).cloned()
    }

    /// Returns why there is no pack of that name although a file exists for it.
    pub(super) fn problem_of(&self, path: &Path) -> Option<String> {
        let files = self.files.lock();
        let problem = files.known.get(path)?.reading.as_ref().err()?;
        Some(subject_and_line(path, problem))
    }

    /// Returns why a pack of this name is not offered, although something that looks like its file exists.
    pub(super) fn absence(&self, pack: &str) -> Option<String> {
        self.await_first();
        // The file may be newer than the last check.
        if self.files.lock().looked_at.elapsed() >= MISSING_CHECK {
            self.look();
        }
        if let Some(file) = self.offered.read().by_pack.get(pack) {
            return Some(format!("{} has just appeared; run this again", file.path.display()));
        }
        let files = self.files.lock();
        let broken = files.order.iter().filter(|candidate| candidate.default_pack == pack).find_map(|candidate| {
            let problem = files.known.get(&candidate.path)?.reading.as_ref().err()?;
            Some(subject_and_line(&candidate.path, problem))
        });
        let place = || files.problems.iter().find(|note| note.pack.as_deref() == Some(pack));
        broken.or_else(|| place().map(|note| format!("{} {}", note.subject, note.reason)))
    }

    fn offer(&self, files: &Files) {
        let mut offered = Offered::default();
        let mut note = |severity, subject: String, message: String| {
            offered.notes.push(HealthNote { severity, subject, message, facts: NoteFacts::default() });
        };
        for place in &files.problems {
            note(place.severity, place.subject.clone(), place.reason.clone());
        }
        let mut by_pack: HashMap<String, Arc<ToolFile>> = HashMap::new();
        let mut packs = Vec::new();
        for candidate in &files.order {
            let Some(known) = files.known.get(&candidate.path) else { continue };
            let subject = candidate.path.display().to_string();
            match &known.reading {
                Err(problem) => note(Severity::Error, subject, at_line(problem)),
                Ok(file) => {
                    if let Some(problem) = &known.broken {
                        let message = format!("{}; the last good version is used", at_line(problem));
                        note(Severity::Error, subject.clone(), message);
                    }
                    for warning in &file.warnings {
                        note(Severity::Warning, subject.clone(), at_line(warning));
                    }
                    let name = &file.pack.name;
                    if let Some(winner) = by_pack.get(name) {
                        let winner = winner.path.display();
                        let message = format!("pack '{name}' is already offered by {winner}; this file is not used");
                        note(Severity::Warning, subject, message);
                    } else {
                        by_pack.insert(name.clone(), file.clone());
                        packs.push(file.pack.clone());
                    }
                }
            }
        }
        offered.packs = packs;
        offered.by_pack = by_pack;
        *self.offered.write() = offered;
        self.generation.fetch_add(1, Ordering::Release);
    }
}

fn at_line(problem: &FileProblem) -> String {
    match problem.line {
        Some(line) => format!("line {line}: {}", problem.reason),
        None => problem.reason.clone(),
    }
}

fn subject_and_line(path: &Path, problem: &FileProblem) -> String {
    format!("{}: {}", path.display(), at_line(problem))
}

/// Reads files in parallel, on threads with enough stack for any syntax tree.
fn read_all(stale: &[(&Candidate, Stamp)], known: &HashMap<PathBuf, Known>) -> Vec<(PathBuf, Known)> {
    if stale.is_empty() {
        return Vec::new();
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let readers = cores.min(MAX_READERS).min(stale.len().div_ceil(FILES_A_READER));
    let chunk = stale.len().div_ceil(readers);
    std::thread::scope(|scope| {
        let handles: Vec<_> = stale
            .chunks(chunk)
            .map(|part| {
                let read = move || {
                    part.iter()
                        .map(|(candidate, stamp)| (candidate.path.clone(), read_one(candidate, *stamp, known)))
                        .collect::<Vec<_>>()
                };
                std::thread::Builder::new()
                    .name("tool-files".to_owned())
                    .stack_size(READER_STACK)
                    .spawn_scoped(scope, read)
            })
            .collect();
        let mut all = Vec::with_capacity(stale.len());
        for (handle, part) in handles.into_iter().zip(stale.chunks(chunk)) {
            match handle.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(readings)) => all.extend(readings),
                failed => {
                    let reason = match failed {
                        Err(error) => format!("could not be read: {error}"),
                        _ => "could not be read: the parser gave up".to_owned(),
                    };
                    all.extend(part.iter().map(|(candidate, stamp)| {
                        (candidate.path.clone(), broken(candidate, *stamp, FileProblem::new(reason.clone())))
                    }));
                }
            }
        }
        all
    })
}

fn broken(candidate: &Candidate, stamp: Stamp, problem: FileProblem) -> Known {
    let default_pack = candidate.default_pack.clone();
    Known { stamp, default_pack, hash: None, reading: Err(problem), helpers: Vec::new(), broken: None }
}

fn read_one(candidate: &Candidate, stamp: Stamp, known: &HashMap<PathBuf, Known>) -> Known {
    let content = match read_bounded(&candidate.path) {
        Ok(content) => content,
        Err(problem) => return broken(candidate, stamp, problem),
    };
    let mut whole = blake3::Hasher::new();
    whole.update(&content);
    let mut helpers = Vec::new();
    for path in helper_files(&candidate.path, &content) {
        let stamp = Stamp::of(&path);
        if let Ok(content) = read_bounded(&path) {
            whole.update(path.as_os_str().as_encoded_bytes());
            whole.update(&content);
        }
        helpers.push((path, stamp));
    }
    let hash = whole.finalize();
    let old = known.get(&candidate.path).filter(|old| old.default_pack == candidate.default_pack);
    if let Some(old) = old
        && old.hash == Some(hash)
    {
        return Known { stamp, helpers, ..old.clone() };
    }
    let default_pack = candidate.default_pack.clone();
    let reading = tool_file::read(&candidate.path, &default_pack, &content);
    match (reading, old.map(|old| &old.reading)) {
        (Err(problem), Some(Ok(good))) => {
            let reading = Ok(good.clone());
            Known { stamp, default_pack, hash: Some(hash), reading, helpers, broken: Some(problem) }
        }
        (reading, _) => {
            let reading = reading.map(|file| Arc::new(ToolFile { hash, ..file }));
            Known { stamp, default_pack, hash: Some(hash), reading, helpers, broken: None }
        }
    }
}

/// Returns the modules beside a file that it imports, and those that they import. A missing module may appear later, so
/// its path is included.
fn helper_files(path: &Path, content: &[u8]) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    let mut present = 0;
    let mut texts = vec![String::from_utf8_lossy(content).into_owned()];
    while let Some(text) = texts.pop() {
        let imports =
            text.lines().map(str::trim).filter(|line| line.starts_with("import ") || line.starts_with("from "));
        let words =
            imports.flat_map(|line| line.split(|character: char| !character.is_alphanumeric() && character != '_'));
        let names = words.filter(|word| !matches!(*word, "" | "import" | "from" | "as"));
        let names: HashSet<&str> = names.take(MAX_IMPORTED).collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        for name in names {
            let helper = folder.join(format!("{name}.py"));
            if found.len() >= MAX_IMPORTED || helper == path || found.contains(&helper) {
                continue;
            }
            if present < MAX_HELPERS && helper.is_file() {
                texts.extend(read_bounded(&helper).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
                present += 1;
            }
            found.push(helper);
        }
    }
    found
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, FileProblem> {
    let unreadable = |error: std::io::Error| FileProblem::new(format!("can't be read: {error}"));
    let file = fs::File::open(path).map_err(unreadable)?;
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(FileProblem::new(format!("is larger than {} KiB", MAX_FILE_BYTES >> 10)));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Maximum delay of a check for changes.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn registry(root: &Path) -> Arc<Registry> {
        Registry::new(Arc::new(WorkerSettings {
            project_tools: Some(root.join("p")),
            global_tools: Some(root.join("g")),
            folder: root.to_owned(),
            ..WorkerSettings::default()
        }))
    }

    fn put(root: &Path, name: &str, source: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, source).unwrap();
    }

    fn wait_for_change(registry: &Registry, from: u64) -> u64 {
        let started = Instant::now();
        loop {
            let now = registry.generation();
            if now != from {
                return now;
            }
            assert!(started.elapsed() < PATIENCE, "the change was not seen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_project_wins_and_the_loser_is_named() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "p/a/a_tools.py", "def project(): ...");
        put(folder.path(), "g/a/a_tools.py", "def everywhere(): ...");
        put(folder.path(), "g/b/b_tools.py", "def b(): ...");
        let registry = registry(folder.path());
        let packs = registry.packs();
        assert_eq!(packs.iter().map(|pack| pack.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(packs[0].tools.contains_key("project"));
        let notes = registry.notes();
        assert_eq!(notes.len(), 1);
        assert!(notes[0].subject.ends_with("g/a/a_tools.py"), "{notes:?}");
    }

    #[test]
    fn a_broken_file_breaks_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "p/a/a_tools.py", "def a(): ...");
        put(folder.path(), "p/b/b_tools.py", "x = 1\ndef b(:\n");
        put(folder.path(), "p/c/c_tools.py", &format!("def c(): return {}1", "1+".repeat(200_000)));
        put(folder.path(), "p/d/d_tools.py", &"(".repeat(400_000));
        let registry = registry(folder.path());
        assert_eq!(registry.packs().iter().map(|pack| pack.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        let notes = registry.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].subject.ends_with("b_tools.py") && notes[0].message.starts_with("line 2: "), "{notes:?}");
    }

    #[test]
    fn a_module_beside_a_file_is_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "p/a/helper.py", "import deeper\nX = 1");
        put(folder.path(), "p/a/deeper.py", "Y = 1");
        put(folder.path(), "p/a/other.py", "Z = 1");
        put(folder.path(), "p/a/a_tools.py", "import json\nfrom helper import X\ndef a(): ...");
        let registry = registry(folder.path());
        let hash = || registry.current("a").unwrap().hash;
        let first = hash();
        put(folder.path(), "p/a/helper.py", "import deeper\nX = 22");
        let second = hash();
        assert_ne!(first, second);
        put(folder.path(), "p/a/deeper.py", "Y = 22");
        let third = hash();
        assert_ne!(second, third);
        put(folder.path(), "p/a/other.py", "Z = 22");
        assert_eq!(hash(), third, "nobody imports it");
        put(folder.path(), "p/a/json.py", "");
        let fourth = hash();
        assert_ne!(third, fourth, "a module that was not there has appeared");
        fs::remove_file(folder.path().join("p/a/json.py")).unwrap();
        assert_eq!(hash(), third);
    }

    #[test]
    fn a_broken_edit_keeps_the_last_good_version() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "p/a/a_tools.py", "def good(): ...");
        let registry = registry(folder.path());
        let good = registry.current("a").unwrap();
        put(folder.path(), "p/a/a_tools.py", "def good(): ...\ndef broken(:\n");
        let kept = registry.current("a").unwrap();
        assert!(kept.pack.tools.contains_key("good") && kept.hash == good.hash);
        let notes = registry.notes();
        assert!(
            notes[0].message.starts_with("line 2: ") && notes[0].message.ends_with("the last good version is used"),
            "{notes:?}"
        );
        put(folder.path(), "p/a/a_tools.py", "def better(): ...");
        assert!(registry.current("a").unwrap().pack.tools.contains_key("better"));
        assert!(registry.notes().is_empty());
    }

    #[test]
    fn changes_move_the_generation_and_a_touch_does_not() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "p/a/a_tools.py", "def a(): ...");
        let registry = registry(folder.path());
        let first = registry.generation();
        put(folder.path(), "p/b/b_tools.py", "def b(): ...");
        let second = wait_for_change(&registry, first);
        put(folder.path(), "p/a/a_tools.py", "def a(x: int): ...");
        let third = wait_for_change(&registry, second);
        assert_eq!(registry.packs()[0].tools["a"].signature.parameters.len(), 1);
        put(folder.path(), "p/a/a_tools.py", "def a(x: int): ...");
        registry.refresh();
        assert_eq!(registry.generation(), third, "the same content is not a change");
        fs::remove_dir_all(folder.path().join("p/b")).unwrap();
        wait_for_change(&registry, third);
        assert_eq!(registry.packs().len(), 1);
    }
}
