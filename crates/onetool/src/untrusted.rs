//! Shows what a folder would run if it were trusted, before the user is asked.
//!
//! The text comes from a repository: each line is clipped by itself and cannot change how the others read.

use std::path::{Path, PathBuf};

use onetool_config::{ConfigPlaces, FileTrust, TrustRecord, load_trusted};
use onetool_proxy::{ServerKind, ServerSettings};
use onetool_worker::WorkerSettings;
use serde_json::{Value as Json, json};

use crate::config::{self, Resolved};

/// Maximum number of characters per line.
const MAX_LINE: usize = 300;
/// Maximum number of lines in a question; `onetool trust` shows all.
const MAX_ASKED: usize = 30;

/// The disabled parts of a folder.
pub struct Untrusted {
    folder: PathBuf,
    record: TrustRecord,
    /// One line each.
    parts: Vec<String>,
}

impl Untrusted {
    /// `None` if everything is in effect, or nothing needs trust.
    pub fn of(places: &ConfigPlaces) -> Option<Self> {
        if FileTrust::decide(places).is_full() {
            return None;
        }
        let now = config::resolve(places, config::load(places));
        let then = config::resolve(places, load_trusted(places));
        let parts = parts(&now, &then);
        let record = TrustRecord::in_folder(places.global.as_deref());
        (!parts.is_empty()).then(|| Self { folder: places.project.clone(), record, parts })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Trusts the folder from now on.
    pub fn trust(&self) -> std::io::Result<()> {
        self.record.add(&self.folder)
    }

    /// The question to a client's user.
    pub fn question(&self) -> Json {
        json!({
            "mode": "form",
            "message": format!("{}\nTrust this folder?", self.text()),
            "requestedSchema": {
                "type": "object",
                "properties": {"trust": {"type": "boolean", "title": "Trust this folder", "default": false}},
                "required": ["trust"]
            }
        })
    }

    /// The disabled parts, as text for the user.
    pub fn text(&self) -> String {
        let folder = clipped(&self.folder.display().to_string());
        let mut lines = vec![format!(
            "These parts of {folder} came with its repository, or from another user. They are off until you trust it:"
        )];
        lines.extend(self.parts.iter().take(MAX_ASKED).map(|part| format!("  {part}")));
        if self.parts.len() > MAX_ASKED {
            lines.push(format!("  … and {} more; `onetool trust` lists all of them", self.parts.len() - MAX_ASKED));
        }
        lines.join("\n")
    }
}

/// Anything but a clear yes is a no.
pub fn is_yes(answer: &Json) -> bool {
    answer.get("action").and_then(Json::as_str) == Some("accept")
        && answer.pointer("/content/trust") == Some(&Json::Bool(true))
}

fn parts(now: &Resolved, then: &Resolved) -> Vec<String> {
    let redacted = |text: String| clipped(&then.run.redactor.owned(text));
    let is_new = |server: &&ServerSettings| !now.servers.iter().any(|known| known.kind == server.kind);
    let mut parts: Vec<String> = then.servers.iter().filter(is_new).map(|server| redacted(of_server(server))).collect();
    // The settings after trusting, checked against the current trust.
    let places = WorkerSettings { trust: now.workers.trust.clone(), ..then.workers.clone() };
    let files = onetool_worker::untrusted_files(&places);
    parts.extend(files.iter().map(|file| redacted(format!("{}: Python, runs outside the sandbox", shown(now, file)))));
    for note in &now.notes {
        if let Some(what) = &note.facts.untrusted {
            parts.push(redacted(format!("{}: {what}", shown(now, Path::new(&note.subject)))));
        }
    }
    parts
}

fn of_server(server: &ServerSettings) -> String {
    match &server.kind {
        ServerKind::Stdio { command, args, .. } => {
            let words: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
            format!("server {}: runs {}", server.name, words.join(" "))
        }
        ServerKind::Http { url, .. } => {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            format!("server {}: connects to {url}", server.name)
        }
    }
}

/// A file's path relative to the project.
fn shown(settings: &Resolved, file: &Path) -> String {
    file.strip_prefix(&settings.folder).unwrap_or(file).display().to_string()
}

/// One line, whatever the text contains, with a mark where it is clipped.
fn clipped(text: &str) -> String {
    let visible = |c: char| {
        let is_deceptive = matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        );
        if c.is_control() || is_deceptive { '\u{fffd}' } else { c }
    };
    let length = text.chars().count();
    if length <= MAX_LINE {
        return text.chars().map(visible).collect();
    }
    // The end of a command line is as informative as its beginning.
    let half = MAX_LINE / 2;
    let start: String = text.chars().take(half).map(visible).collect();
    let end: String = text.chars().skip(length - half).map(visible).collect();
    format!("{start} … [{} characters] … {end}", length - 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_shows_its_end() {
        let line = clipped(&format!("sh -c {}\n\u{202e}; rm -rf ~", "x".repeat(2_000)));
        assert!(line.starts_with("sh -c xxx") && line.ends_with("\u{fffd}\u{fffd}; rm -rf ~"), "{line}");
        assert!(line.contains("… [1718 characters] …"), "{line}");
        assert!(line.chars().count() < MAX_LINE + 40);
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert!(is_yes(&json!({"action": "accept", "content": {"trust": true}})));
        for answer in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"trust": "true"}}),
            json!({"action": "accept", "content": {"trust": false}}),
            json!({"action": "decline", "content": {"trust": true}}),
            json!({"action": "cancel"}),
            json!("accept"),
        ] {
            assert!(!is_yes(&answer), "{answer}");
        }
    }
}
