//! `onetool servers`: the MCP servers of the configuration.

mod edit;
mod login;

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use onetool_proxy::{ProxySource, ServerKind, ServerState, ServerStatus};
use onetool_sdk::{CallContext, Caller};
use serde_json::{Value as Json, json};

use super::Location;
use super::table::{OutputArgs, Page, Tone, print_json, text_of};
use crate::assemble::App;

/// When a slow server is reported first, and the interval after which it is reported again.
const TOLD_FIRST: Duration = Duration::from_secs(1);
const TOLD_AGAIN: Duration = Duration::from_secs(5);

const NO_SERVER_HINT: &str = "hint: `onetool servers add` adds one, `onetool import` brings those of other clients";

const EXAMPLES: &str = "\
Examples:
  onetool servers list
  onetool servers add time -- uvx mcp-server-time
  onetool servers test github
  onetool servers login linear
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
    /// Connect to one server, or to all, and report the outcome
    #[command(
        after_help = "The first start of a server may have to download it, so npx, uvx and the like are tried until --wait is over.\n\nExamples:\n  onetool servers test\n  onetool servers test github --json"
    )]
    Test {
        /// The server's name
        name: Option<String>,
        /// Seconds that a server may take that a package runner starts
        #[arg(long, value_name = "SECONDS", default_value_t = 180)]
        wait: u64,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Add a server to the configuration
    #[command(
        after_help = "Examples:\n  onetool servers add time -- uvx mcp-server-time\n  onetool servers add remote --url https://example.org/mcp --header Authorization=TOKEN"
    )]
    Add(edit::AddArgs),
    /// Remove a server from the configuration
    #[command(after_help = "Examples:\n  onetool servers remove time")]
    Remove {
        /// The server's name
        name: String,
    },
    /// Enable a server
    #[command(after_help = "Examples:\n  onetool servers enable time")]
    Enable {
        /// The server's name
        name: String,
    },
    /// Disable a server, without removing it
    #[command(after_help = "Examples:\n  onetool servers disable time")]
    Disable {
        /// The server's name
        name: String,
    },
    /// Sign in to a server that requires it (OAuth)
    #[command(
        after_help = "The browser returns to OneTool after the sign-in. If it cannot, because it runs on another\nmachine, paste the address that it ends at, or the code in that address.\n\nExamples:\n  onetool servers login linear\n  onetool servers login linear --no-browser"
    )]
    Login(login::LoginArgs),
    /// Sign out of a server
    #[command(after_help = "Examples:\n  onetool servers logout linear")]
    Logout {
        /// The server's name
        name: String,
    },
    /// Accept the current descriptions of a server, or of one of its tools as server.tool
    #[command(after_help = "Examples:\n  onetool servers accept github\n  onetool servers accept github.search")]
    Accept {
        /// The server's name, or server.tool
        name: String,
    },
}

pub async fn main(args: ServersArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    let command = match args.command {
        ServersCommand::Add(args) => return edit::add(args, &places),
        ServersCommand::Remove { name } => return edit::remove(&name, &places),
        ServersCommand::Enable { name } => return edit::switch(&name, true, &places),
        ServersCommand::Disable { name } => return edit::switch(&name, false, &places),
        other => other,
    };
    let app = super::start_at(places)?;
    let outcome = match command {
        ServersCommand::List { output } => list(&app, &output).await,
        ServersCommand::Login(args) => login::login(&app, &args).await,
        ServersCommand::Logout { name } => login::logout(&app, &name).await,
        ServersCommand::Test { name, wait, output } => {
            test(&app, name.as_deref(), Duration::from_secs(wait), &output).await
        }
        ServersCommand::Accept { name } => accept(&app, &name).await,
        ServersCommand::Add(_)
        | ServersCommand::Remove { .. }
        | ServersCommand::Enable { .. }
        | ServersCommand::Disable { .. } => Ok(ExitCode::SUCCESS),
    };
    app.shutdown().await;
    outcome
}

async fn list(app: &App, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    app.servers().look_at_sign_ins().await;
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

/// Fails if an expected server is not connected.
async fn test(app: &App, name: Option<&str>, wait: Duration, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let servers = app.servers();
    let is_meant = |server: &ServerStatus| name.is_none_or(|name| server.name == name || server.pack == name);
    let meant: Vec<ServerStatus> = servers.status().into_iter().filter(is_meant).collect();
    if let (Some(name), true) = (name, meant.is_empty()) {
        let known: Vec<String> = servers.status().into_iter().map(|server| server.name).collect();
        if known.is_empty() {
            anyhow::bail!("no server is named '{name}'; none is configured\n{NO_SERVER_HINT}");
        }
        anyhow::bail!("no server is named '{name}'; there are: {}", known.join(", "));
    }
    // Each server's own timeout bounds an attempt to connect.
    let ctx = CallContext::new(Caller::Cli);
    let until = Instant::now() + wait;
    let connecting = meant.iter().map(|server| {
        let servers = Arc::clone(&servers);
        let (ctx, may_download) = (&ctx, is_package_runner(app, &server.name));
        async move {
            // The result is in the status.
            while servers.try_now(&server.pack, ctx).await.is_err() {
                let was_slow = servers.status().iter().any(|now| now.pack == server.pack && now.hung);
                if !(was_slow && may_download && Instant::now() < until) {
                    return;
                }
                eprintln!("{}: not ready yet; the first start may be a download, so it is tried again", server.name);
            }
        }
    });
    tokio::select! {
        _ = futures_util::future::join_all(connecting) => {}
        never = tell_what_is_awaited(&servers, &is_meant) => match never {},
    }
    let tested: Vec<ServerStatus> = servers.status().into_iter().filter(is_meant).collect();
    let rows: Vec<Json> = tested.iter().map(|server| row(app, server, server.state.as_str())).collect();
    show(&rows, output)?;
    let is_fine = |server: &ServerStatus| match server.state {
        ServerState::Connected => true,
        // Disabled on purpose, unless it is named explicitly.
        ServerState::Disabled => name.is_none(),
        ServerState::Connecting | ServerState::Disconnected => false,
    };
    Ok(if tested.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Programs that download a server before they start it.
const PACKAGE_RUNNERS: &[&str] =
    &["npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman"];

fn is_package_runner(app: &App, server: &str) -> bool {
    let settings = app.settings();
    let known = settings.servers.iter().find(|known| known.name == server);
    known.is_some_and(|known| match &known.kind {
        ServerKind::Stdio { command, .. } => Path::new(command)
            .file_stem()
            .is_some_and(|program| PACKAGE_RUNNERS.iter().any(|runner| program.eq_ignore_ascii_case(runner))),
        ServerKind::Http { .. } => false,
    })
}

/// Prints to standard error which slow servers are being waited for, and until when.
pub(super) async fn tell_what_is_awaited(
    servers: &ProxySource,
    is_meant: &(dyn Fn(&ServerStatus) -> bool + Sync),
) -> Infallible {
    let mut told: HashMap<String, (String, Duration)> = HashMap::new();
    loop {
        tokio::time::sleep(TOLD_FIRST).await;
        for server in servers.status().into_iter().filter(|server| is_meant(server)) {
            let Some(wait) = server.wait else { continue };
            let is_old = |(what, at): &(String, Duration)| *what == wait.what && wait.elapsed < *at + TOLD_AGAIN;
            if told.get(&server.name).is_some_and(is_old) {
                continue;
            }
            let (elapsed, limit) = (wait.elapsed.as_secs(), wait.limit.as_secs_f64());
            eprintln!("{}: waiting for the {} ({elapsed} s so far, at most {limit} s)", server.name, wait.what);
            told.insert(server.name, (wait.what, wait.elapsed));
        }
    }
}

async fn accept(app: &App, name: &str) -> anyhow::Result<ExitCode> {
    app.servers().accept(name).await?;
    let mut page = Page::new();
    page.put(Tone::Good, "accepted").put(Tone::Plain, &format!(": {name}")).end_line();
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

/// Addresses and commands are left out: they may contain secrets.
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
        "auth": server.auth.as_ref().map(|auth| json!({
            "state": auth.state.as_str(),
            "reason": auth.reason,
            "expires_in": auth.expires_in,
        })),
    })
}

fn sign_in_remark(auth: &Json) -> String {
    match (text_of(auth, "state"), auth["expires_in"].as_u64()) {
        ("", _) => String::new(),
        (state, Some(seconds)) => format!("{state}, expires in {seconds} s"),
        (state, None) => state.to_owned(),
    }
}

fn show(servers: &[Json], output: &OutputArgs) -> anyhow::Result<()> {
    if output.is_json() {
        return print_json(&Json::Array(servers.to_vec()));
    }
    let mut page = Page::new();
    if servers.is_empty() {
        page.text(&format!("no server is configured\n{NO_SERVER_HINT}"));
        return page.print();
    }
    let rows: Vec<_> = servers
        .iter()
        .map(|server| {
            let changed = server["changed"].as_array().map_or(0, Vec::len);
            let remark = match (text_of(server, "reason"), changed) {
                ("", 0) => sign_in_remark(&server["auth"]),
                ("", count) => format!("{count} changed since they were accepted; see `onetool health`"),
                (reason, _) => reason.to_owned(),
            };
            let state = text_of(server, "state");
            // Unknown before the first connection.
            let tools = match (server["tool_count"].as_u64(), state) {
                (Some(0), "enabled") => "?".to_owned(),
                _ => server["tool_count"].to_string(),
            };
            vec![
                (Tone::Strong, text_of(server, "name").to_owned()),
                (Tone::Plain, text_of(server, "type").to_owned()),
                (Tone::of_state(state), state.to_owned()),
                (Tone::Plain, tools),
                (Tone::Plain, remark),
            ]
        })
        .collect();
    page.table(&["NAME", "TYPE", "STATE", "TOOLS", "REMARK"], &rows).print()
}
