//! What every tool looked like when it was first seen, or last accepted.
//!
//! Trust is bound to content, not to a name: a server that changes a tool's description or schema later is found out.
//! A pin file that can't be read proves nothing, so nothing is pinned anew from it: it is reported, and it blocks
//! where pins are strict, until somebody repairs or removes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use onetool_state::interface::{Collection, Documents, Expect, Key};
use onetool_state::{StateError, wait};
use serde::{Deserialize, Serialize};

use super::listing::Listing;

const PIN_VERSION: u32 = 1;

/// The name under which a server's own instructions are pinned. No tool can have it.
pub(super) const INSTRUCTIONS: &str = "";

/// Hashes by tool, of one server.
pub(super) type ServerPins = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PinFile {
    version: u32,
    servers: BTreeMap<String, ServerPins>,
}

/// Why pins could not be read or written.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum PinError {
    #[error("the pin file {path} can't be read: {reason}; repair it, or remove it to trust all servers anew")]
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

/// How often a change is tried again that others were quicker than.
const ATTEMPTS: usize = 100;

/// The pins of all servers, in one document. All methods block.
pub(super) struct Pins {
    documents: Arc<dyn Documents>,
}

impl Pins {
    pub(super) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents }
    }

    /// The pins of one server as they are on disk.
    pub(super) fn of(&self, server: &str) -> Result<ServerPins, PinError> {
        Ok(self.read()?.servers.remove(server).unwrap_or_default())
    }

    /// Pins what was not seen before, and answers with all pins of the server. What is pinned stays as it is.
    pub(super) fn pin_new(&self, server: &str, listing: &Listing) -> Result<ServerPins, PinError> {
        self.update(server, |pins| {
            for (name, hash) in hashes(listing) {
                pins.entry(name).or_insert(hash);
            }
        })
    }

    /// Pins what is seen now, for all tools or for one.
    pub(super) fn accept(&self, server: &str, listing: &Listing, only: Option<&str>) -> Result<ServerPins, PinError> {
        self.update(server, |pins| {
            for (name, hash) in hashes(listing) {
                if only.is_none_or(|only| only == name) {
                    pins.insert(name, hash);
                }
            }
        })
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
        let places = FlatPlaces::new(path).with_documents(Collection::PINS, DocumentFolder::single(path));
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
