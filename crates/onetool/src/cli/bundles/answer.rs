//! Input and output of the commands: JSON bodies in; tables, sentences and JSON out.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use onetool_state::bundles::Enabled;
use serde::Serialize;
use serde_json::Value as Json;

use super::Outcome;
use crate::cli::table::{OutputArgs, Page, Tone, print_json};
use onetool_http::rest::{BundlePage, BundleReply, ToolPage, ToolReply};

/// Maximum size of a body, in bytes; the store allows less.
const MAX_INPUT: u64 = 16 << 20;

/// The output of a command, for people and as JSON.
pub(super) struct Answer {
    json: Json,
    shown: Shown,
    /// An additional note, on stderr.
    note: Option<String>,
}

enum Shown {
    Table {
        heading: &'static [&'static str],
        rows: Vec<Row>,
    },
    Sentence(String),
    /// Everything has already been written.
    Nothing,
    Json(Json),
}

pub(super) type Row = Vec<(Tone, String)>;

/// A table for people, and the JSON it is made from.
pub(super) struct Table {
    heading: &'static [&'static str],
    rows: Vec<Row>,
    next: Option<String>,
}

impl Answer {
    pub(super) fn table(json: &impl Serialize, table: Table) -> Self {
        let note = table.next.map(|token| format!("more: --page-token {token}"));
        Self { json: to_json(json), shown: Shown::Table { heading: table.heading, rows: table.rows }, note }
    }

    pub(super) fn sentence(json: &impl Serialize, sentence: String) -> Self {
        Self { json: to_json(json), shown: Shown::Sentence(sentence), note: None }
    }

    /// For a command that has already written its output.
    pub(super) fn nothing() -> Self {
        Self { json: Json::Null, shown: Shown::Nothing, note: None }
    }

    /// A document that is shown as JSON to everyone.
    pub(super) fn document(json: &impl Serialize) -> Self {
        let json = to_json(json);
        Self { shown: Shown::Json(json.clone()), json, note: None }
    }

    /// The whole for programs, and the relevant part for people.
    pub(super) fn value(json: &impl Serialize, value: Json) -> Self {
        Self { json: to_json(json), shown: Shown::Json(value), note: None }
    }

    pub(super) fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    /// The steps of a test, one per line for people.
    pub(super) fn steps(json: &impl Serialize, rows: Vec<Row>) -> Self {
        let shown = Shown::Table { heading: &["STEP", "STATE", "MESSAGE"], rows };
        Self { json: to_json(json), shown, note: None }
    }
}

impl Answer {
    /// A failed test is shown like any other answer, and fails the command.
    fn code(&self) -> ExitCode {
        let is_failed = self.json.get("steps").is_some() && self.json.get("ok") == Some(&Json::Bool(false));
        if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn to_json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

/// Prints the outcome of a command. An error goes to stderr, and also to stdout as JSON if JSON is requested.
pub(super) fn show(outcome: Outcome, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            let reply = error.reply();
            if output.is_json() {
                print_json(&to_json(&reply))?;
            }
            eprintln!("error: {}", reply.error.message);
            if let Some(hint) = &reply.error.hint {
                eprintln!("hint: {hint}");
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    if matches!(answer.shown, Shown::Nothing) {
        return Ok(ExitCode::SUCCESS);
    }
    if output.is_json() {
        print_json(&answer.json)?;
        return Ok(answer.code());
    }
    let code = answer.code();
    match answer.shown {
        Shown::Nothing => {}
        Shown::Json(json) => print_json(&json)?,
        Shown::Sentence(sentence) => Page::new().put(Tone::Plain, &sentence).end_line().print()?,
        Shown::Table { heading, rows } => {
            if rows.is_empty() {
                eprintln!("nothing found");
            } else {
                Page::new().table(heading, &rows).print()?;
            }
        }
    }
    if let Some(note) = answer.note {
        eprintln!("{note}");
    }
    Ok(code)
}

fn state(enabled: Enabled) -> (Tone, String) {
    let word = if bool::from(enabled) { "enabled" } else { "disabled" };
    (Tone::of_state(word), word.to_owned())
}

pub(super) fn bundles_table(page: &BundlePage) -> Table {
    let row = |bundle: &BundleReply| {
        let text = if bundle.description.is_empty() { &bundle.display_name } else { &bundle.description };
        let text = bundle.disabled_reason.as_ref().filter(|_| bundle.is_enabled).unwrap_or(text);
        vec![
            (Tone::Strong, bundle.slug.clone()),
            state((bundle.is_enabled && bundle.disabled_reason.is_none()).into()),
            (Tone::Plain, bundle.tool_count.to_string()),
            (Tone::Faint, bundle.bundle_id.clone()),
            (Tone::Plain, text.clone()),
        ]
    };
    Table {
        heading: &["BUNDLE", "STATE", "TOOLS", "ID", "DESCRIPTION"],
        rows: page.bundles.iter().map(row).collect(),
        next: page.next_page_token.clone(),
    }
}

pub(super) fn tools_table(page: &ToolPage, slug_of: impl Fn(&str) -> String) -> Table {
    let row = |tool: &ToolReply| {
        let text = tool.disabled_reason.as_ref().unwrap_or(&tool.description);
        vec![
            (Tone::Plain, slug_of(&tool.bundle_id)),
            (Tone::Strong, tool.slug.clone()),
            (Tone::Plain, tool.version.clone()),
            state((tool.is_enabled && tool.disabled_reason.is_none()).into()),
            (Tone::Plain, text.clone()),
        ]
    };
    Table {
        heading: &["BUNDLE", "TOOL", "VERSION", "STATE", "DESCRIPTION"],
        rows: page.tools.iter().map(row).collect(),
        next: page.next_page_token.clone(),
    }
}

/// Reads JSON from a file, or from standard input for `-`.
pub(super) fn read_json(file: &Path) -> anyhow::Result<Json> {
    let mut text = String::new();
    if file.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            eprintln!("reading JSON from the terminal; Ctrl-D ends it");
        }
        std::io::stdin().take(MAX_INPUT).read_to_string(&mut text).context("standard input")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
        opened.take(MAX_INPUT).read_to_string(&mut text).with_context(|| file.display().to_string())?;
    }
    serde_json::from_str(&text).with_context(|| format!("{}: invalid JSON", file.display()))
}
