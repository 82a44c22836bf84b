//! `onetool audit`: shows the audit log.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use onetool_state::audit::{AuditEvent, AuditFilter, AuditRecord, Follower, OUTCOMES, last, read_all};
use onetool_state::interface::Trail;

use super::Location;
use super::table::{OutputArgs, Page, Tone};
use super::tokens::duration;

const EXAMPLES: &str = "\
Examples:
  onetool audit tail
  onetool audit tail --follow
  onetool audit search --principal ana --tool 'github.*' --since 24h
  onetool audit search --event auth --json
  onetool audit export --since 30d > audit.jsonl";

/// Poll interval of `--follow`.
const LOOK: Duration = Duration::from_millis(300);

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Show what happened last
    #[command(after_help = "Examples:\n  onetool audit tail -n 100\n  onetool audit tail --follow --json")]
    Tail(TailArgs),
    /// Search in what happened, the newest first
    #[command(
        after_help = "Examples:\n  onetool audit search --outcome denied --since 7d\n  onetool audit search github"
    )]
    Search(SearchArgs),
    /// Print everything as JSON lines, the oldest first
    #[command(
        after_help = "Examples:\n  onetool audit export --since 30d\n  onetool audit export --output audit.jsonl"
    )]
    Export(ExportArgs),
}

#[derive(Args)]
struct TailArgs {
    /// How many lines
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,

    /// Go on showing what happens
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct SearchArgs {
    /// Anywhere in the line
    text: Option<String>,

    /// How many lines
    #[arg(short = 'n', long, default_value_t = 100)]
    limit: usize,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct ExportArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// A file instead of standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct FilterArgs {
    /// Whose token it was
    #[arg(long)]
    principal: Option<String>,

    /// A tool, by pattern
    #[arg(long)]
    tool: Option<String>,

    /// run, call, auth, admin or lost
    #[arg(long)]
    event: Option<String>,

    /// How it ended
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(OUTCOMES))]
    outcome: Option<String>,

    /// What the client calls itself, or a part of it
    #[arg(long)]
    client: Option<String>,

    /// The id of a run
    #[arg(long)]
    run: Option<String>,

    /// From when on: a time (2026-11-16T12:00:00Z), or how long ago (24h)
    #[arg(long, value_parser = time)]
    since: Option<DateTime<Utc>>,

    /// Until when
    #[arg(long, value_parser = time)]
    until: Option<DateTime<Utc>>,
}

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    let ago = duration(text).map_err(|_| "expected a time like 2026-11-16T12:00:00Z, or how long ago, like 24h")?;
    let ago = chrono::TimeDelta::from_std(ago).map_err(|_| "that is too long ago")?;
    Utc::now().checked_sub_signed(ago).ok_or_else(|| "that is too long ago".to_owned())
}

impl FilterArgs {
    fn filter(self, text: Option<String>) -> anyhow::Result<AuditFilter> {
        let event = self.event.map(|name| {
            AuditEvent::named(&name)
                .with_context(|| format!("unknown event '{name}'; expected run, call, auth, admin or lost"))
        });
        let tool = self.tool.map(|pattern| {
            let glob = globset::Glob::new(&pattern).with_context(|| format!("'{pattern}' is not a pattern"))?;
            anyhow::Ok(glob.compile_matcher())
        });
        Ok(AuditFilter {
            principal: self.principal,
            tool: tool.transpose()?,
            event: event.transpose()?,
            outcome: self.outcome,
            client: self.client,
            run: self.run,
            since: self.since,
            until: self.until,
            text,
        })
    }
}

pub async fn main(args: AuditArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let log = app.audit();
    let Some((trail, settings)) = log.trail() else {
        eprintln!("error: the audit log is off\nhint: set audit.enabled to true");
        return Ok(ExitCode::FAILURE);
    };
    let (trail, horizon) = (&**trail, settings.horizon());
    match args.command {
        AuditCommand::Tail(args) => tail(trail, horizon, args).await?,
        AuditCommand::Search(args) => {
            let filter = args.filter.filter(args.text)?;
            let found = last(trail, &filter, horizon, args.limit).await?;
            show(&found, &args.output)?;
            if found.is_empty() {
                eprintln!("nothing of that kind happened");
            }
        }
        AuditCommand::Export(args) => {
            let filter = args.filter.filter(None)?;
            let mut out: Box<dyn std::io::Write + Send> = match &args.output {
                Some(path) => {
                    let file =
                        std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                    Box::new(std::io::BufWriter::new(file))
                }
                None => Box::new(std::io::BufWriter::new(std::io::stdout())),
            };
            let mut written = Ok(());
            read_all(trail, &filter, horizon, &mut |record| {
                if written.is_ok() {
                    written = json(&record).and_then(|line| Ok(writeln!(out, "{line}")?));
                }
            })
            .await?;
            written?;
            out.flush()?;
        }
    }
    app.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

async fn tail(trail: &dyn Trail, horizon: DateTime<Utc>, args: TailArgs) -> anyhow::Result<()> {
    let filter = args.filter.filter(None)?;
    // The position to continue from is determined before the last lines are shown, so that none is missed.
    let follower = match args.follow {
        true => Some(Follower::at_end(trail).await?),
        false => None,
    };
    let mut found = last(trail, &filter, horizon, args.lines).await?;
    found.reverse();
    show(&found, &args.output)?;
    let Some(mut follower) = follower else { return Ok(()) };
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
        show(&follower.added(trail, &filter, horizon).await?, &args.output)?;
    }
}

fn json(record: &AuditRecord) -> anyhow::Result<String> {
    Ok(serde_json::to_string(record)?)
}

fn show(records: &[AuditRecord], output: &OutputArgs) -> anyhow::Result<()> {
    if output.is_json() {
        for record in records {
            super::table::print(&format!("{}\n", json(record)?))?;
        }
        return Ok(());
    }
    let rows: Vec<_> = records.iter().map(row).collect();
    let mut page = Page::new();
    page.table(&[], &rows);
    page.print()
}

fn row(record: &AuditRecord) -> Vec<(Tone, String)> {
    let tone = match record.outcome.as_str() {
        "ok" => Tone::Good,
        "error" => Tone::Bad,
        _ => Tone::Doubtful,
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut detail = Vec::new();
    detail.extend(record.approval.as_ref().map(|approval| format!("approval {approval}")));
    detail.extend(record.error.clone());
    detail
        .extend(record.arguments.clone().or_else(|| record.arguments_hash.as_ref().map(|hash| hash[..12].to_owned())));
    detail.extend(record.address.clone());
    detail.extend(record.count.map(|count| format!("{count} lines were lost")));
    vec![
        (Tone::Faint, record.ts.format("%Y-%m-%d %H:%M:%S").to_string()),
        (Tone::Strong, record.principal.clone().unwrap_or_else(|| "-".to_owned())),
        (Tone::Plain, text(&record.door)),
        (Tone::Plain, record.tool.clone().unwrap_or_else(|| record.event.name().to_owned())),
        (tone, record.outcome.clone()),
        (Tone::Plain, record.duration_ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default()),
        (Tone::Faint, detail.join("; ").replace('\n', " ")),
    ]
}
