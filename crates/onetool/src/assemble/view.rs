//! The app as the pack `ot` sees it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use onetool_proxy::ServerState;
use onetool_run::{Awaited, ServerStatus, ToolboxState, ToolboxView};
use onetool_sandbox::Sessions;
use onetool_sdk::{CallContext, HealthNote, NoteFacts, Severity, ToolError, ToolSource as _, Value};

use super::App;

/// How long a query about servers and engines waits for them after a start.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// Number of servers that are awaited in parallel.
const AWAITED_AT_ONCE: usize = 8;

#[async_trait]
impl ToolboxView for App {
    fn state(&self) -> Arc<ToolboxState> {
        self.state_for(&CallContext::default())
    }

    fn state_for(&self, ctx: &CallContext) -> Arc<ToolboxState> {
        let shared = self.runner.toolbox().now_for(&ctx.requester);
        let mut state = (*shared.state).clone();
        if let Some((major, minor)) = self.runner.sandbox().python_version() {
            state.engine = format!("{}, {major}.{minor} (cpython)", state.engine);
        }
        let parts = self.parts.lock().clone();
        state.servers = parts
            .servers
            .value
            .source
            .status()
            .into_iter()
            .filter(|server| shared.sees_pack(&server.pack))
            .map(|server| ServerStatus {
                name: server.name,
                state: server.state.as_str().to_owned(),
                reason: server.reason,
            })
            .collect();
        state.results = state.results_of(ctx);
        state.notes.extend(parts.telemetry.value.as_ref().and_then(|telemetry| telemetry.health()));
        state.notes.extend(self.runner.sandbox().packages_problem().map(|reason| HealthNote {
            subject: "run.packages".to_owned(),
            message: reason,
            severity: Severity::Error,
            facts: NoteFacts::default(),
        }));
        for source in self.runner.toolbox().sources() {
            state.notes.extend(source.health());
        }
        Arc::new(state)
    }

    fn sessions(&self) -> Arc<Sessions> {
        self.runner.sandbox().sessions().clone()
    }

    async fn settle(&self, awaited: Awaited, ctx: &CallContext) {
        if awaited == Awaited::Outcomes {
            self.runner.sandbox().find_python(FIRST_CONTACT).await;
        }
        let servers = self.parts.lock().servers.value.clone();
        let until = servers.since + FIRST_CONTACT;
        let is_awaited = |server: &onetool_proxy::ServerStatus| {
            server.state == ServerState::Connecting
                && !server.hung
                && (awaited == Awaited::Outcomes || server.tool_count == 0)
        };
        let packs = servers.source.status().into_iter().filter(is_awaited).map(|server| server.pack);
        let deadline = Some(ctx.deadline.map_or(until, |at| at.min(until)));
        // Without a client, so that a query does not ask the user to sign in.
        let ctx = CallContext { deadline, client: None, ..ctx.clone() };
        let waits = packs.map(|pack| {
            let (source, ctx) = (servers.source.clone(), ctx.clone());
            // A server that does not connect in time is reported in its current state.
            async move { drop(source.settle(&pack, &ctx).await) }
        });
        stream::iter(waits).for_each_concurrent(AWAITED_AT_ONCE, |wait| wait).await;
    }

    fn runner(&self) -> Option<onetool_run::Runner> {
        Some(self.runner.clone())
    }

    async fn evaluate(&self, code: &str, ctx: &CallContext) -> Result<Value, ToolError> {
        self.runner.evaluate(code, ctx).await
    }

    fn reload(&self) -> Result<(), ToolError> {
        match self.reload_now().first() {
            None => Ok(()),
            Some(note) => Err(ToolError::value_error(format!("{}: {}", note.subject, note.message))
                .with_hint("fix the file; it is read again as soon as it changes")),
        }
    }
}
