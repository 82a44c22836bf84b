//! Resources: the list of tools, and each tool.

use onetool_run::Shared as Tools;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::prompts::TOOL_TEMPLATE;

const TOOLS: &str = "ot://tools";
const TOOL: &str = "ot://tool/";
const JSON: &str = "application/json";

pub(super) fn list() -> Vec<Resource> {
    let mut tools = Resource::new(TOOLS, "tools");
    tools.description = Some("All tools, with their descriptions".to_owned());
    tools.mime_type = Some(JSON.to_owned());
    vec![tools]
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let mut tool = ResourceTemplate::new(TOOL_TEMPLATE, "tool");
    tool.description = Some("One tool: signature, description and schema".to_owned());
    tool.mime_type = Some(JSON.to_owned());
    vec![tool]
}

pub(super) fn read(tools: &Tools, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let catalog = tools.catalog();
    let json: serde_json::Value = if uri == TOOLS {
        catalog
            .tools()
            .map(|(pack, tool)| {
                serde_json::json!({"name": format!("{}.{}", pack.name, tool.name), "description": tool.summary()})
            })
            .collect()
    } else {
        let found = uri
            .strip_prefix(TOOL)
            .and_then(|name| name.parse().ok())
            .and_then(|name| catalog.tool(&name).map(|tool| (name.to_string(), tool)));
        let Some((name, tool)) = found else {
            let message = format!("no resource '{uri}'; {TOOLS} lists the tools");
            let data = serde_json::json!({"uri": uri});
            return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, message, Some(data)));
        };
        serde_json::json!({
            "name": name,
            "signature": tool.signature.render(&name),
            "description": tool.description,
            "inputSchema": tool.input_schema,
        })
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(json.to_string(), uri).with_mime_type(JSON)]))
}
