//! The background thread of a store: it reads the files, and then does what can wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;

use crate::atomic::{self, StoreError};

use super::builtin::BuiltInBundle;
use super::error::BundleError;
use super::limits::{REAP_AFTER, REAP_EVERY, USAGE_EVERY};
use super::model::Bundle;
use super::names::BundleId;
use super::scan::Depth;
use super::state::ToolEntry;
use super::store::Shared;
use super::usage;

/// Owns the background thread.
pub(super) struct Keeper {
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

impl Keeper {
    pub(super) fn start(
        shared: &Arc<Shared>,
        built_in: Vec<BuiltInBundle>,
        natives: Vec<String>,
    ) -> Result<Self, StoreError> {
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name("bundles".to_owned())
            .spawn(move || worker.keep(&built_in, natives))
            .map_err(|error| StoreError::io(&shared.layout.root, error))?;
        Ok(Self { shared: shared.clone(), thread: Mutex::new(Some(thread)) })
    }
}

impl Shared {
    pub(super) fn reap(&self, now: DateTime<Utc>) -> Result<usize, BundleError> {
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

    pub(super) fn flush_usage(&self) -> Result<(), StoreError> {
        if !self.layout.is_at_home() {
            return Ok(());
        }
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
