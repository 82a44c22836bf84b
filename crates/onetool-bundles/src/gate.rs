//! Native packs, subject to the switches of their built-in bundles.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use onetool_sdk::{CallContext, HealthNote, Pack, QualifiedName, ToolCall, ToolError, ToolSource, Value};
use onetool_state::bundles::{BundleStore, NativeTool};
use parking_lot::RwLock;

/// A source whose tools can be disabled as built-ins of the store.
pub struct GatedSource {
    inner: Arc<dyn ToolSource>,
    store: BundleStore,
    /// Cache of the store's names for functions, by pack and function.
    known: RwLock<HashMap<String, HashMap<String, Option<NativeTool>>>>,
}

impl GatedSource {
    pub fn new(inner: Arc<dyn ToolSource>, store: BundleStore) -> Self {
        Self { inner, store, known: RwLock::default() }
    }

    fn native(&self, call: &ToolCall) -> Option<NativeTool> {
        let (pack, function) = (&call.pack.name, &call.tool.name);
        if let Some(native) = self.known.read().get(pack).and_then(|functions| functions.get(function)) {
            return *native;
        }
        let native = NativeTool::named(pack, function);
        self.known.write().entry(pack.clone()).or_default().insert(function.clone(), native);
        native
    }
}

#[async_trait]
impl ToolSource for GatedSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        let is_on = |pack: &Pack, function: &str| self.store.is_native_enabled(&pack.name, function);
        self.inner
            .packs()
            .into_iter()
            .filter_map(|mut pack| {
                if !pack.tools.keys().all(|function| is_on(&pack, function)) {
                    let mut fewer = Pack::clone(&pack);
                    fewer.tools.retain(|function, _| is_on(&pack, function));
                    pack = Arc::new(fewer);
                }
                (!pack.tools.is_empty()).then_some(pack)
            })
            .collect()
    }

    fn generation(&self) -> u64 {
        // Both only increase, so a change of either changes the sum.
        self.inner.generation().wrapping_add(self.store.generation())
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        if let Some(native) = self.native(&call) {
            if !self.store.is_switched_on(native) {
                let message = format!("{} is disabled", call.name());
                return Err(ToolError::denied(message).with_hint("enable it in its bundle"));
            }
            self.store.record_call(native.tool, chrono::Utc::now());
        }
        self.inner.call(call, ctx).await
    }

    fn absence(&self, pack: &str) -> Option<String> {
        let is_there = self.inner.packs().iter().any(|inner| inner.name == pack);
        is_there
            .then(|| format!("the bundle '{pack}' is switched off; `onetool bundles enable {pack}` switches it on"))
            .or_else(|| self.inner.absence(pack))
    }

    fn secrets(&self, name: &QualifiedName) -> Vec<String> {
        self.inner.secrets(name)
    }

    fn health(&self) -> Vec<HealthNote> {
        self.inner.health()
    }

    async fn shutdown(&self) {
        self.inner.shutdown().await;
    }
}
