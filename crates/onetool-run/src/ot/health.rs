//! `ot.health`: what works and what does not.
//!
//! Each problem is reported once: a server's problem by the server's line, even if its source or the configuration has
//! a note about it too.

use onetool_sdk::{HealthNote, Origin, Severity, Tool, Value, define_tool};
use onetool_state::atomic;
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{Awaited, ToolboxHandle, blocking, count, dict, texts};
use crate::{Clash, ServerStatus, ToolboxState};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("health", "Check the toolbox: version, tools, servers, problems.", move |_: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.health"), async move {
            let state = toolbox.settled(Awaited::Outcomes, &ctx.call).await?;
            blocking(move || Ok(report(&state))).await
        })
    })
    .with_returns("dict", "version, python, cwd, registry, proxy; problems and notes where there are any")
    .with_example("ot.health()")
}

fn report(state: &ToolboxState) -> Value {
    let noted: Vec<&HealthNote> = state.notes.iter().filter(|note| !tells_of_a_server(state, note)).collect();
    let broken = noted.iter().any(|note| note.severity == Severity::Error);
    let mut fields = vec![
        ("version", Value::from(super::version::VERSION)),
        ("python", state.engine.as_str().into()),
        ("cwd", Value::Str(state.folder.display().to_string())),
        (
            "registry",
            dict([
                ("status", Value::from(if broken { "degraded" } else { "ok" })),
                ("tool_count", count(state.catalog.tool_count())),
            ]),
        ),
        ("proxy", proxy(state)),
    ];
    let mut lines = Lines::default();
    for note in &noted {
        let line = format!("{}: {}", note.subject, note.message);
        if note.severity == Severity::Info { lines.note(line) } else { lines.problem(line) }
    }
    for server in &state.servers {
        if let Some(line) = server_line(server, &noted) {
            if server.state == "disabled" { lines.note(line) } else { lines.problem(line) }
        }
    }
    for clash in state.catalog.clashes() {
        // Replacing a bundle by one's own pack is intended.
        let line = clash_line(clash);
        if matches!(clash.loser, Origin::Bundle { .. }) { lines.note(line) } else { lines.problem(line) }
    }
    for line in unwritable(state) {
        lines.problem(line);
    }
    for pack in state.catalog.packs().filter(|pack| !matches!(pack.origin, Origin::Proxy { .. })) {
        if let Some(note) = &pack.note {
            lines.note(format!("pack {}: {note}", pack.name));
        }
    }
    if !lines.problems.is_empty() {
        fields.push(("problems", texts(lines.problems)));
    }
    if !lines.notes.is_empty() {
        fields.push(("notes", texts(lines.notes)));
    }
    dict(fields)
}

/// Lines to report, each once.
#[derive(Default)]
struct Lines {
    problems: Vec<String>,
    notes: Vec<String>,
}

impl Lines {
    fn problem(&mut self, line: String) {
        if !self.problems.contains(&line) {
            self.problems.push(line);
        }
    }

    fn note(&mut self, line: String) {
        if !self.problems.contains(&line) && !self.notes.contains(&line) {
            self.notes.push(line);
        }
    }
}

/// The state to show: a server that is still connecting counts as disconnected.
fn shown_state(server: &ServerStatus) -> &str {
    if server.state == "connecting" { "disconnected" } else { &server.state }
}

/// The status of the servers: a disconnected one degrades it, a disabled one does not.
fn proxy(state: &ToolboxState) -> Value {
    let is_degraded = state.servers.iter().any(|server| shown_state(server) == "disconnected");
    let servers = state.servers.iter().map(|server| (server.name.as_str(), Value::from(shown_state(server))));
    dict([
        ("status", Value::from(if is_degraded { "degraded" } else { "ok" })),
        ("server_count", count(state.servers.len())),
        ("servers", dict(servers)),
    ])
}

/// Whether a note repeats what the server's own line will say.
fn tells_of_a_server(state: &ToolboxState, note: &HealthNote) -> bool {
    let server = note.subject.strip_prefix("proxy:").and_then(|name| state.servers.iter().find(|s| s.name == name));
    server.and_then(|server| server.reason.as_deref()).is_some_and(|reason| note.message.contains(reason))
}

/// Why a server is not connected, unless another note says so.
fn server_line(server: &ServerStatus, noted: &[&HealthNote]) -> Option<String> {
    if server.state == "connected" {
        return None;
    }
    let reason = server.reason.as_deref().unwrap_or("it has not answered yet, and is still being tried");
    let is_told = noted.iter().any(|note| note.message.contains(reason) && note.message.contains(&server.name));
    (!is_told).then(|| format!("server {}: {reason}", server.name))
}

fn clash_line(clash: &Clash) -> String {
    let (winner, loser) = (clash.winner.describe(), clash.loser.describe());
    format!("pack {}: {winner} answers, {loser} is left out", clash.name)
}

/// Folders that cannot be written to; of nested folders, only the outermost.
fn unwritable(state: &ToolboxState) -> Vec<String> {
    let mut refused = Vec::new();
    let mut lines = Vec::new();
    for folder in &state.storage {
        if refused.iter().any(|outer| folder.starts_with(outer)) {
            continue;
        }
        if let Err(error) = atomic::check_writable(folder) {
            refused.push(folder);
            lines.push(format!("{} can't be written to ({error}); what belongs there is not kept", folder.display()));
        }
    }
    lines
}
