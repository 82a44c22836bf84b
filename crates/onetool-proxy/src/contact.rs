//! What is remembered about the last contact with a server: its era, and whether it hung. Small, so it is written
//! whenever it changes; derived, so an invalid record is treated as missing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onetool_state::interface::{Collection, Documents, Expect, Key};
use onetool_state::{StateError, wait};
use serde::{Deserialize, Serialize};

use super::era::Era;
use super::settings::{ServerSettings, limits};

/// The last contact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contact {
    #[serde(default)]
    fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<Era>,
    /// When the era was determined, in seconds since 1970.
    #[serde(default)]
    era_since: u64,
    /// Why the last attempt was abandoned, if it took long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hung: Option<String>,
}

impl Contact {
    /// The remembered era, unless it is too old: servers are upgraded.
    pub(super) fn era(&self) -> Option<Era> {
        let age = Duration::from_secs(now().saturating_sub(self.era_since));
        self.era.filter(|_| age <= limits::ERA_KEPT)
    }

    pub(super) fn set_era(&mut self, era: Option<Era>) {
        if self.era() != era {
            self.era = era;
            self.era_since = now();
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Where the contact is kept. All methods block.
#[derive(Clone)]
pub(super) struct ContactMemory {
    documents: Arc<dyn Documents>,
    key: Result<Key, Arc<str>>,
    fingerprint: String,
}

impl ContactMemory {
    pub(super) fn new(documents: Arc<dyn Documents>, settings: &ServerSettings) -> Self {
        let key = format!("contact-{}", settings.file_name()).parse::<Key>();
        Self { documents, key: key.map_err(|error| error.to_string().into()), fingerprint: settings.fingerprint() }
    }

    pub(super) fn read(&self) -> Contact {
        let read = || {
            let document = wait(self.documents.get(Collection::LISTINGS, self.key.as_ref().ok()?)).ok()??;
            let contact: Contact = serde_json::from_slice(&document.content).ok()?;
            (contact.fingerprint == self.fingerprint).then_some(contact)
        };
        read().unwrap_or_else(|| Contact { fingerprint: self.fingerprint.clone(), ..Contact::default() })
    }

    pub(super) fn write(&self, contact: &Contact) -> Result<(), StateError> {
        let key = self.key.as_ref().map_err(|reason| StateError::Invalid(reason.to_string()))?;
        let bytes = serde_json::to_vec(contact).map_err(|error| StateError::Invalid(error.to_string()))?;
        wait(self.documents.put(Collection::LISTINGS, key, &bytes, &Expect::Anything.into())).map(drop)
    }
}
