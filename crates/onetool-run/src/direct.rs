//! Runs that are a single call or literal need no interpreter: the host is called directly, as the sandbox would call
//! it.
//!
//! This saves a round trip to a child process, which takes longer than many tools. The call itself takes the usual call
//! path, and its failure reads as it would from the sandbox.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use onetool_sandbox::{CallTarget, Execution, Failure, Host, Limits, Lookup};
use onetool_sdk::{Arguments, ErrorKind, Value};
use tokio_util::sync::CancellationToken;

use crate::code::{Single, SingleCall};

/// Maximum number of concurrent direct runs. Further ones go through the sandbox, which queues or refuses them.
const AT_ONCE: usize = 256;

/// Time that a run may have taken before its call.
const START_ALLOWANCE: Duration = Duration::from_millis(50);

/// Counts the direct runs in progress.
#[derive(Debug, Default)]
pub(crate) struct DirectRuns {
    under_way: AtomicUsize,
}

/// Code that runs without an interpreter.
pub(crate) enum Direct<'a> {
    Call(DirectCall<'a>),
    Literal(Value),
}

/// A call that can be made without an interpreter.
pub(crate) struct DirectCall<'a> {
    target: CallTarget,
    arguments: Arguments,
    line: u32,
    _place: Place<'a>,
}

struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DirectRuns {
    /// Returns `None` if the sandbox must run the code: to report what is wrong with it, or because too many runs are
    /// direct.
    pub(crate) fn enter(&self, single: Option<&Single>, host: &dyn Host, limits: &Limits) -> Option<Direct<'_>> {
        match single? {
            Single::Literal(value) => Some(Direct::Literal(value.clone())),
            Single::Call(call) => self.call(call, host, limits).map(Direct::Call),
        }
    }

    fn call(&self, call: &SingleCall, host: &dyn Host, limits: &Limits) -> Option<DirectCall<'_>> {
        if limits.max_calls == 0 {
            return None;
        }
        let Ok(Lookup::Pack(pack)) = host.lookup(&call.pack) else { return None };
        let place = Place(&self.under_way);
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
            return None;
        }
        Some(DirectCall {
            target: CallTarget::Method { pack, function: call.function.clone() },
            arguments: call.arguments.clone(),
            line: call.line,
            _place: place,
        })
    }
}

impl Direct<'_> {
    pub(crate) async fn execute(self, limits: &Limits, host: &dyn Host, cancel: CancellationToken) -> Execution {
        match self {
            Self::Call(call) => call.execute(limits, host, cancel).await,
            Self::Literal(value) => Execution {
                result: Ok(value),
                printed: String::new(),
                printed_truncated: false,
                read_back: Vec::new(),
                calls: 0,
            },
        }
    }
}

impl DirectCall<'_> {
    async fn execute(self, limits: &Limits, host: &dyn Host, cancel: CancellationToken) -> Execution {
        let started = Instant::now();
        let result = tokio::select! {
            biased;
            result = host.call(self.target, self.arguments) => result.map_err(|error| {
                // The call was given the run's remaining time, so the run timed out.
                if error.kind == ErrorKind::Timeout && started.elapsed() + START_ALLOWANCE >= limits.timeout {
                    Failure::Timeout(limits.timeout)
                } else {
                    Failure::raised_by(&error, self.line)
                }
            }),
            () = cancel.cancelled() => Err(Failure::Cancelled),
            () = tokio::time::sleep(limits.timeout) => Err(Failure::Timeout(limits.timeout)),
        };
        let result = result.map(|value| match value {
            // The sandbox would return its text too.
            Value::Opaque(text) => Value::Str(text),
            value => value,
        });
        Execution { result, printed: String::new(), printed_truncated: false, read_back: Vec::new(), calls: 1 }
    }
}
