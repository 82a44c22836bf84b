//! `onetool servers`: the MCP servers of the configuration.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use onetool_sdk::{CallContext, Caller, ToolSource as _};
use onetool_proxy::{ServerKind, ServerState, ServerStatus};
use serde_json::{Value as Json, json};

use super::table::{OutputArgs, Page, Tone, print_json, text_of};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool servers list
  onetool servers test github
  onetool servers accept github";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServersArgs {
    #[command(subcommand)]
    command: ServersCommand,
}

#[derive(Subcommand)]
enum ServersCommand {
    /// List the servers that are configured, without waiting for them
    #[command(after_help = "Examples:\n  onetool servers list --json")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Connect to one server, or to all, and tell what came of it
    #[command(after_help = "Examples:\n  onetool servers test\n  onetool servers test github --json")]
    Test {
        /// The server's name
        name: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Accept what a server (or one tool of it, as server.tool) looks like now
    #[command(after_help = "Examples:\n  onetool servers accept github\n  onetool servers accept github.search")]
    Accept {
        /// The server's name, or server.tool
        name: String,
    },
}

pub async fn main(args: ServersArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let app = super::start(config)?;
    let outcome = match args.command {
        ServersCommand::List { output } => list(&app, &output),
        ServersCommand::Test { name, output } => test(&app, name.as_deref(), &output).await,
        ServersCommand::Accept { name } => accept(&app, &name).await,
    };
    app.shutdown().await;
    outcome
}

fn list(app: &App, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let rows: Vec<Json> = app
        .servers()
        .status()
        .iter()
        .map(|server| {
            let enabled = server.state != ServerState::Disabled;
            row(app, server, if enabled { "enabled" } else { "disabled" })
        })
        .collect();
    show(&rows, output)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails where a server that should be there is not.
async fn test(app: &App, name: Option<&str>, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let servers = app.servers();
    let is_meant = |server: &ServerStatus| name.is_none_or(|name| server.name == name || server.pack == name);
    let meant: Vec<ServerStatus> = servers.status().into_iter().filter(is_meant).collect();
    if let (Some(name), true) = (name, meant.is_empty()) {
        let known: Vec<String> = servers.status().into_iter().map(|server| server.name).collect();
        let known =
            if known.is_empty() { "none is configured".to_owned() } else { format!("there are: {}", known.join(", ")) };
        anyhow::bail!("no server is named '{name}'; {known}");
    }
    // Each server's own timeout bounds its connection.
    let ctx = CallContext::new(Caller::Cli);
    let connecting = meant.iter().map(|server| {
        let servers = Arc::clone(&servers);
        let ctx = &ctx;
        async move {
            // The outcome shows in the status.
            let _ = servers.settle(&server.pack, ctx).await;
        }
    });
    futures_util::future::join_all(connecting).await;
    let tested: Vec<ServerStatus> = servers.status().into_iter().filter(is_meant).collect();
    let rows: Vec<Json> = tested.iter().map(|server| row(app, server, server.state.as_str())).collect();
    show(&rows, output)?;
    let is_fine = |server: &ServerStatus| match server.state {
        ServerState::Connected => true,
        // Switched off on purpose, unless it is asked for by name.
        ServerState::Disabled => name.is_none(),
        ServerState::Connecting | ServerState::Disconnected => false,
    };
    Ok(if tested.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn accept(app: &App, name: &str) -> anyhow::Result<ExitCode> {
    app.servers().accept(name).await?;
    let mut page = Page::new();
    page.put(Tone::Good, "accepted").put(Tone::Plain, &format!(": {name}")).end_line();
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

/// Addresses and commands are left out: they may hold secrets.
fn row(app: &App, server: &ServerStatus, state: &str) -> Json {
    let settings = app.settings();
    let kind = settings.servers.iter().find(|known| known.name == server.name).map(|known| match known.kind {
        ServerKind::Stdio { .. } => "stdio",
        ServerKind::Http { .. } => "http",
    });
    json!({
        "name": server.name,
        "pack": server.pack,
        "type": kind,
        "state": state,
        "tool_count": server.tool_count,
        "changed": server.changed,
        "reason": server.reason,
    })
}

fn show(servers: &[Json], output: &OutputArgs) -> anyhow::Result<()> {
    if output.is_json() {
        return print_json(&Json::Array(servers.to_vec()));
    }
    let mut page = Page::new();
    if servers.is_empty() {
        page.text("no server is configured; add one to `servers:` in .onetool/onetool.yaml");
        return page.print();
    }
    let rows: Vec<_> = servers
        .iter()
        .map(|server| {
            let changed = server["changed"].as_array().map_or(0, Vec::len);
            let remark = match (text_of(server, "reason"), changed) {
                ("", 0) => String::new(),
                ("", count) => format!("{count} changed since they were accepted; see `onetool health`"),
                (reason, _) => reason.to_owned(),
            };
            let state = text_of(server, "state");
            vec![
                (Tone::Strong, text_of(server, "name").to_owned()),
                (Tone::Plain, text_of(server, "type").to_owned()),
                (Tone::of_state(state), state.to_owned()),
                (Tone::Plain, server["tool_count"].to_string()),
                (Tone::Plain, remark),
            ]
        })
        .collect();
    page.table(&["NAME", "TYPE", "STATE", "TOOLS", "REMARK"], &rows).print()
}
