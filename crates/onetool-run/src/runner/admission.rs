//! Admits a run, or refuses it if the requester's quota is exhausted.
//!
//! A refusal is not an outcome: callers that record runs admit them first ([`Runner::admit`]), so that a refused run is
//! not recorded, and the same request may be admitted later.

use onetool_sdk::{CallContext, ToolError};

use super::{RunReply, Runner, finish_error};
use crate::quota::RunSlot;
use crate::steps::Stopwatch;
use crate::toolbox::Shared;

/// A slot among the requester's runs, if these are limited. Released on drop.
pub struct Admission(Option<RunSlot>);

impl Admission {
    /// Releases the slot: the run does not begin here.
    pub async fn end(self) {
        if let Some(slot) = self.0 {
            slot.end().await;
        }
    }
}

/// A run that was not admitted.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub error: ToolError,
    /// The reply to the client.
    pub reply: RunReply,
}

/// How a run is admitted.
pub(crate) enum RunAdmission {
    /// Admission has not been requested yet.
    Ask,
    Admitted(Admission),
}

impl RunAdmission {
    /// Returns the run's slot, if it needs one.
    pub(super) async fn enter(self, shared: &Shared, ctx: &CallContext) -> Result<Option<RunSlot>, ToolError> {
        match self {
            Self::Ask => admitted(shared, ctx).await,
            Self::Admitted(Admission(slot)) => Ok(slot),
        }
    }
}

impl Runner {
    /// Whether the requester's runs may be refused.
    pub fn is_limited(&self, ctx: &CallContext) -> bool {
        has_quota(&self.toolbox.now(), ctx)
    }

    /// Admits a run that begins later, with [`Self::run_admitted`]. A refusal is recorded as that of a run.
    pub async fn admit(&self, command: &str, ctx: &CallContext) -> Result<Admission, Refusal> {
        let watch = Stopwatch::start();
        let shared = self.toolbox.now_for(&ctx.requester);
        match admitted(&shared, ctx).await {
            Ok(slot) => Ok(Admission(slot)),
            Err(error) => {
                let mut ctx = ctx.clone().within();
                shared.trace(&mut ctx);
                let settings = self.settings.read().clone();
                let reply = finish_error(error.text(), settings.sanitise, &settings);
                shared.record_run(command, &reply, &watch, &ctx);
                Err(Refusal { error, reply })
            }
        }
    }

    /// Runs a command that was admitted.
    pub async fn run_admitted(&self, command: &str, ctx: CallContext, admission: Admission) -> RunReply {
        let settings = self.settings.read().clone();
        self.run_as(command, None, ctx, settings, RunAdmission::Admitted(admission)).await
    }
}

/// Takes a slot among the requester's runs, if those are limited.
async fn admitted(shared: &Shared, ctx: &CallContext) -> Result<Option<RunSlot>, ToolError> {
    let access = shared.state.groups.access(&ctx.requester);
    let quota = access.map(|access| access.quota).filter(|quota| !quota.is_unlimited());
    let Some(quota) = quota else { return Ok(None) };
    let quotas = &shared.state.quotas;
    if ctx.journal.as_ref().is_some_and(|journal| journal.is_continued()) {
        // It was admitted when it began; refusing the rest would lose it.
        return Ok(quotas.go_on(ctx, quota).await);
    }
    quotas.begin_run(ctx, quota).await.map(Some)
}

/// Whether the requester's usage is counted.
pub(super) fn has_quota(shared: &Shared, ctx: &CallContext) -> bool {
    shared.state.groups.access(&ctx.requester).is_some_and(|access| !access.quota.is_unlimited())
}
