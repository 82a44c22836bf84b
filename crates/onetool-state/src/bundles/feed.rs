//! Reads bundles from the feed of document changes, and checks each document.
//!
//! `<bundle id>/bundle` is a bundle, `<bundle id>/<tool id>` a tool, `builtin` the switches. An invalid document is set
//! aside and reported; one that another build may understand is left alone and reported.

use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::interface::{self, Changes, Collection, Document, Documents, Key};
use crate::wait;

use super::builtin::Switches;
use super::limits::{Limits, SWITCHES_BYTES};
use super::model::{Bundle, KNOWN_TYPES, Tool};
use super::names::{BundleId, ToolId};
use super::schema_form::Outline;
use super::state::ToolEntry;

/// One difference between the stored and the known state.
#[derive(Debug)]
pub(crate) enum Change {
    Bundle {
        bundle: Box<Bundle>,
        text: String,
    },
    BundleGone(BundleId),
    Tool(Arc<ToolEntry>),
    ToolGone(ToolId),
    Switches(Switches),
    Problem {
        path: PathBuf,
        message: String,
    },
    /// A problem with this document is resolved.
    Fine(PathBuf),
}

/// What a key refers to.
enum Subject {
    Bundle(BundleId),
    Tool(BundleId, ToolId),
    Switches,
    /// Within a bundle, but neither a bundle nor a tool.
    Unknown,
    /// Not ours at all.
    Other,
}

/// Why a document is ignored.
enum Refusal {
    /// Left in place, and reported.
    Skipped(String),
    /// Set aside, and reported.
    Broken(String),
}

const BUNDLE: &str = "bundle";
const SWITCHES: &str = "builtin";

fn key(text: &str) -> Option<Key> {
    // Ids are plain text, so this always succeeds.
    text.parse().ok()
}

pub(crate) fn bundle_key(bundle: BundleId) -> Option<Key> {
    key(&format!("{bundle}/{BUNDLE}"))
}

pub(crate) fn tool_key(bundle: BundleId, tool: ToolId) -> Option<Key> {
    key(&format!("{bundle}/{tool}"))
}

pub(crate) fn switches_key() -> Option<Key> {
    key(SWITCHES)
}

fn subject(key: &Key) -> Subject {
    let Some(folder) = key.folder() else {
        return if key.name() == SWITCHES { Subject::Switches } else { Subject::Other };
    };
    let Ok(bundle) = folder.parse::<BundleId>() else { return Subject::Other };
    if key.name() == BUNDLE {
        return Subject::Bundle(bundle);
    }
    key.name().parse::<ToolId>().map_or(Subject::Unknown, |tool| Subject::Tool(bundle, tool))
}

/// The currently stored switches.
pub(crate) fn switches(documents: &dyn Documents) -> Option<Switches> {
    let stored = wait(documents.get(Collection::BUNDLES, &switches_key()?)).ok()??;
    serde_json::from_slice(&stored.content).ok()
}

/// Reads the changes of a feed. Bundles come before their tools.
pub(crate) fn read(documents: &dyn Documents, limits: &Limits, feed: Changes) -> Vec<Change> {
    let mut changes = Vec::new();
    for change in feed.changes {
        match change {
            interface::Change::Put(document) => read_document(documents, limits, document, &mut changes),
            interface::Change::Gone(key) => changes.extend(gone(&key)),
            interface::Change::Unreadable { key, place, reason } => {
                changes.extend(key.as_ref().and_then(gone));
                changes.push(report(PathBuf::from(place), reason));
            }
        }
    }
    changes.sort_by_key(|change| !matches!(change, Change::Bundle { .. } | Change::BundleGone(_)));
    changes
}

fn gone(key: &Key) -> Option<Change> {
    match subject(key) {
        Subject::Bundle(bundle) => Some(Change::BundleGone(bundle)),
        Subject::Tool(_, tool) => Some(Change::ToolGone(tool)),
        Subject::Switches => Some(Change::Switches(Switches::default())),
        Subject::Unknown | Subject::Other => None,
    }
}

fn read_document(documents: &dyn Documents, limits: &Limits, document: Document, changes: &mut Vec<Change>) {
    let Document { key, content, .. } = document;
    let place = PathBuf::from(documents.place(Collection::BUNDLES, &key));
    let outcome = match subject(&key) {
        Subject::Bundle(id) => read_bundle(id, content, limits),
        Subject::Tool(bundle, id) => read_tool(bundle, id, content, limits),
        Subject::Switches => parse::<Switches>(content, SWITCHES_BYTES).map(|(switches, _)| Change::Switches(switches)),
        Subject::Unknown => {
            changes.push(report(place, "its name is not a tool id and .json; it is left alone".to_owned()));
            return;
        }
        Subject::Other => return,
    };
    match outcome {
        Ok(change) => {
            changes.push(change);
            changes.push(Change::Fine(place));
        }
        Err(refusal) => {
            // Invalid switches leave the old ones in effect: a disabled tool must not be enabled by accident.
            if !matches!(subject(&key), Subject::Switches) {
                changes.extend(gone(&key));
            }
            let message = match refusal {
                Refusal::Skipped(reason) => reason,
                Refusal::Broken(reason) => match wait(documents.set_aside(Collection::BUNDLES, &key)) {
                    Ok(Some(target)) => format!("{reason}; set aside as {target}"),
                    Ok(None) | Err(_) => reason,
                },
            };
            changes.push(report(place, message));
        }
    }
}

fn report(path: PathBuf, message: String) -> Change {
    tracing::warn!(file = %path.display(), %message, "a bundle file does not count");
    Change::Problem { path, message }
}

fn read_bundle(id: BundleId, content: Vec<u8>, limits: &Limits) -> Result<Change, Refusal> {
    let (mut bundle, text) = parse::<Bundle>(content, limits.file_bytes)?;
    if bundle.id != id {
        return Err(Refusal::Broken(format!("its bundleID {} is not its folder's name", bundle.id)));
    }
    bundle.is_built_in = false;
    Ok(Change::Bundle { bundle: Box::new(bundle), text })
}

fn read_tool(bundle: BundleId, id: ToolId, content: Vec<u8>, limits: &Limits) -> Result<Change, Refusal> {
    let (mut tool, text) = parse::<Tool<Outline>>(content, limits.file_bytes)?;
    if tool.id != id || tool.bundle_id != bundle {
        return Err(Refusal::Broken("its toolID or bundleID is not what its path says".to_owned()));
    }
    tool.is_built_in = false;
    Ok(Change::Tool(Arc::new(ToolEntry::new(tool, text, None))))
}

fn parse<T: DeserializeOwned>(content: Vec<u8>, limit: usize) -> Result<(T, String), Refusal> {
    if content.len() > limit {
        return Err(Refusal::Skipped(format!("it is larger than {limit} bytes")));
    }
    let text = String::from_utf8(content).map_err(|_| Refusal::Broken("it is not UTF-8".to_owned()))?;
    let value = serde_json::from_str(&text).map_err(|error| match foreign_type(&text) {
        Some(kind) => Refusal::Skipped(format!("its type '{kind}' is not known to this build")),
        None => Refusal::Broken(error.to_string()),
    })?;
    Ok((value, text))
}

/// The type of a tool that another build may understand: such a document is not invalid.
fn foreign_type(text: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let kind = json.get("type")?.as_str()?;
    (!KNOWN_TYPES.contains(&kind)).then(|| kind.to_owned())
}
