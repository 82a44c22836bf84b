//! Snippets as prompts, and completion of user input.

use onetool_run::{Shared as Tools, Snippet, expand_snippet};
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResult, JsonObject, Prompt,
    PromptArgument, PromptMessage, Reference, Role,
};
use serde_json::Value as Json;

/// The template whose `{name}` can be completed.
pub(super) const TOOL_TEMPLATE: &str = "ot://tool/{name}";

pub(super) fn list(tools: &Tools) -> Vec<Prompt> {
    tools.state.snippets.iter().map(|(name, snippet)| prompt(name, snippet)).collect()
}

fn prompt(name: &str, snippet: &Snippet) -> Prompt {
    let arguments: Vec<PromptArgument> = snippet
        .parameters
        .iter()
        .map(|(name, parameter)| {
            let mut argument = PromptArgument::new(name);
            argument.description.clone_from(&parameter.description);
            argument.required = Some(parameter.required && parameter.default.is_none());
            argument
        })
        .collect();
    let description = (!snippet.description.is_empty()).then(|| snippet.description.clone());
    Prompt::new(name, description, (!arguments.is_empty()).then_some(arguments))
}

/// Returns the snippet's code, as a message that asks to run it.
pub(super) fn get(tools: &Tools, request: GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let snippets = &tools.state.snippets;
    let Some(snippet) = snippets.get(&request.name) else {
        let message = format!("unknown prompt '{}'; prompts/list lists the available prompts", request.name);
        return Err(ErrorData::invalid_params(message, None));
    };
    let values = request.arguments.unwrap_or_default().into_iter().map(|(key, value)| (key, as_text(value))).collect();
    let code = expand_snippet(&request.name, values, snippets)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    let text = format!("Run this with the tool `run`:\n\n```python\n{code}\n```");
    let result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
    Ok(if snippet.description.is_empty() { result } else { result.with_description(&snippet.description) })
}

fn as_text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

pub(super) fn complete(tools: &Tools, request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let typed = request.argument.value.as_str();
    let values: Vec<String> = match &request.r#ref {
        Reference::Prompt(prompt) => {
            let Some(snippet) = tools.state.snippets.get(&prompt.name) else {
                return Err(ErrorData::invalid_params(format!("unknown prompt '{}'", prompt.name), None));
            };
            let parameter = snippet.parameters.get(&request.argument.name);
            let default = parameter.and_then(|parameter| parameter.default.clone()).map(as_text);
            default.into_iter().filter(|default| default.starts_with(typed)).collect()
        }
        Reference::Resource(resource) if resource.uri == TOOL_TEMPLATE => tools
            .catalog()
            .tools()
            .map(|(pack, tool)| format!("{}.{}", pack.name, tool.name))
            .filter(|name| name.starts_with(typed))
            .collect(),
        Reference::Resource(resource) => {
            let message =
                format!("nothing to complete in '{}'; only {TOOL_TEMPLATE} has parts to fill in", resource.uri);
            return Err(ErrorData::invalid_params(message, None));
        }
        _ => Vec::new(),
    };
    let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    let first = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
    CompletionInfo::with_pagination(first, Some(total), has_more)
        .map(CompleteResult::new)
        .map_err(|error| ErrorData::internal_error(error, None))
}

/// Describes all prompts, to detect changes.
pub(super) fn fingerprint(tools: &Tools) -> String {
    let listed: Vec<JsonObject> =
        list(tools).iter().filter_map(|prompt| serde_json::to_value(prompt).ok()?.as_object().cloned()).collect();
    serde_json::to_string(&listed).unwrap_or_default()
}
