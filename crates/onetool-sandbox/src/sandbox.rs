//! The two engines behind one door.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::cpython::{CPython, CPythonSettings};
use crate::execution::{Execution, Failure, Limits, Program};
use crate::monty::{Monty, MontySettings};
use crate::{Engine, Host};

/// Runs programs, in whichever engine fits.
pub struct Sandbox {
    monty: Monty,
    cpython: RwLock<Arc<CPython>>,
}

impl Sandbox {
    pub fn new(monty: MontySettings, cpython: CPythonSettings) -> Self {
        Self { monty: Monty::new(monty), cpython: RwLock::new(Arc::new(CPython::new(cpython))) }
    }

    /// Starts what the first run will need.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        let ready = self.monty.warm_up();
        self.cpython().warm_up().await;
        ready
    }

    /// Later programs run as these settings say; what runs already is not disturbed.
    pub async fn replace_cpython(&self, settings: CPythonSettings) {
        if *self.cpython().settings() == settings {
            return;
        }
        let new = Arc::new(CPython::new(settings));
        let former = std::mem::replace(&mut *self.cpython.write(), new.clone());
        if former.is_warm() {
            new.warm_up().await;
        }
    }

    /// The version of the full Python, once it is known.
    pub fn python_version(&self) -> Option<(u32, u32)> {
        self.cpython().version()
    }

    fn cpython(&self) -> Arc<CPython> {
        self.cpython.read().clone()
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
            Engine::CPython => self.cpython().execute(program, limits, host, cancel).await,
            Engine::Auto | Engine::Monty => self.monty.execute(program, limits, host, cancel).await,
        }
    }

    pub async fn shutdown(&self) {
        self.cpython().shutdown().await;
        self.monty.shutdown().await;
    }
}
