//! `onetool dev FILE [FUNCTION] [NAME=VALUE …]`: the development loop of a tool author.
//!
//! Loads the file, calls one of its functions through the normal call path, and prints the result to standard output;
//! printed text, the duration and errors go to standard error. When the file or a module next to it changes, all of
//! this is repeated. The file need not be in a project: it takes precedence over all others.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use onetool_sdk::{
    Arguments, HealthNote, Origin, Pack, QualifiedName, Severity, ToolCaller as _, ToolError, ToolSource as _, Value,
};

use serde_json::{Map, Value as Json};
use tokio_util::sync::CancellationToken;

use super::{Location, ask, call};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool dev weather_tools.py                        list what the file offers, at every change
  onetool dev weather_tools.py forecast city=Bern     call a function at every change
  onetool dev weather_tools.py forecast city=Bern --once
  onetool dev weather_tools.py forecast --json '{\"city\": \"Bern\"}'";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DevArgs {
    /// The file with the tools
    file: PathBuf,

    /// The function to call; without one, the functions are listed
    function: Option<String>,

    /// Arguments as name=value (text where the parameter takes text, else JSON) or name:=json
    #[arg(value_name = "NAME=VALUE", conflicts_with = "json")]
    arguments: Vec<String>,

    /// All arguments as one JSON object; `-` reads standard input
    #[arg(long, value_name = "OBJECT")]
    json: Option<String>,

    /// Call once and end, with exit code 1 if the call fails
    #[arg(long)]
    once: bool,
}

/// Poll interval for changes of the file.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

pub async fn main(args: DevArgs, at: Location) -> anyhow::Result<ExitCode> {
    let file = args.file.canonicalize().map_err(|error| super::unreadable(&args.file, &error))?;
    anyhow::ensure!(
        file.extension().is_some_and(|extension| extension == "py"),
        "{} is not a Python file",
        args.file.display()
    );
    let given = args.json.as_deref().map(call::object).transpose()?;
    let app = App::start_for_author(at.places()?, file.clone())?;
    crate::log::show_prints();
    // One listener for the whole command: a key pressed between two rounds counts too.
    let ended = CancellationToken::new();
    let end = ended.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            end.cancel();
        }
    });
    let session = Session { app: &app, file, args: &args, given, talk: Talk::new(), ended };
    let outcome = session.run().await;
    app.shutdown().await;
    outcome
}

struct Session<'a> {
    app: &'a Arc<App>,
    file: PathBuf,
    args: &'a DevArgs,
    /// The arguments given as JSON.
    given: Option<Map<String, Json>>,
    talk: Talk,
    /// Cancelled by the interrupt key.
    ended: CancellationToken,
}

/// The outcome of a round.
enum Round {
    Done,
    Failed,
    /// The user pressed the interrupt key.
    Interrupted,
}

impl Session<'_> {
    async fn run(&self) -> anyhow::Result<ExitCode> {
        loop {
            let seen = self.app.workers().generation();
            let round = self.round(seen).await?;
            match round {
                Round::Interrupted => return Ok(ExitCode::SUCCESS),
                Round::Failed if self.args.once => return Ok(ExitCode::FAILURE),
                Round::Done if self.args.once => return Ok(ExitCode::SUCCESS),
                Round::Failed | Round::Done => {}
            }
            self.talk.faint(&format!("watching {} (Ctrl-C ends)", self.args.file.display()));
            tokio::select! {
                () = self.changed(seen) => {}
                () = self.ended.cancelled() => return Ok(ExitCode::SUCCESS),
            }
        }
    }

    /// Waits until the files differ from generation `seen`.
    async fn changed(&self, seen: u64) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let workers = self.app.workers();
            workers.refresh();
            if workers.generation() != seen {
                return;
            }
        }
    }

    async fn round(&self, seen: u64) -> anyhow::Result<Round> {
        // Use the current file, not its last working version.
        if let Some(pack) = self.pack() {
            self.app.workers().restart(&pack.name);
        }
        let problems: Vec<HealthNote> = self.notes();
        for note in &problems {
            self.talk.problem(note.severity, &format!("{}: {}", self.args.file.display(), note.message));
        }
        let Some(pack) = self.pack() else {
            if problems.is_empty() {
                let text = format!("{} offers no tools; its name must not begin with '_'", self.args.file.display());
                self.talk.problem(Severity::Error, &text);
            }
            return Ok(Round::Failed);
        };
        if problems.iter().any(|note| note.severity == Severity::Error) {
            return Ok(Round::Failed);
        }
        let Some(function) = &self.args.function else {
            for tool in pack.tools.values() {
                println!("{}", tool.signature.render(&format!("{}.{}", pack.name, tool.name)));
            }
            return Ok(Round::Done);
        };
        let name = QualifiedName::new(&pack.name, function.rsplit('.').next().unwrap_or(function));
        let given = match &self.given {
            Some(given) => given.clone(),
            None => match call::named(pack.tools.get(&name.function).map(AsRef::as_ref), &self.args.arguments) {
                Ok(given) => given,
                Err(error) => {
                    self.talk.problem(Severity::Error, &format!("{error:#}"));
                    return Ok(Round::Failed);
                }
            },
        };
        self.call(&name, Arguments::from_json(given), seen).await
    }

    async fn call(&self, name: &QualifiedName, arguments: Arguments, seen: u64) -> anyhow::Result<Round> {
        self.talk.faint(&format!("calling {name}"));
        let ctx = ask::context(self.app);
        let started = Instant::now();
        let toolbox = self.app.runner.toolbox();
        let calling = toolbox.call_tool(name, arguments, &ctx);
        tokio::pin!(calling);
        let mut is_over = None;
        let answer = loop {
            tokio::select! {
                answer = &mut calling => break answer,
                () = self.ended.cancelled(), if is_over.is_none() => {
                    is_over = Some(Round::Interrupted);
                    ctx.cancel.cancel();
                }
                () = self.changed(seen), if is_over.is_none() && !self.args.once => {
                    self.talk.faint("the file has changed; the call is given up");
                    is_over = Some(Round::Failed);
                    ctx.cancel.cancel();
                }
            }
        };
        let took = started.elapsed();
        if let Some(round) = is_over {
            return Ok(round);
        }
        self.show(name, answer, took)
    }

    fn show(&self, name: &QualifiedName, answer: Result<Value, ToolError>, took: Duration) -> anyhow::Result<Round> {
        match answer {
            Ok(value) => {
                call::show(value)?;
                self.talk.good(&format!("{name} returned after {}", shown(took)));
                Ok(Round::Done)
            }
            Err(error) => {
                if let Some(traceback) = &error.traceback {
                    eprintln!("{}", traceback.trim_end());
                }
                self.talk.problem(Severity::Error, &format!("{}: {}", error.exception(), error.text()));
                self.talk.faint(&format!("{name} failed after {}", shown(took)));
                Ok(Round::Failed)
            }
        }
    }

    fn pack(&self) -> Option<Arc<Pack>> {
        let is_ours = |pack: &Arc<Pack>| matches!(&pack.origin, Origin::Worker { file } if same(file, &self.file));
        self.app.workers().packs().into_iter().find(is_ours)
    }

    /// Problems with the file.
    fn notes(&self) -> Vec<HealthNote> {
        let notes = self.app.workers().health();
        notes.into_iter().filter(|note| same(Path::new(&note.subject), &self.file)).collect()
    }
}

fn same(path: &Path, file: &Path) -> bool {
    path == file || path.canonicalize().is_ok_and(|path| path == file)
}

fn shown(took: Duration) -> String {
    if took < Duration::from_secs(1) {
        format!("{} ms", took.as_millis())
    } else {
        format!("{:.1} s", took.as_secs_f64())
    }
}

/// Messages for the author, on standard error.
struct Talk {
    coloured: bool,
}

impl Talk {
    fn new() -> Self {
        Self { coloured: std::io::stderr().is_terminal() && super::table::is_colour_wanted() }
    }

    fn say(&self, code: &str, text: &str) {
        if self.coloured {
            eprintln!("\x1b[{code}m{text}\x1b[0m");
        } else {
            eprintln!("{text}");
        }
    }

    fn faint(&self, text: &str) {
        self.say("2", text);
    }

    fn good(&self, text: &str) {
        self.say("32", text);
    }

    fn problem(&self, severity: Severity, text: &str) {
        let (code, word) = match severity {
            Severity::Error => ("31", "error"),
            Severity::Warning => ("33", "warning"),
            Severity::Info => ("2", "note"),
        };
        self.say(code, &format!("{word}: {text}"));
    }
}
