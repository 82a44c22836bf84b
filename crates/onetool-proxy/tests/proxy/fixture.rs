//! Helpers for the tests.

#![expect(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_proxy::{Offers, ProxySettings, ProxySource, ServerSettings, ServerState, ServerStatus};
use onetool_sdk::{Arguments, CallContext, Caller, Pack, ToolCall, ToolError, ToolSource, Value};
use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
use onetool_state::interface::Collection;
use serde_json::Value as Json;

/// How long a condition may take to become true.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn server_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/server.py")
}

/// The first `python3` in `PATH`.
pub(crate) fn python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file()).unwrap()
}

/// A stdio server with these arguments.
pub(crate) fn server(name: &str, arguments: &[&str]) -> ServerSettings {
    let file = server_file().to_string_lossy().into_owned();
    let all = std::iter::once(file.as_str()).chain(arguments.iter().copied());
    ServerSettings::stdio(name, "python3", all.map(str::to_owned))
}

/// Folders that outlive a source, so that another can find its state.
pub(crate) struct House {
    folder: tempfile::TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn pin_file(&self) -> PathBuf {
        self.folder.path().join("pins.json")
    }

    /// Where sign-ins are kept.
    pub(crate) fn credentials(&self) -> onetool_state::State {
        let folder = self.folder.path().join("credentials");
        let places =
            FlatPlaces::new(&folder).with_documents(onetool_proxy::CREDENTIALS, DocumentFolder::new(folder.clone()));
        Arc::new(FlatFiles::new(places))
    }

    pub(crate) fn source(&self, servers: Vec<ServerSettings>) -> ProxySource {
        let places = FlatPlaces::new(self.folder.path())
            .with_documents(Collection::LISTINGS, DocumentFolder::new(self.folder.path().join("cache")))
            .with_documents(Collection::PINS, DocumentFolder::single(&self.pin_file()));
        let state = Arc::new(FlatFiles::new(places));
        ProxySource::new(ProxySettings {
            search_path: onetool_process::SearchPath::default(),
            servers,
            credentials: self.credentials(),
            state,
            offers: Offers::default(),
        })
    }
}

/// One server named `fixture`, connected.
pub(crate) async fn connected(house: &House, arguments: &[&str]) -> ProxySource {
    let source = house.source(vec![server("fixture", arguments)]);
    let _ = source.settle("fixture", &context()).await;
    assert_eq!(status(&source, "fixture").state, ServerState::Connected, "{:?}", source.status());
    source
}

pub(crate) fn context() -> CallContext {
    CallContext::new(Caller::Rust)
}

pub(crate) fn pack(source: &ProxySource, name: &str) -> Arc<Pack> {
    source.packs().into_iter().find(|pack| pack.name == name).unwrap()
}

pub(crate) fn status(source: &ProxySource, name: &str) -> ServerStatus {
    source.status().into_iter().find(|status| status.name == name).unwrap()
}

/// Calls `pack.function` with JSON arguments, as the call path would.
pub(crate) async fn call_in(
    source: &ProxySource,
    name: &str,
    arguments: Json,
    ctx: &CallContext,
) -> Result<Value, ToolError> {
    let (pack_name, function) = name.split_once('.').unwrap();
    let pack = pack(source, pack_name);
    let tool =
        pack.tools.get(function).unwrap_or_else(|| panic!("{name} is not listed: {:?}", pack.tools.keys())).clone();
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolCall { pack, tool, version: None, arguments: Arguments::from_json(arguments) };
    source.call(call, ctx).await
}

pub(crate) async fn call(source: &ProxySource, name: &str, arguments: Json) -> Result<Value, ToolError> {
    call_in(source, name, arguments, &context()).await
}

/// Calls a tool that returns text. Text that is JSON arrives as its value, and is converted back here.
pub(crate) async fn text(source: &ProxySource, name: &str, arguments: Json) -> String {
    match call(source, name, arguments).await.unwrap() {
        Value::Str(text) => text,
        value => value.to_json().to_string(),
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "still not so after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn is_alive(process: u64) -> bool {
    // While a process is being killed, one thread may still read from a pipe after another has ended.
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // A zombie that was not reaped yet is not alive.
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

pub(crate) fn signal(process: u64, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// An HTTP server in a separate process, killed on drop.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) port: u16,
}

impl HttpServer {
    pub(crate) fn start(flag: &str) -> Self {
        Self::start_on(&[flag], 0)
    }

    /// On a port that was free a moment ago.
    pub(crate) fn start_on(flags: &[&str], port: u16) -> Self {
        Self::start_file(&server_file(), flags, port)
    }

    pub(crate) fn start_file(file: &std::path::Path, flags: &[&str], port: u16) -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut child = Command::new("python3")
            .arg(file)
            .args(flags)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop();
    }
}
