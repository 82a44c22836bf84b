//! A folder of tool files and the source that serves them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use onetool_sdk::{
    Arguments, CallContext, Caller, Progress, ProgressSink, QualifiedName, ToolCall, ToolCaller, ToolError, ToolSource,
    Value,
};
use onetool_worker::{NoServices, WorkerServices, WorkerSettings, WorkerSource};
use parking_lot::Mutex;

/// Maximum time to wait for a condition.
const PATIENCE: Duration = Duration::from_mins(1);

/// Records the progress that a call reports.
#[derive(Default)]
pub(crate) struct Reports(pub(crate) Mutex<Vec<Progress>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Progress) {
        self.0.lock().push(progress);
    }
}

pub(crate) struct Toolbox {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) source: Arc<WorkerSource>,
}

impl Toolbox {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, WorkerSettings::default(), Arc::new(NoServices))
    }

    pub(crate) fn with(files: &[(&str, &str)], settings: WorkerSettings, services: Arc<dyn WorkerServices>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (pack, source) in files {
            write(&tool_path(folder.path(), pack), source);
        }
        let settings = WorkerSettings {
            project_tools: Some(folder.path().join("tools")),
            folder: folder.path().to_owned(),
            ..settings
        };
        Self { source: Arc::new(WorkerSource::new(settings, services)), folder }
    }

    pub(crate) fn put(&self, pack: &str, source: &str) {
        write(&tool_path(self.folder.path(), pack), source);
    }

    pub(crate) fn context(&self) -> CallContext {
        CallContext { tools: Some(Arc::new(Loop(self.source.clone()))), ..CallContext::new(Caller::Run) }
    }

    pub(crate) async fn call(&self, name: &str, arguments: &[(&str, Value)]) -> Result<Value, ToolError> {
        self.call_in(name, arguments, &self.context()).await
    }

    pub(crate) async fn call_in(
        &self,
        name: &str,
        arguments: &[(&str, Value)],
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        let arguments = Arguments::named(arguments.iter().map(|(name, value)| (*name, value.clone())));
        call(&self.source, &name.parse()?, arguments, ctx).await
    }

    /// Calls a function without arguments that returns an integer.
    pub(crate) async fn int(&self, name: &str) -> i64 {
        match self.call(name, &[]).await {
            Ok(Value::Int(value)) => value,
            other => panic!("{name}: {other:?}"),
        }
    }

    pub(crate) async fn text(&self, name: &str) -> String {
        match self.call(name, &[]).await {
            Ok(Value::Str(value)) => value,
            other => panic!("{name}: {other:?}"),
        }
    }
}

async fn call(
    source: &WorkerSource,
    name: &QualifiedName,
    arguments: Arguments,
    ctx: &CallContext,
) -> Result<Value, ToolError> {
    let _ = source.generation();
    let pack = source
        .packs()
        .into_iter()
        .find(|pack| pack.name == name.pack)
        .ok_or_else(|| ToolError::not_found(format!("no pack {}: {:?}", name.pack, source.health())))?;
    let tool = pack.tools.get(&name.function).cloned().ok_or_else(|| ToolError::not_found(format!("no {name}")))?;
    source.call(ToolCall { pack, tool, version: None, arguments }, ctx).await
}

/// Routes calls between tools back to the same source.
struct Loop(Arc<WorkerSource>);

#[async_trait]
impl ToolCaller for Loop {
    async fn call_tool(
        &self,
        name: &QualifiedName,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        call(&self.0, name, arguments, ctx).await
    }
}

pub(crate) fn tool_path(folder: &Path, pack: &str) -> PathBuf {
    folder.join("tools").join(pack).join(format!("{pack}_tools.py"))
}

pub(crate) fn write(path: &Path, source: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, source).unwrap();
}

pub(crate) fn dict(pairs: &[(&str, Value)]) -> Value {
    Value::Dict(pairs.iter().map(|(name, value)| (Value::from(*name), value.clone())).collect())
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process exists and is not merely waiting to be reaped.
pub(crate) fn is_alive(pid: i64) -> bool {
    // When a process is killed, one thread may still read from a pipe after another has ended.
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}
