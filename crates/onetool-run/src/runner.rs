//! One run, from the command to the reply: prepare, execute, present. Each step has its own module.

mod admission;
mod nested;
mod prepare;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sandbox::{Begun, Engine, Execution, Failure, Host, Limits, Program, Sandbox, SessionKey, SessionRun};
use onetool_sdk::{CallContext, Notices, Part, ProgressSink, Redactor, ToolError, Value};
use onetool_state::results::ResultStore;
use tokio_util::sync::CancellationToken;

use crate::account::{self, Account};
use crate::checked_progress::CheckedProgress;
use crate::code::{self, END_REACHED, FallbackEngine, MagicValue, PreparedCode};
use crate::direct::DirectRuns;
use crate::durable::Durable;
use crate::pack_proxy::PackProxy;
use crate::packages::Packages;
use crate::present::{self, Format};
use crate::replay::{Recording, weight};
use crate::sessions::{self, Plan, RecentNames, SessionPlan};
use crate::settings::RunSettings;
use crate::steps::Stopwatch;
use crate::toolbox::{Shared, Toolbox};
use crate::{ot, precheck, type_check};
pub(crate) use admission::RunAdmission;
use admission::has_quota;
pub use admission::{Admission, Refusal};
use nested::Nested;
use prepare::{is_pack, prepare};

/// The reply to the client.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReply {
    pub text: String,
    /// Content besides the text, such as images.
    pub parts: Vec<Part>,
    pub is_error: bool,
}

impl RunReply {
    fn error(text: String) -> Self {
        Self { text, parts: Vec::new(), is_error: true }
    }
}

/// Options of one request, which override the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Total time from start to end, instead of `run.total_timeout`.
    pub timeout: Option<Duration>,
    /// Maximum characters that the client accepts: a larger reply is stored, as one beyond `output.max_inline_size` is.
    pub max_inline: Option<usize>,
}

/// Added to the reply of a run that was cancelled because the server is stopping.
const STOPPING: &str = "\nhint: the server is stopping; run it again in a moment. What it had called is not undone";

/// Runs commands. Cheap to clone; clones share the toolbox and the sandbox.
#[derive(Clone)]
pub struct Runner {
    toolbox: Toolbox,
    sandbox: Arc<Sandbox>,
    settings: Arc<parking_lot::RwLock<Arc<RunSettings>>>,
    direct: Arc<DirectRuns>,
    names: Arc<RecentNames>,
    durable: Option<Arc<Durable>>,
    nested: Arc<Nested>,
}

/// Prepared code, and where it runs.
struct Ready {
    code: PreparedCode,
    plan: Plan,
}

/// The session of a run.
struct InSession {
    key: SessionKey,
    begun: Begun,
    /// Whether the session ended with the run.
    has_ended: bool,
}

/// How stored text is split into lines.
#[derive(Clone, Copy)]
enum Layout {
    Text,
    Json,
}

/// Presentation options that the code sets.
struct PresentationOptions {
    format: Option<Format>,
    sanitise: bool,
}

/// What a reply contains besides the value or the failure.
struct Surrounding<'a> {
    proxy: &'a PackProxy,
    /// Where an undefined name was defined.
    lost: Option<String>,
    ctx: &'a CallContext,
}

impl Runner {
    pub fn new(toolbox: Toolbox, sandbox: Arc<Sandbox>, settings: RunSettings) -> Self {
        let settings = Arc::new(parking_lot::RwLock::new(Arc::new(settings)));
        let (direct, names, nested) = (Arc::default(), Arc::default(), Arc::default());
        Self { toolbox, sandbox, settings, direct, names, durable: None, nested }
    }

    /// Enables runs that wait for people and survive this process.
    #[must_use]
    pub fn with_durable(self, durable: Arc<Durable>) -> Self {
        Self { durable: Some(durable), ..self }
    }

    pub fn durable(&self) -> Option<&Arc<Durable>> {
        self.durable.as_ref()
    }

    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    pub fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// Removes secrets from output that leaves this process other than in a reply.
    pub fn redactor(&self) -> Redactor {
        self.settings.read().redactor.clone()
    }

    /// Wraps the progress of a call outside a run, with the same rules as in a run.
    pub fn checked_progress(&self, progress: Arc<dyn ProgressSink>) -> Arc<dyn ProgressSink> {
        CheckedProgress::wrap(progress, &self.redactor())
    }

    /// Replaces the settings for later runs.
    pub fn replace_settings(&self, settings: RunSettings) {
        *self.settings.write() = Arc::new(settings);
    }

    /// Executes a command. Never fails: a failure is a reply.
    pub async fn run(&self, command: &str, ctx: CallContext) -> RunReply {
        let settings = self.settings.read().clone();
        self.run_as(command, None, ctx, settings, RunAdmission::Ask).await
    }

    /// Executes a command in a named session, where names persist from run to run.
    pub async fn run_in_session(&self, command: &str, session: &str, ctx: CallContext) -> RunReply {
        let settings = self.settings.read().clone();
        self.run_as(command, Some(session), ctx, settings, RunAdmission::Ask).await
    }

    /// Executes a command with the options of a request.
    pub async fn run_with_options(&self, command: &str, ctx: CallContext, options: RunOptions) -> RunReply {
        if options == RunOptions::default() {
            return self.run(command, ctx).await;
        }
        self.run_entering(command, ctx, options, RunAdmission::Ask).await
    }

    pub(crate) async fn run_entering(
        &self,
        command: &str,
        ctx: CallContext,
        options: RunOptions,
        entrance: RunAdmission,
    ) -> RunReply {
        let mut settings = (**self.settings.read()).clone();
        settings.limits.timeout = options.timeout.unwrap_or(settings.limits.timeout);
        settings.max_inline = options.max_inline;
        self.run_as(command, None, ctx, Arc::new(settings), entrance).await
    }

    /// Executes a command for a reader that accepts a reply of any size, such as a pipe.
    pub async fn run_whole(&self, command: &str, ctx: CallContext) -> RunReply {
        self.run_as(command, None, ctx, self.whole_settings(), RunAdmission::Ask).await
    }

    /// [`Self::run_in_session`] for such a reader.
    pub async fn run_whole_in_session(&self, command: &str, session: &str, ctx: CallContext) -> RunReply {
        self.run_as(command, Some(session), ctx, self.whole_settings(), RunAdmission::Ask).await
    }

    /// Settings that store nothing and do not cut printed text.
    fn whole_settings(&self) -> Arc<RunSettings> {
        let mut settings = RunSettings { stores_large_output: false, ..(**self.settings.read()).clone() };
        settings.limits.max_printed = settings.limits.max_printed.max(settings.limits.max_value_bytes);
        Arc::new(settings)
    }

    async fn run_as(
        &self,
        command: &str,
        session: Option<&str>,
        ctx: CallContext,
        settings: Arc<RunSettings>,
        entrance: RunAdmission,
    ) -> RunReply {
        let mut watch = Stopwatch::start();
        let shared = self.toolbox.now_for(&ctx.requester);
        let mut ctx = ctx.within();
        let mut journal = None;
        if let Some(durable) = self.durable.as_ref().filter(|_| ctx.journal.is_none()) {
            if durable.settings().always && session.is_none() && ctx.depth == 0 {
                let recorded = Box::pin(durable.run_recorded(self, command, &ctx)).await;
                if let Some(reply) = recorded {
                    return reply;
                }
            } else if shared.may_ask() {
                // It may have to wait for a person, so its calls until then must be recorded.
                let memory = durable.begin(&mut ctx);
                journal = Some((durable, memory));
            }
        }
        ctx.notices = Notices::default();
        shared.trace(&mut ctx);
        ctx.progress = CheckedProgress::wrap(ctx.progress, &settings.redactor);
        let slot = match entrance.enter(&shared, &ctx).await {
            Ok(slot) => slot,
            Err(refusal) => {
                let reply = finish_error(refusal.text(), settings.sanitise, &settings);
                shared.record_run(command, &reply, &watch, &ctx);
                return reply;
            }
        };
        // On shutdown the run is cancelled, and still replies.
        ctx.cancel = ctx.cancel.child_token();
        let work = self.toolbox.work();
        let _under_way = work.begin();
        let _shown = shared.begin_run(command, &ctx);
        let over = async {
            work.over().await;
            ctx.cancel.cancel();
            std::future::pending().await
        };
        let mut reply = tokio::select! {
            biased;
            reply = self.run_with(command, session, &ctx, &settings, &shared, &mut watch) => reply,
            reply = over => reply,
        };
        if let Some(slot) = slot {
            slot.computed(watch.steps.execute.saturating_sub(watch.unsent.call_time));
            slot.end().await;
        }
        if work.is_over() && reply.is_error {
            reply.text.push_str(STOPPING);
        }
        let notices = ctx.notices.take();
        if !notices.is_empty() {
            let notices: Vec<String> = notices.iter().map(|notice| format!("[{notice}]")).collect();
            // After the value, as session notes come after an error: JSON stays at the beginning for its readers.
            reply.text = format!("{}\n{}", reply.text, notices.join("\n"));
        }
        if let Some((durable, journal)) = journal.filter(|(_, journal)| journal.is_suspended()) {
            reply = durable.park(command, &ctx, &journal).await.unwrap_or_else(|| {
                let text = "PermissionError: a call of this run needs the user's permission, and the run cannot wait for it: its state cannot be kept now";
                RunReply::error(text.to_owned())
            });
        }
        // Results are redacted before they are stored; this is for errors and summaries.
        reply.text = settings.redactor.owned(reply.text);
        watch.end_of(|steps| &mut steps.present);
        shared.record_run(command, &reply, &watch, &ctx);
        if watch.steps.execute > LONG_RUN {
            // Not awaited: nothing depends on it.
            drop(tokio::task::spawn_blocking(onetool_sandbox::give_back_grown_heap));
        }
        reply
    }

    async fn run_with(
        &self,
        command: &str,
        session: Option<&str>,
        ctx: &CallContext,
        settings: &RunSettings,
        shared: &Arc<Shared>,
        watch: &mut Stopwatch,
    ) -> RunReply {
        let ready = self.ready(command, session, ctx, settings, shared);
        watch.end_of(|steps| &mut steps.prepare);
        let Ready { code: prepared, plan } = match ready {
            Ok(ready) => ready,
            Err(text) => return finish_error(text, settings.sanitise, settings),
        };
        let wants_check = settings.type_check && prepared.facts.magic("__check__") != Some(&MagicValue::Truth(false));
        if wants_check && let Some(refusal) = precheck::check(&prepared, shared) {
            return finish_error(account::refused(&refusal, &prepared), settings.sanitise, settings);
        }
        watch.end_of(|steps| &mut steps.prepare);
        if wants_check && let Some(refusal) = type_check::check(&prepared, shared) {
            return finish_error(account::refused(&refusal, &prepared), settings.sanitise, settings);
        }
        watch.end_of(|steps| &mut steps.check);
        let mut ctx = ctx.clone();
        if let Plan::In(plan) = &plan
            && let Some(journal) = ctx.journal.take()
            && journal.is_continued()
        {
            let name = &plan.key.name;
            let text = format!("RuntimeError: the run used the session '{name}', which ended with its server");
            return finish_error(text, settings.sanitise, settings);
        }
        ctx.deadline = Some(ctx.deadline.unwrap_or_else(|| Instant::now() + settings.limits.timeout));
        ctx.tools = Some(Arc::new(self.toolbox.clone()));
        ctx.code = Some(prepared.original.as_str().into());
        // A run that ends early cancels its calls.
        ctx.cancel = ctx.cancel.child_token();
        let guard = ctx.cancel.clone().drop_guard();
        let used: HashMap<_, _> = prepared.facts.used.iter().map(|(name, how)| (name.clone(), *how)).collect();
        let proxy = Arc::new(PackProxy::new(shared.clone(), ctx.clone(), used));
        let limits = &settings.limits;
        let mut in_session = None;
        let execution = match (&plan, self.direct.enter(prepared.single.as_ref(), &*proxy, limits)) {
            (Plan::In(plan), _) => {
                let (execution, had) =
                    self.execute_in_session(plan, &prepared, settings, proxy.clone(), &ctx.cancel, shared).await;
                in_session = Some(had);
                execution
            }
            (_, Some(call)) => call.execute(limits, &*proxy, ctx.cancel.clone()).await,
            (_, None) => self.execute(&prepared, settings, proxy.clone(), &ctx.cancel, shared).await,
        };
        drop(guard);
        proxy.end_of_printed();
        watch.unsent = proxy.unsent();
        watch.end_of(|steps| &mut steps.execute);
        let lost = self.lost_name(&execution, &ctx, in_session.as_ref());
        let mut reply =
            self.reply(execution, &prepared, settings, shared, &Surrounding { proxy: &proxy, lost, ctx: &ctx }).await;
        match &plan {
            Plan::In(_) => {}
            Plan::Without => self.names.note(&ctx.owner, &prepared.facts),
            Plan::EndLast => {
                self.names.note(&ctx.owner, &prepared.facts);
                self.end_last_session(&ctx, &mut reply);
            }
        }
        if let Some(had) = &in_session {
            if let Some(note) = sessions::begun_note(&had.key, &had.begun) {
                // An error must begin with its type.
                reply.text = match (reply.text.is_empty(), reply.is_error) {
                    (true, _) => note,
                    (false, true) => format!("{}\n{note}", reply.text),
                    (false, false) => format!("{note}\n{}", reply.text),
                };
            }
            if had.has_ended && reply.is_error {
                reply.text = format!("{}\n{}", reply.text, sessions::ended_note(&had.key));
            }
        }
        reply
    }

    /// Prepares a command and decides where it runs; the error is the text for the client.
    fn ready(
        &self,
        command: &str,
        session: Option<&str>,
        ctx: &CallContext,
        settings: &RunSettings,
        shared: &Shared,
    ) -> Result<Ready, String> {
        let code = prepare(command, settings, shared, None)?;
        let plan = sessions::plan(&code.facts, session, &ctx.owner, settings.engine)?;
        match plan {
            Plan::In(SessionPlan { ref key, .. }) => {
                let known = self.sandbox.sessions().of(&key.owner).into_iter().find(|open| open.name == key.name);
                let names = known.map(|open| open.names).unwrap_or_default();
                Ok(Ready { code: prepare(command, settings, shared, Some(&names))?, plan })
            }
            Plan::Without | Plan::EndLast => Ok(Ready { code, plan }),
        }
    }

    /// Explains where an undefined name was defined.
    fn lost_name(&self, execution: &Execution, ctx: &CallContext, session: Option<&InSession>) -> Option<String> {
        let failure = execution.result.as_ref().err()?;
        let own = session.map(|session| &session.key);
        sessions::lost_name(failure, &ctx.owner, own, self.sandbox.sessions(), &self.names)
    }

    /// Handles `__session__ = None` without a name.
    fn end_last_session(&self, ctx: &CallContext, reply: &mut RunReply) {
        let note = match self.sandbox.sessions().last_of(&ctx.owner) {
            Some(key) => {
                self.sandbox.sessions().end(&key);
                format!("[session '{}' ended]", key.name)
            }
            None => "[no session is open]".to_owned(),
        };
        reply.text = if reply.text == NOTHING { note } else { format!("{note}\n{}", reply.text) };
    }

    async fn execute_in_session(
        &self,
        plan: &SessionPlan,
        prepared: &PreparedCode,
        settings: &RunSettings,
        host: Arc<dyn Host>,
        cancel: &CancellationToken,
        shared: &Shared,
    ) -> (Execution, InSession) {
        let program = program(prepared, shared, settings);
        let SessionRun { execution, begun, ended } = self
            .sandbox
            .execute_in_session(&plan.key, settings.sessions, &program, &settings.limits, host, cancel.clone())
            .await;
        if plan.ends {
            self.sandbox.sessions().end(&plan.key);
        }
        (execution, InSession { key: plan.key.clone(), begun, has_ended: ended.is_some() })
    }

    /// Runs code as part of a call and returns its value, unformatted. Printed text is the value if there is no other.
    pub async fn evaluate(&self, code: &str, ctx: &CallContext) -> Result<Value, ToolError> {
        let mut settings = (**self.settings.read()).clone();
        let turn = self.nested.turn(ctx, &mut settings.limits).await?;
        let shared = self.toolbox.now_for(&ctx.requester);
        let prepared =
            prepare(code, &settings, &shared, None).map_err(|text| ToolError::raised("RuntimeError", text))?;
        if settings.type_check
            && let Some(refusal) = precheck::check(&prepared, &shared)
        {
            return Err(ToolError::raised("RuntimeError", account::refused(&refusal, &prepared)));
        }
        let mut ctx = ctx.clone();
        ctx.deadline = Some(ctx.deadline.unwrap_or_else(|| Instant::now() + settings.limits.timeout));
        ctx.tools = Some(Arc::new(self.toolbox.clone()));
        ctx.cancel = ctx.cancel.child_token();
        let guard = ctx.cancel.clone().drop_guard();
        let used: HashMap<_, _> = prepared.facts.used.iter().map(|(name, how)| (name.clone(), *how)).collect();
        let proxy = Arc::new(PackProxy::new(shared.clone(), ctx.clone(), used));
        let begun = Instant::now();
        let execution = self.execute(&prepared, &settings, proxy.clone(), &ctx.cancel, &shared).await;
        drop((guard, turn));
        if has_quota(&shared, &ctx) {
            // The enclosing run was only waiting.
            shared.state.quotas.computed(&ctx.owner, begun.elapsed().saturating_sub(proxy.unsent().call_time));
        }
        match execution.result {
            Ok(value) => {
                let has_value = has_value(&prepared, &execution.read_back);
                Ok(match has_value {
                    true => settings.redactor.value(value),
                    false if execution.printed.is_empty() => Value::None,
                    false => Value::Str(settings.redactor.owned(trim_newline(execution.printed))),
                })
            }
            Err(failure) => {
                let account = Account {
                    failure: &failure,
                    code: &prepared,
                    printed: &execution.printed,
                    printed_truncated: execution.printed_truncated,
                    calls: &proxy.calls(),
                    returned: &proxy.returned(),
                    caller: proxy.caller(),
                    hint: None,
                    packages: self.packages(&settings),
                    limits: &settings.limits,
                };
                let text = account::cap(account::text(&account), settings.max_error_bytes);
                Err(ToolError::raised("RuntimeError", settings.redactor.owned(text)))
            }
        }
    }

    /// Runs the code in its engine, and in the fallback engine if that one cannot run it.
    async fn execute(
        &self,
        prepared: &PreparedCode,
        settings: &RunSettings,
        host: Arc<dyn Host>,
        cancel: &CancellationToken,
        shared: &Shared,
    ) -> Execution {
        let started = Instant::now();
        let limits = &settings.limits;
        let first = program(prepared, shared, settings);
        let again = |engine| {
            let is_pack = |name: &str| is_pack(shared, name);
            let surroundings =
                code::Surroundings { is_pack: &is_pack, engine, collect_called: false, keeps_names: false };
            code::prepare(&prepared.original, surroundings).map(|prepared| program(&prepared, shared, settings))
        };
        match prepared.fallback {
            FallbackEngine::None => self.sandbox.execute(prepared.engine, &first, limits, host, cancel.clone()).await,
            FallbackEngine::Monty => {
                let execution =
                    self.sandbox.execute(prepared.engine, &first, limits, host.clone(), cancel.clone()).await;
                if !matches!(execution.result, Err(Failure::Unavailable(_))) {
                    return execution;
                }
                let Ok(program) = again(Engine::Monty) else { return execution };
                self.sandbox.execute(Engine::Monty, &program, limits, host, cancel.clone()).await
            }
            FallbackEngine::CPython => {
                let recording = Arc::new(Recording::of(host));
                let execution =
                    self.sandbox.execute(prepared.engine, &first, limits, recording.clone(), cancel.clone()).await;
                let Err(failure) = &execution.result else { return execution };
                let left = limits.timeout.saturating_sub(started.elapsed());
                if left.is_zero() || !recording.may_help(failure) {
                    return execution;
                }
                let Ok(program) = again(Engine::CPython) else { return execution };
                let stop = cancel.child_token();
                let replay = Arc::new(recording.replay(stop.clone()));
                let limits = Limits { timeout: left, ..limits.clone() };
                let second = self.sandbox.execute(Engine::CPython, &program, &limits, replay.clone(), stop).await;
                match second.result {
                    Err(Failure::Unavailable(_) | Failure::Busy(_)) => execution,
                    _ if replay.has_strayed() => execution,
                    _ => second,
                }
            }
        }
    }

    async fn reply(
        &self,
        execution: Execution,
        prepared: &PreparedCode,
        settings: &RunSettings,
        shared: &Arc<Shared>,
        around: &Surrounding<'_>,
    ) -> RunReply {
        let Surrounding { proxy, ctx, .. } = *around;
        let options = presentation_options(prepared, &execution, settings);
        let value = match execution.result {
            Ok(value) => value,
            Err(failure) => {
                let account = Account {
                    failure: &failure,
                    code: prepared,
                    printed: &execution.printed,
                    printed_truncated: execution.printed_truncated,
                    calls: &proxy.calls(),
                    returned: &proxy.returned(),
                    caller: proxy.caller(),
                    limits: &settings.limits,
                    hint: around.lost.as_deref(),
                    packages: self.packages(settings),
                };
                return finish_error(account::text(&account), options.sanitise, settings);
            }
        };
        let has_value = has_value(prepared, &execution.read_back);
        let (rest, parts) = present::split_parts(settings.redactor.value(value));
        let parts = present::bounded_parts(parts, shared.state.output.max_media_bytes);
        let mut text = execution.printed;
        if execution.printed_truncated {
            text.push_str(&format!("\n[printed output cut at {} bytes]\n", settings.limits.max_printed));
        }
        let format = options.format.unwrap_or_else(|| match &prepared.facts.last_call {
            Some(name) if is_of_ot(name, shared) => Format::Overview,
            _ => Format::Json,
        });
        // Compact JSON is a single line; it is stored indented, so that lines are meaningful.
        let is_json = format == Format::Json
            && !options.sanitise
            && text.is_empty()
            && matches!(
                rest,
                Some(Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Record { .. })
            );
        let shown = match rest {
            None => String::new(),
            Some(_) if !has_value && text.is_empty() => NOTHING.to_owned(),
            Some(_) if !has_value => String::new(),
            Some(Value::None) if !text.is_empty() => String::new(),
            Some(value) if is_result_page(prepared, shared) => {
                present::format(&ot::shown_result(value, &shared.state.output), format)
            }
            Some(value) => match present_in_time(value, format, ctx.deadline).await {
                Some(shown) => shown,
                None => {
                    let account = Account {
                        failure: &Failure::Timeout(settings.limits.timeout),
                        code: prepared,
                        printed: &text,
                        printed_truncated: false,
                        calls: &proxy.calls(),
                        returned: &proxy.returned(),
                        caller: proxy.caller(),
                        limits: &settings.limits,
                        hint: None,
                        packages: Packages::default(),
                    };
                    return finish_error(account::text(&account), options.sanitise, settings);
                }
            },
        };
        if !text.is_empty() && !shown.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let text = if text.is_empty() {
            shown
        } else if shown.is_empty() {
            trim_newline(text)
        } else {
            text + &shown
        };
        let text = if options.sanitise && !text.is_empty() { present::sanitise(&text) } else { text };
        let tool = proxy.calls().last().map_or_else(|| "run".to_owned(), |call| call.name.to_string());
        let layout = if is_json { Layout::Json } else { Layout::Text };
        let text = settings.redactor.owned(text);
        let text = if settings.stores_large_output {
            let store = shared.state.results_of(ctx);
            self.fit(text, layout, tool, options.format.unwrap_or_default(), settings, shared, store).await
        } else {
            text
        };
        RunReply { text, parts, is_error: false }
    }

    fn packages<'a>(&self, settings: &'a RunSettings) -> Packages<'a> {
        Packages {
            configured: &settings.packages,
            problem: self.sandbox.packages_problem(),
            is_fast_only: settings.engine == Engine::Monty,
        }
    }

    /// Stores a text that is too large for a reply and returns its summary instead.
    #[expect(clippy::too_many_arguments, reason = "all of them differ from run to run")]
    async fn fit(
        &self,
        text: String,
        layout: Layout,
        tool: String,
        format: Format,
        settings: &RunSettings,
        shared: &Arc<Shared>,
        store: ResultStore,
    ) -> String {
        let mut output = shared.state.output.clone();
        if let Some(asked) = settings.max_inline {
            let limit = if output.max_inline_size == 0 { usize::MAX } else { output.max_inline_size };
            output.max_inline_size = limit.min(asked.max(1));
        }
        if output.max_inline_size == 0 || text.len() <= output.max_inline_size {
            return text;
        }
        let size = text.len();
        let stored = tokio::task::spawn_blocking(move || {
            let stored = match layout {
                Layout::Json => store.store_json(&text, &tool, output.preview_lines),
                Layout::Text => store.store(&text, &tool, output.preview_lines),
            };
            // Only the summary is needed from here on.
            match stored {
                Ok(stored) => {
                    drop(text);
                    if size > MUCH_MEMORY {
                        onetool_sandbox::give_back_heap();
                    }
                    Ok(stored.summary(None))
                }
                // A full disk must not cost the model the whole result.
                Err(error) => Err(format!(
                    "{}\n[the whole result has {} bytes and could not be stored: {error}]",
                    account::cap(text, output.max_inline_size),
                    size
                )),
            }
        })
        .await;
        match stored {
            Ok(Ok(summary)) => present::format(&summary, format),
            Ok(Err(text)) => text,
            Err(_) => "the result could not be stored".to_owned(),
        }
    }
}

/// Whether the code returns a value: by its last expression, or by a `return` that it reached.
fn has_value(prepared: &PreparedCode, read_back: &[(String, Value)]) -> bool {
    prepared.facts.ends_with_expression
        || (prepared.facts.returns_at_top && !read_back.iter().any(|(name, _)| name == END_REACHED))
}

/// Builds the program for the sandbox.
fn program(prepared: &PreparedCode, shared: &Shared, settings: &RunSettings) -> Program {
    let facts = &prepared.facts;
    let is_free = |name: &&String| !facts.bound.contains(*name) && shared.state.catalog.pack(name).is_some();
    Program {
        code: prepared.text.clone(),
        script_name: "run".to_owned(),
        files: settings.files,
        folder: shared.state.folder.to_string_lossy().into_owned(),
        packs: facts.used.keys().filter(is_free).cloned().collect(),
        binds: facts.top_level.iter().filter(|name| !name.starts_with("__")).cloned().collect(),
        read_back: facts
            .computed_magic()
            .chain(facts.returns_at_top.then_some(END_REACHED))
            .map(str::to_owned)
            .collect(),
    }
}

/// Errors are sanitised too: their text may come from outside.
fn finish_error(text: String, sanitise: bool, settings: &RunSettings) -> RunReply {
    let text = account::cap(text, settings.max_error_bytes);
    RunReply::error(if sanitise { present::sanitise(&text) } else { text })
}

/// Values that take more memory are written on a separate thread.
const WRITTEN_INLINE: usize = 256 << 10;

/// Writes a value; `None` if that exceeds the run's deadline.
async fn present_in_time(mut value: Value, format: Format, deadline: Option<Instant>) -> Option<String> {
    if weight(&value, WRITTEN_INLINE) <= WRITTEN_INLINE {
        present::abbreviate_integers(&mut value);
        return Some(present::format(&value, format));
    }
    let writing = tokio::task::spawn_blocking(move || {
        present::abbreviate_integers(&mut value);
        present::format(&value, format)
    });
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), writing).await.ok()?.ok(),
        None => writing.await.ok(),
    }
}

/// After a result of this many bytes, memory is returned to the system.
const MUCH_MEMORY: usize = 8 << 20;
/// After a run that executes for longer, the server tries to return memory to the system.
const LONG_RUN: Duration = Duration::from_millis(50);

const NOTHING: &str = "Code executed successfully (no value returned)";

fn trim_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Whether the shown value is a page of a stored result.
fn is_result_page(prepared: &PreparedCode, shared: &Shared) -> bool {
    let called = prepared.facts.last_call.as_deref();
    called.is_some_and(|name| shared.resolve_alias(name).ok().flatten().as_deref().unwrap_or(name) == "ot.result")
}

/// Whether a call is to the `ot` pack, by name or by alias.
fn is_of_ot(name: &str, shared: &Shared) -> bool {
    let target = shared.resolve_alias(name).ok().flatten();
    target.as_deref().unwrap_or(name).starts_with("ot.")
}

/// Python's truthiness, for the value of an option.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(truth) => *truth,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => !items.is_empty(),
        Value::Dict(pairs) => !pairs.is_empty(),
        _ => true,
    }
}

fn presentation_options(prepared: &PreparedCode, execution: &Execution, settings: &RunSettings) -> PresentationOptions {
    let read_back =
        |name: &str| execution.read_back.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let magic = |name: &str| match prepared.facts.magic(name)? {
        MagicValue::Text(text) => Some(Value::Str(text.clone())),
        MagicValue::Truth(truth) => Some(Value::Bool(*truth)),
        MagicValue::Computed => read_back(name),
    };
    PresentationOptions {
        format: magic("__format__").map(|value| value.as_str().map_or(Format::Json, Format::named)),
        sanitise: match magic("__sanitize__") {
            Some(Value::None) | None => settings.sanitise,
            Some(value) => is_true(&value),
        },
    }
}
