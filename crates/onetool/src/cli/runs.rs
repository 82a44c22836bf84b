//! `onetool runs`: stored runs, whoever started them; `onetool approve` and `deny`: calls that wait for a person.
//!
//! These commands work on shared state without a server: whoever can read the state may decide.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use onetool_run::durable::{Durable, End, Unknown, lost_reply, reply};
use onetool_run::{RunReply, Runner};
use onetool_state::runs::{ApprovalRecord, ReportedCall, RunRecord, RunStatus, Taken, Verdict};
use serde_json::{Value as Json, json};

use super::table::{OutputArgs, Page, Tone, print_json};
use super::tokens::audited;
use super::{Location, table};
use crate::assemble::App;

/// How long to wait for a server to take a run before it continues here.
const SERVERS_FIRST: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);
/// Number of digits of an id in lists.
const SHOWN_ID: usize = 12;

const EXAMPLES: &str = "\
Examples:
  onetool runs list
  onetool runs show 0191c2d4
  onetool runs cancel 0191c2d4
  onetool runs resume 0191c2d4            calls whose outcome is unknown are made again
  onetool runs resume 0191c2d4 --unknown raise
  onetool runs abandon 0191c2d4";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Subcommand)]
enum RunsCommand {
    /// List background runs and runs that wait for a permission, the newest first
    #[command(after_help = "Examples:\n  onetool runs list\n  onetool runs list --json")]
    List(OutputArgs),
    /// Show a run: its result, or what it has done and what is unknown
    #[command(after_help = "Examples:\n  onetool runs show 0191c2d4\n  onetool runs show 0191c2d4 --json")]
    Show {
        /// The run's id, or the start of it
        id: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Cancel a run
    #[command(after_help = "Examples:\n  onetool runs cancel 0191c2d4")]
    Cancel {
        /// The run's id, or the start of it
        id: String,
    },
    /// Resume a run that was interrupted, or that waits for a server
    #[command(after_help = "Examples:\n  onetool runs resume 0191c2d4\n  onetool runs resume 0191c2d4 --unknown raise")]
    Resume {
        /// The run's id, or the start of it
        id: String,
        /// What to do about calls whose outcome is unknown
        #[arg(long, value_enum, default_value = "repeat")]
        unknown: UnknownArg,
    },
    /// Abandon an interrupted run
    #[command(after_help = "Examples:\n  onetool runs abandon 0191c2d4")]
    Abandon {
        /// The run's id, or the start of it
        id: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum UnknownArg {
    /// Make them again
    Repeat,
    /// Raise an error in the code instead
    Raise,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  onetool approve                 list the calls that wait
  onetool approve 4f1c20d9        allow the call; its run continues";

const DENY_EXAMPLES: &str = "\
Examples:
  onetool deny 4f1c20d9           refuse the call; its run continues with an error";

#[derive(Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub struct ApproveArgs {
    /// The approval's id, or the start of it; without it, the waiting calls are listed
    id: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
#[command(after_help = DENY_EXAMPLES)]
pub struct DenyArgs {
    /// The approval's id, or the start of it
    id: String,
}

pub async fn main(args: RunsArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let answer = answer(&app, args.command).await;
    app.shutdown().await;
    answer
}

pub async fn approve(args: ApproveArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let answer = match args.id {
        Some(id) => decide(&app, &id, true).await,
        None => list_approvals(app.durable(), &args.output),
    };
    app.shutdown().await;
    answer
}

pub async fn deny(args: DenyArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let answer = decide(&app, &args.id, false).await;
    app.shutdown().await;
    answer
}

async fn answer(app: &Arc<App>, command: RunsCommand) -> anyhow::Result<ExitCode> {
    let durable = app.durable();
    let store = durable.runs();
    match command {
        RunsCommand::List(output) => {
            let runs = store.all()?;
            if output.is_json() {
                print_json(&runs.iter().map(described).collect())?;
                return Ok(ExitCode::SUCCESS);
            }
            let row = |run: &RunRecord| {
                vec![
                    (Tone::Strong, run.id.as_str()[..SHOWN_ID].to_owned()),
                    (Tone::of_state(run.status.name()), run.status.name().to_owned()),
                    (Tone::Plain, run.created_at.format("%Y-%m-%d %H:%M:%S").to_string()),
                    (Tone::Plain, run.title.clone()),
                ]
            };
            let mut page = Page::new();
            page.table(&["ID", "STATUS", "STARTED", "COMMAND"], &runs.iter().map(row).collect::<Vec<_>>());
            page.print()?;
            if runs.is_empty() {
                eprintln!("no runs are kept");
            }
        }
        RunsCommand::Show { id, output } => {
            let Some(run) = found(app, &id)? else { return Ok(ExitCode::FAILURE) };
            show(app, &run, &output)?;
        }
        RunsCommand::Cancel { id } => {
            let Some(run) = found(app, &id)? else { return Ok(ExitCode::FAILURE) };
            let what = format!("onetool runs cancel {}", run.id);
            let run = audited(&app.audit(), what, store.cancel(&run.owner, &run.id))?;
            durable.approvals().forget(&run.owner, &run.id)?;
            eprintln!("{} is {}", run.id, run.status.name());
        }
        RunsCommand::Abandon { id } => {
            let Some(run) = found(app, &id)? else { return Ok(ExitCode::FAILURE) };
            let what = format!("onetool runs abandon {}", run.id);
            let run = audited(&app.audit(), what, store.abandon(&run.owner, &run.id))?;
            eprintln!("{} is given up", run.id);
        }
        RunsCommand::Resume { id, unknown } => {
            let Some(run) = found(app, &id)? else { return Ok(ExitCode::FAILURE) };
            let unknown = match unknown {
                UnknownArg::Repeat => Unknown::Repeat,
                UnknownArg::Raise => Unknown::Raise,
            };
            if run.status == RunStatus::Interrupted {
                let what = format!("onetool runs resume {}", run.id);
                audited(&app.audit(), what, durable.resume(&run.owner, &run.id, unknown).await)?;
            }
            return follow(app, &run).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the run whose id begins like this; prints a message if there is none, or more than one.
fn found(app: &App, id: &str) -> anyhow::Result<Option<RunRecord>> {
    let mut runs: Vec<RunRecord> = app.durable().runs().all()?;
    runs.retain(|run| run.id.as_str().starts_with(id));
    if runs.len() > 1 {
        eprintln!("error: the ids of {} runs begin with '{id}'\nhint: give more of it", runs.len());
        return Ok(None);
    }
    if runs.is_empty() {
        eprintln!("error: there is no run '{id}'\nhint: `onetool runs list` shows those that are kept");
    }
    Ok(runs.pop())
}

fn described(run: &RunRecord) -> Json {
    json!({
        "id": run.id.as_str(),
        "status": run.status.name(),
        "title": run.title,
        "message": run.message,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
        "finishedAt": run.finished_at,
        "tags": run.tags,
        "approval": run.approval,
        "calls": run.calls,
    })
}

fn show(app: &App, run: &RunRecord, output: &OutputArgs) -> anyhow::Result<()> {
    let store = app.durable().runs();
    let command = store.command(&run.owner, &run.id).unwrap_or_default();
    let kept = store.reply(&run.owner, &run.id)?.and_then(|bytes| reply::read(&bytes));
    if output.is_json() {
        let mut json = described(run);
        json["command"] = json!(command);
        json["result"] = json!(kept.map(|reply| json!({"text": reply.text, "isError": reply.is_error})));
        return print_json(&json);
    }
    let mut page = Page::new();
    page.put(Tone::Strong, run.id.as_str()).put(Tone::Plain, "  ");
    page.put(Tone::of_state(run.status.name()), run.status.name()).end_line();
    if let Some(message) = &run.message {
        page.text(message);
    }
    page.text(&format!("\n{command}\n"));
    if let Some(calls) = &run.calls {
        let list = |page: &mut Page, heading: &str, calls: &[ReportedCall]| {
            page.put(Tone::Strong, heading).end_line();
            for call in calls {
                page.text(&format!("  {}({})", call.tool, call.arguments));
            }
            if calls.is_empty() {
                page.text("  none");
            }
        };
        list(&mut page, "done", &calls.done);
        list(&mut page, "unknown", &calls.unknown);
    }
    if let Some(reply) = kept {
        page.text(&reply.text);
    }
    page.print()
}

fn list_approvals(durable: &Durable, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let waiting = durable.waiting()?;
    if output.is_json() {
        print_json(&json!(waiting))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |asked: &ApprovalRecord| {
        vec![
            (Tone::Strong, asked.id.clone()),
            (Tone::Plain, asked.at.format("%Y-%m-%d %H:%M:%S").to_string()),
            (Tone::Plain, format!("{}({})", asked.tool, asked.arguments)),
        ]
    };
    let mut page = Page::new();
    page.table(&["ID", "ASKED", "CALL"], &waiting.iter().map(row).collect::<Vec<_>>());
    page.print()?;
    if waiting.is_empty() {
        eprintln!("no call waits for a permission");
    }
    Ok(ExitCode::SUCCESS)
}

async fn decide(app: &Arc<App>, id: &str, is_allowed: bool) -> anyhow::Result<ExitCode> {
    let durable = app.durable();
    let mut waiting = durable.waiting()?;
    waiting.retain(|asked| asked.id.starts_with(id));
    let asked = match waiting.len() {
        1 => waiting.swap_remove(0),
        0 => {
            eprintln!("error: no call waits under '{id}': it was decided already, or its run has ended");
            eprintln!("hint: `onetool approve` lists what waits");
            return Ok(ExitCode::FAILURE);
        }
        count => {
            eprintln!("error: the ids of {count} calls begin with '{id}'\nhint: give more of it");
            return Ok(ExitCode::FAILURE);
        }
    };
    let what = format!("onetool {} {}", if is_allowed { "approve" } else { "deny" }, asked.id);
    if audited(&app.audit(), what, durable.decide(&asked.id, &Verdict::new(is_allowed, "command line")))?.is_none() {
        eprintln!("error: somebody else has decided it");
        return Ok(ExitCode::FAILURE);
    }
    let word = if is_allowed { "approved" } else { "denied" };
    eprintln!("{word}: {}({})", asked.tool, asked.arguments);
    if asked.live.is_some() {
        eprintln!("the call waits at a server, which hears of it in a moment");
        return Ok(ExitCode::SUCCESS);
    }
    let run = durable.runs().get(&asked.owner, &asked.run)?;
    follow(app, &run).await
}

/// Waits until a server takes the run, or else continues it here.
async fn follow(app: &Arc<App>, run: &RunRecord) -> anyhow::Result<ExitCode> {
    let store = app.durable().runs();
    let until = Instant::now() + SERVERS_FIRST;
    loop {
        let now = store.get(&run.owner, &run.id)?;
        match now.status {
            RunStatus::Queued if Instant::now() < until => tokio::time::sleep(LOOK).await,
            RunStatus::Queued => {
                let asked = Instant::now();
                let Some(taken) = store.take(&run.owner, &run.id)? else { continue };
                eprintln!("no server has taken it: it goes on here");
                return Ok(print_end(go_on(&app.runner, app.durable(), &taken, asked).await, &taken)?);
            }
            status => {
                eprintln!("the run {} is {}", run.id, status.name());
                if let Some(message) = now.message {
                    eprintln!("{message}");
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

async fn go_on(runner: &Runner, durable: &Durable, taken: &Taken, asked: Instant) -> End {
    durable.execute(runner, taken, asked, |ctx| ctx.client = super::terminal::client()).await
}

fn print_end(end: End, taken: &Taken) -> anyhow::Result<ExitCode> {
    let reply: RunReply = match end {
        End::Finished(reply) | End::Suspended(reply) | End::Interrupted(reply) => reply,
        End::Lost => lost_reply(&taken.record.id),
    };
    if reply.is_error {
        eprintln!("{}", reply.text);
        return Ok(ExitCode::FAILURE);
    }
    table::print(&format!("{}\n", reply.text))?;
    Ok(ExitCode::SUCCESS)
}
