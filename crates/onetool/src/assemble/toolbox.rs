//! Arranges the parts for the runner.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use onetool_bundles::GatedSource;
use onetool_packs::{file, standard};
use onetool_run::{ToolboxParts, ToolboxState, ToolboxView, ot_pack, project_pack};
use onetool_sdk::{HealthNote, NativePack, NativeSource, ToolSource};
use onetool_state::stats::StatsRecorder;

use super::App;
use super::adapters::StoredResults;
use super::parts::Parts;
use crate::config::Resolved;
use crate::governing;
use crate::recorder::CallRecorder;

/// What the runner works with. `pending` are further notes for the health report.
pub(super) fn parts(settings: &Resolved, parts: &Parts, pending: &[HealthNote], app: Weak<App>) -> ToolboxParts {
    let stats = &parts.stats.value;
    let native = Arc::new(NativeSource::new(native_packs(settings, stats, Some(app))));
    // In order of precedence.
    let sources: Vec<Arc<dyn ToolSource>> = vec![
        Arc::new(GatedSource::new(native, parts.bundles.value.store.clone())),
        parts.workers.value.clone(),
        parts.bundles.value.source.clone(),
        parts.servers.value.source.clone(),
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
            notes: settings.notes.iter().chain(pending).cloned().collect(),
            search: Arc::default(),
        },
        projects: settings.projects.clone(),
        permissions: settings.permissions.clone(),
        gate: settings.run.gate.clone(),
        recorder: Arc::new(CallRecorder::new(stats.clone(), parts.telemetry.value.clone())),
    }
}

/// The native packs. `ot` reports on the app that it is part of; without one, only the names of its functions count.
pub(super) fn native_packs(settings: &Resolved, stats: &Arc<StatsRecorder>, app: Option<Weak<App>>) -> Vec<NativePack> {
    let view: Weak<dyn ToolboxView> = app.unwrap_or_else(Weak::new);
    vec![
        ot_pack(view, stats.clone()),
        file::pack(settings.file_pack.clone().with_guard(governing::guard(settings))),
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
