//! What a caller hands in to be stored.

use std::num::NonZeroU32;

use serde_json::Value as Json;

use super::auth::AuthBlock;
use super::model::Implementation;
use super::names::Slug;

/// A bundle without what the store adds.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleDraft {
    pub slug: Slug,
    pub display_name: String,
    pub description: String,
    pub is_enabled: bool,
    pub secrets: Vec<String>,
    /// The address of its documentation, or `off`.
    pub docs: Option<String>,
    pub auth: Option<AuthBlock>,
}

impl BundleDraft {
    /// An enabled bundle with a name and nothing else.
    pub fn new(slug: Slug) -> Self {
        Self {
            display_name: slug.to_string(),
            slug,
            description: String::new(),
            is_enabled: true,
            secrets: Vec::new(),
            docs: None,
            auth: None,
        }
    }
}

/// A tool without its names and what the store adds.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDraft {
    pub display_name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub implementation: Implementation,
    pub is_enabled: bool,
    pub arg_schema: Json,
    pub output_schema: Option<Json>,
    pub max_calls_per_minute: Option<NonZeroU32>,
}

/// What must hold of a thing before it changes. Checked under the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    #[default]
    None,
    /// It is there, in one of these states; an empty list means any.
    Matches(Vec<String>),
    /// It is not there yet.
    Absent,
}

/// Whether a write made something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Created,
    Replaced,
}
