//! Runs a sequence: each step starts as soon as its inputs are available, under one deadline and one trace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{SecondsFormat, Utc};
use futures_util::stream::{self, FuturesUnordered};
use futures_util::{FutureExt as _, StreamExt as _};
use indexmap::IndexMap;
use onetool_sdk::{
    Arguments, CallContext, ErrorKind, NoProgress, Progress, QualifiedName, StepTrace, ToolCaller, ToolError, Value,
};
use onetool_state::bundles::{ErrorMode, StepRetry};
use serde_json::{Map, Value as Json};
use tokio::sync::Semaphore;

use crate::reply::wanted_wait;

use super::reference::{Budget, Node, SKIPPED, Scope, StepResult, is_true};
use super::settings::{CAUSE_CHARS, LONGEST_WAIT, SequenceSettings};
use super::{Sequence, Step, arguments_json};

/// Whether calling a tool again has no further effect.
pub(crate) type Repeatable<'a> = dyn Fn(&QualifiedName, Option<&str>) -> bool + Send + Sync + 'a;

/// One call of a sequence.
pub(crate) struct Execution<'a> {
    pub(crate) sequence: &'a Sequence,
    pub(crate) settings: &'a SequenceSettings,
    pub(crate) is_repeatable: &'a Repeatable<'a>,
}

/// How to run a step that is ready.
enum Plan {
    Skip,
    One(Map<String, Json>),
    Each(Vec<Map<String, Json>>),
}

/// The outcome of a step.
struct Done {
    step: usize,
    value: Result<Json, ToolError>,
    /// The first failure that was replaced by a default.
    tolerated: Option<ToolError>,
    skipped: bool,
    attempts: u32,
    items: Option<usize>,
    started: String,
    milliseconds: f64,
    args_hash: Option<String>,
}

/// Shared by all calls of one execution.
struct Calls<'a> {
    tools: Arc<dyn ToolCaller>,
    ctx: CallContext,
    slots: Semaphore,
    is_repeatable: &'a Repeatable<'a>,
}

impl Execution<'_> {
    /// Computes the sequence's value. The trace gets an entry for each step in any case.
    pub(crate) async fn run(
        &self,
        arguments: &IndexMap<String, Value>,
        ctx: &CallContext,
        trace: &mut Vec<StepTrace>,
    ) -> Result<Json, ToolError> {
        let sequence = self.sequence;
        *trace = sequence.steps.iter().map(waiting).collect();
        if ctx.depth >= self.settings.max_depth {
            return Err(ToolError::denied(format!(
                "sequences call each other more than {} deep",
                self.settings.max_depth
            ))
            .with_hint(
                "a sequence must not call itself, not even through other tools; sequences.max_depth is the limit",
            ));
        }
        let tools = ctx.tools.clone().ok_or_else(|| ToolError::internal("this call has no way to other tools"))?;
        let until = Instant::now() + sequence.timeout;
        let mut inner = ctx.nested();
        inner.deadline = Some(ctx.deadline.map_or(until, |at| at.min(until)));
        inner.cancel = ctx.cancel.child_token();
        inner.progress = Arc::new(NoProgress);
        // Dropping this future cancels its calls.
        let _ended = inner.cancel.clone().drop_guard();
        let calls = Calls {
            tools,
            ctx: inner,
            slots: Semaphore::new(sequence.max_parallel),
            is_repeatable: self.is_repeatable,
        };
        let arguments = arguments_json(arguments);
        let mut results: Vec<Option<StepResult>> = vec![None; sequence.steps.len()];
        let mut kept = Budget::new(self.settings.max_result_bytes);
        let mut begun = vec![false; sequence.steps.len()];
        let mut running = FuturesUnordered::new();
        let mut failure: Option<(usize, ToolError)> = None;
        loop {
            if failure.is_none() {
                for (index, step) in sequence.steps.iter().enumerate() {
                    if begun[index] || !step.needs.iter().all(|&need| results[need].is_some()) {
                        continue;
                    }
                    begun[index] = true;
                    let scope = Scope { arguments: &arguments, steps: &results, item: None, run_id: &calls.ctx.run_id };
                    match self.plan(step, &scope) {
                        Ok(plan) => running.push(calls.perform(index, step, plan)),
                        Err(error) => {
                            trace[index].status = "failed".to_owned();
                            trace[index].error = Some(error.message.clone());
                            failure = Some((index, error));
                            calls.ctx.cancel.cancel();
                            break;
                        }
                    }
                }
            }
            let Some(done) = running.next().await else { break };
            let step = &sequence.steps[done.step];
            record(&mut trace[done.step], &done, calls.ctx.cancel.is_cancelled());
            let at = done.step;
            let result = match done.value {
                Ok(value) => kept.take(&value).map(|()| StepResult {
                    value,
                    error: done.tolerated.map(|error| error.message),
                    status: if done.skipped { SKIPPED } else { "done" },
                    milliseconds: done.milliseconds,
                }),
                Err(error) if step.error_mode == ErrorMode::Empty && !calls.ctx.cancel.is_cancelled() => {
                    Ok(StepResult {
                        value: step.default.clone(),
                        error: Some(error.message),
                        status: "failed",
                        milliseconds: done.milliseconds,
                    })
                }
                Err(error) => Err(error),
            };
            match result {
                Ok(result) => {
                    results[at] = Some(result);
                    let ended = results.iter().flatten().count();
                    ctx.progress.report(Progress {
                        done: ended as f64,
                        total: Some(sequence.steps.len() as f64),
                        message: Some(step.id.clone()),
                    });
                }
                Err(error) if failure.is_none() => {
                    failure = Some((at, error));
                    calls.ctx.cancel.cancel();
                }
                Err(_) => {}
            }
        }
        drop(running);
        if let Some((step, error)) = failure {
            return Err(self.failed(step, error, &results, until));
        }
        let scope = Scope { arguments: &arguments, steps: &results, item: None, run_id: &calls.ctx.run_id };
        match &sequence.output {
            Some(output) => {
                let mut budget = Budget::new(self.settings.max_result_bytes);
                Ok(output.resolve(&scope, &mut budget)?.unwrap_or(Json::Null))
            }
            None => Ok(results.pop().flatten().map(|last| last.value).unwrap_or_default()),
        }
    }

    fn plan(&self, step: &Step, scope: &Scope<'_>) -> Result<Plan, ToolError> {
        let mut budget = Budget::new(self.settings.max_result_bytes);
        if let Some(condition) = &step.condition {
            let value = condition.value.resolve(scope, &mut budget)?;
            if is_true(value.as_ref()) != condition.wanted {
                return Ok(Plan::Skip);
            }
        }
        let Some(repeat) = &step.repeat else {
            return Ok(Plan::One(object(&step.arguments, scope, &mut budget)?));
        };
        let items = match repeat.list.resolve(scope, &mut budget)? {
            Some(Json::Array(items)) => items,
            None | Some(Json::Null) => Vec::new(),
            Some(other) => {
                return Err(ToolError::raised("TypeError", format!("forEach needs a list, not {}", kind(&other))));
            }
        };
        if items.len() > repeat.max_items {
            return Err(ToolError::new(
                ErrorKind::TooLarge,
                format!("forEach over {} items; at most {} are allowed", items.len(), repeat.max_items),
            )
            .with_hint("raise maxItems of the step (and sequences.max_items), or take a part: ${…[0:100]}"));
        }
        let each = items.iter().enumerate().map(|item| {
            let scope = Scope { item: Some(item), ..*scope };
            object(&step.arguments, &scope, &mut budget)
        });
        Ok(Plan::Each(each.collect::<Result<_, _>>()?))
    }

    /// Converts a step's failure to the sequence's own: the caller did not choose the step's arguments.
    fn failed(&self, step: usize, error: ToolError, results: &[Option<StepResult>], until: Instant) -> ToolError {
        let steps = &self.sequence.steps;
        let completed: Vec<&str> = steps
            .iter()
            .zip(results)
            .filter(|(_, result)| result.is_some())
            .map(|(step, _)| step.id.as_str())
            .collect();
        let completed =
            if completed.is_empty() { String::new() } else { format!(" (completed: {})", completed.join(", ")) };
        let step = &steps[step];
        let cause: String = error.message.chars().take(CAUSE_CHARS).collect();
        let kind = match error.kind {
            ErrorKind::Arguments => ErrorKind::Raised { exception: "RuntimeError".to_owned() },
            ErrorKind::NotFound => ErrorKind::Unavailable,
            kind => kind,
        };
        let late = if kind == ErrorKind::Timeout && Instant::now() >= until {
            format!("; the whole sequence may take {} ms", self.sequence.timeout.as_millis())
        } else {
            String::new()
        };
        let message = format!("step '{}' ({}) failed: {cause}{late}{completed}", step.id, step.tool);
        // A pointer into the step's arguments or value has no meaning for the sequence.
        ToolError { kind, message, pointer: None, ..error }
    }
}

fn waiting(step: &Step) -> StepTrace {
    StepTrace {
        id: step.id.clone(),
        tool: step.tool.to_string(),
        started: None,
        ms: 0.0,
        ok: false,
        status: "waiting".to_owned(),
        attempts: 0,
        items: None,
        args_hash: None,
        error: None,
    }
}

fn record(entry: &mut StepTrace, done: &Done, is_cancelled: bool) {
    let error = done.value.as_ref().err().or(done.tolerated.as_ref());
    entry.started = Some(done.started.clone());
    entry.ms = done.milliseconds;
    entry.ok = error.is_none() && !done.skipped;
    entry.status = match error {
        _ if done.skipped => SKIPPED,
        Some(error) if is_cancelled && error.kind == ErrorKind::Cancelled => "cancelled",
        Some(_) if done.value.is_err() => "failed",
        _ => "done",
    }
    .to_owned();
    entry.attempts = done.attempts;
    entry.items = done.items;
    entry.args_hash.clone_from(&done.args_hash);
    entry.error = error.map(|error| error.message.chars().take(CAUSE_CHARS).collect());
}

fn object(node: &Node, scope: &Scope<'_>, budget: &mut Budget) -> Result<Map<String, Json>, ToolError> {
    match node.resolve(scope, budget)? {
        Some(Json::Object(members)) => Ok(members),
        _ => Ok(Map::new()),
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a truth value",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

impl Calls<'_> {
    async fn perform(&self, index: usize, step: &Step, plan: Plan) -> Done {
        let started = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let clock = Instant::now();
        let mut done = Done {
            step: index,
            value: Ok(step.default.clone()),
            tolerated: None,
            skipped: false,
            attempts: 0,
            items: None,
            started,
            milliseconds: 0.0,
            args_hash: None,
        };
        match plan {
            Plan::Skip => done.skipped = true,
            Plan::One(arguments) => {
                done.args_hash = Some(hash(&Json::Object(arguments.clone())));
                let (value, attempts) = self.call(step, arguments).await;
                done.value = value;
                done.attempts = attempts;
            }
            Plan::Each(all) => {
                done.args_hash = Some(hash(&Json::from(all.clone())));
                done.items = Some(all.len());
                self.each(step, all, &mut done).await;
            }
        }
        done.milliseconds = (clock.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        done
    }

    /// Makes one call per item; the values are in the order of the items.
    async fn each(&self, step: &Step, all: Vec<Map<String, Json>>, done: &mut Done) {
        let at_once = step.repeat.as_ref().map_or(1, |repeat| repeat.max_parallel);
        let mut values = vec![Json::Null; all.len()];
        let one = |(at, arguments)| self.call(step, arguments).map(move |(value, attempts)| (at, value, attempts));
        let mut under_way = stream::iter(all.into_iter().enumerate().map(one)).buffer_unordered(at_once);
        while let Some((at, value, attempts)) = under_way.next().await {
            done.attempts += attempts;
            match value {
                Ok(value) => values[at] = value,
                Err(error) if step.error_mode == ErrorMode::Empty && error.kind != ErrorKind::Cancelled => {
                    values[at] = step.default.clone();
                    done.tolerated.get_or_insert(error);
                }
                Err(mut error) => {
                    error.message = format!("item {at}: {}", error.message);
                    done.value = Err(error);
                    return;
                }
            }
        }
        done.value = Ok(Json::Array(values));
    }

    /// Makes a call with its retries. Returns the number of attempts as well.
    async fn call(&self, step: &Step, arguments: Map<String, Json>) -> (Result<Json, ToolError>, u32) {
        let retry = step.retry.as_ref().filter(|_| !self.ctx.single_attempt);
        let is_safe =
            |retry: &StepRetry| retry.allow_effects || (self.is_repeatable)(&step.tool, step.version.as_deref());
        let active = retry.filter(|retry| is_safe(retry));
        // The step's own retries replace the tool's, so that they do not multiply.
        let ctx = CallContext { single_attempt: self.ctx.single_attempt || active.is_some(), ..self.ctx.clone() };
        let mut attempts = 0;
        loop {
            let Ok(slot) = self.slots.acquire().await else {
                return (Err(ToolError::internal("the sequence has ended")), attempts);
            };
            attempts += 1;
            let given = Arguments::from_json(arguments.clone());
            let result = match &step.version {
                Some(version) => self.tools.call_version(&step.tool, version, given, &ctx).await,
                None => self.tools.call_tool(&step.tool, given, &ctx).await,
            };
            drop(slot);
            let error = match result {
                Ok(value) => return (Ok(value.to_json()), attempts),
                Err(error) => error,
            };
            let Some(active) = active.filter(|active| attempts <= active.max && is_passing(active, &error)) else {
                return (Err(explained(error, retry, active.is_some())), attempts);
            };
            let pause = pause(active, attempts, &error);
            if ctx.remaining().is_some_and(|left| pause >= left) {
                return (Err(error), attempts);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ctx.cancel.cancelled() => return (Err(error), attempts),
            }
        }
    }
}

/// Adds a hint on why a failed call was not retried, where a retry would be expected.
fn explained(mut error: ToolError, retry: Option<&StepRetry>, is_active: bool) -> ToolError {
    if let Some(retry) = retry
        && !is_active
        && error.hint.is_none()
        && is_passing(retry, &error)
    {
        error.hint = Some(
            "it was not retried, because calling the tool again may repeat its effect; `retry.unsafe: true` allows it"
                .to_owned(),
        );
    }
    error
}

/// Whether a failure is transient.
fn is_passing(retry: &StepRetry, error: &ToolError) -> bool {
    let has = |word: &str| retry.on.iter().any(|on| on == word);
    let has_status = |status: u16| {
        let family = format!("{}xx", status / 100);
        has(&family) || has(&status.to_string())
    };
    match &error.kind {
        ErrorKind::Cancelled | ErrorKind::Arguments | ErrorKind::Denied | ErrorKind::NotFound => false,
        _ if has("any") => true,
        ErrorKind::RateLimited { .. } => has_status(429),
        ErrorKind::Timeout => has("timeout"),
        ErrorKind::Upstream { status: Some(status) } => has_status(*status),
        ErrorKind::Upstream { status: None } | ErrorKind::Unavailable => has("network"),
        _ => false,
    }
}

fn pause(retry: &StepRetry, attempts: u32, error: &ToolError) -> Duration {
    let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
    let longest = (retry.delay_ms as f64 * retry.factor.powi(exponent)).min(LONGEST_WAIT.as_millis() as f64);
    let share = if retry.jitter {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        (random >> 11) as f64 / (1_u64 << 53) as f64
    } else {
        1.0
    };
    let own = Duration::from_secs_f64(longest * share / 1000.0);
    match (&error.kind, wanted_wait(error)) {
        (ErrorKind::RateLimited { retry_after }, _) => own.max(*retry_after),
        (_, Some(wait)) => own.max(wait),
        _ => own,
    }
}

fn hash(value: &Json) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex()[..16].to_owned()
}
