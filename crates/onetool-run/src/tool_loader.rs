//! Loads the tools of all sources, and notices when they change.

use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::ToolSource;
use parking_lot::Mutex;

use crate::{Catalog, ToolOverride};

/// The sources and their packs as last read.
pub struct ToolLoader {
    sources: Vec<Arc<dyn ToolSource>>,
    overrides: IndexMap<String, ToolOverride>,
    read: Mutex<Read>,
}

/// The catalog as last read, and the generations of the sources then; empty before the first read.
#[derive(Default)]
struct Read {
    generations: Vec<u64>,
    catalog: Arc<Catalog>,
}

impl ToolLoader {
    pub fn new(sources: Vec<Arc<dyn ToolSource>>, overrides: IndexMap<String, ToolOverride>) -> Self {
        Self { sources, overrides, read: Mutex::default() }
    }

    pub fn sources(&self) -> &[Arc<dyn ToolSource>] {
        &self.sources
    }

    /// Returns the current catalog: the one last read, unless a source has changed since.
    ///
    /// A caller that arrives during a read waits for its result.
    pub fn catalog(&self) -> Arc<Catalog> {
        let now = self.current();
        let mut read = self.read.lock();
        if read.generations != now {
            let catalog = Catalog::new(&self.sources).overridden(&self.overrides);
            *read = Read { generations: now, catalog: Arc::new(catalog) };
        }
        read.catalog.clone()
    }

    fn current(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.generation()).collect()
    }
}
