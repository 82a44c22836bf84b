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
    tools: HashMap<(String, String), Tool>,
}

impl NativeSource {
    pub fn new(packs: Vec<NativePack>) -> Self {
        let mut tools = HashMap::new();
        let packs = packs
            .into_iter()
            .map(|pack| {
                let specs = pack.tools.iter().map(|tool| (tool.name().to_owned(), tool.spec())).collect();
                for tool in pack.tools {
                    tools.insert((pack.name.to_owned(), tool.name().to_owned()), tool);
                }
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
        let tool = self.tools.get(&(name.pack.clone(), name.function.clone()));
        tool.map(|tool| tool.secrets().to_vec()).unwrap_or_default()
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = call.name();
        let tool = self
            .tools
            .get(&(name.pack.clone(), name.function.clone()))
            .ok_or_else(|| ToolError::not_found(format!("{name} is not a native tool")))?;
        let arguments = serde_json::Value::Object(call.arguments.to_json());
        tool.execute(arguments, ToolContext::new(ctx.clone())).await.map(ToolResult::into_value)
    }
}
