//! The engine: finds its interpreter once, hands out children, keeps one spare.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::CPythonSettings;
use super::child::Child;
use super::interpreter;
use super::launch::{Confinement, LaunchOrder};
use super::session::Session;
use crate::{Execution, Failure, Host, Limits, Program};

/// The full Python engine. Nothing is started before the first program.
pub struct CPython {
    settings: CPythonSettings,
    /// Why there is none, is kept as well.
    prepared: OnceCell<Result<Prepared, String>>,
    permits: Semaphore,
    spare: Arc<Mutex<Spare>>,
}

/// What every child is started with.
struct Prepared {
    launcher: PathBuf,
    order: LaunchOrder,
    wall: Option<String>,
}

#[derive(Default)]
struct Spare {
    child: Option<Child>,
    /// The task that ends the spare when nobody wants it.
    expiry: Option<AbortHandle>,
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(expiry) = self.expiry.take() {
            expiry.abort();
        }
    }
}

impl std::fmt::Debug for CPython {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CPython").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl CPython {
    pub fn new(settings: CPythonSettings) -> Self {
        Self {
            permits: Semaphore::new(settings.max_children.max(1)),
            settings,
            prepared: OnceCell::new(),
            spare: Arc::default(),
        }
    }

    /// Runs a program in a process of its own, which is gone when this returns.
    pub async fn execute(
        &self,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        if program.code.len() > limits.max_source {
            return without_run(Failure::TooLarge(format!(
                "the program has {} bytes, {} are allowed",
                program.code.len(),
                limits.max_source
            )));
        }
        let permit = tokio::select! {
            () = cancel.cancelled() => return without_run(Failure::Cancelled),
            permit = tokio::time::timeout(self.settings.queue_timeout, self.permits.acquire()) => permit,
        };
        let Ok(Ok(_permit)) = permit else {
            return without_run(Failure::Busy(format!(
                "{} programs run already, and none ended in {} s",
                self.settings.max_children,
                self.settings.queue_timeout.as_secs()
            )));
        };
        let prepared = match self.prepared.get_or_init(|| prepare(&self.settings)).await {
            Ok(prepared) => prepared,
            Err(reason) => return without_run(Failure::Unavailable(reason.clone())),
        };
        let child = match self.take_child(prepared) {
            Ok(child) => child,
            Err(error) => return without_run(Failure::Unavailable(format!("cannot start Python: {error}"))),
        };
        let wall = prepared.wall.as_deref();
        let wall_required = prepared.order.confinement == Confinement::Required;
        let execution = Session { program, limits, host, cancel, wall, wall_required }.run(child).await;
        if self.settings.prewarm && !matches!(execution.result, Err(Failure::Unavailable(_))) {
            self.keep_spare(prepared);
        }
        execution
    }

    fn take_child(&self, prepared: &Prepared) -> std::io::Result<Child> {
        let spare = self.spare.lock().child.take();
        match spare.and_then(Child::alive) {
            Some(child) => Ok(child),
            None => Child::start(&prepared.launcher, &prepared.order),
        }
    }

    /// Starts a spare where there is none, and lets it end when it is not used for long.
    fn keep_spare(&self, prepared: &Prepared) {
        let mut spare = self.spare.lock();
        if spare.child.is_none() {
            // Without a spare the next program starts its own child, and reports why that fails.
            spare.child = Child::start(&prepared.launcher, &prepared.order).ok();
        }
        let idle = self.settings.spare_idle;
        let shared = Arc::downgrade(&self.spare);
        let task = tokio::spawn(async move {
            tokio::time::sleep(idle).await;
            if let Some(shared) = shared.upgrade() {
                shared.lock().child = None;
            }
        });
        if let Some(former) = spare.expiry.replace(task.abort_handle()) {
            former.abort();
        }
    }
}

async fn prepare(settings: &CPythonSettings) -> Result<Prepared, String> {
    if !cfg!(target_os = "linux") && !settings.allow_unconfined {
        return Err("full Python cannot be confined on this system\nhint: use the monty engine, or opt in to unconfined Python in the configuration".to_owned());
    }
    let found = interpreter::find(settings.python.as_deref()).await?;
    let launcher = match &settings.launcher {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(|error| format!("cannot find our own executable: {error}"))?,
    };
    let confinement = if settings.allow_unconfined { Confinement::WherePossible } else { Confinement::Required };
    let order = LaunchOrder { executable: found.executable, read: found.read, execute: found.execute, confinement };
    Ok(Prepared { launcher, order, wall: second_wall()? })
}

#[cfg(target_os = "linux")]
fn second_wall() -> Result<Option<String>, String> {
    super::wall::second().map(Some).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as where there is a wall")]
fn second_wall() -> Result<Option<String>, String> {
    Ok(None)
}

fn without_run(failure: Failure) -> Execution {
    Execution {
        result: Err(failure),
        printed: String::new(),
        printed_truncated: false,
        read_back: Vec::new(),
        calls: 0,
    }
}
