//! `ot.sessions` and `ot.end_session`: the sessions in which this client's runs share names.

use onetool_sandbox::{SessionInfo, SessionKey};
use onetool_sdk::{Tool, ToolError, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, dict, texts};
use crate::nearest::listed;

/// Maximum number of names shown for a session.
const SHOWN_NAMES: usize = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoInput {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EndInput {
    /// The name of the session.
    name: String,
}

pub(super) fn list(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("sessions", "List the sessions that keep names between runs.", move |_: NoInput, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.sessions"), async move {
            let open = toolbox.get()?.sessions().of(&ctx.call.owner);
            Ok(Value::List(open.into_iter().map(shown).collect()))
        })
    })
    .with_returns("list", "of each session its name, runs, age and idle time in seconds, and names")
    .with_example("ot.sessions()")
}

pub(super) fn end(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("end_session", "End a session and forget its names.", move |input: EndInput, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.end_session"), async move {
            let sessions = toolbox.get()?.sessions();
            let key = SessionKey { owner: ctx.call.owner.clone(), name: input.name };
            if sessions.end(&key) {
                return Ok(format!("OK: session '{}' ended", key.name));
            }
            let open = sessions.of(&key.owner);
            let names = open.iter().map(|session| session.name.as_str());
            Err(ToolError::raised("ValueError", format!("no session '{}' is open", key.name)).with_hint(format!(
                "open sessions: {}",
                if open.is_empty() { "none".to_owned() } else { listed(names) }
            )))
        })
    })
    .with_returns("str", "OK and the name")
    .with_example("ot.end_session(name=\"analysis\")")
}

fn shown(session: SessionInfo) -> Value {
    let seconds = |time: std::time::Duration| Value::Int(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    let more = session.names.len().saturating_sub(SHOWN_NAMES);
    let mut names = session.names;
    names.truncate(SHOWN_NAMES);
    if more > 0 {
        names.push(format!("... and {more} more"));
    }
    dict([
        ("name", Value::from(session.name)),
        ("runs", Value::Int(i64::try_from(session.runs).unwrap_or(i64::MAX))),
        ("age", seconds(session.age)),
        ("idle", session.idle.map_or(Value::None, seconds)),
        ("names", texts(names)),
    ])
}
