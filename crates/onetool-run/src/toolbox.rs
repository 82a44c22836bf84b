//! The one call path: resolve → match parameters → validate → permit → execute → record.
//!
//! Every caller (a run, REST, the command line, a tool that calls a tool) and every kind of tool goes through
//! [`Shared::call`].

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use indexmap::IndexMap;
use onetool_sdk::{
    Arguments, CallContext, Effect, ErrorKind, Origin, Pack, QualifiedName, Recall, Requester, ToolCall, ToolCaller,
    ToolError, ToolSource, ToolSpec, TraceContext, VERSION_ARGUMENT, Value,
};
use parking_lot::{Mutex, RwLock};

use crate::activity::{ActivityKind, Beginning, UnderWay, shown_arguments};
use crate::catalog::{Catalog, CatalogPack};
use crate::gate::{Gate, Verdict};
use crate::groups::Access;
use crate::logged_call::LoggedCall;
use crate::nearest::{listed, nearest};
use crate::permission::Permission;
use crate::runner::RunReply;
use crate::settings::ToolboxState;
use crate::steps::{Steps, Stopwatch, Unsent};
use crate::tool_loader::ToolLoader;
use crate::work::Work;
use crate::{parameters, validate};

/// Maximum depth of tools that call tools.
const MAX_DEPTH: u32 = 16;

/// The folder that `proj.<name>` refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub path: PathBuf,
    pub attributes: IndexMap<String, serde_json::Value>,
}

/// The outcome of a call, for statistics and logs.
#[derive(Debug, Clone)]
pub struct CallOutcome<'a> {
    pub name: &'a QualifiedName,
    pub duration: Duration,
    pub chars_in: usize,
    pub chars_out: usize,
    /// The exception type of a failed call.
    pub error: Option<&'a str>,
    pub failure: Option<&'a ToolError>,
    /// The arguments for display, if [`Recorder::wants_arguments`].
    pub arguments: Option<&'a str>,
    /// A hash of the arguments, if [`Recorder::wants_hashes`].
    pub arguments_hash: Option<&'a str>,
    /// The decision, if a person was asked for approval.
    pub approval: Option<Approval>,
    pub ctx: &'a CallContext,
}

/// A person's answer to a call that needed approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    Granted,
    Refused,
}

impl Approval {
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
        }
    }
}

/// Collected about a call while it is processed.
#[derive(Default)]
struct Noted {
    arguments_hash: Option<String>,
    approval: Option<Approval>,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome<'a> {
    pub command: &'a str,
    pub duration: Duration,
    pub steps: Steps,
    /// What its calls kept out of the model's context.
    pub unsent: Unsent,
    pub chars_out: usize,
    pub is_error: bool,
    /// The reply to the client.
    pub text: &'a str,
    pub ctx: &'a CallContext,
}

/// Receives every call and every run. Must not block.
pub trait Recorder: Send + Sync {
    fn call(&self, outcome: &CallOutcome<'_>);
    fn run(&self, outcome: &RunOutcome<'_>);

    /// Receives a call or run before it starts, if it is shown while in progress.
    fn begin(&self, _: &Beginning<'_>) -> Option<UnderWay> {
        None
    }

    /// Whether runs and calls are traced; if so, the trace is passed on to what they call.
    fn sends_traces(&self) -> bool {
        false
    }

    /// Whether arguments are recorded; formatting them has a small cost.
    fn wants_arguments(&self) -> bool {
        false
    }

    /// Whether arguments are hashed.
    fn wants_hashes(&self) -> bool {
        false
    }
}

/// What a toolbox is made of.
pub struct ToolboxParts {
    /// In order of precedence.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Everything but the catalog, which follows the sources.
    pub state: ToolboxState,
    pub projects: IndexMap<String, Project>,
    /// Calls that the configuration blocks by name.
    pub gate: Gate,
    pub recorder: Arc<dyn Recorder>,
}

/// The toolbox at one moment. Runs keep the one they began with.
pub struct Shared {
    pub state: Arc<ToolboxState>,
    pub projects: IndexMap<String, Project>,
    loader: Arc<ToolLoader>,
    gate: Gate,
    recorder: Arc<dyn Recorder>,
    /// The access that restricts this toolbox, if it is restricted.
    access: Option<Arc<Access>>,
}

/// All tools behind one interface. Cheap to clone; clones share.
#[derive(Clone)]
pub struct Toolbox {
    current: Arc<RwLock<Arc<Shared>>>,
    work: Work,
    /// Cached restricted toolboxes, valid for the current one.
    narrowed: Arc<Mutex<Narrowed>>,
}

/// Restricted toolboxes, by access.
#[derive(Default)]
struct Narrowed {
    whole: Option<Arc<Shared>>,
    known: Vec<(Arc<Access>, Arc<Shared>)>,
}

/// Maximum number of cached restricted toolboxes.
const MAX_NARROWED: usize = 64;

impl Toolbox {
    pub fn new(parts: ToolboxParts) -> Self {
        let current = Arc::new(RwLock::new(Arc::new(Shared::new(parts))));
        Self { current, work: Work::default(), narrowed: Arc::default() }
    }

    /// The work in progress.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Waits for a call, or cancels it when the server stops.
    async fn until_over(
        &self,
        name: &QualifiedName,
        call: impl Future<Output = Result<Value, ToolError>>,
    ) -> Result<Value, ToolError> {
        tokio::select! {
            biased;
            result = call => result,
            () = self.work.over() => Err(ToolError::new(
                ErrorKind::Cancelled,
                format!("{name} was cancelled: the server is stopping"),
            )
            .with_hint("call it again in a moment; whether this call had an effect is not known")),
        }
    }

    /// Replaces everything. Runs and calls in progress keep what they have.
    pub fn replace(&self, parts: ToolboxParts) {
        let new = Arc::new(Shared::new(parts));
        *self.current.write() = new;
    }

    /// Returns the current toolbox, with what the sources offer now.
    pub fn now(&self) -> Arc<Shared> {
        let shared = self.current.read().clone();
        let catalog = shared.loader.catalog();
        if Arc::ptr_eq(&catalog, &shared.state.catalog) {
            return shared;
        }
        let snippets = crate::saved::with_saved(&shared.state.snippets, &catalog);
        let state = ToolboxState { catalog, snippets, ..(*shared.state).clone() };
        let fresh = Arc::new(Shared {
            state: Arc::new(state),
            projects: shared.projects.clone(),
            loader: shared.loader.clone(),
            gate: shared.gate.clone(),
            recorder: shared.recorder.clone(),
            access: None,
        });
        let mut current = self.current.write();
        // The whole toolbox may have been replaced meanwhile: that one is newer.
        if Arc::ptr_eq(&current, &shared) {
            *current = fresh.clone();
        }
        fresh
    }

    /// Returns the toolbox as a requester sees it: without what their groups hide.
    pub fn now_for(&self, requester: &Requester) -> Arc<Shared> {
        let whole = self.now();
        let Some(access) = whole.state.groups.access(requester).filter(|access| access.hides()) else { return whole };
        let mut narrowed = self.narrowed.lock();
        if !narrowed.whole.as_ref().is_some_and(|known| Arc::ptr_eq(known, &whole)) {
            *narrowed = Narrowed { whole: Some(whole.clone()), known: Vec::new() };
        }
        if let Some((_, known)) = narrowed.known.iter().find(|(known, _)| Arc::ptr_eq(known, &access)) {
            return known.clone();
        }
        let shared = Arc::new(whole.without(&access));
        if narrowed.known.len() >= MAX_NARROWED {
            narrowed.known.clear();
        }
        narrowed.known.push((access, shared.clone()));
        shared
    }

    /// Loads all tools and builds the search index, so that the first search does not wait. Slow.
    pub fn warm_up(&self) {
        let state = &self.now().state;
        state.search.prepare(state);
    }

    /// The sources, for health and shutdown.
    pub fn sources(&self) -> Vec<Arc<dyn ToolSource>> {
        self.current.read().loader.sources().to_vec()
    }

    pub async fn shutdown(&self) {
        for source in self.sources() {
            source.shutdown().await;
        }
    }
}

#[async_trait]
impl ToolCaller for Toolbox {
    async fn call_tool(
        &self,
        name: &QualifiedName,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        let shared = self.now_for(&ctx.requester);
        self.until_over(name, shared.call(name, arguments, ctx)).await
    }

    async fn call_version(
        &self,
        name: &QualifiedName,
        version: &str,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        let shared = self.now_for(&ctx.requester);
        self.until_over(name, shared.call_version(name, Some(version.to_owned()), arguments, ctx)).await
    }
}

/// The first secret that a tool uses and that the requester may not use.
fn beyond(access: &Access, entry: &CatalogPack, name: &QualifiedName) -> Option<String> {
    if !access.limits_secrets() {
        return None;
    }
    entry.source.secrets(name).into_iter().find(|secret| !access.may_use_secret(secret))
}

impl Shared {
    fn new(parts: ToolboxParts) -> Self {
        Self {
            loader: Arc::new(ToolLoader::new(parts.sources, parts.state.overrides.clone())),
            state: Arc::new(parts.state),
            projects: parts.projects,
            gate: parts.gate,
            recorder: parts.recorder,
            access: None,
        }
    }

    /// Returns a copy without what `access` hides.
    fn without(&self, access: &Arc<Access>) -> Self {
        let whole = &self.state.catalog;
        // A pack whose tools are not known yet is judged by the secrets that all of them would use.
        let sees_pack = |pack: &str| {
            let entry = whole.pack(pack).filter(|entry| entry.pack.tools.is_empty());
            access.sees_pack(pack)
                && entry.and_then(|entry| beyond(access, entry, &QualifiedName::new(pack, ""))).is_none()
        };
        let sees = |name: &QualifiedName| {
            access.sees(name) && whole.pack(&name.pack).and_then(|entry| beyond(access, entry, name)).is_none()
        };
        let catalog = whole.visible(sees_pack, sees);
        let is_there = |target: &str| match target.parse::<QualifiedName>() {
            Ok(name) => sees(&name),
            Err(_) => access.sees_pack(target) && (catalog.pack(target).is_some() || whole.pack(target).is_none()),
        };
        let mut state = (*self.state).clone();
        state.aliases.retain(|_, target| is_there(target) || self.state.aliases.contains_key(target.as_str()));
        state.instructions.retain(|pack, _| is_there(pack));
        state.catalog = Arc::new(catalog);
        state.search = Arc::default();
        Self {
            state: Arc::new(state),
            projects: self.projects.clone(),
            loader: self.loader.clone(),
            gate: self.gate.clone(),
            recorder: self.recorder.clone(),
            access: Some(access.clone()),
        }
    }

    /// Resolves an alias to its final target; `None` if the name is not an alias. A pack's own name is never one.
    pub(crate) fn resolve_alias(&self, name: &str) -> Result<Option<String>, ToolError> {
        let aliases = &self.state.aliases;
        let Some(mut target) = aliases.get(name) else { return Ok(None) };
        for _ in 0..=aliases.len() {
            match aliases.get(target) {
                Some(next) => target = next,
                None => return Ok(Some(target.clone())),
            }
        }
        Err(ToolError::raised("NameError", format!("alias '{name}' leads back to itself"))
            .with_hint("fix the alias section of the configuration"))
    }

    /// The permission for a tool by the policy.
    pub fn permission(&self, name: &QualifiedName) -> Permission {
        let by_group = self.access.as_ref().map_or(Permission::Allow, |access| access.permission(name));
        self.state.permissions.of(name).max(by_group)
    }

    /// Whether any call may need approval.
    pub(crate) fn may_ask(&self) -> bool {
        self.state.permissions.may_ask() || self.access.as_ref().is_some_and(|access| access.may_ask())
    }

    /// Whether anything is hidden.
    pub fn is_narrowed(&self) -> bool {
        self.access.is_some()
    }

    /// Whether this toolbox shows a pack.
    pub fn sees_pack(&self, pack: &str) -> bool {
        self.access.as_ref().is_none_or(|access| {
            // A pack that exists for others, but not here, is hidden.
            let is_gone = || self.state.catalog.pack(pack).is_none() && self.loader.catalog().pack(pack).is_some();
            access.sees_pack(pack) && !is_gone()
        })
    }

    /// Whether this toolbox shows a tool.
    pub fn sees(&self, name: &QualifiedName) -> bool {
        self.access.as_ref().is_none_or(|access| access.sees(name) && self.secret_beyond(access, name).is_none())
    }

    /// Whether tools may use a secret on behalf of this toolbox's requester.
    pub fn may_use_secret(&self, name: &str) -> bool {
        self.access.as_ref().is_none_or(|access| access.may_use_secret(name))
    }

    /// The first secret that a tool uses and that the requester may not use.
    fn secret_beyond(&self, access: &Access, name: &QualifiedName) -> Option<String> {
        let whole = access.limits_secrets().then(|| self.loader.catalog())?;
        beyond(access, whole.pack(&name.pack)?, name)
    }

    /// Executes a call to any kind of tool, from any caller.
    pub async fn call(
        &self,
        name: &QualifiedName,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        self.call_version(name, None, arguments, ctx).await
    }

    async fn call_version(
        &self,
        name: &QualifiedName,
        version: Option<String>,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        let started = Instant::now();
        let chars_in = size(&arguments);
        let shown = self.recorder.wants_arguments().then(|| shown_arguments(&arguments));
        let mut ctx = ctx.within();
        self.trace(&mut ctx);
        // A watcher may cancel this call alone.
        ctx.cancel = ctx.cancel.child_token();
        let ctx = &ctx;
        let shown_name = name.to_string();
        let _under_way = self.recorder.begin(&Beginning {
            kind: ActivityKind::Call,
            name: &shown_name,
            detail: shown.as_deref().unwrap_or_default(),
            chars_in,
            ctx,
        });
        let mut noted = Noted::default();
        let result = self.call_unrecorded(name, version, arguments, ctx, &mut noted).await;
        let outcome = CallOutcome {
            name,
            duration: started.elapsed(),
            chars_in,
            chars_out: result.as_ref().map_or(0, value_size),
            error: result.as_ref().err().map(ToolError::exception),
            failure: result.as_ref().err(),
            arguments: shown.as_deref(),
            arguments_hash: noted.arguments_hash.as_deref(),
            approval: noted.approval,
            ctx,
        };
        self.recorder.call(&outcome);
        match &result {
            Ok(_) => self.state.search.used(name),
            Err(ToolError { traceback: Some(traceback), .. }) => {
                tracing::warn!(span = %name, run = %ctx.run_id, traceback, "the tool raised an exception");
            }
            Err(_) => {}
        }
        result
    }

    /// Begins a trace, if one is wanted and there is none.
    pub(crate) fn trace(&self, ctx: &mut CallContext) {
        if ctx.trace.is_none() && self.recorder.sends_traces() {
            ctx.trace = TraceContext::of_run(&ctx.run_id).map(Arc::new);
        }
    }

    async fn call_unrecorded(
        &self,
        name: &QualifiedName,
        version: Option<String>,
        mut arguments: Arguments,
        ctx: &CallContext,
        noted: &mut Noted,
    ) -> Result<Value, ToolError> {
        if ctx.depth > MAX_DEPTH {
            return Err(ToolError::denied(format!("{name}: tools call each other more than {MAX_DEPTH} deep")));
        }
        let access = self.state.groups.access(&ctx.requester);
        if let Some(access) = access.as_ref().filter(|access| !access.sees(name)) {
            return Err(access.refusal(&name.to_string(), &ctx.requester));
        }
        if let Some(access) = &access
            && let Some(secret) = self.secret_beyond(access, name)
        {
            return Err(access.refusal(&format!("the secret {secret}, which {name} uses,"), &ctx.requester));
        }
        let entry = self.state.catalog.pack(&name.pack).ok_or_else(|| self.unknown_pack(&name.pack))?;
        let (pack, tool) = match entry.pack.tools.get(&name.function) {
            Some(tool) => (entry.pack.clone(), tool.clone()),
            None => self.settled(entry, name, ctx).await?,
        };
        let shown_name = name.to_string();
        let version = match version {
            None if matches!(pack.origin, Origin::Bundle { .. }) => named_version(&shown_name, &mut arguments)?,
            version => version,
        };
        let arguments = parameters::bind(&shown_name, &tool, arguments)?;
        if self.recorder.wants_hashes() {
            noted.arguments_hash = arguments_hash(&arguments);
        }
        validate::check(&shown_name, &tool, &arguments)?;
        if self.gate.verdict(&shown_name) == Verdict::Block {
            return Err(crate::gate::blocked(&shown_name));
        }
        let by_group = access.as_ref().map_or(Permission::Allow, |access| access.permission(name));
        let journaled = match ctx.journal.as_ref().filter(|_| tool.effect != Effect::Transparent) {
            None => None,
            Some(journal) => match journal.recall(name, version.as_deref(), &arguments, tool.effect)? {
                // An earlier process made this call.
                Recall::Known(outcome) => return outcome,
                Recall::New(call) => Some((journal.clone(), Arc::new(call))),
            },
        };
        match self.state.permissions.of(name).max(by_group) {
            Permission::Allow => {}
            Permission::Ask => {
                let call = journaled.as_ref().map(|(_, call)| call.clone());
                let asking = CallContext { journaled: call, ..ctx.clone() };
                let answer = self.state.permissions.ask(name, &arguments, &asking).await;
                noted.approval = Some(if answer.is_ok() { Approval::Granted } else { Approval::Refused });
                answer?;
            }
            Permission::Deny => {
                return Err(ToolError::denied(format!("{name} is denied by policy"))
                    .with_hint("security.policy in the configuration decides which tools may be called"));
            }
        }
        // Calls to `ot` are not counted.
        if let Some(access) = access.filter(|_| name.pack != "ot") {
            self.state.quotas.take_call(ctx, access.quota).await?;
        }
        if let Some((journal, call)) = &journaled {
            journal.begin(name, call, shown_arguments(&arguments)).await?;
        }
        let call = ToolCall { pack, tool: tool.clone(), version, arguments };
        let result = match &journaled {
            None => execute(entry, name, call, ctx).await,
            Some((journal, made)) => {
                // Calls made by the tool are part of this call.
                let within = CallContext { journal: None, ..ctx.clone() };
                let result = execute(entry, name, call, &within).await;
                journal.end(name, made, &result).await?;
                result
            }
        };
        if let Ok(value) = &result {
            self.state.learned.learn(name, &tool, value);
        }
        result.map_err(|mut error| {
            // The signature helps with any problem with the arguments.
            if error.hint.is_none() && speaks_of_arguments(&error) {
                error.hint = Some(format!("expected {}", tool.signature.render(&shown_name)));
            }
            error
        })
    }

    /// Finds a function that its pack seems to lack: its source may not have listed it yet.
    async fn settled(
        &self,
        entry: &CatalogPack,
        name: &QualifiedName,
        ctx: &CallContext,
    ) -> Result<(Arc<Pack>, Arc<ToolSpec>), ToolError> {
        let settled = entry.source.settle(&name.pack, ctx).await;
        let fresh = entry.source.packs().into_iter().find(|pack| pack.name == name.pack);
        let found = fresh.as_ref().and_then(|pack| Some((pack.clone(), pack.tools.get(&name.function)?.clone())));
        found.ok_or_else(|| {
            // Without a connection it is unknown whether the function exists.
            if let Err(error) = settled {
                return error;
            }
            let pack = fresh.unwrap_or_else(|| entry.pack.clone());
            Self::unknown_function(&CatalogPack { pack, source: entry.source.clone() }, &name.function)
        })
    }

    fn unknown_pack(&self, pack: &str) -> ToolError {
        let names: Vec<&str> = self.state.catalog.packs().map(|pack| pack.name.as_str()).collect();
        let meant =
            nearest(pack, names.iter().copied()).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        let why = self.absence(pack).map(|why| format!(": {why}"));
        ToolError::not_found(format!("no pack '{pack}'{}", why.unwrap_or(meant)))
            .with_hint(format!("available packs: {}", listed(names)))
    }

    /// Explains why an expected pack is missing.
    pub(crate) fn absence(&self, pack: &str) -> Option<String> {
        if let (Some(access), Some(entry)) = (&self.access, self.loader.catalog().pack(pack))
            && access.sees_pack(pack)
            && let Some(secret) = entry
                .pack
                .tools
                .keys()
                .map(String::as_str)
                .chain([""])
                .find_map(|function| beyond(access, entry, &QualifiedName::new(pack, function)))
        {
            return Some(format!("it uses the secret {secret}, which is not available to you (security.groups)"));
        }
        if !self.sees_pack(pack) {
            return Some("this pack is not available to you (security.groups)".to_owned());
        }
        self.loader.sources().iter().find_map(|source| source.absence(pack))
    }

    pub(crate) fn unknown_function(entry: &CatalogPack, function: &str) -> ToolError {
        let names: Vec<&str> = entry.pack.tools.keys().map(String::as_str).collect();
        let meant = nearest(function, names.iter().copied())
            .map(|near| format!("; did you mean '{near}'?"))
            .unwrap_or_default();
        let note = entry.pack.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        ToolError::not_found(format!("pack '{}' has no function '{function}'{meant}", entry.pack.name))
            .with_hint(format!("available functions in {}: {}{note}", entry.pack.name, listed(names)))
    }

    /// Shows a run as in progress.
    pub(crate) fn begin_run(&self, command: &str, ctx: &CallContext) -> Option<UnderWay> {
        let (kind, chars_in) = (ActivityKind::Run, command.len());
        self.recorder.begin(&Beginning { kind, name: "run", detail: command, chars_in, ctx })
    }

    pub(crate) fn record_run(&self, command: &str, reply: &RunReply, watch: &Stopwatch, ctx: &CallContext) {
        self.recorder.run(&RunOutcome {
            command,
            duration: watch.steps.total(),
            steps: watch.steps,
            unsent: watch.unsent,
            chars_out: reply.text.len(),
            is_error: reply.is_error,
            text: &reply.text,
            ctx,
        });
    }

    /// The catalog of this toolbox.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.state.catalog
    }
}

/// Arguments with more bytes are not hashed.
const HASHED_BYTES: usize = 8 << 20;

/// BLAKE3 of the arguments as compact JSON with sorted keys: equal calls have equal hashes.
fn arguments_hash(arguments: &Arguments) -> Option<String> {
    static OF_NONE: LazyLock<String> = LazyLock::new(|| blake3::hash(b"{}").to_hex().to_string());
    if arguments.positional.is_empty() && arguments.named.is_empty() {
        return Some(OF_NONE.clone());
    }
    if size(arguments) > HASHED_BYTES {
        return None;
    }
    let positional = arguments.positional.iter().enumerate().map(|(index, value)| (index.to_string(), value.to_json()));
    let named = arguments.named.iter().map(|(name, value)| (name.clone(), value.to_json()));
    let sorted: std::collections::BTreeMap<String, serde_json::Value> =
        positional.chain(named).map(|(name, value)| (name, sorted(value))).collect();
    let mut hasher = blake3::Hasher::new();
    serde_json::to_writer(&mut hasher, &sorted).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(mut members) => {
            members.sort_keys();
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect::<serde_json::Map<_, _>>().into()
        }
        serde_json::Value::Array(items) => items.into_iter().map(sorted).collect::<Vec<_>>().into(),
        other => other,
    }
}

/// Removes the version from the arguments that code passed, if any.
fn named_version(name: &str, arguments: &mut Arguments) -> Result<Option<String>, ToolError> {
    match arguments.named.shift_remove(VERSION_ARGUMENT) {
        None | Some(Value::None) => Ok(None),
        Some(Value::Str(version)) => Ok(Some(version.clone())),
        Some(other) => Err(ToolError::arguments(format!(
            "{name}() argument '{VERSION_ARGUMENT}' must be str, not {}",
            other.type_name()
        ))),
    }
}

/// Runs the call against its source: limited by the deadline, ended by cancellation, and isolated from panics.
async fn execute(
    entry: &CatalogPack,
    name: &QualifiedName,
    call: ToolCall,
    ctx: &CallContext,
) -> Result<Value, ToolError> {
    let logged = LoggedCall { run: ctx.run_id.clone(), tool: name.clone() };
    let work = logged.scope(AssertUnwindSafe(entry.source.call(call, ctx)).catch_unwind());
    let deadline = async {
        match ctx.remaining() {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // The call is polled first: its timers are shorter than this one, and a later timer costs less.
        biased;
        result = work => result.unwrap_or_else(|_| {
            tracing::error!(tool = %name, "panic in a tool");
            Err(ToolError::internal(format!("{name} failed inside; the log has the details")))
        }),
        () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, format!("{name} was cancelled"))),
        () = deadline => Err(ToolError::new(ErrorKind::Timeout, format!("{name} did not end before the run's deadline"))),
    }
}

fn speaks_of_arguments(error: &ToolError) -> bool {
    error.kind == ErrorKind::Arguments
        || error.exception() == "TypeError"
        || error.message.contains("validation error")
        || error.message.contains("Input validation")
        || error.message.contains("-32602")
}

fn size(arguments: &Arguments) -> usize {
    arguments.positional.iter().map(value_size).sum::<usize>()
        + arguments.named.iter().map(|(name, value)| name.len() + value_size(value)).sum::<usize>()
}

/// Approximate number of characters of the value as JSON.
pub(crate) fn value_size(value: &Value) -> usize {
    match value {
        Value::Str(text) | Value::Path(text) | Value::Opaque(text) => text.len() + 2,
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            2 + items.iter().map(|item| value_size(item) + 1).sum::<usize>()
        }
        Value::Dict(pairs) => {
            2 + pairs.iter().map(|(key, value)| value_size(key) + value_size(value) + 2).sum::<usize>()
        }
        Value::Record { fields, .. } => {
            2 + fields.iter().map(|(key, value)| key.len() + value_size(value) + 4).sum::<usize>()
        }
        _ => 8,
    }
}
