//! Input that callers hand in to be stored.

use std::num::NonZeroU32;

use serde_json::Value as Json;

use super::auth::AuthBlock;
use super::changes::{new_bundle, new_tool, now};
use super::model::{Bundle, Implementation, Tool};
use super::names::{BundleId, Slug, Version};
use super::translations::Translations;

/// A bundle without the fields that the store adds.
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
    pub translations: Translations,
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
            translations: Translations::default(),
        }
    }
}

impl BundleDraft {
    /// The bundle that this draft would become now.
    pub fn trial(&self) -> Bundle {
        new_bundle(BundleId::generate(), self.clone(), now(), now())
    }
}

/// A tool without its names and the fields that the store adds.
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
    pub example: Option<String>,
    pub translations: Translations,
}

impl ToolDraft {
    /// An enabled tool with this implementation and no arguments.
    pub fn new(implementation: Implementation) -> Self {
        Self {
            display_name: String::new(),
            description: String::new(),
            tags: Vec::new(),
            implementation,
            is_enabled: true,
            arg_schema: super::model::any_object(),
            output_schema: None,
            max_calls_per_minute: None,
            example: None,
            translations: Translations::default(),
        }
    }
}

impl ToolDraft {
    /// The tool that this draft would become now.
    pub fn trial(&self, bundle: BundleId, slug: &Slug, version: &Version) -> Tool {
        new_tool(bundle, (slug, version), self.clone(), now())
    }
}

/// A draft with its schemas as text. As values they take ten times the memory, and thousands may wait to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedDraft {
    rest: ToolDraft,
    arg_schema: Box<str>,
    output_schema: Option<Box<str>>,
}

impl From<ToolDraft> for PackedDraft {
    fn from(mut draft: ToolDraft) -> Self {
        let arg_schema = std::mem::take(&mut draft.arg_schema).to_string().into();
        let output_schema = draft.output_schema.take().map(|schema| schema.to_string().into());
        Self { rest: draft, arg_schema, output_schema }
    }
}

impl PackedDraft {
    pub fn open(&self) -> ToolDraft {
        ToolDraft { arg_schema: self.arg_schema(), output_schema: self.output_schema(), ..self.rest.clone() }
    }

    pub fn arg_schema(&self) -> Json {
        unpacked(&self.arg_schema)
    }

    pub fn output_schema(&self) -> Option<Json> {
        self.output_schema.as_deref().map(unpacked)
    }

    pub fn description(&self) -> &str {
        &self.rest.description
    }

    pub fn tags(&self) -> &[String] {
        &self.rest.tags
    }

    pub fn implementation(&self) -> &Implementation {
        &self.rest.implementation
    }

    pub fn implementation_mut(&mut self) -> &mut Implementation {
        &mut self.rest.implementation
    }
}

/// Parses text that was serialized from JSON.
fn unpacked(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_default()
}

impl From<Bundle> for BundleDraft {
    fn from(bundle: Bundle) -> Self {
        Self {
            slug: bundle.slug,
            display_name: bundle.display_name,
            description: bundle.description,
            is_enabled: bundle.is_enabled,
            secrets: bundle.secrets,
            auth: bundle.auth,
            translations: bundle.translations,
            docs: bundle.docs,
        }
    }
}

impl From<Tool> for ToolDraft {
    fn from(tool: Tool) -> Self {
        Self {
            display_name: tool.display_name,
            description: tool.description,
            tags: tool.tags,
            implementation: tool.implementation,
            is_enabled: tool.is_enabled,
            arg_schema: tool.arg_schema,
            output_schema: tool.output_schema,
            max_calls_per_minute: tool.max_calls_per_minute,
            example: tool.example,
            translations: tool.translations,
        }
    }
}

/// The required state of a bundle or tool before it changes. Checked under the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    #[default]
    None,
    /// It exists, in one of these states; an empty list means any.
    Matches(Vec<String>),
    /// It does not exist yet.
    Absent,
}

/// Whether a write created something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Created,
    Replaced,
}
