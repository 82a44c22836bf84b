//! A record of every tool as it was first seen, or last accepted.
//!
//! Trust is bound to content, not to a name: a server that later changes a tool's description or schema is detected. An
//! unreadable pin file proves nothing, so nothing is pinned anew from it: it is reported, and blocks tools in strict
//! mode, until someone repairs or removes it.
//!
//! Besides the hashes, the accepted text is kept, to show people what has changed. It proves nothing and may be lost
//! without harm.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use onetool_state::interface::{Collection, Documents, Expect, Key};
use onetool_state::{StateError, wait};
use serde::{Deserialize, Serialize};

use super::listing::{Listing, RemoteTool, canonical};
use super::settings::{file_name, limits};

const PIN_VERSION: u32 = 1;

/// The key of a server's own instructions among its pins. No tool can have this name.
pub(super) const INSTRUCTIONS: &str = "";

/// The hashes of one server, by tool.
pub(super) type ServerPins = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PinFile {
    version: u32,
    servers: BTreeMap<String, ServerPins>,
}

/// The accepted texts of one server, by tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Texts {
    version: u32,
    tools: BTreeMap<String, Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Text {
    /// The hash that this text belongs to.
    hash: String,
    text: String,
}

/// Why pins could not be read or written.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum PinError {
    #[error("the pin file {path} can't be read: {reason}; repair it, or remove it to trust all servers again")]
    Corrupt { path: PathBuf, reason: String },
    #[error("the pin file can't be written: {0}")]
    Write(String),
    #[error("the pins can't be read now: {0}")]
    Unavailable(String),
}

impl From<StateError> for PinError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Unavailable { .. } => Self::Unavailable(error.to_string()),
            error => Self::Write(error.to_string()),
        }
    }
}

/// Attempts at a change that conflicts with others.
const ATTEMPTS: usize = 100;

/// The pins of all servers, in one document. All methods block.
pub(super) struct Pins {
    documents: Arc<dyn Documents>,
}

impl Pins {
    pub(super) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents }
    }

    /// The stored pins of one server.
    pub(super) fn of(&self, server: &str) -> Result<ServerPins, PinError> {
        Ok(self.read()?.servers.remove(server).unwrap_or_default())
    }

    /// Pins new tools, and returns all pins of the server. Existing pins stay as they are.
    pub(super) fn pin_new(&self, server: &str, listing: &Listing) -> Result<ServerPins, PinError> {
        let pins = self.update(server, |pins| {
            for (name, hash) in hashes(listing) {
                pins.entry(name).or_insert(hash);
            }
        })?;
        self.keep_texts(server, listing, &pins);
        Ok(pins)
    }

    /// Pins the current content, of all tools or of one.
    pub(super) fn accept(&self, server: &str, listing: &Listing, only: Option<&str>) -> Result<ServerPins, PinError> {
        let pins = self.update(server, |pins| {
            for (name, hash) in hashes(listing) {
                if only.is_none_or(|only| only == name) {
                    pins.insert(name, hash);
                }
            }
        })?;
        self.keep_texts(server, listing, &pins);
        Ok(pins)
    }

    /// The texts of the accepted tools, as far as known. The key of the server's instructions is [`INSTRUCTIONS`].
    pub(super) fn accepted_texts(&self, server: &str) -> BTreeMap<String, String> {
        let Ok(pins) = self.of(server) else { return BTreeMap::new() };
        let texts = self.texts(server).tools.into_iter();
        // A text that does not belong to the pin would show a change that no one made.
        let is_pinned = |name: &String, text: &Text| pins.get(name) == Some(&text.hash);
        texts.filter(|(name, text)| is_pinned(name, text)).map(|(name, text)| (name, text.text)).collect()
    }

    /// Stores the texts of tools that are pinned as they are offered now.
    fn keep_texts(&self, server: &str, listing: &Listing, pins: &ServerPins) {
        let known = self.texts(server);
        let mut texts = Texts { version: PIN_VERSION, tools: known.tools.clone() };
        texts.tools.retain(|name, text| pins.get(name) == Some(&text.hash));
        let mut bytes: usize = texts.tools.values().map(|text| text.text.len()).sum();
        for (name, hash) in hashes(listing) {
            if pins.get(&name) != Some(&hash) || texts.tools.contains_key(&name) {
                continue;
            }
            let text = text_of(listing, &name);
            bytes += text.len();
            if bytes > limits::PINNED_BYTES {
                break;
            }
            texts.tools.insert(name, Text { hash, text });
        }
        if texts.tools == known.tools {
            return;
        }
        let written = text_key(server).and_then(|key| {
            let bytes = serde_json::to_vec(&texts).map_err(|error| PinError::Write(error.to_string()))?;
            Ok(wait(self.documents.put(Collection::PINNED, &key, &bytes, &Expect::Anything.into())).map(drop)?)
        });
        if let Err(error) = written {
            tracing::debug!(server, "what its tools looked like is not kept: {error}");
        }
    }

    fn texts(&self, server: &str) -> Texts {
        let document = text_key(server).ok().and_then(|key| wait(self.documents.get(Collection::PINNED, &key)).ok()?);
        let texts = document.and_then(|document| serde_json::from_slice::<Texts>(&document.content).ok());
        texts.filter(|texts| texts.version == PIN_VERSION).unwrap_or_default()
    }

    fn update(&self, server: &str, change: impl Fn(&mut ServerPins)) -> Result<ServerPins, PinError> {
        let key = key()?;
        for _ in 0..ATTEMPTS {
            let (mut file, expect) = self.read_with_revision()?;
            let before = file.servers.get(server).cloned().unwrap_or_default();
            let pins = file.servers.entry(server.to_owned()).or_default();
            change(pins);
            let after = pins.clone();
            if after == before {
                return Ok(after);
            }
            file.version = PIN_VERSION;
            let bytes = serde_json::to_vec_pretty(&file).map_err(|error| PinError::Write(error.to_string()))?;
            match wait(self.documents.put(Collection::PINS, &key, &bytes, &expect.into())) {
                Ok(_) => return Ok(after),
                Err(StateError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(PinError::Write("others change it all the time".to_owned()))
    }

    fn read(&self) -> Result<PinFile, PinError> {
        self.read_with_revision().map(|(file, _)| file)
    }

    fn read_with_revision(&self) -> Result<(PinFile, Expect), PinError> {
        let key = key()?;
        let place = PathBuf::from(self.documents.place(Collection::PINS, &key));
        let corrupt = |reason: String| PinError::Corrupt { path: place.clone(), reason };
        let document = match wait(self.documents.get(Collection::PINS, &key)) {
            Ok(Some(document)) => document,
            Ok(None) => return Ok((PinFile::default(), Expect::Absent)),
            Err(error @ StateError::Unavailable { .. }) => return Err(error.into()),
            Err(error) => return Err(corrupt(error.to_string())),
        };
        let file: PinFile = serde_json::from_slice(&document.content).map_err(|error| corrupt(error.to_string()))?;
        if file.version != PIN_VERSION {
            return Err(corrupt(format!("version {} is not known", file.version)));
        }
        Ok((file, Expect::Revision(document.revision)))
    }
}

fn text_key(server: &str) -> Result<Key, PinError> {
    Ok(file_name(server).parse::<Key>()?)
}

/// The current text for a name of [`hashes`], for display.
pub(super) fn text_of(listing: &Listing, name: &str) -> String {
    if name == INSTRUCTIONS {
        return shortened(&listing.instructions);
    }
    let tool = listing.tools.iter().find(|tool| tool.name == name);
    tool.map(|tool| shortened(&described(tool))).unwrap_or_default()
}

/// Everything that the hash of a tool covers, as lines.
fn described(tool: &RemoteTool) -> String {
    let mut parts = Vec::new();
    if let Some(title) = &tool.title {
        parts.push(format!("title: {title}"));
    }
    if !tool.description.is_empty() {
        parts.push(tool.description.clone());
    }
    let schemas = [("input schema", Some(&tool.input_schema)), ("output schema", tool.output_schema.as_ref())];
    for (name, schema) in schemas {
        if let Some(schema) = schema {
            let text = serde_json::to_string_pretty(&canonical(schema)).unwrap_or_default();
            parts.push(format!("{name}:\n{text}"));
        }
    }
    parts.join("\n\n")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(limits::PINNED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn key() -> Result<Key, PinError> {
    Ok("pins".parse::<Key>()?)
}

fn hashes(listing: &Listing) -> impl Iterator<Item = (String, String)> {
    let instructions =
        (!listing.instructions.is_empty()).then(|| (INSTRUCTIONS.to_owned(), listing.instructions_hash()));
    listing.tools.iter().map(|tool| (tool.name.clone(), tool.hash())).chain(instructions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
    use onetool_state::interface::Backend as _;

    use super::*;
    use crate::listing::RemoteTool;

    fn pins_in(path: &std::path::Path) -> Pins {
        let texts = path.with_file_name("pinned");
        let places = FlatPlaces::new(path)
            .with_documents(Collection::PINS, DocumentFolder::single(path))
            .with_documents(Collection::PINNED, DocumentFolder::new(texts));
        Pins::new(FlatFiles::new(places).documents())
    }

    fn listing(description: &str) -> Listing {
        let tool = RemoteTool::read(&json!({"name": "t", "description": description})).unwrap();
        Listing { tools: vec![tool], ..Listing::default() }
    }

    #[test]
    fn the_first_sight_is_kept_until_a_change_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let pins = pins_in(&folder.path().join("pins.json"));
        let first = pins.pin_new("s", &listing("one")).unwrap();
        assert_eq!(pins.pin_new("s", &listing("two")).unwrap(), first);
        let accepted = pins.accept("s", &listing("two"), Some("t")).unwrap();
        assert_ne!(accepted, first);
        assert_eq!(pins.of("s").unwrap(), accepted);
        assert_eq!(pins.of("other").unwrap(), ServerPins::new());
    }

    #[test]
    fn what_was_accepted_can_be_shown_beside_what_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        let pins = pins_in(&folder.path().join("pins.json"));
        pins.pin_new("s", &listing("one")).unwrap();
        pins.pin_new("s", &listing("two")).unwrap();
        let text = |description: &str| text_of(&listing(description), "t");
        assert!(text("one").starts_with("one\n\ninput schema:\n{"), "{}", text("one"));
        assert_eq!(pins.accepted_texts("s"), BTreeMap::from([("t".to_owned(), text("one"))]));
        pins.accept("s", &listing("two"), None).unwrap();
        assert_eq!(pins.accepted_texts("s"), BTreeMap::from([("t".to_owned(), text("two"))]));
        // Pins from before texts were kept: the text is added as soon as the tool is seen as it was pinned.
        std::fs::remove_dir_all(folder.path().join("pinned")).unwrap();
        assert_eq!(pins.accepted_texts("s"), BTreeMap::new());
        pins.pin_new("s", &listing("three")).unwrap();
        assert_eq!(pins.accepted_texts("s"), BTreeMap::new());
        pins.pin_new("s", &listing("two")).unwrap();
        assert_eq!(pins.accepted_texts("s"), BTreeMap::from([("t".to_owned(), text("two"))]));
        let long = listing(&"x".repeat(limits::PINNED_CHARS + 10));
        assert_eq!(text_of(&long, "t").chars().count(), limits::PINNED_CHARS + 1);
    }

    #[test]
    fn a_corrupt_file_is_neither_trusted_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        for content in ["", "{", r#"{"version": 9, "servers": {}}"#] {
            std::fs::write(&path, content).unwrap();
            let pins = pins_in(&path);
            assert!(matches!(pins.pin_new("s", &listing("one")), Err(PinError::Corrupt { .. })));
            assert!(matches!(pins.accept("s", &listing("one"), None), Err(PinError::Corrupt { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }
}
