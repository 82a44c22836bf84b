//! Changes: decided on a snapshot, made only if the snapshot still holds, and durable before they are acknowledged.

use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::Serialize;
use serde_json::Value as Json;

use crate::interface::{Collection, Condition, Cursor, Effort, Expect, Guard, Key, StateError};
use crate::wait;

use super::builtin::Switches;
use super::draft::{BundleDraft, Precondition, ToolDraft, Written};
use super::error::BundleError;
use super::feed::{bundle_key, switches_key, tool_key};
use super::limits::LOCK_WAIT;
use super::model::{Bundle, SCHEMA_VERSION, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::state::{BundleView, State, ToolView};
use super::store::{BundleStore, Enabled, LOAD_WAIT, Shared};

/// Pauses before deciding again after a conflicting change; they grow with each attempt.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl BundleStore {
    /// Creates or replaces a bundle; a soft-deleted one is restored.
    pub fn put_bundle(
        &self,
        id: BundleId,
        draft: BundleDraft,
        precondition: &Precondition,
    ) -> Result<(BundleView, Written), BundleError> {
        let shared = &self.shared;
        let written = shared.change(id, |state| {
            let now = now();
            let old = state.bundles.get(&id);
            if old.is_some_and(|old| old.bundle.is_built_in) {
                return Err(BundleError::BuiltIn(format!("bundle {id} can't be replaced")));
            }
            let live = old.filter(|old| old.bundle.soft_deleted_at.is_none());
            require(precondition, live.map(|old| state.bundle_view(old).etag).as_deref(), &format!("bundle {id}"))?;
            let own = state.bundles.values().filter(|entry| !entry.bundle.is_built_in).count();
            if old.is_none() && own >= shared.limits.bundles {
                return Err(BundleError::Limit(format!(
                    "there may be at most {} bundles (bundles.max_bundles)",
                    shared.limits.bundles
                )));
            }
            let is_named_anew = live.is_none_or(|live| live.bundle.slug != draft.slug);
            if is_named_anew {
                require_free_slug(state, id, &draft.slug)?;
            }
            let bundle = new_bundle(id, draft.clone(), old.map_or(now, |old| old.bundle.created_at), now);
            bundle.translations.check().map_err(BundleError::Invalid)?;
            (shared.check_bundle)(&bundle).map_err(BundleError::Invalid)?;
            let written = if live.is_some() { Written::Replaced } else { Written::Created };
            let (key, text) = (key(bundle_key(id))?, shared.render(&bundle)?);
            Ok(Some((Edit::Put { key, text, expect: Expect::Anything, is_named_anew }, written)))
        })?;
        Ok((read_back(self.bundle(id))?, written.unwrap_or(Written::Replaced)))
    }

    pub fn set_bundle_enabled(
        &self,
        id: BundleId,
        enabled: Enabled,
        precondition: &Precondition,
    ) -> Result<BundleView, BundleError> {
        let shared = &self.shared;
        shared.change(id, |state| {
            let entry = state.live(id)?;
            require(precondition, Some(&state.bundle_view(entry).etag), &format!("bundle {id}"))?;
            if entry.bundle.is_built_in {
                let mut switches = state.switches.clone();
                switches.bundles.insert(id, enabled.into());
                return Ok(Some((shared.switches(&switches)?, ())));
            }
            let value = Json::Bool(enabled.into());
            Ok(Some((Edit::Field { key: key(bundle_key(id))?, field: "isEnabled", value }, ())))
        })?;
        read_back(self.bundle(id))
    }

    /// Marks an empty bundle as deleted. It is removed after two days.
    pub fn delete_bundle(&self, id: BundleId, precondition: &Precondition) -> Result<(), BundleError> {
        let shared = &self.shared;
        shared.change(id, |state| {
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
            let value = serde_json::to_value(now()).unwrap_or_default();
            Ok(Some((Edit::Field { key: key(bundle_key(id))?, field: "softDeletedAt", value }, ())))
        })?;
        Ok(())
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
        shared.change(bundle, |state| {
            let entry = state.live(bundle)?;
            if entry.bundle.is_built_in {
                return Err(BundleError::BuiltIn(format!("bundle {bundle} takes no tools")));
            }
            require_enabled(&entry.bundle)?;
            if state.find(bundle, slug, version).is_ok() {
                return Err(BundleError::Conflict(format!(
                    "bundle {bundle} has a tool {slug} {version} already; choose another version, or delete it first"
                )));
            }
            require(precondition, None, &format!("tool {slug} {version}"))?;
            if state.tools.values().filter(|tool| !tool.is_built_in).count() >= shared.limits.tools {
                return Err(BundleError::Limit(format!(
                    "there may be at most {} tools (bundles.max_tools)",
                    shared.limits.tools
                )));
            }
            if entry.tools.len() >= shared.limits.tools_per_bundle {
                return Err(BundleError::Limit(format!(
                    "a bundle may have at most {} tools (bundles.max_tools_per_bundle)",
                    shared.limits.tools_per_bundle
                )));
            }
            let now = now();
            let tool = new_tool(bundle, (slug, version), draft.clone(), now);
            tool.translations.check().map_err(BundleError::Invalid)?;
            (shared.check)(&entry.bundle, &tool, state).map_err(BundleError::Invalid)?;
            let text = shared.render(&tool)?;
            if state.total_bytes + text.len() as u64 > shared.limits.total_bytes {
                return Err(BundleError::Limit(format!(
                    "all tools together may have at most {} bytes",
                    shared.limits.total_bytes
                )));
            }
            let key = key(tool_key(bundle, tool.id))?;
            Ok(Some((Edit::Put { key, text, expect: Expect::Absent, is_named_anew: false }, ())))
        })?;
        read_back(self.tool(bundle, slug, version))
    }

    pub fn set_tool_enabled(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        enabled: Enabled,
        precondition: &Precondition,
    ) -> Result<ToolView, BundleError> {
        let shared = &self.shared;
        shared.change(bundle, |state| {
            let (id, built_in) = changeable(state, bundle, (slug, version), precondition)?;
            if built_in {
                let mut switches = state.switches.clone();
                switches.tools.insert(id, enabled.into());
                return Ok(Some((shared.switches(&switches)?, ())));
            }
            let value = Json::Bool(enabled.into());
            Ok(Some((Edit::Field { key: key(tool_key(bundle, id))?, field: "isEnabled", value }, ())))
        })?;
        read_back(self.tool(bundle, slug, version))
    }

    /// Deletes a tool permanently.
    pub fn delete_tool(
        &self,
        bundle: BundleId,
        (slug, version): (&Slug, &Version),
        precondition: &Precondition,
    ) -> Result<(), BundleError> {
        let shared = &self.shared;
        shared.change(bundle, |state| {
            let (id, built_in) = changeable(state, bundle, (slug, version), precondition)?;
            if built_in {
                return Err(BundleError::BuiltIn(format!("tool {slug} {version} can't be deleted")));
            }
            Ok(Some((Edit::Delete { key: key(tool_key(bundle, id))? }, ())))
        })?;
        Ok(())
    }
}

/// Maps a missing result of a read after a write to an error: the state became unreachable before it could be read
/// back.
fn read_back<T>(found: Result<T, BundleError>) -> Result<T, BundleError> {
    found.map_err(|error| match error {
        BundleError::NotFound(what) => BundleError::State(StateError::Unavailable {
            reason: format!("what was written cannot be read back yet ({what})"),
            hint: "look whether it is there, or write it again".to_owned(),
        }),
        other => other,
    })
}

/// Builds a bundle from a draft, with the fields that the store adds.
pub(super) fn new_bundle(
    id: BundleId,
    draft: BundleDraft,
    created_at: DateTime<Utc>,
    modified_at: DateTime<Utc>,
) -> Bundle {
    Bundle {
        schema_version: SCHEMA_VERSION.to_owned(),
        id,
        slug: draft.slug,
        display_name: draft.display_name,
        description: draft.description,
        is_enabled: draft.is_enabled,
        is_built_in: false,
        secrets: draft.secrets,
        auth: draft.auth,
        translations: draft.translations,
        docs: draft.docs,
        created_at,
        modified_at,
        soft_deleted_at: None,
    }
}

/// Builds a tool from a draft, with the fields that the store adds.
pub(super) fn new_tool(
    bundle: BundleId,
    (slug, version): (&Slug, &Version),
    draft: ToolDraft,
    now: DateTime<Utc>,
) -> Tool {
    Tool {
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
        example: draft.example,
        translations: draft.translations,
        created_at: now,
        modified_at: now,
    }
}

/// Requires that no other bundle of the user has this slug. A built-in bundle may share it; the user's own wins.
pub(super) fn require_free_slug(state: &State, id: BundleId, slug: &Slug) -> Result<(), BundleError> {
    match state.own_bundles(slug).find(|other| *other != id) {
        None => Ok(()),
        Some(other) => Err(BundleError::Conflict(format!(
            "the slug '{slug}' belongs to bundle {other}; choose another, or change that one"
        ))),
    }
}

/// The current time in the precision of the files.
pub(super) fn now() -> DateTime<Utc> {
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

pub(super) fn require_enabled(bundle: &Bundle) -> Result<(), BundleError> {
    if bundle.is_enabled {
        Ok(())
    } else {
        Err(BundleError::Conflict(format!("bundle {} is disabled; enable it before changing its tools", bundle.id)))
    }
}

/// The outcome of a decision.
pub(super) enum Edit {
    Put {
        key: Key,
        text: String,
        expect: Expect,
        /// It takes a name that must be unique among all bundles, including concurrent changes.
        is_named_anew: bool,
    },
    /// Changes one field and keeps the rest, even fields unknown to this build.
    Field {
        key: Key,
        field: &'static str,
        value: Json,
    },
    Delete {
        key: Key,
    },
}

pub(super) fn key(key: Option<Key>) -> Result<Key, BundleError> {
    key.ok_or_else(|| BundleError::Invalid("its id can't be a key".to_owned()))
}

/// Returns the tool's id and whether it is built in, if it may be changed now.
fn changeable(
    state: &State,
    bundle: BundleId,
    (slug, version): (&Slug, &Version),
    precondition: &Precondition,
) -> Result<(ToolId, bool), BundleError> {
    let entry = state.find(bundle, slug, version)?;
    let owner = state.live(bundle)?;
    if !state.is_bundle_enabled(&owner.bundle) {
        return Err(BundleError::Conflict(format!("bundle {bundle} is disabled; enable it before changing its tools")));
    }
    require(precondition, Some(&state.tool_etag(entry)), &format!("tool {slug} {version}"))?;
    Ok((entry.id, entry.is_built_in))
}

impl Shared {
    /// Decides on a snapshot, and makes the change if the snapshot still holds; otherwise reads the changes and decides
    /// again. `decide` must not block.
    pub(super) fn change<T>(
        &self,
        bundle: BundleId,
        mut decide: impl FnMut(&State) -> Result<Option<(Edit, T)>, BundleError>,
    ) -> Result<Option<T>, BundleError> {
        self.wait_loaded(LOAD_WAIT);
        let _turn = self.writer.lock();
        self.retried(|seen| {
            let Some((edit, told)) = decide(&self.state.read())? else { return Ok(None) };
            self.make(bundle, edit, seen)?;
            Ok(Some(told))
        })
    }

    /// Retries an attempt as long as others change the snapshot meanwhile. The `writer` lock must be held.
    pub(super) fn retried<T>(
        &self,
        mut attempt: impl FnMut(Cursor) -> Result<T, BundleError>,
    ) -> Result<T, BundleError> {
        let until = Instant::now() + LOCK_WAIT;
        let mut pause = SHORTEST_PAUSE;
        loop {
            self.catch_up(Effort::Usual)?;
            let seen = *self.cursor.lock();
            match attempt(seen) {
                Ok(told) => {
                    // The change is made; if it is not visible yet, the next look finds it.
                    self.look(Effort::Usual);
                    return Ok(told);
                }
                Err(BundleError::State(StateError::Stale(_) | StateError::Conflict(_))) if Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn make(&self, bundle: BundleId, edit: Edit, seen: Cursor) -> Result<(), BundleError> {
        let guarded = |key: &Key, expect: Expect| {
            let prefix = if key.folder().is_some() { format!("{bundle}/") } else { key.to_string() };
            Condition { expect, guard: Some(Guard { prefix, seen }) }
        };
        match edit {
            Edit::Put { key, text, expect, is_named_anew } => {
                let mut condition = guarded(&key, expect);
                if is_named_anew {
                    condition.guard = Some(Guard { prefix: String::new(), seen });
                }
                wait(self.documents.put(Collection::BUNDLES, &key, text.as_bytes(), &condition))?;
            }
            Edit::Field { key, field, value } => {
                let found = wait(self.documents.get(Collection::BUNDLES, &key))?;
                let found = found.ok_or_else(|| StateError::Stale(key.to_string()))?;
                let mut json: Json =
                    serde_json::from_slice(&found.content).map_err(|error| BundleError::Invalid(error.to_string()))?;
                if let Some(object) = json.as_object_mut() {
                    object.insert(field.to_owned(), value);
                }
                let condition = guarded(&key, Expect::Revision(found.revision));
                wait(self.documents.put(Collection::BUNDLES, &key, self.render(&json)?.as_bytes(), &condition))?;
            }
            Edit::Delete { key } => {
                wait(self.documents.delete(Collection::BUNDLES, &key, &guarded(&key, Expect::Anything)))?;
            }
        }
        Ok(())
    }

    pub(super) fn render(&self, value: &impl Serialize) -> Result<String, BundleError> {
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

    fn switches(&self, switches: &Switches) -> Result<Edit, BundleError> {
        let (key, text) = (key(switches_key())?, self.render(switches)?);
        Ok(Edit::Put { key, text, expect: Expect::Anything, is_named_anew: false })
    }
}
