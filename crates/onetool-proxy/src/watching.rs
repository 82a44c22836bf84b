//! Unsolicited messages of a server: its lists, or a watched resource, have changed.
//!
//! In the older era such notifications arrive by themselves, and resources are subscribed to one by one. In the newer
//! era one request, `subscriptions/listen`, stays open and says what is wanted; it is sent again when that changes or
//! the stream ends. Watched resources outlive a connection.

#![expect(deprecated, reason = "servers of the older era are subscribed to in the older way")]

use std::collections::BTreeMap;
use std::time::Duration;

use onetool_sdk::{SourceChange, ToolError};
use parking_lot::Mutex;
use rmcp::model::{
    ClientRequest, ErrorCode, ServerCapabilities, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequest, UnsubscribeRequestParams,
};
use rmcp::service::ServiceError;
use tokio::sync::{Notify, broadcast};

use super::connection::{Connection, Waiting};
use super::settings::limits;

/// Where the changes of one server are sent.
#[derive(Clone)]
pub(super) struct News {
    pub(super) pack: String,
    pub(super) sender: broadcast::Sender<SourceChange>,
}

impl News {
    pub(super) fn prompts(&self) {
        let _ = self.sender.send(SourceChange::Prompts { pack: self.pack.clone() });
    }

    pub(super) fn resources(&self) {
        let _ = self.sender.send(SourceChange::Resources { pack: self.pack.clone() });
    }

    pub(super) fn resource(&self, uri: String) {
        let _ = self.sender.send(SourceChange::Resource { pack: self.pack.clone(), uri });
    }
}

/// The watched resources of one server, and their number of watchers.
#[derive(Default)]
pub(super) struct Watched {
    uris: Mutex<BTreeMap<String, usize>>,
    changed: Notify,
}

impl Watched {
    /// Adds a watcher. Returns whether it is the first.
    pub(super) fn add(&self, uri: &str) -> Result<bool, ToolError> {
        let mut uris = self.uris.lock();
        if uris.len() >= limits::WATCHED && !uris.contains_key(uri) {
            let most = limits::WATCHED;
            return Err(ToolError::unavailable(format!("{most} resources of this server are watched already")));
        }
        let count = uris.entry(uri.to_owned()).or_default();
        *count += 1;
        let is_new = *count == 1;
        drop(uris);
        if is_new {
            self.changed.notify_one();
        }
        Ok(is_new)
    }

    /// Removes a watcher. Returns whether it was the last.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut uris = self.uris.lock();
        let Some(count) = uris.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            uris.remove(uri);
            drop(uris);
            self.changed.notify_one();
        }
        is_last
    }

    fn all(&self) -> Vec<String> {
        self.uris.lock().keys().cloned().collect()
    }

    /// Keeps the subscription of a connection open until it ends. The notifications arrive with all other messages.
    pub(super) async fn listen(&self, connection: &Connection) {
        let Some(info) = connection.peer_info() else { return };
        if info.protocol_version.has_initialize() {
            for uri in self.all() {
                let _ = subscribe(connection, &uri).await;
            }
            return;
        }
        let mut pause = limits::LISTEN_PAUSE;
        let mut is_again = false;
        loop {
            let filter = wanted(&info.capabilities, self.all());
            if filter == SubscriptionFilter::default() {
                self.changed.notified().await;
                continue;
            }
            match connection.listen(filter).await {
                Ok(mut subscription) => {
                    pause = limits::LISTEN_PAUSE;
                    if std::mem::replace(&mut is_again, true) {
                        // Changes in between were missed.
                        connection.wire.tools_changed.notify_one();
                        connection.wire.news.prompts();
                        connection.wire.news.resources();
                    }
                    let end = async { while let Ok(Some(_)) = subscription.next().await {} };
                    tokio::select! {
                        () = end => {}
                        () = self.changed.notified() => {
                            is_again = false;
                            continue;
                        }
                    }
                }
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    std::future::pending::<()>().await;
                }
                Err(error) => {
                    tracing::debug!(target: "onetool::server", server = connection.wire.server, "not listening: {error}");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(limits::LISTEN_PAUSE_MOST),
                () = self.changed.notified() => {}
            }
        }
    }
}

fn wanted(capabilities: &ServerCapabilities, uris: Vec<String>) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    let is_told = |changes: Option<bool>| (changes == Some(true)).then_some(true);
    filter.tools_list_changed = is_told(capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    filter.prompts_list_changed = is_told(capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    if let Some(resources) = &capabilities.resources {
        filter.resources_list_changed = is_told(resources.list_changed);
        if resources.subscribe == Some(true) && !uris.is_empty() {
            filter.resource_subscriptions = Some(uris);
        }
    }
    filter
}

const PATIENCE: Duration = Duration::from_secs(10);

/// Subscribes to changes of a resource on a server of the older era.
pub(super) async fn subscribe(connection: &Connection, uri: &str) -> Result<(), String> {
    let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(SubscribeRequestParams::new(uri)));
    let answer = connection.request(request, Waiting::Ours { timeout: PATIENCE }).await;
    answer.map(drop).map_err(|failure| failure.reason())
}

pub(super) async fn unsubscribe(connection: &Connection, uri: &str) {
    let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri)));
    let _ = connection.request(request, Waiting::Ours { timeout: PATIENCE }).await;
}
