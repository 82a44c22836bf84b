//! Whether a run is let in, by what whoever asks for it has used up.
//!
//! A refusal is not an outcome: whoever records runs lets them in first ([`Runner::admit`]), so that nothing is kept of a
//! run that was refused, and the same request may be let in later.

use onetool_sdk::{CallContext, ToolError};

use super::{RunReply, Runner, finish_error};
use crate::quota::RunSlot;
use crate::steps::Stopwatch;
use crate::toolbox::Shared;

/// A run's place among those of whoever asks for it, where these are limited. Given back when it is dropped.
pub struct Admission(Option<RunSlot>);

impl Admission {
    /// Gives the place back: the run does not begin here.
    pub async fn end(self) {
        if let Some(slot) = self.0 {
            slot.end().await;
        }
    }
}

/// A run that is not let in.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub error: ToolError,
    /// What a client is told in place of the run's reply.
    pub reply: RunReply,
}

/// How a run comes in.
pub(crate) enum Entrance {
    /// Nobody has asked yet whether there is room.
    Ask,
    Admitted(Admission),
}

impl Entrance {
    /// The run's place, where it needs one.
    pub(super) async fn enter(self, shared: &Shared, ctx: &CallContext) -> Result<Option<RunSlot>, ToolError> {
        match self {
            Self::Ask => admitted(shared, ctx).await,
            Self::Admitted(Admission(slot)) => Ok(slot),
        }
    }
}

impl Runner {
    /// Whether runs of whoever asks may be refused.
    pub fn is_limited(&self, ctx: &CallContext) -> bool {
        has_quota(&self.toolbox.now(), ctx)
    }

    /// Lets a run in that begins later, with [`Self::run_admitted`]. A refusal is recorded as the run's would be.
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

    /// Runs a command that was let in.
    pub async fn run_admitted(&self, command: &str, ctx: CallContext, admission: Admission) -> RunReply {
        let settings = self.settings.read().clone();
        self.run_as(command, None, ctx, settings, Entrance::Admitted(admission)).await
    }
}

/// A place among the runs of whoever asks, where those are limited.
async fn admitted(shared: &Shared, ctx: &CallContext) -> Result<Option<RunSlot>, ToolError> {
    let access = shared.state.groups.access(&ctx.requester);
    let quota = access.map(|access| access.quota).filter(|quota| !quota.is_unlimited());
    let Some(quota) = quota else { return Ok(None) };
    let quotas = &shared.state.quotas;
    if ctx.journal.as_ref().is_some_and(|journal| journal.is_continued()) {
        // Its beginning was let in; refusing the rest would lose it.
        return Ok(quotas.go_on(ctx, quota).await);
    }
    quotas.begin_run(ctx, quota).await.map(Some)
}

/// Whether what somebody uses up is counted.
pub(super) fn has_quota(shared: &Shared, ctx: &CallContext) -> bool {
    shared.state.groups.access(&ctx.requester).is_some_and(|access| !access.quota.is_unlimited())
}
