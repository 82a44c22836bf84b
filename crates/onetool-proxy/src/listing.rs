//! What a server offers, and a copy of it on disk.
//!
//! A listing is parsed leniently: a malformed tool is dropped without affecting the rest. It is kept as the server sent
//! it (pins are taken from that); cleaning happens when a pack is built from it. The copy makes discovery work before
//! and without a connection. It is derived data: an invalid copy is treated as missing.

use std::sync::Arc;

use onetool_state::interface::{Collection, Documents, Expect, Key};
use onetool_state::{StateError, wait};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::pack::CHANGED_INSTRUCTIONS;
use super::settings::{ServerSettings, limits};

/// One tool, as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RemoteTool {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    pub(super) input_schema: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<Json>,
    /// From its annotations. Hints: they only decide whether a call may be retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_read_only: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_idempotent: bool,
}

impl RemoteTool {
    /// Parses one entry of `tools/list`. `None` if it has no usable name.
    pub(super) fn read(entry: &Json) -> Option<Self> {
        let name = entry.get("name").and_then(Json::as_str)?;
        // No tool may pose as the instructions of its server.
        if name.is_empty() || name == CHANGED_INSTRUCTIONS || name.chars().count() > limits::NAME_CHARS {
            return None;
        }
        let text = |key: &str| entry.get(key).and_then(Json::as_str).map(str::to_owned);
        let hint = |key: &str| entry.pointer(&format!("/annotations/{key}")) == Some(&Json::Bool(true));
        let schema = |key: &str| entry.get(key).filter(|schema| schema.is_object() && fits(schema)).cloned();
        Some(Self {
            name: name.to_owned(),
            title: text("title").or_else(|| entry.pointer("/annotations/title")?.as_str().map(str::to_owned)),
            description: text("description").unwrap_or_default(),
            input_schema: schema("inputSchema")
                .unwrap_or_else(|| json!({"type": "object", "additionalProperties": true})),
            output_schema: schema("outputSchema"),
            is_read_only: hint("readOnlyHint"),
            is_idempotent: hint("idempotentHint"),
        })
    }

    /// The hash to pin: changes whenever something changes that a model reads or must follow.
    pub(super) fn hash(&self) -> String {
        let content = json!([self.name, self.title, self.description, self.input_schema, self.output_schema]);
        blake3::hash(canonical(&content).to_string().as_bytes()).to_hex().to_string()
    }

    /// Whether the result is wrapped as `{"result": …}` only because structured content must be an object.
    pub(super) fn wraps_result(&self) -> bool {
        let Some(schema) = &self.output_schema else { return false };
        if let Some(wraps) = schema.get("x-fastmcp-wrap-result").and_then(Json::as_bool) {
            return wraps;
        }
        // The reference SDK does the same without declaring it: one property, named and titled by convention.
        let properties = schema.get("properties").and_then(Json::as_object);
        properties.is_some_and(|properties| {
            properties.len() == 1
                && properties.get("result").and_then(|result| result.get("title")) == Some(&"Result".into())
        }) && schema.get("title").and_then(Json::as_str).is_some_and(|title| title.ends_with("Output"))
    }
}

fn fits(schema: &Json) -> bool {
    serde_json::to_vec(schema).is_ok_and(|bytes| bytes.len() <= limits::SCHEMA_BYTES)
}

/// Sorts the keys of every object: a server may send them in any order.
pub(super) fn canonical(json: &Json) -> Json {
    match json {
        Json::Array(items) => Json::Array(items.iter().map(canonical).collect()),
        Json::Object(object) => {
            let mut entries: Vec<(&String, &Json)> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Json::Object(entries.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect::<Map<_, _>>())
        }
        scalar => scalar.clone(),
    }
}

/// Everything that a server offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Listing {
    pub(super) tools: Vec<RemoteTool>,
    /// The name that the server gives itself.
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) instructions: String,
    #[serde(default)]
    pub(super) has_resources: bool,
    #[serde(default)]
    pub(super) has_prompts: bool,
}

impl Listing {
    /// The hash of the server's instructions.
    pub(super) fn instructions_hash(&self) -> String {
        blake3::hash(self.instructions.as_bytes()).to_hex().to_string()
    }
}

/// The copy of one server's listing. All methods block.
#[derive(Clone)]
pub(super) struct ListingCache {
    documents: Arc<dyn Documents>,
    key: Result<Key, Arc<str>>,
    fingerprint: String,
}

const CACHE_VERSION: u32 = 1;

#[derive(Serialize)]
struct CachedRef<'a> {
    version: u32,
    fingerprint: &'a str,
    listing: &'a Listing,
}

#[derive(Deserialize)]
struct Cached {
    version: u32,
    fingerprint: String,
    listing: Listing,
}

impl ListingCache {
    pub(super) fn new(documents: Arc<dyn Documents>, settings: &ServerSettings) -> Self {
        let key = settings.file_name().parse::<Key>();
        Self { documents, key: key.map_err(|error| error.to_string().into()), fingerprint: settings.fingerprint() }
    }

    pub(super) fn read(&self) -> Option<Listing> {
        let document = wait(self.documents.get(Collection::LISTINGS, self.key.as_ref().ok()?)).ok()??;
        let cached: Cached = serde_json::from_slice(&document.content).ok()?;
        (cached.version == CACHE_VERSION && cached.fingerprint == self.fingerprint).then_some(cached.listing)
    }

    pub(super) fn write(&self, listing: &Listing) -> Result<(), StateError> {
        let key = self.key.as_ref().map_err(|reason| StateError::Invalid(reason.to_string()))?;
        let cached = CachedRef { version: CACHE_VERSION, fingerprint: &self.fingerprint, listing };
        let bytes = serde_json::to_vec(&cached).map_err(|error| StateError::Invalid(error.to_string()))?;
        wait(self.documents.put(Collection::LISTINGS, key, &bytes, &Expect::Anything.into())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
    use onetool_state::interface::Backend as _;

    use super::*;

    fn tool(entry: Json) -> RemoteTool {
        RemoteTool::read(&entry).unwrap()
    }

    #[test]
    fn the_order_of_keys_does_not_change_the_hash_but_a_word_does() {
        let one = tool(json!({"name": "a", "description": "x", "inputSchema": {"type": "object", "title": "t"}}));
        let two = tool(json!({"inputSchema": {"title": "t", "type": "object"}, "description": "x", "name": "a"}));
        let other = tool(json!({"name": "a", "description": "y", "inputSchema": {"type": "object", "title": "t"}}));
        assert_eq!(one.hash(), two.hash());
        assert_ne!(one.hash(), other.hash());
    }

    #[test]
    fn a_tool_without_a_schema_takes_anything() {
        let tool = tool(json!({"name": "a", "inputSchema": 5}));
        assert_eq!(tool.input_schema, json!({"type": "object", "additionalProperties": true}));
        assert_eq!(RemoteTool::read(&json!({"description": "no name"})), None);
    }

    #[test]
    fn a_listing_comes_back_only_for_the_same_server() {
        let folder = tempfile::tempdir().unwrap();
        let settings = ServerSettings::stdio("My Server", "one", ["x"]);
        let places = FlatPlaces::new(folder.path())
            .with_documents(Collection::LISTINGS, DocumentFolder::new(folder.path().join("servers")));
        let documents = FlatFiles::new(places).documents();
        let cache = ListingCache::new(documents.clone(), &settings);
        assert_eq!(cache.read(), None);
        let listing = Listing { tools: vec![tool(json!({"name": "a"}))], ..Listing::default() };
        cache.write(&listing).unwrap();
        assert_eq!(cache.read(), Some(listing));
        let other = ListingCache::new(documents.clone(), &ServerSettings::stdio("My Server", "two", ["x"]));
        assert_eq!(other.read(), None);
        let place = documents.place(Collection::LISTINGS, cache.key.as_ref().unwrap());
        std::fs::write(place, b"{").unwrap();
        assert_eq!(cache.read(), None);
    }
}
