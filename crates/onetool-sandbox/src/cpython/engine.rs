//! The engine: finds its interpreter once, and gives each program a child, forked by the zygote if there is one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::CPythonSettings;
use super::child::Child;
use super::conversation::{ChildState, Conversation};
use super::host_program;
use super::interpreter;
use super::launch::{Confinement, LaunchOrder, Role};
use super::packages::{self, Installed};
use super::protocol::Setup;
use super::spares::Spares;
use super::zygote::Zygote;
use crate::{Census, Execution, Failure, Host, Limits, Program};

/// Address space of an interpreter started for one program.
const OWN_HEADROOM: usize = 64 << 20;
/// Pause after a failed start of the zygote: initial and maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The full Python engine. Nothing is started before it is warmed up or runs its first program.
pub struct CPython {
    settings: CPythonSettings,
    /// A failure to prepare is kept as well.
    prepared: OnceCell<Result<Prepared, String>>,
    permits: Arc<Semaphore>,
    /// Set by [`CPython::warm_up`]: a process that runs only one program does not need a zygote.
    warm: AtomicBool,
    zygote: Mutex<ZygoteState>,
    spares: Arc<Spares>,
    /// Progress messages while packages are installed.
    progress: watch::Sender<String>,
}

/// The data every child is started with.
struct Prepared {
    version: (u32, u32),
    launcher: PathBuf,
    order: LaunchOrder,
    /// The first line that a child reads.
    setup: Arc<[u8]>,
    packages: Packages,
}

/// The packages that programs can import.
enum Packages {
    None,
    Installed(Installed),
    /// Installation failed: programs run without packages.
    Failed(String),
}

impl Packages {
    /// Address space that importing them takes.
    fn headroom(&self) -> usize {
        match self {
            Self::Installed(installed) => installed.headroom,
            Self::None | Self::Failed(_) => 0,
        }
    }
}

/// A child that has run a program and keeps its names for the next one.
pub(crate) struct KeptChild(Child);

#[derive(Default)]
struct ZygoteState {
    running: Option<Arc<Zygote>>,
    /// After a failed start: when to retry, and the pause after the next failure.
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
            spares: Arc::default(),
            progress: watch::Sender::default(),
        }
    }

    pub fn settings(&self) -> &CPythonSettings {
        &self.settings
    }

    /// Returns the version of the interpreter, once it is known.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.prepared.get()?.as_ref().ok().map(|prepared| prepared.version)
    }

    /// Finds the interpreter, so that its version is known.
    pub async fn find(&self) {
        drop(self.prepared().await);
    }

    /// Returns why the configured packages cannot be imported, once that is known.
    pub fn packages_problem(&self) -> Option<&str> {
        match &self.prepared.get()?.as_ref().ok()?.packages {
            Packages::Failed(reason) => Some(reason),
            Packages::None | Packages::Installed(_) => None,
        }
    }

    /// Whether [`CPython::warm_up`] was called.
    pub fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed)
    }

    fn wants_zygote(&self) -> bool {
        self.is_warm() && self.settings.zygote && cfg!(target_os = "linux")
    }

    /// Starts the zygote, so that it is ready for the first program, and keeps one running from now on.
    pub async fn warm_up(&self) {
        self.warm.store(true, Ordering::Relaxed);
        if self.wants_zygote()
            && let Ok(prepared) = self.prepared().await
        {
            self.zygote(prepared).await;
        }
    }

    /// Returns the current number of processes.
    pub fn census(&self) -> Census {
        let busy = self.settings.max_children.max(1).saturating_sub(self.permits.available_permits());
        let is_alive = |state: &ZygoteState| state.running.as_ref().is_some_and(|zygote| zygote.is_alive());
        // Locked while a zygote is being started.
        let zygotes = usize::from(self.zygote.try_lock().is_ok_and(|state| is_alive(&state)));
        Census { busy, idle: self.spares.count(), zygotes, ..Census::default() }
    }

    /// Ends the zygote, and all its children with it.
    pub async fn shutdown(&self) {
        self.warm.store(false, Ordering::Relaxed);
        self.spares.clear();
        self.zygote.lock().await.running = None;
    }

    async fn prepared(&self) -> Result<&Prepared, String> {
        let report = |text: String| {
            tracing::info!(text, "packages for code");
            self.progress.send_replace(text);
        };
        self.prepared.get_or_init(|| prepare(&self.settings, &report)).await.as_ref().map_err(Clone::clone)
    }

    /// Like [`Self::prepared`], for a waiting program: reports the progress to its host.
    async fn prepared_for(&self, host: &dyn Host) -> Result<&Prepared, String> {
        let mut news = self.progress.subscribe();
        let prepared = self.prepared();
        tokio::pin!(prepared);
        loop {
            tokio::select! {
                biased;
                prepared = &mut prepared => return prepared,
                Ok(()) = news.changed() => {
                    let text = news.borrow_and_update().clone();
                    host.progress(&text);
                }
            }
        }
    }

    /// Runs a program in its own process, which is dead or about to be when this returns.
    pub async fn execute(
        &self,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        let conversation = Conversation { program, limits, host, cancel, keeps_names: false };
        let (permit, mut child) = match self.enter(&conversation, &mut None).await {
            Ok(entered) => entered,
            Err(failure) => return Execution::failed(failure),
        };
        let (execution, after) = conversation.run(&mut child).await;
        match after {
            ChildState::Alive => child.retire(permit),
            ChildState::Ended => child.dismiss(permit),
        }
        execution
    }

    /// Runs a program in the kept child or in a new one. Leaves `None` in `kept` if the child has ended.
    pub(crate) async fn execute_kept(
        &self,
        kept: &mut Option<KeptChild>,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        let conversation = Conversation { program, limits, host, cancel, keeps_names: true };
        let (permit, mut child) = match self.enter(&conversation, kept).await {
            Ok(entered) => entered,
            Err(failure) => return Execution::failed(failure),
        };
        let (execution, after) = conversation.run(&mut child).await;
        match after {
            ChildState::Alive => *kept = Some(KeptChild(child)),
            ChildState::Ended => child.dismiss(permit),
        }
        execution
    }

    /// Returns a permit to run and the kept child, or a new one. If this fails, the kept child is left alone.
    async fn enter(
        &self,
        conversation: &Conversation<'_>,
        kept: &mut Option<KeptChild>,
    ) -> Result<(OwnedSemaphorePermit, Child), Failure> {
        let Conversation { program, limits, host, cancel, .. } = conversation;
        if program.code.len() > limits.max_source {
            return Err(Failure::TooLarge(format!(
                "the program has {} bytes, {} are allowed",
                program.code.len(),
                limits.max_source
            )));
        }
        let permits = Arc::clone(&self.permits);
        let permit = tokio::select! {
            () = cancel.cancelled() => return Err(Failure::Cancelled),
            permit = tokio::time::timeout(self.settings.queue_timeout, permits.acquire_owned()) => permit,
        };
        let Ok(Ok(permit)) = permit else {
            return Err(Failure::Busy(format!(
                "{} programs run already, and none ended in {} s",
                self.settings.max_children,
                self.settings.queue_timeout.as_secs()
            )));
        };
        if let Some(KeptChild(child)) = kept.take() {
            return Ok((permit, child));
        }
        let prepared = tokio::select! {
            () = cancel.cancelled() => return Err(Failure::Cancelled),
            prepared = self.prepared_for(&**host) => prepared.map_err(Failure::Unavailable)?,
        };
        match self.child(prepared).await {
            Ok(child) => Ok((permit, child)),
            Err(error) => Err(Failure::Unavailable(format!("cannot start Python: {error}"))),
        }
    }

    async fn child(&self, prepared: &Prepared) -> std::io::Result<Child> {
        if self.wants_zygote()
            && let Some(zygote) = self.zygote(prepared).await
        {
            if let Some(child) = self.spares.take(&zygote, &prepared.setup) {
                return Ok(child);
            }
            match zygote.fork(&prepared.setup).await {
                Ok(child) => return Ok(child),
                Err(error) => tracing::warn!(%error, "the zygote does not fork"),
            }
        }
        let mut child = Child::start(&prepared.launcher, &prepared.order)?;
        child.set_up(&prepared.setup, OWN_HEADROOM + prepared.packages.headroom());
        Ok(child)
    }

    /// Returns the zygote, restarted if it has died; `None` if there cannot be one now.
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
        match Zygote::start(&prepared.launcher, &order, prepared.packages.headroom()).await {
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

async fn prepare(settings: &CPythonSettings, report: packages::Report<'_>) -> Result<Prepared, String> {
    if !cfg!(target_os = "linux") && !settings.allow_unconfined {
        return Err("full Python cannot be confined on this system\nhint: use the monty engine, or opt in to unconfined Python in the configuration".to_owned());
    }
    let found = interpreter::find(settings.python.as_deref(), settings.search_path.folders()).await?;
    let launcher = match &settings.launcher {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(|error| format!("cannot find our own executable: {error}"))?,
    };
    let packages = if settings.packages.is_empty() {
        Packages::None
    } else {
        match packages::install(&settings.packages, &found, &settings.search_path, report).await {
            Ok(installed) => Packages::Installed(installed),
            Err(reason) => {
                tracing::warn!(reason, "code runs without packages");
                Packages::Failed(reason)
            }
        }
    };
    let confinement = if settings.allow_unconfined { Confinement::WherePossible } else { Confinement::Required };
    let library = match &packages {
        Packages::Installed(installed) => Some(installed.library.clone()),
        Packages::None | Packages::Failed(_) => None,
    };
    let mut read = found.read;
    read.extend(library.clone());
    let mut order = LaunchOrder {
        executable: found.executable,
        read,
        execute: found.execute,
        confinement,
        role: Role::OneProgram,
        code: None,
        library,
        preload: settings.packages.preload.clone(),
    };
    if let Some(folder) = &settings.cache {
        order.code = host_program::compiled(folder, &launcher, &order).await;
    }
    let wall = second_wall()?;
    let setup = Setup { wall: wall.as_deref(), wall_required: confinement == Confinement::Required };
    let mut setup = serde_json::to_vec(&setup).map_err(|error| error.to_string())?;
    setup.push(b'\n');
    Ok(Prepared { version: found.version, launcher, order, setup: setup.into(), packages })
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
