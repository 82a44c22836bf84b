//! State as plain files: the first backend, and the default.
//!
//! Every file is human-readable and keeps its established format. Changes happen under a lock file and reach the disk
//! before they are acknowledged, so any number of processes may share the folders. The files are authoritative: memory
//! only caches how they last looked.
//!
//! The methods block for as long as the disk takes; call them where blocking is allowed.

mod batch;
mod blobs;
mod documents;
mod jobs;
mod leases;
mod memory;
mod scan;
mod stamp;
mod trail;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use blobs::FlatBlobs;
use documents::FlatDocuments;
use jobs::FlatJobs;
use leases::FlatLeases;
use trail::{FlatTrail, StreamFile};

use crate::interface::{Backend, Blobs, Collection, Documents, Jobs, Leases, Limits, Retention, Stream, Trail};

/// How long a change waits for another process's change.
const LOCK_WAIT: Duration = Duration::from_secs(20);
/// Maximum size of a document unless its collection sets another.
const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of a document among bundles: the switches of everything built in.
const BUNDLE_BYTES: usize = 1024 * 1024;

/// Maximum size of a background run's record; its command and reply are stored separately.
const RUN_BYTES: usize = 64 * 1024;
/// Maximum size of saved code, including its description.
const SAVED_BYTES: usize = 256 * 1024;

/// Where a collection's documents are kept.
#[derive(Debug, Clone)]
pub struct DocumentFolder {
    pub folder: PathBuf,
    pub lock: PathBuf,
    pub max_bytes: usize,
    /// The only document; other files in the folder are not ours.
    pub only: Option<String>,
}

impl DocumentFolder {
    /// `<folder>/<key>.json` for every document.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { lock: folder.join(".lock"), folder, max_bytes: DOCUMENT_BYTES, only: None }
    }

    /// One document in its own file.
    pub fn single(file: &Path) -> Self {
        let folder = file.parent().unwrap_or_else(|| Path::new(".")).to_owned();
        let only = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self { lock: file.with_extension("lock"), folder, max_bytes: DOCUMENT_BYTES, only }
    }

    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }
}

/// Where everything is kept. Anything unset lies below one folder; collections without a folder live in memory.
#[derive(Debug, Clone)]
pub struct FlatPlaces {
    root: PathBuf,
    documents: HashMap<Collection, DocumentFolder>,
    streams: HashMap<Stream, StreamFile>,
    blobs: PathBuf,
}

impl FlatPlaces {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { blobs: root.join("tmp"), documents: HashMap::new(), streams: HashMap::new(), root }
    }

    /// The standard layout of a `.onetool` folder, used unless the configuration sets another.
    pub fn standard(own: impl Into<PathBuf>) -> Self {
        let own = own.into();
        Self::new(&own)
            .with_bundles(&own.join("bundles"))
            .with_documents(Collection::LISTINGS, DocumentFolder::new(own.join("cache").join("servers")))
            .with_documents(Collection::SAVED, DocumentFolder::new(own.join("saved")).with_max_bytes(SAVED_BYTES))
            .with_documents(Collection::PINS, DocumentFolder::single(&own.join("pins.json")))
            .with_documents(Collection::PINNED, DocumentFolder::new(own.join("cache").join("pinned")))
            .with_documents(Collection::TOKENS, DocumentFolder::new(own.join("state").join("tokens")))
            // A server on files keeps plans in memory; a backup stores those of a team.
            .with_documents(Collection::TODO, DocumentFolder::new(own.join("state").join("todo")))
            .with_documents(Collection::SWITCHES, DocumentFolder::single(&own.join("switches.json")))
            .with_documents(Collection::SHAPES, DocumentFolder::single(&own.join("stats").join("shapes.json")))
            .with_documents(Collection::CREDENTIALS, DocumentFolder::new(own.join("credentials")))
            .with_documents(Collection::ACCESS_TOKENS, DocumentFolder::new(own.join("state").join("access-tokens")))
            .with_stream(Stream::STATS, &own.join("stats").join("stats.jsonl"))
            .with_stream(Stream::AUDIT, &own.join("audit").join("audit.jsonl"))
            .with_runs(&own.join("runs"))
    }

    #[must_use]
    pub fn with_documents(mut self, collection: Collection, folder: DocumentFolder) -> Self {
        self.documents.insert(collection, folder);
        self
    }

    /// Keeps the lines of `stream` in `file`, locked by a file beside it.
    #[must_use]
    pub fn with_stream(mut self, stream: Stream, file: &Path) -> Self {
        self.streams.insert(stream, StreamFile::new(file.to_owned()));
        self
    }

    #[must_use]
    pub fn with_blobs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.blobs = folder.into();
        self
    }

    /// Keeps background runs and MCP sessions below `folder`.
    #[must_use]
    pub fn with_runs(self, folder: &Path) -> Self {
        self.with_documents(Collection::RUNS, DocumentFolder::new(folder.join("records")).with_max_bytes(RUN_BYTES))
            .with_documents(Collection::RUN_CONTENTS, DocumentFolder::new(folder.join("contents")))
            .with_documents(
                Collection::APPROVALS,
                DocumentFolder::new(folder.join("approvals")).with_max_bytes(RUN_BYTES),
            )
            .with_documents(
                Collection::SESSIONS,
                DocumentFolder::new(folder.join("sessions")).with_max_bytes(RUN_BYTES),
            )
    }

    /// Keeps bundles below `folder`, and their call counts beside them.
    #[must_use]
    pub fn with_bundles(mut self, folder: &Path) -> Self {
        let documents = DocumentFolder::new(folder).with_max_bytes(BUNDLE_BYTES);
        let usage = StreamFile {
            file: folder.join("usage.jsonl"),
            lock: documents.lock.clone(),
            home: folder.parent().map(Path::to_owned),
        };
        self.streams.insert(Stream::USAGE, usage);
        self.with_documents(Collection::BUNDLES, documents)
    }
}

/// State in files.
#[derive(Clone)]
pub struct FlatFiles {
    root: PathBuf,
    blobs: PathBuf,
    documents: Arc<FlatDocuments>,
    leases: Arc<FlatLeases>,
    trail: Arc<FlatTrail>,
    jobs: Arc<FlatJobs>,
}

impl FlatFiles {
    /// Touches nothing yet: folders are created on the first write.
    pub fn new(places: FlatPlaces) -> Self {
        Self {
            documents: Arc::new(FlatDocuments::new(places.documents)),
            leases: Arc::new(FlatLeases::new(places.root.join("state"))),
            trail: Arc::new(FlatTrail::new(places.root.clone(), places.streams)),
            jobs: Arc::new(FlatJobs::new(places.root.join("runs").join("queue"))),
            root: places.root,
            blobs: places.blobs,
        }
    }

    /// Only blobs, in a folder.
    pub fn blobs_in(folder: impl Into<PathBuf>, retention: Retention) -> Arc<dyn Blobs> {
        Arc::new(FlatBlobs::new(folder.into(), retention))
    }
}

impl Backend for FlatFiles {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn documents(&self) -> Arc<dyn Documents> {
        self.documents.clone()
    }

    fn blobs(&self, retention: Retention) -> Arc<dyn Blobs> {
        Self::blobs_in(&self.blobs, retention)
    }

    fn leases(&self) -> Arc<dyn Leases> {
        self.leases.clone()
    }

    fn limits(&self) -> Arc<dyn Limits> {
        self.leases.clone()
    }

    fn trail(&self) -> Arc<dyn Trail> {
        self.trail.clone()
    }

    fn jobs(&self) -> Arc<dyn Jobs> {
        self.jobs.clone()
    }
}
