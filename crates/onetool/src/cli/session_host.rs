//! The process that holds the sessions of `onetool run --session`, and its client.
//!
//! Names persist only in a process that persists. The first command with a session starts one for its project. It
//! listens on a socket in a folder that only its user can enter, runs code that commands send, and ends with its last
//! session. A request is one line of JSON; the response is lines with printed text, and a last one with the reply. If a
//! command disconnects, its run ends.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use onetool_config::ConfigPlaces;
use onetool_run::RunReply;
use onetool_sdk::{CallContext, Caller, Part, Progress, ProgressSink};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::Location;
use crate::assemble::App;

/// Time limit for the process to start listening.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long the process stays alive without a session.
const LINGER: Duration = Duration::from_secs(2);
/// Maximum size of a line, in either direction.
const MAX_LINE: u64 = 512 << 20;

#[derive(Serialize, Deserialize)]
struct Request {
    session: String,
    code: String,
    /// Whether the reader accepts a reply of any size.
    whole: bool,
}

#[derive(Serialize, Deserialize)]
enum Message {
    Printed(String),
    Progress(String),
    Reply { text: String, is_error: bool, parts: Vec<String> },
}

/// Runs code in a session of the project's process, which is started if necessary. `None` if interrupted.
pub async fn ask(at: Location, session: &str, code: &str, sink: &dyn ProgressSink) -> anyhow::Result<Option<RunReply>> {
    let places = at.clone().places()?;
    places.require_explicit()?;
    let stream = connect(&places, &at).await?;
    let (reader, mut writer) = stream.into_split();
    let whole = !std::io::IsTerminal::is_terminal(&std::io::stdout());
    let mut line = serde_json::to_vec(&Request { session: session.to_owned(), code: code.to_owned(), whole })?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    let mut lines = BufReader::new(reader.take(MAX_LINE));
    loop {
        let mut line = String::new();
        tokio::select! {
            read = lines.read_line(&mut line) => {
                if read? == 0 {
                    anyhow::bail!("the process that holds the session '{session}' ended; its names are gone");
                }
            }
            // Closing the connection cancels the run.
            _ = tokio::signal::ctrl_c() => return Ok(None),
        }
        match serde_json::from_str(&line)? {
            Message::Printed(text) => {
                sink.printed(&text);
            }
            Message::Progress(text) => sink.report(Progress { done: 0.0, total: None, message: Some(text) }),
            Message::Reply { text, is_error, parts } => {
                let parts = parts.into_iter().map(Part::Text).collect();
                return Ok(Some(RunReply { text, parts, is_error }));
            }
        }
        lines.get_mut().set_limit(MAX_LINE);
    }
}

async fn connect(places: &ConfigPlaces, at: &Location) -> anyhow::Result<UnixStream> {
    let socket = socket_path(places)?;
    if let Ok(stream) = UnixStream::connect(&socket).await {
        return Ok(stream);
    }
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["run", "--session-host"]);
    if let Some(config) = &at.config {
        command.arg("--config").arg(std::path::absolute(config)?);
    }
    command.arg("--project").arg(&places.project);
    command.current_dir(&places.project).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Its own process group, so that keys that interrupt this command do not reach it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().context("the process that holds sessions does not start")?;
    let deadline = tokio::time::Instant::now() + START_TIMEOUT;
    loop {
        match UnixStream::connect(&socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if tokio::time::Instant::now() > deadline => {
                return Err(error).context("the process that holds sessions does not answer");
            }
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// The socket's path: one per project and configuration, in a folder of this user.
fn socket_path(places: &ConfigPlaces) -> anyhow::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = base.unwrap_or_else(std::env::temp_dir).join(format!("onetool-{user}"));
    private_folder(&folder, user)?;
    let mut hasher = DefaultHasher::new();
    (&places.project, &places.explicit, &places.global, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    Ok(folder.join(format!("sessions-{:016x}.sock", hasher.finish())))
}

/// Creates the folder, or checks that it belongs to this user alone.
fn private_folder(folder: &Path, user: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| folder.display().to_string());
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(folder).with_context(|| folder.display().to_string())?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        anyhow::bail!("{} is not a folder of this user alone; remove it, or set XDG_RUNTIME_DIR", folder.display());
    }
    Ok(())
}

/// Holds the sessions of a project until none is left.
pub async fn serve(at: Location) -> anyhow::Result<ExitCode> {
    // Its own session, to outlive the terminal of the first command.
    let _ = rustix::process::setsid();
    let places = at.places()?;
    let socket = socket_path(&places)?;
    let lock = std::fs::File::create(socket.with_extension("lock"))?;
    if lock.try_lock().is_err() {
        return Ok(ExitCode::SUCCESS);
    }
    let app = App::start_once(places)?;
    let _watch = crate::watch::start(&app);
    let sandbox = app.runner.sandbox().clone();
    tokio::spawn(async move { sandbox.warm_up().await });
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)?;
    let user = rustix::process::getuid().as_raw();
    let active = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = tokio::time::timeout(LINGER, listener.accept()).await;
        match accepted {
            Ok(Ok((stream, _))) if stream.peer_cred().is_ok_and(|peer| peer.uid() == user) => {
                active.fetch_add(1, Ordering::Relaxed);
                let (app, active) = (app.clone(), active.clone());
                tokio::spawn(async move {
                    if let Err(error) = answer(&app, stream).await {
                        tracing::debug!(%error, "a command went away");
                    }
                    active.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(_) => {}
            Err(_) if active.load(Ordering::Relaxed) == 0 && app.runner.sandbox().sessions().count() == 0 => break,
            Err(_) => {}
        }
    }
    let _ = std::fs::remove_file(&socket);
    drop(listener);
    app.shutdown().await;
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// Sends messages of a run before it ends.
struct Sender(mpsc::UnboundedSender<Message>);

impl ProgressSink for Sender {
    fn report(&self, progress: Progress) {
        if let Some(text) = progress.message {
            let _ = self.0.send(Message::Progress(text));
        }
    }

    fn printed(&self, text: &str) -> bool {
        self.0.send(Message::Printed(text.to_owned())).is_ok()
    }
}

async fn answer(app: &App, stream: UnixStream) -> anyhow::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader.take(MAX_LINE));
    let mut line = String::new();
    lines.read_line(&mut line).await?;
    let request: Request = serde_json::from_str(&line)?;
    let (sender, mut messages) = mpsc::unbounded_channel();
    let mut ctx = CallContext::new(Caller::Cli);
    let _cancel_on_drop = ctx.cancel.clone().drop_guard();
    ctx.progress = Arc::new(Sender(sender.clone()));
    let runner = app.runner.clone();
    let run = async move {
        let reply = if request.whole {
            runner.run_whole_in_session(&request.code, &request.session, ctx).await
        } else {
            runner.run_in_session(&request.code, &request.session, ctx).await
        };
        let parts = reply.parts.iter().map(Part::placeholder).collect();
        let _ = sender.send(Message::Reply { text: reply.text, is_error: reply.is_error, parts });
    };
    let send = async {
        while let Some(message) = messages.recv().await {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            writer.write_all(&line).await?;
        }
        anyhow::Ok(())
    };
    let mut nothing = [0_u8; 1];
    tokio::select! {
        ((), sent) = async { tokio::join!(run, send) } => sent,
        // The command has disconnected.
        _ = lines.read(&mut nothing) => Ok(()),
    }
}
