//! Bundles that are compiled in. They look like any other; only which of them are disabled is stored.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use onetool_sdk::Pack;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::BundleError;
use super::model::{Bundle, Implementation, NativeImplementation, SCHEMA_VERSION, Tool};
use super::names::{BundleId, Slug, ToolId, Version};
use super::translations::Translations;

/// The version label of every built-in tool.
const BUILT_IN_VERSION: &str = "v1";
/// The creation time of built-ins, which is also encoded in their ids.
const BUILT_IN_SECONDS: i64 = 1_735_689_600;

/// A compiled-in bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInBundle {
    /// The pack's Python name.
    pub pack: String,
    pub display_name: String,
    pub description: String,
    pub secrets: Vec<String>,
    /// The default, until it is switched.
    pub is_enabled: bool,
    pub tools: Vec<BuiltInTool>,
}

/// A compiled-in tool.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInTool {
    /// The function's Python name.
    pub function: String,
    pub description: String,
    pub tags: Vec<String>,
    pub implementation: Implementation,
    pub arg_schema: Json,
    pub output_schema: Option<Json>,
    pub max_calls_per_minute: Option<NonZeroU32>,
    /// Why it is unavailable, for example because a setting is missing.
    pub unavailable: Option<String>,
    /// A working call, as code.
    pub example: Option<String>,
}

/// A tool, and why it is unavailable, if it is.
pub(crate) type ResolvedTool = (Tool, Option<String>);

impl BuiltInBundle {
    /// Wraps a pack of Rust functions as a bundle.
    pub fn native(pack: &Pack) -> Self {
        let tools = pack
            .tools
            .values()
            .map(|spec| BuiltInTool {
                function: spec.name.clone(),
                description: spec.description.clone(),
                tags: vec!["native".to_owned()],
                implementation: Implementation::Native(NativeImplementation {
                    function: format!("{}.{}", pack.name, spec.name),
                }),
                arg_schema: spec.input_schema.to_json(),
                output_schema: spec.output_schema.clone(),
                max_calls_per_minute: None,
                unavailable: None,
                example: spec.example.clone(),
            })
            .collect();
        Self {
            pack: pack.name.clone(),
            display_name: pack.name.clone(),
            description: pack.description.clone(),
            secrets: Vec::new(),
            is_enabled: true,
            tools,
        }
    }

    pub(crate) fn resolve(&self) -> Result<(Bundle, Vec<ResolvedTool>), BundleError> {
        let at = DateTime::<Utc>::from_timestamp(BUILT_IN_SECONDS, 0).unwrap_or_default();
        let slug = Slug::from_identifier(&self.pack)?;
        let id = BundleId::built_in(slug.as_str());
        let bundle = Bundle {
            schema_version: SCHEMA_VERSION.to_owned(),
            id,
            slug: slug.clone(),
            display_name: self.display_name.clone(),
            description: self.description.clone(),
            is_enabled: self.is_enabled,
            is_built_in: true,
            secrets: self.secrets.clone(),
            auth: None,
            translations: Translations::default(),
            docs: None,
            created_at: at,
            modified_at: at,
            soft_deleted_at: None,
        };
        let mut tools = Vec::with_capacity(self.tools.len());
        for tool in &self.tools {
            let tool_slug = Slug::from_identifier(&tool.function)?;
            tools.push((
                Tool {
                    schema_version: SCHEMA_VERSION.to_owned(),
                    id: ToolId::built_in(slug.as_str(), tool_slug.as_str()),
                    bundle_id: id,
                    slug: tool_slug,
                    version: BUILT_IN_VERSION.parse::<Version>()?,
                    display_name: tool.function.clone(),
                    description: tool.description.clone(),
                    tags: tool.tags.clone(),
                    implementation: tool.implementation.clone(),
                    is_enabled: true,
                    is_built_in: true,
                    arg_schema: tool.arg_schema.clone(),
                    output_schema: tool.output_schema.clone(),
                    max_calls_per_minute: tool.max_calls_per_minute,
                    example: tool.example.clone(),
                    translations: Translations::default(),
                    created_at: at,
                    modified_at: at,
                },
                tool.unavailable.clone(),
            ));
        }
        Ok((bundle, tools))
    }
}

/// `builtin.json`: the switches that differ from the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Switches {
    pub(crate) bundles: BTreeMap<BundleId, bool>,
    pub(crate) tools: BTreeMap<ToolId, bool>,
}
