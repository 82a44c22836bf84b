//! Assembles the parts: configuration, sources, toolbox, sandbox, runner. Every command and every server starts here.
//!
//! `parts` are what a reload may replace, each built from its own settings; `reload` decides whether the current files
//! take effect; `toolbox` arranges the parts for the runner; `view` is the app as the pack `ot` sees it, `service` as
//! REST and MCP do; `watch` holds activity, approvals and switches; `adapters` connect crates that do not depend on
//! each other.

mod adapters;
mod part;
mod parts;
mod reload;
mod service;
mod toolbox;
mod trust;
mod view;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use onetool_config::{FileTrust, RestartKeys};
use onetool_http::{Bundles, Served};
use onetool_proxy::ProxySource;
use onetool_run::durable::Durable;
use onetool_run::{Runner, SavedCode, Toolbox};
use onetool_sandbox::monty::MontySettings;
use onetool_sandbox::{CPythonSettings, PackageSettings, Sandbox};
use onetool_sdk::{CallContext, ToolSource as _};
use onetool_state::access_tokens::AccessTokens;
use onetool_state::audit::AuditLog;
use onetool_state::interface::PoolStatus;
use onetool_state::stats::StatsRecorder;
use onetool_state::switches::Switches;
use onetool_worker::WorkerSource;
use parking_lot::Mutex;

use crate::config::{self, ConfigPlaces, Resolved};
use crate::metrics::Measures;
use crate::policy_file::PolicyFile;
use crate::telemetry::Exporter;
use adapters::SharedSettings;
use parts::Parts;
use watch::Watch;

/// How long a command waits for large bundles to load.
const BUNDLE_PATIENCE: Duration = Duration::from_secs(10);

/// The assembled program.
pub struct App {
    pub runner: Runner,
    /// A reference to itself: a reload creates new packs that report on the app.
    this: Weak<Self>,
    places: ConfigPlaces,
    traces: Traces,
    /// The values at startup of all keys that need a restart.
    started_with: RestartKeys,
    settings: SharedSettings,
    parts: Mutex<Parts>,
    /// What REST and MCP serve.
    served: Mutex<Arc<Served>>,
    /// Activity, approvals and switches, which survive a reload.
    watch: Watch,
    /// Runs that survive this process.
    durable: Arc<Durable>,
    /// Whether this process serves, so that it can wait for a user to sign in to a server.
    stays: AtomicBool,
    /// Whether it serves HTTP, so that browsers can be redirected back to it.
    pub(crate) takes_callbacks: AtomicBool,
    /// Serializes reloads: the configuration that was read last must take effect last.
    reloading: Mutex<()>,
    /// Whether the user was asked to trust the folder.
    trust: trust::TrustQuestion,
}

/// Whether logs and statistics are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traces {
    Always,
    /// Only if there is a `.onetool` folder.
    InProjects,
}

impl Traces {
    fn are_kept(self, settings: &Resolved) -> bool {
        self == Self::Always || settings.own.is_dir()
    }
}

impl App {
    /// Reads the configuration and builds everything. Mistakes in the configuration become notes, not failures.
    pub fn start(places: ConfigPlaces) -> anyhow::Result<Arc<Self>> {
        Self::build(places, Traces::Always, |_| ())
    }

    /// The same for one command in a terminal: a folder that is not a project stays untouched, and a named
    /// configuration must exist.
    pub fn start_once(places: ConfigPlaces) -> anyhow::Result<Arc<Self>> {
        places.require_explicit()?;
        let app = Self::build(places, Traces::InProjects, |_| ())?;
        // A command cannot wait for background loading later.
        if !app.served.lock().bundles.source.settle(BUNDLE_PATIENCE) {
            tracing::warn!("bundles are still being read");
        }
        Ok(app)
    }

    /// The same with a tool file under development, which takes precedence over all others, wherever it is.
    pub fn start_for_author(places: ConfigPlaces, file: PathBuf) -> anyhow::Result<Arc<Self>> {
        places.require_explicit()?;
        Self::build(places, Traces::InProjects, |settings| settings.workers.authored = Some(file))
    }

    /// Assembles the toolbox without starting anything. Called outside a runtime, so that no server starts.
    pub fn start_offline(places: ConfigPlaces) -> anyhow::Result<Arc<Self>> {
        Self::build(places, Traces::InProjects, |settings| {
            settings.telemetry = None;
            settings.stats.enabled = false;
            settings.audit.enabled = false;
            settings.log_level = crate::log::Level::Error;
        })
    }

    fn build(places: ConfigPlaces, traces: Traces, adjust: impl FnOnce(&mut Resolved)) -> anyhow::Result<Arc<Self>> {
        let mut resolved = config::resolve(&places, config::load(&places));
        adjust(&mut resolved);
        let resolved = Arc::new(resolved);
        crate::log::hide(resolved.secrets.values());
        crate::log::hide(crate::governing::literal_secrets(&resolved).iter().map(String::as_str));
        if traces.are_kept(&resolved) {
            crate::log::start(&resolved.log_dir, resolved.log_level);
        }
        let executable = std::env::current_exe()?;
        let sandbox = Arc::new(Sandbox::new(monty_settings(&resolved, executable), cpython_settings(&resolved)));
        // Starts while everything else is built: a client may request a run with its first message.
        if traces == Traces::Always {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.warm_up_python().await });
        }
        let settings = SharedSettings::new(resolved.clone());
        let parts = Parts::build(&settings, traces)?;
        let keeps = traces.are_kept(&resolved) || resolved.state.is_some();
        let durable = Arc::new(service::durable(&resolved, &parts));
        let watch = Watch::new(&resolved, &places, &parts.state.value, &durable);
        Ok(Arc::new_cyclic(|app: &Weak<Self>| Self {
            runner: {
                let toolbox = Toolbox::new(toolbox::parts(&resolved, &parts, &watch, &[], app.clone()));
                let runner = Runner::new(toolbox, sandbox, resolved.run.clone());
                // A folder that is not a project stays untouched.
                if keeps { runner.with_durable(durable.clone()) } else { runner }
            },
            durable,
            this: app.clone(),
            places,
            traces,
            started_with: resolved.restart.clone(),
            settings,
            served: Mutex::new(service::served(&resolved, &parts)),
            parts: Mutex::new(parts),
            watch,
            stays: AtomicBool::new(false),
            takes_callbacks: AtomicBool::new(false),
            reloading: Mutex::new(()),
            trust: trust::TrustQuestion::default(),
        }))
    }

    pub fn settings(&self) -> Arc<Resolved> {
        self.settings.get()
    }

    pub fn bundles(&self) -> Bundles {
        self.parts.lock().bundles.value.clone()
    }

    pub fn workers(&self) -> Arc<WorkerSource> {
        self.parts.lock().workers.value.clone()
    }

    /// Code that runs saved for later.
    pub fn saved(&self) -> Arc<SavedCode> {
        self.parts.lock().saved.value.clone()
    }

    /// Runs that survive this process.
    pub fn durable(&self) -> &Arc<Durable> {
        &self.durable
    }

    /// The named access tokens.
    pub fn tokens(&self) -> Arc<AccessTokens> {
        self.parts.lock().tokens.value.clone()
    }

    /// The audit log.
    pub fn audit(&self) -> Arc<AuditLog> {
        self.parts.lock().audit.value.clone()
    }

    pub fn switches(&self) -> &Switches {
        &self.watch.switches
    }

    /// The telemetry exporter, if there is one.
    pub(crate) fn exporter(&self) -> Option<Arc<Exporter>> {
        self.parts.lock().telemetry.value.clone()
    }

    pub(crate) fn measures(&self) -> &Measures {
        &self.watch.measures
    }

    /// The connection pool of the state database, if there is one.
    pub(crate) fn state_pool(&self) -> Option<PoolStatus> {
        self.parts.lock().state.value.pool()
    }

    pub fn statistics(&self) -> Arc<StatsRecorder> {
        self.parts.lock().stats.value.clone()
    }

    /// The file for permanent approvals.
    pub fn policy_file(&self) -> &PolicyFile {
        &self.watch.policy
    }

    pub fn servers(&self) -> Arc<ProxySource> {
        self.parts.lock().servers.value.source.clone()
    }

    /// Waits, as long as `ctx` allows, until every server has connected or failed.
    pub async fn connect_servers(&self, ctx: &CallContext) {
        let servers = self.servers();
        let packs: Vec<String> = servers.status().into_iter().map(|server| server.pack).collect();
        futures_util::future::join_all(packs.iter().map(|pack| servers.settle(pack, ctx))).await;
    }

    /// The redirect address for sign-ins, if the server has a public address.
    pub(crate) fn callback_address(&self) -> Option<String> {
        let address = self.settings().server.public_url.clone()?;
        Some(format!("{address}{}", onetool_http::CALLBACK_PATH))
    }

    pub fn places(&self) -> &ConfigPlaces {
        &self.places
    }

    /// Stops every child process, and flushes telemetry and statistics.
    pub async fn shutdown(&self) {
        let parts = self.parts.lock().clone();
        let delivery = async {
            if let Some(telemetry) = parts.telemetry.value {
                telemetry.flush().await;
            }
        };
        let children = async {
            self.runner.toolbox().shutdown().await;
            self.runner.sandbox().shutdown().await;
        };
        tokio::join!(children, delivery);
        if let Err(error) = parts.stats.value.flush() {
            tracing::warn!(%error, "statistics were not written");
        }
        if let Err(error) = parts.audit.value.flush() {
            tracing::warn!(%error, "the audit trail was not written");
        }
        if let Err(error) = parts.bundles.value.store.flush_usage() {
            tracing::warn!(%error, "counts of calls were not written");
        }
        // The files that were written here since the start are remembered too, before they can be committed.
        if self.settings().workers.trust.is_full() {
            FileTrust::decide(&self.places);
        }
        crate::log::flush();
    }
}

fn monty_settings(settings: &Resolved, executable: PathBuf) -> MontySettings {
    let keys = &settings.run_keys;
    MontySettings {
        executable,
        prewarmed: keys.prewarm,
        max_children: keys.max_parallel,
        max_waiting: keys.max_waiting,
        wait: keys.max_wait,
        idle_timeout: keys.idle_timeout,
    }
}

fn cpython_settings(settings: &Resolved) -> CPythonSettings {
    let keys = &settings.run_keys;
    CPythonSettings {
        python: settings.python.clone(),
        search_path: settings.search_path.clone(),
        launcher: None,
        allow_unconfined: keys.allow_unconfined,
        max_children: keys.max_parallel,
        queue_timeout: keys.max_wait,
        zygote: keys.zygote,
        packages: PackageSettings {
            requirements: settings.run.packages.clone(),
            preload: keys.preload.clone(),
            // The user's own folder: nothing that came with a repository is installed or imported from there.
            folder: settings.global.as_ref().unwrap_or(&settings.state_home).join("environments"),
        },
        cache: settings.cache.as_ref().map(|cache| cache.join("python")),
    }
}
