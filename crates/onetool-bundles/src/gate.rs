//! Native packs behind the switches of their built-in bundles.

use std::sync::Arc;

use async_trait::async_trait;
use onetool_sdk::{CallContext, HealthNote, Pack, QualifiedName, ToolCall, ToolError, ToolSource, Value};
use onetool_state::bundles::BundleStore;

/// A source whose tools can be switched off as built-ins of the store.
pub struct GatedSource {
    inner: Arc<dyn ToolSource>,
    store: BundleStore,
}

impl GatedSource {
    pub fn new(inner: Arc<dyn ToolSource>, store: BundleStore) -> Self {
        Self { inner, store }
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
        // Either part changing changes the sum, as neither ever goes back.
        self.inner.generation().wrapping_add(self.store.generation())
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = call.name();
        if !self.store.is_native_enabled(&name.pack, &name.function) {
            return Err(ToolError::denied(format!("{name} is disabled")).with_hint("enable it in its bundle"));
        }
        self.store.record_native_call(&name.pack, &name.function, chrono::Utc::now());
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
