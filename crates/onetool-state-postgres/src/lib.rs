//! State in PostgreSQL, shared by any number of equal servers.
//!
//! Tables begin with `onetool_` and are created by migrations inside the binary, forward only ([`migrations`]).
//! Documents carry a number that grows with every change of their collection and is assigned under a row lock, so
//! numbers become visible in order: the table of documents is its own outbox, and [`PostgresState`] polls it instead of
//! listening. No guarantee depends on the clocks of different machines: the database's clock decides.
//!
//! **Outages.** The first use connects, not the start. While the database is unreachable, every call fails within a few
//! seconds with a clear error; once it is reachable, the next call connects again.

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
    /// Parses the address, `postgres://user@host/database?sslmode=require`. Connects on first use.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        Ok(Self { database: Arc::new(Database::new(url)?), elsewhere: None })
    }

    /// Keeps the contents of new blobs elsewhere. Those already in the database stay readable.
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
