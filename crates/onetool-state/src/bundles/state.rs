//! The known state, and the views of it that callers get.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::interface::{Collection, Documents};

use super::builtin::Switches;
use super::error::BundleError;
use super::feed::{Change, tool_key};
use super::limits::PROBLEMS;
use super::model::{Bundle, Implementation, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::schema_form::SchemaForm;
use super::store::Neighbours;
use super::usage::Usage;

/// A tool in memory: the fields that lists and searches need, and the text for the rest.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) id: ToolId,
    pub(crate) bundle_id: BundleId,
    pub(crate) slug: Slug,
    pub(crate) version: Version,
    pub(crate) display_name: String,
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    pub(crate) is_enabled: bool,
    pub(crate) is_built_in: bool,
    pub(crate) native: Option<String>,
    /// The tools that it calls.
    pub(crate) calls: Vec<(String, Option<String>)>,
    pub(crate) modified_at: DateTime<Utc>,
    /// Additional search text: names of arguments, and texts in other languages.
    pub(crate) remarks: String,
    unavailable: Option<String>,
    text: Arc<str>,
    etag: String,
}

impl ToolEntry {
    pub(crate) fn new<S: SchemaForm>(tool: Tool<S>, text: String, unavailable: Option<String>) -> Self {
        Self {
            id: tool.id,
            bundle_id: tool.bundle_id,
            is_enabled: tool.is_enabled,
            is_built_in: tool.is_built_in,
            native: match &tool.implementation {
                Implementation::Native(native) => Some(native.function.clone()),
                Implementation::Http(_) | Implementation::Sequence(_) => None,
            },
            calls: tool.implementation.calls(),
            modified_at: tool.modified_at,
            remarks: remarks(&tool),
            slug: tool.slug,
            version: tool.version,
            display_name: tool.display_name,
            description: tool.description,
            tags: tool.tags,
            unavailable,
            etag: digest(&text),
            text: text.into(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    fn tool(&self) -> Result<Tool, BundleError> {
        let mut tool: Tool = serde_json::from_str(&self.text)
            .map_err(|error| BundleError::Invalid(format!("tool {}: {error}", self.id)))?;
        tool.is_built_in = self.is_built_in;
        Ok(tool)
    }
}

fn remarks<S: SchemaForm>(tool: &Tool<S>) -> String {
    let names = tool.arg_schema.argument_names();
    names.chain(tool.translations.texts()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..24].to_owned()
}

#[derive(Debug)]
pub(crate) struct BundleEntry {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) names: HashMap<(Slug, Version), ToolId>,
    pub(crate) tools: BTreeSet<ToolId>,
    etag: String,
    /// Changes whenever anything in the bundle does.
    generation: u64,
}

/// A bundle as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleView {
    pub bundle: Arc<Bundle>,
    pub etag: String,
    pub tool_count: usize,
    /// Why none of its tools can be called even if they are enabled, such as a secret that is not set.
    pub disabled_reason: Option<String>,
    /// Changes whenever anything in the bundle does.
    pub generation: u64,
}

/// A tool as callers see it. `tool.is_enabled` is the user's switch; `disabled_reason` says why it is off regardless.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolView {
    pub tool: Tool,
    pub etag: String,
    /// Whether it has an implementation: a function of this build, or a configured request.
    pub is_available: bool,
    /// Why the tool can't be called, if it can't.
    pub disabled_reason: Option<String>,
    pub usage: Usage,
}

impl ToolView {
    pub fn is_callable(&self) -> bool {
        self.disabled_reason.is_none()
    }
}

/// How much a list of changes covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Difference,
    Everything,
}

/// What the check of a new tool can ask about the others.
impl Neighbours for State {
    fn calls_of(&self, tool: &str, version: Option<&str>) -> Vec<(String, Option<String>)> {
        let Some((pack, function)) = tool.split_once('.') else { return Vec::new() };
        let own = self.tools.values().filter(|entry| !entry.calls.is_empty() && !entry.is_built_in);
        own.filter(|entry| {
            entry.slug.identifier() == function
                && version.is_none_or(|version| entry.version.as_str() == version)
                && self.bundles.get(&entry.bundle_id).is_some_and(|one| one.bundle.slug.identifier() == pack)
        })
        .flat_map(|entry| entry.calls.iter().cloned())
        .collect()
    }
}

const DUPLICATE: &str = "another tool of this bundle has the same slug and version";

/// The whole known state.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) bundles: BTreeMap<BundleId, BundleEntry>,
    pub(crate) tools: BTreeMap<ToolId, Arc<ToolEntry>>,
    /// Tools that are ignored for now: their bundle is missing, or an older tool has their name.
    pub(crate) waiting: BTreeMap<ToolId, Arc<ToolEntry>>,
    pub(crate) problems: BTreeMap<PathBuf, String>,
    pub(crate) switches: Switches,
    /// Functions that native tools may refer to.
    pub(crate) natives: HashSet<String>,
    /// Tools whose current state the search index does not have yet.
    pub(crate) dirty: Vec<ToolId>,
    pub(crate) total_bytes: u64,
    pub(crate) generation: u64,
}

impl State {
    /// Applies changes. If they list everything, whatever they do not name is removed.
    pub(crate) fn apply(&mut self, changes: Vec<Change>, extent: Extent, documents: &dyn Documents) {
        if extent == Extent::Everything {
            self.retain_named(&changes);
        }
        for change in changes {
            match change {
                Change::Bundle { bundle, text } => self.insert_bundle(*bundle, &text),
                Change::BundleGone(id) => self.remove_bundle(id),
                Change::Tool(entry) => {
                    self.waiting.insert(entry.id, entry);
                }
                Change::ToolGone(id) => {
                    self.waiting.remove(&id);
                    self.remove_tool(id);
                }
                Change::Switches(switches) => self.set_switches(switches),
                Change::Problem { path, message } => {
                    if self.problems.len() < PROBLEMS {
                        self.problems.insert(path, message);
                    }
                }
                Change::Fine(path) => {
                    self.problems.remove(&path);
                }
            }
        }
        self.admit(documents);
    }

    fn set_switches(&mut self, switches: Switches) {
        if self.switches == switches {
            return;
        }
        self.switches = switches;
        self.generation += 1;
        let generation = self.generation;
        for entry in self.bundles.values_mut().filter(|entry| entry.bundle.is_built_in) {
            entry.generation = generation;
        }
    }

    fn retain_named(&mut self, changes: &[Change]) {
        let (mut bundles, mut tools) = (HashSet::new(), HashSet::new());
        for change in changes {
            match change {
                Change::Bundle { bundle, .. } => drop(bundles.insert(bundle.id)),
                Change::Tool(entry) => drop(tools.insert(entry.id)),
                _ => {}
            }
        }
        self.waiting.retain(|id, _| tools.contains(id));
        let gone = self.tools.values().filter(|entry| !entry.is_built_in && !tools.contains(&entry.id));
        let gone: Vec<ToolId> = gone.map(|entry| entry.id).collect();
        gone.into_iter().for_each(|id| self.remove_tool(id));
        let gone =
            self.bundles.values().filter(|entry| !entry.bundle.is_built_in && !bundles.contains(&entry.bundle.id));
        let gone: Vec<BundleId> = gone.map(|entry| entry.bundle.id).collect();
        gone.into_iter().for_each(|id| self.remove_bundle(id));
    }

    /// Admits waiting tools whose bundle exists. The older of two tools with one name keeps it, in any order of
    /// arrival.
    fn admit(&mut self, documents: &dyn Documents) {
        for (id, entry) in std::mem::take(&mut self.waiting) {
            let bundle = entry.bundle_id;
            let place = tool_key(bundle, id).map(|key| PathBuf::from(documents.place(Collection::BUNDLES, &key)));
            if !self.bundles.contains_key(&bundle) {
                self.waiting.insert(id, entry);
                continue;
            }
            let loser = self.insert_tool(entry);
            if let Some(place) = place.filter(|place| self.problems.get(place).is_some_and(|one| one == DUPLICATE)) {
                self.problems.remove(&place);
            }
            if let Some(loser) = loser {
                let key = tool_key(bundle, loser.id);
                if let Some(key) = key {
                    let place = PathBuf::from(documents.place(Collection::BUNDLES, &key));
                    self.problems.insert(place, DUPLICATE.to_owned());
                }
                self.waiting.insert(loser.id, loser);
            }
        }
    }

    pub(crate) fn insert_bundle(&mut self, bundle: Bundle, text: &str) {
        self.generation += 1;
        let generation = self.generation;
        let etag = digest(text);
        let bundle = Arc::new(bundle);
        let entry = self.bundles.entry(bundle.id).or_insert_with(|| BundleEntry {
            bundle: bundle.clone(),
            names: HashMap::new(),
            tools: BTreeSet::new(),
            etag: String::new(),
            generation,
        });
        entry.bundle = bundle;
        entry.etag = etag;
        entry.generation = generation;
    }

    /// Returns the tool that lost its name to an older one, if any.
    pub(crate) fn insert_tool(&mut self, entry: Arc<ToolEntry>) -> Option<Arc<ToolEntry>> {
        let name = (entry.slug.clone(), entry.version.clone());
        let holder = self.bundles.get(&entry.bundle_id)?.names.get(&name).copied();
        let mut loser = None;
        match holder {
            Some(holder) if holder < entry.id => {
                self.remove_tool(entry.id);
                return Some(entry);
            }
            Some(holder) if holder > entry.id => {
                loser = self.tools.get(&holder).cloned();
                self.remove_tool(holder);
            }
            _ => {}
        }
        self.remove_tool(entry.id);
        self.generation += 1;
        let bundle = self.bundles.get_mut(&entry.bundle_id)?;
        bundle.generation = self.generation;
        bundle.names.insert(name, entry.id);
        bundle.tools.insert(entry.id);
        self.total_bytes += entry.bytes();
        self.dirty.push(entry.id);
        self.tools.insert(entry.id, entry);
        loser
    }

    pub(crate) fn remove_tool(&mut self, id: ToolId) {
        let Some(entry) = self.tools.remove(&id) else { return };
        self.generation += 1;
        self.total_bytes = self.total_bytes.saturating_sub(entry.bytes());
        self.dirty.push(id);
        if let Some(bundle) = self.bundles.get_mut(&entry.bundle_id) {
            bundle.generation = self.generation;
            bundle.tools.remove(&id);
            bundle.names.remove(&(entry.slug.clone(), entry.version.clone()));
        }
    }

    /// Removes a bundle. Its tools are ignored, and wait for the bundle to return.
    pub(crate) fn remove_bundle(&mut self, id: BundleId) {
        let Some(entry) = self.bundles.remove(&id) else { return };
        self.generation += 1;
        for tool in entry.tools {
            if let Some(entry) = self.tools.remove(&tool) {
                self.total_bytes = self.total_bytes.saturating_sub(entry.bytes());
                self.waiting.insert(tool, entry);
            }
            self.dirty.push(tool);
        }
    }

    /// The user's own bundles of this slug.
    pub(crate) fn own_bundles<'a>(&'a self, slug: &'a Slug) -> impl Iterator<Item = BundleId> + 'a {
        self.bundles
            .values()
            .map(|entry| &entry.bundle)
            .filter(move |bundle| !bundle.is_built_in && bundle.soft_deleted_at.is_none() && bundle.slug == *slug)
            .map(|bundle| bundle.id)
    }

    /// A bundle that exists and is not deleted.
    pub(crate) fn live(&self, id: BundleId) -> Result<&BundleEntry, BundleError> {
        self.bundles
            .get(&id)
            .filter(|entry| entry.bundle.soft_deleted_at.is_none())
            .ok_or_else(|| BundleError::NotFound(format!("there is no bundle {id}")))
    }

    pub(crate) fn find(
        &self,
        bundle: BundleId,
        slug: &Slug,
        version: &Version,
    ) -> Result<&Arc<ToolEntry>, BundleError> {
        self.live(bundle)?
            .names
            .get(&(slug.clone(), version.clone()))
            .and_then(|id| self.tools.get(id))
            .ok_or_else(|| BundleError::NotFound(format!("bundle {bundle} has no tool {slug} {version}")))
    }

    pub(crate) fn is_bundle_enabled(&self, bundle: &Bundle) -> bool {
        if bundle.is_built_in {
            self.switches.bundles.get(&bundle.id).copied().unwrap_or(bundle.is_enabled)
        } else {
            bundle.is_enabled
        }
    }

    fn is_tool_enabled(&self, entry: &ToolEntry) -> bool {
        if entry.is_built_in { self.switches.tools.get(&entry.id).copied().unwrap_or(true) } else { entry.is_enabled }
    }

    fn unavailable_reason(&self, entry: &ToolEntry) -> Option<String> {
        if let Some(reason) = &entry.unavailable {
            return Some(reason.clone());
        }
        let function = entry.native.as_ref().filter(|function| !self.natives.contains(*function))?;
        Some(format!("the native function {function} is not in this build"))
    }

    pub(crate) fn disabled_reason(&self, entry: &ToolEntry) -> Option<String> {
        if let Some(reason) = self.unavailable_reason(entry) {
            return Some(reason);
        }
        if !self.is_tool_enabled(entry) {
            return Some("the tool is disabled".to_owned());
        }
        match self.bundles.get(&entry.bundle_id) {
            Some(bundle) if bundle.bundle.soft_deleted_at.is_some() => Some("its bundle is deleted".to_owned()),
            Some(bundle) if self.is_bundle_enabled(&bundle.bundle) => None,
            _ => Some("its bundle is disabled".to_owned()),
        }
    }

    /// Bundles that are not deleted, and whether each is enabled.
    pub(crate) fn callable_bundles(&self) -> HashMap<BundleId, bool> {
        let live = self.bundles.values().filter(|entry| entry.bundle.soft_deleted_at.is_none());
        live.map(|entry| (entry.bundle.id, self.is_bundle_enabled(&entry.bundle))).collect()
    }

    /// Whether a tool itself allows a call, regardless of its bundle.
    pub(crate) fn is_callable_alone(&self, entry: &ToolEntry) -> bool {
        self.is_tool_enabled(entry)
            && entry.unavailable.is_none()
            && entry.native.as_ref().is_none_or(|function| self.natives.contains(function))
    }

    pub(crate) fn is_deleted(&self, entry: &ToolEntry) -> bool {
        self.bundles.get(&entry.bundle_id).is_none_or(|bundle| bundle.bundle.soft_deleted_at.is_some())
    }

    pub(crate) fn bundle_view(&self, entry: &BundleEntry) -> BundleView {
        let enabled = self.is_bundle_enabled(&entry.bundle);
        let mut bundle = entry.bundle.clone();
        if bundle.is_enabled != enabled {
            Arc::make_mut(&mut bundle).is_enabled = enabled;
        }
        let etag =
            if entry.bundle.is_built_in { format!("{}-{}", entry.etag, u8::from(enabled)) } else { entry.etag.clone() };
        // Stops at the first tool that can be called.
        let reasons: Option<Vec<String>> =
            entry.tools.iter().filter_map(|id| self.tools.get(id)).map(|tool| self.unavailable_reason(tool)).collect();
        let disabled_reason = reasons.and_then(|reasons| reasons.into_iter().next());
        BundleView { bundle, etag, tool_count: entry.tools.len(), disabled_reason, generation: entry.generation }
    }

    pub(crate) fn tool_view(&self, entry: &ToolEntry, usage: Usage) -> Result<ToolView, BundleError> {
        let mut tool = entry.tool()?;
        tool.is_enabled = self.is_tool_enabled(entry);
        let etag = self.tool_etag(entry);
        let is_available = self.unavailable_reason(entry).is_none();
        Ok(ToolView { tool, etag, is_available, disabled_reason: self.disabled_reason(entry), usage })
    }

    pub(crate) fn tool_etag(&self, entry: &ToolEntry) -> String {
        if entry.is_built_in {
            format!("{}-{}", entry.etag, u8::from(self.is_tool_enabled(entry)))
        } else {
            entry.etag.clone()
        }
    }
}
