//! The whole toolbox, including disabled packs and tools: bundles from their store, Python files and servers from
//! behind their switches, the rest from the catalog. If two packs claim one name, the one that answers calls is shown.

use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::{Origin, Pack, QualifiedName, ToolSpec};
use onetool_state::bundles::{
    BundleId, BundleStore, BundleView, Disabled, Enabled, Implementation, Precondition, ToolView,
};
use onetool_state::switches::SwitchTarget;

use super::super::input::ToolPath;
use super::AdminState;
use super::model::{PackKind, PackRow, ToolRow, VersionRow};
use crate::{ApiError, Identity};

/// Maximum number of bundles listed.
const MAX_BUNDLES: usize = 10_000;
/// Maximum length of a summary, in characters.
const SUMMARY_CHARS: usize = 200;

/// All packs and tools.
pub(super) struct Listing {
    packs: IndexMap<String, PackEntry>,
}

pub(super) struct PackEntry {
    pub(super) kind: PackKind,
    pub(super) description: String,
    pub(super) is_enabled: bool,
    pub(super) origin: Option<String>,
    pub(super) note: Option<String>,
    pub(super) bundle: Option<BundleId>,
    /// Whether it can be switched off, itself or through its bundle.
    pub(super) is_switchable: bool,
    pub(super) tools: IndexMap<String, ToolEntry>,
}

pub(super) struct ToolEntry {
    pub(super) row: ToolRow,
    pub(super) spec: Arc<ToolSpec>,
    pub(super) versions: Vec<VersionRow>,
}

/// Reads the whole listing. Blocks.
pub(super) fn read(state: &AdminState, identity: &Identity) -> Result<Listing, ApiError> {
    let catalog = state.service.runner().toolbox().now().catalog().clone();
    let mut packs: IndexMap<String, PackEntry> = IndexMap::new();
    for view in state.served.bundles.store.bundles(&[], Disabled::Shown, MAX_BUNDLES, None)?.items {
        let name = view.bundle.slug.identifier();
        let answers = catalog.pack(&name).is_none_or(|entry| match &entry.pack.origin {
            Origin::Bundle { id } => *id == view.bundle.id.to_string(),
            Origin::Native => view.bundle.is_built_in,
            _ => false,
        });
        if answers && !packs.contains_key(&name) {
            let tools = state.served.bundles.store.tools_of(view.bundle.id)?;
            let entry = from_bundle(&name, &view, tools, catalog.pack(&name).map(|entry| &*entry.pack));
            packs.insert(name, entry);
        }
    }
    let switches = &state.admin.switches;
    for pack in state.admin.switchable.iter().flat_map(|source| source.packs()) {
        if packs.contains_key(&pack.name) {
            continue;
        }
        let is_on = |function: &str| switches.is_on(&pack.name, function);
        let mut entry = from_pack(&pack, is_on);
        entry.is_enabled = switches.is_pack_on(&pack.name);
        entry.is_switchable = true;
        packs.insert(pack.name.clone(), entry);
    }
    for pack in catalog.packs() {
        if !packs.contains_key(&pack.name) {
            packs.insert(pack.name.clone(), from_pack(pack, |_| true));
        }
    }
    let seen = state.tools(identity);
    if seen.is_narrowed() {
        packs.retain(|name, entry| {
            let had_tools = !entry.tools.is_empty();
            entry.tools.retain(|function, _| seen.sees(&QualifiedName::new(name, function)));
            seen.sees_pack(name) && !(had_tools && entry.tools.is_empty())
        });
    }
    packs.sort_keys();
    Ok(Listing { packs })
}

fn from_pack(pack: &Pack, is_on: impl Fn(&str) -> bool) -> PackEntry {
    let kind = PackKind::of(&pack.origin);
    let tools = pack.tools.values().map(|spec| {
        let is_enabled = is_on(&spec.name);
        let row = ToolRow {
            name: format!("{}.{}", pack.name, spec.name),
            pack: pack.name.clone(),
            kind,
            summary: shortened(spec.summary()),
            is_enabled,
            disabled_reason: (!is_enabled).then(|| "switched off".to_owned()),
            tags: Vec::new(),
        };
        (spec.name.clone(), ToolEntry { row, spec: spec.clone(), versions: Vec::new() })
    });
    PackEntry {
        kind,
        description: pack.description.clone(),
        is_enabled: true,
        origin: pack.origin.place(),
        note: pack.note.clone(),
        bundle: None,
        is_switchable: false,
        tools: tools.collect(),
    }
}

fn from_bundle(name: &str, view: &BundleView, tools: Vec<ToolView>, live: Option<&Pack>) -> PackEntry {
    let bundle = &view.bundle;
    let is_native =
        bundle.is_built_in && tools.iter().any(|view| matches!(view.tool.implementation, Implementation::Native(_)));
    let kind = if is_native { PackKind::Native } else { PackKind::Bundle };
    let mut entries: IndexMap<String, ToolEntry> = IndexMap::new();
    for view in tools {
        let function = view.tool.slug.identifier();
        let version = VersionRow {
            version: view.tool.version.to_string(),
            bundle_id: bundle.id.to_string(),
            slug: view.tool.slug.to_string(),
            is_enabled: view.tool.is_enabled,
            modified_at: view.tool.modified_at,
        };
        if let Some(entry) = entries.get_mut(&function) {
            entry.versions.push(version);
            if view.is_callable() && !entry.row.is_enabled {
                entry.row.is_enabled = true;
                entry.row.disabled_reason = None;
            }
            continue;
        }
        let spec = live.and_then(|pack| pack.tools.get(&function).cloned()).unwrap_or_else(|| {
            let mut spec = ToolSpec::from_schema(&function, &view.tool.description, view.tool.arg_schema.clone());
            spec.output_schema.clone_from(&view.tool.output_schema);
            Arc::new(spec)
        });
        let row = ToolRow {
            name: format!("{name}.{function}"),
            pack: name.to_owned(),
            kind,
            summary: shortened(spec.summary()),
            is_enabled: view.is_callable(),
            disabled_reason: view.disabled_reason.clone(),
            tags: view.tool.tags.clone(),
        };
        entries.insert(function, ToolEntry { row, spec, versions: vec![version] });
    }
    entries.sort_keys();
    let described = if bundle.description.is_empty() { &bundle.display_name } else { &bundle.description };
    PackEntry {
        kind,
        description: live.map_or_else(|| described.clone(), |pack| pack.description.clone()),
        is_enabled: bundle.is_enabled && entries.values().any(|tool| tool.row.is_enabled)
            || entries.is_empty() && bundle.is_enabled,
        origin: (!is_native).then(|| bundle.id.to_string()),
        note: live.and_then(|pack| pack.note.clone()),
        bundle: Some(bundle.id),
        is_switchable: true,
        tools: entries,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Listing {
    pub(super) fn rows(self, include_disabled: bool) -> (Vec<PackRow>, Vec<ToolRow>) {
        let mut packs = Vec::with_capacity(self.packs.len());
        let mut tools = Vec::new();
        for (name, entry) in self.packs {
            if !entry.is_enabled && !include_disabled {
                continue;
            }
            let before = tools.len();
            let rows = entry.tools.into_values().map(|tool| tool.row);
            tools.extend(rows.filter(|row| row.is_enabled || include_disabled));
            packs.push(PackRow {
                name,
                kind: entry.kind,
                description: entry.description,
                is_enabled: entry.is_enabled,
                is_switchable: entry.is_switchable,
                tool_count: tools.len() - before,
                origin: entry.origin,
                note: entry.note,
            });
        }
        (packs, tools)
    }

    pub(super) fn take(mut self, name: &QualifiedName) -> Option<(PackEntry, ToolEntry)> {
        let mut pack = self.packs.swap_remove(&name.pack)?;
        let tool = pack.tools.swap_remove(&name.function)?;
        Some((pack, tool))
    }

    pub(super) fn switch_pack(&self, state: &AdminState, name: &str, is_on: bool) -> Result<(), ApiError> {
        let pack = self.packs.get(name).ok_or_else(|| ApiError::not_found(format!("there is no pack {name}")))?;
        if let Some(bundle) = pack.bundle {
            state.served.bundles.store.set_bundle_enabled(bundle, enabled(is_on), &Precondition::None)?;
            return Ok(());
        }
        self.switch(state, SwitchTarget::Pack(name), pack, is_on)
    }

    pub(super) fn switch_tool(&self, state: &AdminState, name: &QualifiedName, is_on: bool) -> Result<(), ApiError> {
        let pack = self.packs.get(&name.pack);
        let tool = pack.and_then(|pack| pack.tools.get(&name.function));
        let (Some(pack), Some(tool)) = (pack, tool) else {
            return Err(ApiError::not_found(format!("there is no tool {name}")));
        };
        let Some(bundle) = pack.bundle else {
            let target = SwitchTarget::Tool { pack: &name.pack, function: &name.function };
            return self.switch(state, target, pack, is_on);
        };
        // Disabling affects every version; enabling affects only the newest.
        let versions = if is_on { &tool.versions[..tool.versions.len().min(1)] } else { &tool.versions[..] };
        for version in versions.iter().filter(|version| version.is_enabled != is_on) {
            let (slug, version) = (version.slug.parse()?, version.version.parse()?);
            state.served.bundles.store.set_tool_enabled(
                bundle,
                (&slug, &version),
                enabled(is_on),
                &Precondition::None,
            )?;
        }
        Ok(())
    }

    fn switch(
        &self,
        state: &AdminState,
        target: SwitchTarget<'_>,
        pack: &PackEntry,
        is_on: bool,
    ) -> Result<(), ApiError> {
        if !pack.is_switchable {
            return Err(ApiError::conflict("this pack cannot be switched off"));
        }
        let tools: Vec<String> = pack.tools.keys().cloned().collect();
        state.admin.switches.set(target, is_on, &tools).map_err(|error| {
            tracing::error!(%error, "the switches were not written");
            ApiError::internal("the switch could not be written").with_hint("see the log")
        })
    }
}

fn enabled(is_on: bool) -> Enabled {
    if is_on { Enabled::On } else { Enabled::Off }
}

/// Returns the version of a bundle's tool that a call would reach, or else the newest. Blocks.
pub(super) fn bundle_version(store: &BundleStore, name: &QualifiedName) -> Result<Option<ToolPath>, ApiError> {
    for view in store.bundles(&[], Disabled::Shown, MAX_BUNDLES, None)?.items {
        if view.bundle.slug.identifier() != name.pack {
            continue;
        }
        let tools = store.tools_of(view.bundle.id)?;
        let own = || tools.iter().filter(|tool| tool.tool.slug.identifier() == name.function);
        if let Some(found) = own().find(|tool| tool.is_callable()).or_else(|| own().next()) {
            let (slug, version) = (found.tool.slug.clone(), found.tool.version.clone());
            return Ok(Some(ToolPath { bundle: view.bundle.id, slug, version }));
        }
    }
    Ok(None)
}
