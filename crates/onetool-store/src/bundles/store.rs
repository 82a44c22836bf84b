//! The store: reads from memory that follows the disk, changes under one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound as _, Utc};
use parking_lot::{Condvar, Mutex, RwLock};
use serde::Serialize;
use serde_json::Value as Json;

use crate::atomic::{self, Lock, StoreError};

use super::builtin::{BuiltInBundle, Switches};
use super::draft::{BundleDraft, Precondition, ToolDraft, Written};
use super::error::BundleError;
use super::files::{Layout, load};
use super::limits::{LOCK_WAIT, Limits, REAP_AFTER, REAP_EVERY, SWITCHES_BYTES, TRUST_FILES, TRUST_FOLDERS, USAGE_EVERY};
use super::model::{Bundle, SCHEMA_VERSION, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::page::{Page, PageToken};
use super::scan::{Depth, Memory};
use super::search::{Query, SearchIndex};
use super::state::{BundleView, State, ToolEntry, ToolView};
use super::usage::{self, UsageLog};

/// Says what is wrong with a tool before it is stored.
pub type ToolCheck = Arc<dyn Fn(&Bundle, &Tool) -> Result<(), String> + Send + Sync>;

/// Up to so many tools every file's time is looked at in the foreground: it takes less than a millisecond.
const SMALL_STORE: usize = 300;

/// How long the first reader waits for the files to be read.
const LOAD_WAIT: Duration = Duration::from_secs(30);

/// What a store is opened with.
pub struct Options {
    pub folder: std::path::PathBuf,
    pub limits: Limits,
    pub built_in: Vec<BuiltInBundle>,
    /// `pack.function` of every native function there is.
    pub native_functions: Vec<String>,
    pub check: ToolCheck,
}

/// Something on disk that does not count, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: std::path::PathBuf,
    pub message: String,
}

/// Which tools to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Any of these; all when empty.
    pub bundles: Vec<BundleId>,
    /// Any of these; all when empty.
    pub tags: Vec<String>,
    pub disabled: Disabled,
}

/// Whether disabled things are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Disabled {
    #[default]
    Hidden,
    Shown,
}

impl ToolFilter {
    fn key(&self) -> String {
        let mut bundles: Vec<String> = self.bundles.iter().map(ToString::to_string).collect();
        bundles.sort();
        let mut tags = self.tags.clone();
        tags.sort();
        format!("tools {bundles:?} {tags:?} {:?}", self.disabled)
    }
}

/// Bundles and their tools. Cheap to clone; the last clone ends the background work.
#[derive(Clone)]
pub struct BundleStore {
    shared: Arc<Shared>,
    _keeper: Arc<Keeper>,
}

struct Shared {
    layout: Layout,
    limits: Limits,
    check: ToolCheck,
    state: RwLock<State>,
    memory: Mutex<Memory>,
    index: Mutex<SearchIndex>,
    usage: Mutex<UsageLog>,
    looked: Mutex<Looked>,
    /// One change at a time in this process, so that only one thread waits for the lock file.
    writer: Mutex<()>,
    generation: AtomicU64,
    errands: Mutex<Errands>,
    wake: Condvar,
    loaded: Condvar,
}

struct Looked {
    folders: Instant,
    files: Instant,
}

/// What the background thread is asked to do.
#[derive(Default)]
struct Errands {
    loaded: bool,
    stop: bool,
    deep_scan: bool,
    flush_usage: bool,
}

/// Owns the background thread.
struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.errands.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl BundleStore {
    /// Opens a store. Returns at once; the files are read in the background, and the first read waits for them.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let now = Instant::now();
        let layout = Layout { root: options.folder };
        // What is switched off must be off from the first moment.
        let switches = load::<Switches>(&layout.switches(), SWITCHES_BYTES).map(|(switches, _, _)| switches);
        let state = State { switches: switches.unwrap_or_default(), ..State::default() };
        let shared = Arc::new(Shared {
            layout,
            limits: options.limits,
            check: options.check,
            state: RwLock::new(state),
            memory: Mutex::default(),
            index: Mutex::default(),
            usage: Mutex::default(),
            looked: Mutex::new(Looked { folders: now, files: now }),
            writer: Mutex::default(),
            generation: AtomicU64::new(0),
            errands: Mutex::default(),
            wake: Condvar::new(),
            loaded: Condvar::new(),
        });
        let worker = shared.clone();
        let (built_in, natives) = (options.built_in, options.native_functions);
        let thread = std::thread::Builder::new()
            .name("bundles".to_owned())
            .spawn(move || worker.keep(&built_in, natives))
            .map_err(|error| StoreError::io(&shared.layout.root, error))?;
        let keeper = Keeper { shared: shared.clone(), thread: Mutex::new(Some(thread)) };
        Ok(Self { shared, _keeper: Arc::new(keeper) })
    }

    /// Whether the files have been read, waiting at most `patience`.
    pub fn is_loaded(&self, patience: Duration) -> bool {
        self.shared.wait_loaded(patience)
    }

    /// Changes whenever anything does. Looks at the disk, but not more often than it must.
    pub fn generation(&self) -> u64 {
        if self.shared.errands.lock().loaded {
            self.shared.refresh();
        }
        self.shared.generation.load(Ordering::Acquire)
    }

    pub fn problems(&self) -> Vec<Problem> {
        let state = self.shared.state.read();
        state.problems.iter().map(|(path, message)| Problem { path: path.clone(), message: message.clone() }).collect()
    }

    /// A page of bundles, the newest first.
    pub fn bundles(
        &self,
        only: &[BundleId],
        disabled: Disabled,
        page_size: usize,
        token: Option<&str>,
    ) -> Result<Page<BundleView>, BundleError> {
        let mut sorted: Vec<String> = only.iter().map(ToString::to_string).collect();
        sorted.sort();
        let filters = format!("bundles {sorted:?} {disabled:?}");
        let after = token.map(|token| PageToken::open::<16>(token, &filters)).transpose()?.map(BundleId::from_bytes);
        self.shared.refresh();
        let state = self.shared.state.read();
        let mut items: Vec<BundleView> = state
            .bundles
            .iter()
            .rev()
            .filter(|(id, entry)| {
                after.is_none_or(|after| **id < after)
                    && entry.bundle.soft_deleted_at.is_none()
                    && (only.is_empty() || only.contains(id))
                    && (disabled == Disabled::Shown || state.is_bundle_enabled(&entry.bundle))
            })
            .take(page_size + 1)
            .map(|(_, entry)| state.bundle_view(entry))
            .collect();
        let more = items.len() > page_size;
        items.truncate(page_size);
        let next = items.last().filter(|_| more).map(|last| PageToken::seal(&last.bundle.id.to_bytes(), &filters));
        Ok(Page { items, next })
    }

    pub fn bundle(&self, id: BundleId) -> Result<BundleView, BundleError> {
        self.shared.refresh();
        let state = self.shared.state.read();
        state.live(id).map(|entry| state.bundle_view(entry))
    }

    /// A page of tools, the newest first.
    pub fn tools(&self, filter: &ToolFilter, page_size: usize, token: Option<&str>) -> Result<Page<ToolView>, BundleError> {
        let key = filter.key();
        let after = token.map(|token| PageToken::open::<16>(token, &key)).transpose()?.map(ToolId::from_bytes);
        self.shared.refresh();
        let state = self.shared.state.read();
        let found: Vec<&Arc<ToolEntry>> = match after {
            Some(after) => state.tools.range(..after),
            None => state.tools.range(..),
        }
        .rev()
        .map(|(_, entry)| entry)
        .filter(|entry| {
            (filter.bundles.is_empty() || filter.bundles.contains(&entry.bundle_id))
                && (filter.tags.is_empty() || entry.tags.iter().any(|tag| filter.tags.contains(tag)))
                && !state.is_deleted(entry)
                && (filter.disabled == Disabled::Shown || state.disabled_reason(entry).is_none())
        })
        .take(page_size + 1)
        .collect();
        let last = found.get(page_size.saturating_sub(1)).filter(|_| found.len() > page_size);
        let next = last.map(|last| PageToken::seal(&last.id.to_bytes(), &key));
        let items = self.shared.views(&state, found.into_iter().take(page_size))?;
        Ok(Page { items, next })
    }

    /// A page of tools that fit a query, the best first.
    pub fn search(
        &self,
        query: &str,
        disabled: Disabled,
        page_size: usize,
        token: Option<&str>,
    ) -> Result<Page<ToolView>, BundleError> {
        let parsed = Query::parse(query)?;
        let filters = format!("search {query:?} {disabled:?}");
        let after = token.map(|token| PageToken::open::<25>(token, &filters)).transpose()?;
        self.shared.refresh();
        self.shared.update_index();
        let fits = self.shared.index.lock().find(&parsed);
        let state = self.shared.state.read();
        let callable_bundles = state.callable_bundles();
        let mut found: Vec<([u8; 25], Arc<ToolEntry>)> = fits
            .into_iter()
            .filter_map(|(entry, fit)| {
                let is_callable_bundle = *callable_bundles.get(&entry.bundle_id)?;
                let key = position(fit as u8, &entry);
                let wanted = after.is_none_or(|after| key > after)
                    && (disabled == Disabled::Shown || is_callable_bundle && state.is_callable_alone(&entry));
                wanted.then_some((key, entry))
            })
            .collect();
        if found.len() > page_size + 1 {
            found.select_nth_unstable_by_key(page_size, |(key, _)| *key);
            found.truncate(page_size + 1);
        }
        found.sort_unstable_by_key(|(key, _)| *key);
        let last = found.get(page_size.saturating_sub(1)).filter(|_| found.len() > page_size);
        let next = last.map(|(key, _)| PageToken::seal(key, &filters));
        let items = self.shared.views(&state, found.iter().take(page_size).map(|(_, entry)| entry))?;
        Ok(Page { items, next })
    }

    /// One tool, as its file says now.
    pub fn tool(&self, bundle: BundleId, slug: &Slug, version: &Version) -> Result<ToolView, BundleError> {
        self.shared.refresh();
        let id = {
            let state = self.shared.state.read();
            state.find(bundle, slug, version).ok().filter(|entry| !entry.is_built_in).map(|entry| entry.id)
        };
        if let Some(id) = id
            && !self.shared.memory.lock().is_current(&self.shared.layout, bundle, id)
        {
            self.shared.scan(Depth::Files);
        }
        let state = self.shared.state.read();
        let entry = state.find(bundle, slug, version)?;
        let usage = self.shared.usage.lock().of(entry.id);
        state.tool_view(entry, usage)
    }

    /// Every tool of a bundle, the newest first.
    pub fn tools_of(&self, bundle: BundleId) -> Result<Vec<ToolView>, BundleError> {
        self.shared.refresh();
        let state = self.shared.state.read();
        let entry = state.live(bundle)?;
        self.shared.views(&state, entry.tools.iter().rev().filter_map(|id| state.tools.get(id)))
    }

    /// How many versions of a tool can be called.
    pub fn callable_versions(&self, bundle: BundleId, slug: &Slug) -> usize {
        let state = self.shared.state.read();
        let Ok(entry) = state.live(bundle) else { return 0 };
        let of_slug = entry.names.iter().filter(|((one, _), _)| one == slug).filter_map(|(_, id)| state.tools.get(id));
        of_slug.filter(|tool| state.disabled_reason(tool).is_none()).count()
    }

    /// Counts a call of a native function.
    pub fn record_native_call(&self, pack: &str, function: &str, at: DateTime<Utc>) {
        if let (Ok(pack), Ok(function)) = (Slug::from_identifier(pack), Slug::from_identifier(function)) {
            self.record_call(ToolId::built_in(pack.as_str(), function.as_str()), at);
        }
    }

    /// Whether a native function is switched on. Functions that no bundle shows are.
    pub fn is_native_enabled(&self, pack: &str, function: &str) -> bool {
        let Ok(slug) = Slug::from_identifier(pack) else { return true };
        let Ok(function) = Slug::from_identifier(function) else { return true };
        let state = self.shared.state.read();
        let bundle = BundleId::built_in(slug.as_str());
        let tool = ToolId::built_in(slug.as_str(), function.as_str());
        state.switches.bundles.get(&bundle).copied().unwrap_or(true)
            && state.switches.tools.get(&tool).copied().unwrap_or(true)
    }

    /// Counts a call. Never waits for the disk.
    pub fn record_call(&self, tool: ToolId, at: DateTime<Utc>) {
        self.shared.usage.lock().record(tool, at);
        let mut errands = self.shared.errands.lock();
        if !errands.flush_usage {
            errands.flush_usage = true;
            self.shared.wake.notify_all();
        }
    }

    /// Creates or replaces a bundle; a soft-deleted one comes back.
    pub fn put_bundle(
        &self,
        id: BundleId,
        draft: BundleDraft,
        precondition: &Precondition,
    ) -> Result<(BundleView, Written), BundleError> {
        let shared = &self.shared;
        let written = shared.change(id, || {
            let now = now();
            let (bundle, written) = {
                let state = shared.state.read();
                let old = state.bundles.get(&id);
                if old.is_some_and(|old| old.bundle.is_built_in) {
                    return Err(BundleError::BuiltIn(format!("bundle {id} can't be replaced")));
                }
                let live = old.filter(|old| old.bundle.soft_deleted_at.is_none());
                require(precondition, live.map(|old| state.bundle_view(old).etag).as_deref(), &format!("bundle {id}"))?;
                let own = state.bundles.values().filter(|entry| !entry.bundle.is_built_in).count();
                if old.is_none() && own >= shared.limits.bundles {
                    return Err(BundleError::Limit(format!("there may be at most {} bundles", shared.limits.bundles)));
                }
                let bundle = Bundle {
                    schema_version: SCHEMA_VERSION.to_owned(),
                    id,
                    slug: draft.slug,
                    display_name: draft.display_name,
                    description: draft.description,
                    is_enabled: draft.is_enabled,
                    is_built_in: false,
                    secrets: draft.secrets,
                    created_at: old.map_or(now, |old| old.bundle.created_at),
                    modified_at: now,
                    soft_deleted_at: None,
                };
                (bundle, if live.is_some() { Written::Replaced } else { Written::Created })
            };
            atomic::write(&shared.layout.bundle(id), shared.render(&bundle)?.as_bytes())?;
            Ok(written)
        })?;
        Ok((self.bundle(id)?, written))
    }

    pub fn set_bundle_enabled(
        &self,
        id: BundleId,
        enabled: Enabled,
        precondition: &Precondition,
    ) -> Result<BundleView, BundleError> {
        let shared = &self.shared;
        shared.change(id, || {
            let built_in = {
                let state = shared.state.read();
                let entry = state.live(id)?;
                require(precondition, Some(&state.bundle_view(entry).etag), &format!("bundle {id}"))?;
                entry.bundle.is_built_in
            };
            if built_in {
                let mut switches = shared.state.read().switches.clone();
                switches.bundles.insert(id, enabled.into());
                return shared.write_switches(&switches);
            }
            shared.edit(&shared.layout.bundle(id), "isEnabled", Json::Bool(enabled.into()))
        })?;
        self.bundle(id)
    }

    /// Marks an empty bundle as deleted. It goes for good after two days.
    pub fn delete_bundle(&self, id: BundleId, precondition: &Precondition) -> Result<(), BundleError> {
        let shared = &self.shared;
        shared.change(id, || {
            {
                let state = shared.state.read();
                let entry = state.live(id)?;
                if entry.bundle.is_built_in {
                    return Err(BundleError::BuiltIn(format!("bundle {id} can't be deleted")));
                }
                require(precondition, Some(&state.bundle_view(entry).etag), &format!("bundle {id}"))?;
                if !entry.tools.is_empty() {
                    return Err(BundleError::Conflict(format!(
                        "bundle {id} still has {} tools; delete them first",
                        entry.tools.len()
                    )));
                }
            }
            let at = serde_json::to_value(now()).unwrap_or_default();
            shared.edit(&shared.layout.bundle(id), "softDeletedAt", at)
        })
    }

    /// Stores a new tool. `<slug, version>` must be free.
    pub fn put_tool(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        draft: ToolDraft,
        precondition: &Precondition,
    ) -> Result<ToolView, BundleError> {
        let shared = &self.shared;
        shared.change(bundle, || {
            let (owner, total_bytes) = {
                let state = shared.state.read();
                let entry = state.live(bundle)?;
                if entry.bundle.is_built_in {
                    return Err(BundleError::BuiltIn(format!("bundle {bundle} takes no tools")));
                }
                shared.require_enabled(&entry.bundle)?;
                if state.find(bundle, slug, version).is_ok() {
                    return Err(BundleError::Conflict(format!(
                        "bundle {bundle} has a tool {slug} {version} already; choose another version, or delete it first"
                    )));
                }
                require(precondition, None, &format!("tool {slug} {version}"))?;
                if state.tools.values().filter(|tool| !tool.is_built_in).count() >= shared.limits.tools {
                    return Err(BundleError::Limit(format!("there may be at most {} tools", shared.limits.tools)));
                }
                (entry.bundle.clone(), state.total_bytes)
            };
            let now = now();
            let tool = Tool {
                schema_version: SCHEMA_VERSION.to_owned(),
                id: ToolId::generate(),
                bundle_id: bundle,
                slug: slug.clone(),
                version: version.clone(),
                display_name: draft.display_name,
                description: draft.description,
                tags: draft.tags,
                implementation: draft.implementation,
                is_enabled: draft.is_enabled,
                is_built_in: false,
                arg_schema: draft.arg_schema,
                output_schema: draft.output_schema,
                max_calls_per_minute: draft.max_calls_per_minute,
                created_at: now,
                modified_at: now,
            };
            (shared.check)(&owner, &tool).map_err(BundleError::Invalid)?;
            let text = shared.render(&tool)?;
            if total_bytes + text.len() as u64 > shared.limits.total_bytes {
                return Err(BundleError::Limit(format!(
                    "all tools together may have at most {} bytes",
                    shared.limits.total_bytes
                )));
            }
            Ok(atomic::create(&shared.layout.tool(bundle, tool.id), text.as_bytes())?)
        })?;
        self.tool(bundle, slug, version)
    }

    pub fn set_tool_enabled(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        enabled: Enabled,
        precondition: &Precondition,
    ) -> Result<ToolView, BundleError> {
        let shared = &self.shared;
        shared.change(bundle, || {
            let (id, built_in) = shared.changeable(bundle, slug, version, precondition)?;
            if built_in {
                let mut switches = shared.state.read().switches.clone();
                switches.tools.insert(id, enabled.into());
                return shared.write_switches(&switches);
            }
            shared.edit(&shared.layout.tool(bundle, id), "isEnabled", Json::Bool(enabled.into()))
        })?;
        self.tool(bundle, slug, version)
    }

    /// Deletes a tool for good.
    pub fn delete_tool(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        precondition: &Precondition,
    ) -> Result<(), BundleError> {
        let shared = &self.shared;
        shared.change(bundle, || {
            let (id, built_in) = shared.changeable(bundle, slug, version, precondition)?;
            if built_in {
                return Err(BundleError::BuiltIn(format!("tool {slug} {version} can't be deleted")));
            }
            Ok(atomic::remove(&shared.layout.tool(bundle, id))?)
        })
    }

    /// Removes bundles that were soft-deleted two days before `now` and are still empty. Says how many went.
    pub fn reap(&self, now: DateTime<Utc>) -> Result<usize, BundleError> {
        self.shared.wait_loaded(LOAD_WAIT);
        self.shared.reap(now)
    }

    /// Writes usage counts that have gathered.
    pub fn flush_usage(&self) -> Result<(), StoreError> {
        self.shared.flush_usage()
    }
}

/// What a switch is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    On,
    Off,
}

impl From<Enabled> for bool {
    fn from(enabled: Enabled) -> Self {
        enabled == Enabled::On
    }
}

impl From<bool> for Enabled {
    fn from(enabled: bool) -> Self {
        if enabled { Self::On } else { Self::Off }
    }
}

/// Where a tool stands in a search's order, as bytes that sort so: fit, then the most recent, then the newest id.
fn position(fit: u8, entry: &ToolEntry) -> [u8; 25] {
    let mut key = [0; 25];
    key[0] = fit;
    key[1..9].copy_from_slice(&(!entry.modified_at.timestamp_micros().cast_unsigned()).to_be_bytes());
    key[9..].copy_from_slice(&entry.id.to_bytes().map(|byte| !byte));
    key
}

/// Times as the files hold them.
fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

fn require(precondition: &Precondition, etag: Option<&str>, what: &str) -> Result<(), BundleError> {
    let holds = match (precondition, etag) {
        (Precondition::None, _) | (Precondition::Absent, None) => true,
        (Precondition::Matches(etags), Some(etag)) => etags.is_empty() || etags.iter().any(|one| one == etag),
        (Precondition::Absent, Some(_)) | (Precondition::Matches(_), None) => false,
    };
    if holds { Ok(()) } else { Err(BundleError::Changed(what.to_owned())) }
}

impl Shared {
    fn wait_loaded(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut errands = self.errands.lock();
        while !errands.loaded {
            if self.loaded.wait_until(&mut errands, until).timed_out() {
                return errands.loaded;
            }
        }
        true
    }

    fn scan(&self, depth: Depth) {
        let mut memory = self.memory.lock();
        let started = Instant::now();
        let changes = memory.scan(&self.layout, &self.limits, depth);
        {
            let mut looked = self.looked.lock();
            looked.folders = started;
            if depth == Depth::Files {
                looked.files = started;
            }
        }
        if changes.is_empty() {
            return;
        }
        let mut state = self.state.write();
        for (bundle, tool) in state.apply(changes, &self.layout) {
            memory.forget_tool(bundle, tool);
        }
        self.generation.store(state.generation, Ordering::Release);
    }

    /// Brings memory up to date, as far as it is cheap.
    fn refresh(&self) {
        self.wait_loaded(LOAD_WAIT);
        let (folders, files) = {
            let looked = self.looked.lock();
            (looked.folders.elapsed(), looked.files.elapsed())
        };
        if files > TRUST_FILES {
            if self.state.read().tools.len() <= SMALL_STORE {
                self.scan(Depth::Files);
                return;
            }
            let mut errands = self.errands.lock();
            if !errands.deep_scan {
                errands.deep_scan = true;
                self.wake.notify_all();
            }
        }
        if folders > TRUST_FOLDERS {
            self.scan(Depth::Folders);
        }
    }

    fn update_index(&self) {
        let mut index = self.index.lock();
        let mut state = self.state.write();
        let dirty = std::mem::take(&mut state.dirty);
        if dirty.is_empty() {
            return;
        }
        let state = parking_lot::RwLockWriteGuard::downgrade(state);
        index.batch(|index| {
            for id in dirty {
                index.update(id, state.tools.get(&id));
            }
        });
    }

    fn views<'a>(
        &self,
        state: &State,
        entries: impl Iterator<Item = &'a Arc<ToolEntry>>,
    ) -> Result<Vec<ToolView>, BundleError> {
        let usage = self.usage.lock();
        entries.map(|entry| state.tool_view(entry, usage.of(entry.id))).collect()
    }

    /// Runs a change with the lock held and memory as the disk is, before and after.
    fn change<T>(&self, bundle: BundleId, work: impl FnOnce() -> Result<T, BundleError>) -> Result<T, BundleError> {
        self.wait_loaded(LOAD_WAIT);
        let _turn = self.writer.lock();
        let _held = Lock::take(&self.layout.lock(), LOCK_WAIT)?;
        self.memory.lock().distrust(bundle);
        self.scan(Depth::Folders);
        let result = work();
        self.memory.lock().distrust(bundle);
        self.scan(Depth::Folders);
        result
    }

    fn require_enabled(&self, bundle: &Bundle) -> Result<(), BundleError> {
        if bundle.is_enabled {
            Ok(())
        } else {
            Err(BundleError::Conflict(format!("bundle {} is disabled; enable it before changing its tools", bundle.id)))
        }
    }

    /// The tool's id, and whether it is built in, if it may change now.
    fn changeable(
        &self,
        bundle: BundleId,
        slug: &Slug,
        version: &Version,
        precondition: &Precondition,
    ) -> Result<(ToolId, bool), BundleError> {
        let state = self.state.read();
        let entry = state.find(bundle, slug, version)?;
        let owner = state.live(bundle)?;
        if !state.is_bundle_enabled(&owner.bundle) {
            return Err(BundleError::Conflict(format!(
                "bundle {bundle} is disabled; enable it before changing its tools"
            )));
        }
        require(precondition, Some(&state.tool_etag(entry)), &format!("tool {slug} {version}"))?;
        Ok((entry.id, entry.is_built_in))
    }

    fn render(&self, value: &impl Serialize) -> Result<String, BundleError> {
        let text = serde_json::to_string_pretty(value).map_err(|error| BundleError::Invalid(error.to_string()))?;
        if text.len() > self.limits.file_bytes {
            return Err(BundleError::Limit(format!(
                "it would have {} bytes; at most {} are allowed",
                text.len(),
                self.limits.file_bytes
            )));
        }
        Ok(text)
    }

    /// Changes one field of a file and keeps the rest, even what this build does not know.
    fn edit(&self, path: &std::path::Path, field: &str, value: Json) -> Result<(), BundleError> {
        let text = std::fs::read_to_string(path).map_err(|error| StoreError::io(path, error))?;
        let mut json: Json = serde_json::from_str(&text).map_err(|error| BundleError::Invalid(error.to_string()))?;
        if let Some(object) = json.as_object_mut() {
            object.insert(field.to_owned(), value);
        }
        Ok(atomic::write(path, self.render(&json)?.as_bytes())?)
    }

    fn write_switches(&self, switches: &Switches) -> Result<(), BundleError> {
        Ok(atomic::write(&self.layout.switches(), self.render(switches)?.as_bytes())?)
    }

    fn reap(&self, now: DateTime<Utc>) -> Result<usize, BundleError> {
        let due: Vec<BundleId> = {
            let state = self.state.read();
            let is_due = |bundle: &Bundle| bundle.soft_deleted_at.is_some_and(|at| now - at >= REAP_AFTER);
            state.bundles.iter().filter(|(_, entry)| is_due(&entry.bundle)).map(|(id, _)| *id).collect()
        };
        let mut reaped = 0;
        for id in due {
            reaped += self.change(id, || {
                let still = self.state.read().bundles.get(&id).is_some_and(|entry| {
                    entry.tools.is_empty() && entry.bundle.soft_deleted_at.is_some_and(|at| now - at >= REAP_AFTER)
                });
                let folder = self.layout.folder(id);
                let alone = std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 1);
                if !(still && alone) {
                    return Ok(0);
                }
                atomic::remove(&self.layout.bundle(id))?;
                std::fs::remove_dir(&folder).map_err(|error| StoreError::io(&folder, error))?;
                Ok(1)
            })?;
        }
        Ok(reaped)
    }

    fn flush_usage(&self) -> Result<(), StoreError> {
        let batch = {
            let mut usage = self.usage.lock();
            if !usage.has_pending() {
                return Ok(());
            }
            usage.take_pending()
        };
        match usage::append(&self.layout, &batch) {
            Ok(held) => {
                let mut usage = self.usage.lock();
                usage.catch_up(&self.layout);
                usage.compact(&self.layout, &held)
            }
            Err(error) => {
                self.usage.lock().put_back(batch);
                Err(error)
            }
        }
    }

    /// The background thread: loads, then waits for errands.
    fn keep(&self, built_in: &[BuiltInBundle], natives: Vec<String>) {
        self.load_built_in(built_in, natives);
        self.scan(Depth::Files);
        self.usage.lock().catch_up(&self.layout);
        self.errands.lock().loaded = true;
        self.loaded.notify_all();
        self.update_index();
        let mut reaped: Option<Instant> = None;
        loop {
            if reaped.is_none_or(|at| at.elapsed() >= REAP_EVERY) {
                reaped = Some(Instant::now());
                if let Err(error) = self.reap(Utc::now()) {
                    tracing::warn!(%error, "deleted bundles could not be removed");
                }
            }
            let mut errands = self.errands.lock();
            if !(errands.stop || errands.deep_scan || errands.flush_usage) {
                self.wake.wait_for(&mut errands, REAP_EVERY);
            }
            if errands.flush_usage && !errands.stop {
                // Let calls gather; a stop ends the wait.
                self.wake.wait_for(&mut errands, USAGE_EVERY);
            }
            let stop = errands.stop;
            let deep_scan = std::mem::take(&mut errands.deep_scan);
            let flush = std::mem::take(&mut errands.flush_usage);
            drop(errands);
            if (flush || stop)
                && let Err(error) = self.flush_usage()
            {
                tracing::warn!(%error, "usage counts could not be written");
            }
            if stop {
                return;
            }
            if deep_scan {
                self.scan(Depth::Files);
                self.usage.lock().catch_up(&self.layout);
                self.update_index();
            }
        }
    }

    fn load_built_in(&self, built_in: &[BuiltInBundle], natives: Vec<String>) {
        let mut state = self.state.write();
        state.natives = natives.into_iter().collect();
        for one in built_in {
            let (bundle, tools) = match one.resolve() {
                Ok(resolved) => resolved,
                Err(error) => {
                    tracing::warn!(pack = one.pack, %error, "a built-in pack can't be shown as a bundle");
                    continue;
                }
            };
            let text = serde_json::to_string(&bundle).unwrap_or_default();
            state.insert_bundle(bundle, &text);
            for (tool, unavailable) in tools {
                let text = serde_json::to_string(&tool).unwrap_or_default();
                state.insert_tool(Arc::new(ToolEntry::new(&tool, text, unavailable)));
            }
        }
        state.total_bytes = 0;
        self.generation.store(state.generation, Ordering::Release);
    }
}
