//! `onetool doctor`: checks everything that a working installation needs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use onetool_proxy::{AuthState, ServerKind, ServerState, ServerStatus};
use onetool_sdk::{CallContext, Caller, Severity};
use onetool_state::atomic;
use serde::Serialize;

use super::Location;
use super::servers::tell_what_is_awaited;
use super::table::{OutputArgs, Page, Tone, print};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool doctor
  onetool doctor --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Time limit for a program to print its version.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    /// Something optional is missing.
    Warning,
    Problem,
}

/// The outcome of one check.
#[derive(Serialize)]
struct Finding {
    check: String,
    status: Status,
    detail: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Finding {
    fn ok(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), status: Status::Ok, detail: detail.into(), hint: None }
    }

    fn warning(check: &str, detail: impl Into<String>, hint: &str) -> Self {
        Self { check: check.to_owned(), status: Status::Warning, detail: detail.into(), hint: Some(hint.to_owned()) }
    }

    fn problem(check: &str, detail: impl Into<String>, hint: &str) -> Self {
        Self { status: Status::Problem, ..Self::warning(check, detail, hint) }
    }
}

/// Fails if there is a problem, for use in scripts.
pub async fn main(args: DoctorArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = App::start_once(at.places()?)?;
    let servers = app.servers();
    let findings = tokio::select! {
        findings = check(&app) => findings,
        never = tell_what_is_awaited(&servers, &|_| true) => match never {},
    };
    app.shutdown().await;
    if args.output.is_json() {
        print(&format!("{}\n", serde_json::to_string_pretty(&findings)?))?;
    } else {
        show(&findings)?;
    }
    let has_problem = findings.iter().any(|finding| finding.status == Status::Problem);
    Ok(if has_problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn check(app: &Arc<App>) -> Vec<Finding> {
    let settings = app.settings();
    let mut findings = vec![version()];
    findings.extend(configuration(app));
    findings.push(project(app));
    let (uv, fast, full) = tokio::join!(uv(&settings.workers.uv), engine(app, Engine::Fast), engine(app, Engine::Full));
    findings.extend([uv, fast, full]);
    findings.extend(servers(app).await);
    findings.extend(secrets(&settings.files));
    findings.push(disk(&settings.own));
    findings
}

fn version() -> Finding {
    let place = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let system = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    Finding::ok("version", format!("{} for {system} ({place})", env!("CARGO_PKG_VERSION")))
}

fn configuration(app: &App) -> Vec<Finding> {
    let settings = app.settings();
    let problems: Vec<Finding> = settings
        .notes
        .iter()
        .map(|note| {
            let detail = format!("{}: {}", note.subject, note.message);
            match note.severity {
                Severity::Error => Finding::problem("configuration", detail, "fix the file"),
                Severity::Warning | Severity::Info => Finding::warning("configuration", detail, "edit the file"),
            }
        })
        .collect();
    if !problems.is_empty() {
        return problems;
    }
    let files: Vec<String> = settings.files.iter().map(|file| file.display().to_string()).collect();
    let detail = if files.is_empty() { "no file; the defaults are in effect".to_owned() } else { files.join(", ") };
    vec![Finding::ok("configuration", detail)]
}

fn project(app: &App) -> Finding {
    let folder = &app.places().project;
    if folder.join(".onetool").is_dir() {
        return Finding::ok("project", folder.display().to_string());
    }
    let detail = format!("{} has no .onetool folder", folder.display());
    Finding::warning("project", detail, "run `onetool init`, or name a project with --project")
}

async fn uv(program: &Path) -> Finding {
    match version_of(program).await {
        Ok(version) => Finding::ok("uv", version),
        Err(error) => Finding::warning(
            "uv",
            format!("{}: {error}", program.display()),
            "install uv to use tool files that need packages: https://docs.astral.sh/uv",
        ),
    }
}

async fn version_of(program: &Path) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROGRAM_TIMEOUT, command.output())
        .await
        .map_err(|_| format!("did not answer within {} s", PROGRAM_TIMEOUT.as_secs()))?
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "not found".to_owned(),
            _ => error.to_string(),
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("").chars().take(80).collect())
}

#[derive(Clone, Copy)]
enum Engine {
    Fast,
    Full,
}

/// Runs code that the engine must support, through the normal path.
async fn engine(app: &App, engine: Engine) -> Finding {
    let (name, code) = match engine {
        Engine::Fast => ("sandbox", "__check__ = False\n'Monty runs code: ' + str(20 + 22)"),
        Engine::Full => ("python", "__check__ = False\nimport platform\n'CPython ' + platform.python_version()"),
    };
    let reply = app.runner.run(code, CallContext::new(Caller::Cli)).await;
    let text = reply.text.trim().to_owned();
    match (reply.is_error, engine) {
        (false, _) => Finding::ok(name, text),
        (true, Engine::Fast) => Finding::problem(name, text, "report this; nothing can run without it"),
        (true, Engine::Full) => Finding::warning(
            name,
            text,
            "install Python 3.10 or newer, or set run.python, for code that Monty cannot run",
        ),
    }
}

async fn servers(app: &App) -> Vec<Finding> {
    app.connect_servers(&CallContext::new(Caller::Cli)).await;
    if app.servers().status().is_empty() {
        let detail =
            "none is configured; `onetool servers add` adds one, `onetool import` brings those of other clients";
        return vec![Finding::ok("servers", detail)];
    }
    app.servers().status().into_iter().map(|server| server_finding(app, server)).collect()
}

fn server_finding(app: &App, server: ServerStatus) -> Finding {
    let (check, name) = (format!("server {}", server.name), &server.name);
    let reason = server.reason.unwrap_or_default();
    let settings = app.settings();
    let known = settings.servers.iter().find(|known| known.name == *name);
    match server.state {
        ServerState::Connected => Finding::ok(&check, format!("{} tools", server.tool_count)),
        // Missing parts of the configuration are reported with the configuration too.
        ServerState::Disabled if settings.notes.iter().any(|note| note.facts.key == ["servers", name.as_str()]) => {
            Finding::warning(&check, reason, "fix the configuration as described above")
        }
        ServerState::Disabled => {
            let hint =
                format!("`onetool servers enable {name}` switches it on, `onetool servers remove {name}` removes it");
            Finding::warning(&check, reason, &hint)
        }
        ServerState::Connecting | ServerState::Disconnected => {
            let hint = match (&server.auth, known.map(|known| &known.kind)) {
                (Some(auth), _) if auth.state == AuthState::NeedsSignIn => format!("run: onetool servers login {name}"),
                (_, Some(ServerKind::Http { .. })) => {
                    format!("check servers.{name}.url and the network, then run: onetool servers test {name}")
                }
                (_, _) if server.hung => {
                    format!("run its command by hand to see what it waits for; servers.{name}.timeout gives it longer")
                }
                (_, _) => format!("run its command by hand; what it says there is in {}", settings.log_dir.display()),
            };
            Finding::problem(&check, reason, &hint)
        }
    }
}

/// Files with secrets must be readable only by their owner.
fn secrets(files: &[PathBuf]) -> Vec<Finding> {
    let is_secret =
        |file: &&PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("secrets."));
    if !files.iter().any(|file| is_secret(&file)) {
        return vec![Finding::ok("secrets", "there is no secrets.yaml")];
    }
    files
        .iter()
        .filter(is_secret)
        .map(|file| {
            let name = file.display();
            if is_private(file) {
                return Finding::ok("secrets", name.to_string());
            }
            Finding::warning("secrets", format!("{name} can be read by others"), &format!("chmod 600 {name}"))
        })
        .collect()
}

#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0)
}

#[cfg(not(unix))]
fn is_private(_file: &Path) -> bool {
    true
}

/// With less free space, in bytes, large results and logs soon fail.
const LITTLE_SPACE: u64 = 200 << 20;

fn disk(own: &Path) -> Finding {
    if let Err(error) = atomic::check_writable(own) {
        return Finding::problem(
            "disk",
            format!("{} cannot be written: {error}", own.display()),
            "logs, statistics and large results need it; check permissions and free space",
        );
    }
    let folder = own.display();
    match free_space(own) {
        Some(free) if free < LITTLE_SPACE => {
            let detail = format!("{folder} can be written, but only {} MB are free", free >> 20);
            Finding::warning("disk", detail, "make room: logs, statistics and large results need it")
        }
        Some(free) => Finding::ok("disk", format!("{folder} can be written, {:.1} GB free", free as f64 / 1e9)),
        None => Finding::ok("disk", format!("{folder} can be written")),
    }
}

/// Free bytes at the folder's location, which may not exist yet.
#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(existing).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_space(_folder: &Path) -> Option<u64> {
    None
}

fn show(findings: &[Finding]) -> anyhow::Result<()> {
    let rows: Vec<_> = findings
        .iter()
        .map(|finding| {
            let (tone, status) = match finding.status {
                Status::Ok => (Tone::Good, "ok"),
                Status::Warning => (Tone::Doubtful, "warning"),
                Status::Problem => (Tone::Bad, "problem"),
            };
            vec![
                (tone, status.to_owned()),
                (Tone::Strong, finding.check.clone()),
                (Tone::Plain, finding.detail.clone()),
            ]
        })
        .collect();
    let mut page = Page::new();
    page.table(&[], &rows);
    for finding in findings {
        if let Some(hint) = &finding.hint {
            page.put(Tone::Strong, "hint").put(Tone::Plain, &format!(": {}: {hint}", finding.check)).end_line();
        }
    }
    page.print()
}
