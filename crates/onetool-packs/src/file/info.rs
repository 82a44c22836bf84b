//! `file.info`: describes a path.

use std::io::Read as _;

use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::Files;
use super::content::{Content, Newline, hash_text};
use super::list::kind;
use super::nearby;
use super::place::{self, Place, Purpose, io_error};
use crate::blocking::{Stop, blocking};

const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InfoInput {
    /// The file, folder or link, relative to the project.
    path: String,
    /// False leaves out what only the content tells, and tells the time of change as a number too.
    #[serde(default = "yes")]
    content: bool,
    /// Whether what a link leads to is described instead of the link.
    #[serde(default)]
    follow: bool,
}

fn yes() -> bool {
    true
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "info",
        "Tell what a path is: type, size, time of change, and for text its lines, hash and line endings.\n\n\
         A link is described itself, with what it leads to.",
        move |input: InfoInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                // Without the content the work is small for any file.
                if !input.content && nearby::is_known(&files.settings.roots) {
                    return info(&files, &input, &Stop::of(&ctx));
                }
                blocking(&ctx, move |stop| {
                    nearby::find_out(&files.settings.roots);
                    info(&files, &input, stop)
                })
                .await
            }
        },
    )
    .with_example("file.info(path=\"README.md\")")
    .with_returns(
        "dict",
        "path, type, size, modified, mode; of files hash and encoding; of text lines, line_endings, bom, final_newline",
    )
}

fn info(files: &Files, input: &InfoInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    let place = if input.follow {
        place::existing(&files.settings, &input.path, Purpose::Read)?
    } else {
        place::entry(&files.settings, &input.path, Purpose::Read)?
    };
    let metadata = place.metadata().map_err(|error| io_error(&place.shown, &error))?;
    let mut answer = json!({"path": place.shown, "type": kind(metadata.file_type()), "size": metadata.len()});
    if let Ok(modified) = metadata.modified() {
        let modified = chrono::DateTime::<chrono::Utc>::from(modified.into_std());
        answer["modified"] = json!(modified.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
        if !input.content {
            answer["mtime"] = json!(modified.timestamp_micros() as f64 / 1e6);
        }
    }
    #[cfg(unix)]
    {
        answer["mode"] = json!(mode(&metadata));
    }
    if metadata.is_symlink() {
        let target = place.dir.read_link_contents(&place.relative).map_err(|error| io_error(&place.shown, &error))?;
        answer["leads_to"] = json!(target.display().to_string());
    } else if metadata.is_file() && input.content {
        describe_content(files, &place, &mut answer, stop)?;
    }
    Ok(ToolResult::Json(answer))
}

#[cfg(unix)]
fn mode(metadata: &cap_std::fs::Metadata) -> String {
    use cap_std::fs::MetadataExt as _;
    format!("{:04o}", metadata.mode() & 0o7777)
}

fn describe_content(files: &Files, place: &Place, answer: &mut Json, stop: &Stop) -> Result<(), ToolError> {
    let mut file = place.open_file()?;
    let mut hasher = blake3::Hasher::new();
    let mut start = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let max_text = files.settings.max_write_bytes;
    loop {
        stop.check()?;
        let count = file.read(&mut chunk).map_err(|error| io_error(&place.shown, &error))?;
        if count == 0 {
            break;
        }
        hasher.update(&chunk[..count]);
        if start.len() <= max_text {
            start.extend_from_slice(&chunk[..count]);
        }
    }
    answer["hash"] = json!(hash_text(&hasher.finalize()));
    if start.len() > max_text {
        answer["encoding"] = json!("not looked at: too large");
        return Ok(());
    }
    match Content::from_bytes(&place.shown, start) {
        Ok(content) => {
            let text = &content.text;
            answer["encoding"] = json!("utf-8");
            answer["lines"] = json!(text.split_inclusive('\n').count());
            answer["line_endings"] = json!(match (Newline::only(text), Newline::dominant(text)) {
                (Some(Newline::Lf), _) => "lf",
                (Some(Newline::Crlf), _) => "crlf",
                (None, Some(_)) => "mixed",
                (None, None) => "none",
            });
            answer["bom"] = json!(content.bom);
            answer["final_newline"] = json!(text.ends_with('\n'));
        }
        Err(_) => answer["encoding"] = json!("binary"),
    }
    Ok(())
}
