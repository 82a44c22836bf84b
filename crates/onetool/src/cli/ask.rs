//! Calls one tool through the normal call path, for commands that show its result.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{Arguments, CallContext, Caller, QualifiedName, ToolCaller as _, ToolError, Value};

use super::servers::tell_what_is_awaited;
use crate::assemble::App;

/// How long a command waits for servers to connect before it continues without them.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// The context of a command's calls: bounded like a run's, with progress on the terminal.
pub fn context(app: &App) -> CallContext {
    let mut ctx = CallContext::new(Caller::Cli);
    ctx.deadline = Some(Instant::now() + app.settings().run.limits.timeout);
    ctx.progress = super::progress::sink();
    ctx.client = super::terminal::client();
    ctx.tools = Some(Arc::new(app.runner.toolbox().clone()));
    ctx
}

/// Calls a tool. The interrupt key cancels it.
pub async fn call(app: &App, name: &QualifiedName, arguments: Arguments) -> Result<Value, ToolError> {
    let ctx = context(app);
    let toolbox = app.runner.toolbox();
    let call = telling(app, toolbox.call_tool(name, arguments, &ctx));
    tokio::pin!(call);
    loop {
        tokio::select! {
            result = &mut call => {
                for notice in ctx.notices.take() {
                    eprintln!("note: {notice}");
                }
                return result;
            }
            _ = tokio::signal::ctrl_c() => ctx.cancel.cancel(),
        }
    }
}

/// Calls `ot.<function>` after waiting for servers to connect, because the answer covers their tools.
pub async fn ot<'a>(
    app: &App,
    function: &str,
    arguments: impl IntoIterator<Item = (&'a str, Option<String>)>,
) -> anyhow::Result<Value> {
    if needs_servers(function) {
        telling(app, connect(app)).await;
    }
    let given = arguments.into_iter().filter_map(|(name, value)| Some((name, Value::Str(value?))));
    let answer = call(app, &QualifiedName::new("ot", function), Arguments::named(given)).await;
    answer.map_err(|error| anyhow::anyhow!(error.text()))
}

/// Whether the answer depends on the tools of servers; statistics do not.
fn needs_servers(function: &str) -> bool {
    function != "stats"
}

/// Shows on a terminal which servers are being waited for while `work` runs.
pub async fn telling<T>(app: &App, work: impl Future<Output = T>) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let servers = app.servers();
    tokio::select! {
        outcome = work => outcome,
        never = tell_what_is_awaited(&servers, &|_| true) => match never {},
    }
}

async fn connect(app: &App) {
    let mut ctx = CallContext::new(Caller::Cli);
    ctx.deadline = Some(Instant::now() + CONNECT_PATIENCE);
    app.connect_servers(&ctx).await;
}
