//! Finds out which tools there are, and notices when that changes.

use std::sync::Arc;

use onetool_sdk::ToolSource;
use parking_lot::Mutex;

use crate::Catalog;

/// The sources, and the state in which their packs were last read.
pub struct ToolLoader {
    sources: Vec<Arc<dyn ToolSource>>,
    generations: Mutex<Vec<u64>>,
}

impl ToolLoader {
    pub fn new(sources: Vec<Arc<dyn ToolSource>>) -> Self {
        Self { sources, generations: Mutex::new(Vec::new()) }
    }

    pub fn sources(&self) -> &[Arc<dyn ToolSource>] {
        &self.sources
    }

    /// Reads all packs.
    pub fn load(&self) -> Arc<Catalog> {
        *self.generations.lock() = self.current();
        Arc::new(Catalog::new(&self.sources))
    }

    /// A new catalog, if any source has changed since the last one was made.
    pub fn changed(&self) -> Option<Arc<Catalog>> {
        let now = self.current();
        let mut known = self.generations.lock();
        if *known == now {
            return None;
        }
        *known = now;
        Some(Arc::new(Catalog::new(&self.sources)))
    }

    fn current(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.generation()).collect()
    }
}
