//! Another OneTool configuration: its servers, including those of included files, and the secrets they name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use onetool_config::edit;
use serde_json::{Map, Value as Json};

use super::read::text_of;

/// Maximum depth of nested includes.
const MAX_DEPTH: usize = 8;

/// The servers of a configuration with this text. A file takes precedence over its includes.
pub fn servers(path: &Path, text: &str) -> anyhow::Result<Map<String, Json>> {
    let mut servers = Map::new();
    collect(path, text, 0, &mut servers)?;
    Ok(servers)
}

fn collect(path: &Path, text: &str, depth: usize, servers: &mut Map<String, Json>) -> anyhow::Result<()> {
    let value = |key: &str| edit::get(text, &[key]).with_context(|| path.display().to_string());
    if let Some(Json::Object(own)) = value("servers")? {
        for (name, server) in own {
            servers.entry(name).or_insert(server);
        }
    }
    let included = match value("include")? {
        Some(Json::Array(files)) => files,
        Some(file @ Json::String(_)) => vec![file],
        _ => Vec::new(),
    };
    for file in included.iter().rev().filter_map(Json::as_str).filter(|_| depth < MAX_DEPTH) {
        let file = onetool_config::expand_home(file);
        // Relative to the file, or to the parent of its folder `config`.
        let places = path.ancestors().skip(1).take(2).map(|folder| folder.join(&file));
        if let Some(found) = places.into_iter().find(|place| place.is_file()) {
            collect(&found, &text_of(&found)?.unwrap_or_default(), depth + 1, servers)?;
        }
    }
    Ok(())
}

/// The secrets next to a configuration.
pub fn secrets(path: &Path) -> BTreeMap<String, String> {
    let beside = path.with_file_name("secrets.yaml");
    let Ok(Some(text)) = text_of(&beside) else { return BTreeMap::new() };
    let Ok(entries) = serde_saphyr::from_str::<Map<String, Json>>(&text) else { return BTreeMap::new() };
    let text = |value: Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    entries.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// The secrets that these settings refer to.
pub fn named(settings: &Map<String, Json>, secrets: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let text = Json::Object(settings.clone()).to_string();
    let is_named = |name: &str| text.contains(&format!("${{{name}}}")) || text.contains(&format!("${{{name}:-"));
    secrets.iter().filter(|(name, _)| is_named(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}
