//! Notifies clients of changes to the tool's description, the prompts or the content of `ot://tools`, and forwards
//! notifications of upstream servers about their prompts and resources.
//!
//! One task checks for changes while there are listeners; clients of older revisions are notified in their sessions,
//! those of 2026-07-28 on the streams that they open for it. Where several servers share their state, the same task
//! checks for subscriptions that clients made in their sessions at other servers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use onetool_run::Shared as Tools;
use onetool_sdk::SourceChange;
use onetool_state::interface::{Change, Collection, Cursor, Effort, Key};
use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::upstream::{self, Watch};
use super::{describe, prompts};
use crate::Service;

/// Poll interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of resources that one client may watch.
const MAX_WATCHED: usize = 256;

/// Counts the changes of each list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Versions {
    tool: u64,
    prompts: u64,
    resources: u64,
    /// The list of resources, as reported by upstream servers.
    listed: u64,
}

/// Changes of one server.
pub(super) struct Changes {
    versions: watch::Sender<Versions>,
    /// Notified when a listener joins.
    joined: Notify,
    /// Changed resources of upstream servers, by our names for them.
    updated: broadcast::Sender<String>,
    /// Keys of session documents that were written, here or at another server.
    kept: broadcast::Sender<Key>,
}

/// Maximum number of changed resources queued for a client.
const WAITING_UPDATES: usize = 256;

impl Changes {
    /// Starts a task that checks for changes as long as the returned value lives.
    pub(super) fn start(service: &Arc<dyn Service>) -> Arc<Self> {
        let updated = broadcast::Sender::new(WAITING_UPDATES);
        let versions = watch::channel(Versions::default()).0;
        let kept = broadcast::Sender::new(WAITING_UPDATES);
        let changes = Arc::new(Self { versions, joined: Notify::new(), updated, kept });
        crate::task::spawn(look(service.clone(), Arc::downgrade(&changes)));
        changes
    }

    /// Triggers a check at once, so that everything later counts as a change.
    fn subscribe(&self) -> watch::Receiver<Versions> {
        let versions = self.versions.subscribe();
        self.joined.notify_one();
        versions
    }
}

#[derive(PartialEq)]
struct Seen {
    tool: String,
    prompts: String,
    resources: Vec<String>,
}

fn see(service: &dyn Service) -> Seen {
    let shared = service.runner().toolbox().now();
    Seen {
        tool: describe::run(service, &shared),
        prompts: prompts::fingerprint(&shared),
        resources: shared.catalog().tools().map(|(pack, tool)| format!("{}.{}", pack.name, tool.name)).collect(),
    }
}

async fn look(service: Arc<dyn Service>, changes: Weak<Changes>) {
    let mut seen: Option<Seen> = None;
    let mut news = News::default();
    let mut written: Option<Cursor> = None;
    loop {
        wait(&changes).await;
        let Some(changes) = changes.upgrade() else { return };
        news.pass_on(&*service, &changes);
        if changes.versions.receiver_count() == 0 {
            // The next listener starts without a baseline.
            seen = None;
            continue;
        }
        if changes.kept.receiver_count() > 0 {
            written = look_at_sessions(&*service, &changes, written).await;
        } else {
            written = None;
        }
        let looking = service.clone();
        // The packs may have to be read from files.
        let Ok(now) = crate::task::blocking(move || see(&*looking)).await else { return };
        if let Some(before) = &seen {
            changes.versions.send_if_modified(|versions| {
                versions.tool += u64::from(before.tool != now.tool);
                versions.prompts += u64::from(before.prompts != now.prompts);
                versions.resources += u64::from(before.resources != now.resources);
                before != &now
            });
        }
        seen = Some(now);
    }
}

/// Forwards which session documents have changed since the last check. The first check forwards all of them: an earlier
/// write may be newer than what a session here has read.
async fn look_at_sessions(service: &dyn Service, changes: &Changes, since: Option<Cursor>) -> Option<Cursor> {
    let documents = service.served().state.documents();
    let from = since.unwrap_or(Cursor::START);
    let found = super::archive::blocking(move || {
        onetool_state::wait(documents.changes(Collection::SESSIONS, from, Effort::Usual))
    });
    let Some(found) = found.await else { return since };
    for change in found.changes {
        if let Change::Put(document) = change {
            let _ = changes.kept.send(document.key);
        }
    }
    Some(found.cursor)
}

/// Waits for the next check, or for a new listener. Keeps `changes` alive no longer than that.
async fn wait(changes: &Weak<Changes>) {
    let Some(changes) = changes.upgrade() else { return };
    let _ = tokio::time::timeout(INTERVAL, changes.joined.notified()).await;
}

/// Notifications of upstream servers. A reload replaces the sources.
#[derive(Default)]
struct News {
    sources: Vec<usize>,
    receivers: Vec<broadcast::Receiver<SourceChange>>,
}

impl News {
    fn pass_on(&mut self, service: &dyn Service, changes: &Changes) {
        let sources = service.runner().toolbox().sources();
        let ids: Vec<usize> = sources.iter().map(|source| Arc::as_ptr(source).cast::<()>() as usize).collect();
        if ids != self.sources {
            self.receivers = sources.iter().filter_map(|source| source.changes()).collect();
            self.sources = ids;
        }
        let (mut prompts, mut listed) = (0, 0);
        for receiver in &mut self.receivers {
            loop {
                match receiver.try_recv() {
                    Ok(SourceChange::Prompts { .. }) => prompts += 1,
                    Ok(SourceChange::Resources { .. }) => listed += 1,
                    Ok(SourceChange::Resource { pack, uri }) => {
                        let _ = changes.updated.send(upstream::our_uri(&pack, &uri));
                    }
                    // Some were missed: count a change of everything, so that listeners check for themselves.
                    Err(TryRecvError::Lagged(_)) => (prompts, listed) = (prompts + 1, listed + 1),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
        if prompts + listed > 0 {
            changes.versions.send_modify(|versions| {
                versions.prompts += prompts;
                versions.listed += listed;
            });
        }
    }
}

/// The action of a session when one of its documents was written.
pub(super) struct Follow {
    pub(super) key: Key,
    pub(super) refresh: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Follow {
    /// Waits until a document of its session was written; forever where there is no session to follow.
    async fn changed(follow: Option<&Self>, kept: &mut Option<broadcast::Receiver<Key>>) {
        let (Some(follow), Some(kept)) = (follow, kept) else { return std::future::pending().await };
        loop {
            match kept.recv().await {
                Ok(key) if key != follow.key => {}
                // Some were missed, possibly this one.
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}

/// The subscriptions of one session. Ends with the session.
#[derive(Default)]
pub(super) struct Listening {
    task: Mutex<Option<JoinHandle<()>>>,
    watched: Arc<Mutex<Vec<String>>>,
    /// Of those, the resources of upstream servers.
    upstream: Mutex<HashMap<String, Watch>>,
}

impl Listening {
    pub(super) fn start(&self, changes: &Changes, peer: Peer<RoleServer>, follow: Option<Follow>) {
        let mut versions = changes.subscribe();
        let mut updated = changes.updated.subscribe();
        let mut kept = follow.as_ref().map(|_| changes.kept.subscribe());
        let watched = self.watched.clone();
        let task = crate::task::spawn(async move {
            let mut before = *versions.borrow_and_update();
            loop {
                tokio::select! {
                    changed = versions.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let now = *versions.borrow_and_update();
                        if tell(&peer, before, now, &watched).await.is_err() {
                            return;
                        }
                        before = now;
                    }
                    () = Follow::changed(follow.as_ref(), &mut kept) => {
                        if let Some(follow) = &follow {
                            (follow.refresh)().await;
                        }
                    }
                    uri = updated.recv() => {
                        let Some(uri) = next(uri) else { return };
                        let is_watched = watched.lock().contains(&uri);
                        let update = ResourceUpdatedNotificationParam::new(uri);
                        if is_watched && peer.notify_resource_updated(update).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        if let Some(old) = self.task.lock().replace(task) {
            old.abort();
        }
    }

    /// Watches another resource; returns whether there was room.
    pub(super) fn watch(&self, uri: String) -> bool {
        let mut watched = self.watched.lock();
        if watched.contains(&uri) {
            return true;
        }
        if watched.len() >= MAX_WATCHED {
            return false;
        }
        watched.push(uri);
        true
    }

    /// Watches a resource of an upstream server; returns whether there was room.
    pub(super) fn watch_upstream(&self, uri: String, watch: Watch) -> bool {
        let has_room = self.watch(uri.clone());
        if has_room {
            self.upstream.lock().insert(uri, watch);
        }
        has_room
    }

    /// Attaches the upstream server's part to a resource that is already watched.
    pub(super) fn attach(&self, uri: String, watch: Watch) {
        let watched = self.watched.lock();
        if watched.contains(&uri) {
            self.upstream.lock().insert(uri, watch);
        }
    }

    pub(super) fn watched(&self) -> Vec<String> {
        self.watched.lock().clone()
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.watched.lock().retain(|watched| watched != uri);
        self.upstream.lock().remove(uri);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

async fn tell(
    peer: &Peer<RoleServer>,
    before: Versions,
    now: Versions,
    watched: &Mutex<Vec<String>>,
) -> Result<(), rmcp::ServiceError> {
    if now.tool != before.tool {
        peer.notify_tool_list_changed().await?;
    }
    if now.prompts != before.prompts {
        peer.notify_prompt_list_changed().await?;
    }
    if now.listed != before.listed {
        peer.notify_resource_list_changed().await?;
    }
    if now.resources != before.resources {
        let uris: Vec<String> = watched.lock().iter().filter(|uri| !upstream::is_ours(uri)).cloned().collect();
        for uri in uris {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
        }
    }
    Ok(())
}

/// Returns the next changed resource; an empty one if some were missed, `None` at the end.
fn next(uri: Result<String, RecvError>) -> Option<String> {
    match uri {
        Ok(uri) => Some(uri),
        Err(RecvError::Lagged(_)) => Some(String::new()),
        Err(RecvError::Closed) => None,
    }
}

/// Serves a stream of changes that a client of revision 2026-07-28 opened.
pub(super) async fn serve(changes: &Changes, tools: &Arc<Tools>, context: SubscriptionContext) {
    let mut versions = changes.subscribe();
    let mut updated = changes.updated.subscribe();
    let mut before = *versions.borrow_and_update();
    let mut watches = Vec::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten().take(MAX_WATCHED) {
        if let Some(Ok(watch)) = upstream::watch(tools, uri).await {
            watches.push(watch);
        }
    }
    loop {
        let changed = tokio::select! {
            changed = versions.changed() => changed,
            uri = updated.recv() => {
                let Some(uri) = next(uri) else { return };
                if context.accepted().resource_subscriptions.iter().flatten().any(|wanted| *wanted == uri) {
                    let _ = context.sink().notify_resource_updated(&uri).await;
                }
                continue;
            }
            () = context.cancelled() => return,
        };
        if changed.is_err() {
            return;
        }
        let now = *versions.borrow_and_update();
        let (sink, accepted) = (context.sink(), context.accepted());
        if now.tool != before.tool && accepted.tools_list_changed == Some(true) {
            let _ = sink.notify_tool_list_changed().await;
        }
        if now.prompts != before.prompts && accepted.prompts_list_changed == Some(true) {
            let _ = sink.notify_prompt_list_changed().await;
        }
        if now.listed != before.listed && accepted.resources_list_changed == Some(true) {
            let _ = sink.notify_resource_list_changed().await;
        }
        if now.resources != before.resources {
            for uri in accepted.resource_subscriptions.iter().flatten().filter(|uri| !upstream::is_ours(uri)) {
                let _ = sink.notify_resource_updated(uri).await;
            }
        }
        before = now;
    }
}
