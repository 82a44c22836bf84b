//! State in PostgreSQL: any number of equal servers share it.
//!
//! Tables begin with `onetool_` and are made by migrations inside the binary, forward only ([`migrations`]). Documents
//! carry a number that grows with every change of their collection and is given out under a row lock, so numbers become
//! visible in order: the table of documents is its own outbox, and [`PostgresState`] polls it instead of listening.
//! Nothing that must hold depends on clocks of different machines: the database's clock decides.
//!
//! **Away and back.** The first use connects, not the start. While the database can't be reached, every call fails within
//! a few seconds with a clear error; when it is back, the next call connects again.

mod blobs;
mod connection;
mod documents;
mod jobs;
mod leases;
mod migrations;
mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod trail;

use std::sync::Arc;

use onetool_state::interface::{Backend, Blobs, Chunks, Documents, Jobs, Leases, Limits, PoolStatus, Retention, Trail};

use blobs::PostgresBlobs;
use connection::Database;
pub use connection::OpenError;

/// State in a database. Cheap to clone.
#[derive(Clone)]
pub struct PostgresState {
    database: Arc<Database>,
    elsewhere: blobs::Elsewhere,
}

impl PostgresState {
    /// Reads the address, `postgres://user@host/database?sslmode=require`. Connects when it is first used.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        Ok(Self { database: Arc::new(Database::new(url)?), elsewhere: None })
    }

    /// Keeps the contents of blobs elsewhere from now on. Those that are in the database stay readable.
    #[must_use]
    pub fn with_contents(mut self, chunks: Arc<dyn Chunks>) -> Self {
        self.elsewhere = Some(chunks);
        self
    }
}

impl Backend for PostgresState {
    fn place(&self) -> String {
        match &self.elsewhere {
            Some(chunks) => format!("{} and {}", self.database.place(), chunks.place()),
            None => self.database.place().to_owned(),
        }
    }

    fn documents(&self) -> Arc<dyn Documents> {
        self.database.clone()
    }

    fn blobs(&self, retention: Retention) -> Arc<dyn Blobs> {
        Arc::new(PostgresBlobs::new(self.database.clone(), self.elsewhere.clone(), retention))
    }

    fn leases(&self) -> Arc<dyn Leases> {
        self.database.clone()
    }

    fn limits(&self) -> Arc<dyn Limits> {
        self.database.clone()
    }

    fn trail(&self) -> Arc<dyn Trail> {
        self.database.clone()
    }

    fn jobs(&self) -> Arc<dyn Jobs> {
        self.database.clone()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn pool(&self) -> Option<PoolStatus> {
        Some(self.database.pool_status())
    }
}
