//! `ot.health`: what works and what does not.

use onetool_sdk::{Severity, Tool, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, count, dict, texts};
use crate::ToolboxState;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("health", "Check the toolbox: version, tools, servers, problems.", move |_: Input, _| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.health"), async move { toolbox.state().map(|state| report(&state)) })
    })
    .with_returns("dict", "version, python, cwd, registry, proxy; problems and notes where there are any")
    .with_example("ot.health()")
}

fn report(state: &ToolboxState) -> Value {
    let problems = problems(state);
    let mut fields = vec![
        ("version", Value::from(super::version::VERSION)),
        ("python", state.engine.as_str().into()),
        ("cwd", Value::Str(state.folder.display().to_string())),
        ("registry", registry(state)),
        ("proxy", proxy(state)),
    ];
    if !problems.is_empty() {
        fields.push(("problems", texts(problems)));
    }
    let notes = notes(state);
    if !notes.is_empty() {
        fields.push(("notes", texts(notes)));
    }
    dict(fields)
}

fn registry(state: &ToolboxState) -> Value {
    let broken = state.notes.iter().any(|note| note.severity == Severity::Error);
    dict([
        ("status", Value::from(if broken { "degraded" } else { "ok" })),
        ("tool_count", count(state.catalog.tool_count())),
    ])
}

/// A server that is switched off is nobody's fault; one that should be there and is not degrades the whole.
fn proxy(state: &ToolboxState) -> Value {
    let any = |wanted: &str| state.servers.iter().any(|server| server.state == wanted);
    let status = if any("disconnected") {
        "degraded"
    } else if any("connecting") {
        "connecting"
    } else {
        "ok"
    };
    let servers = state.servers.iter().map(|server| (server.name.as_str(), Value::from(server.state.as_str())));
    dict([("status", Value::from(status)), ("server_count", count(state.servers.len())), ("servers", dict(servers))])
}

fn problems(state: &ToolboxState) -> Vec<String> {
    let clashes = state.catalog.clashes().iter().map(|clash| {
        format!("pack {}: {} is left out, because {} has the name already", clash.name, clash.loser, clash.winner)
    });
    let servers = state
        .servers
        .iter()
        .filter(|server| server.state != "connected")
        .filter_map(|server| server.reason.as_ref().map(|reason| format!("server {}: {reason}", server.name)));
    let noted = state
        .notes
        .iter()
        .filter(|note| note.severity != Severity::Info)
        .map(|note| format!("{}: {}", note.subject, note.message));
    distinct(noted.chain(servers).chain(clashes))
}

fn notes(state: &ToolboxState) -> Vec<String> {
    let noted = state
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Info)
        .map(|note| format!("{}: {}", note.subject, note.message));
    let packs =
        state.catalog.packs().filter_map(|pack| pack.note.as_ref().map(|note| format!("pack {}: {note}", pack.name)));
    distinct(noted.chain(packs))
}

fn distinct(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        if !kept.contains(&line) {
            kept.push(line);
        }
    }
    kept
}
