//! The engine as the sandbox sees it: takes programs and returns their outcomes.

use std::sync::Arc;

use onetool_sdk::Value;
use tokio_util::sync::CancellationToken;

use super::pool::{MontySettings, Pool};
use super::run::{Run, Stopped};
use crate::Host;
use crate::execution::{Execution, Failure, Limits, Program};

/// The engine.
pub struct Monty {
    pool: Arc<Pool>,
}

impl Monty {
    pub fn new(settings: MontySettings) -> Self {
        Self { pool: Pool::new(settings) }
    }

    /// Starts the children. Called early so that they are ready for the first run.
    pub fn warm_up(&self) -> Result<(), Failure> {
        self.pool.warm_up()
    }

    /// Returns the process ids of the children that wait for a run.
    pub fn idle_children(&self) -> Vec<u32> {
        self.pool.idle()
    }

    pub(crate) fn census(&self) -> crate::Census {
        self.pool.census()
    }

    /// Ends the idle children.
    pub async fn shutdown(&self) {
        self.pool.shut_down().await;
    }

    /// Runs a program.
    pub async fn execute(
        &self,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        let mut run = Run::new(limits, host);
        let mut read_back = Vec::new();
        let result = tokio::select! {
            result = self.converse(program, &mut run, &mut read_back) => result,
            () = cancel.cancelled() => Err(Failure::Cancelled),
            () = tokio::time::sleep(limits.timeout) => Err(Failure::Timeout(limits.timeout)),
        };
        let (printed, calls) = run.into_account();
        Execution { result, printed: printed.text, printed_truncated: printed.truncated, read_back, calls }
    }

    async fn converse(
        &self,
        program: &Program,
        run: &mut Run<'_>,
        read_back: &mut Vec<(String, Value)>,
    ) -> Result<Value, Failure> {
        let max_source = run.limits().max_source;
        if program.code.len() > max_source {
            let size = program.code.len();
            return Err(Failure::TooLarge(format!("the code has {size} bytes; at most {max_source} are allowed")));
        }
        loop {
            let mut lent = self.pool.lend().await?;
            match run.drive(lent.process(), program).await {
                Ok((value, values)) => {
                    lent.finish();
                    *read_back = values;
                    return Ok(value);
                }
                Err(Stopped::Reusable(failure)) => {
                    lent.finish();
                    return Err(failure);
                }
                // It died while idle, and the program has done nothing yet.
                Err(Stopped::Discard(Failure::Crashed(_))) if lent.waited && run.is_untouched() => {}
                // Dropping the child kills it.
                Err(Stopped::Discard(failure)) => return Err(failure),
            }
        }
    }
}
