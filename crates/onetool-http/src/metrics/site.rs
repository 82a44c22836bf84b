//! A server's measurements of itself.

use std::sync::Arc;

use super::{Kind, Metrics, Requests, process};
use crate::Service;
use crate::background::Background;
use crate::drain::Drain;
use crate::mcp::SessionCount;

/// The sources of a server's measurements.
#[derive(Clone)]
pub(crate) struct SiteMeasures {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) background: Arc<Background>,
    pub(crate) sessions: SessionCount,
    pub(crate) requests: Arc<Requests>,
    pub(crate) drain: Drain,
}

impl SiteMeasures {
    /// Takes all measurements.
    pub(crate) fn now(&self) -> Metrics {
        let mut metrics = Metrics::default();
        process(&mut metrics);
        self.requests.measure(&mut metrics);
        let mut gauge = |name, help, value: usize| metrics.number(Kind::Gauge, name, help, value as u64);
        let runs = self.service.runner().toolbox().work().runs();
        gauge("onetool_runs_in_progress", "Runs that are executed now.", runs);
        let background = self.background.active();
        gauge("onetool_background_runs", "Background runs that this server executes.", background);
        gauge("onetool_mcp_sessions", "Open MCP sessions.", (self.sessions)());
        let draining = usize::from(self.drain.has_begun());
        gauge("onetool_draining", "1 while the server finishes its work before it ends.", draining);
        self.add_backlog(&mut metrics);
        self.service.measure(&mut metrics);
        metrics
    }

    /// Adds the runs queued for any server; every server reports the same values.
    fn add_backlog(&self, metrics: &mut Metrics) {
        let Some(backlog) = self.background.backlog() else { return };
        let help = "Background runs that wait for a server, over all servers.";
        metrics.number(Kind::Gauge, "onetool_queue_runs", help, backlog.jobs);
        let help = "Waiting time of the oldest queued run.";
        let oldest = backlog.oldest.unwrap_or_default().as_secs_f64();
        metrics.family(Kind::Gauge, "onetool_queue_oldest_seconds", help).add(Vec::new(), oldest);
        let help = "Background runs that wait for a server, by each of their tags.";
        let mut tags = metrics.family(Kind::Gauge, "onetool_queue_tagged_runs", help);
        for (tag, runs) in backlog.by_tag {
            tags.count("tag", &tag, runs);
        }
    }
}
