//! Converts Arazzo 1.0 and 1.1 workflows to sequences, as far as possible: steps that name operations of bundles,
//! parameters, payloads, outputs, retries. Jumps (`goto`, `end`) and criteria other than success are listed as
//! unexpressed.

use std::collections::HashMap;

use onetool_state::bundles::{
    BundleDraft, ErrorMode, Implementation, SequenceImplementation, SequenceStep, StepRetry, ToolDraft,
};
use serde_json::{Map, Value as Json, json};

use super::naming::{self, Slugs, shortened};
use super::openapi::operation_slug;
use super::schemas::{Direction, Standalone, follow};
use super::settings::{ARGUMENT_BYTES, DESCRIPTION_CHARS, ImportSettings};
use super::{Format, ImportOptions, Imported, ImportedTool, Unexpressed};

pub(super) fn read(document: &Json, options: &ImportOptions, settings: &ImportSettings) -> Result<Imported, String> {
    let info = document.get("info");
    let title = info.and_then(|info| info.get("title")).and_then(Json::as_str).unwrap_or_default();
    let slug = options.slug.clone().or_else(|| naming::slug(title)).ok_or("the document has no title: name a slug")?;
    let workflows = document.get("workflows").and_then(Json::as_array).ok_or("the document has no workflows")?;
    if workflows.len() > settings.max_tools {
        return Err(format!("there are more than {} workflows (imports.max_tools)", settings.max_tools));
    }
    let sources: Vec<String> = document
        .get("sourceDescriptions")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter(|source| source.get("type").is_none_or(|kind| kind == "openapi"))
        .filter_map(|source| source.get("name")?.as_str().map(str::to_owned))
        .collect();
    let mut slugs = Slugs::default();
    let mut names = HashMap::new();
    for workflow in workflows {
        if let Some(id) = workflow.get("workflowId").and_then(Json::as_str)
            && let Some(slug) = slugs.unique(id)
        {
            names.insert(id.to_owned(), slug);
        }
    }
    let (mut tools, mut unexpressed) = (Vec::new(), Vec::new());
    for workflow in workflows {
        let id = workflow.get("workflowId").and_then(Json::as_str).unwrap_or_default();
        let Some(own) = names.get(id) else {
            unexpressed.push(Unexpressed { what: "a workflow".to_owned(), reason: "it has no workflowId".to_owned() });
            continue;
        };
        let text = |key: &str| workflow.get(key).and_then(Json::as_str).unwrap_or_default();
        let mut reader = Workflow {
            document,
            sources: &sources,
            pack: slug.identifier(),
            names: &names,
            shared: workflow.get("parameters").and_then(Json::as_array).cloned().unwrap_or_default(),
            outputs: HashMap::new(),
            notes: Vec::new(),
        };
        if workflow.get("dependsOn").and_then(Json::as_array).is_some_and(|others| !others.is_empty()) {
            reader.notes.push((String::new(), "the workflows that it depends on are not called".to_owned()));
        }
        let sequence = reader.sequence(workflow);
        unexpressed
            .extend(reader.notes.into_iter().map(|(at, reason)| Unexpressed { what: format!("{id}{at}"), reason }));
        match sequence {
            Ok(sequence) => {
                let schema = inputs(document, workflow);
                let description = if text("description").is_empty() { text("summary") } else { text("description") };
                let draft = ToolDraft {
                    display_name: shortened(if text("summary").is_empty() { id } else { text("summary") }, 200),
                    description: shortened(description, DESCRIPTION_CHARS),
                    tags: Vec::new(),
                    implementation: Implementation::Sequence(Box::new(sequence)),
                    is_enabled: true,
                    arg_schema: schema,
                    output_schema: None,
                    max_calls_per_minute: None,
                    example: None,
                    translations: onetool_state::bundles::Translations::default(),
                };
                let version = naming::version(options.version.as_ref())?;
                tools.push(ImportedTool { slug: own.clone(), version, draft: draft.into() });
            }
            Err((at, reason)) => unexpressed.push(Unexpressed { what: format!("{id}{at}"), reason }),
        }
    }
    if tools.is_empty() {
        let why = unexpressed.first().map(|first| format!("; {}: {}", first.what, first.reason));
        return Err(format!("no workflow can be imported{}", why.unwrap_or_default()));
    }
    Ok(Imported {
        format: Format::Arazzo,
        bundle: BundleDraft { display_name: shortened(title, 200), ..BundleDraft::new(slug) },
        tools,
        unexpressed,
        secrets: std::collections::BTreeSet::new(),
    })
}

/// The place in the workflow, and the reason.
type Refusal = (String, String);

struct Workflow<'a> {
    document: &'a Json,
    sources: &'a [String],
    pack: String,
    names: &'a HashMap<String, onetool_state::bundles::Slug>,
    /// Parameters that apply to every step.
    shared: Vec<Json>,
    /// (step, output) → reference.
    outputs: HashMap<(String, String), String>,
    notes: Vec<Refusal>,
}

impl Workflow<'_> {
    fn sequence(&mut self, workflow: &Json) -> Result<SequenceImplementation, Refusal> {
        let top = String::new;
        for key in ["successActions", "failureActions"] {
            if workflow.get(key).and_then(Json::as_array).is_some_and(|actions| !actions.is_empty()) {
                return Err((top(), format!("its {key} can't be expressed; put a retry on the steps")));
            }
        }
        let steps = workflow.get("steps").and_then(Json::as_array);
        let steps = steps.ok_or_else(|| (top(), "it has no steps".to_owned()))?;
        // Outputs first: a step may refer to a later one.
        for step in steps {
            let id = step.get("stepId").and_then(Json::as_str).unwrap_or_default();
            for (name, expression) in step.get("outputs").and_then(Json::as_object).into_iter().flatten() {
                let reference = expression.as_str().and_then(|text| response(id, text));
                let reference = reference.ok_or_else(|| {
                    (
                        format!(" step {id}"),
                        format!("its output '{name}' ({expression}) is not a part of the response's body"),
                    )
                })?;
                self.outputs.insert((id.to_owned(), name.clone()), reference);
            }
        }
        let made = steps.iter().map(|step| self.step(step)).collect::<Result<Vec<_>, _>>()?;
        let outputs = workflow.get("outputs").and_then(Json::as_object);
        let output = match outputs {
            None => None,
            Some(outputs) => {
                let mut object = Map::new();
                for (name, value) in outputs {
                    let value = self.value(value).map_err(|reason| (format!(" output {name}"), reason))?;
                    object.insert(name.clone(), value);
                }
                Some(Json::Object(object))
            }
        };
        Ok(SequenceImplementation { timeout_ms: 60_000, max_parallel: 8, steps: made, output })
    }

    fn step(&mut self, step: &Json) -> Result<SequenceStep, Refusal> {
        let text = |key: &str| step.get(key).and_then(Json::as_str);
        let id = text("stepId").ok_or_else(|| (String::new(), "a step has no stepId".to_owned()))?.to_owned();
        let at = format!(" step {id}");
        let refuse = |reason: String| (at.clone(), reason);
        let tool = match (text("operationId"), text("workflowId")) {
            (Some(operation), _) => self.operation(operation).map_err(refuse)?,
            (None, Some(workflow)) => {
                let slug =
                    self.names.get(workflow).ok_or_else(|| refuse(format!("there is no workflow '{workflow}'")))?;
                format!("{}.{}", self.pack, slug.identifier())
            }
            (None, None) => {
                return Err(refuse("only steps with an operationId or a workflowId can be expressed".to_owned()));
            }
        };
        let mut args = Map::new();
        let own = step.get("parameters").and_then(Json::as_array).into_iter().flatten();
        // The workflow's parameters apply to every step; the step's own come last and override them.
        for parameter in self.shared.iter().chain(own) {
            let parameter =
                self.component(parameter).ok_or_else(|| refuse("a parameter refers to nothing".to_owned()))?;
            let name = parameter.get("name").and_then(Json::as_str);
            let name = name.ok_or_else(|| refuse("a parameter has no name".to_owned()))?;
            let value = parameter.get("value").unwrap_or(&Json::Null);
            args.insert(naming::argument(name), self.value(value).map_err(refuse)?);
        }
        if let Some(payload) = step.pointer("/requestBody/payload") {
            match self.value(payload).map_err(refuse)? {
                Json::Object(members) => {
                    args.extend(members.into_iter().map(|(name, value)| (naming::argument(&name), value)));
                }
                whole => drop(args.insert("body".to_owned(), whole)),
            }
        }
        if step.pointer("/requestBody/replacements").is_some() {
            return Err(refuse("replacements in its payload can't be expressed".to_owned()));
        }
        for criterion in step.get("successCriteria").and_then(Json::as_array).into_iter().flatten() {
            let condition = criterion.get("condition").and_then(Json::as_str).unwrap_or_default();
            let plain: String = condition.split_whitespace().collect();
            if !plain.starts_with("$statusCode==2") {
                self.notes.push((at.clone(), format!("the criterion '{}' is not checked", shortened(condition, 100))));
            }
        }
        if let Some(action) = step.get("onSuccess").and_then(Json::as_array).and_then(|actions| actions.first()) {
            let kind = action.get("type").and_then(Json::as_str).unwrap_or("an action");
            return Err(refuse(format!(
                "{kind} after a success can't be expressed: steps follow from what they refer to"
            )));
        }
        let retry = self.retry(step, &at).map_err(refuse)?;
        let depends_on = step.get("dependsOn").and_then(Json::as_array).into_iter().flatten();
        let depends_on = depends_on
            .filter_map(Json::as_str)
            .map(|name| name.strip_prefix("$steps.").unwrap_or(name).to_owned())
            .collect();
        Ok(SequenceStep {
            id,
            tool,
            version: None,
            args,
            condition: None,
            for_each: None,
            item_name: "item".to_owned(),
            max_parallel: None,
            max_items: None,
            depends_on,
            retry,
            error_mode: ErrorMode::Fail,
            default: None,
        })
    }

    fn retry(&mut self, step: &Json, at: &str) -> Result<Option<StepRetry>, String> {
        let mut retry = None;
        for action in step.get("onFailure").and_then(Json::as_array).into_iter().flatten() {
            let action = self.component(action).cloned().ok_or("a failure action refers to nothing")?;
            match action.get("type").and_then(Json::as_str) {
                Some("retry") => {
                    let number = |key: &str| action.get(key).and_then(Json::as_f64);
                    let mut on = Vec::new();
                    for criterion in action.get("criteria").and_then(Json::as_array).into_iter().flatten() {
                        let condition = criterion.get("condition").and_then(Json::as_str).unwrap_or_default();
                        match statuses(condition) {
                            Some(statuses) => on.extend(statuses),
                            None => self.notes.push((
                                at.to_owned(),
                                format!("the criterion '{}' of its retry is not checked", shortened(condition, 100)),
                            )),
                        }
                    }
                    if on.is_empty() {
                        on.push("any".to_owned());
                    }
                    retry = Some(StepRetry {
                        max: number("retryLimit").unwrap_or(1.0).clamp(0.0, 10.0) as u32,
                        delay_ms: (number("retryAfter").unwrap_or(1.0).clamp(0.0, 60.0) * 1000.0) as u64,
                        factor: 1.0,
                        jitter: false,
                        on,
                        allow_effects: false,
                    });
                }
                Some("end") => {}
                other => {
                    let kind = other.unwrap_or("an action");
                    return Err(format!("{kind} after a failure can't be expressed; a sequence does not jump"));
                }
            }
        }
        Ok(retry)
    }

    /// Converts `operationId` or `$sourceDescriptions.NAME.operationId` to the tool that an OpenAPI import made of it.
    fn operation(&self, operation: &str) -> Result<String, String> {
        let (source, id) = match operation.strip_prefix("$sourceDescriptions.") {
            Some(rest) => rest.split_once('.').ok_or_else(|| format!("'{operation}' names no operation"))?,
            None => match self.sources {
                [only] => (only.as_str(), operation),
                [] => return Err("the document has no source description".to_owned()),
                _ => return Err(format!("'{operation}' does not say which source it is of")),
            },
        };
        let pack = naming::slug(source).ok_or_else(|| format!("the source '{source}' gives no bundle"))?;
        let tool = operation_slug(id).ok_or_else(|| format!("'{id}' gives no tool"))?;
        Ok(format!("{}.{}", pack.identifier(), tool.identifier()))
    }

    fn component<'b>(&'b self, value: &'b Json) -> Option<&'b Json> {
        match value.get("reference").and_then(Json::as_str) {
            None => Some(value),
            Some(reference) => {
                let path = reference.strip_prefix("$components.")?;
                self.document.pointer(&format!("/components/{}", path.replace('.', "/")))
            }
        }
    }

    /// Converts the runtime expressions of a value to references.
    fn value(&self, value: &Json) -> Result<Json, String> {
        Ok(match value {
            Json::String(text) if text.starts_with('$') => Json::from(format!("${{{}}}", self.expression(text)?)),
            Json::String(text) if text.contains("{$") => Json::from(self.embedded(text)?),
            Json::String(text) => Json::from(super::curl::escaped(text)),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Json::Object(members) => {
                let member = |(key, value): (&String, &Json)| Ok((key.clone(), self.value(value)?));
                Json::Object(members.iter().map(member).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn embedded(&self, text: &str) -> Result<String, String> {
        let mut made = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{$") {
            made.push_str(&super::curl::escaped(before));
            let (expression, after) = after.split_once('}').ok_or("an expression is not closed")?;
            made.push_str(&format!("${{{}}}", self.expression(&format!("${expression}"))?));
            rest = after;
        }
        made.push_str(&super::curl::escaped(rest));
        Ok(made)
    }

    fn expression(&self, text: &str) -> Result<String, String> {
        let (plain, pointer) = text.split_once('#').map_or((text, ""), |(plain, pointer)| (plain, pointer));
        let path = path(pointer);
        if let Some(name) = plain.strip_prefix("$inputs.") {
            return Ok(format!("args{}{path}", member(name)));
        }
        if let Some(rest) = plain.strip_prefix("$steps.")
            && let Some((step, name)) = rest.split_once(".outputs.")
        {
            let (name, more) = name.split_once('.').map_or((name, ""), |(name, more)| (name, more));
            let known = self.outputs.get(&(step.to_owned(), name.to_owned()));
            let more: String = more.split('.').filter(|part| !part.is_empty()).map(member).collect();
            return match known {
                Some(reference) => Ok(format!("{reference}{more}{path}")),
                None => Err(format!("step '{step}' has no output '{name}'")),
            };
        }
        Err(format!("the expression '{}' can't be expressed", shortened(text, 100)))
    }
}

/// The schema of a workflow's inputs, self-contained.
fn inputs(document: &Json, workflow: &Json) -> Json {
    let given = workflow.get("inputs").and_then(|inputs| follow(document, inputs));
    let mut standalone = Standalone::new(document, ARGUMENT_BYTES, Direction::Request);
    let mut schema = given.map_or_else(|| json!({}), |given| standalone.convert(given, 0));
    if !schema.is_object() {
        schema = json!({});
    }
    schema["type"] = json!("object");
    let finished = standalone.finish([&mut schema]);
    if !finished.definitions.is_empty() {
        schema["$defs"] = Json::Object(finished.definitions);
    }
    schema
}

/// Parses the statuses of a condition like `$statusCode == 503 || $statusCode == 429`.
fn statuses(condition: &str) -> Option<Vec<String>> {
    let plain: String = condition.split_whitespace().collect();
    let status = |part: &str| {
        let status = part.strip_prefix("$statusCode==")?;
        (status.len() == 3 && status.chars().all(|c| c.is_ascii_digit())).then(|| status.to_owned())
    };
    plain.split("||").map(status).collect()
}

/// Converts a step's `$response.body#/a/0` to a reference to its value.
fn response(step: &str, expression: &str) -> Option<String> {
    let rest = expression.strip_prefix("$response.body")?;
    let pointer = if rest.is_empty() { "" } else { rest.strip_prefix('#')? };
    Some(format!("steps.{step}.value{}", path(pointer)))
}

/// Converts a JSON pointer to the end of a path.
fn path(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(|part| member(&part.replace("~1", "/").replace("~0", "~"))).collect()
}

fn member(name: &str) -> String {
    if !name.is_empty() && name.len() < 10 && name.chars().all(|c| c.is_ascii_digit()) {
        return format!("[{name}]");
    }
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}
