//! Sequences: tools whose steps call other tools.
//!
//! A step refers to arguments and to results of other steps (`reference`). The references determine the order: steps
//! that do not depend on each other run in parallel (`execute`). Each step goes through the normal call path, with the
//! policy, validation, limits and statistics of any call.
//!
//! **Invariant:** a stored sequence never calls itself, directly or through others, and has no cycles or dangling
//! references. One that cannot run is refused when it is stored.

mod execute;
mod reference;
mod settings;
mod trace;

use std::collections::HashSet;
use std::time::Duration;

use indexmap::IndexMap;
use onetool_sdk::{QualifiedName, Value};
use onetool_state::bundles::{Bundle, ErrorMode, Neighbours, SequenceImplementation, SequenceStep, StepRetry, Tool};
use serde_json::{Map, Value as Json};

use reference::{Names, Node, Root, Scope};
pub use settings::{SEQUENCES, SequenceKeys, SequenceSettings};
pub use trace::PlannedStep;

pub(crate) use execute::Execution;

/// Maximum length of a step id.
const MAX_ID_CHARS: usize = 64;
/// Names with a special meaning in references.
const RESERVED: &[&str] = &["args", "steps", "index", "run"];

/// A sequence with parsed references and steps in order.
#[derive(Debug)]
pub(crate) struct Sequence {
    timeout: Duration,
    max_parallel: usize,
    steps: Vec<Step>,
    output: Option<Node>,
}

#[derive(Debug)]
struct Step {
    id: String,
    tool: QualifiedName,
    version: Option<String>,
    arguments: Node,
    condition: Option<Condition>,
    repeat: Option<Repeat>,
    /// The steps that must finish first.
    needs: Vec<usize>,
    retry: Option<StepRetry>,
    error_mode: ErrorMode,
    default: Json,
}

#[derive(Debug)]
struct Condition {
    wanted: bool,
    value: Node,
}

#[derive(Debug)]
struct Repeat {
    list: Node,
    max_parallel: usize,
    max_items: usize,
}

impl Sequence {
    pub(crate) fn compile(
        tool: &Tool,
        sequence: &SequenceImplementation,
        settings: &SequenceSettings,
    ) -> Result<Self, String> {
        check_bounds(sequence, settings)?;
        let ids: Vec<String> = sequence.steps.iter().map(|step| step.id.clone()).collect();
        let arguments = known_arguments(&tool.arg_schema);
        let names = Names { steps: &ids, arguments: arguments.as_deref(), item: None };
        let mut steps = Vec::with_capacity(sequence.steps.len());
        for (index, step) in sequence.steps.iter().enumerate() {
            let compiled = Step::compile(step, index, &names, settings)
                .map_err(|error| format!("impl.steps[{index}] ('{}'): {error}", step.id))?;
            steps.push(compiled);
        }
        check_cycles(&steps)?;
        let output = sequence
            .output
            .as_ref()
            .map(|output| Node::parse(output, &names))
            .transpose()
            .map_err(|error| format!("impl.output: {error}"))?;
        Ok(Self {
            timeout: Duration::from_millis(sequence.timeout_ms).min(settings.max_timeout),
            max_parallel: sequence.max_parallel.min(settings.max_parallel),
            steps,
            output,
        })
    }

    /// Shows what a call would do, as far as the arguments determine it.
    pub(crate) fn plan(&self, arguments: &IndexMap<String, Value>) -> Vec<PlannedStep> {
        let arguments = arguments_json(arguments);
        let nothing: Vec<Option<reference::StepResult>> = vec![None; self.steps.len()];
        let scope = Scope { arguments: &arguments, steps: &nothing, item: None, run_id: "" };
        let plan = |step: &Step| PlannedStep {
            id: step.id.clone(),
            tool: step.tool.to_string(),
            version: step.version.clone(),
            after: step.needs.iter().map(|need| self.steps[*need].id.clone()).collect(),
            args: step.arguments.preview(&scope),
            condition: step.condition.as_ref().map(|condition| condition.value.preview(&scope)),
            for_each: step.repeat.as_ref().map(|repeat| repeat.list.preview(&scope)),
        };
        self.steps.iter().map(plan).collect()
    }
}

/// Names of the arguments, if the schema allows no others.
fn known_arguments(schema: &Json) -> Option<Vec<String>> {
    let is_closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
    let properties = schema.get("properties").and_then(Json::as_object).filter(|_| is_closed)?;
    Some(properties.keys().cloned().collect())
}

fn arguments_json(arguments: &IndexMap<String, Value>) -> Json {
    Json::Object(arguments.iter().map(|(name, value)| (name.clone(), value.to_json())).collect::<Map<_, _>>())
}

fn check_bounds(sequence: &SequenceImplementation, settings: &SequenceSettings) -> Result<(), String> {
    let count = sequence.steps.len();
    if count == 0 {
        return Err("impl.steps: a sequence has at least one step".to_owned());
    }
    if count > settings.max_steps {
        return Err(format!("impl.steps: {count} steps; at most {} are allowed", settings.max_steps));
    }
    for (name, value) in [("timeoutMs", sequence.timeout_ms), ("maxParallel", sequence.max_parallel as u64)] {
        if value == 0 {
            return Err(format!("impl.{name}: must be at least 1"));
        }
    }
    let mut seen = HashSet::new();
    for (index, step) in sequence.steps.iter().enumerate() {
        let is_id = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if step.id.is_empty() || step.id.chars().count() > MAX_ID_CHARS || !step.id.chars().all(is_id) {
            return Err(format!(
                "impl.steps[{index}].id: 1 to {MAX_ID_CHARS} letters, digits, '_' and '-', not '{}'",
                step.id.chars().take(MAX_ID_CHARS).collect::<String>()
            ));
        }
        if !seen.insert(&step.id) {
            return Err(format!("impl.steps[{index}].id: there are two steps '{}'", step.id));
        }
    }
    Ok(())
}

impl Step {
    fn compile(
        step: &SequenceStep,
        index: usize,
        names: &Names<'_>,
        settings: &SequenceSettings,
    ) -> Result<Self, String> {
        let tool: QualifiedName = step.tool.parse().map_err(|_| {
            format!("tool: '{}' is not a tool's name; write pack.function, such as file.read", step.tool)
        })?;
        if !onetool_sdk::is_python_identifier(&step.item_name) || RESERVED.contains(&step.item_name.as_str()) {
            return Err(format!("as: '{}' can't be an item's name", step.item_name));
        }
        if step.for_each.is_none()
            && (step.max_items.is_some() || step.max_parallel.is_some() || step.item_name != "item")
        {
            return Err("as, maxItems and maxParallel need a forEach".to_owned());
        }
        if step.max_items == Some(0) || step.max_parallel == Some(0) {
            return Err("maxItems and maxParallel must be at least 1".to_owned());
        }
        check_retry(step.retry.as_ref())?;
        let inner = Names { item: step.for_each.as_ref().map(|_| step.item_name.as_str()), ..*names };
        let arguments = Node::object(&step.args, &inner).map_err(|error| format!("args: {error}"))?;
        let mut roots = Vec::new();
        arguments.roots(&mut roots);
        let condition = step.condition.as_ref().map(|value| condition(value, names)).transpose()?;
        if let Some(condition) = &condition {
            condition.value.roots(&mut roots);
        }
        let list = step.for_each.as_ref().map(|list| Node::parse(list, names)).transpose();
        let list = list.map_err(|error| format!("forEach: {error}"))?;
        if matches!(&list, Some(Node::Literal(literal)) if !literal.is_array()) {
            return Err("forEach: a list, or a reference to one, is needed".to_owned());
        }
        if let Some(list) = &list {
            list.roots(&mut roots);
        }
        let mut needs: Vec<usize> = roots
            .iter()
            .filter_map(|root| match root {
                Root::Step(step, _) => Some(*step),
                _ => None,
            })
            .collect();
        for id in &step.depends_on {
            let found = names.steps.iter().position(|step| step == id);
            needs.push(found.ok_or_else(|| format!("dependsOn: there is no step '{id}'"))?);
        }
        needs.sort_unstable();
        needs.dedup();
        if needs.contains(&index) {
            return Err("it refers to itself".to_owned());
        }
        Ok(Self {
            id: step.id.clone(),
            tool,
            version: step.version.clone(),
            arguments,
            condition,
            repeat: list.map(|list| Repeat {
                list,
                max_parallel: step.max_parallel.unwrap_or(ITEMS_AT_ONCE).min(settings.max_parallel),
                max_items: step.max_items.unwrap_or(settings.max_items).min(settings.max_items),
            }),
            needs,
            retry: step.retry.clone(),
            error_mode: step.error_mode,
            default: step.default.clone().unwrap_or_default(),
        })
    }
}

/// Default number of items that run in parallel.
const ITEMS_AT_ONCE: usize = 8;
fn condition(value: &Json, names: &Names<'_>) -> Result<Condition, String> {
    let (wanted, value) = match value.as_str().and_then(|text| text.trim().strip_prefix('!')) {
        Some(rest) => (false, Json::from(rest.trim())),
        None => (true, value.clone()),
    };
    let value = Node::parse(&value, names).map_err(|error| format!("if: {error}"))?;
    match value {
        Node::Reference(_) | Node::Literal(Json::Bool(_)) => Ok(Condition { wanted, value }),
        _ => Err("if: one reference alone, such as ${args.notify} or !${steps.find.value}".to_owned()),
    }
}

fn check_retry(retry: Option<&StepRetry>) -> Result<(), String> {
    let Some(retry) = retry else { return Ok(()) };
    if retry.max > settings::MAX_RETRIES {
        return Err(format!("retry.max: at most {}", settings::MAX_RETRIES));
    }
    if !(1.0..=10.0).contains(&retry.factor) {
        return Err("retry.factor: from 1 to 10".to_owned());
    }
    let is_status = |text: &str| {
        let digits: Vec<char> = text.chars().collect();
        matches!(digits.as_slice(), ['1'..='5', a, b] if (a.is_ascii_digit() && b.is_ascii_digit()) || (*a == 'x' && *b == 'x'))
    };
    match retry.on.iter().find(|on| !is_status(on) && !matches!(on.as_str(), "timeout" | "network" | "any")) {
        Some(other) => Err(format!("retry.on: '{other}' is not a status such as 429 or 5xx, timeout, network or any")),
        None => Ok(()),
    }
}

fn check_cycles(steps: &[Step]) -> Result<(), String> {
    let mut done = vec![false; steps.len()];
    loop {
        let ready: Vec<usize> =
            (0..steps.len()).filter(|&at| !done[at] && steps[at].needs.iter().all(|&need| done[need])).collect();
        if ready.is_empty() {
            break;
        }
        ready.into_iter().for_each(|at| done[at] = true);
    }
    let stuck: Vec<&str> = (0..steps.len()).filter(|&at| !done[at]).map(|at| steps[at].id.as_str()).collect();
    if stuck.is_empty() {
        return Ok(());
    }
    Err(format!("impl.steps: these steps wait for each other: {}", stuck.join(", ")))
}

/// Refuses a sequence that would call itself or nest too deeply.
pub(crate) fn check_nesting(
    bundle: &Bundle,
    tool: &Tool,
    sequence: &SequenceImplementation,
    neighbours: &dyn Neighbours,
    settings: &SequenceSettings,
) -> Result<(), String> {
    let own = format!("{}.{}", bundle.slug.identifier(), tool.slug.identifier());
    let mut level: Vec<(String, Option<String>, Vec<String>)> = sequence
        .steps
        .iter()
        .map(|step| (step.tool.clone(), step.version.clone(), vec![own.clone(), step.tool.clone()]))
        .collect();
    let mut seen = HashSet::new();
    let mut depth = 1;
    while !level.is_empty() {
        let mut next = Vec::new();
        for (name, version, path) in level {
            let is_own = name == own && version.as_deref().is_none_or(|version| version == tool.version.as_str());
            if is_own {
                return Err(format!("impl.steps: the sequence would call itself: {}", path.join(" → ")));
            }
            if !seen.insert((name.clone(), version.clone())) {
                continue;
            }
            for (called, version) in neighbours.calls_of(&name, version.as_deref()) {
                let mut path = path.clone();
                path.push(called.clone());
                next.push((called, version, path));
            }
        }
        if !next.is_empty() {
            depth += 1;
        }
        if depth > settings.max_depth {
            return Err(format!("impl.steps: sequences call each other more than {} deep", settings.max_depth));
        }
        level = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
