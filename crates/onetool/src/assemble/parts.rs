//! The parts that a reload may replace, each with the settings that it depends on.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use onetool_bundles::{
    BundleSource, HttpEngine, HttpSettings, ImportSettings, ReadyMade, SequenceSettings, built_in_bundles,
};
use onetool_config::Secrets;
use onetool_http::Bundles;
use onetool_process::SearchPath;
use onetool_proxy::{Offers, ProxySettings, ProxySource, ServerSettings};
use onetool_run::SavedCode;
use onetool_run::quota::Quotas;
use onetool_sdk::{HealthNote, NativeSource, ToolSource};
use onetool_state::State;
use onetool_state::access_tokens::AccessTokens;
use onetool_state::audit::{AuditLog, AuditSettings};
use onetool_state::bundles::{BuiltInBundle, BundleStore, Limits, Options};
use onetool_state::runs::RunStore;
use onetool_state::stats::StatsRecorder;
use onetool_worker::{WorkerSettings, WorkerSource};

use super::adapters::{BundleSecrets, SharedSettings, WorkerAccess};
use super::part::Part;
use super::{Traces, toolbox};
use crate::config::Resolved;
use crate::state::StateSettings;
use crate::telemetry::{Exporter, TelemetrySettings};

/// Everything that a reload may replace. A new part must be built and renewed below, or this does not compile.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) state: Part<StateSettings, State>,
    pub(super) runs: Part<StateSettings, RunStore>,
    pub(super) stats: Part<RecorderSettings, Arc<StatsRecorder>>,
    pub(super) workers: Part<WorkerSettings, Arc<WorkerSource>>,
    pub(super) servers: Part<ServersSettings, Servers>,
    pub(super) bundles: Part<BundleSettings, Bundles>,
    pub(super) telemetry: Part<Option<TelemetrySettings>, Option<Arc<Exporter>>>,
    pub(super) saved: Part<StateSettings, Arc<SavedCode>>,
    pub(super) tokens: Part<StateSettings, Arc<AccessTokens>>,
    pub(super) audit: Part<AuditParts, Arc<AuditLog>>,
    pub(super) quotas: Part<StateSettings, Arc<Quotas>>,
}

/// Where the audit log is written, if enabled.
#[derive(Clone, PartialEq)]
pub(super) struct AuditParts {
    is_on: bool,
    state: StateSettings,
    settings: AuditSettings,
}

/// Where statistics are written, if enabled.
#[derive(Clone, PartialEq)]
pub(super) struct RecorderSettings {
    is_on: bool,
    state: StateSettings,
    flush_interval: std::time::Duration,
}

/// The settings that bundles and their requests depend on.
#[derive(Clone, PartialEq)]
pub(super) struct BundleSettings {
    state: StateSettings,
    http: HttpSettings,
    sequences: SequenceSettings,
    limits: Limits,
    imports: ImportSettings,
    ready_made: ReadyMade,
    languages: Vec<String>,
    secrets: Secrets,
}

/// The settings that MCP servers depend on.
#[derive(Clone, PartialEq)]
pub(super) struct ServersSettings {
    servers: Vec<ServerSettings>,
    search_path: SearchPath,
    state: StateSettings,
}

/// MCP servers.
#[derive(Clone)]
pub(super) struct Servers {
    pub(super) source: Arc<ProxySource>,
    /// Start time.
    pub(super) since: Instant,
}

impl Parts {
    /// Builds every part.
    pub(super) fn build(settings: &SharedSettings, traces: Traces) -> anyhow::Result<Self> {
        let resolved = settings.get();
        let state = Part::build(StateSettings::new(&resolved), StateSettings::open)?;
        let shared = &state.value;
        Ok(Self {
            runs: Part::build(StateSettings::new(&resolved), |_| Ok(RunStore::new(shared, node())))?,
            stats: Part::build(recorder_settings(&resolved, traces), |keys| Ok(recorder(keys, shared)))?,
            workers: Part::build(resolved.workers.clone(), |keys| Ok(workers(keys, settings)))?,
            servers: Part::build(servers_settings(&resolved), |keys| Ok(servers(keys, shared)))?,
            bundles: Part::build(bundle_settings(&resolved), |keys| bundles(keys, &resolved, shared))?,
            telemetry: Part::build(resolved.telemetry.clone(), |keys| Ok(exporter(keys)))?,
            saved: Part::build(StateSettings::new(&resolved), |_| Ok(Arc::new(SavedCode::new(shared.documents()))))?,
            tokens: Part::build(StateSettings::new(&resolved), |keys| Ok(tokens(keys, shared)))?,
            audit: Part::build(audit_parts(&resolved, traces), |keys| Ok(audit(keys, shared)))?,
            quotas: Part::build(StateSettings::new(&resolved), |_| Ok(Arc::new(Quotas::new(shared))))?,
            state,
        })
    }

    /// The parts for new settings. Unchanged parts stay; a part that cannot be built keeps its old state, with a note.
    pub(super) fn renewed(
        &self,
        settings: &SharedSettings,
        resolved: &Arc<Resolved>,
        traces: Traces,
        notes: &mut Vec<HealthNote>,
    ) -> Self {
        let state = self.state.renewed(StateSettings::new(resolved), notes, StateSettings::open);
        let shared = &state.value;
        Self {
            runs: self.runs.renewed(StateSettings::new(resolved), notes, |_| Ok(RunStore::new(shared, node()))),
            stats: self.stats.renewed(recorder_settings(resolved, traces), notes, |keys| Ok(recorder(keys, shared))),
            workers: self.workers.renewed(resolved.workers.clone(), notes, |keys| Ok(workers(keys, settings))),
            servers: self.servers.renewed(servers_settings(resolved), notes, |keys| Ok(servers(keys, shared))),
            bundles: self.bundles.renewed(bundle_settings(resolved), notes, |keys| bundles(keys, resolved, shared)),
            telemetry: self.telemetry.renewed(resolved.telemetry.clone(), notes, |keys| Ok(exporter(keys))),
            saved: self
                .saved
                .renewed(StateSettings::new(resolved), notes, |_| Ok(Arc::new(SavedCode::new(shared.documents())))),
            tokens: self.tokens.renewed(StateSettings::new(resolved), notes, |keys| Ok(tokens(keys, shared))),
            audit: self.audit.renewed(audit_parts(resolved, traces), notes, |keys| Ok(audit(keys, shared))),
            quotas: self.quotas.renewed(StateSettings::new(resolved), notes, |_| Ok(Arc::new(Quotas::new(shared)))),
            state,
        }
    }

    /// Stops the parts that are not in `new`, after active work had time to finish.
    pub(super) fn retire(self, new: &Self) {
        let Self { state, runs, stats, workers, servers, bundles, telemetry, saved, tokens, audit, quotas } = self;
        if !Arc::ptr_eq(&stats.value, &new.stats.value)
            && let Err(error) = stats.value.flush()
        {
            tracing::warn!(%error, "statistics were not written");
        }
        if Arc::ptr_eq(&workers.value, &new.workers.value) {
            workers.value.refresh();
        } else {
            end(workers.value);
        }
        if !Arc::ptr_eq(&servers.value.source, &new.servers.value.source) {
            end(servers.value.source);
        }
        if !Arc::ptr_eq(&bundles.value.source, &new.bundles.value.source) {
            end(bundles.value.source);
        }
        // Sends its remaining data, and ends with its last user.
        drop(telemetry);
        drop(runs);
        drop(saved);
        drop(tokens);
        // Writes its remaining data, and ends with its last user.
        drop(audit);
        drop(quotas);
        drop(state);
    }
}

/// Shuts down a source that is no longer used for new work.
fn end(source: Arc<dyn ToolSource>) {
    const GRACE: std::time::Duration = std::time::Duration::from_mins(2);
    const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);
    tokio::spawn(async move {
        let deadline = tokio::time::Instant::now() + GRACE;
        while Arc::strong_count(&source) > 1 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        source.shutdown().await;
    });
}

/// The id of this process among all that share state.
fn node() -> &'static str {
    static NODE: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().simple().to_string());
    &NODE
}

fn recorder_settings(settings: &Resolved, traces: Traces) -> RecorderSettings {
    RecorderSettings {
        is_on: settings.stats.enabled && traces.are_kept(settings),
        state: StateSettings::new(settings),
        flush_interval: settings.stats.flush_interval,
    }
}

fn recorder(settings: &RecorderSettings, state: &State) -> Arc<StatsRecorder> {
    Arc::new(if settings.is_on {
        StatsRecorder::new(state.trail(), settings.flush_interval)
    } else {
        StatsRecorder::disabled()
    })
}

fn audit_parts(settings: &Resolved, traces: Traces) -> AuditParts {
    AuditParts {
        is_on: settings.audit.enabled && traces.are_kept(settings),
        state: StateSettings::new(settings),
        settings: settings.audit.settings,
    }
}

fn audit(parts: &AuditParts, state: &State) -> Arc<AuditLog> {
    Arc::new(if parts.is_on { AuditLog::new(state.trail(), parts.settings) } else { AuditLog::disabled() })
}

fn tokens(settings: &StateSettings, state: &State) -> Arc<AccessTokens> {
    let tokens = AccessTokens::new(state);
    Arc::new(match settings.token_memory() {
        Some(file) => tokens.remembering(file),
        None => tokens,
    })
}

fn workers(settings: &WorkerSettings, shared: &SharedSettings) -> Arc<WorkerSource> {
    Arc::new(WorkerSource::new(settings.clone(), Arc::new(WorkerAccess(shared.clone()))))
}

fn servers_settings(settings: &Resolved) -> ServersSettings {
    ServersSettings {
        servers: settings.servers.clone(),
        search_path: settings.search_path.clone(),
        state: StateSettings::new(settings),
    }
}

fn servers(settings: &ServersSettings, state: &State) -> Servers {
    let source = ProxySource::new(ProxySettings {
        servers: settings.servers.clone(),
        search_path: settings.search_path.clone(),
        state: state.clone(),
        credentials: settings.state.open_credentials(state),
        offers: Offers::default(),
    });
    Servers { source: Arc::new(source), since: Instant::now() }
}

fn bundle_settings(settings: &Resolved) -> BundleSettings {
    BundleSettings {
        state: StateSettings::new(settings),
        http: settings.http.clone(),
        sequences: settings.sequences.clone(),
        limits: settings.bundle_limits.clone(),
        imports: settings.imports.clone(),
        ready_made: settings.ready_made.clone(),
        languages: settings.locale.iter().cloned().collect(),
        // Untrusted bundles could send them anywhere.
        secrets: if settings.bundles_are_trusted { settings.secrets.clone() } else { Secrets::default() },
    }
}

fn bundles(settings: &BundleSettings, resolved: &Resolved, state: &State) -> anyhow::Result<Bundles> {
    let secrets = Arc::new(BundleSecrets(settings.secrets.clone()));
    let engine = HttpEngine::new(settings.http.clone(), secrets).with_sequences(settings.sequences.clone());
    let engine = Arc::new(engine.sharing(state.clone()));
    let uncounted = Arc::new(StatsRecorder::disabled());
    let native = NativeSource::new(toolbox::native_packs(resolved, state, &uncounted, None)).packs();
    let mut built_in: Vec<BuiltInBundle> = native.iter().map(|pack| BuiltInBundle::native(pack)).collect();
    let has_secret = |name: &str| settings.secrets.get(name).is_some_and(|value| !value.is_empty());
    built_in.extend(built_in_bundles(&settings.ready_made, &has_secret));
    let native_functions =
        native.iter().flat_map(|pack| pack.tools.keys().map(|tool| format!("{}.{tool}", pack.name))).collect();
    let store = BundleStore::open(Options {
        state: state.clone(),
        limits: settings.limits.clone(),
        built_in,
        native_functions,
        check: engine.checker(),
        check_bundle: engine.bundle_checker(),
    })?;
    let source = Arc::new(BundleSource::in_languages(store.clone(), engine.clone(), settings.languages.clone()));
    Ok(Bundles { store, engine, source, imports: settings.imports.clone() })
}

fn exporter(settings: &Option<TelemetrySettings>) -> Option<Arc<Exporter>> {
    settings.clone().map(Exporter::start)
}
