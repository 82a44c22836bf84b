//! Changes: each under the lock, checked against what the disk holds at that moment, and durable before it is told.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::Serialize;
use serde_json::Value as Json;

use crate::atomic::{self, Lock, StoreError};

use super::builtin::Switches;
use super::draft::{BundleDraft, Precondition, ToolDraft, Written};
use super::error::BundleError;
use super::limits::LOCK_WAIT;
use super::model::{Bundle, SCHEMA_VERSION, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::scan::Depth;
use super::state::{BundleView, ToolView};
use super::store::{BundleStore, Enabled, LOAD_WAIT, Shared};

impl BundleStore {
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
                require_enabled(&entry.bundle)?;
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

fn require_enabled(bundle: &Bundle) -> Result<(), BundleError> {
    if bundle.is_enabled {
        Ok(())
    } else {
        Err(BundleError::Conflict(format!("bundle {} is disabled; enable it before changing its tools", bundle.id)))
    }
}

impl Shared {
    /// Runs a change with the lock held and memory as the disk is, before and after.
    pub(super) fn change<T>(
        &self,
        bundle: BundleId,
        work: impl FnOnce() -> Result<T, BundleError>,
    ) -> Result<T, BundleError> {
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
}
