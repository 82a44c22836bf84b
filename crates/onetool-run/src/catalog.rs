//! All callable tools at one moment. Immutable: a change in any source creates a new catalog, and runs that have begun
//! keep the one they began with.

use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::{Origin, Pack, QualifiedName, ToolSource, ToolSpec};

/// A pack and the source that executes its calls.
#[derive(Clone)]
pub struct CatalogPack {
    pub pack: Arc<Pack>,
    pub source: Arc<dyn ToolSource>,
}

/// Two packs with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    pub name: String,
    /// The pack that uses the name.
    pub winner: Origin,
    /// The pack that was left out.
    pub loser: Origin,
}

/// What the configuration overrides about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverride {
    pub description: Option<String>,
    /// Additional search words.
    pub words: Vec<String>,
}

/// Packs, sorted by name.
#[derive(Clone, Default)]
pub struct Catalog {
    packs: IndexMap<String, CatalogPack>,
    clashes: Vec<Clash>,
}

impl Catalog {
    /// Merges the sources' packs. Earlier sources win. A user's pack that replaces a built-in one is not a clash.
    pub fn new(sources: &[Arc<dyn ToolSource>]) -> Self {
        let mut catalog = Self::default();
        for source in sources {
            for pack in source.packs() {
                if let Some(winner) = catalog.packs.get(&pack.name) {
                    if pack.origin == Origin::Native {
                        continue;
                    }
                    catalog.clashes.push(Clash {
                        name: pack.name.clone(),
                        winner: winner.pack.origin.clone(),
                        loser: pack.origin.clone(),
                    });
                } else {
                    catalog.packs.insert(pack.name.clone(), CatalogPack { pack, source: source.clone() });
                }
            }
        }
        catalog.packs.sort_keys();
        catalog
    }

    /// Applies the configured descriptions.
    #[must_use]
    pub(crate) fn overridden(mut self, overrides: &IndexMap<String, ToolOverride>) -> Self {
        for (name, change) in overrides {
            let (Ok(name), Some(description)) = (name.parse::<QualifiedName>(), &change.description) else { continue };
            let Some(entry) = self.packs.get_mut(&name.pack) else { continue };
            if entry.pack.tools.contains_key(&name.function)
                && let Some(tool) = Arc::make_mut(&mut entry.pack).tools.get_mut(&name.function)
            {
                Arc::make_mut(tool).description.clone_from(description);
            }
        }
        self
    }

    /// Keeps the tools that `sees` accepts, and packs without tools (their server is starting) that `sees_pack`
    /// accepts.
    #[must_use]
    pub(crate) fn visible(&self, sees_pack: impl Fn(&str) -> bool, sees: impl Fn(&QualifiedName) -> bool) -> Self {
        let mut packs = IndexMap::new();
        for (name, entry) in self.packs.iter().filter(|(name, _)| sees_pack(name)) {
            let is_seen = |function: &String| sees(&QualifiedName::new(name, function));
            let mut entry = entry.clone();
            if !entry.pack.tools.keys().all(is_seen) {
                let pack = Arc::make_mut(&mut entry.pack);
                pack.tools.retain(|function, _| is_seen(function));
                if pack.tools.is_empty() {
                    continue;
                }
            }
            packs.insert(name.clone(), entry);
        }
        Self { packs, clashes: Vec::new() }
    }

    pub fn packs(&self) -> impl Iterator<Item = &Arc<Pack>> {
        self.packs.values().map(|entry| &entry.pack)
    }

    pub fn pack(&self, name: &str) -> Option<&CatalogPack> {
        self.packs.get(name)
    }

    pub fn tool(&self, name: &QualifiedName) -> Option<&Arc<ToolSpec>> {
        self.packs.get(&name.pack)?.pack.tools.get(&name.function)
    }

    /// Every tool with the pack that it belongs to.
    pub fn tools(&self) -> impl Iterator<Item = (&Arc<Pack>, &Arc<ToolSpec>)> {
        self.packs().flat_map(|pack| pack.tools.values().map(move |tool| (pack, tool)))
    }

    pub fn tool_count(&self) -> usize {
        self.packs().map(|pack| pack.tools.len()).sum()
    }

    pub fn clashes(&self) -> &[Clash] {
        &self.clashes
    }
}
