//! Operations for the admin page: servers and workers, the configuration, secrets.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use onetool_packs::diff::{self as texts, DiffTag};
use onetool_proxy::{AcceptError, ServerKind as UpstreamKind, SignInError};
use onetool_run::{ToolboxView as _, switch_note};
use onetool_sdk::{ErrorKind, HealthNote, Origin, QualifiedName, Severity, ToolError, ToolSource as _};
use onetool_state::atomic::{self, Lock};
use serde_json::Value as Json;

use crate::assemble::App;
use crate::config::secrets_file;
use crate::untrusted::Untrusted;
use onetool_config::{FileTrust, TrustRecord};
use onetool_http::AccessToken;
use onetool_http::rest::admin::{
    ChangedTool, ConfigFile, ConfigProblem, ConfigReply, DiffLine, LineChange, Operations, SecretRow, ServerKind,
    ServerRow, SignInRow, TokenRow, TrustReply,
};

/// How much of the log is searched for a server's messages.
const LOG_TAIL: u64 = 4 << 20;
const LOG_LINES: usize = 500;
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// After this long, the rest of two texts counts as changed.
const DIFF_PATIENCE: Duration = Duration::from_millis(500);

#[async_trait]
impl Operations for App {
    fn project(&self) -> String {
        self.settings().folder.display().to_string()
    }

    fn servers(&self) -> Vec<ServerRow> {
        let settings = self.settings();
        let detail = |name: &str| {
            let server = settings.servers.iter().find(|server| server.name == name)?;
            Some(match &server.kind {
                // Arguments may contain secrets.
                UpstreamKind::Stdio { command, .. } => command.clone(),
                UpstreamKind::Http { url, .. } => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
            })
        };
        let mut rows: Vec<ServerRow> = self
            .servers()
            .status()
            .into_iter()
            .map(|server| ServerRow {
                detail: detail(&server.name),
                name: server.name,
                kind: ServerKind::Server,
                state: server.state.as_str().to_owned(),
                reason: server.reason,
                tool_count: server.tool_count,
                auth: server.auth.map(|auth| SignInRow {
                    state: auth.state.as_str().to_owned(),
                    reason: auth.reason,
                    expires_in: auth.expires_in,
                    url: auth.url,
                }),
            })
            .collect();
        let workers = self.workers();
        let running = workers.running();
        rows.extend(workers.packs().iter().map(|pack| ServerRow {
            name: pack.name.clone(),
            kind: ServerKind::Worker,
            state: if running.contains(&pack.name) { "running" } else { "idle" }.to_owned(),
            reason: pack.note.clone(),
            tool_count: pack.tools.len(),
            auth: None,
            detail: match &pack.origin {
                Origin::Worker { file } => Some(file.display().to_string()),
                _ => None,
            },
        }));
        rows
    }

    async fn sign_in(&self, name: &str) -> Result<String, ToolError> {
        self.servers().begin_sign_in(name, false).await.map_err(sign_in_error)
    }

    async fn finish_sign_in(&self, name: &str, pasted: &str) -> Result<(), ToolError> {
        self.servers().finish_sign_in(name, pasted).await.map_err(sign_in_error)
    }

    fn take_callbacks(&self) {
        self.takes_callbacks.store(true, Ordering::Relaxed);
        self.servers().take_callbacks_at(self.callback_address().as_deref());
    }

    async fn finish_callback(&self, query: &str) -> Result<String, ToolError> {
        self.servers().finish_callback(query).await.map_err(sign_in_error)
    }

    async fn sign_out(&self, name: &str) -> Result<bool, ToolError> {
        self.servers().sign_out(name).await.map_err(sign_in_error)
    }

    async fn restart(&self, name: &str) -> Result<(), ToolError> {
        let servers = self.servers();
        if let Some(outcome) = servers.reconnect(name).await {
            return outcome;
        }
        let workers = self.workers();
        if workers.packs().iter().any(|pack| pack.name == name) {
            workers.restart(name);
            return Ok(());
        }
        Err(unknown(name))
    }

    fn log_of(&self, name: &str) -> Result<Vec<String>, ToolError> {
        let settings = self.settings();
        if settings.servers.iter().any(|server| server.name == name) {
            crate::log::flush();
            return Ok(log_lines(&settings.log_dir.join("onetool.log"), name));
        }
        let workers = self.workers();
        if workers.packs().iter().any(|pack| pack.name == name) {
            return Ok(workers.last_words(name).lines().map(str::to_owned).collect());
        }
        Err(unknown(name))
    }

    fn changed_tools(&self) -> Vec<ChangedTool> {
        let changed = self.servers().changed_tools();
        let row = |changed: onetool_proxy::ChangedTool| {
            let lines = changed.before.as_deref().map(|before| diff(before, &changed.now)).unwrap_or_default();
            ChangedTool::new(changed.server, changed.tool, changed.before, changed.now, lines)
        };
        changed.into_iter().map(row).collect()
    }

    async fn accept_changes(&self, server: &str) -> Result<(), ToolError> {
        self.servers().accept(server).await.map_err(|error| match error {
            AcceptError::UnknownServer { .. } | AcceptError::UnknownTool { .. } => {
                ToolError::not_found(error.to_string())
            }
            AcceptError::NotKnown { .. } | AcceptError::Pins(_) => ToolError::unavailable(error.to_string()),
        })
    }

    fn configuration(&self) -> ConfigReply {
        let settings = self.settings();
        let mut notes: Vec<HealthNote> = self.state().notes.clone();
        notes.extend(switch_note(self.switches()));
        let files: Vec<String> = settings.files.iter().map(|path| path.display().to_string()).collect();
        let problem = |note: HealthNote| ConfigProblem {
            file: files.contains(&note.subject).then(|| note.subject.clone()),
            line: note.facts.line.map(|line| line as u64),
            severity: match note.severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Error => "error",
            }
            .to_owned(),
            subject: note.subject,
            message: note.message,
        };
        let token = |(index, token): (usize, &AccessToken)| TokenRow {
            name: token.name.clone().unwrap_or_else(|| format!("server.tokens[{index}]")),
            scopes: token.scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        };
        ConfigReply {
            problems: notes.into_iter().map(problem).collect(),
            files: files.iter().map(|path| ConfigFile { path: path.clone() }).collect(),
            tokens: settings.server.tokens.iter().enumerate().map(token).collect(),
        }
    }

    fn reload(&self) -> Result<(), ToolError> {
        onetool_run::ToolboxView::reload(self)
    }

    fn policy_files(&self, tool: &QualifiedName) -> Vec<String> {
        self.policy_file().targets(tool).iter().map(|path| path.display().to_string()).collect()
    }

    fn flush_statistics(&self) {
        if let Err(error) = self.statistics().flush() {
            tracing::warn!(%error, "statistics were not written");
        }
    }

    fn trust(&self) -> TrustReply {
        let places = self.places();
        let untrusted = Untrusted::of(places);
        TrustReply {
            folder: places.project.display().to_string(),
            is_trusted: FileTrust::decide(places).is_full(),
            is_recorded: TrustRecord::in_folder(places.global.as_deref()).contains(&places.project),
            is_decided: onetool_config::is_trust_decided(),
            held_back: untrusted.map(|untrusted| untrusted.parts().to_vec()).unwrap_or_default(),
        }
    }

    fn set_trust(&self, is_trusted: bool) -> Result<(), ToolError> {
        if onetool_config::is_trust_decided() {
            return Err(ToolError::new(ErrorKind::Conflict, "ONETOOL_TRUST decides for as long as this server runs"));
        }
        let places = self.places();
        let record = TrustRecord::in_folder(places.global.as_deref());
        let changed = if is_trusted { record.add(&places.project) } else { record.remove(&places.project).map(drop) };
        changed.map_err(|error| {
            ToolError::new(ErrorKind::Conflict, format!("the trust in this folder is not remembered: {error}"))
        })?;
        tracing::info!(folder = %places.project.display(), is_trusted, "trust was decided at the admin page");
        self.reload_now();
        Ok(())
    }

    fn secrets(&self) -> Vec<SecretRow> {
        let settings = self.settings();
        let secrets = settings.secrets.all();
        secrets.iter().map(|(name, value)| SecretRow { name: name.clone(), is_set: !value.is_empty() }).collect()
    }

    fn set_secret(&self, name: &str, value: Option<&str>) -> Result<(), ToolError> {
        if value.is_none() && self.settings().secrets.get(name).is_none() {
            return Err(ToolError::not_found(format!("there is no secret {name}")));
        }
        let path = secrets_file(self.places());
        write_secret(&path, name, value)?;
        if let Some(value) = value {
            crate::log::hide(std::iter::once(value));
        }
        self.reload_now();
        if value.is_none() && self.settings().secrets.get(name).is_some() {
            return Err(ToolError::new(
                ErrorKind::Conflict,
                format!("{name} is also set in another file; remove it there"),
            ));
        }
        Ok(())
    }
}

/// The removed, added and unchanged lines.
fn diff(before: &str, now: &str) -> Vec<DiffLine> {
    let (old, new) = (texts::lines(before), texts::lines(now));
    let of = |change: LineChange, lines: &[&str]| -> Vec<DiffLine> {
        lines.iter().map(|line| DiffLine { change, text: line.trim_end_matches('\n').to_owned() }).collect()
    };
    let mut shown = Vec::new();
    for op in texts::changes(&old, &new, DIFF_PATIENCE) {
        if op.tag() == DiffTag::Equal {
            shown.extend(of(LineChange::Same, &old[op.old_range()]));
            continue;
        }
        shown.extend(of(LineChange::Removed, &old[op.old_range()]));
        shown.extend(of(LineChange::Added, &new[op.new_range()]));
    }
    shown
}

fn sign_in_error(error: SignInError) -> ToolError {
    match error {
        SignInError::UnknownServer { .. } => ToolError::not_found(error.to_string()),
        SignInError::NotOffered { .. } => ToolError::new(ErrorKind::Conflict, error.to_string()),
        SignInError::NotBegun => ToolError::not_found(error.to_string()),
        SignInError::Failed { .. } => ToolError::unavailable(error.to_string()),
    }
}

fn unknown(name: &str) -> ToolError {
    ToolError::not_found(format!("no server and no pack of Python tools is named '{name}'"))
}

/// Changes one line of a file of `NAME: value` lines; everything else, including comments, stays unchanged.
fn write_secret(path: &Path, name: &str, value: Option<&str>) -> Result<(), ToolError> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(path = %path.display(), %error, "the secret was not written");
        ToolError::new(ErrorKind::Conflict, "the file of secrets cannot be changed").with_hint("see the log")
    };
    let _lock = Lock::take(&path.with_extension("lock"), LOCK_PATIENCE).map_err(|error| failed(&error))?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(&error)),
    };
    let is_own =
        |line: &str| line.split_once(':').is_some_and(|(key, _)| key.trim_end().trim_matches(['"', '\'']) == name);
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| is_own(line));
    // A value may continue on indented lines below its name.
    let end = at.map(|at| {
        let more = lines[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        at + 1 + more.count()
    });
    let mut kept: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    // A JSON string is a valid YAML string.
    let written = value.map(|value| format!("{name}: {}", Json::from(value)));
    match (at, end) {
        (Some(at), Some(end)) => {
            kept.splice(at..end, written);
        }
        _ => kept.extend(written),
    }
    let mut text = kept.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    atomic::write(path, text.as_bytes()).map_err(|error| failed(&error))
}

/// The messages of a server, and ours about it.
fn log_lines(path: &Path, server: &str) -> Vec<String> {
    let Ok(mut file) = std::fs::File::open(path) else { return Vec::new() };
    let length = file.metadata().map_or(0, |found| found.len());
    if file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL))).is_err() {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    if file.take(LOG_TAIL).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.contains("\"server\""))
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter(|line| line.get("server").and_then(Json::as_str) == Some(server))
        .map(|line| {
            let field = |name: &str| line.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
            format!("{} {} {}", field("ts"), field("level"), field("message"))
        })
        .collect();
    lines.drain(..lines.len().saturating_sub(LOG_LINES));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_keeps_the_order_of_lines() {
        let lines = diff("one\ntwo\n", "one\nthree\n");
        let shown: Vec<(LineChange, &str)> = lines.iter().map(|line| (line.change, line.text.as_str())).collect();
        let expected = [(LineChange::Same, "one"), (LineChange::Removed, "two"), (LineChange::Added, "three")];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_secret_changes_its_own_line_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.yaml");
        std::fs::write(&path, "# mine\nA: one\nB: |\n  two\n  lines\nC: 3\n").unwrap();
        let read = || std::fs::read_to_string(&path).unwrap();
        write_secret(&path, "B", Some("x: \"y\" # z")).unwrap();
        assert_eq!(read(), "# mine\nA: one\nB: \"x: \\\"y\\\" # z\"\nC: 3\n");
        write_secret(&path, "A", None).unwrap();
        write_secret(&path, "D", Some("new")).unwrap();
        assert_eq!(read(), "# mine\nB: \"x: \\\"y\\\" # z\"\nC: 3\nD: \"new\"\n");
    }
}
