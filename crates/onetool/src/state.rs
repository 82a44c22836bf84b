//! Where shared state is kept: in files below the folders that a configuration names, or in a database.

use std::path::PathBuf;
use std::sync::Arc;

use onetool_config::{Expandable, Reader, Section};
use onetool_proxy::CREDENTIALS;
use onetool_state::State;
use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
use onetool_state::interface::{Collection, Stream};
use onetool_state_postgres::PostgresState;

use crate::config::Resolved;

pub const STATE: Section<Option<Expandable>> = Section::new("state").with_doc(
    "Address of the PostgreSQL database that servers share, postgres://user:${PASSWORD}@host/database; without it state is \
     kept in files.",
);

/// The address of the database, where there is to be one.
pub fn address(reader: &mut Reader) -> Option<String> {
    let written = reader.read(&STATE)?;
    match reader.expand(&written) {
        Ok(address) => Some(address.trim().to_owned()).filter(|address| !address.is_empty()),
        Err(name) => {
            reader.problem(&["state"], &format!("no secret and no variable '{name}'"));
            // Files instead would be another state: better none than a wrong one.
            Some(format!("postgres://missing-{name}"))
        }
    }
}

/// What decides over where state is kept.
#[derive(Clone, PartialEq)]
pub struct StateSettings {
    address: Option<String>,
    own: PathBuf,
    /// Holds what is remembered of servers.
    servers: PathBuf,
    bundles: PathBuf,
    stats: PathBuf,
    results: PathBuf,
    /// Holds the sign-ins to servers. They are the user's: the same in every project.
    credentials: PathBuf,
}

/// The folder of sign-ins.
pub fn credentials_home(settings: &Resolved) -> PathBuf {
    settings.global.as_ref().unwrap_or(&settings.own).join("credentials")
}

impl StateSettings {
    pub fn new(settings: &Resolved) -> Self {
        // A folder that is not a project stays as it is: what servers look like is then remembered for the user.
        let user = settings.global.as_ref().filter(|global| global.is_dir() && !settings.own.is_dir());
        Self {
            address: settings.state.clone(),
            own: settings.own.clone(),
            servers: user.unwrap_or(&settings.own).clone(),
            bundles: settings.bundles_dir.clone(),
            stats: settings.stats.file.clone(),
            results: settings.output.result_store_dir.clone(),
            credentials: credentials_home(settings),
        }
    }

    /// Where sign-ins are kept, and their leases beside them: one for all projects of a user, or the shared database.
    pub fn open_credentials(&self, state: &State) -> State {
        if self.address.is_some() {
            return state.clone();
        }
        let places =
            FlatPlaces::new(&self.credentials).with_documents(CREDENTIALS, DocumentFolder::new(&self.credentials));
        Arc::new(FlatFiles::new(places))
    }

    pub fn open(&self) -> anyhow::Result<State> {
        if let Some(address) = &self.address {
            return open(address);
        }
        let places = FlatPlaces::new(&self.own)
            .with_bundles(&self.bundles)
            .with_documents(Collection::LISTINGS, DocumentFolder::new(self.servers.join("cache").join("servers")))
            .with_documents(Collection::SAVED, DocumentFolder::new(self.own.join("saved")))
            .with_documents(Collection::PINS, DocumentFolder::single(&self.servers.join("pins.json")))
            .with_documents(Collection::PINNED, DocumentFolder::new(self.servers.join("cache").join("pinned")))
            .with_documents(Collection::TOKENS, DocumentFolder::new(self.own.join("state").join("tokens")))
            .with_stream(Stream::STATS, &self.stats)
            .with_blobs(&self.results)
            .with_runs(&self.own.join("runs"));
        Ok(Arc::new(FlatFiles::new(places)))
    }
}

/// Whether a place is the address of a database rather than a folder.
pub fn is_address(place: &str) -> bool {
    place.contains("://")
}

/// Opens the state at an address, or in a folder like `.onetool`.
pub fn open(place: &str) -> anyhow::Result<State> {
    if is_address(place) {
        return Ok(Arc::new(PostgresState::open(place)?));
    }
    Ok(Arc::new(FlatFiles::new(FlatPlaces::standard(std::path::absolute(place)?))))
}
