//! Packs of Rust functions as a [`ToolSource`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::{
    CallContext, Origin, Pack, QualifiedName, Tool, ToolCall, ToolContext, ToolError, ToolResult, ToolSource, Value,
};
use async_trait::async_trait;

/// A pack and the functions behind it.
pub struct NativePack {
    pub name: &'static str,
    pub description: &'static str,
    pub tools: Vec<Tool>,
}

/// All native packs.
pub struct NativeSource {
    packs: Vec<Arc<Pack>>,
    /// By pack and function.
    tools: HashMap<String, HashMap<String, Tool>>,
}

impl NativeSource {
    pub fn new(packs: Vec<NativePack>) -> Self {
        let mut tools: HashMap<String, HashMap<String, Tool>> = HashMap::new();
        let packs = packs
            .into_iter()
            .map(|pack| {
                let specs = pack.tools.iter().map(|tool| (tool.name().to_owned(), tool.spec())).collect();
                let functions = tools.entry(pack.name.to_owned()).or_default();
                functions.extend(pack.tools.into_iter().map(|tool| (tool.name().to_owned(), tool)));
                Arc::new(Pack {
                    name: pack.name.to_owned(),
                    description: pack.description.to_owned(),
                    origin: Origin::Native,
                    tools: specs,
                    note: None,
                    docs: super::source::PackDocs::Unsaid,
                })
            })
            .collect();
        Self { packs, tools }
    }

    fn tool(&self, pack: &str, function: &str) -> Option<&Tool> {
        self.tools.get(pack)?.get(function)
    }
}

#[async_trait]
impl ToolSource for NativeSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        self.packs.clone()
    }

    fn generation(&self) -> u64 {
        0
    }

    fn secrets(&self, name: &QualifiedName) -> Vec<String> {
        self.tool(&name.pack, &name.function).map(|tool| tool.secrets().to_vec()).unwrap_or_default()
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let tool = self
            .tool(&call.pack.name, &call.tool.name)
            .ok_or_else(|| ToolError::not_found(format!("{} is not a native tool", call.name())))?;
        let arguments = serde_json::Value::Object(call.arguments.to_json());
        tool.execute(arguments, ToolContext::new(ctx.clone())).await.map(ToolResult::into_value)
    }
}
