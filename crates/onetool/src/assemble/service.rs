//! What REST and MCP see of the app.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use onetool_http::rest::admin::AdminParts;
use onetool_http::{LogMessage, Served, Service};
use onetool_run::Runner;
use onetool_sdk::CallContext;
use tokio::sync::broadcast;
use tracing::level_filters::LevelFilter;

use super::App;
use super::parts::Parts;
use crate::config::Resolved;

#[async_trait]
impl Service for App {
    fn runner(&self) -> &Runner {
        &self.runner
    }

    fn served(&self) -> Arc<Served> {
        self.served.lock().clone()
    }

    fn log_messages(&self, level: LevelFilter) -> broadcast::Receiver<LogMessage> {
        crate::log::listen(level)
    }

    fn admin(&self) -> Option<AdminParts> {
        let app = self.this.upgrade()?;
        Some(AdminParts {
            view: app.clone(),
            switchable: vec![self.workers(), self.servers()],
            switches: self.watch.switches.clone(),
            activity: self.watch.activity.clone(),
            approvals: self.watch.approvals.clone(),
            operations: app,
        })
    }

    async fn offer_trust(&self, ctx: &CallContext) {
        Self::offer_trust(self, ctx).await;
    }

    /// The first run must find its child and all tools ready; a client need not wait for that.
    async fn warm_up(&self) {
        self.stays.store(true, Ordering::Relaxed);
        self.servers().wait_for_sign_ins();
        let toolbox = self.runner.toolbox().clone();
        let reading = tokio::task::spawn_blocking(move || toolbox.warm_up());
        if let Err(failure) = self.runner.sandbox().warm_up().await {
            tracing::error!(?failure, "the sandbox does not start");
        }
        let _ = reading.await;
        onetool_sandbox::give_back_code();
    }

    fn quiet(&self) {
        onetool_sandbox::give_back_heap();
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}

/// What REST and MCP show of a configuration.
pub(super) fn served(settings: &Resolved, parts: &Parts) -> Arc<Served> {
    Arc::new(Served {
        instructions: settings.instructions.clone(),
        run_description: settings.run_description.clone(),
        server: settings.server.clone(),
        bundles: parts.bundles.value.clone(),
        state: parts.state.value.clone(),
        runs: parts.runs.value.clone(),
        background: settings.background,
        quiet_after: settings.run_keys.idle_timeout,
    })
}
