//! The tools, prompts and resources that the suite expects, as data.

use rmcp::model::{ClientCapabilities, InputResponses, Prompt, Resource, ResourceTemplate, Tool};
use serde_json::{Value as Json, json};

/// A red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// An empty WAV file.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

const PLAIN: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_reconnection",
];

const ROUNDS: &[&str] = &[
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_streaming_elicitation",
];

pub fn tools() -> Vec<Tool> {
    let plain = PLAIN.iter().chain(ROUNDS).map(|name| (*name, json!({"type": "object", "properties": {}})));
    let with = |name: &'static str, argument: &str| {
        let schema = json!({"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]});
        (name, schema)
    };
    let more = [
        with("test_sampling", "prompt"),
        with("test_elicitation", "message"),
        ("json_schema_2020_12_tool", rich_schema()),
        (
            "test_custom_headers",
            json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}),
        ),
    ];
    plain
        .chain(more)
        .map(|(name, schema)| {
            super::from(
                json!({"name": name, "description": "A fixture of the conformance suite", "inputSchema": schema}),
            )
        })
        .collect()
}

/// A schema with the JSON Schema 2020-12 keywords that must be preserved.
fn rich_schema() -> Json {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
            "street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    })
}

/// Returns the result of a tool whose result is constant.
pub fn content(name: &str) -> Option<Json> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let blocks = match name {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content."}}]),
        "test_multiple_content_types" => json!([text("Multiple content types test:"), image,
            {"type": "resource", "resource": {"uri": "test://mixed-content-resource",
                "mimeType": "application/json", "text": "{\"test\":\"data\",\"value\":123}"}}]),
        "test_error_handling" => {
            let content = json!([text("This tool intentionally returns an error for testing")]);
            return Some(json!({"content": content, "isError": true}));
        }
        "json_schema_2020_12_tool" | "test_custom_headers" => json!([text("ok")]),
        _ => return None,
    };
    Some(json!({"content": blocks}))
}

pub fn person(message: &str) -> Json {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"}}, "required": ["username", "email"]}})
}

pub fn defaults() -> Json {
    json!({"message": "Please review", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true}}}})
}

pub fn enums() -> Json {
    let titled = |texts: [&str; 3]| {
        let one = |(index, title): (usize, &str)| json!({"const": format!("value{}", index + 1), "title": title});
        texts.into_iter().enumerate().map(one).collect::<Json>()
    };
    json!({"message": "Please choose", "requestedSchema": {"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"])},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {
            "anyOf": titled(["First Choice", "Second Choice", "Third Choice"])}}}}})
}

/// The input that a tool requests in one round.
pub struct Round {
    pub requests: Vec<(&'static str, Json)>,
    pub has_state: bool,
}

pub fn question(message: &str, field: &str, kind: &str) -> Json {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema":
        {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}}})
}

fn sample(prompt: &str, max_tokens: u32) -> Json {
    json!({"method": "sampling/createMessage", "params": {"maxTokens": max_tokens, "messages":
        [{"role": "user", "content": {"type": "text", "text": prompt}}]}})
}

fn roots() -> Json {
    json!({"method": "roots/list", "params": {}})
}

pub fn is_in_rounds(name: &str) -> bool {
    ROUNDS.contains(&name)
}

pub fn rounds(name: &str, capabilities: &ClientCapabilities) -> Vec<Round> {
    let round = |requests: Vec<(&'static str, Json)>, has_state| Round { requests, has_state };
    match name {
        "test_input_required_result_sampling" => {
            vec![round(vec![("capital_question", sample("What is the capital of France?", 100))], false)]
        }
        "test_input_required_result_list_roots" => vec![round(vec![("client_roots", roots())], false)],
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            vec![round(vec![("confirm", question("Please confirm", "ok", "boolean"))], true)]
        }
        "test_input_required_result_multiple_inputs" => vec![round(
            vec![
                ("user_name", question("What is your name?", "name", "string")),
                ("greeting", sample("Generate a greeting", 50)),
                ("client_roots", roots()),
            ],
            true,
        )],
        "test_input_required_result_multi_round" => vec![
            round(vec![("step1", question("Step 1: What is your name?", "name", "string"))], true),
            round(vec![("step2", question("Step 2: What is your favorite color?", "color", "string"))], true),
        ],
        "test_input_required_result_capabilities" => {
            let mut requests = Vec::new();
            if capabilities.sampling.is_some() {
                requests.push(("sample", sample("Say hello", 50)));
            }
            if capabilities.elicitation.is_some() {
                requests.push(("user_name", question("What is your name?", "name", "string")));
            }
            vec![round(requests, false)]
        }
        _ => vec![round(vec![("user_name", question("What is your name?", "name", "string"))], false)],
    }
}

/// Returns the text that a tool answers with once it has all inputs.
pub fn spoken(name: &str, answers: &InputResponses) -> String {
    match name {
        "test_input_required_result_elicitation" => {
            let name = answers.get("user_name").and_then(|answer| answer["content"]["name"].as_str());
            format!("Hello, {}!", name.unwrap_or_default())
        }
        "test_input_required_result_request_state" => "state-ok".to_owned(),
        _ => format!("answered: {}", serde_json::to_string(answers).unwrap_or_default()),
    }
}

pub fn resources() -> Vec<Resource> {
    [
        ("test://static-text", "text/plain"),
        ("test://static-binary", "image/png"),
        ("test://watched-resource", "text/plain"),
    ]
    .into_iter()
    .map(|(uri, kind)| {
        super::from(json!({"uri": uri, "name": uri, "description": "A fixture of the suite", "mimeType": kind}))
    })
    .collect()
}

pub fn templates() -> Vec<ResourceTemplate> {
    vec![super::from(json!({"uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "A fixture of the suite", "mimeType": "application/json"}))]
}

pub fn read(uri: &str) -> Option<Json> {
    let text = |kind: &str, text: String| Some(json!({"uri": uri, "mimeType": kind, "text": text}));
    match uri {
        "test://static-text" => text("text/plain", "This is the content of the static text resource.".to_owned()),
        "test://watched-resource" => text("text/plain", "Watched.".to_owned()),
        "test://static-binary" => Some(json!({"uri": uri, "mimeType": "image/png", "blob": PNG})),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            text("application/json", data.to_string())
        }
    }
}

pub fn prompts() -> Vec<Prompt> {
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Json> = arguments.iter().map(|name| json!({"name": name, "required": true})).collect();
        super::from(json!({"name": name, "description": "A fixture of the suite", "arguments": arguments}))
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ]
}

pub fn messages(name: &str, given: impl Fn(&str) -> String) -> Option<Json> {
    let say = |content: Json| json!({"role": "user", "content": content});
    let text = |text: String| say(json!({"type": "text", "text": text}));
    Some(match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            json!([text(format!("Prompt with arguments: arg1='{}', arg2='{}'", given("arg1"), given("arg2")))])
        }
        "test_prompt_with_embedded_resource" => json!([
            say(json!({"type": "resource", "resource": {"uri": given("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing."}})),
            text("Please process the embedded resource above.".to_owned()),
        ]),
        "test_prompt_with_image" => json!([
            say(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => return None,
    })
}
