//! A bundle as a ZIP archive: `manifest.json` with the checksum of every other file, `bundle.json`, and one file per tool.
//!
//! The bytes depend on the content alone: no timestamps, no ids, a fixed order, no compression. A bundle refers to
//! secrets by name; if a template contains a secret's value anyway, the export replaces it with the name.
//!
//! **Invariant:** an archive from outside is untrusted. Names, kinds, sizes, overlaps and duplicates are checked before
//! anything is unpacked, and no part of it is ever used as a path.

mod zip;

use std::collections::BTreeMap;

use chrono::Utc;
use onetool_state::bundles::{Bundle, BundleDraft, BundleId, Slug, Tool, ToolDraft, ToolId, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::import::ImportSettings;
use super::secrets::Secrets;
use zip::{Entry, Limits};

const MANIFEST: &str = "manifest.json";
const BUNDLE: &str = "bundle.json";
const FORMAT: &str = "onetool-bundle";
const FORMAT_VERSION: u32 = 1;

/// The contents of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    pub bundle: BundleDraft,
    pub tools: Vec<(Slug, Version, ToolDraft)>,
}

/// The documents of an archive with valid names, sizes and checksums. Their content is not checked yet.
#[derive(Debug)]
pub struct ArchiveDocuments {
    bundle: Json,
    tools: Vec<(String, Json)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    version: u32,
    /// Name → SHA-256, as hex.
    files: BTreeMap<String, String>,
}

/// Exports a bundle and its tools as an archive.
pub fn export_bundle(bundle: &Bundle, tools: &[Tool], secrets: &dyn Secrets) -> Result<Vec<u8>, String> {
    let mut tools: Vec<&Tool> = tools.iter().collect();
    tools.sort_by(|a, b| (&a.slug, &a.version).cmp(&(&b.slug, &b.version)));
    let mut entries = vec![Entry { name: BUNDLE.to_owned(), content: document(bundle, bundle, &[], secrets)? }];
    for (number, tool) in tools.into_iter().enumerate() {
        let declared: &[String] = match &tool.implementation {
            onetool_state::bundles::Implementation::Http(http) => &http.secrets,
            _ => &[],
        };
        let name = format!("tools/{:04}-{}-{}.json", number + 1, tool.slug, tool.version);
        entries.push(Entry { name, content: document(tool, bundle, declared, secrets)? });
    }
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: FORMAT_VERSION,
        files: entries.iter().map(|entry| (entry.name.clone(), sha256(&entry.content))).collect(),
    };
    let mut content = serde_json::to_vec_pretty(&manifest).map_err(|error| error.to_string())?;
    content.push(b'\n');
    entries.insert(0, Entry { name: MANIFEST.to_owned(), content });
    zip::write(&entries)
}

/// Leaves out the fields that the store adds, and the values of secrets.
fn document(
    value: &impl Serialize,
    bundle: &Bundle,
    declared: &[String],
    secrets: &dyn Secrets,
) -> Result<Vec<u8>, String> {
    let mut json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    if let Some(object) = json.as_object_mut() {
        for key in ["bundleID", "toolID", "createdAt", "modifiedAt", "softDeletedAt", "isBuiltIn"] {
            object.remove(key);
        }
    }
    for name in bundle.secrets.iter().chain(declared) {
        if let Some(secret) = secrets.get(bundle.slug.as_str(), name).filter(|secret| secret.len() >= 4) {
            replace(&mut json, &secret, &format!("${{{name}}}"));
        }
    }
    let mut text = serde_json::to_vec_pretty(&json).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(text)
}

fn replace(json: &mut Json, value: &str, name: &str) {
    match json {
        Json::String(text) if text.contains(value) => *text = text.replace(value, name),
        Json::Array(items) => items.iter_mut().for_each(|item| replace(item, value, name)),
        Json::Object(members) => members.values_mut().for_each(|member| replace(member, value, name)),
        _ => {}
    }
}

fn sha256(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens an archive; an error says what is wrong with it.
pub fn open_archive(bytes: &[u8], settings: &ImportSettings) -> Result<ArchiveDocuments, String> {
    let limits = Limits {
        bytes: settings.max_archive_bytes,
        unpacked: settings.max_unpacked_bytes,
        entries: settings.max_tools + 2,
    };
    let mut files: BTreeMap<String, Vec<u8>> =
        zip::read(bytes, &limits)?.into_iter().map(|entry| (entry.name, entry.content)).collect();
    let manifest = files.remove(MANIFEST).ok_or("the archive has no manifest.json")?;
    let manifest: Manifest = serde_json::from_slice(&manifest).map_err(|error| format!("manifest.json: {error}"))?;
    if manifest.format != FORMAT || manifest.version != FORMAT_VERSION {
        return Err(format!("manifest.json: only {FORMAT} of version {FORMAT_VERSION} can be read"));
    }
    if let Some(missing) = manifest.files.keys().find(|name| !files.contains_key(*name)) {
        return Err(format!("{missing} is in the manifest but not in the archive"));
    }
    for (name, content) in &files {
        match manifest.files.get(name) {
            None => return Err(format!("{name} is in the archive but not in the manifest")),
            Some(sum) if !sum.eq_ignore_ascii_case(&sha256(content)) => {
                return Err(format!("{name}: its checksum is not the manifest's"));
            }
            Some(_) => {}
        }
    }
    let bundle = files.remove(BUNDLE).ok_or("the archive has no bundle.json")?;
    let bundle = parsed(BUNDLE, &bundle)?;
    let mut tools = Vec::with_capacity(files.len());
    for (name, content) in files {
        if !name.starts_with("tools/") {
            return Err(format!("{name} is not part of a bundle"));
        }
        let tool = parsed(&name, &content)?;
        tools.push((name, tool));
    }
    Ok(ArchiveDocuments { bundle, tools })
}

impl ArchiveDocuments {
    /// The bundle's document, with its name.
    pub fn bundle(&self) -> (&str, &Json) {
        (BUNDLE, &self.bundle)
    }

    /// The tools' documents, with their names.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// Reads the documents. Unknown keys are ignored: callers that accept archives from outside check for them first.
    pub fn read(self) -> Result<Archive, String> {
        let id = BundleId::generate();
        let bundle: Bundle = restored(BUNDLE, self.bundle, id, None)?;
        let mut tools = Vec::with_capacity(self.tools.len());
        for (name, content) in self.tools {
            let tool: Tool = restored(&name, content, id, Some(ToolId::generate()))?;
            tools.push((tool.slug.clone(), tool.version.clone(), ToolDraft::from(tool)));
        }
        Ok(Archive { bundle: BundleDraft::from(bundle), tools })
    }
}

fn parsed(name: &str, content: &[u8]) -> Result<Json, String> {
    serde_json::from_slice(content).map_err(|error| format!("{name}: {error}"))
}

/// Adds the store's own fields to a document.
fn restored<T: serde::de::DeserializeOwned>(
    name: &str,
    mut json: Json,
    bundle: BundleId,
    tool: Option<ToolId>,
) -> Result<T, String> {
    let object = json.as_object_mut().ok_or_else(|| format!("{name}: it is not a JSON object"))?;
    object.insert("bundleID".to_owned(), json!(bundle));
    if let Some(tool) = tool {
        object.insert("toolID".to_owned(), json!(tool));
    }
    for key in ["createdAt", "modifiedAt"] {
        object.insert(key.to_owned(), json!(Utc::now()));
    }
    serde_json::from_value(json).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests;
