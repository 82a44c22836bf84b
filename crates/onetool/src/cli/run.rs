//! `onetool run`: runs code like the server does, in this process or in the process that holds sessions.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use onetool_run::RunReply;
use onetool_sdk::{CallContext, Caller, Part};

use super::Location;
use super::progress::PrintedOutput;

const EXAMPLES: &str = "\
Examples:
  onetool run 'sum(range(10))'
  onetool run 'file.grep(\"fn main\")'
  echo 'ot.tools()' | onetool run -
  onetool run --file script.py
  onetool run --session work 'rows = file.glob(\"*.csv\")'
  onetool run --session work 'len(rows)'
  onetool run --session work '__session__ = None'";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Python code; `-` reads standard input
    #[arg(required_unless_present_any = ["file", "session_host"], allow_hyphen_values = true)]
    code: Option<String>,

    /// Run the code of this file
    #[arg(long, short, value_name = "FILE", conflicts_with = "code")]
    file: Option<PathBuf>,

    /// Keep the names of this run for the next one with the same session. A background process of this project holds
    /// them; it ends when its last session does: after `run.session_idle` seconds without a run, or with
    /// `__session__ = None`
    #[arg(long, value_name = "NAME")]
    session: Option<String>,

    /// Be the process that holds sessions.
    #[arg(long, hide = true)]
    session_host: bool,
}

/// The exit code after an interrupt.
const INTERRUPTED: u8 = 130;

/// Maximum size of code from a pipe or a file, in bytes; the run itself allows less.
const MAX_INPUT: u64 = 64 << 20;

pub async fn main(args: RunArgs, at: Location) -> anyhow::Result<ExitCode> {
    if args.session_host {
        return super::session_host::serve(at).await;
    }
    let code = match (args.code, args.file) {
        (_, Some(path)) => {
            let file = std::fs::File::open(&path).map_err(|error| super::unreadable(&path, &error))?;
            read(file).with_context(|| path.display().to_string())?
        }
        (Some(code), None) if code == "-" => read(std::io::stdin()).context("standard input")?,
        (Some(code), None) => code,
        (None, None) => anyhow::bail!("no code given"),
    };
    let printed = Arc::new(PrintedOutput::new());
    let outcome = match args.session {
        Some(session) => super::session_host::ask(at, &session, &code, &*printed).await?,
        None => run(at, &code, printed.clone()).await?,
    };
    let Some(reply) = outcome else { return Ok(ExitCode::from(INTERRUPTED)) };
    show(&reply, &printed)
}

/// Returns `None` if interrupted.
async fn run(at: Location, code: &str, printed: Arc<PrintedOutput>) -> anyhow::Result<Option<RunReply>> {
    let app = super::start(at)?;
    crate::log::show_prints();
    let mut ctx = CallContext::new(Caller::Cli);
    ctx.progress = printed;
    ctx.client = super::terminal::client();
    let cancel = ctx.cancel.clone();
    let is_terminal = std::io::stdout().is_terminal();
    let run = async {
        // A pipe takes any size; on a terminal, output that is too large is stored.
        if is_terminal { app.runner.run(code, ctx).await } else { app.runner.run_whole(code, ctx).await }
    };
    let run = super::ask::telling(&app, run);
    tokio::pin!(run);
    let mut interrupted = false;
    let reply = loop {
        tokio::select! {
            reply = &mut run => break reply,
            _ = tokio::signal::ctrl_c() => {
                interrupted = true;
                cancel.cancel();
            }
        }
    };
    for name in app.runner.sandbox().sessions().names() {
        eprintln!(
            "note: the session '{name}' ends with this command; `onetool run --session {name} …` keeps its names for the next"
        );
    }
    app.shutdown().await;
    Ok((!interrupted).then_some(reply))
}

fn show(reply: &RunReply, printed: &PrintedOutput) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if reply.is_error {
        printed.rest("");
        if printed.is_open() {
            writeln!(out)?;
        }
        eprintln!("{}", reply.text);
        return Ok(ExitCode::FAILURE);
    }
    let rest = printed.rest(&reply.text);
    if printed.is_open() {
        writeln!(out)?;
    }
    if !rest.is_empty() {
        writeln!(out, "{rest}")?;
    }
    for part in &reply.parts {
        writeln!(out, "{}", Part::placeholder(part))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(source: impl std::io::Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.take(MAX_INPUT).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|error| anyhow::anyhow!("the code is not valid UTF-8 (byte {})", error.utf8_error().valid_up_to()))
}
