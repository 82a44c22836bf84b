//! Finds out which tools there are, and notices when that changes.

use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::ToolSource;
use parking_lot::Mutex;

use crate::{Catalog, ToolOverride};

/// The sources, and the state in which their packs were last read.
pub struct ToolLoader {
    sources: Vec<Arc<dyn ToolSource>>,
    overrides: IndexMap<String, ToolOverride>,
    read: Mutex<Read>,
}

/// What was read last, and how old the sources were then. Nothing, before the first time.
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

    /// The catalog of now: the one that was read last, unless a source has changed since.
    ///
    /// Whoever comes while another reads waits for what is read.
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
