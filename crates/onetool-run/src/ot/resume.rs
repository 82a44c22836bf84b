//! `ot.resume(id)`: the result of a run that waited for a permission, was interrupted, or continued elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, ErrorKind, Tool, ToolContext, ToolError, Value, define_tool};
use onetool_state::runs::{Owner, RunId, RunRecord, RunStatus, RunStore, RunStoreError, Taken};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::ToolboxHandle;
use super::span::observed;
use crate::durable::{Durable, End, Unknown, reply};
use crate::runner::{RunReply, Runner};

/// Poll interval for a run that another process executes.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The run's id, as its reply said.
    id: String,
    /// Of a run that was interrupted: what becomes of calls of which nobody knows whether they took place. `repeat` makes
    /// them again, `raise` gives the code an error in their place, `abandon` gives the run up.
    #[serde(default)]
    unknown: Choice,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Choice {
    #[default]
    Repeat,
    Raise,
    Abandon,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool(
        "resume",
        "Get the result of a run that waited for a permission, was interrupted, or went on elsewhere.",
        move |input: Input, ctx: ToolContext| {
            let toolbox = toolbox.clone();
            observed(info_span!("ot.resume"), async move {
                let runner = toolbox.get()?.runner().filter(|runner| runner.durable().is_some());
                let runner = runner.ok_or_else(|| ToolError::unavailable("runs are not kept here"))?;
                resume(&runner, &input, &ctx.call).await
            })
        },
    )
    .with_returns("str", "what the run returned")
    .with_example("ot.resume('0191c2…')")
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunStoreError> + Send + 'static,
) -> Result<T, ToolError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.map_err(|error| ToolError::internal(error.to_string()))?.map_err(refused)
}

fn refused(error: RunStoreError) -> ToolError {
    let kind = match error {
        RunStoreError::NotFound => ErrorKind::Raised { exception: "KeyError".to_owned() },
        RunStoreError::NotInterrupted(_) | RunStoreError::Lost => ErrorKind::Conflict,
        _ => ErrorKind::Unavailable,
    };
    let text = error.to_string();
    match onetool_sdk::split_hint(&text) {
        (message, Some(hint)) => ToolError::new(kind, message).with_hint(hint),
        (message, None) => ToolError::new(kind, message),
    }
}

async fn resume(runner: &Runner, input: &Input, ctx: &CallContext) -> Result<Value, ToolError> {
    let durable = runner.durable().ok_or_else(|| ToolError::unavailable("runs are not kept here"))?.clone();
    let id: RunId = input.id.trim().parse().map_err(refused)?;
    let (of, calling) = (durable.clone(), ctx.clone());
    let owner = blocking(move || of.owner_of(&calling)).await?;
    if *id.as_str() == *ctx.run_id {
        return Err(ToolError::value_error("a run cannot wait for itself"));
    }
    loop {
        let (store, asked) = (durable.runs(), Instant::now());
        let (record, taken) = look(store, &owner, &id).await?;
        match (record.status, taken) {
            (_, Some(taken)) => return go_on(runner, &durable, &taken, asked, ctx).await,
            (RunStatus::Interrupted, None) => {
                let unknown = match input.unknown {
                    Choice::Repeat => Unknown::Repeat,
                    Choice::Raise => Unknown::Raise,
                    Choice::Abandon => {
                        let (store, owner, id) = (durable.runs(), owner.clone(), id.clone());
                        blocking(move || store.abandon(&owner, &id)).await?;
                        return Ok(Value::Str(format!("the run {} was given up", record.id)));
                    }
                };
                let taken = durable.reopen(&owner, &id, unknown).await.map_err(refused)?;
                return go_on(runner, &durable, &taken, asked, ctx).await;
            }
            (RunStatus::Suspended, None) => {
                let what = record.message.unwrap_or_default();
                let approval = record.approval.unwrap_or_default();
                return Err(ToolError::denied(format!("the run still {what}")).with_hint(format!(
                    "ask the user to approve it: onetool approve {approval}, or on the admin page"
                )));
            }
            (RunStatus::Cancelled, None) => {
                let why = record.message.unwrap_or_default();
                return Err(ToolError::new(ErrorKind::Conflict, format!("the run has no result: {why}")));
            }
            (status, None) if status.is_final() => {
                let (store, owner, id) = (durable.runs(), owner.clone(), id.clone());
                let kept = blocking(move || store.reply(&owner, &id)).await?;
                let kept = kept.and_then(|bytes| reply::read(&bytes));
                return kept.map_or_else(|| Err(refused(RunStoreError::NotFound)), given);
            }
            // Another process executes it, or is about to.
            _ => tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = ctx.cancel.cancelled() => {
                    return Err(ToolError::new(ErrorKind::Cancelled, "the wait was cancelled; the run goes on"));
                }
            },
        }
    }
}

/// Reads the state of a run, and claims it if it is queued.
async fn look(store: RunStore, owner: &Owner, id: &RunId) -> Result<(RunRecord, Option<Taken>), ToolError> {
    let (owner, id) = (owner.clone(), id.clone());
    blocking(move || {
        let record = store.get(&owner, &id)?;
        let taken = match record.status {
            RunStatus::Queued => store.take(&owner, &id)?,
            _ => None,
        };
        Ok((record, taken))
    })
    .await
}

async fn go_on(
    runner: &Runner,
    durable: &Arc<Durable>,
    taken: &Taken,
    asked: Instant,
    ctx: &CallContext,
) -> Result<Value, ToolError> {
    let (client, progress, depth) = (ctx.client.clone(), ctx.progress.clone(), ctx.depth + 1);
    let cancel = ctx.cancel.clone();
    let end = Box::pin(durable.execute(runner, taken, asked, move |run| {
        run.client = client;
        run.progress = progress;
        run.depth = depth;
        run.cancel = cancel;
    }))
    .await;
    match end {
        End::Finished(reply) | End::Suspended(reply) | End::Interrupted(reply) => given(reply),
        End::Lost => Err(ToolError::unavailable("another server continues the run; ask again")),
    }
}

/// Converts a reply to a value, or to the error it reports.
fn given(reply: RunReply) -> Result<Value, ToolError> {
    if reply.is_error {
        let (kind, message) = reply.text.split_once(": ").unwrap_or(("RuntimeError", &reply.text));
        let is_name = kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !kind.is_empty();
        return Err(if is_name {
            ToolError::raised(kind, message)
        } else {
            ToolError::raised("RuntimeError", reply.text.as_str())
        });
    }
    if reply.parts.is_empty() {
        return Ok(Value::Str(reply.text));
    }
    let text = (!reply.text.is_empty()).then_some(Value::Str(reply.text));
    Ok(Value::List(text.into_iter().chain(reply.parts.into_iter().map(Value::Part)).collect()))
}
