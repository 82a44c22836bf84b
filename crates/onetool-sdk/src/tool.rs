//! Tools written in Rust: data and a function, not a decorator.
//!
//! Everything between a model's raw text and the function lives here, once: parsing, validation, cancellation, panics,
//! and the conversion of failures. Validators are compiled at the first call, because a program defines far more tools
//! than it calls.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::schema::{CompiledSchema, Provider, Strip, definition_schema};
use crate::{
    Effect, ErrorKind, Parameter, ParameterKind, SchemaError, Signature, ToolContext, ToolError, ToolMessage,
    ToolResult, ToolSpec, Validator,
};

/// Maximum length of a model's raw arguments, in bytes.
pub const MAX_RAW_ARGUMENTS: usize = 8 << 20;

/// A tool as it is presented to a model.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, draft-07.
    pub parameters: Json,
}

type Execute =
    dyn Fn(Json, ToolContext) -> Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send>> + Send + Sync;

/// A tool: its name, its parameters, and its function. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    execute: Arc<Execute>,
    compiled: Arc<Compiled>,
    secrets: Arc<[String]>,
}

/// Values derived from the schema on first use.
#[derive(Default)]
struct Compiled {
    validator: OnceLock<Result<Validator, SchemaError>>,
    strip: OnceLock<Strip>,
}

impl Tool {
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn description(&self) -> &str {
        &self.spec.description
    }

    pub fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    pub fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.spec.name.clone(),
            description: self.spec.description.clone(),
            parameters: self.spec.input_schema.to_json(),
        }
    }

    /// Compiles the schema of the arguments for a provider.
    pub fn compile_for(&self, provider: Provider) -> CompiledSchema {
        crate::schema::compile_schema(&self.spec.input_schema, provider)
    }

    /// Runs the tool on parsed JSON arguments. They are validated; a panic becomes an error.
    pub async fn execute(&self, arguments: Json, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        self.validator()?.check_arguments(&arguments)?;
        let until = ctx.clone();
        let work = AssertUnwindSafe(async { (self.execute)(arguments, ctx).await }).catch_unwind();
        until
            .until_over(async {
                work.await.unwrap_or_else(|panic| {
                    let name = self.name();
                    Err(ToolError::internal(format!("the tool '{name}' panicked: {}", panic_text(&*panic))))
                })
            })
            .await
    }

    /// Runs the tool on arguments as a model wrote them: text that should be a JSON object. Empty text means no
    /// arguments, and `null` for an optional argument that cannot be null means that it is left out.
    pub async fn execute_raw(&self, raw_arguments: &str, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let arguments = self.parse(raw_arguments)?;
        self.execute(arguments, ctx).await
    }

    /// Runs the tool on raw arguments and returns the outcome as the message for the model.
    ///
    /// ```
    /// use onetool_sdk::{MessageContent, ToolContext, define_tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Input {
    ///     a: i64,
    ///     b: i64,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let add = define_tool("add", "Adds two numbers.", |input: Input, _ctx| async move {
    ///     Ok((input.a + input.b).to_string())
    /// });
    /// let message = add.answer("call_1", r#"{"a": 1, "b": 2}"#, ToolContext::default()).await;
    /// assert_eq!(message.content, MessageContent::Text("3".to_owned()));
    ///
    /// let message = add.answer("call_2", r#"{"a": 1, "c": 2}"#, ToolContext::default()).await;
    /// assert!(message.is_error);
    /// assert!(message.content.text().starts_with("Error executing tool: the arguments do not fit the schema"));
    /// # });
    /// ```
    pub async fn answer(&self, tool_call_id: &str, raw_arguments: &str, ctx: ToolContext) -> ToolMessage {
        ToolMessage::new(tool_call_id, self.name(), self.execute_raw(raw_arguments, ctx).await)
    }

    /// Adds an example call, shown in help.
    #[must_use]
    pub fn with_example(self, example: impl Into<String>) -> Self {
        self.edit(|spec| spec.example = Some(example.into()))
    }

    /// Sets the return type (a Python type) and its description.
    #[must_use]
    pub fn with_returns(self, annotation: impl Into<String>, description: impl Into<String>) -> Self {
        self.edit(|spec| {
            spec.signature.returns = Some(annotation.into());
            spec.returns = Some(description.into());
        })
    }

    /// Sets the side effects of a call.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        self.edit(|spec| spec.effect = effect)
    }

    /// Declares that a call changes nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.with_effect(Effect::ReadOnly)
    }

    /// Declares the secrets that a call uses.
    #[must_use]
    pub fn with_secrets(self, secrets: impl IntoIterator<Item = String>) -> Self {
        Self { secrets: secrets.into_iter().collect(), ..self }
    }

    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    fn edit(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }

    fn validator(&self) -> Result<&Validator, ToolError> {
        let validator = self.compiled.validator.get_or_init(|| Validator::draft07(&self.spec.input_schema));
        validator.as_ref().map_err(|error| error.clone().into())
    }

    fn parse(&self, raw: &str) -> Result<Json, ToolError> {
        if raw.len() > MAX_RAW_ARGUMENTS {
            let message = format!("the arguments are {} bytes long, more than {MAX_RAW_ARGUMENTS}", raw.len());
            return Err(ToolError::new(ErrorKind::TooLarge, message));
        }
        if raw.trim().is_empty() {
            return Ok(Json::Object(Map::new()));
        }
        let arguments: Json = serde_json::from_str(raw).map_err(|error| {
            ToolError::arguments(format!("the arguments are not JSON: {error}"))
                .with_hint("send one JSON object, with every key and text in double quotes")
        })?;
        if !has_null(&arguments) {
            return Ok(arguments);
        }
        let strip = self.compiled.strip.get_or_init(|| Strip::new(&self.spec.input_schema));
        Ok(strip.apply(arguments))
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

fn has_null(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.iter().any(has_null),
        Json::Object(object) => object.values().any(has_null),
        _ => false,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// Creates a tool from a name, a description and an async function with a typed input.
///
/// The input's fields, in order, become the tool's parameters. Unknown keys are refused, at every level.
pub fn define_tool<I, R, F, Fut>(name: &str, description: &str, execute: F) -> Tool
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    R: Into<ToolResult>,
    F: Fn(I, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let execute = Arc::new(execute);
    tool(name, description, definition_schema::<I>(), move |arguments, ctx| {
        let execute = execute.clone();
        Box::pin(async move { execute(read_input(arguments)?, ctx).await.map(Into::into) })
    })
}

/// Creates a tool from a synchronous function. It runs on the caller's task, so it must be quick.
///
/// ```
/// use onetool_sdk::define_sync_tool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Input {
///     /// The text to turn round.
///     text: String,
/// }
///
/// let reverse = define_sync_tool("reverse", "Turns text round.", |input: Input, _ctx| {
///     Ok(input.text.chars().rev().collect::<String>())
/// });
/// assert_eq!(reverse.spec().signature.render("text.reverse"), "text.reverse(text: str)");
/// ```
pub fn define_sync_tool<I, R, F>(name: &str, description: &str, execute: F) -> Tool
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    R: Into<ToolResult>,
    F: Fn(I, &ToolContext) -> Result<R, ToolError> + Send + Sync + 'static,
{
    let execute = Arc::new(execute);
    tool(name, description, definition_schema::<I>(), move |arguments, ctx| {
        let execute = execute.clone();
        Box::pin(async move { execute(read_input(arguments)?, &ctx).map(Into::into) })
    })
}

fn tool(
    name: &str,
    description: &str,
    schema: Json,
    execute: impl Fn(Json, ToolContext) -> Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send>>
    + Send
    + Sync
    + 'static,
) -> Tool {
    let mut signature = Signature::from_json_schema(&schema);
    // An input with a flattened map accepts additional arguments.
    if schema.get("additionalProperties").is_some_and(|more| more.is_object() || more.as_bool() == Some(true)) {
        signature.parameters.push(Parameter {
            name: "kwargs".to_owned(),
            kind: ParameterKind::VarKeyword,
            annotation: None,
            default: None,
            required: false,
            description: None,
        });
    }
    let spec = ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        signature,
        input_schema: schema.into(),
        output_schema: None,
        returns: None,
        example: None,
        checkable: true,
        effect: Effect::default(),
    };
    Tool { spec: Arc::new(spec), execute: Arc::new(execute), compiled: Arc::default(), secrets: Arc::default() }
}

/// Arguments that pass the schema may still be rejected by the type itself, for example a number out of range.
fn read_input<I: DeserializeOwned>(arguments: Json) -> Result<I, ToolError> {
    let refused = |error: serde_json::Error| ToolError::arguments(format!("the arguments do not fit: {error}"));
    if !has_whole_float(&arguments) {
        return serde_json::from_value(arguments).map_err(refused);
    }
    // `3.0` is an integer in JSON Schema, but not for a Rust integer.
    I::deserialize(&arguments)
        .or_else(|error| serde_json::from_value(with_whole_numbers(arguments)).map_err(|_| refused(error)))
}

/// Above this, a float can no longer represent every integer.
const MAX_WHOLE_FLOAT: f64 = 9_007_199_254_740_992.0;

fn whole(number: &serde_json::Number) -> Option<i64> {
    let value = number.as_f64().filter(|_| number.is_f64())?;
    (value.fract() == 0.0 && value.abs() <= MAX_WHOLE_FLOAT).then_some(value as i64)
}

fn has_whole_float(value: &Json) -> bool {
    match value {
        Json::Number(number) => whole(number).is_some(),
        Json::Array(items) => items.iter().any(has_whole_float),
        Json::Object(object) => object.values().any(has_whole_float),
        _ => false,
    }
}

fn with_whole_numbers(value: Json) -> Json {
    match value {
        Json::Number(number) => whole(&number).map_or(Json::Number(number), Json::from),
        Json::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Json::Object(object) => {
            object.into_iter().map(|(key, value)| (key, with_whole_numbers(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::CallContext;

    #[derive(Deserialize, JsonSchema)]
    struct Input {
        query: String,
        /// How many.
        #[serde(default = "ten")]
        count: u8,
        #[serde(default)]
        note: Option<String>,
    }

    fn ten() -> u8 {
        10
    }

    fn echo() -> Tool {
        define_tool(
            "echo",
            "Echoes.",
            |input: Input, _| async move { Ok(json!([input.query, input.count, input.note])) },
        )
    }

    async fn said(tool: &Tool, raw: &str) -> String {
        let message = tool.answer("c", raw, ToolContext::default()).await;
        format!("{}{}", if message.is_error { "! " } else { "" }, message.content.text())
    }

    #[tokio::test]
    async fn raw_arguments_are_parsed_validated_and_answered() {
        let echo = echo();
        assert_eq!(said(&echo, r#"{"query": "a", "note": "b"}"#).await, r#"["a",10,"b"]"#);
        assert_eq!(said(&echo, r#"{"query": "a", "count": null, "note": null}"#).await, r#"["a",10,null]"#);
        assert_eq!(said(&echo, r#"{"query": "a", "count": 3.0}"#).await, r#"["a",3,null]"#);
        assert!(
            said(&echo, r#"{"query": "a", "count": 3.5}"#).await.contains("/count: expected integer, got number 3.5")
        );
        assert_eq!(
            said(&echo, "").await,
            "! Error executing tool: the arguments do not fit the schema: /query: expected a value, for it is required, \
             got nothing"
        );
        assert_eq!(
            said(&echo, r#"{"query": null}"#).await,
            "! Error executing tool: the arguments do not fit the schema: /query: expected string, got null"
        );
        assert!(said(&echo, r#"{"query": "a", "count": 300}"#).await.contains("/count: expected at most 255"));
        assert!(said(&echo, "{query: 1}").await.contains("not JSON: key must be a string at line 1 column 2"));
        assert!(said(&echo, "[]").await.contains("(root): expected object"));
        assert!(said(&echo, &" ".repeat(MAX_RAW_ARGUMENTS + 1)).await.contains("bytes long"));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_message_before_and_after_waiting() {
        let early = define_tool("early", "", |_: Input, _| {
            assert!(std::hint::black_box(false), "too early");
            std::future::ready(Ok("never"))
        });
        let late = define_tool("late", "", |input: Input, _| async move {
            tokio::task::yield_now().await;
            assert!(input.query.is_empty(), "too {}", input.query);
            Ok("never")
        });
        let raw = r#"{"query": "late"}"#;
        assert_eq!(said(&early, raw).await, "! Error executing tool: the tool 'early' panicked: too early");
        assert_eq!(said(&late, raw).await, "! Error executing tool: the tool 'late' panicked: too late");
    }

    #[tokio::test]
    async fn cancellation_drops_the_running_tool() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = dropped.clone();
        let started = Arc::new(tokio::sync::Notify::new());
        let tell = started.clone();
        let slow = define_tool("slow", "", move |_: Input, _| {
            let (flag, tell) = (Flag(flag.clone()), tell.clone());
            async move {
                tell.notify_one();
                std::future::pending::<()>().await;
                drop(flag);
                Ok("never")
            }
        });
        let call = CallContext::default();
        let cancel = call.cancel.clone();
        let (message, ()) = tokio::join!(slow.answer("c", r#"{"query": "a"}"#, ToolContext::new(call)), async {
            started.notified().await;
            cancel.cancel();
        });
        assert_eq!(message.content.text(), "Error executing tool: the call was cancelled");
        assert!(dropped.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_sync_function_is_a_tool_too() {
        let tool = define_sync_tool("up", "", |input: Input, ctx| {
            ctx.check_cancelled()?;
            Ok(input.query.to_uppercase())
        });
        assert_eq!(said(&tool, r#"{"query": "a"}"#).await, "A");
    }

    #[test]
    fn the_definition_is_draft_07_and_closed() {
        let definition = echo().definition();
        assert_eq!(definition.name, "echo");
        assert_eq!(
            definition.parameters,
            json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "count": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "default": 10,
                              "description": "How many."},
                    "note": {"type": ["string", "null"], "default": null}
                },
                "required": ["query"],
                "additionalProperties": false
            })
        );
    }

    #[test]
    fn defining_a_tool_compiles_no_validator() {
        let tool = echo();
        assert!(tool.compiled.validator.get().is_none() && tool.compiled.strip.get().is_none());
    }
}
