//! Connects crates that do not depend on each other: each adapter implements one crate's trait with another's types.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use onetool_config::Secrets;
use onetool_packs::file::FileSettings;
use onetool_packs::standard::ResultReader;
use onetool_sdk::{CallContext, Pack, ToolCall, ToolError, ToolSource, Value};
use onetool_state::results::ResultStore;
use onetool_worker::WorkerServices;
use parking_lot::{Mutex, RwLock};

use crate::config::Resolved;
use crate::gallery::GALLERY;
use crate::governing;

/// The current settings, for parts that outlive a reload.
#[derive(Clone)]
pub(super) struct SharedSettings {
    settings: Arc<RwLock<Arc<Resolved>>>,
    /// The rules for files, and the settings that they were computed from.
    files: Arc<Mutex<Option<(Arc<Resolved>, Arc<FileSettings>)>>>,
}

impl SharedSettings {
    pub(super) fn new(settings: Arc<Resolved>) -> Self {
        Self { settings: Arc::new(RwLock::new(settings)), files: Arc::default() }
    }

    pub(super) fn get(&self) -> Arc<Resolved> {
        self.settings.read().clone()
    }

    pub(super) fn replace(&self, settings: Arc<Resolved>) {
        *self.settings.write() = settings;
    }

    /// The rules for files, including the protected files of this program. Blocks the first time.
    fn file_rules(&self) -> Arc<FileSettings> {
        let settings = self.get();
        let mut known = self.files.lock();
        if let Some((_, rules)) = known.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &settings)) {
            return rules.clone();
        }
        let rules = Arc::new(settings.packs.file.clone().with_guard(governing::guard(&settings)));
        *known = Some((settings, rules.clone()));
        rules
    }
}

/// The access of workers by the current settings: a worker outlives a reload.
pub(super) struct WorkerAccess(pub(super) SharedSettings);

impl WorkerServices for WorkerAccess {
    fn secret(&self, name: &str) -> Option<String> {
        self.0.get().secrets.get(name).map(str::to_owned)
    }

    fn config(&self, pack: &str, key: &str) -> Option<serde_json::Value> {
        self.0.get().tools.get(pack)?.get(key).cloned()
    }

    fn resolve_path(&self, path: &str, for_writing: bool) -> Result<PathBuf, ToolError> {
        onetool_packs::file::resolve(&self.0.file_rules(), path, for_writing)
    }

    fn printed(&self, _pack: &str, line: &str) {
        crate::log::printed(line);
    }
}

/// The secrets that a bundle's requests may use. A change of secrets creates a new engine.
pub(super) struct BundleSecrets(pub(super) Secrets);

impl onetool_bundles::Secrets for BundleSecrets {
    fn get(&self, _bundle: &str, name: &str) -> Option<String> {
        self.0.get(name).map(str::to_owned)
    }
}

/// Buffer size for reading a stored result.
const RESULT_BUFFER_BYTES: usize = 256 << 10;

/// Results that were too large for a reply, for the tools that read them.
pub(super) struct StoredResults(pub(super) ResultStore);

impl ResultReader for StoredResults {
    fn open(&self, handle: &str, ctx: &CallContext) -> Result<Box<dyn std::io::BufRead + Send>, ToolError> {
        let store = ctx.principal_owner().map_or_else(|| self.0.clone(), |owner| self.0.scoped(owner));
        let (_, text) = store.open(handle).map_err(|error| ToolError::value_error(error.to_string()))?;
        Ok(Box::new(std::io::BufReader::with_capacity(RESULT_BUFFER_BYTES, text)))
    }
}

/// Names the gallery packs, which have no tools until they are added, when code uses one.
pub(super) struct Gallery;

#[async_trait]
impl ToolSource for Gallery {
    fn packs(&self) -> Vec<Arc<Pack>> {
        Vec::new()
    }

    fn generation(&self) -> u64 {
        0
    }

    async fn call(&self, call: ToolCall, _ctx: &CallContext) -> Result<Value, ToolError> {
        Err(ToolError::not_found(format!("{} is not added", call.name())))
    }

    fn absence(&self, pack: &str) -> Option<String> {
        let is_known = GALLERY.iter().any(|known| known.name == pack);
        is_known.then(|| format!("it is a pack of the gallery; `onetool packs add {pack}` adds it"))
    }
}
