//! The subscriptions of a session's client: a log level, and watched resources. Stored with the session, so that they
//! apply when it is restored: after a restart, at another server, or after a long idle time. Where several servers
//! serve the session at the same time, a subscription at one of them applies at the others within a second or two.

#![expect(deprecated, reason = "clients of today still ask for logging and subscribe to resources")]

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use onetool_sdk::EntryPoint;
use onetool_state::interface::{Collection, Expect};
use onetool_state::{StateError, wait};
use rmcp::model::{Extensions, LoggingLevel};
use rmcp::service::NotificationContext;
use rmcp::transport::streamable_http_server::SessionRestoreMarker;
use rmcp::{Peer, RoleServer};
use serde::{Deserialize, Serialize};

use super::archive::{Archive, Document, blocking};
use super::changes::Follow;
use super::http::SESSION_HEADER;
use super::{Handler, upstream};
use crate::{Identity, Principal, Scope};

/// Maximum length of a resource's URI; longer ones are not stored.
const MAX_URI: usize = 2000;
/// Maximum number of attempts to write when others write at the same time.
const TRIES: usize = 5;

/// What a client subscribed to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Interests {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<LoggingLevel>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
}

/// One change to a client's subscriptions.
pub(super) enum Interest {
    Level(LoggingLevel),
    Watch(String),
    Unwatch(String),
}

impl Interests {
    fn apply(&mut self, interest: &Interest) {
        match interest {
            Interest::Level(level) => self.level = Some(*level),
            Interest::Watch(uri) if uri.len() > MAX_URI || self.resources.contains(uri) => {}
            Interest::Watch(uri) => self.resources.push(uri.clone()),
            Interest::Unwatch(uri) => self.resources.retain(|watched| watched != uri),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct KeptInterests {
    at: DateTime<Utc>,
    #[serde(flatten)]
    interests: Interests,
}

impl Archive {
    /// Returns the stored subscriptions of a session's client.
    async fn interests(&self, id: &str, principal: Principal) -> Option<Interests> {
        let key = Document::Interests.key(id, principal).ok()?;
        let documents = self.state().documents();
        let found = blocking(move || wait(documents.get(Collection::SESSIONS, &key))).await??;
        serde_json::from_slice::<KeptInterests>(&found.content).ok().map(|kept| kept.interests)
    }

    /// Stores one change.
    async fn keep_interest(&self, id: &str, principal: Principal, interest: Interest) {
        let Ok(key) = Document::Interests.key(id, principal) else { return };
        let documents = self.state().documents();
        blocking(move || {
            for _ in 0..TRIES {
                let found = wait(documents.get(Collection::SESSIONS, &key))?;
                let kept =
                    found.as_ref().and_then(|found| serde_json::from_slice::<KeptInterests>(&found.content).ok());
                let mut interests = kept.map(|kept| kept.interests).unwrap_or_default();
                let before = interests.clone();
                interests.apply(&interest);
                if interests == before {
                    return Ok(());
                }
                let kept = KeptInterests { at: Utc::now(), interests };
                let content = serde_json::to_vec(&kept).map_err(|error| StateError::Invalid(error.to_string()))?;
                let expect = found.map_or(Expect::Absent, |found| Expect::Revision(found.revision));
                match wait(documents.put(Collection::SESSIONS, &key, &content, &expect.into())) {
                    // Another server wrote first.
                    Err(StateError::Conflict(_)) => {}
                    other => return other.map(drop),
                }
            }
            Ok(())
        })
        .await;
    }

    /// Removes the subscriptions of a session that has ended.
    pub(super) async fn forget_interests(&self, id: &str, principal: Principal) {
        let Ok(key) = Document::Interests.key(id, principal) else { return };
        let documents = self.state().documents();
        blocking(move || match wait(documents.get(Collection::SESSIONS, &key))? {
            Some(_) => wait(documents.delete(Collection::SESSIONS, &key, &Expect::Anything.into())),
            None => Ok(()),
        })
        .await;
    }
}

/// Returns who makes a request. On standard input it is the user of this process.
fn identity(extensions: &Extensions) -> std::sync::Arc<Identity> {
    let parts = extensions.get::<axum::http::request::Parts>();
    parts.map_or_else(|| std::sync::Arc::new(Identity::anyone()), |parts| Identity::of(&parts.extensions))
}

impl Handler {
    /// Stores a subscription that a client makes in a session.
    pub(super) async fn keep_interest(&self, extensions: &Extensions, interest: Interest) {
        let parts = extensions.get::<axum::http::request::Parts>();
        let session = parts.and_then(|parts| parts.headers.get(SESSION_HEADER)?.to_str().ok());
        if let (Some(archive), Some(id)) = (&self.shared.archive, session) {
            archive.keep_interest(id, identity(extensions).principal, interest).await;
        }
    }

    /// Restores a client's subscriptions in a session that is brought back.
    pub(super) async fn recall_interests(&self, context: &NotificationContext<RoleServer>) {
        let Some(marker) = context.extensions.get::<SessionRestoreMarker>() else { return };
        let identity = identity(&context.extensions);
        self.take_over_interests(&marker.id, &identity, &context.peer).await;
    }

    /// Follows the client's subscriptions in this session at other servers, if there are any.
    pub(super) fn follow_interests(&self, context: &NotificationContext<RoleServer>) -> Option<Follow> {
        self.shared.archive.as_ref()?.node()?;
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let id: std::sync::Arc<str> = match context.extensions.get::<SessionRestoreMarker>() {
            Some(marker) => marker.id.to_string().into(),
            None => parts?.headers.get(SESSION_HEADER)?.to_str().ok()?.into(),
        };
        let (identity, peer) = (identity(&context.extensions), context.peer.clone());
        let key = Document::Interests.key(&id, identity.principal).ok()?;
        // The follower is part of the session's subscriptions, so it must not keep them alive.
        let listening = std::sync::Arc::downgrade(&self.listening);
        let detached = self.with_listening(std::sync::Arc::default());
        let refresh = move || {
            let handler = listening.upgrade().map(|listening| detached.with_listening(listening));
            let (id, identity, peer) = (id.clone(), identity.clone(), peer.clone());
            let refreshing = async move {
                if let Some(handler) = handler {
                    handler.take_over_interests(&id, &identity, &peer).await;
                }
            };
            refreshing.boxed()
        };
        Some(Follow { key, refresh: Box::new(refresh) })
    }

    /// Applies the stored subscriptions of a session.
    async fn take_over_interests(&self, id: &str, identity: &Identity, peer: &Peer<RoleServer>) {
        let Some(archive) = &self.shared.archive else { return };
        let of_servers: Vec<String> = {
            // Later requests of the client must be applied after this.
            let _turn = self.interests.lock().await;
            let Some(interests) = archive.interests(id, identity.principal).await else { return };
            // The log shows the activity of all users.
            if let Some(level) = interests.level.filter(|_| identity.may(Scope::Admin)) {
                self.log.set_level(&*self.service, peer.clone(), level);
            }
            let watched = self.listening.watched();
            for uri in watched.iter().filter(|uri| uri.len() <= MAX_URI && !interests.resources.contains(*uri)) {
                self.listening.unwatch(uri);
            }
            let new = interests.resources.into_iter().filter(|uri| !watched.contains(uri));
            let new = new.filter(|uri| self.listening.watch(uri.clone()));
            new.filter(|uri| upstream::is_ours(uri)).collect()
        };
        let tools = self.service.runner().toolbox().now_for(&identity.requester(EntryPoint::Mcp, None));
        for uri in of_servers {
            match upstream::watch(&tools, &uri).await {
                Some(Ok(watch)) => self.listening.attach(uri, watch),
                Some(Err(error)) => tracing::info!(%uri, error = %error.message, "a resource is no longer watched"),
                None => {}
            }
        }
    }
}
