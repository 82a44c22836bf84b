//! The two engines behind one door.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cpython::{CPython, CPythonSettings};
use crate::execution::{Execution, Failure, Limits, Program};
use crate::monty::{Monty, MontySettings};
use crate::{Engine, Host};

/// Runs programs, in whichever engine fits.
pub struct Sandbox {
    monty: Monty,
    cpython: CPython,
}

impl Sandbox {
    pub fn new(monty: MontySettings, cpython: CPythonSettings) -> Self {
        Self { monty: Monty::new(monty), cpython: CPython::new(cpython) }
    }

    /// Starts what the first run will need.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        self.monty.warm_up().await
    }

    /// Runs a program in an engine; `Auto` is Monty, because whoever prepared the program knows what it needs.
    pub async fn execute(
        &self,
        engine: Engine,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        match engine {
            Engine::CPython => self.cpython.execute(program, limits, host, cancel).await,
            Engine::Auto | Engine::Monty => self.monty.execute(program, limits, host, cancel).await,
        }
    }

    pub async fn shutdown(&self) {
        self.monty.shutdown().await;
    }
}
