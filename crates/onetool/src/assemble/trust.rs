//! Asks the client's user whether to trust the folder: once per process, before the first run.
//!
//! A yes is remembered permanently and takes effect at once. Any other answer applies until this process ends.

use std::sync::atomic::{AtomicBool, Ordering};

use onetool_sdk::CallContext;

use super::App;
use crate::untrusted::{self, Untrusted};

/// Whether the question was already asked.
#[derive(Default)]
pub(super) struct TrustQuestion(AtomicBool);

impl App {
    /// Asks the client's user, if parts of the project need trust and nobody was asked yet. If the client cannot ask,
    /// the next one may.
    pub(super) async fn offer_trust(&self, ctx: &CallContext) {
        if self.settings().workers.trust.is_full() || onetool_config::is_trust_decided() {
            return;
        }
        let Some(client) = &ctx.client else { return };
        // Others do not wait for the answer, and continue with what is trusted now.
        if self.trust.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(untrusted) = self.untrusted().await else { return };
        let patience = self.settings().server.mcp.input_timeout;
        let answer = tokio::select! {
            answer = tokio::time::timeout(patience, client.elicit(untrusted.question())) => answer,
            () = ctx.cancel.cancelled() => return,
        };
        match answer {
            Ok(Ok(answer)) if untrusted::is_yes(&answer) => self.trust_folder(&untrusted).await,
            Ok(Err(_)) => self.trust.0.store(false, Ordering::Release),
            _ => tracing::info!(folder = %untrusted.folder().display(), "this folder stays untrusted: no clear yes"),
        }
    }

    async fn untrusted(&self) -> Option<Untrusted> {
        let places = self.places.clone();
        tokio::task::spawn_blocking(move || Untrusted::of(&places)).await.ok().flatten()
    }

    async fn trust_folder(&self, untrusted: &Untrusted) {
        if let Err(error) = untrusted.trust() {
            tracing::error!(%error, "the trust in this folder is not remembered");
            return;
        }
        tracing::info!(folder = %untrusted.folder().display(), "the user trusts this folder");
        let Some(app) = self.this.upgrade() else { return };
        let reloaded = tokio::task::spawn_blocking(move || {
            app.reload_now();
        });
        if let Err(error) = reloaded.await {
            tracing::error!(%error, "the reload panicked");
        }
    }
}
