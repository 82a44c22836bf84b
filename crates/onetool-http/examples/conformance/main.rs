//! A server with the tools, prompts and resources that the official conformance suite expects, on this crate's own
//! transport: a failure here is a fault of the transport, not of the content.
//!
//! Prints its address, like `onetool serve --http 127.0.0.1:0`; `scripts/conformance/run.sh` runs it.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot go on has failed")]
#![expect(deprecated, reason = "the suite still tests logging, sampling and roots")]

mod fixtures;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onetool_http::{ServerSettings, mcp, serve_connections};
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let changes = Changes { tools: watch::channel(0).0, prompts: watch::channel(0).0 };
    let shared = Arc::new(Shared { changes, states: Mutex::default() });
    let router =
        mcp::serve_handlers(ServerSettings::default(), address.ip(), move || Fixture { shared: shared.clone() }, &stop)
            .unwrap();
    eprintln!("listening at http://{address}");
    serve_connections(listener, router, stop).await.unwrap();
}

struct Changes {
    tools: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
}

struct Shared {
    changes: Changes,
    /// Issued states, with the tool and the round that they belong to.
    states: Mutex<HashMap<String, (String, u32)>>,
}

impl Shared {
    fn state(&self, tool: &str, round: u32) -> String {
        let state = uuid::Uuid::new_v4().to_string();
        self.states.lock().unwrap().insert(state.clone(), (tool.to_owned(), round));
        state
    }

    fn round(&self, tool: &str, state: Option<&str>) -> Result<u32, ErrorData> {
        let Some(state) = state else { return Ok(0) };
        let states = self.states.lock().unwrap();
        let found = states.get(state).filter(|(owner, _)| owner == tool);
        found.map(|(_, round)| *round).ok_or_else(|| ErrorData::invalid_params("requestState is invalid", None))
    }
}

#[derive(Clone)]
struct Fixture {
    shared: Arc<Shared>,
}

type Context = RequestContext<RoleServer>;

fn is_stateless(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= "2026-07-28")
}

fn from<T: serde::de::DeserializeOwned>(value: Json) -> T {
    serde_json::from_value(value).unwrap()
}

/// Builds a result with the `resultType` that 2026-07-28 requires; for older revisions the library omits it.
fn complete<T: serde::de::DeserializeOwned>(mut value: Json) -> T {
    value["resultType"] = json!("complete");
    from(value)
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

impl Fixture {
    async fn log(&self, context: &Context, level: LoggingLevel, message: &str) {
        if is_stateless(context) && context.meta.log_level().is_none() {
            return;
        }
        let params = LoggingMessageNotificationParam::new(level, json!(message));
        let _ = context.peer.notify_logging_message(params).await;
    }

    /// Asks the client with a server request, as in revisions before 2026-07-28.
    async fn elicit(&self, peer: &Peer<RoleServer>, params: Json) -> Result<String, ErrorData> {
        let answer = peer.create_elicitation(from(params)).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let action = serde_json::to_value(&answer.action).unwrap();
        let content = serde_json::to_value(&answer.content).unwrap();
        Ok(format!("action={}, content={content}", action.as_str().unwrap()))
    }

    /// Calls a tool that needs input: requests what is missing, or returns the result once all of it is there.
    fn rounds(&self, request: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        let round = self.shared.round(name, request.request_state.as_deref())?;
        let empty = InputResponses::new();
        let answers = request.input_responses.as_ref().unwrap_or(&empty);
        let capabilities = context.client_capabilities().unwrap_or_default();
        let steps = fixtures::rounds(name, &capabilities);
        let step = &steps[(round as usize).min(steps.len() - 1)];
        let is_answered = step.requests.iter().all(|(key, _)| answers.get(*key).is_some_and(Json::is_object));
        let next = if is_answered { round + 1 } else { round };
        let Some(wanted) = steps.get(next as usize) else { return Ok(text(fixtures::spoken(name, answers))) };
        let requests =
            wanted.requests.iter().map(|(key, request)| ((*key).to_owned(), from(request.clone()))).collect();
        let state = wanted.has_state.then(|| self.shared.state(name, next));
        Ok(InputRequiredResult::new(Some(requests), state).into())
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("fixture", "1.0.0"))
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(fixtures::tools()))
    }

    /// In 2025-11-25 the transport renames `tools/list`: the library's type of the result has no field `execution`.
    async fn on_custom_request(&self, request: CustomRequest, _: Context) -> Result<CustomResult, ErrorData> {
        if request.method.ends_with("tools/list") {
            return Ok(CustomResult::new(json!({"tools": fixtures::tools()})));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found", None))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        fixtures::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| {
            let given = request.arguments.as_ref().and_then(|all| all.get(name)).and_then(Json::as_str);
            given.unwrap_or_default().to_owned()
        };
        if let Some(content) = fixtures::content(&request.name) {
            return Ok(complete::<CallToolResult>(content).into());
        }
        Ok(match request.name.as_ref() {
            "test_tool_with_logging" | "test_logging_tool" => {
                for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    self.log(&context, LoggingLevel::Info, message).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                text("logged")
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let params = ProgressNotificationParam::new(token, done).with_total(100.0);
                        let _ = context.peer.notify_progress(params).await;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                text("done")
            }
            "test_sampling" => {
                let message = json!({"role": "user", "content": {"type": "text", "text": argument("prompt")}});
                let params = from(json!({"messages": [message], "maxTokens": 100}));
                let answer = context.peer.create_message(params).await;
                let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                let answer = serde_json::to_value(answer).unwrap();
                text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
            }
            "test_elicitation" => {
                let answer = self.elicit(&context.peer, fixtures::person(&argument("message"))).await?;
                text(format!("User response: {answer}"))
            }
            "test_elicitation_sep1034_defaults" => {
                text(format!("Elicitation completed: {}", self.elicit(&context.peer, fixtures::defaults()).await?))
            }
            "test_elicitation_sep1330_enums" => {
                text(format!("Elicitation completed: {}", self.elicit(&context.peer, fixtures::enums()).await?))
            }
            "test_missing_capability" => {
                let capabilities = context.client_capabilities().unwrap_or_default();
                if capabilities.sampling.is_none() {
                    let needed = ClientCapabilities::builder().enable_sampling().build();
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                text("capable")
            }
            "test_trigger_tool_change" => {
                self.shared.changes.tools.send_modify(|count| *count += 1);
                text("changed")
            }
            "test_trigger_prompt_change" => {
                self.shared.changes.prompts.send_modify(|count| *count += 1);
                text("changed")
            }
            "test_reconnection" => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                text("reconnected")
            }
            name if fixtures::is_in_rounds(name) => self.rounds(&request, &context)?,
            name => return Err(ErrorData::invalid_params(format!("unknown tool '{name}'"), None)),
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(fixtures::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(fixtures::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = fixtures::read(&request.uri)
            .ok_or_else(|| ErrorData::resource_not_found("Resource not found", Some(json!({"uri": request.uri}))))?;
        Ok(complete::<ReadResourceResult>(json!({"contents": [contents]})).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(fixtures::prompts()))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        let given = |name: &str| {
            let value = request.arguments.as_ref().and_then(|all| all.get(name)).and_then(Json::as_str);
            value.unwrap_or_default().to_owned()
        };
        if request.name == "test_input_required_result_prompt" {
            let answers = request.input_responses.unwrap_or_default();
            return Ok(match answers.get("user_context") {
                Some(answer) => {
                    let message = format!("Context: {}", answer["content"]["context"].as_str().unwrap_or_default());
                    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, message)]).into()
                }
                None => {
                    let question = fixtures::question("What context should the prompt use?", "context", "string");
                    InputRequiredResult::from_input_requests(InputRequests::from([(
                        "user_context".to_owned(),
                        from(question),
                    )]))
                    .into()
                }
            });
        }
        let messages = fixtures::messages(&request.name, given)
            .ok_or_else(|| ErrorData::invalid_params(format!("unknown prompt '{}'", request.name), None))?;
        Ok(complete::<GetPromptResult>(json!({"messages": messages})).into())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        let values = CompletionInfo::with_all_values(vec!["paris".to_owned(), "park".to_owned()]);
        Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
    }

    async fn set_level(&self, _: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let (mut tools, mut prompts) = (self.shared.changes.tools.subscribe(), self.shared.changes.prompts.subscribe());
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                Ok(()) = tools.changed() => { let _ = context.sink().notify_tool_list_changed().await; }
                Ok(()) = prompts.changed() => { let _ = context.sink().notify_prompt_list_changed().await; }
            }
        }
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {}
}
