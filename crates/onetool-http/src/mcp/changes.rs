//! Telling clients that a list has changed: the tool's description, the prompts, or what `ot://tools` shows.
//!
//! One task looks, while anybody listens; clients of older revisions hear of changes in their sessions, those of
//! 2026-07-28 on the streams that they open for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{describe, prompts};
use crate::Service;

/// How often somebody looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Resources that one client may watch.
const MAX_WATCHED: usize = 256;

/// How often each of them has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Versions {
    tool: u64,
    prompts: u64,
    resources: u64,
}

/// Changes of one server.
pub(super) struct Changes {
    versions: watch::Sender<Versions>,
}

impl Changes {
    /// Looks for changes as long as the returned value lives.
    pub(super) fn start(service: &Arc<dyn Service>) -> Arc<Self> {
        let changes = Arc::new(Self { versions: watch::channel(Versions::default()).0 });
        tokio::spawn(look(service.clone(), Arc::downgrade(&changes)));
        changes
    }

    fn subscribe(&self) -> watch::Receiver<Versions> {
        self.versions.subscribe()
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
        tool: describe::run(service),
        prompts: prompts::fingerprint(service),
        resources: shared.catalog().tools().map(|(pack, tool)| format!("{}.{}", pack.name, tool.name)).collect(),
    }
}

async fn look(service: Arc<dyn Service>, changes: Weak<Changes>) {
    let mut seen: Option<Seen> = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(changes) = changes.upgrade() else { return };
        if changes.versions.receiver_count() == 0 {
            continue;
        }
        let looking = service.clone();
        // What packs there are may have to be read from files.
        let Ok(now) = tokio::task::spawn_blocking(move || see(&*looking)).await else { return };
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

/// What one session hears. Ends with the session.
#[derive(Default)]
pub(super) struct Listening {
    task: Mutex<Option<JoinHandle<()>>>,
    watched: Arc<Mutex<Vec<String>>>,
}

impl Listening {
    pub(super) fn start(&self, changes: &Changes, peer: Peer<RoleServer>) {
        let mut versions = changes.subscribe();
        let watched = self.watched.clone();
        let task = tokio::spawn(async move {
            let mut before = *versions.borrow_and_update();
            while versions.changed().await.is_ok() {
                let now = *versions.borrow_and_update();
                if tell(&peer, before, now, &watched).await.is_err() {
                    return;
                }
                before = now;
            }
        });
        if let Some(old) = self.task.lock().replace(task) {
            old.abort();
        }
    }

    /// Whether there was room to watch another resource.
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

    pub(super) fn unwatch(&self, uri: &str) {
        self.watched.lock().retain(|watched| watched != uri);
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
    if now.resources != before.resources {
        let uris = watched.lock().clone();
        for uri in uris {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
        }
    }
    Ok(())
}

/// Serves a stream of changes that a client of revision 2026-07-28 opened.
pub(super) async fn serve(changes: &Changes, context: SubscriptionContext) {
    let mut versions = changes.subscribe();
    let mut before = *versions.borrow_and_update();
    loop {
        let changed = tokio::select! {
            changed = versions.changed() => changed,
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
        if now.resources != before.resources {
            for uri in accepted.resource_subscriptions.iter().flatten() {
                let _ = sink.notify_resource_updated(uri).await;
            }
        }
        before = now;
    }
}
