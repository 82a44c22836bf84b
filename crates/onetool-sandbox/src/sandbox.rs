//! The two engines behind one door.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::cpython::{CPython, CPythonSettings};
use crate::execution::{Execution, Failure, Limits, Program};
use crate::monty::{Checker, Finding, Monty, MontySettings};
use crate::{Engine, Host};

/// Runs programs, in whichever engine fits.
pub struct Sandbox {
    monty: Monty,
    cpython: RwLock<Arc<CPython>>,
    checker: Checker,
}

impl Sandbox {
    pub fn new(monty: MontySettings, cpython: CPythonSettings) -> Self {
        let checker = Checker::new(monty.executable.clone());
        Self { monty: Monty::new(monty), cpython: RwLock::new(Arc::new(CPython::new(cpython))), checker }
    }

    /// Starts what the first run will need.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        let ready = self.monty.warm_up().await;
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

    /// What a type checker finds in code that is not run; nothing where it cannot tell in time. `declarations` is a stub
    /// file of the names around the code.
    pub async fn findings(&self, code: &str, declarations: &str) -> Vec<Finding> {
        self.checker.findings(code, declarations).await
    }

    pub async fn shutdown(&self) {
        self.checker.shutdown().await;
        self.cpython().shutdown().await;
        self.monty.shutdown().await;
    }
}
