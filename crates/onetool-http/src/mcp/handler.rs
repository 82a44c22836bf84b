//! The interface for MCP clients: one tool, resources that describe all others, snippets as prompts, instructions.
#![expect(deprecated, reason = "clients of today still ask for logging and subscribe to resources")]

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use onetool_run::Shared as Tools;
use onetool_sdk::{CallContext, Caller, ClientBridge};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Icon, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, ToolAnnotations, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};

use super::changes::{self, Listening};
use super::client::{ClientPeer, ClientRoots};
use super::describe;
use super::interests::Interest;
use super::logging::ClientLog;
use super::offers::{Fetched, Wanted, retry_of};
use super::preferences::{Delivery, MAX_RESULT_KEY, ReplyPreferences};
use super::runs::{identity, is_stateless, owner, refused, requester, result_of};
use super::{Shared, keyed, prompts, resources, tasks_2025, upstream};
use crate::{Scope, Service};

/// Serves one client. Cheap to clone: all share the service.
#[derive(Clone)]
pub struct Handler {
    pub(super) service: Arc<dyn Service>,
    pub(super) shared: Arc<Shared>,
    pub(super) log: Arc<ClientLog>,
    pub(super) listening: Arc<Listening>,
    roots: Arc<ClientRoots>,
    /// Held while the client's subscriptions change.
    pub(super) interests: Arc<tokio::sync::Mutex<()>>,
}

const TOOL: &str = "run";

/// Requests that this server answers.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// The methods that revision 2026-07-28 removed.
const REMOVED: &[&str] = &["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];

/// A circle with a one in it, small enough to travel with every `initialize`.
const ICON: &str = "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2016%2016'%3E%3Ccircle%20cx='8'%20cy='8'%20r='8'%20fill='%23b7410e'/%3E%3Cpath%20d='M6%205l3-2v10'%20fill='none'%20stroke='white'%20stroke-width='2'/%3E%3C/svg%3E";

static SCHEMA: LazyLock<Arc<JsonObject>> = LazyLock::new(|| {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"command": {"type": "string", "description": "Python code"}},
        "required": ["command"]
    });
    match schema {
        serde_json::Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
});

impl Handler {
    pub(super) fn new(service: Arc<dyn Service>, shared: Arc<Shared>) -> Self {
        Self {
            service,
            shared,
            log: Arc::default(),
            listening: Arc::default(),
            roots: Arc::default(),
            interests: Arc::default(),
        }
    }

    /// Returns a handler for the same client with separate subscriptions.
    pub(super) fn with_listening(&self, listening: Arc<Listening>) -> Self {
        Self { listening, ..self.clone() }
    }

    fn tool(description: String) -> Tool {
        let mut tool = Tool::new(TOOL, Cow::Owned(description), SCHEMA.clone());
        tool.annotations = Some(ToolAnnotations::new().read_only(false).idempotent(false).open_world(true));
        tool
    }

    /// Returns the command of a call: an error for an unknown tool, a refusal as a result for invalid arguments.
    pub(super) fn command_of<'r>(
        &self,
        request: &'r CallToolRequestParams,
    ) -> Result<Result<&'r str, CallToolResult>, ErrorData> {
        if request.name != TOOL {
            let message = format!("unknown tool '{}'; the only tool is 'run'", request.name);
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
        }
        let arguments = request.arguments.as_ref();
        let command = arguments.and_then(|arguments| arguments.get("command")).and_then(serde_json::Value::as_str);
        Ok(match command {
            Some(command) if arguments.is_some_and(|arguments| arguments.len() == 1) => Ok(command),
            Some(_) => Err(refused("TypeError: run() takes one argument, 'command'")),
            None => Err(refused(
                "TypeError: run() needs the argument 'command', a string of Python code\nhint: {\"command\": \"ot.help()\"}",
            )),
        })
    }

    /// The client of a session, as tools see it.
    pub(super) fn client(&self, peer: &Peer<RoleServer>) -> Arc<dyn ClientBridge> {
        Arc::new(ClientPeer { peer: peer.clone(), roots: self.roots.clone() })
    }

    /// Returns the toolbox as the client of this request sees it.
    pub(super) fn tools(&self, context: &RequestContext<RoleServer>) -> Arc<Tools> {
        self.service.runner().toolbox().now_for(&requester(context))
    }

    /// Creates the context for a request to an upstream server on behalf of this one.
    pub(super) fn asking(&self, context: &RequestContext<RoleServer>) -> CallContext {
        let mut ctx = CallContext::new(Caller::Run);
        ctx.owner = owner(context);
        ctx.requester = requester(context);
        ctx.cancel = context.ct.child_token();
        ctx.deadline = Some(Instant::now() + self.service.served().server.api.invoke_timeout);
        if !is_stateless(context) {
            ctx.client = Some(self.client(&context.peer));
        }
        ctx
    }

    pub(super) async fn listed_tool(&self, context: &RequestContext<RoleServer>) -> Tool {
        // Read on a blocking thread: tool files may have to be read.
        let description = describe::read(self.service.clone(), requester(context)).await.unwrap_or_default();
        let mut tool = Self::tool(description);
        tool.title = Some("Run Python".to_owned());
        let limit = self.service.runner().toolbox().now().state.output.max_inline_size;
        if limit > 0 {
            let mut meta = MetaObject::default();
            meta.insert(MAX_RESULT_KEY.to_owned(), limit.into());
            tool.meta = Some(meta);
        }
        tool
    }
}

fn implementation() -> Implementation {
    let mut implementation = Implementation::new("onetool", env!("CARGO_PKG_VERSION"));
    implementation.title = Some("OneTool".to_owned());
    implementation.icons = Some(vec![Icon::new(ICON)]);
    implementation
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let instructions = describe::instructions(&*self.service);
        ServerConfig::new(capabilities).with_server_info(implementation()).with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.listed_tool(&context).await]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        // Needed in every call for its schema; only listings need the description.
        (name == TOOL).then(|| Self::tool(String::new()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let command = match self.command_of(&request)? {
            Ok(command) => command,
            Err(refusal) => return Ok(refusal.into()),
        };
        let key = keyed::idempotency_key(&context)?;
        let preferences = ReplyPreferences::of(&context);
        let is_kept = key.is_some() || request.request_state.is_some();
        let left = if is_kept { preferences } else { preferences.without_limit() };
        let delivery = Delivery::new(self, left, &context);
        if is_stateless(&context) {
            let retry = retry_of(request.request_state.clone(), request.input_responses.clone());
            let response = self.run_in_rounds(command, retry, key, context).await?;
            return Ok(delivery.response(response).await);
        }
        let served = self.service.served();
        let _under_way = served.state.is_shared().then(|| self.shared.calls.begin(&context));
        let result = match key {
            None => result_of(self.run(command, preferences.options(), context).await),
            Some(key) => self.run_keyed(command, key, context).await,
        };
        Ok(delivery.result(result).await.into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        // The log shows the activity of all users.
        if identity(&context).may(Scope::Admin) {
            let _turn = self.interests.lock().await;
            self.log.set_level(&*self.service, context.peer, request.level);
            self.keep_interest(&context.extensions, Interest::Level(request.level)).await;
        }
        Ok(())
    }

    // The library parses a request with invalid parameters as one with an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if let Some(answer) = self.answer_2025(&request, &context).await {
            return answer;
        }
        let method = tasks_2025::original(&request.method);
        let is_removed = is_stateless(&context) && REMOVED.contains(&method);
        let is_other_era = method.len() != request.method.len();
        Err(if METHODS.contains(&method) && !is_removed && !is_other_era {
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

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let tools = self.tools(&context);
        let mut all = prompts::list(&tools);
        all.extend(upstream::prompts(&tools).await);
        Ok(ListPromptsResult::with_all_items(all))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(wanted) = Wanted::prompt(&request) {
            let retry = retry_of(request.request_state, request.input_responses);
            return match self.fetch(wanted, retry, &context).await? {
                Fetched::Prompt(prompt) => Ok(prompt.into()),
                Fetched::InputRequired(needed) => Ok(needed.into()),
                Fetched::Resource(_) => Err(ErrorData::internal_error("a resource instead of a prompt", None)),
            };
        }
        prompts::get(&self.tools(&context), request).map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let tools = self.tools(&context);
        if let Some(result) = upstream::complete(&tools, &request, &self.asking(&context)).await {
            return result;
        }
        prompts::complete(&tools, &request)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut all = resources::list();
        all.extend(upstream::resources(&self.tools(&context)).await);
        Ok(ListResourcesResult::with_all_items(all))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all = resources::templates();
        all.extend(upstream::templates(&self.tools(&context)).await);
        Ok(ListResourceTemplatesResult::with_all_items(all))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(wanted) = Wanted::resource(&request) else {
            return resources::read(&self.tools(&context), &request.uri).map(Into::into);
        };
        let retry = retry_of(request.request_state, request.input_responses);
        let fetched = self.fetch(wanted, retry, &context).await.map_err(|mut error| {
            error.data.get_or_insert_with(|| serde_json::json!({}))["uri"] = request.uri.as_str().into();
            error
        })?;
        match fetched {
            Fetched::Resource(resource) => Ok(resource.into()),
            Fetched::InputRequired(needed) => Ok(needed.into()),
            Fetched::Prompt(_) => Err(ErrorData::internal_error("a prompt instead of a resource", None)),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tools = self.tools(&context);
        let upstream = upstream::watch(&tools, &request.uri).await.transpose()?;
        if upstream.is_none() {
            resources::read(&tools, &request.uri)?;
        }
        let _turn = self.interests.lock().await;
        let uri = request.uri.clone();
        let has_room = match upstream {
            Some(watch) => self.listening.watch_upstream(uri, watch),
            None => self.listening.watch(uri),
        };
        if has_room {
            self.keep_interest(&context.extensions, Interest::Watch(request.uri)).await;
            Ok(())
        } else {
            Err(ErrorData::invalid_params("too many subscriptions; end one with resources/unsubscribe", None))
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let _turn = self.interests.lock().await;
        self.listening.unwatch(&request.uri);
        self.keep_interest(&context.extensions, Interest::Unwatch(request.uri)).await;
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.listening.start(&self.shared.changes, context.peer.clone(), self.follow_interests(&context));
        self.recall_interests(&context).await;
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.roots.forget();
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&request.task_id, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.answer_task(&request.task_id, request.input_responses, &context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.end_task(&request.task_id, &context).await.map(drop)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let tools = self.tools(context.request_context());
        changes::serve(&self.shared.changes, &tools, context).await;
        Ok(())
    }
}
