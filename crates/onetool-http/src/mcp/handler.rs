//! What the MCP client sees: one tool, two resources, short instructions.
#![expect(deprecated, reason = "clients of today still ask for logging")]

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use onetool_run::RunReply;
use onetool_sdk::{CallContext, Caller, Part};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ContentBlock, CustomRequest, CustomResult, ErrorCode, Implementation, JsonObject,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, SetLevelRequestParams, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::client::ClientPeer;
use super::logging::ClientLog;
use super::progress::ClientProgress;
use crate::Service;

/// Serves one client. Cheap: all share the service.
#[derive(Clone)]
pub struct Handler {
    service: Arc<dyn Service>,
    log: Arc<ClientLog>,
}

const TOOL: &str = "run";

/// Requests that this server answers.
const METHODS: &[&str] = &[
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tools/call",
    "tools/list",
];

const DESCRIPTION: &str = "\
Run Python with every tool at hand as pack.function(...). The value of the last expression is the result; print() works too.
Discover: ot.help(query='what you need'), ot.packs(), ot.tools(pattern='x', info='full').
Examples: file.read('README.md') | [t['name'] for t in ot.tools(pattern='search')] | await asyncio.gather(a.f(), b.g())
Combine calls in one run; filter data in code. Parameter names may be shortened. Set __format__ = 'json' | 'json_h' | 'yml' | 'yml_h' | 'raw'.
Large results are stored: ot.result(handle=...) reads them.";

const INSTRUCTIONS: &str = "\
One tool, run(command): Python in a sandbox, with all other tools as pack.function(...). Start with ot.help().";

impl Handler {
    pub fn new(service: Arc<dyn Service>) -> Self {
        Self { service, log: Arc::default() }
    }

    fn tool(&self) -> Tool {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {"command": {"type": "string", "description": "Python code"}},
            "required": ["command"]
        });
        let schema: JsonObject = match schema {
            serde_json::Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        let description = self.service.served().run_description.clone().map_or(Cow::Borrowed(DESCRIPTION), Cow::Owned);
        let mut tool = Tool::new(TOOL, description, Arc::new(schema));
        tool.annotations = Some(ToolAnnotations::new().read_only(false).idempotent(false).open_world(true));
        tool
    }

    async fn run(&self, command: &str, context: RequestContext<RoleServer>) -> RunReply {
        let mut ctx = CallContext::new(Caller::Run);
        ctx.cancel = context.ct.child_token();
        let mut progress = None;
        if let Some(token) = context.meta.get_progress_token() {
            let (sending, sink) = ClientProgress::start(context.peer.clone(), token);
            progress = Some(sending);
            ctx.progress = sink;
        }
        ctx.client = Some(Arc::new(ClientPeer(context.peer.clone())));
        // A panic inside ends this run, not the session. Every request has a task of its own already.
        let run = AssertUnwindSafe(Box::pin(self.service.runner().run(command, ctx))).catch_unwind();
        let reply = run.await.unwrap_or_else(|_| {
            tracing::error!("a run panicked");
            RunReply {
                text: "RuntimeError: the server failed inside; the log has the details".to_owned(),
                parts: Vec::new(),
                is_error: true,
            }
        });
        if let Some(progress) = progress {
            progress.finish().await;
        }
        reply
    }
}

fn result_of(reply: RunReply) -> CallToolResult {
    let mut content = Vec::with_capacity(1 + reply.parts.len());
    if !reply.text.is_empty() || reply.parts.is_empty() {
        content.push(ContentBlock::text(reply.text));
    }
    content.extend(reply.parts.into_iter().map(block));
    if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

fn block(part: Part) -> ContentBlock {
    match part {
        Part::Text(text) => ContentBlock::text(text),
        Part::Image { media_type, data } => ContentBlock::image(STANDARD.encode(data), media_type),
        Part::Other(json) => {
            let text = json.to_string();
            serde_json::from_value(json).unwrap_or_else(|_| ContentBlock::text(text))
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_logging().build();
        let instructions = self.service.served().instructions.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned());
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("onetool", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.tool()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == TOOL).then(|| self.tool())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != TOOL {
            let message = format!("unknown tool '{}'; the only tool is 'run'", request.name);
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let reply = match arguments.get("command").and_then(serde_json::Value::as_str) {
            Some(command) if arguments.len() == 1 => self.run(command, context).await,
            Some(_) => RunReply {
                text: "TypeError: run() takes one argument, 'command'".to_owned(),
                parts: Vec::new(),
                is_error: true,
            },
            None => RunReply {
                text: "TypeError: run() needs the argument 'command', a string of Python code\nhint: {\"command\": \"ot.help()\"}"
                    .to_owned(),
                parts: Vec::new(),
                is_error: true,
            },
        };
        Ok(result_of(reply).into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.log.set_level(&*self.service, context.peer, request.level);
        Ok(())
    }

    // The library reads a request whose parameters have the wrong form as one of an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = &request.method;
        Err(if METHODS.contains(&method.as_str()) {
            let hint = if method == "tools/call" {
                ": expected {\"name\": \"run\", \"arguments\": {\"command\": \"…\"}}"
            } else {
                ""
            };
            ErrorData::invalid_params(format!("the parameters of '{method}' do not have the right form{hint}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method '{method}'"), None)
        })
    }

    // What is not declared is not there, whatever the library would answer for us.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut tools = Resource::new("ot://tools", "tools");
        tools.description = Some("All tools, with their descriptions".to_owned());
        tools.mime_type = Some("application/json".to_owned());
        Ok(ListResourcesResult::with_all_items(vec![tools]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut tool = ResourceTemplate::new("ot://tool/{name}", "tool");
        tool.description = Some("One tool: signature, description and schema".to_owned());
        tool.mime_type = Some("application/json".to_owned());
        Ok(ListResourceTemplatesResult::with_all_items(vec![tool]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let shared = self.service.runner().toolbox().now();
        let catalog = shared.catalog();
        let json = if request.uri == "ot://tools" {
            catalog
                .tools()
                .map(|(pack, tool)| {
                    serde_json::json!({"name": format!("{}.{}", pack.name, tool.name), "description": tool.summary()})
                })
                .collect()
        } else {
            let found = request
                .uri
                .strip_prefix("ot://tool/")
                .and_then(|name| name.parse().ok())
                .and_then(|name| catalog.tool(&name).map(|tool| (name.to_string(), tool)));
            let Some((name, tool)) = found else {
                let message = format!("no resource '{}'; ot://tools lists the tools", request.uri);
                return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, message, None));
            };
            serde_json::json!({
                "name": name,
                "signature": tool.signature.render(&name),
                "description": tool.description,
                "inputSchema": tool.input_schema,
            })
        };
        let contents = ResourceContents::text(json.to_string(), request.uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}
