//! The engine on systems that can neither confine Python nor pass it private descriptors.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::CPythonSettings;
use crate::{Execution, Failure, Host, Limits, Program};

const REASON: &str = "full Python is not supported on this system\nhint: use the monty engine";

/// A child that keeps its names; never created here.
pub(crate) struct KeptChild;

/// The full Python engine, on a system that it does not support.
#[derive(Debug)]
pub struct CPython {
    settings: CPythonSettings,
}

impl CPython {
    pub fn new(settings: CPythonSettings) -> Self {
        Self { settings }
    }

    pub fn settings(&self) -> &CPythonSettings {
        &self.settings
    }

    pub fn version(&self) -> Option<(u32, u32)> {
        None
    }

    pub fn is_warm(&self) -> bool {
        false
    }

    #[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
    pub async fn warm_up(&self) {}

    #[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
    pub async fn shutdown(&self) {}

    pub fn census(&self) -> crate::Census {
        crate::Census::default()
    }

    pub fn packages_problem(&self) -> Option<&str> {
        None
    }

    /// Always fails with [`Failure::Unavailable`].
    #[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
    pub(crate) async fn execute_kept(
        &self,
        _: &mut Option<KeptChild>,
        _: &Program,
        _: &Limits,
        _: Arc<dyn Host>,
        _: CancellationToken,
    ) -> Execution {
        Execution::failed(Failure::Unavailable(REASON.to_owned()))
    }

    /// Always fails with [`Failure::Unavailable`].
    #[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
    pub async fn execute(&self, _: &Program, _: &Limits, _: Arc<dyn Host>, _: CancellationToken) -> Execution {
        Execution::failed(Failure::Unavailable(REASON.to_owned()))
    }
}
