//! The section `audit`, and the audit entries of calls and runs.

use std::sync::Arc;
use std::time::Duration;

use onetool_config::{Reader, Section, choices, keys};
use onetool_run::{CallOutcome, RunOutcome};
use onetool_sdk::{CallContext, ErrorKind};
use onetool_state::audit::{AuditEvent, AuditLog, AuditRecord, AuditSettings};

/// How arguments are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedArguments {
    Hash,
    Full,
    Off,
}

choices!(AuditedArguments { "hash" => Hash, "full" => Full, "off" => Off });

keys! {
    /// Who did what: every run and call, every refused request, every change over REST. See `onetool audit`.
    pub struct AuditKeys {
        /// Write it down.
        enabled: bool = true, live;
        /// What of arguments and commands: `hash`, `full` (shortened, without secrets) or `off`.
        arguments: AuditedArguments = AuditedArguments::Hash, live;
        /// Seconds that lines are kept; 0 keeps them for ever.
        retention: u64 [onetool_config::Shape::Count(0, onetool_config::MAX_COUNT)] = 90 * 24 * 3600, live;
    }
}

pub const AUDIT: Section<AuditKeys> = Section::new("audit");

/// The settings of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    pub enabled: bool,
    pub arguments: AuditedArguments,
    pub settings: AuditSettings,
}

impl AuditOptions {
    pub fn read(reader: &mut Reader) -> Self {
        let keys = reader.read(&AUDIT);
        Self {
            enabled: keys.enabled,
            arguments: keys.arguments,
            settings: AuditSettings { retention: Duration::from_secs(keys.retention) },
        }
    }
}

/// Maximum length of recorded errors and arguments.
const SHOWN_CHARS: usize = 500;
const SHOWN_ARGUMENTS: usize = 4_000;

/// Records calls and runs without blocking.
#[derive(Clone)]
pub struct Auditor {
    pub log: Arc<AuditLog>,
    pub arguments: AuditedArguments,
}

impl Auditor {
    pub fn wants_arguments(&self) -> bool {
        self.log.is_on() && self.arguments == AuditedArguments::Full
    }

    pub fn wants_hashes(&self) -> bool {
        self.log.is_on() && self.arguments != AuditedArguments::Off
    }

    pub fn call(&self, outcome: &CallOutcome<'_>) {
        if !self.log.is_on() {
            return;
        }
        let (word, error) = match outcome.failure {
            None => ("ok", None),
            Some(error) => {
                let word = match error.kind {
                    ErrorKind::Denied => "denied",
                    ErrorKind::RateLimited { .. } => "limited",
                    _ => "error",
                };
                (word, Some(shortened(format!("{}: {}", error.exception(), error.message), SHOWN_CHARS)))
            }
        };
        self.log.record(AuditRecord {
            tool: Some(outcome.name.to_string()),
            arguments_hash: outcome.arguments_hash.map(str::to_owned),
            arguments: outcome.arguments.filter(|_| self.wants_arguments()).map(|text| hidden(text, SHOWN_ARGUMENTS)),
            error,
            approval: outcome.approval.map(|approval| approval.name().to_owned()),
            duration_ms: Some(outcome.duration.as_secs_f64() * 1e3),
            ..of(AuditEvent::Call, word, outcome.ctx)
        });
    }

    pub fn run(&self, outcome: &RunOutcome<'_>) {
        if !self.log.is_on() {
            return;
        }
        let first_line = || outcome.text.lines().next().unwrap_or_default().to_owned();
        let word = if outcome.is_error { "error" } else { "ok" };
        let hash = || blake3::hash(outcome.command.as_bytes()).to_hex().to_string();
        self.log.record(AuditRecord {
            arguments_hash: self.wants_hashes().then(hash),
            arguments: self.wants_arguments().then(|| hidden(outcome.command, SHOWN_ARGUMENTS)),
            error: outcome.is_error.then(|| shortened(first_line(), SHOWN_CHARS)),
            duration_ms: Some(outcome.duration.as_secs_f64() * 1e3),
            ..of(AuditEvent::Run, word, outcome.ctx)
        });
    }
}

fn of(event: AuditEvent, outcome: &str, ctx: &CallContext) -> AuditRecord {
    let who = &ctx.requester;
    AuditRecord {
        principal: who.principal.clone(),
        client: who.client.clone(),
        door: Some(who.door.name().to_owned()),
        run: Some(ctx.run_id.to_string()),
        ..AuditRecord::new(event, outcome)
    }
}

fn hidden(text: &str, limit: usize) -> String {
    shortened(text.chars().take(limit + 1).collect(), limit)
}

fn shortened(text: String, limit: usize) -> String {
    let text = crate::log::without_secrets(text);
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
