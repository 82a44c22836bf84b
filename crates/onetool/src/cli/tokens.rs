//! `onetool tokens`: manages access to this server.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use onetool_sdk::EntryPoint;
use onetool_state::access_tokens::{NewToken, TokenRecord};
use onetool_state::audit::{AuditEvent, AuditLog, AuditRecord};
use serde_json::{Value as Json, json};

use super::Location;
use super::table::{OutputArgs, Page, Tone, print, print_json};

const EXAMPLES: &str = "\
Examples:
  onetool tokens create ana
  onetool tokens create ci --scope invoke --group readers --expires 30d
  onetool tokens list
  onetool tokens revoke ana";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TokensArgs {
    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Subcommand)]
enum TokensCommand {
    /// Make a token and print it; it is not kept and cannot be shown again
    #[command(
        after_help = "Examples:\n  onetool tokens create ana\n  onetool tokens create ci --scope invoke --expires 30d --json"
    )]
    Create(CreateArgs),
    /// List tokens
    #[command(after_help = "Examples:\n  onetool tokens list\n  onetool tokens list --json")]
    List(OutputArgs),
    /// Revoke a token; every server follows within a second
    #[command(after_help = "Examples:\n  onetool tokens revoke ana")]
    Revoke(RevokeArgs),
}

#[derive(Args)]
struct CreateArgs {
    /// Whose it is: letters, digits, '-', '_' and '.'
    name: String,

    /// What it allows: read, invoke or admin; may be given more than once [default: read, invoke]
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,

    /// A group that it belongs to (security.groups); may be given more than once
    #[arg(long = "group", value_name = "GROUP", value_delimiter = ',')]
    groups: Vec<String>,

    /// When it expires, from now: 30d, 12h, 45m, 90s [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct RevokeArgs {
    /// Its name, or its id
    token: String,

    #[command(flatten)]
    output: OutputArgs,
}

/// Parses `30d`, `12h`, `45m`, `90s` or plain seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err("expected a number and a unit, such as 30d, 12h, 45m or 90s".to_owned()),
    };
    let count: u64 = text[..text.len() - unit.len()].parse().map_err(|_| "expected a number first".to_owned())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| "that is too long".to_owned())
}

pub async fn main(args: TokensArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let (tokens, audit) = (app.tokens(), app.audit());
    let answer = tokio::task::spawn_blocking(move || answer(&tokens, &audit, args.command)).await;
    app.shutdown().await;
    answer?
}

/// Records an action of the command line in the audit log.
pub(super) fn audited<T, E: std::fmt::Display>(audit: &AuditLog, what: String, done: Result<T, E>) -> Result<T, E> {
    let error = done.as_ref().err().map(ToString::to_string);
    audit.record(AuditRecord {
        door: Some(EntryPoint::Local.name().to_owned()),
        tool: Some(what),
        error: error.clone(),
        ..AuditRecord::new(AuditEvent::Admin, if error.is_some() { "error" } else { "ok" })
    });
    done
}

fn answer(
    tokens: &onetool_state::access_tokens::AccessTokens,
    audit: &AuditLog,
    command: TokensCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        TokensCommand::Create(args) => {
            let scopes =
                if args.scopes.is_empty() { vec!["read".to_owned(), "invoke".to_owned()] } else { args.scopes };
            let new = NewToken { name: args.name, scopes, groups: args.groups, expires_in: args.expires };
            let what = format!("onetool tokens create {}", new.name);
            let (token, record) = audited(audit, what, tokens.create(new))?;
            if args.output.is_json() {
                let mut shown = row(&record);
                shown["token"] = json!(token);
                print_json(&shown)?;
            } else {
                print(&format!("{token}\n"))?;
                eprintln!("this is the token of '{}'; it is not kept and cannot be shown again", record.name);
            }
        }
        TokensCommand::List(output) => {
            let all = tokens.list()?;
            if output.is_json() {
                print_json(&all.iter().map(|record| row(record)).collect())?;
                return Ok(ExitCode::SUCCESS);
            }
            let date = |at: Option<DateTime<Utc>>, none: &str| {
                at.map_or_else(|| none.to_owned(), |at| at.format("%Y-%m-%d %H:%M").to_string())
            };
            let rows: Vec<_> = all
                .iter()
                .map(|record| {
                    let is_expired = record.is_expired(Utc::now());
                    vec![
                        (Tone::Strong, record.name.clone()),
                        (Tone::Plain, record.scopes.join(", ")),
                        (Tone::Plain, record.groups.join(", ")),
                        (if is_expired { Tone::Bad } else { Tone::Plain }, date(record.expires_at, "never")),
                        (Tone::Plain, date(record.last_used_at, "never")),
                        (Tone::Faint, record.id.clone()),
                    ]
                })
                .collect();
            let mut page = Page::new();
            if !rows.is_empty() {
                page.table(&["NAME", "SCOPES", "GROUPS", "EXPIRES", "LAST USED", "ID"], &rows);
            }
            page.print()?;
            if rows.is_empty() {
                eprintln!("there are no named tokens; `onetool tokens create NAME` makes one");
            }
        }
        TokensCommand::Revoke(RevokeArgs { token, output }) => {
            let revoked = audited(audit, format!("onetool tokens revoke {token}"), tokens.revoke(&token))?;
            if output.is_json() {
                print_json(&row(&revoked))?;
            } else {
                eprintln!("revoked {}", revoked.name);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(record: &TokenRecord) -> Json {
    json!({
        "id": record.id,
        "name": record.name,
        "scopes": record.scopes,
        "groups": record.groups,
        "createdAt": record.created_at,
        "expiresAt": record.expires_at,
        "lastUsedAt": record.last_used_at,
        "isExpired": record.is_expired(Utc::now()),
    })
}
