//! Tool files as a [`ToolSource`].

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use onetool_sdk::{
    CallContext, HealthNote, NoteFacts, Origin, Pack, QualifiedName, Severity, ToolCall, ToolError, ToolSource, Value,
};

use super::environment::UV_HINT;
use super::pool::{Pool, PoolCall};
use super::registry::Registry;
use super::settings::{WorkerServices, WorkerSettings};
use super::tool_file::ToolFile;

/// The packs of all tool files, and their workers.
pub struct WorkerSource {
    registry: Arc<Registry>,
    pool: Arc<Pool>,
}

impl WorkerSource {
    /// Starts reading all tool files, and returns at once. Starts no worker.
    pub fn new(settings: WorkerSettings, services: Arc<dyn WorkerServices>) -> Self {
        // Workers and `uv` run in other folders than this process.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let settings = Arc::new(WorkerSettings {
            project_tools: settings.project_tools.map(absolute),
            global_tools: settings.global_tools.map(absolute),
            folder: absolute(settings.folder),
            ..settings
        });
        Self { registry: Registry::new(settings.clone()), pool: Pool::new(settings, services) }
    }

    /// Checks for changed files now.
    pub fn refresh(&self) {
        self.registry.refresh();
    }

    /// Returns the packs whose workers are running.
    pub fn running(&self) -> Vec<String> {
        self.pool.running()
    }

    /// Lets a pack's worker end once its calls are done; the next call starts a new one.
    pub fn restart(&self, pack: &str) {
        self.pool.restart(pack);
    }

    /// Returns the last output of a pack's worker on standard error.
    pub fn last_words(&self, pack: &str) -> String {
        self.pool.last_words(pack)
    }

    /// Returns the number of running workers.
    pub fn live_workers(&self) -> usize {
        self.pool.live()
    }
}

#[async_trait]
impl ToolSource for WorkerSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        self.registry.packs()
    }

    fn generation(&self) -> u64 {
        self.registry.generation()
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = call.name();
        let Some(file) = self.registry.current(&name.pack) else {
            let problem = match &call.pack.origin {
                Origin::Worker { file } => self.registry.problem_of(file),
                _ => None,
            };
            let message = problem.unwrap_or_else(|| format!("the file of pack '{}' is gone", name.pack));
            return Err(ToolError::unavailable(message));
        };
        if !file.pack.tools.contains_key(&name.function) {
            let known: Vec<&str> = file.pack.tools.keys().map(String::as_str).collect();
            return Err(ToolError::not_found(format!(
                "pack '{}' has no function '{}' any more",
                name.pack, name.function
            ))
            .with_hint(format!("it has {}", known.join(", "))));
        }
        let call = PoolCall { file, function: &name.function, arguments: &call.arguments };
        self.pool.call(call, ctx).await
    }

    fn absence(&self, pack: &str) -> Option<String> {
        self.registry.absence(pack)
    }

    fn secrets(&self, name: &QualifiedName) -> Vec<String> {
        let file = self.registry.current(&name.pack);
        file.and_then(|file| Some(file.metadata.as_ref()?.secrets.clone())).unwrap_or_default()
    }

    fn health(&self) -> Vec<HealthNote> {
        let mut notes = self.registry.notes();
        let is_still = |served: &ToolFile, broken: &blake3::Hash| {
            self.registry.current(&served.pack.name).is_some_and(|now| now.hash == *broken)
        };
        notes.extend(self.pool.kept(is_still).into_iter().map(|(file, reason)| HealthNote {
            severity: Severity::Error,
            subject: file.display().to_string(),
            message: format!("{reason}; the last good version is used"),
            facts: NoteFacts::default(),
        }));
        let needy = self.registry.packs_with_dependencies();
        if !needy.is_empty() && !self.pool.has_uv() {
            notes.push(HealthNote {
                severity: Severity::Warning,
                subject: "uv".to_owned(),
                message: format!("is not in PATH, so these packs can't be called: {}; {UV_HINT}", needy.join(", ")),
                facts: NoteFacts::default(),
            });
        }
        notes
    }

    async fn shutdown(&self) {
        self.pool.shutdown().await;
    }
}

impl Drop for WorkerSource {
    fn drop(&mut self) {
        self.pool.kill_all();
    }
}
