//! `onetool bundles import` and `export`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indexmap::IndexMap;
use onetool_bundles::{ImportMode, OnConflict};
use onetool_http::rest::{self, ImportBody, ImportReply, ImportRequest};
use onetool_http::{ApiError, Bundles};

use super::Outcome;
use super::answer::Answer;
use crate::cli::table::OutputArgs;

/// Maximum size of a file; the configuration allows less.
const MAX_FILE: u64 = 128 << 20;

#[derive(Args)]
pub(super) struct ImportArgs {
    /// A file or an address; `-` reads standard input
    #[arg(required_unless_present = "curl", conflicts_with = "curl")]
    source: Option<String>,

    /// A curl command to make a tool of
    #[arg(long, value_name = "COMMAND")]
    curl: Option<String>,

    /// The bundle's slug [default: made of the document's title]
    #[arg(long)]
    slug: Option<String>,

    /// The version of its tools [default: v1]
    #[arg(long)]
    version: Option<String>,

    /// Only operations with this tag; repeatable
    #[arg(long, short, value_name = "TAG")]
    tag: Vec<String>,

    /// Only operations whose name or path fits, such as `GET /pets*`; repeatable
    #[arg(long, short, value_name = "PATTERN")]
    pattern: Vec<String>,

    /// Address of the API, instead of the one in the document
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// What to do with tools that exist already
    #[arg(long, value_enum, default_value_t = Conflict::Fail)]
    on_conflict: Conflict,

    /// Show what would be stored, and store nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Conflict {
    /// Store nothing
    Fail,
    /// Leave what is there
    Skip,
    /// Store under the next free version
    NewVersion,
}

#[derive(Args)]
pub(super) struct ExportArgs {
    /// The bundle's id or slug
    pub(super) bundle: String,

    /// The file to write [default: the slug and .zip]; `-` writes to standard output
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) format: OutputArgs,
}

impl ImportArgs {
    pub(super) fn prepare(self) -> anyhow::Result<(ImportRequest, OutputArgs)> {
        let mut body = ImportBody {
            slug: self.slug,
            version: self.version,
            tags: self.tag,
            patterns: self.pattern,
            base_url: self.base_url,
            on_conflict: Some(
                match self.on_conflict {
                    Conflict::Fail => "fail",
                    Conflict::Skip => "skip",
                    Conflict::NewVersion => "new-version",
                }
                .to_owned(),
            ),
            dry_run: self.dry_run,
            curl: self.curl,
            ..ImportBody::default()
        };
        if let Some(source) = self.source {
            if source.starts_with("http://") || source.starts_with("https://") {
                body.url = Some(source);
            } else {
                let bytes = read(&source)?;
                if bytes.starts_with(b"PK") {
                    let on_conflict = match self.on_conflict {
                        Conflict::Fail => OnConflict::Fail,
                        Conflict::Skip => OnConflict::Skip,
                        Conflict::NewVersion => OnConflict::NewVersion,
                    };
                    let mode = if self.dry_run { ImportMode::Show } else { ImportMode::Store };
                    let request = ImportRequest::Archive { bytes, slug: body.slug, on_conflict, mode };
                    return Ok((request, self.output));
                }
                let text =
                    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{source}: neither text nor an archive"))?;
                body.document = Some(serde_json::Value::from(text));
            }
        }
        Ok((ImportRequest::Document(Box::new(body)), self.output))
    }
}

fn read(source: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if source == "-" {
        std::io::stdin().take(MAX_FILE).read_to_end(&mut bytes).context("standard input")?;
    } else {
        let file = std::fs::File::open(source).with_context(|| source.to_owned())?;
        file.take(MAX_FILE).read_to_end(&mut bytes).with_context(|| source.to_owned())?;
    }
    Ok(bytes)
}

pub(super) async fn import(bundles: &Bundles, request: ImportRequest) -> Outcome {
    let reply = rest::import(bundles, request).await?;
    Ok(Answer::sentence(&reply, summary(&reply)).with_note(remarks(&reply)))
}

/// Summarizes an import in one line.
fn summary(reply: &ImportReply) -> String {
    let count = |outcome: &str| reply.tools.iter().filter(|tool| tool.outcome == outcome).count();
    let (created, newer, skipped) = (count("created"), count("newVersion"), count("skipped"));
    let verb = if reply.dry_run { "would get" } else { "got" };
    let plural = |number: usize| if number == 1 { "tool" } else { "tools" };
    let mut text = format!("{} {verb} {created} {}", reply.slug, plural(created));
    if newer > 0 {
        text.push_str(&format!(", {newer} under a new version"));
    }
    if skipped > 0 {
        text.push_str(&format!(", {skipped} skipped"));
    }
    text
}

/// How many tools are named per reason.
const NAMED: usize = 3;

/// Lists what is missing, one line per reason.
fn remarks(reply: &ImportReply) -> Option<String> {
    let mut reasons: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for one in &reply.unexpressed {
        reasons.entry(&one.reason).or_default().push(&one.what);
    }
    let mut lines: Vec<String> = reasons
        .iter()
        .map(|(reason, all)| {
            let more = all.len().saturating_sub(NAMED);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("not expressed: {}{more}: {reason}", all[..all.len().min(NAMED)].join(", "))
        })
        .collect();
    if !reply.missing_secrets.is_empty() {
        lines.push(format!("hint: set in secrets.yaml: {}", reply.missing_secrets.join(", ")));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

pub(super) fn export(bundles: &Bundles, bundle: &str, output: Option<&Path>) -> Outcome {
    let (slug, bytes) = rest::archive(bundles, bundle)?;
    let file = output.map_or_else(|| PathBuf::from(format!("{slug}.zip")), Path::to_owned);
    let failed = |error: std::io::Error| ApiError::conflict(format!("cannot write {}: {error}", file.display()));
    if file.as_os_str() == "-" {
        use std::io::Write as _;
        std::io::stdout().write_all(&bytes).map_err(failed)?;
        return Ok(Answer::nothing());
    }
    std::fs::write(&file, &bytes).map_err(failed)?;
    let json = serde_json::json!({"ok": true, "file": file, "bytes": bytes.len()});
    Ok(Answer::sentence(&json, format!("{slug} is in {} ({} bytes)", file.display(), bytes.len())))
}
