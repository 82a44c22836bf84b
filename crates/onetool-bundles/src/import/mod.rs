//! Imports API descriptions as bundles: OpenAPI, Postman collections, Arazzo workflows, `curl` commands.
//!
//! Reading is pure: it turns a document into drafts of tools, and lists everything that could not be expressed, with
//! the reason. Nothing is dropped silently. A secret in a document becomes a named secret, and its value is dropped.
//!
//! **Invariant:** documents are untrusted. References are followed within a budget, schemas that exceed their share are
//! cut, and reading a document never makes a request.

mod apply;
mod arazzo;
mod curl;
mod fetch;
mod naming;
mod openapi;
mod postman;
mod repair;
mod schemas;
mod settings;

use std::collections::BTreeSet;

use onetool_state::bundles::{BundleDraft, PackedDraft, Slug, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

pub use apply::{ImportMode, OnConflict, StoredBundle, StoredOutcome, StoredTool, store_bundle, store_document};
pub use settings::{IMPORTS, ImportKeys, ImportSettings};

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    OpenApi,
    Postman,
    Arazzo,
    Curl,
}

/// Options of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The bundle's slug; derived from the document's title if absent.
    pub slug: Option<Slug>,
    /// The version of its tools.
    pub version: Option<Version>,
    /// Only operations with one of these tags.
    pub tags: Vec<String>,
    /// Only operations whose name or path matches one of these patterns (`*` matches anything).
    pub patterns: Vec<String>,
    /// Base URL of the API, if the document names none or another is wanted.
    pub base_url: Option<String>,
    /// Where the document was read from, to resolve relative addresses.
    pub document_url: Option<String>,
}

/// A tool that a document describes.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTool {
    pub slug: Slug,
    pub version: Version,
    pub draft: PackedDraft,
}

/// A part of the document that could not be expressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unexpressed {
    /// Where in the document.
    pub what: String,
    pub reason: String,
}

/// A bundle read from a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub format: Format,
    pub bundle: BundleDraft,
    pub tools: Vec<ImportedTool>,
    /// Operations that were left out, and missing parts of tools.
    pub unexpressed: Vec<Unexpressed>,
    /// Secrets that must be set before the tools work.
    pub secrets: BTreeSet<String>,
}

/// Reads a document of any format.
pub fn read_document(
    text: &str,
    format: Option<Format>,
    options: &ImportOptions,
    settings: &ImportSettings,
) -> Result<Imported, String> {
    if text.len() > settings.max_document_bytes {
        return Err(format!(
            "the document has {} bytes; at most {} are allowed (imports.max_document_mb)",
            text.len(),
            settings.max_document_bytes
        ));
    }
    let format = match format {
        Some(format) => format,
        None if curl::is_command(text) => Format::Curl,
        None => return of_json(&parse(text)?, None, options, settings),
    };
    match format {
        Format::Curl => curl::read(text, options),
        other => of_json(&parse(text)?, Some(other), options, settings),
    }
}

/// Reads a document that is already parsed as JSON.
pub fn of_json(
    document: &Json,
    format: Option<Format>,
    options: &ImportOptions,
    settings: &ImportSettings,
) -> Result<Imported, String> {
    match format.or_else(|| recognised(document)) {
        Some(Format::OpenApi) => openapi::read(document, options, settings),
        Some(Format::Postman) => postman::read(document, options, settings),
        Some(Format::Arazzo) => arazzo::read(document, options, settings),
        Some(Format::Curl) => match document.as_str() {
            Some(line) => curl::read(line, options),
            None => Err("a curl command is one line of text".to_owned()),
        },
        None if document.get("swagger").is_some() => {
            Err("it is a Swagger 2.0 document; convert it to OpenAPI 3 first".to_owned())
        }
        None => Err("it is neither an OpenAPI 3, a Postman 2.1 nor an Arazzo document".to_owned()),
    }
}

fn recognised(document: &Json) -> Option<Format> {
    if document.get("openapi").is_some() {
        return Some(Format::OpenApi);
    }
    if document.get("arazzo").is_some() {
        return Some(Format::Arazzo);
    }
    let document = document.get("collection").unwrap_or(document);
    let is_collection = document.get("info").is_some() && document.get("item").is_some_and(Json::is_array);
    is_collection.then_some(Format::Postman)
}

/// Approximate minimum number of bytes per YAML node.
const BYTES_PER_YAML_NODE: usize = 4;
const LEAST_YAML_NODES: usize = 250_000;
/// The same depth as for JSON.
const YAML_DEPTH: usize = 128;

/// Parses JSON or YAML.
fn parse(text: &str) -> Result<Json, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"));
    }
    // As many nodes as JSON of this size can hold. Expanded aliases count too, so that a short text cannot grow large.
    let nodes = (text.len() / BYTES_PER_YAML_NODE).max(LEAST_YAML_NODES);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: nodes, max_events: nodes * 2, max_depth: YAML_DEPTH },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        let first: String = first.strip_prefix("error: ").unwrap_or(first).chars().take(300).collect();
        format!("invalid YAML: {first}")
    })
}

#[cfg(test)]
mod tests;
