//! What every tool looked like when it was first seen, or last accepted.
//!
//! Trust is bound to content, not to a name: a server that changes a tool's description or schema later is found out.
//! A pin file that can't be read proves nothing, so nothing is pinned anew from it: it is reported, and it blocks
//! where pins are strict, until somebody repairs or removes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onetool_state::atomic::{self, Lock, StoreError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::listing::{Listing, read_capped};
use super::settings::limits;

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
}

impl From<StoreError> for PinError {
    fn from(error: StoreError) -> Self {
        Self::Write(error.to_string())
    }
}

/// The pin file. All methods block.
#[derive(Debug)]
pub(super) struct Pins {
    path: PathBuf,
    /// Between the threads of this process; the file's lock is between processes.
    turn: Mutex<()>,
}

impl Pins {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), turn: Mutex::new(()) }
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

    fn update(&self, server: &str, change: impl FnOnce(&mut ServerPins)) -> Result<ServerPins, PinError> {
        let _turn = self.turn.lock();
        let _lock = Lock::take(&self.path.with_extension("lock"), limits::PIN_LOCK)?;
        let mut file = self.read()?;
        let before = file.servers.get(server).cloned().unwrap_or_default();
        let pins = file.servers.entry(server.to_owned()).or_default();
        change(pins);
        let after = pins.clone();
        if after != before {
            file.version = PIN_VERSION;
            let bytes = serde_json::to_vec_pretty(&file).map_err(|error| PinError::Write(error.to_string()))?;
            atomic::write(&self.path, &bytes)?;
        }
        Ok(after)
    }

    fn read(&self) -> Result<PinFile, PinError> {
        let corrupt = |reason: String| PinError::Corrupt { path: self.path.clone(), reason };
        let Some(bytes) = read_capped(&self.path).map_err(|error| corrupt(error.to_string()))? else {
            return Ok(PinFile::default());
        };
        let file: PinFile = serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
        if file.version != PIN_VERSION {
            return Err(corrupt(format!("version {} is not known", file.version)));
        }
        Ok(file)
    }
}

fn hashes(listing: &Listing) -> impl Iterator<Item = (String, String)> {
    let instructions =
        (!listing.instructions.is_empty()).then(|| (INSTRUCTIONS.to_owned(), listing.instructions_hash()));
    listing.tools.iter().map(|tool| (tool.name.clone(), tool.hash())).chain(instructions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::listing::RemoteTool;

    fn listing(description: &str) -> Listing {
        let tool = RemoteTool::read(&json!({"name": "t", "description": description})).unwrap();
        Listing { tools: vec![tool], ..Listing::default() }
    }

    #[test]
    fn the_first_sight_is_kept_until_a_change_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::new(&folder.path().join("pins.json"));
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
            let pins = Pins::new(&path);
            assert!(matches!(pins.pin_new("s", &listing("one")), Err(PinError::Corrupt { .. })));
            assert!(matches!(pins.accept("s", &listing("one"), None), Err(PinError::Corrupt { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }
}
