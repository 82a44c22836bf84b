//! Implements the functions of a pack: each sends one request to the server and converts its result to a value.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onetool_sdk::{Arguments, CallContext, ErrorKind, Offer, ToolError, Value};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest, CompleteRequestParams, ErrorCode,
    GetPromptRequest, GetPromptRequestParams, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use serde_json::{Map, Value as Json, json};

use super::calls::{Asks, CallLink};
use super::connection::{Failure, ListKind, Waiting};
use super::pack::ToolRoute;
use super::questions::Inputs;
use super::result::{loose_tool_value, prompt_value, resource_value, tool_value};
use super::server::Server;
use super::settings::limits;
use super::tasks;
use super::text::clean_json;

/// The HTTP status of a missing resource.
const NOT_FOUND: u16 = 404;

/// Builds a request, each time it is sent.
type RequestMaker<'a> = dyn Fn() -> ClientRequest + Send + Sync + 'a;

/// Why a request was not answered.
pub(super) enum Attempt {
    NoConnection(ToolError),
    Failed(Failure),
}

/// One call to one server.
pub(super) struct Request<'a> {
    pub(super) server: &'a Server,
    /// The name that the caller uses, for messages.
    pub(super) function: &'a str,
    pub(super) ctx: &'a CallContext,
}

impl Request<'_> {
    pub(super) async fn tool(&self, route: &ToolRoute, arguments: Arguments) -> Result<Value, ToolError> {
        let arguments = renamed(route, named(self.function, arguments)?);
        if route.is_task.load(Ordering::Relaxed) {
            return self.task(route, arguments).await;
        }
        let link = CallLink::new(self.ctx, Asks::ToolResult);
        let mut params = CallToolRequestParams::new(route.original.clone());
        params.arguments = Some(arguments);
        let mut has_opened = false;
        for _ in 0..limits::INPUT_ROUNDS {
            let request = || ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let attempt = self.try_send(&request, &link).await;
            if tasks::is_demanded(&attempt) {
                route.is_task.store(true, Ordering::Relaxed);
                return self.task(route, params.arguments.unwrap_or_default()).await;
            }
            if let Err(Attempt::Failed(Failure::Rejected(error))) = &attempt
                && !has_opened
                && self.has_opened(error, &link).await
            {
                has_opened = true;
                continue;
            }
            match attempt.map_err(|attempt| self.not_answered(attempt))? {
                ServerResult::CallToolResult(result) => return tool_value(result, route.reading),
                ServerResult::InputRequiredResult(wanted) => {
                    let inputs = self.inputs(wanted, &link).await?;
                    params.input_responses = inputs.responses;
                    params.request_state = inputs.state;
                }
                ServerResult::CreateTaskResult(created) => return self.started_task(route, created).await,
                ServerResult::CustomResult(result) => return loose_tool_value(&result.0, route.reading),
                other => {
                    let json = serde_json::to_value(other).unwrap_or_default();
                    return loose_tool_value(&json, route.reading);
                }
            }
        }
        Err(self.asked_too_often())
    }

    pub(super) async fn resources(&self) -> Result<Value, ToolError> {
        let mut items = self.list(ListKind::Resources).await?;
        items.extend(self.list(ListKind::ResourceTemplates).await?);
        Ok(shown(items, &["uri", "uriTemplate", "name", "title", "description", "mimeType", "size"]))
    }

    pub(super) async fn prompts(&self) -> Result<Value, ToolError> {
        let items = self.list(ListKind::Prompts).await?;
        Ok(shown(items, &["name", "title", "description", "arguments"]))
    }

    pub(super) async fn read(&self, arguments: Arguments) -> Result<Value, ToolError> {
        let mut arguments = named(self.function, arguments)?;
        let uri = text_argument(self.function, &mut arguments, "uri")?;
        Ok(resource_value(&self.read_resource(uri).await?))
    }

    pub(super) async fn prompt(&self, mut arguments: Arguments) -> Result<Value, ToolError> {
        // A prompt's name given by position leaves the keyword `name` to the prompt's own arguments.
        let positional = std::mem::take(&mut arguments.positional);
        let mut arguments = named(self.function, arguments)?;
        let name = match positional.as_slice() {
            [] => text_argument(self.function, &mut arguments, "name")?,
            [Value::Str(name)] => name.clone(),
            _ => return Err(ToolError::arguments(format!("{} needs the prompt's name as text", self.function))),
        };
        let mut params = GetPromptRequestParams::new(name);
        // Prompt arguments are strings.
        let arguments = arguments.into_iter().map(|(name, value)| match value {
            Json::String(_) => (name, value),
            other => (name, Json::String(other.to_string())),
        });
        params.arguments = Some(arguments.collect());
        Ok(prompt_value(&self.get_prompt(params).await?))
    }

    async fn get_prompt(&self, params: GetPromptRequestParams) -> Result<Json, ToolError> {
        let request = |inputs: &Inputs| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (inputs.responses.clone(), inputs.state.clone());
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        self.send_with_answers(&request).await
    }

    async fn read_resource(&self, uri: String) -> Result<Json, ToolError> {
        let request = |inputs: &Inputs| {
            let mut params = ReadResourceRequestParams::new(uri.clone());
            (params.input_responses, params.request_state) = (inputs.responses.clone(), inputs.state.clone());
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        self.send_with_answers(&request).await
    }

    /// Completes an argument. A server without completions returns no values.
    async fn complete(&self, params: Json) -> Result<Json, ToolError> {
        let nothing = || json!({"completion": {"values": []}});
        let connection = self.server.connection(self.ctx).await?;
        if connection.peer_info().is_none_or(|info| info.capabilities.completions.is_none()) {
            return Ok(nothing());
        }
        let params: CompleteRequestParams = serde_json::from_value(params)
            .map_err(|error| ToolError::arguments(format!("invalid parameters of completion/complete: {error}")))?;
        let request = || ClientRequest::CompleteRequest(CompleteRequest::new(params.clone()));
        let link = CallLink::new(self.ctx, Asks::Other);
        match self.try_send(&request, &link).await {
            Ok(result) => serde_json::to_value(result).map_err(|error| ToolError::internal(error.to_string())),
            Err(Attempt::Failed(Failure::Rejected(error))) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Ok(nothing())
            }
            Err(attempt) => Err(self.not_answered(attempt)),
        }
    }

    /// What the server offers besides tools, in the protocol's own form.
    pub(super) async fn offer(&self, offer: Offer) -> Result<Json, ToolError> {
        let kind = match offer {
            Offer::Prompts => ListKind::Prompts,
            Offer::Resources => ListKind::Resources,
            Offer::ResourceTemplates => ListKind::ResourceTemplates,
            Offer::Prompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(name);
                params.arguments = Some(arguments);
                return self.get_prompt(params).await;
            }
            Offer::Read { uri } => return self.read_resource(uri).await,
            Offer::Complete { params } => return self.complete(params).await,
        };
        let mut items = self.list(kind).await?;
        for text in items.iter_mut().filter_map(Json::as_object_mut).flat_map(Map::iter_mut) {
            if let ("title" | "description" | "arguments", text) = (text.0.as_str(), text.1) {
                clean_json(text, limits::DESCRIPTION_CHARS);
            }
        }
        Ok(Json::Array(items))
    }

    async fn list(&self, kind: ListKind) -> Result<Vec<Json>, ToolError> {
        let link = CallLink::new(self.ctx, Asks::Other);
        let waiting = |_| Waiting::Call { ctx: self.ctx, link: &link, timeout: self.server.settings.timeout };
        let connection = self.server.connection(self.ctx).await?;
        let items = match connection.list_items(kind, &waiting).await {
            Err(Failure::NotSent(_)) => {
                connection.abandon();
                self.server.connection(self.ctx).await?.list_items(kind, &waiting).await
            }
            items => items,
        };
        items.map_err(|failure| self.failed(failure))
    }

    pub(super) async fn send_json(&self, request: &RequestMaker<'_>, link: &Arc<CallLink>) -> Result<Json, ToolError> {
        let result = self.send(request, link).await?;
        serde_json::to_value(result).map_err(|error| ToolError::internal(error.to_string()))
    }

    /// Sends a request and waits for its result. A request that never reached the server, because it was already gone,
    /// is sent once more when the server is back; any other may have had its effect.
    pub(super) async fn send(
        &self,
        request: &RequestMaker<'_>,
        link: &Arc<CallLink>,
    ) -> Result<ServerResult, ToolError> {
        self.try_send(request, link).await.map_err(|attempt| self.not_answered(attempt))
    }

    async fn try_send(&self, request: &RequestMaker<'_>, link: &Arc<CallLink>) -> Result<ServerResult, Attempt> {
        let waiting = || Waiting::Call { ctx: self.ctx, link, timeout: self.server.settings.timeout };
        let connection = match self.server.connection(self.ctx).await {
            Err(error) if self.server.needs_sign_in() => {
                self.signed_in(error, link).await.map_err(Attempt::NoConnection)?
            }
            connection => connection.map_err(Attempt::NoConnection)?,
        };
        let result = match connection.request(request(), waiting()).await {
            Err(Failure::NotSent(_)) => {
                connection.abandon();
                let connection = self.server.connection(self.ctx).await.map_err(Attempt::NoConnection)?;
                connection.request(request(), waiting()).await
            }
            Err(Failure::Unauthorized) => {
                let error = self.failed(Failure::Unauthorized);
                let connection = self.signed_in(error, link).await.map_err(Attempt::NoConnection)?;
                connection.request(request(), waiting()).await
            }
            result => result,
        };
        if matches!(result, Ok(_) | Err(Failure::Rejected(_))) {
            self.server.answered();
        }
        result.map_err(Attempt::Failed)
    }

    fn not_answered(&self, attempt: Attempt) -> ToolError {
        match attempt {
            Attempt::NoConnection(error) => error,
            Attempt::Failed(failure) => self.failed(failure),
        }
    }

    pub(super) fn failed(&self, failure: Failure) -> ToolError {
        let (function, server) = (self.function, &self.server.settings.name);
        match failure {
            Failure::Cancelled => ToolError::new(ErrorKind::Cancelled, format!("{function} was cancelled")),
            Failure::Timeout(after) => {
                self.server.suspect();
                ToolError::new(
                    ErrorKind::Timeout,
                    format!("{function} did not answer within {:.1} s", after.as_secs_f64()),
                )
                .with_hint(format!("the timeout of the server is servers.{server}.timeout"))
            }
            Failure::Closed(reason) => {
                ToolError::unavailable(format!("the server '{server}' was lost during {function}: {reason}"))
                    .with_hint("it is being restarted; whether the call had an effect is not known")
            }
            Failure::NotSent(reason) => {
                self.server.suspect();
                ToolError::unavailable(format!("the server '{server}' can't be reached for {function}: {reason}"))
            }
            Failure::Unusable(reason) => {
                self.server.suspect();
                let message = format!("the server '{server}' gave no usable answer to {function}: {reason}");
                ToolError::new(ErrorKind::Upstream { status: None }, message)
                    .with_hint("whether the call had an effect is not known")
            }
            Failure::Unauthorized => {
                let why = self.server.oauth.as_ref().and_then(|oauth| oauth.status()).and_then(|status| status.reason);
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                ToolError::unavailable(format!("the server '{server}' needs a sign-in for {function}{why}"))
                    .with_hint(format!("run: onetool servers login {server}"))
            }
            Failure::Rejected(error) => {
                let message = self.server.redactor.show(&error.message, limits::ERROR_CHARS);
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => ErrorKind::Arguments,
                    ErrorCode::RESOURCE_NOT_FOUND => ErrorKind::Upstream { status: Some(NOT_FOUND) },
                    _ => ErrorKind::Upstream { status: None },
                };
                ToolError::new(kind, format!("{function}: {message}"))
            }
        }
    }
}

fn named(function: &str, arguments: Arguments) -> Result<Map<String, Json>, ToolError> {
    if !arguments.positional.is_empty() {
        return Err(ToolError::arguments(format!("{function} takes named arguments only")));
    }
    Ok(arguments.to_json())
}

/// Restores the original names of parameters that are not Python identifiers.
fn renamed(route: &ToolRoute, arguments: Map<String, Json>) -> Map<String, Json> {
    if route.renamed.is_empty() {
        return arguments;
    }
    arguments
        .into_iter()
        .map(|(name, value)| match route.renamed.get(&name) {
            Some(own) => (own.clone(), value),
            None => (name, value),
        })
        .collect()
}

fn text_argument(function: &str, arguments: &mut Map<String, Json>, name: &str) -> Result<String, ToolError> {
    match arguments.shift_remove(name) {
        Some(Json::String(text)) => Ok(text),
        _ => Err(ToolError::arguments(format!("{function} needs the text '{name}'"))),
    }
}

/// The chosen fields of listed items, cleaned like descriptions of tools.
fn shown(items: Vec<Json>, fields: &[&str]) -> Value {
    let items = items.into_iter().map(|item| {
        let mut kept = Map::new();
        for field in fields {
            if let Some(value) = item.get(*field).filter(|value| !value.is_null()) {
                let mut value = value.clone();
                clean_json(&mut value, limits::DESCRIPTION_CHARS);
                kept.insert((*field).to_owned(), value);
            }
        }
        Value::from_json(Json::Object(kept))
    });
    Value::List(items.collect())
}
