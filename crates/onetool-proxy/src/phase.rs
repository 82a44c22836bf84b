//! The state of a server, and how calls wait for it.
//!
//! A call uses an existing connection, and otherwise waits for the outcome of the next attempt. After an attempt that
//! hung it does not wait: it fails immediately, with the reason and the time of the next attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, ErrorKind, ToolError};

use super::connection::Connection;
use super::server::Server;
use super::settings::limits;

/// The state of a server. `attempt` numbers the attempts to connect.
#[derive(Clone)]
pub(super) enum Phase {
    /// `after` is the previous failure.
    Connecting {
        attempt: u64,
        since: Instant,
        after: Option<Trouble>,
    },
    Connected {
        attempt: u64,
        connection: Arc<Connection>,
    },
    Disconnected {
        attempt: u64,
        trouble: Trouble,
    },
    Disabled {
        reason: String,
    },
    /// Shut down for good.
    Ended,
}

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    /// Whether the attempt took long to fail: calls do not wait for the next one.
    pub(super) hung: bool,
    /// When the next attempt is due, if known.
    pub(super) next: Option<Instant>,
}

impl Trouble {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hung: false, next: None }
    }

    /// The reason, and when the next attempt is due.
    pub(super) fn told(&self) -> String {
        match self.next.map(|next| next.saturating_duration_since(Instant::now())) {
            Some(left) if left >= Duration::from_secs(1) => {
                format!("{}; the next try is due in {} s", self.reason, left.as_secs_f64().ceil())
            }
            Some(_) => format!("{}; the next try is due now", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl Phase {
    /// The number of the last attempt whose outcome is known.
    pub(super) fn settled_attempt(&self) -> u64 {
        match self {
            Self::Connecting { attempt, .. } => attempt.saturating_sub(1),
            Self::Connected { attempt, .. } | Self::Disconnected { attempt, .. } => *attempt,
            Self::Disabled { .. } | Self::Ended => 0,
        }
    }
}

/// How a connection ended.
pub(super) enum End {
    Closed(String),
    /// It no longer answers.
    Silent(String),
}

/// A pause that doubles with each failure.
pub(super) fn doubled(pause: Duration, times: u32) -> Duration {
    pause.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
}

impl Server {
    /// Returns the connection, opening it if there is none, within the server's timeout and the call's deadline. After
    /// an attempt that hung, fails until the next one is due.
    pub(super) async fn connection(&self, ctx: &CallContext) -> Result<Arc<Connection>, ToolError> {
        let mut phases = self.phase.subscribe();
        let mut half_open = None;
        let settled = {
            let phase = phases.borrow();
            match &*phase {
                Phase::Connected { connection, .. } if !connection.wire.closed.is_cancelled() => {
                    return Ok(connection.clone());
                }
                Phase::Disconnected { trouble, .. } if trouble.hung => return Err(self.not_connected(&trouble.told())),
                Phase::Connecting { since, after: Some(trouble), .. } if trouble.hung => {
                    half_open = Some((trouble.reason.clone(), *since));
                    phase.settled_attempt()
                }
                phase => phase.settled_attempt(),
            }
        };
        self.is_wanted.store(true, Ordering::Release);
        self.demand.notify_one();
        let next_outcome = async {
            loop {
                match &*phases.borrow_and_update() {
                    Phase::Connected { connection, .. } if !connection.wire.closed.is_cancelled() => {
                        return Ok(connection.clone());
                    }
                    Phase::Disabled { reason } => {
                        return Err(ToolError::unavailable(format!(
                            "the server '{}' is disabled: {reason}",
                            self.settings.name
                        )));
                    }
                    Phase::Ended => return Err(self.not_connected("it was shut down")),
                    Phase::Disconnected { attempt, trouble } if *attempt > settled => {
                        return Err(self.not_connected(&trouble.told()));
                    }
                    Phase::Connected { .. } | Phase::Connecting { .. } | Phase::Disconnected { .. } => {}
                }
                if phases.changed().await.is_err() {
                    return Err(self.not_connected("it was shut down"));
                }
            }
        };
        // The attempt has its own timeout, which started later, and gives a better reason.
        let attempt = self.settings.timeout + limits::OUTCOME_GRACE;
        let mut patience = ctx.remaining().map_or(attempt, |left| left.min(attempt));
        if half_open.is_some() {
            patience = patience.min(limits::HALF_OPEN_WAIT);
        }
        tokio::select! {
            biased;
            outcome = next_outcome => outcome,
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            () = tokio::time::sleep(patience) => Err(match half_open {
                Some((reason, since)) => {
                    let left = self.settings.timeout.saturating_sub(since.elapsed()).as_secs_f64().ceil();
                    self.not_connected(&format!("{reason}; it is being tried again now, for at most {left} s more"))
                }
                None => self.not_in_time(patience),
            }),
        }
    }

    fn not_in_time(&self, patience: Duration) -> ToolError {
        let waiting = self.stage.what().map(|what| format!(" (no {what})")).unwrap_or_default();
        let seconds = patience.as_secs_f64();
        let message = format!("the server '{}' was not connected within {seconds:.1} s{waiting}", self.settings.name);
        ToolError::new(ErrorKind::Timeout, message)
            .with_hint("ot.health() shows its state; its timeout is servers.<name>.timeout")
    }

    fn not_connected(&self, reason: &str) -> ToolError {
        ToolError::unavailable(format!("the server '{}' is not connected: {reason}", self.settings.name)).with_hint(
            if self.needs_sign_in() {
                format!("run: onetool servers login {}", self.settings.name)
            } else {
                "ot.health() shows the state of every server".to_owned()
            },
        )
    }

    /// Waits for a connection, whatever happened before.
    pub(super) async fn try_now(&self, ctx: &CallContext) -> Result<Arc<Connection>, ToolError> {
        let is_hung = |phase: &Phase| matches!(phase, Phase::Disconnected { trouble, .. } if trouble.hung);
        if is_hung(&self.phase()) {
            let mut phases = self.phase.subscribe();
            self.insistence.notify_one();
            let _ = tokio::time::timeout(limits::ATTEMPT_GAP * 4, phases.wait_for(|phase| !is_hung(phase))).await;
        }
        let mut phases = self.phase.subscribe();
        let attempt = phases.borrow().settled_attempt();
        if matches!(self.phase(), Phase::Connecting { after: Some(Trouble { hung: true, .. }), .. }) {
            // [`Self::connection`] would not wait for this attempt.
            let patience = ctx.remaining().map_or(self.settings.timeout, |left| left.min(self.settings.timeout));
            let outcome = phases.wait_for(|phase| phase.settled_attempt() > attempt);
            let _ = tokio::time::timeout(patience, outcome).await;
        }
        self.connection(ctx).await
    }

    /// Closes the connection, if there is one, and opens a new one now.
    pub(super) async fn reconnect(&self) -> Result<(), ToolError> {
        if let Phase::Disabled { reason } = self.phase() {
            return Err(ToolError::unavailable(format!("the server '{}' is disabled: {reason}", self.settings.name)));
        }
        if let Phase::Connected { connection, .. } = self.phase() {
            connection.close().await;
        }
        self.is_wanted.store(true, Ordering::Release);
        self.demand.notify_one();
        self.insistence.notify_one();
        Ok(())
    }
}
