//! One upstream server: its state, and the task that keeps it connected.
//!
//! The task owns the connection. Calls only look at the phase: they use the connection where there is one, and wait for
//! the next outcome where there is none. Whatever happens here concerns this server alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onetool_process::SearchPath;
use onetool_sdk::{CallContext, ErrorKind, ToolError};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Opening};
use super::http::HttpClient;
use super::listing::{Listing, ListingCache};
use super::pack::{Filter, Ingredients, Published};
use super::pins::{PinError, Pins, ServerPins};
use super::settings::{Enabled, Offers, PinMode, ServerKind, ServerSettings, limits};
use super::text::Redactor;

/// What all servers share.
pub(super) struct Shared {
    pub(super) generation: AtomicU64,
    pub(super) pins: Pins,
    pub(super) offers: Offers,
    pub(super) search_path: SearchPath,
    pub(super) http: HttpClient,
    /// Places for servers that start in the background.
    pub(super) places: Arc<Semaphore>,
}

/// How a server stands. `attempt` numbers the attempts to connect.
#[derive(Clone)]
pub(super) enum Phase {
    /// With the reason why the attempt before it failed, or the connection before it ended.
    Connecting {
        attempt: u64,
        after: Option<String>,
    },
    Connected {
        attempt: u64,
        connection: Arc<Connection>,
    },
    Disconnected {
        attempt: u64,
        reason: String,
    },
    Disabled {
        reason: String,
    },
    /// Shut down for good.
    Ended,
}

impl Phase {
    /// The number of the last attempt whose outcome is known.
    fn settled_attempt(&self) -> u64 {
        match self {
            Self::Connecting { attempt, .. } => attempt.saturating_sub(1),
            Self::Connected { attempt, .. } | Self::Disconnected { attempt, .. } => *attempt,
            Self::Disabled { .. } | Self::Ended => 0,
        }
    }
}

/// What is known of a server's tools.
struct Shelf {
    listing: Option<Arc<Listing>>,
    pins: Result<ServerPins, PinError>,
    published: Arc<Published>,
}

pub(super) struct Server {
    pub(super) settings: ServerSettings,
    pub(super) pack_name: String,
    pub(super) redactor: Redactor,
    filter: Filter,
    cache: ListingCache,
    phase: watch::Sender<Phase>,
    /// Filled from disk when it is first looked at.
    shelf: Mutex<Option<Shelf>>,
    /// A call wants a connection now.
    demand: Notify,
    /// The same, for the next attempt: it does not queue behind servers that nobody waits for.
    is_wanted: AtomicBool,
    /// A call found that the server may be gone.
    suspicion: Notify,
    shared: Arc<Shared>,
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        pack_name: String,
        documents: Arc<dyn onetool_state::interface::Documents>,
        shared: Arc<Shared>,
    ) -> Self {
        let mut disabled = match &settings.enabled {
            Enabled::Yes => None,
            Enabled::No { reason } => Some(reason.clone()),
        };
        let filter = Filter::new(&settings).or_else(|error| {
            disabled.get_or_insert_with(|| format!("a pattern of its tools is malformed: {error}"));
            let everything = ServerSettings { include: Vec::new(), exclude: Vec::new(), ..settings.clone() };
            Filter::new(&everything)
        });
        let phase = match disabled {
            Some(reason) => Phase::Disabled { reason },
            None => Phase::Disconnected { attempt: 0, reason: "not connected yet".to_owned() },
        };
        Self {
            pack_name,
            redactor: Redactor::new(&settings),
            filter: filter.unwrap_or_default(),
            cache: ListingCache::new(documents, &settings),
            phase: watch::Sender::new(phase),
            shelf: Mutex::new(None),
            demand: Notify::new(),
            is_wanted: AtomicBool::new(false),
            suspicion: Notify::new(),
            settings,
            shared,
        }
    }

    pub(super) fn disable(&self, reason: String) {
        self.phase.send_replace(Phase::Disabled { reason });
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(super) fn is_disabled(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Disabled { .. })
    }

    /// The pack as it is now, with the way to each call.
    pub(super) fn published(&self) -> Arc<Published> {
        self.with_shelf(|shelf| shelf.published.clone())
    }

    pub(super) fn listing(&self) -> Option<Arc<Listing>> {
        self.with_shelf(|shelf| shelf.listing.clone())
    }

    /// What is wrong with the pins, where they matter.
    pub(super) fn pin_error(&self) -> Option<PinError> {
        if self.settings.pin == PinMode::Off {
            return None;
        }
        self.with_shelf(|shelf| shelf.pins.clone().err())
    }

    /// The connection, made now if there is none, within the server's timeout and the call's deadline.
    pub(super) async fn connection(&self, ctx: &CallContext) -> Result<Arc<Connection>, ToolError> {
        let mut phases = self.phase.subscribe();
        let settled = {
            let phase = phases.borrow();
            match &*phase {
                Phase::Connected { connection, .. } if !connection.wire.closed.is_cancelled() => {
                    return Ok(connection.clone());
                }
                phase => phase.settled_attempt(),
            }
        };
        self.is_wanted.store(true, Ordering::Release);
        self.demand.notify_one();
        let next_outcome = async {
            loop {
                match &*phases.borrow_and_update() {
                    Phase::Connected { connection, .. } if !connection.wire.closed.is_cancelled() => {
                        return Ok(connection.clone());
                    }
                    Phase::Disabled { reason } => {
                        return Err(ToolError::unavailable(format!(
                            "the server '{}' is disabled: {reason}",
                            self.settings.name
                        )));
                    }
                    Phase::Ended => return Err(self.not_connected("it was shut down")),
                    Phase::Disconnected { attempt, reason } if *attempt > settled => {
                        return Err(self.not_connected(reason));
                    }
                    Phase::Connected { .. } | Phase::Connecting { .. } | Phase::Disconnected { .. } => {}
                }
                if phases.changed().await.is_err() {
                    return Err(self.not_connected("it was shut down"));
                }
            }
        };
        let patience = ctx.remaining().map_or(self.settings.timeout, |left| left.min(self.settings.timeout));
        tokio::select! {
            biased;
            outcome = next_outcome => outcome,
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            () = tokio::time::sleep(patience) => Err(ToolError::new(
                ErrorKind::Timeout,
                format!("the server '{}' was not connected within {} s", self.settings.name, patience.as_secs_f64()),
            )
            .with_hint("ot.health() tells how it stands; its timeout is servers.<name>.timeout")),
        }
    }

    fn not_connected(&self, reason: &str) -> ToolError {
        ToolError::unavailable(format!("the server '{}' is not connected: {reason}", self.settings.name))
            .with_hint("ot.health() tells how every server stands")
    }

    /// Ends the connection, if there is one, and makes a new one now.
    pub(super) async fn reconnect(&self) -> Result<(), ToolError> {
        if let Phase::Disabled { reason } = self.phase() {
            return Err(ToolError::unavailable(format!("the server '{}' is disabled: {reason}", self.settings.name)));
        }
        if let Phase::Connected { connection, .. } = self.phase() {
            connection.close().await;
        }
        self.is_wanted.store(true, Ordering::Release);
        self.demand.notify_one();
        Ok(())
    }

    /// A call found that the server may be gone: the task looks after it.
    pub(super) fn suspect(&self) {
        self.suspicion.notify_one();
    }

    /// Keeps the server connected until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(limits::START_DELAY) => {}
            () = self.demand.notified() => {}
        }
        let mut failures = 0;
        let mut after = None;
        for attempt in 1.. {
            self.enter(Phase::Connecting { attempt, after: after.take() });
            let outcome = tokio::select! {
                () = stop.cancelled() => break,
                outcome = self.connect() => outcome,
            };
            let reason = match outcome {
                Ok(connection) => {
                    let since = Instant::now();
                    let connection = Arc::new(connection);
                    self.enter(Phase::Connected { attempt, connection: connection.clone() });
                    let reason = self.watch(&connection, &stop).await;
                    if since.elapsed() >= limits::STABLE_AFTER {
                        failures = 0;
                    }
                    self.enter(Phase::Disconnected { attempt, reason: reason.clone() });
                    connection.close().await;
                    // What the transport found out at its very end says more.
                    connection.wire.reason_or(&reason)
                }
                Err(reason) => {
                    failures = failures.max(1);
                    reason
                }
            };
            if stop.is_cancelled() {
                break;
            }
            tracing::warn!(target: "onetool::server", server = self.settings.name, "not connected: {reason}");
            after = Some(reason.clone());
            self.enter(Phase::Disconnected { attempt, reason });
            let pause = limits::BACK_OFF[failures.min(limits::BACK_OFF.len() - 1)];
            failures += 1;
            if self.pause(pause, &stop).await.is_break() {
                break;
            }
        }
        self.enter(Phase::Ended);
    }

    /// Waits before the next attempt. A call that wants the server now cuts it short.
    async fn pause(&self, pause: Duration, stop: &CancellationToken) -> std::ops::ControlFlow<()> {
        let gap = pause.min(limits::ATTEMPT_GAP);
        let wait = async {
            tokio::time::sleep(gap).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(gap)) => {}
                () = self.demand.notified() => {}
            }
        };
        tokio::select! {
            () = stop.cancelled() => std::ops::ControlFlow::Break(()),
            () = wait => std::ops::ControlFlow::Continue(()),
        }
    }

    /// One attempt: start or reach the server, shake hands, learn its tools.
    async fn connect(&self) -> Result<Connection, String> {
        let place = if self.is_wanted.swap(false, Ordering::AcqRel) {
            None
        } else {
            tokio::select! {
                place = self.shared.places.clone().acquire_owned() => place.ok(),
                () = self.demand.notified() => None,
            }
        };
        let timeout = self.settings.timeout;
        let opening = Opening {
            settings: &self.settings,
            redactor: &self.redactor,
            offers: self.shared.offers,
            search_path: &self.shared.search_path,
            http: &self.shared.http,
            heard: Mutex::new(None),
        };
        let work = async {
            let connection = opening.open().await?;
            match connection.list(timeout).await {
                Ok(listing) => {
                    self.learn(listing).await;
                    Ok(connection)
                }
                Err(failure) => {
                    let reason = format!("its tools can't be listed: {}", failure.reason());
                    connection.close().await;
                    Err(self.redactor.show(&reason, limits::REASON_CHARS))
                }
            }
        };
        let work = async move {
            tokio::pin!(work);
            tokio::select! {
                outcome = &mut work => return outcome,
                () = tokio::time::sleep(limits::START_PLACE) => drop(place),
            }
            work.await
        };
        tokio::time::timeout(timeout, Box::pin(work)).await.unwrap_or_else(|_| Err(opening.given_up(timeout)))
    }

    /// Looks after a connection until it ends; answers why it did.
    async fn watch(&self, connection: &Connection, stop: &CancellationToken) -> String {
        let care = async {
            loop {
                if let Some(reason) = self.attend(connection).await {
                    return reason;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => "it was shut down".to_owned(),
            () = connection.wire.closed.cancelled() => connection.wire.reason_or("it closed the connection"),
            reason = care => reason,
        }
    }

    /// Waits for something to do about a connection, and does it. Answers with a reason where it must end.
    async fn attend(&self, connection: &Connection) -> Option<String> {
        let is_remote = matches!(self.settings.kind, ServerKind::Http { .. });
        tokio::select! {
            () = connection.wire.tools_changed.notified() => {
                tokio::time::sleep(limits::REFRESH_GAP).await;
                match connection.list(self.settings.timeout).await {
                    Ok(listing) => self.learn(listing).await,
                    Err(failure) => {
                        let reason = self.redactor.show(&failure.reason(), limits::REASON_CHARS);
                        let server = &self.settings.name;
                        tracing::warn!(target: "onetool::server", server, "its changed tools can't be listed: {reason}");
                        self.suspect();
                    }
                }
                return None;
            }
            () = self.suspicion.notified() => {}
            () = tokio::time::sleep(limits::KEEP_ALIVE), if is_remote => {}
        }
        let is_alive = connection.is_alive().await;
        (!is_alive).then(|| connection.wire.reason_or("it does not answer"))
    }

    /// Takes in what a server offers: pins what is new, puts it on the shelf, keeps a copy on disk.
    async fn learn(&self, listing: Listing) {
        let listing = Arc::new(listing);
        let pins = self.pins(listing.clone(), Pinning::New).await;
        self.put(Some(listing.clone()), pins);
        let cache = self.cache.clone();
        let written = tokio::task::spawn_blocking(move || {
            // Written only where it differs: most starts learn nothing new.
            if cache.read().as_ref() == Some(&*listing) { Ok(()) } else { cache.write(&listing) }
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(target: "onetool::server", server = self.settings.name, "its tools can't be cached: {error}");
        }
    }

    async fn pins(&self, listing: Arc<Listing>, pinning: Pinning) -> Result<ServerPins, PinError> {
        if self.settings.pin == PinMode::Off && pinning == Pinning::New {
            return Ok(ServerPins::new());
        }
        let shared = self.shared.clone();
        let name = self.settings.name.clone();
        let work = tokio::task::spawn_blocking(move || match pinning {
            Pinning::New => shared.pins.pin_new(&name, &listing),
            Pinning::All => shared.pins.accept(&name, &listing, None),
            Pinning::One(tool) => shared.pins.accept(&name, &listing, Some(&tool)),
        });
        work.await.unwrap_or_else(|error| Err(PinError::Write(error.to_string())))
    }

    /// Pins what the server offers now, for all its tools or for one by its own name.
    pub(super) async fn accept(&self, tool: Option<String>) -> Result<(), PinError> {
        let Some(listing) = self.listing() else { return Ok(()) };
        let pins = self.pins(listing.clone(), tool.map_or(Pinning::All, Pinning::One)).await;
        let outcome = pins.as_ref().map(|_| ()).map_err(Clone::clone);
        self.put(Some(listing), pins);
        outcome
    }

    fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
        // The pack's note depends on the phase. A shelf that nobody has looked at yet has no note to change.
        let mut shelf = self.shelf.lock();
        if let Some(shelf) = &mut *shelf
            && shelf.published.pack.note != self.note(shelf.listing.as_deref())
        {
            self.publish(shelf);
        }
    }

    fn put(&self, listing: Option<Arc<Listing>>, pins: Result<ServerPins, PinError>) {
        self.with_shelf(|shelf| {
            if shelf.listing != listing || shelf.pins != pins {
                shelf.listing = listing;
                shelf.pins = pins;
                self.publish(shelf);
            }
        });
    }

    fn publish(&self, shelf: &mut Shelf) {
        shelf.published = Arc::new(self.make(shelf.listing.as_deref(), &shelf.pins));
        self.shared.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn with_shelf<T>(&self, look: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut shelf = self.shelf.lock();
        let shelf = shelf.get_or_insert_with(|| {
            let listing = self.cache.read();
            let pins = match self.settings.pin {
                PinMode::Off => Ok(ServerPins::new()),
                PinMode::Flag | PinMode::Strict => self.shared.pins.of(&self.settings.name),
            };
            let published = Arc::new(self.make(listing.as_ref(), &pins));
            Shelf { listing: listing.map(Arc::new), pins, published }
        });
        look(shelf)
    }

    fn make(&self, listing: Option<&Listing>, pins: &Result<ServerPins, PinError>) -> Published {
        Ingredients {
            settings: &self.settings,
            pack_name: &self.pack_name,
            filter: &self.filter,
            listing,
            pins,
            note: self.note(listing),
        }
        .publish()
    }

    /// The same for every way of not being connected, so that a server that comes and goes does not change the catalog.
    fn note(&self, listing: Option<&Listing>) -> Option<String> {
        let is_connected = matches!(*self.phase.borrow(), Phase::Connected { .. });
        match listing {
            _ if is_connected => None,
            Some(_) => Some("not connected now; its tools are listed as they were when it last was".to_owned()),
            None => Some("not connected yet; its tools are not known".to_owned()),
        }
    }
}

/// What is to be pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pinning {
    New,
    All,
    One(String),
}
