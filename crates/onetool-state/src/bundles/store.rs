//! The store: reads, from memory that follows the disk. Changes are in `changes`, background work in `keeper`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::atomic::StoreError;
use crate::interface::{Collection, Cursor, Documents, Effort, State as SharedState, StateError, Trail};
use crate::wait;

use super::builtin::BuiltInBundle;
use super::changes::new_tool;
use super::draft::ToolDraft;
use super::error::BundleError;
use super::feed::{self, tool_key};
use super::keeper::Keeper;
use super::limits::{Limits, TRUST_FILES, TRUST_FOLDERS};
use super::model::{Bundle, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::page::{Page, PageToken};
use super::search::{Query, SearchIndex};
use super::state::{BundleView, Extent, State, ToolEntry, ToolView};
use super::usage::UsageLog;

/// Checks a tool before it is stored; the error says what is wrong.
pub type ToolCheck = Arc<dyn Fn(&Bundle, &Tool, &dyn Neighbours) -> Result<(), String> + Send + Sync>;

/// What the check of a tool may ask about other tools.
pub trait Neighbours {
    /// The tools that a stored tool calls, as `pack.function` and, if it names one, version.
    fn calls_of(&self, tool: &str, version: Option<&str>) -> Vec<(String, Option<String>)>;
}

/// Checks a bundle before it is stored; the error says what is wrong.
pub type BundleCheck = Arc<dyn Fn(&Bundle) -> Result<(), String> + Send + Sync>;

/// Up to this many tools, every file's time is checked in the foreground: it takes less than a millisecond.
const SMALL_STORE: usize = 300;

/// The key of the state itself among the problems.
const STATE_PROBLEM: &str = "state";

/// How long the first reader waits for the files to be read.
pub(super) const LOAD_WAIT: Duration = Duration::from_secs(30);

/// Options for opening a store.
pub struct Options {
    pub state: SharedState,
    pub limits: Limits,
    pub built_in: Vec<BuiltInBundle>,
    /// `pack.function` of every native function.
    pub native_functions: Vec<String>,
    pub check: ToolCheck,
    pub check_bundle: BundleCheck,
}

/// A document that is ignored, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: std::path::PathBuf,
    pub message: String,
}

/// Selects tools to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Any of these; all when empty.
    pub bundles: Vec<BundleId>,
    /// Any of these; all when empty.
    pub tags: Vec<String>,
    pub disabled: Disabled,
}

/// Whether disabled tools and bundles are listed.
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

/// Bundles and their tools. Cheap to clone; dropping the last clone ends the background work.
#[derive(Clone)]
pub struct BundleStore {
    pub(super) shared: Arc<Shared>,
    _keeper: Arc<Keeper>,
}

pub(super) struct Shared {
    pub(super) documents: Arc<dyn Documents>,
    pub(super) trail: Arc<dyn Trail>,
    pub(super) limits: Limits,
    pub(super) check: ToolCheck,
    pub(super) check_bundle: BundleCheck,
    pub(super) state: RwLock<State>,
    /// How far the feed of changes has been applied.
    pub(super) cursor: Mutex<Cursor>,
    pub(super) index: Mutex<SearchIndex>,
    pub(super) usage: Mutex<UsageLog>,
    pub(super) looked: Mutex<Looked>,
    /// One change at a time in this process, so that only one thread waits for the lock file.
    pub(super) writer: Mutex<()>,
    pub(super) generation: AtomicU64,
    pub(super) errands: Mutex<BackgroundWork>,
    pub(super) wake: Condvar,
    pub(super) loaded: Condvar,
}

pub(super) struct Looked {
    pub(super) folders: Instant,
    pub(super) files: Instant,
}

/// What the background thread is asked to do.
#[derive(Default)]
pub(super) struct BackgroundWork {
    pub(super) loaded: bool,
    pub(super) stop: bool,
    pub(super) deep_scan: bool,
    pub(super) flush_usage: bool,
}

/// A native function, as the store knows it. Its ids are hashes of its name: keep them if you call it often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeTool {
    pub bundle: BundleId,
    pub tool: ToolId,
}

impl NativeTool {
    /// `None` for a name that no bundle can have.
    pub fn named(pack: &str, function: &str) -> Option<Self> {
        let bundle = Slug::from_identifier(pack).ok()?;
        let function = Slug::from_identifier(function).ok()?;
        let tool = ToolId::built_in(bundle.as_str(), function.as_str());
        Some(Self { bundle: BundleId::built_in(bundle.as_str()), tool })
    }
}

impl BundleStore {
    /// Opens a store. Returns immediately; the documents are read in the background, and the first read waits for them.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let now = Instant::now();
        let documents = options.state.documents();
        // Disabled tools must be disabled from the start.
        let state = State { switches: feed::switches(&*documents).unwrap_or_default(), ..State::default() };
        let shared = Arc::new(Shared {
            documents,
            trail: options.state.trail(),
            limits: options.limits,
            check: options.check,
            check_bundle: options.check_bundle,
            state: RwLock::new(state),
            cursor: Mutex::default(),
            index: Mutex::default(),
            usage: Mutex::default(),
            looked: Mutex::new(Looked { folders: now, files: now }),
            writer: Mutex::default(),
            generation: AtomicU64::new(0),
            errands: Mutex::default(),
            wake: Condvar::new(),
            loaded: Condvar::new(),
        });
        let keeper = Keeper::start(&shared, options.built_in, options.native_functions)?;
        Ok(Self { shared, _keeper: Arc::new(keeper) })
    }

    /// Whether the documents have been read, waiting at most `patience`.
    pub fn is_loaded(&self, patience: Duration) -> bool {
        self.shared.wait_loaded(patience)
    }

    /// Changes whenever anything does. Checks the disk, but no more often than necessary.
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

    /// Whether the last attempt to reach the shared state failed.
    pub fn is_cut_off(&self) -> bool {
        self.shared.state.read().problems.contains_key(std::path::Path::new(STATE_PROBLEM))
    }

    /// Returns a page of bundles, newest first.
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

    /// The user's own bundle with this slug.
    pub fn own_bundle(&self, slug: &Slug) -> Option<BundleId> {
        self.shared.refresh();
        self.shared.state.read().own_bundles(slug).next()
    }

    /// Finds the bundle with this id or slug; an id need not exist. A user's own bundle takes precedence over a
    /// built-in one with the same slug.
    pub fn find_bundle(&self, name: &str) -> Result<Option<BundleId>, BundleError> {
        if let Ok(id) = name.parse::<BundleId>() {
            return Ok(Some(id));
        }
        let slug: Slug = name.parse()?;
        self.shared.refresh();
        let state = self.shared.state.read();
        let own: Vec<BundleId> = state.own_bundles(&slug).collect();
        match own.as_slice() {
            [one] => Ok(Some(*one)),
            [] => {
                let mut all = state.bundles.values().map(|entry| &entry.bundle);
                Ok(all.find(|bundle| bundle.is_built_in && bundle.slug == slug).map(|bundle| bundle.id))
            }
            many => {
                let ids: Vec<String> = many.iter().map(ToString::to_string).collect();
                Err(BundleError::Conflict(format!(
                    "{} bundles have the slug '{name}'; name one by its id: {}",
                    many.len(),
                    ids.join(", ")
                )))
            }
        }
    }

    pub fn bundle(&self, id: BundleId) -> Result<BundleView, BundleError> {
        self.shared.refresh();
        let state = self.shared.state.read();
        state.live(id).map(|entry| state.bundle_view(entry))
    }

    /// Returns a checked tool as it would be stored, and its bundle, without storing it.
    pub fn draft_tool(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        draft: ToolDraft,
    ) -> Result<(Arc<Bundle>, Tool), BundleError> {
        self.shared.refresh();
        let state = self.shared.state.read();
        let entry = state.live(bundle)?;
        let tool = new_tool(bundle, (slug, version), draft, Utc::now());
        tool.translations.check().map_err(BundleError::Invalid)?;
        (self.shared.check)(&entry.bundle, &tool, &*state).map_err(BundleError::Invalid)?;
        Ok((entry.bundle.clone(), tool))
    }

    /// Returns a page of tools, newest first.
    pub fn tools(
        &self,
        filter: &ToolFilter,
        page_size: usize,
        token: Option<&str>,
    ) -> Result<Page<ToolView>, BundleError> {
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

    /// Returns a page of tools that match a query, best first.
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
        // The index before the state: the same lock order as updates.
        let index = self.shared.index.lock();
        let fits = index.find(&parsed);
        let state = self.shared.state.read();
        let callable_bundles = state.callable_bundles();
        let mut found: Vec<([u8; 25], &Arc<ToolEntry>)> = fits
            .into_iter()
            .filter_map(|(entry, fit)| {
                let is_callable_bundle = *callable_bundles.get(&entry.bundle_id)?;
                let key = position(fit as u8, entry);
                let wanted = after.is_none_or(|after| key > after)
                    && (disabled == Disabled::Shown || is_callable_bundle && state.is_callable_alone(entry));
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
        let items = self.shared.views(&state, found.into_iter().take(page_size).map(|(_, entry)| entry))?;
        Ok(Page { items, next })
    }

    /// Returns one tool, in its current stored state.
    pub fn tool(&self, bundle: BundleId, slug: &Slug, version: &Version) -> Result<ToolView, BundleError> {
        self.shared.refresh();
        let id = {
            let state = self.shared.state.read();
            state.find(bundle, slug, version).ok().filter(|entry| !entry.is_built_in).map(|entry| entry.id)
        };
        if let Some(id) = id
            && let Some(key) = tool_key(bundle, id)
            && !self.shared.documents.is_current(Collection::BUNDLES, &key)
        {
            self.shared.look(Effort::Thorough);
        }
        let state = self.shared.state.read();
        let entry = state.find(bundle, slug, version)?;
        let usage = self.shared.usage.lock().of(entry.id);
        state.tool_view(entry, usage)
    }

    /// Returns every tool of a bundle, newest first.
    pub fn tools_of(&self, bundle: BundleId) -> Result<Vec<ToolView>, BundleError> {
        self.shared.refresh();
        let state = self.shared.state.read();
        let entry = state.live(bundle)?;
        self.shared.views(&state, entry.tools.iter().rev().filter_map(|id| state.tools.get(id)))
    }

    /// Whether a native function is enabled. Functions that no bundle contains are.
    pub fn is_native_enabled(&self, pack: &str, function: &str) -> bool {
        NativeTool::named(pack, function).is_none_or(|native| self.is_switched_on(native))
    }

    /// Like [`Self::is_native_enabled`], with known ids.
    pub fn is_switched_on(&self, native: NativeTool) -> bool {
        let state = self.shared.state.read();
        state.switches.bundles.get(&native.bundle).copied().unwrap_or(true)
            && state.switches.tools.get(&native.tool).copied().unwrap_or(true)
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

    /// Removes bundles that were soft-deleted two days before `now` and are still empty. Returns their number.
    pub fn reap(&self, now: DateTime<Utc>) -> Result<usize, BundleError> {
        self.shared.wait_loaded(LOAD_WAIT);
        self.shared.reap(now)
    }

    /// Writes pending usage counts.
    pub fn flush_usage(&self) -> Result<(), StateError> {
        self.shared.flush_usage()
    }
}

/// The new state of a switch.
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

/// A tool's position in the search order, as sortable bytes: fit, then the most recent, then the newest id.
fn position(fit: u8, entry: &ToolEntry) -> [u8; 25] {
    let mut key = [0; 25];
    key[0] = fit;
    key[1..9].copy_from_slice(&(!entry.modified_at.timestamp_micros().cast_unsigned()).to_be_bytes());
    key[9..].copy_from_slice(&entry.id.to_bytes().map(|byte| !byte));
    key
}

impl Shared {
    pub(super) fn wait_loaded(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut errands = self.errands.lock();
        while !errands.loaded {
            if self.loaded.wait_until(&mut errands, until).timed_out() {
                return errands.loaded;
            }
        }
        true
    }

    /// Applies changes. If they cannot be read now, memory stays as it is, and the problem is reported.
    pub(super) fn look(&self, effort: Effort) {
        if let Err(error) = self.catch_up(effort) {
            tracing::warn!(%error, "changes of bundles can't be read");
            self.state.write().problems.insert(STATE_PROBLEM.into(), error.to_string());
        }
    }

    pub(super) fn catch_up(&self, effort: Effort) -> Result<(), StateError> {
        let mut cursor = self.cursor.lock();
        let started = Instant::now();
        let feed = wait(self.documents.changes(Collection::BUNDLES, *cursor, effort))?;
        {
            let mut looked = self.looked.lock();
            looked.folders = started;
            if effort == Effort::Thorough {
                looked.files = started;
            }
        }
        let extent = if feed.is_whole { Extent::Everything } else { Extent::Difference };
        let (is_news, next) = (extent == Extent::Everything || !feed.changes.is_empty(), feed.cursor);
        let was_away = self.state.read().problems.contains_key(std::path::Path::new(STATE_PROBLEM));
        if is_news || was_away {
            let changes = feed::read(&*self.documents, &self.limits, feed);
            let mut state = self.state.write();
            state.problems.remove(std::path::Path::new(STATE_PROBLEM));
            state.apply(changes, extent, &*self.documents);
            self.generation.store(state.generation, Ordering::Release);
        }
        *cursor = next;
        Ok(())
    }

    /// Updates memory as far as that is cheap.
    fn refresh(&self) {
        self.wait_loaded(LOAD_WAIT);
        if self.documents.poll_every().is_some() {
            return;
        }
        let (folders, files) = {
            let looked = self.looked.lock();
            (looked.folders.elapsed(), looked.files.elapsed())
        };
        if files > TRUST_FILES {
            if self.state.read().tools.len() <= SMALL_STORE {
                self.look(Effort::Thorough);
                return;
            }
            let mut errands = self.errands.lock();
            if !errands.deep_scan {
                errands.deep_scan = true;
                self.wake.notify_all();
            }
        }
        if folders > TRUST_FOLDERS {
            self.look(Effort::Usual);
        }
    }

    pub(super) fn update_index(&self) {
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
}
