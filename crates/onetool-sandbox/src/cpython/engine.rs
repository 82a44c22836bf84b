//! The engine: finds its interpreter once, and gives each program a child, forked by the zygote where there is one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use super::CPythonSettings;
use super::child::Child;
use super::interpreter;
use super::launch::{Confinement, LaunchOrder, Role};
use super::session::Session;
use super::zygote::Zygote;
use crate::{Execution, Failure, Host, Limits, Program};

/// Address space of an interpreter that was started for one program.
const OWN_HEADROOM: usize = 64 << 20;
/// How long a zygote that failed to start is not tried again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The full Python engine. Nothing is started before it is warmed up or has its first program.
pub struct CPython {
    settings: CPythonSettings,
    /// Why there is none, is kept as well.
    prepared: OnceCell<Result<Prepared, String>>,
    permits: Arc<Semaphore>,
    /// Set by [`CPython::warm_up`]: a process that runs one program has no use for a zygote.
    warm: AtomicBool,
    zygote: Mutex<ZygoteState>,
}

/// What every child is started with.
struct Prepared {
    version: (u32, u32),
    launcher: PathBuf,
    order: LaunchOrder,
    wall: Option<String>,
}

#[derive(Default)]
struct ZygoteState {
    running: Option<Arc<Zygote>>,
    /// After a failed start: when to try again, and how long to wait after the next failure.
    paused: Option<(Instant, Duration)>,
}

impl std::fmt::Debug for CPython {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CPython").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl CPython {
    pub fn new(settings: CPythonSettings) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(settings.max_children.max(1))),
            settings,
            prepared: OnceCell::new(),
            warm: AtomicBool::new(false),
            zygote: Mutex::default(),
        }
    }

    pub fn settings(&self) -> &CPythonSettings {
        &self.settings
    }

    /// The version of the interpreter, once it is known.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.prepared.get()?.as_ref().ok().map(|prepared| prepared.version)
    }

    /// Whether it was warmed up.
    pub fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed)
    }

    fn wants_zygote(&self) -> bool {
        self.is_warm() && self.settings.zygote && cfg!(target_os = "linux")
    }

    /// Starts the zygote, so that the first program finds it ready, and keeps one from now on.
    pub async fn warm_up(&self) {
        self.warm.store(true, Ordering::Relaxed);
        if self.wants_zygote()
            && let Ok(prepared) = self.prepared().await
        {
            self.zygote(prepared).await;
        }
    }

    /// Ends the zygote, and with it every child.
    pub async fn shutdown(&self) {
        self.warm.store(false, Ordering::Relaxed);
        self.zygote.lock().await.running = None;
    }

    async fn prepared(&self) -> Result<&Prepared, String> {
        self.prepared.get_or_init(|| prepare(&self.settings)).await.as_ref().map_err(Clone::clone)
    }

    /// Runs a program in a process of its own, which is dead or being killed when this returns.
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
        let permits = Arc::clone(&self.permits);
        let permit = tokio::select! {
            () = cancel.cancelled() => return without_run(Failure::Cancelled),
            permit = tokio::time::timeout(self.settings.queue_timeout, permits.acquire_owned()) => permit,
        };
        let Ok(Ok(permit)) = permit else {
            return without_run(Failure::Busy(format!(
                "{} programs run already, and none ended in {} s",
                self.settings.max_children,
                self.settings.queue_timeout.as_secs()
            )));
        };
        let prepared = match self.prepared().await {
            Ok(prepared) => prepared,
            Err(reason) => return without_run(Failure::Unavailable(reason)),
        };
        let (child, headroom) = match self.child(prepared).await {
            Ok(child) => child,
            Err(error) => return without_run(Failure::Unavailable(format!("cannot start Python: {error}"))),
        };
        let wall = prepared.wall.as_deref();
        let wall_required = prepared.order.confinement == Confinement::Required;
        Session { program, limits, host, cancel, wall, wall_required, headroom }.run(child, permit).await
    }

    /// A child, and how much address space it has before its program.
    async fn child(&self, prepared: &Prepared) -> std::io::Result<(Child, usize)> {
        if self.wants_zygote()
            && let Some(zygote) = self.zygote(prepared).await
        {
            match zygote.fork().await {
                Ok(child) => return Ok((child, zygote.headroom)),
                Err(error) => tracing::warn!(%error, "the zygote does not fork"),
            }
        }
        Ok((Child::start(&prepared.launcher, &prepared.order)?, OWN_HEADROOM))
    }

    /// The zygote, started again if it has died; `None` where none can be had now.
    async fn zygote(&self, prepared: &Prepared) -> Option<Arc<Zygote>> {
        let mut state = self.zygote.lock().await;
        if let Some(zygote) = &state.running
            && zygote.is_alive()
        {
            return Some(Arc::clone(zygote));
        }
        state.running = None;
        let pause = match state.paused {
            Some((until, _)) if Instant::now() < until => return None,
            Some((_, pause)) => pause,
            None => FIRST_PAUSE,
        };
        let order = LaunchOrder { role: Role::Zygote, ..prepared.order.clone() };
        match Zygote::start(&prepared.launcher, &order).await {
            Ok(zygote) => {
                state.paused = None;
                state.running = Some(Arc::new(zygote));
                state.running.clone()
            }
            Err(error) => {
                tracing::warn!(%error, "each program starts an interpreter of its own for now");
                state.paused = Some((Instant::now() + pause, (pause * 2).min(LONGEST_PAUSE)));
                None
            }
        }
    }
}

async fn prepare(settings: &CPythonSettings) -> Result<Prepared, String> {
    if !cfg!(target_os = "linux") && !settings.allow_unconfined {
        return Err("full Python cannot be confined on this system\nhint: use the monty engine, or opt in to unconfined Python in the configuration".to_owned());
    }
    let found = interpreter::find(settings.python.as_deref(), &settings.search_folders).await?;
    let launcher = match &settings.launcher {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(|error| format!("cannot find our own executable: {error}"))?,
    };
    let confinement = if settings.allow_unconfined { Confinement::WherePossible } else { Confinement::Required };
    let version = found.version;
    let order = LaunchOrder {
        executable: found.executable,
        read: found.read,
        execute: found.execute,
        confinement,
        role: Role::OneProgram,
    };
    Ok(Prepared { version, launcher, order, wall: second_wall()? })
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
