//! The two engines behind one door.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::execution::{Execution, Failure, Limits, Program};
use crate::monty::{Monty, MontySettings};
use crate::Host;

/// Which engine runs code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Monty for what it can, CPython for the rest.
    #[default]
    Auto,
    Monty,
    CPython,
}

/// Runs programs, in whichever engine fits.
pub struct Sandbox {
    monty: Monty,
}

impl Sandbox {
    pub fn new(monty: MontySettings) -> Self {
        Self { monty: Monty::new(monty) }
    }

    /// Starts what the first run will need.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        self.monty.warm_up().await
    }

    pub async fn execute(
        &self,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        self.monty.execute(program, limits, host, cancel).await
    }

    pub async fn shutdown(&self) {
        self.monty.shutdown().await;
    }
}
