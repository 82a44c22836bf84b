//! One question to one model: the client's own, or the endpoint of the configuration.

use std::sync::OnceLock;

use http::header::{ACCEPT, AUTHORIZATION};
use onetool_sdk::{CallContext, ErrorKind, Redactor, ToolError};
use reqwest::{Client, Url};
use serde_json::{Value as Json, json};

use super::settings::{EXCERPT_CHARS, Endpoint, LlmSettings, MAX_ANSWER_BYTES, Via};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A question to a model.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) system: String,
    pub(super) messages: Vec<(Role, String)>,
    pub(super) temperature: Option<f64>,
    /// Whether the answer must be JSON.
    pub(super) wants_json: bool,
}

/// Asks models.
pub(super) struct Models {
    pub(super) settings: LlmSettings,
    client: OnceLock<Client>,
}

impl Models {
    pub(super) fn new(settings: LlmSettings) -> Self {
        Self { settings, client: OnceLock::new() }
    }

    pub(super) async fn ask(&self, question: &Question, ctx: &CallContext) -> Result<String, ToolError> {
        let size = question.system.len() + question.messages.iter().map(|(_, text)| text.len()).sum::<usize>();
        let limit = self.settings.max_input_bytes;
        if size > limit {
            return Err(ToolError::new(ErrorKind::TooLarge, format!("the input has {size} bytes, more than {limit}"))
                .with_hint("send less, in parts, or set tools.llm.max_input_kb"));
        }
        let budget = self.settings.timeout.min(ctx.remaining().unwrap_or(self.settings.timeout));
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            outcome = tokio::time::timeout(budget, self.choose(question, ctx)) => outcome.unwrap_or_else(|_| {
                Err(ToolError::new(ErrorKind::Timeout, format!("the model did not answer within {} s", budget.as_secs_f32()))
                    .with_hint("tools.llm.timeout allows more"))
            }),
        }
    }

    async fn choose(&self, question: &Question, ctx: &CallContext) -> Result<String, ToolError> {
        let settings = &self.settings;
        let refusal = match (&ctx.client, settings.via) {
            (_, Via::Endpoint) => None,
            (None, _) => Some(ToolError::unavailable("there is no client that could offer its model")),
            (Some(client), _) => match client.sample(self.sampling(question)).await {
                Ok(answer) => return text_of_sampling(&answer),
                Err(error) => Some(error),
            },
        };
        match (&settings.endpoint, settings.via, refusal) {
            (Some(endpoint), Via::Auto | Via::Endpoint, _) => self.complete(endpoint, question).await,
            (None, Via::Endpoint, _) => Err(ToolError::unavailable("tools.llm.endpoint is not set").with_hint(HINT)),
            (_, _, Some(error)) => Err(ToolError { hint: Some(HINT.to_owned()), ..error }),
            (_, _, None) => Err(ToolError::unavailable("no model can be asked").with_hint(HINT)),
        }
    }

    /// The parameters of `sampling/createMessage`.
    fn sampling(&self, question: &Question) -> Json {
        let messages: Vec<Json> = question
            .messages
            .iter()
            .map(|(role, text)| json!({"role": role.word(), "content": {"type": "text", "text": text}}))
            .collect();
        let mut params = json!({
            "messages": messages,
            "systemPrompt": question.system,
            "maxTokens": self.settings.max_tokens,
            "includeContext": "none",
        });
        if let Some(temperature) = question.temperature {
            params["temperature"] = temperature.into();
        }
        params
    }

    async fn complete(&self, endpoint: &Endpoint, question: &Question) -> Result<String, ToolError> {
        let address = format!("{}/chat/completions", endpoint.url.trim_end_matches('/'));
        let url = Url::parse(&address)
            .map_err(|error| ToolError::value_error(format!("tools.llm.endpoint is not an address: {error}")))?;
        let mut messages = vec![json!({"role": "system", "content": question.system})];
        messages.extend(question.messages.iter().map(|(role, text)| json!({"role": role.word(), "content": text})));
        let mut body = json!({
            "model": endpoint.model, "messages": messages, "max_tokens": self.settings.max_tokens, "stream": false,
        });
        if let Some(temperature) = question.temperature {
            body["temperature"] = temperature.into();
        }
        if question.wants_json {
            body["response_format"] = json!({"type": "json_object"});
        }
        let mut request = self.client()?.post(url.clone()).header(ACCEPT, "application/json").json(&body);
        if let Some(key) = &endpoint.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let host = url.host_str().unwrap_or_default();
        let unreachable = |error: reqwest::Error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            ToolError::new(
                ErrorKind::Upstream { status: None },
                format!("the model at {host} cannot be reached: {cause}"),
            )
            .with_hint("is it running? tools.llm.endpoint says where it is looked for")
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                let message = format!("the answer has more than {MAX_ANSWER_BYTES} bytes");
                return Err(ToolError::new(ErrorKind::TooLarge, message));
            }
            bytes.extend_from_slice(&chunk);
        }
        let upstream = |message: String| ToolError::new(ErrorKind::Upstream { status: Some(status.as_u16()) }, message);
        if !status.is_success() {
            // A server's error message may repeat the key.
            let redactor = Redactor::new(endpoint.key.as_deref());
            let excerpt: String = redactor.text(&String::from_utf8_lossy(&bytes)).chars().take(EXCERPT_CHARS).collect();
            return Err(upstream(format!("the model at {host} answered {status}: {excerpt}")));
        }
        let answer: Json = serde_json::from_slice(&bytes)
            .map_err(|error| upstream(format!("the model at {host} did not answer with JSON: {error}")))?;
        let text = answer.pointer("/choices/0/message/content").and_then(Json::as_str);
        text.map(str::to_owned).ok_or_else(|| upstream(format!("the answer of the model at {host} holds no text")))
    }

    fn client(&self) -> Result<&Client, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = onetool_outbound::client_builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .build()
            .map_err(|error| ToolError::internal(format!("no HTTP client: {error}")))?;
        Ok(self.client.get_or_init(|| client))
    }
}

const HINT: &str = "use a client that supports sampling, or add to onetool.yaml: \
                    tools: {llm: {endpoint: http://127.0.0.1:11434/v1, model: NAME}}";

/// The text of a sampled message, whose content is one block or several.
fn text_of_sampling(answer: &Json) -> Result<String, ToolError> {
    let content = &answer["content"];
    let blocks = content.as_array().map_or_else(|| vec![content], |blocks| blocks.iter().collect());
    let texts: Vec<&str> = blocks.into_iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() {
        return Err(ToolError::new(ErrorKind::Upstream { status: None }, "the client's answer holds no text"));
    }
    Ok(texts.join("\n"))
}
