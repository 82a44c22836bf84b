//! Objects that live on the host and that the sandbox refers to by id: packs, and content that is not text.

use onetool_sdk::Part;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum HostObject {
    Pack(String),
    Part(Part),
}

/// The objects of one run. Ids are indices: code can only name objects of its own run.
#[derive(Debug, Default)]
pub(super) struct Objects(Vec<HostObject>);

impl Objects {
    /// Returns the id of a pack, always the same one.
    pub(super) fn pack(&mut self, name: &str) -> u32 {
        let known = self.0.iter().position(|object| matches!(object, HostObject::Pack(pack) if pack == name));
        known.map_or_else(|| self.add(HostObject::Pack(name.to_owned())), |index| index as u32)
    }

    pub(super) fn part(&mut self, part: Part) -> u32 {
        self.add(HostObject::Part(part))
    }

    pub(super) fn get(&self, id: u32) -> Option<&HostObject> {
        self.0.get(id as usize)
    }

    fn add(&mut self, object: HostObject) -> u32 {
        self.0.push(object);
        (self.0.len() - 1) as u32
    }
}

/// Returns the attributes of a part that code can read.
pub(super) fn attributes(part: &Part) -> Vec<(&'static str, String)> {
    match part {
        Part::Text(text) => vec![("type", "text".to_owned()), ("text", text.clone())],
        Part::Image { media_type, data } => {
            vec![("type", "image".to_owned()), ("mime_type", media_type.clone()), ("size", data.len().to_string())]
        }
        Part::Other(json) => {
            let kind = json.get("type").and_then(serde_json::Value::as_str).unwrap_or("content");
            vec![("type", kind.to_owned())]
        }
    }
}

/// Size of a copy of a part, in bytes.
pub(super) fn size(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Image { media_type, data } => media_type.len() + data.len(),
        Part::Other(json) => json_size(json),
    }
}

fn json_size(json: &serde_json::Value) -> usize {
    use serde_json::Value as Json;
    size_of::<Json>()
        + match json {
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(json_size).sum(),
            Json::Object(fields) => fields.iter().map(|(key, value)| 2 * key.len() + json_size(value)).sum(),
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        }
}
