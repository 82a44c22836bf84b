//! Tools written in Rust: data and a function, not a decorator.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::{CallContext, Part, Signature, ToolError, ToolSpec, Value};

/// What a model is told of a tool.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Json,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolResult {
    Text(String),
    Parts(Vec<Part>),
    Json(Json),
    /// A value that JSON cannot hold.
    Value(Value),
}

impl ToolResult {
    /// Any serialisable value, as JSON.
    pub fn json(value: impl Serialize) -> Result<Self, ToolError> {
        serde_json::to_value(value).map(Self::Json).map_err(|error| ToolError::internal(error.to_string()))
    }

    pub fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::Str(text),
            Self::Json(json) => Value::from_json(json),
            Self::Value(value) => value,
            Self::Parts(parts) => Value::List(parts.into_iter().map(Value::Part).collect()),
        }
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Json> for ToolResult {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}

impl From<Value> for ToolResult {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// What a tool's function receives beside its input.
#[derive(Debug, Clone, Default)]
pub struct ToolContext {
    pub call: CallContext,
}

impl ToolContext {
    pub fn new(call: CallContext) -> Self {
        Self { call }
    }
}

type Execute =
    dyn Fn(Json, ToolContext) -> Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send>> + Send + Sync;

/// A tool: what it is called, what it takes, and the function behind it.
#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    execute: Arc<Execute>,
}

impl Tool {
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    pub fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.spec.name.clone(),
            description: self.spec.description.clone(),
            parameters: self.spec.input_schema.clone(),
        }
    }

    /// Runs the tool on arguments that are JSON already.
    pub async fn execute(&self, arguments: Json, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        (self.execute)(arguments, ctx).await
    }

    /// Adds an example call, shown in help.
    #[must_use]
    pub fn with_example(self, example: impl Into<String>) -> Self {
        self.edit(|spec| spec.example = Some(example.into()))
    }

    /// Says what the tool returns: a Python type and a sentence.
    #[must_use]
    pub fn with_returns(self, annotation: impl Into<String>, description: impl Into<String>) -> Self {
        self.edit(|spec| {
            spec.signature.returns = Some(annotation.into());
            spec.returns = Some(description.into());
        })
    }

    fn edit(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }
}

/// Makes a tool from a name, a description and an async function of a typed input.
///
/// The input's fields, in order, become the tool's parameters; its schema is checked by deserialising.
pub fn define_tool<I, R, F, Fut>(name: &str, description: &str, execute: F) -> Tool
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    R: Into<ToolResult>,
    F: Fn(I, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let generator = schemars::generate::SchemaSettings::draft07().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<I>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.entry("additionalProperties").or_insert(Json::Bool(false));
        object.remove("title");
        object.remove("$schema");
    }
    let spec = ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        signature: Signature::from_json_schema(&schema),
        input_schema: schema,
        output_schema: None,
        returns: None,
        example: None,
        checkable: true,
    };
    let execute = Arc::new(execute);
    let run: Arc<Execute> = Arc::new(move |arguments, ctx| {
        let execute = execute.clone();
        Box::pin(async move {
            let input: I =
                serde_json::from_value(arguments).map_err(|error| ToolError::arguments(error.to_string()))?;
            execute(input, ctx).await.map(Into::into)
        })
    });
    Tool { spec: Arc::new(spec), execute: run }
}
