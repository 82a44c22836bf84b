//! Puts the parts together: configuration, sources, toolbox, sandbox, runner. Every command and every server begins
//! here, and a reload happens here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use onetool_http::{Bundles, LogMessage, Served, Service};
use onetool_run::{
    Awaited, OutputSettings, Runner, ServerStatus, Toolbox, ToolboxParts, ToolboxState, ToolboxView, ot_pack,
    project_pack,
};
use onetool_sandbox::monty::MontySettings;
use onetool_sandbox::{CPythonSettings, Sandbox};
use onetool_sdk::{CallContext, HealthNote, ToolError, ToolSource};
use onetool_bundles::{BundleSource, GatedSource, HttpEngine, built_in_bundles};
use onetool_packs::file::FileSettings;
use onetool_packs::standard::{self, ResultReader};
use onetool_packs::file;
use onetool_sdk::{NativePack, NativeSource};
use onetool_proxy::{self as proxy, Offers, ProxySettings, ProxySource, ServerSettings, ServerState};
use onetool_worker::{WorkerServices, WorkerSettings, WorkerSource};
use onetool_state::bundles::{BuiltInBundle, BundleStore, Limits, Options};
use onetool_state::results::ResultStore;
use onetool_state::stats::StatsRecorder;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::level_filters::LevelFilter;

use crate::config::{self, ConfigPlaces, Resolved};
use crate::recorder::CallRecorder;
use crate::telemetry::Exporter;

/// After a start, whoever asks what servers offer or how they are waits this long for them at the most.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// Servers that are asked to hurry at once.
const AWAITED_AT_ONCE: usize = 8;

/// Everything, ready to run.
pub struct App {
    pub runner: Runner,
    /// Ourselves: a reload makes new packs that report on us.
    this: Weak<Self>,
    places: ConfigPlaces,
    stats: Arc<StatsRecorder>,
    current: Mutex<Current>,
    /// One reload at a time: what was read last must also come into force last.
    reloading: Mutex<()>,
}

/// Whether logs and statistics are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Traces {
    Always,
    /// Only where a `.onetool` folder is.
    WhereAtHome,
}

/// What a reload may replace.
struct Current {
    settings: Arc<Resolved>,
    /// Why what the files say now is not in force.
    held_back: Vec<HealthNote>,
    workers: Arc<WorkerSource>,
    servers: Arc<ProxySource>,
    /// When they were started.
    servers_since: Instant,
    telemetry: Option<Arc<Exporter>>,
    bundles: Bundles,
    /// What of this the server shows.
    served: Arc<Served>,
}

impl App {
    /// Reads the configuration and builds everything. Mistakes in the configuration become notes, not failures.
    pub fn start(explicit: Option<PathBuf>) -> anyhow::Result<Arc<Self>> {
        Self::build(ConfigPlaces::from_environment(explicit)?, Traces::Always)
    }

    /// The same for one command in a terminal: a folder that is no project of ours stays as it is, and a configuration
    /// that was named must be there.
    pub fn start_once(explicit: Option<PathBuf>) -> anyhow::Result<Arc<Self>> {
        let places = ConfigPlaces::from_environment(explicit)?;
        places.require_explicit()?;
        Self::build(places, Traces::WhereAtHome)
    }

    fn build(places: ConfigPlaces, traces: Traces) -> anyhow::Result<Arc<Self>> {
        let settings = Arc::new(config::resolve(&places, config::load(&places)));
        crate::log::hide(settings.secrets.values());
        let leaves_traces = traces == Traces::Always || settings.own.is_dir();
        if leaves_traces {
            crate::log::start(&settings.log_dir, &settings.log_level);
        }
        let executable = std::env::current_exe()?;
        let sandbox = Arc::new(Sandbox::new(monty_settings(&settings, executable), cpython_settings(&settings)));
        let stats = Arc::new(if settings.stats.enabled && leaves_traces {
            StatsRecorder::start(&settings.stats.file, settings.stats.flush_interval)?
        } else {
            StatsRecorder::disabled()
        });
        let bundles = bundles(&settings, &stats)?;
        Ok(Arc::new_cyclic(|app: &Weak<Self>| {
            let current = Current {
                workers: Arc::new(worker_source(&settings, app.clone())),
                servers: Arc::new(proxy_source(&settings)),
                servers_since: Instant::now(),
                telemetry: settings.telemetry.clone().map(Exporter::start),
                settings: settings.clone(),
                held_back: Vec::new(),
                served: served(&settings, &bundles),
                bundles,
            };
            let toolbox = Toolbox::new(parts(&current, &stats, app.clone()));
            Self {
                runner: Runner::new(toolbox, sandbox, settings.run.clone()),
                this: app.clone(),
                places,
                stats,
                current: Mutex::new(current),
                reloading: Mutex::new(()),
            }
        }))
    }

    pub fn settings(&self) -> Arc<Resolved> {
        self.current.lock().settings.clone()
    }

    pub fn bundles(&self) -> Bundles {
        self.current.lock().bundles.clone()
    }

    pub fn servers(&self) -> Arc<ProxySource> {
        self.current.lock().servers.clone()
    }

    /// Waits, no longer than `ctx` allows, until every server has connected or failed to.
    pub async fn connect_servers(&self, ctx: &CallContext) {
        let servers = self.servers();
        let packs: Vec<String> = servers.status().into_iter().map(|server| server.pack).collect();
        futures_util::future::join_all(packs.iter().map(|pack| servers.settle(pack, ctx))).await;
    }

    pub fn places(&self) -> &ConfigPlaces {
        &self.places
    }

    /// Reads the configuration again. What did not change keeps its processes and connections; runs and calls under way
    /// finish on what they began with.
    ///
    /// A file that was understood before and is not any more holds all of it back: half of what was meant could be
    /// worse than the whole of what was. Until it is mended, the last good state stays, and health says so. What is
    /// answered is what holds it back.
    pub fn reload_now(&self) -> Vec<HealthNote> {
        let _one = self.reloading.lock();
        let settings = Arc::new(config::resolve(&self.places, config::load(&self.places)));
        crate::log::hide(settings.secrets.values());
        let mut current = self.current.lock();
        let held_back = held_back(&current.settings, &settings);
        let settings = if held_back.is_empty() { settings } else { current.settings.clone() };
        current.held_back.clone_from(&held_back);
        let mut retired: Vec<Arc<dyn ToolSource>> = Vec::new();
        if worker_keys(&settings) == worker_keys(&current.settings) {
            current.workers.refresh();
        } else {
            let new = Arc::new(worker_source(&settings, self.this.clone()));
            let old = std::mem::replace(&mut current.workers, new);
            retired.push(old);
        }
        if bundle_keys(&settings) != bundle_keys(&current.settings) {
            match bundles(&settings, &self.stats) {
                Ok(bundles) => {
                    let old = std::mem::replace(&mut current.bundles, bundles);
                    retired.push(old.source);
                }
                Err(error) => tracing::error!(%error, "the bundles stay as they were"),
            }
        }
        if settings.servers != current.settings.servers {
            let old = std::mem::replace(&mut current.servers, Arc::new(proxy_source(&settings)));
            current.servers_since = Instant::now();
            retired.push(old);
        }
        if settings.telemetry != current.settings.telemetry {
            current.telemetry = settings.telemetry.clone().map(Exporter::start);
        }
        current.settings = settings.clone();
        current.served = served(&settings, &current.bundles);
        let parts = parts(&current, &self.stats, self.this.clone());
        drop(current);
        self.runner.toolbox().replace(parts);
        self.runner.replace_settings(settings.run.clone());
        let (sandbox, python) = (self.runner.sandbox().clone(), cpython_settings(&settings));
        tokio::spawn(async move { sandbox.replace_cpython(python).await });
        crate::log::set_level(&settings.log_level);
        retire(retired);
        held_back
    }

    /// Ends every child, and hands over what was not exported or counted yet.
    pub async fn shutdown(&self) {
        let telemetry = self.current.lock().telemetry.clone();
        let delivery = async {
            if let Some(telemetry) = telemetry {
                telemetry.flush().await;
            }
        };
        let children = async {
            self.runner.toolbox().shutdown().await;
            self.runner.sandbox().shutdown().await;
        };
        tokio::join!(children, delivery);
        if let Err(error) = self.stats.flush() {
            tracing::warn!(%error, "statistics were not written");
        }
        crate::log::flush();
    }
}

#[async_trait]
impl Service for App {
    fn runner(&self) -> &Runner {
        &self.runner
    }

    fn served(&self) -> Arc<Served> {
        self.current.lock().served.clone()
    }

    fn log_messages(&self, level: LevelFilter) -> broadcast::Receiver<LogMessage> {
        crate::log::listen(level)
    }

    /// The first run must find its child and all tools ready; a client need not wait for that.
    async fn warm_up(&self) {
        let toolbox = self.runner.toolbox().clone();
        let reading = tokio::task::spawn_blocking(move || toolbox.warm_up());
        if let Err(failure) = self.runner.sandbox().warm_up().await {
            tracing::error!(?failure, "the sandbox does not start");
        }
        let _ = reading.await;
        onetool_sandbox::give_back_code();
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}

/// What REST and MCP show of a configuration.
fn served(settings: &Resolved, bundles: &Bundles) -> Arc<Served> {
    Arc::new(Served {
        instructions: settings.instructions.clone(),
        run_description: settings.run_description.clone(),
        server: settings.server.clone(),
        bundles: bundles.clone(),
    })
}

#[async_trait]
impl ToolboxView for App {
    fn state(&self) -> Arc<ToolboxState> {
        let shared = self.runner.toolbox().now();
        let mut state = (*shared.state).clone();
        let current = self.current.lock();
        state.servers = current
            .servers
            .status()
            .into_iter()
            .map(|server| ServerStatus {
                name: server.name,
                state: server.state.as_str().to_owned(),
                reason: server.reason,
            })
            .collect();
        state.notes.extend(current.telemetry.as_ref().and_then(|telemetry| telemetry.health()));
        drop(current);
        for source in self.runner.toolbox().sources() {
            state.notes.extend(source.health());
        }
        Arc::new(state)
    }

    async fn settle(&self, awaited: Awaited, ctx: &CallContext) {
        let (servers, until) = {
            let current = self.current.lock();
            (current.servers.clone(), current.servers_since + FIRST_CONTACT)
        };
        let is_awaited = |server: &proxy::ServerStatus| {
            server.state == ServerState::Connecting && (awaited == Awaited::Outcomes || server.tool_count == 0)
        };
        let packs = servers.status().into_iter().filter(is_awaited).map(|server| server.pack);
        let ctx = CallContext { deadline: Some(ctx.deadline.map_or(until, |at| at.min(until))), ..ctx.clone() };
        let waits = packs.map(|pack| {
            let (servers, ctx) = (servers.clone(), ctx.clone());
            // What does not connect in time is told as it stands.
            async move { drop(servers.settle(&pack, &ctx).await) }
        });
        stream::iter(waits).for_each_concurrent(AWAITED_AT_ONCE, |wait| wait).await;
    }

    fn reload(&self) -> Result<(), ToolError> {
        match self.reload_now().first() {
            None => Ok(()),
            Some(note) => Err(ToolError::value_error(format!("{}: {}", note.subject, note.message))
                .with_hint("mend the file; it is read again as soon as it changes")),
        }
    }
}

/// The notes on files that were understood in `old` and are not in `new`.
fn held_back(old: &Resolved, new: &Resolved) -> Vec<HealthNote> {
    let broken: Vec<String> = new
        .unreadable
        .iter()
        .filter(|path| !old.unreadable.contains(path))
        .map(|path| path.display().to_string())
        .collect();
    new.notes
        .iter()
        .filter(|note| broken.contains(&note.subject))
        .map(|note| HealthNote {
            message: format!("{}; the last good configuration stays in force until this is mended", note.message),
            ..note.clone()
        })
        .collect()
}

/// Ends sources that nothing new will use, once what is under way had its time.
fn retire(sources: Vec<Arc<dyn ToolSource>>) {
    const GRACE: std::time::Duration = std::time::Duration::from_mins(2);
    for source in sources {
        tokio::spawn(async move {
            let patience = tokio::time::Instant::now() + GRACE;
            while Arc::strong_count(&source) > 1 && tokio::time::Instant::now() < patience {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            source.shutdown().await;
        });
    }
}

fn monty_settings(settings: &Resolved, executable: PathBuf) -> MontySettings {
    MontySettings {
        executable,
        prewarmed: settings.prewarm,
        max_children: settings.max_parallel,
        max_waiting: settings.max_waiting,
        wait: settings.max_wait,
    }
}

fn cpython_settings(settings: &Resolved) -> CPythonSettings {
    CPythonSettings {
        python: settings.python.clone(),
        launcher: None,
        allow_unconfined: settings.allow_unconfined,
        max_children: settings.max_parallel,
        queue_timeout: settings.max_wait,
        zygote: settings.zygote,
    }
}

fn file_settings(settings: &Resolved) -> FileSettings {
    let mut files = FileSettings::for_project(&settings.folder);
    files.roots.clone_from(&settings.file_roots);
    files
}

/// What decides over workers; if it is the same, the workers stay.
fn worker_keys(settings: &Resolved) -> String {
    format!("{:?} {:?} {}", settings.workers, settings.tools_dir, settings.folder.display())
}

fn worker_source(settings: &Resolved, app: Weak<App>) -> WorkerSource {
    let keys = &settings.workers;
    let defaults = WorkerSettings::default();
    let mut limits = defaults.limits.clone();
    if let Some(megabytes) = keys.max_memory_mb {
        limits.memory_bytes = Some(megabytes << 20);
    }
    let worker_settings = WorkerSettings {
        project_tools: Some(settings.own.join("tools")),
        global_tools: settings.global.as_ref().map(|global| global.join("tools")),
        tools_dir: settings.tools_dir.clone(),
        folder: settings.folder.clone(),
        idle_timeout: keys.idle_timeout,
        call_timeout: keys.call_timeout,
        startup_timeout: keys.startup_timeout,
        max_workers: keys.max,
        max_queue: keys.max_queue,
        limits,
        ..defaults
    };
    WorkerSource::new(worker_settings, Arc::new(Services(app)))
}

/// What workers may ask for, as it is when they ask: a worker outlives a reload.
struct Services(Weak<App>);

impl WorkerServices for Services {
    fn secret(&self, name: &str) -> Option<String> {
        self.0.upgrade()?.settings().secrets.get(name).map(str::to_owned)
    }

    fn config(&self, pack: &str, key: &str) -> Option<serde_json::Value> {
        self.0.upgrade()?.settings().tools.get(pack)?.get(key).cloned()
    }
}

fn proxy_source(settings: &Resolved) -> ProxySource {
    let servers: Vec<ServerSettings> = settings.servers.clone();
    // A folder that is no project of ours stays as it is: what servers look like is then remembered for the user.
    let user = settings.global.as_ref().filter(|global| global.is_dir() && !settings.own.is_dir());
    let folder = user.unwrap_or(&settings.own);
    ProxySource::new(ProxySettings {
        servers,
        cache_folder: folder.join("cache").join("servers"),
        pin_file: folder.join("pins.json"),
        offers: Offers::default(),
    })
}

/// What decides over bundles and their requests.
fn bundle_keys(settings: &Resolved) -> String {
    let folder = settings.bundles_dir.display();
    format!("{folder} {:?} {:?} {:?}", settings.http, settings.packages, settings.secrets.all())
}

fn bundles(settings: &Arc<Resolved>, stats: &Arc<StatsRecorder>) -> anyhow::Result<Bundles> {
    let engine = Arc::new(HttpEngine::new(settings.http.clone(), Arc::new(BundleSecrets(settings.clone()))));
    let native = NativeSource::new(native_packs(settings, stats, Weak::new())).packs();
    let mut built_in: Vec<BuiltInBundle> = native.iter().map(|pack| BuiltInBundle::native(pack)).collect();
    built_in.extend(built_in_bundles(&settings.packages));
    let native_functions =
        native.iter().flat_map(|pack| pack.tools.keys().map(|tool| format!("{}.{tool}", pack.name))).collect();
    let store = BundleStore::open(Options {
        folder: settings.bundles_dir.clone(),
        limits: Limits::default(),
        built_in,
        native_functions,
        check: engine.checker(),
    })?;
    let source = Arc::new(BundleSource::new(store.clone(), engine.clone()));
    Ok(Bundles { store, engine, source })
}

/// The secrets that a bundle's requests may use. New secrets make a new engine.
struct BundleSecrets(Arc<Resolved>);

impl onetool_bundles::Secrets for BundleSecrets {
    fn get(&self, _bundle: &str, name: &str) -> Option<String> {
        self.0.secrets.get(name).map(str::to_owned)
    }
}

/// Results that were too large for a reply, for the tools that read them.
struct StoredResults(OutputSettings);

impl ResultReader for StoredResults {
    fn open(&self, handle: &str) -> Result<Box<dyn std::io::BufRead + Send>, ToolError> {
        let store = ResultStore::new(&self.0.result_store_dir, self.0.result_ttl);
        let (_, file) = store.open(handle).map_err(|error| ToolError::value_error(error.to_string()))?;
        Ok(Box::new(std::io::BufReader::new(file)))
    }
}

/// The native packs; `ot` reports on the app that it is part of.
fn native_packs(settings: &Resolved, stats: &Arc<StatsRecorder>, app: Weak<App>) -> Vec<NativePack> {
    let view: Weak<dyn ToolboxView> = app;
    vec![
        ot_pack(view, stats.clone()),
        file::pack(file_settings(settings)),
        standard::pack(Arc::new(StoredResults(settings.output.clone()))),
        project_pack(&settings.projects),
    ]
}

/// Where files are written, the folder that holds the others by default first.
fn storage(settings: &Resolved) -> Vec<PathBuf> {
    let mut folders = vec![settings.own.clone(), settings.log_dir.clone(), settings.output.result_store_dir.clone()];
    if settings.stats.enabled {
        folders.extend(settings.stats.file.parent().map(Path::to_owned));
    }
    folders.push(settings.bundles_dir.clone());
    folders
}

fn parts(current: &Current, stats: &Arc<StatsRecorder>, app: Weak<App>) -> ToolboxParts {
    let settings = &current.settings;
    let native = Arc::new(NativeSource::new(native_packs(settings, stats, app)));
    // In order of precedence.
    let sources: Vec<Arc<dyn ToolSource>> = vec![
        Arc::new(GatedSource::new(native, current.bundles.store.clone())),
        current.workers.clone(),
        current.bundles.source.clone(),
        current.servers.clone(),
    ];
    ToolboxParts {
        sources,
        state: ToolboxState {
            catalog: Arc::default(),
            aliases: settings.aliases.clone(),
            snippets: settings.snippets.clone(),
            instructions: settings.pack_instructions.clone(),
            servers: Vec::new(),
            topics: settings.topics.clone(),
            output: settings.output.clone(),
            stats: settings.stats.clone(),
            folder: settings.folder.clone(),
            storage: storage(settings),
            engine: "3.14 (monty)".to_owned(),
            notes: settings.notes.iter().chain(&current.held_back).cloned().collect(),
            search: Arc::default(),
        },
        projects: settings.projects.clone(),
        permissions: settings.permissions.clone(),
        recorder: Arc::new(CallRecorder::new(stats.clone(), current.telemetry.clone())),
    }
}
