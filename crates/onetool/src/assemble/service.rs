//! The app as REST and MCP see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use onetool_http::metrics::Metrics;
use onetool_http::rest::admin::AdminParts;
use onetool_http::{LogMessage, Served, Service};
use onetool_run::Runner;
use onetool_run::durable::Durable;
use onetool_sdk::CallContext;
use onetool_state::runs::ApprovalStore;
use tokio::sync::broadcast;
use tracing::level_filters::LevelFilter;

use super::parts::Parts;
use super::{App, toolbox};
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

    fn tags(&self) -> Vec<String> {
        let settings = self.settings();
        let shared = self.runner.toolbox().now();
        let mut tags = settings.server.tags.clone();
        tags.extend(shared.catalog().packs().map(|pack| format!("pack:{}", pack.name)));
        tags.extend(settings.servers.iter().map(|server| format!("server:{}", server.name)));
        tags.extend(settings.run.packages.iter().map(|package| format!("package:{}", package_name(package))));
        tags
    }

    fn admin(&self) -> Option<AdminParts> {
        let app = self.this.upgrade()?;
        Some(AdminParts {
            view: app.clone(),
            switchable: vec![self.workers(), self.servers(), toolbox::replaceable(&self.settings())],
            switches: self.watch.switches.clone(),
            activity: self.watch.activity.clone(),
            approvals: self.watch.approvals.clone(),
            operations: app,
        })
    }

    async fn offer_trust(&self, ctx: &CallContext) {
        Self::offer_trust(self, ctx).await;
    }

    /// Prepares the child process and the tools for the first run, while the client does not have to wait.
    async fn warm_up(&self) {
        self.stays.store(true, Ordering::Relaxed);
        self.servers().wait_for_sign_ins();
        if let Some(app) = self.this.upgrade() {
            tokio::spawn(deliver_metrics(std::sync::Arc::downgrade(&app)));
        }
        if let Err(failure) = self.runner.sandbox().warm_up().await {
            tracing::error!(?failure, "the sandbox does not start");
        }
        // A search before this is done waits for it; running code does not.
        let toolbox = self.runner.toolbox().clone();
        let _ = tokio::task::spawn_blocking(move || toolbox.warm_up()).await;
        onetool_sandbox::give_back_code();
    }

    fn quiet(&self) {
        onetool_sandbox::give_back_heap();
    }

    fn measure(&self, metrics: &mut Metrics) {
        self.add_measures(metrics);
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}

/// Runs that survive this process.
pub(super) fn durable(settings: &Resolved, parts: &Parts) -> Durable {
    let approvals = ApprovalStore::new(&parts.state.value);
    Durable::new(parts.runs.value.clone(), approvals, settings.background.durable(settings.run_keys.durable))
}

/// Updates them after a reload.
pub(super) fn renew_durable(durable: &Durable, settings: &Resolved, parts: &Parts) {
    let approvals = ApprovalStore::new(&parts.state.value);
    durable.replace(parts.runs.value.clone(), approvals, settings.background.durable(settings.run_keys.durable));
}

/// The name of a package without its version: `pandas` for `pandas[io]>=2`.
fn package_name(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
    requirement[..end.unwrap_or(requirement.len())].trim()
}

/// How often to check whether metrics are enabled.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Sends metrics to the collector, if there is one, as long as the app lives.
async fn deliver_metrics(app: std::sync::Weak<App>) {
    loop {
        let interval = match app.upgrade() {
            Some(app) => app.exporter().and_then(|exporter| exporter.metrics_interval()),
            None => return,
        };
        tokio::time::sleep(interval.unwrap_or(LOOK_AGAIN)).await;
        let Some(app) = app.upgrade() else { return };
        if let Some(exporter) = app.exporter().filter(|exporter| exporter.metrics_interval().is_some()) {
            let mut metrics = Metrics::default();
            app.add_measures(&mut metrics);
            exporter.deliver(&metrics);
        }
    }
}

/// What REST and MCP serve under a configuration.
pub(super) fn served(settings: &Resolved, parts: &Parts) -> Arc<Served> {
    Arc::new(Served {
        instructions: settings.instructions.clone(),
        run_description: settings.run_description.clone(),
        server: settings.server.clone(),
        tokens: parts.tokens.value.clone(),
        audit: parts.audit.value.clone(),
        bundles: parts.bundles.value.clone(),
        state: parts.state.value.clone(),
        runs: parts.runs.value.clone(),
        background: settings.background,
        quiet_after: settings.run_keys.idle_timeout,
    })
}
