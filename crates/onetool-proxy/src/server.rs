//! One upstream server: its state, and the task that keeps it connected.
//!
//! The task owns the connection. Calls only look at the phase: they use an existing connection, and otherwise wait for
//! the next outcome. After an attempt that hung they do not wait: the circuit is open, and they fail immediately with
//! the reason and the time of the next attempt, which the task makes by itself. Whatever happens here affects only this
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onetool_process::SearchPath;
use onetool_sdk::{CallContext, SourceChange, ToolError};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::contact::{Contact, ContactMemory};
use super::http::HttpClient;
use super::listing::{Listing, ListingCache};
use super::oauth::OAuth;
use super::opening::{Opened, Opening, Stage};
use super::pack::{Filter, PackInputs, Published};
use super::phase::{End, Phase, Trouble, doubled};
use super::pins::{PinError, Pins, ServerPins};
use super::settings::{Enabled, Offers, PinMode, ServerKind, ServerSettings, limits};
use super::text::Redactor;
use super::watching::{News, Watched, subscribe, unsubscribe};

/// What all servers share.
pub(super) struct Shared {
    pub(super) generation: AtomicU64,
    pub(super) pins: Pins,
    pub(super) offers: Offers,
    pub(super) search_path: SearchPath,
    pub(super) http: Arc<HttpClient>,
    pub(super) credentials: onetool_state::State,
    /// Whether this process lives long enough to wait for a sign-in.
    pub(super) waits_for_sign_in: AtomicBool,
    /// Changes that servers announce.
    pub(super) changes: broadcast::Sender<SourceChange>,
    /// Slots for servers that start in the background.
    pub(super) places: Arc<Semaphore>,
}

/// What is known about a server's tools.
struct KnownTools {
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
    memory: ContactMemory,
    /// Read on first access.
    contact: Mutex<Option<Contact>>,
    /// What an attempt to connect waits for.
    pub(super) stage: Stage,
    watched: Watched,
    /// The sign-in of the server, if it may require one.
    pub(super) oauth: Option<Arc<OAuth>>,
    /// How often in a row it froze while calls waited.
    freezes: AtomicU32,
    pub(super) phase: watch::Sender<Phase>,
    /// Loaded from disk on first access.
    shelf: Mutex<Option<KnownTools>>,
    /// A call wants a connection now.
    pub(super) demand: Notify,
    /// The next attempt has a waiting call: it does not queue behind servers that no one waits for.
    pub(super) is_wanted: AtomicBool,
    /// Requests an attempt now, whatever happened before.
    pub(super) insistence: Notify,
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
            None => Phase::Disconnected { attempt: 0, trouble: Trouble::new("not connected yet") },
        };
        let oauth = match &settings.kind {
            ServerKind::Http { url, headers } if settings.auth.enabled => {
                let has_own = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
                let auth = settings.auth.clone();
                let made = || OAuth::new(&settings.name, url, auth, &shared.credentials, shared.http.clone());
                if has_own { None } else { made() }
            }
            ServerKind::Http { .. } | ServerKind::Stdio { .. } => None,
        };
        Self {
            oauth,
            pack_name,
            redactor: Redactor::new(&settings),
            filter: filter.unwrap_or_default(),
            cache: ListingCache::new(documents.clone(), &settings),
            memory: ContactMemory::new(documents, &settings),
            contact: Mutex::new(None),
            stage: Stage::default(),
            watched: Watched::default(),
            freezes: AtomicU32::new(0),
            phase: watch::Sender::new(phase),
            shelf: Mutex::new(None),
            demand: Notify::new(),
            is_wanted: AtomicBool::new(false),
            insistence: Notify::new(),
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

    /// The current pack, with the route of each call.
    pub(super) fn published(&self) -> Arc<Published> {
        self.with_shelf(|shelf| shelf.published.clone())
    }

    pub(super) fn listing(&self) -> Option<Arc<Listing>> {
        self.with_shelf(|shelf| shelf.listing.clone())
    }

    /// What is wrong with the pins, if they matter.
    pub(super) fn pin_error(&self) -> Option<PinError> {
        if self.settings.pin == PinMode::Off {
            return None;
        }
        self.with_shelf(|shelf| shelf.pins.clone().err())
    }

    /// Watches a resource from now on, across connections.
    pub(super) async fn watch_resource(&self, uri: &str, ctx: &CallContext) -> Result<(), ToolError> {
        let connection = self.connection(ctx).await?;
        let info = connection.peer_info();
        let offers = |info: &rmcp::model::ServerPeerInfo| {
            info.capabilities.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
        };
        if !info.as_deref().is_some_and(offers) {
            let name = &self.settings.name;
            return Err(ToolError::unavailable(format!("the server '{name}' does not tell when its resources change")));
        }
        let is_new = self.watched.add(uri)?;
        if is_new && info.is_some_and(|info| info.protocol_version.has_initialize()) {
            subscribe(&connection, uri).await.map_err(|reason| {
                self.watched.remove(uri);
                ToolError::unavailable(format!("the server '{}' can't watch {uri}: {reason}", self.settings.name))
            })?;
        }
        Ok(())
    }

    /// Removes one watcher of a resource.
    pub(super) async fn unwatch_resource(&self, uri: &str) {
        if self.watched.remove(uri)
            && let Phase::Connected { connection, .. } = self.phase()
            && connection.peer_info().is_some_and(|info| info.protocol_version.has_initialize())
        {
            unsubscribe(&connection, uri).await;
        }
    }

    /// Records that a call was answered: the server is not frozen.
    pub(super) fn answered(&self) {
        self.freezes.store(0, Ordering::Relaxed);
    }

    /// Whether it hung on the last attempt, in this process or in the previous one.
    pub(super) fn is_hung(&self) -> bool {
        match &*self.phase.borrow() {
            Phase::Connecting { after: Some(trouble), .. } => trouble.hung,
            Phase::Disconnected { attempt: 1.., trouble } => trouble.hung,
            Phase::Connecting { after: None, .. } | Phase::Disconnected { .. } => {
                self.with_contact(|contact| contact.hung.is_some())
            }
            Phase::Connected { .. } | Phase::Disabled { .. } | Phase::Ended => false,
        }
    }

    fn with_contact<T>(&self, look: impl FnOnce(&mut Contact) -> T) -> T {
        look(self.contact.lock().get_or_insert_with(|| self.memory.read()))
    }

    /// Updates what is remembered about the server, and stores it if it differs.
    async fn remember(&self, change: impl FnOnce(&mut Contact)) {
        let (before, after) = self.with_contact(|contact| {
            let before = contact.clone();
            change(contact);
            (before, contact.clone())
        });
        if before == after {
            return;
        }
        let memory = self.memory.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || memory.write(&after)).await {
            tracing::warn!(target: "onetool::server", server = self.settings.name, "its era can't be remembered: {error}");
        }
    }

    /// Reports that the server may be gone: the task checks it.
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
        let mut failures: u32 = 0;
        let mut hangs: u32 = 0;
        let mut after = None;
        for attempt in 1.. {
            let since = Instant::now();
            self.enter(Phase::Connecting { attempt, since, after: after.take() });
            let outcome = tokio::select! {
                () = stop.cancelled() => {
                    // The process may have been stopped because the server hung.
                    if since.elapsed() >= limits::HUNG_AFTER {
                        let reason = format!("it was not ready within {} s", since.elapsed().as_secs());
                        self.remember(|contact| contact.hung = Some(reason)).await;
                    }
                    break;
                }
                outcome = self.connect() => outcome,
            };
            self.stage.clear();
            let (reason, hung) = match outcome {
                Ok(connection) => {
                    let since = Instant::now();
                    hangs = 0;
                    let connection = Arc::new(connection);
                    self.enter(Phase::Connected { attempt, connection: connection.clone() });
                    let end = self.watch(&connection, &stop).await;
                    if since.elapsed() >= limits::STABLE_AFTER {
                        failures = 0;
                    }
                    let (reason, stood_still) = match end {
                        End::Closed(reason) => (reason, false),
                        End::Silent(reason) => (reason, true),
                    };
                    self.enter(Phase::Disconnected { attempt, trouble: Trouble::new(reason.clone()) });
                    connection.close().await;
                    let freezes = if stood_still { self.freezes.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
                    // The transport's own reason, found at its very end, says more.
                    (connection.wire.reason_or(&reason), freezes >= limits::FREEZES)
                }
                Err(reason) => {
                    failures = failures.max(1);
                    if self.oauth.as_ref().is_some_and(|oauth| oauth.needs_sign_in()) {
                        failures = NO_HURRY;
                    }
                    let hung = since.elapsed() >= limits::HUNG_AFTER.min(self.settings.timeout);
                    let remembered = hung.then(|| reason.clone());
                    self.remember(|contact| contact.hung = remembered).await;
                    (reason, hung)
                }
            };
            if stop.is_cancelled() {
                break;
            }
            tracing::warn!(target: "onetool::server", server = self.settings.name, "not connected: {reason}");
            let pause = match (hung, failures) {
                (true, _) => {
                    hangs += 1;
                    doubled(self.settings.retry_after, hangs - 1).min(self.settings.retry_max)
                }
                (false, 0) => Duration::ZERO,
                (false, _) => doubled(limits::FIRST_PAUSE, failures - 1).min(self.settings.retry_max),
            };
            failures += 1;
            // Retrying does not help without a sign-in.
            let next = (!self.needs_sign_in()).then(|| Instant::now() + pause);
            let trouble = Trouble { reason, hung: hung && next.is_some(), next };
            after = Some(trouble.clone());
            self.enter(Phase::Disconnected { attempt, trouble });
            self.prepare_sign_in();
            if self.pause(pause, hung, &stop).await.is_break() {
                break;
            }
        }
        self.enter(Phase::Ended);
    }

    /// Waits before the next attempt. A call that needs the server now cuts the wait short, unless the server hung.
    async fn pause(&self, pause: Duration, hung: bool, stop: &CancellationToken) -> std::ops::ControlFlow<()> {
        let gap = pause.min(limits::ATTEMPT_GAP);
        let wait = async {
            tokio::time::sleep(gap).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(gap)) => {}
                () = self.demand.notified(), if !hung => {}
                () = self.somebody_signed_in() => {}
                () = self.insistence.notified() => {}
            }
        };
        tokio::select! {
            () = stop.cancelled() => std::ops::ControlFlow::Break(()),
            () = wait => std::ops::ControlFlow::Continue(()),
        }
    }

    /// Returns when someone has signed in, here or in another process; never if no sign-in is required.
    async fn somebody_signed_in(&self) {
        let Some(oauth) = self.oauth.as_ref().filter(|oauth| oauth.needs_sign_in()) else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                () = oauth.signed_in.notified() => return,
                () = tokio::time::sleep(limits::SIGN_IN_POLL) => {
                    if oauth.has_news().await {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn waits_for_sign_in(&self) -> bool {
        self.shared.waits_for_sign_in.load(Ordering::Relaxed)
    }

    /// Finds out where to sign in, so that the address is known before anyone asks.
    pub(super) fn prepare_sign_in(&self) {
        if let Some(oauth) = self.oauth.clone().filter(|oauth| oauth.needs_sign_in())
            && self.waits_for_sign_in()
        {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(limits::SIGN_IN_BEGINS, oauth.begin(false)).await;
            });
        }
    }

    /// One attempt: start or reach the server, perform the handshake, list its tools.
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
            auth: self.oauth.as_ref(),
            remembered: Mutex::new(self.with_contact(|contact| contact.era())),
            stage: &self.stage,
            news: News { pack: self.pack_name.clone(), sender: self.shared.changes.clone() },
            heard: Mutex::new(None),
        };
        let work = async {
            loop {
                let Opened { connection, era } = match opening.open().await {
                    Ok(opened) => opened,
                    Err(reason) => {
                        // The server may have been replaced: the next attempt detects the era again.
                        self.remember(|contact| contact.set_era(None)).await;
                        return Err(reason);
                    }
                };
                self.stage.enter("list of its tools");
                match connection.list(timeout).await {
                    Ok(listing) => {
                        self.learn(listing).await;
                        self.remember(|contact| {
                            contact.set_era(Some(era));
                            contact.hung = None;
                        })
                        .await;
                        return Ok(connection);
                    }
                    // A slow starter was asked in both eras, and may exit because of the wrong one.
                    Err(_) if connection.wire.closed.is_cancelled() && opening.remembered().is_none() => {
                        connection.close().await;
                        *opening.remembered.lock() = Some(era);
                    }
                    Err(failure) => {
                        let reason = format!("its tools can't be listed: {}", failure.reason());
                        connection.close().await;
                        return Err(self.redactor.show(&reason, limits::REASON_CHARS));
                    }
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

    /// Watches a connection until it ends; returns why it did.
    async fn watch(&self, connection: &Connection, stop: &CancellationToken) -> End {
        let care = async {
            loop {
                if let Some(reason) = self.attend(connection).await {
                    return reason;
                }
            }
        };
        let listening = async {
            self.watched.listen(connection).await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => End::Closed("it was shut down".to_owned()),
            () = connection.wire.closed.cancelled() => {
                End::Closed(connection.wire.reason_or("it closed the connection"))
            }
            reason = care => End::Silent(reason),
            never = listening => never,
        }
    }

    /// Waits for an event of a connection, and handles it. Returns a reason if the connection must end.
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

    /// Processes a listing: pins new tools, updates the shelf, stores a copy on disk.
    async fn learn(&self, listing: Listing) {
        let listing = Arc::new(listing);
        let pins = self.pins(listing.clone(), Pinning::New).await;
        self.put(Some(listing.clone()), pins);
        let cache = self.cache.clone();
        let written = tokio::task::spawn_blocking(move || {
            // Written only if it differs: most starts find nothing new.
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

    /// Pins what the server offers now: all its tools, or one by its original name.
    pub(super) async fn accept(&self, tool: Option<String>) -> Result<(), PinError> {
        let Some(listing) = self.listing() else { return Ok(()) };
        let pins = self.pins(listing.clone(), tool.map_or(Pinning::All, Pinning::One)).await;
        let outcome = pins.as_ref().map(|_| ()).map_err(Clone::clone);
        self.put(Some(listing), pins);
        outcome
    }

    fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
        // The pack's note depends on the phase. A shelf that was never accessed has no note to change.
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

    fn publish(&self, shelf: &mut KnownTools) {
        shelf.published = Arc::new(self.make(shelf.listing.as_deref(), &shelf.pins));
        self.shared.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn with_shelf<T>(&self, look: impl FnOnce(&mut KnownTools) -> T) -> T {
        let mut shelf = self.shelf.lock();
        let shelf = shelf.get_or_insert_with(|| {
            let listing = self.cache.read();
            let pins = match self.settings.pin {
                PinMode::Off => Ok(ServerPins::new()),
                PinMode::Flag | PinMode::Strict => self.shared.pins.of(&self.settings.name),
            };
            let published = Arc::new(self.make(listing.as_ref(), &pins));
            KnownTools { listing: listing.map(Arc::new), pins, published }
        });
        look(shelf)
    }

    fn make(&self, listing: Option<&Listing>, pins: &Result<ServerPins, PinError>) -> Published {
        PackInputs {
            settings: &self.settings,
            pack_name: &self.pack_name,
            filter: &self.filter,
            listing,
            pins,
            note: self.note(listing),
        }
        .publish()
    }

    /// The same for every way of not being connected, so that an unstable server does not change the catalog.
    fn note(&self, listing: Option<&Listing>) -> Option<String> {
        let is_connected = matches!(*self.phase.borrow(), Phase::Connected { .. });
        match listing {
            _ if is_connected => None,
            Some(_) => Some("not connected now; its tools are listed as they were when it last was".to_owned()),
            None => Some("not connected yet; its tools are not known".to_owned()),
        }
    }
}

/// Number of failures that leads to the longest pause: retrying does not help without a sign-in.
const NO_HURRY: u32 = 30;

/// What to pin.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pinning {
    New,
    All,
    One(String),
}
