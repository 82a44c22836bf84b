//! Arranges the parts for the runner.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use indexmap::IndexMap;
use onetool_bundles::GatedSource;
use onetool_packs::{PackServices, PackSettings, fixed_packs, replaceable_packs};
use onetool_run::{
    LearnedShapes, SavedSource, SwitchedSource, ToolboxParts, ToolboxState, ToolboxView, ot_pack, project_pack,
};
use onetool_sdk::{HealthNote, NativePack, NativeSource, ToolSource, to_python_identifier};
use onetool_state::State;
use onetool_state::results::ResultStore;
use onetool_state::stats::StatsRecorder;

use super::App;
use super::adapters::{Gallery, StoredResults};
use super::parts::Parts;
use super::watch::Watch;
use crate::audit::Auditor;
use crate::config::Resolved;
use crate::governing;
use crate::recorder::CallRecorder;

/// The parts of the toolbox. `pending` are additional notes for the health report.
pub(super) fn parts(
    settings: &Resolved,
    parts: &Parts,
    watch: &Watch,
    pending: &[HealthNote],
    app: Weak<App>,
) -> ToolboxParts {
    let switched = |source: Arc<dyn ToolSource>| Arc::new(SwitchedSource::new(source, watch.switches.clone()));
    let stats = &parts.stats.value;
    let native = Arc::new(NativeSource::new(native_packs(settings, &parts.state.value, stats, Some(app.clone()))));
    let saved = parts.saved.value.clone();
    let saved_source = SavedSource::new(saved.clone(), app);
    // In order of precedence.
    let sources: Vec<Arc<dyn ToolSource>> = vec![
        Arc::new(GatedSource::new(native, parts.bundles.value.store.clone())),
        switched(parts.workers.value.clone()),
        parts.bundles.value.source.clone(),
        switched(parts.servers.value.source.clone()),
        switched(replaceable(settings)),
        Arc::new(saved_source),
        Arc::new(Gallery),
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
            results: ResultStore::new(&parts.state.value, settings.output.retention()),
            stats: settings.stats.clone(),
            trail: settings.stats.enabled.then(|| parts.state.value.trail()),
            folder: settings.folder.clone(),
            storage: storage(settings),
            engine: onetool_sandbox::FAST_ENGINE.to_owned(),
            notes: settings.notes.iter().chain(pending).cloned().collect(),
            overrides: settings.overrides.clone(),
            docs: docs(settings),
            learned: Arc::new(if settings.stats.shapes && parts.state.value.is_shared() {
                LearnedShapes::shared(parts.state.value.documents())
            } else if settings.stats.shapes && settings.own.is_dir() {
                LearnedShapes::in_file(settings.stats.file.with_file_name("shapes.json"))
            } else {
                LearnedShapes::disabled()
            }),
            permissions: settings.permissions.clone().with_approvals(watch.approvals.clone()),
            groups: settings.groups.clone(),
            quotas: parts.quotas.value.clone(),
            saved,
            search: Arc::default(),
        },
        projects: settings.projects.clone(),
        gate: settings.run.gate.clone(),
        recorder: Arc::new(CallRecorder::new(
            stats.clone(),
            parts.telemetry.value.clone(),
            watch.activity.clone(),
            watch.measures.clone(),
            Auditor { log: parts.audit.value.clone(), arguments: settings.audit.arguments },
        )),
    }
}

/// Native packs that a user's pack of the same name replaces.
pub(super) fn replaceable(settings: &Resolved) -> Arc<dyn ToolSource> {
    Arc::new(NativeSource::new(replaceable_packs(&settings.packs)))
}

/// The native packs. `ot` reports on its app; without one, only the names of its functions are available.
pub(super) fn native_packs(
    settings: &Resolved,
    state: &State,
    stats: &Arc<StatsRecorder>,
    app: Option<Weak<App>>,
) -> Vec<NativePack> {
    let results = StoredResults(ResultStore::new(state, settings.output.retention()));
    let view: Weak<dyn ToolboxView> = app.unwrap_or_else(Weak::new);
    let file = settings.packs.file.clone().with_guard(governing::guard(settings));
    let services = PackServices { results: Arc::new(results), documents: state.documents() };
    let mut packs = vec![ot_pack(view, stats.clone())];
    packs.extend(fixed_packs(&PackSettings { file, ..settings.packs.clone() }, services));
    packs.push(project_pack(&settings.projects));
    packs
}

/// Documentation addresses by pack, from `servers.<name>.docs` and `tools.<pack>.docs`.
fn docs(settings: &Resolved) -> IndexMap<String, Option<String>> {
    let of_servers =
        settings.servers.iter().filter_map(|server| Some((to_python_identifier(&server.name), server.docs.clone()?)));
    of_servers.chain(settings.pack_docs.clone()).collect()
}

/// Folders that are written to; the one that contains the others by default comes first.
fn storage(settings: &Resolved) -> Vec<PathBuf> {
    let mut folders =
        vec![settings.state_home.clone(), settings.log_dir.clone(), settings.output.result_store_dir.clone()];
    if settings.stats.enabled {
        folders.extend(settings.stats.file.parent().map(Path::to_owned));
    }
    folders.push(settings.bundles_dir.clone());
    folders
}
