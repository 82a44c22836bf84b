//! One interface to the two engines.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::cpython::{CPython, CPythonSettings, SessionKey, SessionLimits, SessionProgram, SessionRun, Sessions};
use crate::execution::{Execution, Failure, Limits, Program};
use crate::monty::{Monty, MontySettings};
use crate::{Census, Engine, Host};

/// Runs programs in the engine that fits.
pub struct Sandbox {
    monty: Monty,
    cpython: RwLock<Arc<CPython>>,
    sessions: Arc<Sessions>,
}

impl Sandbox {
    pub fn new(monty: MontySettings, cpython: CPythonSettings) -> Self {
        let cpython = RwLock::new(Arc::new(CPython::new(cpython)));
        Self { monty: Monty::new(monty), cpython, sessions: Arc::default() }
    }

    /// Starts the processes that the first run needs.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        let ready = self.monty.warm_up();
        self.cpython().warm_up().await;
        ready
    }

    /// Starts only full Python, the slowest part, as early as possible, before everything else is ready.
    pub async fn warm_up_python(&self) {
        self.cpython().warm_up().await;
    }

    /// Applies new settings to later programs; running programs are not affected.
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

    /// Waits until the version of the full Python is known, at most this long.
    pub async fn find_python(&self, at_most: Duration) {
        let cpython = self.cpython();
        if cpython.version().is_none() {
            // A task of its own: installing packages goes on when the time is over.
            let finding = tokio::spawn(async move { cpython.find().await });
            drop(tokio::time::timeout(at_most, finding).await);
        }
    }

    /// Why the configured packages cannot be imported, once that is known.
    pub fn packages_problem(&self) -> Option<String> {
        self.cpython().packages_problem().map(str::to_owned)
    }

    /// Returns the number of processes that run code, by engine.
    pub fn census(&self) -> [(&'static str, Census); 2] {
        let cpython = Census { sessions: self.sessions.count(), ..self.cpython().census() };
        [("monty", self.monty.census()), ("cpython", cpython)]
    }

    /// The sessions that programs run in.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    fn cpython(&self) -> Arc<CPython> {
        self.cpython.read().clone()
    }

    /// Runs a program in an engine; `Auto` means Monty, because the caller already knows what the program needs.
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

    /// Runs a program in full Python, with the names that earlier programs in this session defined.
    pub async fn execute_in_session(
        &self,
        key: &SessionKey,
        session_limits: SessionLimits,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> SessionRun {
        let order = SessionProgram { program, limits, session_limits };
        self.sessions.run(self.cpython(), key, order, host, cancel).await
    }

    pub async fn shutdown(&self) {
        self.sessions.shutdown();
        self.cpython().shutdown().await;
        self.monty.shutdown().await;
    }
}
