//! Puts the parts together: configuration, sources, toolbox, sandbox, runner. Every command and every server begins here.

use std::path::PathBuf;
use std::sync::Arc;

use onetool_run::{Runner, Toolbox, ToolboxParts, ToolboxState, project_pack};
use onetool_sandbox::Sandbox;
use onetool_sandbox::monty::MontySettings;
use onetool_sdk::ToolSource;
use onetool_sources::native::file::FileSettings;
use onetool_sources::native::{NativeSource, file};

use crate::config::{self, ConfigPlaces, Resolved};
use crate::recorder::CallLog;

/// Everything, ready to run.
pub struct App {
    pub runner: Runner,
    pub settings: Arc<Resolved>,
}

impl App {
    /// Reads the configuration and builds everything. Mistakes in the configuration become notes, not failures.
    pub fn start(explicit: Option<PathBuf>) -> anyhow::Result<Self> {
        let places = ConfigPlaces::from_environment(explicit)?;
        let settings = Arc::new(config::resolve(&places, config::load(&places)));
        crate::log::start(&settings.log_dir, &settings.log_level);
        let sandbox = Arc::new(Sandbox::new(monty_settings(&settings)?));
        let toolbox = Toolbox::new(parts(&settings));
        let runner = Runner::new(toolbox, sandbox, settings.run.clone());
        Ok(Self { runner, settings })
    }

    /// Ends every child.
    pub async fn shutdown(&self) {
        self.runner.toolbox().shutdown().await;
        self.runner.sandbox().shutdown().await;
    }
}

fn monty_settings(settings: &Resolved) -> anyhow::Result<MontySettings> {
    Ok(MontySettings {
        executable: std::env::current_exe()?,
        prewarmed: settings.prewarm,
        max_children: settings.max_parallel,
        max_waiting: settings.max_waiting,
        wait: settings.max_wait,
    })
}

fn parts(settings: &Resolved) -> ToolboxParts {
    let native = NativeSource::new(vec![
        file::pack(file_settings(settings)),
        project_pack(&settings.projects),
    ]);
    let sources: Vec<Arc<dyn ToolSource>> = vec![Arc::new(native)];
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
            engine: "3.14 (monty)".to_owned(),
            notes: settings.notes.clone(),
        },
        projects: settings.projects.clone(),
        permissions: settings.permissions.clone(),
        recorder: Arc::new(CallLog),
    }
}

fn file_settings(settings: &Resolved) -> FileSettings {
    let mut files = FileSettings::for_project(&settings.folder);
    files.roots.clone_from(&settings.file_roots);
    files
}
