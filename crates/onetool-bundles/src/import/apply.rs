//! Stores an import: resolves conflicts with existing tools, then stores everything at once.

use std::collections::HashSet;
use std::sync::Arc;

use onetool_state::bundles::{
    BundleDraft, BundleError, BundleId, BundleStore, BundleView, ImportPlan, ImportTarget, PackedDraft, Slug,
    ToolDraft, Version,
};
use serde::{Deserialize, Serialize};

use super::{Imported, Unexpressed, repair};
use crate::HttpEngine;

/// How to handle a tool whose slug and version are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnConflict {
    /// Nothing is stored.
    #[default]
    Fail,
    /// The existing tool stays.
    Skip,
    /// The new tool gets the next free version.
    NewVersion,
}

impl std::str::FromStr for OnConflict {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            "new-version" => Ok(Self::NewVersion),
            other => Err(format!("'{other}' is not fail, skip or new-version")),
        }
    }
}

/// The outcome for one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTool {
    pub slug: Slug,
    pub version: Version,
    pub outcome: StoredOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoredOutcome {
    Created,
    /// Stored under a version other than its own.
    NewVersion,
    Skipped,
}

/// The outcome of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBundle {
    /// `None` if nothing was stored, because the import was a dry run.
    pub view: Option<BundleView>,
    pub is_new: bool,
    pub tools: Vec<StoredTool>,
}

/// Whether an import is stored or only previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    Store,
    Show,
}

/// Stores a bundle and its tools, all or none of them.
pub fn store_bundle(
    store: &BundleStore,
    bundle: BundleDraft,
    tools: Vec<(Slug, Version, ToolDraft)>,
    on_conflict: OnConflict,
    mode: ImportMode,
) -> Result<StoredBundle, BundleError> {
    let tools = tools.into_iter().map(|(slug, version, draft)| (slug, version, draft.into())).collect();
    let prepared = Prepared::new(store, bundle, tools, on_conflict)?;
    let view = prepared.put(store, mode)?;
    Ok(prepared.stored(view))
}

/// Stores a bundle that was read from a document. Tools that cannot be stored as they are get repaired or left out, and
/// are listed with the parts that could not be expressed.
pub fn store_document(
    store: &BundleStore,
    engine: &HttpEngine,
    imported: Imported,
    on_conflict: OnConflict,
    mode: ImportMode,
) -> Result<(StoredBundle, Vec<Unexpressed>), BundleError> {
    let mut unexpressed = imported.unexpressed;
    let tools = imported.tools.into_iter().map(|tool| (tool.slug, tool.version, tool.draft)).collect();
    let mut prepared = Prepared::new(store, imported.bundle, tools, on_conflict)?;
    let view = match prepared.put(store, mode) {
        Err(BundleError::Invalid(reason)) => {
            let changed = prepared.repair(store, engine)?;
            if changed.is_empty() || prepared.plan.tools.is_empty() {
                return Err(BundleError::Invalid(reason));
            }
            unexpressed.extend(changed);
            prepared.put(store, mode)?
        }
        other => other?,
    };
    Ok((prepared.stored(view), unexpressed))
}

/// The data to store, and the resulting outcome for each tool.
struct Prepared {
    plan: ImportPlan,
    tools: Vec<StoredTool>,
}

impl Prepared {
    fn new(
        store: &BundleStore,
        bundle: BundleDraft,
        tools: Vec<(Slug, Version, PackedDraft)>,
        on_conflict: OnConflict,
    ) -> Result<Self, BundleError> {
        let (bundle, kept, stored) = match store.own_bundle(&bundle.slug) {
            None => {
                let stored = tools.iter().map(|(slug, version, _)| created(slug, version)).collect();
                (ImportTarget::New(Box::new(bundle)), tools, stored)
            }
            Some(_) if on_conflict == OnConflict::Fail => {
                return Err(BundleError::Conflict(format!(
                    "there is a bundle '{}' already; import under another slug, or say what to do: skip or new-version",
                    bundle.slug
                )));
            }
            Some(id) => {
                let (kept, stored) = merged(store, id, tools, on_conflict)?;
                (ImportTarget::Existing(id), kept, stored)
            }
        };
        Ok(Self { plan: ImportPlan { bundle, tools: kept }, tools: stored })
    }

    fn put(&self, store: &BundleStore, mode: ImportMode) -> Result<Option<BundleView>, BundleError> {
        match (mode, &self.plan.bundle) {
            (ImportMode::Show, _) => store.check_in(&self.plan).map(|()| None),
            (ImportMode::Store, ImportTarget::Existing(id)) if self.plan.tools.is_empty() => {
                store.bundle(*id).map(Some)
            }
            (ImportMode::Store, _) => store.take_in(&self.plan).map(Some),
        }
    }

    fn repair(&mut self, store: &BundleStore, engine: &HttpEngine) -> Result<Vec<Unexpressed>, BundleError> {
        let bundle = match &self.plan.bundle {
            ImportTarget::New(draft) => Arc::new(draft.trial()),
            ImportTarget::Existing(id) => store.bundle(*id)?.bundle,
        };
        let mut changed = Vec::new();
        let mut note = |slug: &Slug, reason| changed.push(Unexpressed { what: slug.to_string(), reason });
        let mut left_out = HashSet::new();
        self.plan.tools.retain_mut(|(slug, version, draft)| {
            let check = |draft: &ToolDraft| engine.check(&bundle, &draft.trial(bundle.id, slug, version));
            let mut open = draft.open();
            let Err(reason) = check(&open) else { return true };
            let repairs = repair::schemas(&mut open);
            if !repairs.is_empty() && check(&open).is_ok() {
                repairs.into_iter().for_each(|reason| note(slug, reason));
                *draft = open.into();
                return true;
            }
            note(slug, reason);
            left_out.insert((slug.clone(), version.clone()));
            false
        });
        self.tools.retain(|tool| !left_out.contains(&(tool.slug.clone(), tool.version.clone())));
        Ok(changed)
    }

    fn stored(self, view: Option<BundleView>) -> StoredBundle {
        StoredBundle { view, is_new: matches!(self.plan.bundle, ImportTarget::New(_)), tools: self.tools }
    }
}

fn created(slug: &Slug, version: &Version) -> StoredTool {
    StoredTool { slug: slug.clone(), version: version.clone(), outcome: StoredOutcome::Created }
}

/// Selects the tools to add to an existing bundle.
#[expect(clippy::type_complexity, reason = "the tools that go in, and what became of each")]
fn merged(
    store: &BundleStore,
    id: BundleId,
    tools: Vec<(Slug, Version, PackedDraft)>,
    on_conflict: OnConflict,
) -> Result<(Vec<(Slug, Version, PackedDraft)>, Vec<StoredTool>), BundleError> {
    let present = store.tools_of(id)?;
    let mut taken: HashSet<(Slug, Version)> =
        present.iter().map(|view| (view.tool.slug.clone(), view.tool.version.clone())).collect();
    let (mut kept, mut stored) = (Vec::new(), Vec::new());
    for (slug, version, draft) in tools {
        if taken.insert((slug.clone(), version.clone())) {
            stored.push(created(&slug, &version));
            kept.push((slug, version, draft));
            continue;
        }
        // An identical tool, under any version, is not stored again.
        let is_there =
            present.iter().any(|view| view.tool.slug == slug && ToolDraft::from(view.tool.clone()) == draft.open());
        if on_conflict == OnConflict::Skip || is_there {
            stored.push(StoredTool { slug, version, outcome: StoredOutcome::Skipped });
            continue;
        }
        let next = next_version(&version, |version| !taken.contains(&(slug.clone(), version.clone())));
        let next = next.ok_or_else(|| BundleError::Conflict(format!("no version of {slug} is free")))?;
        taken.insert((slug.clone(), next.clone()));
        stored.push(StoredTool { slug: slug.clone(), version: next.clone(), outcome: StoredOutcome::NewVersion });
        kept.push((slug, next, draft));
    }
    Ok((kept, stored))
}

/// `v2` after `v1`, `1.0-2` after `1.0`.
fn next_version(version: &Version, is_free: impl Fn(&Version) -> bool) -> Option<Version> {
    let text = version.as_str();
    let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = text.split_at(text.len() - digits);
    let counted = stem.is_empty() || stem.ends_with(|c: char| c.is_alphabetic() || c == '-');
    let (stem, first) = match number.parse::<u32>() {
        Ok(number) if counted => (stem.to_owned(), number.checked_add(1)?),
        _ => (format!("{text}-"), 2),
    };
    (first..first.saturating_add(10_000))
        .filter_map(|number| format!("{stem}{number}").parse::<Version>().ok())
        .find(is_free)
}
