//! Stores many tools at once: all of them, or none.
//!
//! Everything is checked first, and then created in one atomic step of the state, even if the process is killed.

use std::collections::HashMap;

use crate::interface::{Collection, Guard, Key};
use crate::wait;

use super::changes::{key, new_bundle, new_tool, now, require_enabled, require_free_slug};
use super::draft::{BundleDraft, PackedDraft};
use super::error::BundleError;
use super::feed::{bundle_key, tool_key};
use super::model::Bundle;
use super::names::{BundleId, Slug, Version};
use super::state::{BundleView, State};
use super::store::{BundleStore, LOAD_WAIT, Neighbours};

/// Tools to store together.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportPlan {
    pub bundle: ImportTarget,
    pub tools: Vec<(Slug, Version, PackedDraft)>,
}

/// The bundle that the tools are added to.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportTarget {
    New(Box<BundleDraft>),
    Existing(BundleId),
}

/// The known state, together with the tools that are stored along with the checked one.
struct Together<'a> {
    state: &'a State,
    coming: HashMap<String, Vec<(String, Vec<(String, Option<String>)>)>>,
}

impl Neighbours for Together<'_> {
    fn calls_of(&self, tool: &str, version: Option<&str>) -> Vec<(String, Option<String>)> {
        let mut calls = self.state.calls_of(tool, version);
        for (label, more) in self.coming.get(tool).into_iter().flatten() {
            if version.is_none_or(|version| version == label) {
                calls.extend(more.iter().cloned());
            }
        }
        calls
    }
}

impl BundleStore {
    /// Stores tools together; on an error, none is stored.
    pub fn take_in(&self, plan: &ImportPlan) -> Result<BundleView, BundleError> {
        let shared = &self.shared;
        shared.wait_loaded(LOAD_WAIT);
        let turn = shared.writer.lock();
        let id = shared.retried(|seen| {
            let (id, bundle, documents) = self.decide(plan)?;
            // The name of a new bundle is unique among all bundles; those of tools only within the bundle.
            let prefix = if bundle.is_some() { String::new() } else { format!("{id}/") };
            let documents: Vec<(Key, Vec<u8>)> =
                documents.into_iter().chain(bundle).map(|(key, text)| (key, text.into_bytes())).collect();
            wait(shared.documents.create_all(Collection::BUNDLES, &documents, Some(&Guard { prefix, seen })))?;
            Ok(id)
        })?;
        drop(turn);
        self.bundle(id)
    }

    /// Checks whether tools could be stored together, and stores nothing.
    pub fn check_in(&self, plan: &ImportPlan) -> Result<(), BundleError> {
        self.shared.wait_loaded(LOAD_WAIT);
        self.decide(plan).map(drop)
    }

    /// Returns the checked documents to write: the tools, and the bundle if it is new.
    #[expect(clippy::type_complexity, reason = "documents are a key and a text")]
    fn decide(&self, plan: &ImportPlan) -> Result<(BundleId, Option<(Key, String)>, Vec<(Key, String)>), BundleError> {
        let shared = &self.shared;
        let state = shared.state.read();
        let now = now();
        let (bundle, is_new): (Bundle, bool) = match &plan.bundle {
            ImportTarget::New(draft) => {
                let id = BundleId::generate();
                require_free_slug(&state, id, &draft.slug)?;
                let own = state.bundles.values().filter(|entry| !entry.bundle.is_built_in).count();
                if own >= shared.limits.bundles {
                    return Err(BundleError::Limit(format!(
                        "there may be at most {} bundles (bundles.max_bundles)",
                        shared.limits.bundles
                    )));
                }
                let bundle = new_bundle(id, BundleDraft::clone(draft), now, now);
                bundle.translations.check().map_err(BundleError::Invalid)?;
                (shared.check_bundle)(&bundle).map_err(BundleError::Invalid)?;
                (bundle, true)
            }
            ImportTarget::Existing(id) => {
                let entry = state.live(*id)?;
                if entry.bundle.is_built_in {
                    return Err(BundleError::BuiltIn(format!("bundle {id} takes no tools")));
                }
                require_enabled(&entry.bundle)?;
                (Bundle::clone(&entry.bundle), false)
            }
        };
        let present = if is_new { 0 } else { state.live(bundle.id)?.tools.len() };
        if present + plan.tools.len() > shared.limits.tools_per_bundle {
            return Err(BundleError::Limit(format!(
                "a bundle may have at most {} tools (bundles.max_tools_per_bundle)",
                shared.limits.tools_per_bundle
            )));
        }
        if state.tools.values().filter(|tool| !tool.is_built_in).count() + plan.tools.len() > shared.limits.tools {
            return Err(BundleError::Limit(format!(
                "there may be at most {} tools (bundles.max_tools)",
                shared.limits.tools
            )));
        }
        let mut coming: HashMap<String, Vec<_>> = HashMap::new();
        for (slug, version, draft) in &plan.tools {
            let calls = draft.implementation().calls();
            let name = format!("{}.{}", bundle.slug.identifier(), slug.identifier());
            coming.entry(name).or_default().push((version.to_string(), calls));
        }
        let together = Together { state: &state, coming };
        let mut names = std::collections::HashSet::new();
        for (slug, version, _) in &plan.tools {
            let is_taken = !is_new && state.find(bundle.id, slug, version).is_ok();
            if is_taken || !names.insert((slug, version)) {
                return Err(BundleError::Conflict(format!("there is a tool {slug} {version} already")));
            }
        }
        let documents = in_parallel(&plan.tools, |(slug, version, draft)| {
            let tool = new_tool(bundle.id, (slug, version), draft.open(), now);
            let checked = tool.translations.check().and_then(|()| (shared.check)(&bundle, &tool, &together));
            checked.map_err(|error| BundleError::Invalid(format!("tool {slug} {version}: {error}")))?;
            let text = shared.render(&tool).map_err(|error| match error {
                BundleError::Limit(reason) => BundleError::Limit(format!("tool {slug} {version}: {reason}")),
                other => other,
            })?;
            Ok((key(tool_key(bundle.id, tool.id))?, text))
        })?;
        let total = documents.iter().fold(state.total_bytes, |total, (_, text)| total + text.len() as u64);
        if total > shared.limits.total_bytes {
            return Err(BundleError::Limit(format!(
                "all tools together may have at most {} bytes",
                shared.limits.total_bytes
            )));
        }
        let document = if is_new { Some((key(bundle_key(bundle.id))?, shared.render(&bundle)?)) } else { None };
        Ok((bundle.id, document, documents))
    }
}

/// Minimum number of tools per thread.
const TOOLS_PER_THREAD: usize = 100;
const MAX_THREADS: usize = 8;
/// As large as a main thread's stack: schemas may be nested.
const STACK_BYTES: usize = 8 << 20;

/// Returns the results in order, or the first failure.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, BundleError> + Sync,
) -> Result<Vec<R>, BundleError> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS);
    let threads = processors.min(items.len() / TOOLS_PER_THREAD);
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let failed = |reason: &dyn std::fmt::Display| BundleError::Invalid(format!("the tools can't be checked: {reason}"));
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = items
            .chunks(items.len().div_ceil(threads))
            .map(|part| {
                let checking = move || part.iter().map(work).collect::<Result<Vec<R>, BundleError>>();
                std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, checking)
            })
            .collect();
        let mut results = Vec::with_capacity(items.len());
        for thread in started {
            let thread = thread.map_err(|error| failed(&error))?;
            results.extend(thread.join().map_err(|_| failed(&"a check ended early"))??);
        }
        Ok(results)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_checked_at_once_and_stay_in_order() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = in_parallel(&items, |item| Ok(item * 2)).unwrap();
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        let refuse = |item: &usize| match item % 300 {
            299 => Err(BundleError::Invalid(format!("{item}"))),
            _ => Ok(()),
        };
        assert_eq!(in_parallel(&items, refuse).unwrap_err().to_string(), "299");
        let ended = in_parallel(&items, |item| if *item == 500 { panic!("unlucky") } else { Ok(()) });
        assert!(ended.unwrap_err().to_string().contains("can't be checked"));
    }
}
