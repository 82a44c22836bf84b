//! A source whose packs and tools can be disabled.

use std::sync::Arc;

use async_trait::async_trait;
use onetool_sdk::{
    CallContext, HealthNote, NoteFacts, Offer, Pack, QualifiedName, Severity, SourceChange, ToolCall, ToolError,
    ToolSource, Value,
};
use onetool_state::switches::Switches;

/// Hides disabled tools and refuses to call them.
pub struct SwitchedSource {
    inner: Arc<dyn ToolSource>,
    switches: Arc<Switches>,
}

impl SwitchedSource {
    pub fn new(inner: Arc<dyn ToolSource>, switches: Arc<Switches>) -> Self {
        Self { inner, switches }
    }
}

#[async_trait]
impl ToolSource for SwitchedSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        let is_on = |pack: &Pack, function: &str| self.switches.is_on(&pack.name, function);
        self.inner
            .packs()
            .into_iter()
            .filter(|pack| self.switches.is_pack_on(&pack.name))
            .map(|pack| {
                if pack.tools.keys().all(|function| is_on(&pack, function)) {
                    return pack;
                }
                let mut fewer = Pack::clone(&pack);
                fewer.tools.retain(|function, _| is_on(&pack, function));
                Arc::new(fewer)
            })
            .collect()
    }

    fn generation(&self) -> u64 {
        // A change in either part changes the sum, because neither ever decreases.
        self.inner.generation().wrapping_add(self.switches.generation())
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = call.name();
        if !self.switches.is_on(&name.pack, &name.function) {
            return Err(
                ToolError::denied(format!("{name} is switched off")).with_hint("switch it on in the admin page")
            );
        }
        self.inner.call(call, ctx).await
    }

    async fn offer(&self, pack: &str, offer: Offer, ctx: &CallContext) -> Result<Option<serde_json::Value>, ToolError> {
        if !self.switches.is_pack_on(pack) {
            return Ok(None);
        }
        self.inner.offer(pack, offer, ctx).await
    }

    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<SourceChange>> {
        self.inner.changes()
    }

    async fn watch(&self, pack: &str, uri: &str, ctx: &CallContext) -> Result<bool, ToolError> {
        if !self.switches.is_pack_on(pack) {
            return Ok(false);
        }
        self.inner.watch(pack, uri, ctx).await
    }

    async fn unwatch(&self, pack: &str, uri: &str) {
        self.inner.unwatch(pack, uri).await;
    }

    async fn settle(&self, pack: &str, ctx: &CallContext) -> Result<(), ToolError> {
        self.inner.settle(pack, ctx).await
    }

    fn absence(&self, pack: &str) -> Option<String> {
        if !self.switches.is_pack_on(pack) && self.inner.packs().iter().any(|inner| inner.name == pack) {
            return Some("it is switched off; the admin page switches it on".to_owned());
        }
        self.inner.absence(pack)
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

/// Reports a problem with the file of the switches.
pub fn switch_note(switches: &Switches) -> Option<HealthNote> {
    switches.problem().map(|problem| HealthNote {
        severity: Severity::Warning,
        subject: switches.subject(),
        message: format!("cannot be read ({problem}); nothing is switched off"),
        facts: NoteFacts::default(),
    })
}
