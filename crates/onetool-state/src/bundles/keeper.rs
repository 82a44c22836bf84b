//! The background thread of a store: it loads the documents, and then does deferrable work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;

use crate::atomic::StoreError;
use crate::interface::{Collection, Effort, StateError};

use super::builtin::BuiltInBundle;
use super::changes::Edit;
use super::error::BundleError;
use super::feed::bundle_key;
use super::limits::{REAP_AFTER, REAP_EVERY, USAGE_EVERY};
use super::model::Bundle;
use super::names::BundleId;
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
            .map_err(|error| StoreError::io("bundles", error))?;
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
            let Some(key) = bundle_key(id) else { continue };
            let place = self.documents.place(Collection::BUNDLES, &key);
            let folder = Path::new(&place).parent().map(Path::to_owned);
            let went = self.change(id, |state| {
                let is_due = state.bundles.get(&id).is_some_and(|entry| {
                    entry.tools.is_empty() && entry.bundle.soft_deleted_at.is_some_and(|at| now - at >= REAP_AFTER)
                });
                // Documents that are ignored now may become valid again.
                let is_alone = !state.problems.keys().any(|path| path.parent() == folder.as_deref());
                Ok((is_due && is_alone).then(|| (Edit::Delete { key: key.clone() }, ())))
            })?;
            reaped += usize::from(went.is_some());
        }
        Ok(reaped)
    }

    pub(super) fn flush_usage(&self) -> Result<(), StateError> {
        let batch = self.usage.lock().take_pending();
        if batch.is_empty() {
            return Ok(());
        }
        if let Err(error) = usage::append(&*self.trail, &batch) {
            self.usage.lock().put_back(batch);
            return Err(error);
        }
        self.read_usage();
        Ok(())
    }

    /// Takes over usage counts of other processes. Counts that cannot be read now are read the next time.
    fn read_usage(&self) {
        let since = self.usage.lock().position();
        match usage::read(&*self.trail, since) {
            Ok(news) => {
                let mut usage = self.usage.lock();
                if usage.position() == since {
                    usage.take_in(news);
                }
            }
            Err(error) => tracing::debug!(%error, "usage counts could not be read"),
        }
    }

    /// The background thread: loads, then waits for errands.
    fn keep(&self, built_in: &[BuiltInBundle], natives: Vec<String>) {
        self.load_built_in(built_in, natives);
        // If the state is unreachable, the built-in bundles still work.
        self.look(Effort::Thorough);
        self.read_usage();
        self.errands.lock().loaded = true;
        self.loaded.notify_all();
        self.update_index();
        let pause = self.documents.poll_every().unwrap_or(REAP_EVERY);
        let mut reaped: Option<Instant> = None;
        let mut counted = Instant::now();
        loop {
            if reaped.is_none_or(|at| at.elapsed() >= REAP_EVERY) {
                reaped = Some(Instant::now());
                if let Err(error) = self.reap(Utc::now()) {
                    tracing::warn!(%error, "deleted bundles could not be removed");
                }
            }
            let mut errands = self.errands.lock();
            if !(errands.stop || errands.deep_scan || errands.flush_usage) {
                self.wake.wait_for(&mut errands, pause);
            }
            if errands.flush_usage && !errands.stop && pause > USAGE_EVERY {
                // Let calls gather; a stop ends the wait.
                self.wake.wait_for(&mut errands, USAGE_EVERY);
            }
            let stop = errands.stop;
            let deep_scan = std::mem::take(&mut errands.deep_scan);
            let is_due = stop || pause > USAGE_EVERY || counted.elapsed() >= USAGE_EVERY;
            let flush = is_due && std::mem::take(&mut errands.flush_usage);
            drop(errands);
            if flush || stop {
                counted = Instant::now();
                if let Err(error) = self.flush_usage() {
                    tracing::warn!(%error, "usage counts could not be written");
                    // The counts stay in memory until the next attempt.
                    self.errands.lock().flush_usage = true;
                }
            }
            if stop {
                return;
            }
            if self.documents.poll_every().is_some() {
                self.look(Effort::Usual);
                self.update_index();
            } else if deep_scan {
                self.look(Effort::Thorough);
                self.read_usage();
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
                state.insert_tool(Arc::new(ToolEntry::new(tool, text, unavailable)));
            }
        }
        state.total_bytes = 0;
        self.generation.store(state.generation, Ordering::Release);
    }
}
