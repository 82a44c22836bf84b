//! One run, from the command to the reply: prepare, execute, present. What each step does lives in its own module.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use onetool_sandbox::{Engine, Execution, Failure, Host, Limits, Program, Sandbox};
use onetool_sdk::{CallContext, Part, ToolError, Value};
use tokio_util::sync::CancellationToken;

use crate::account::{self, Account};
use crate::checked_progress::CheckedProgress;
use crate::code::{self, END_REACHED, FallbackEngine, MagicValue, PreparedCode};
use crate::direct::DirectRuns;
use crate::gate::Verdict;
use crate::pack_proxy::PackProxy;
use crate::present::{self, Format};
use crate::replay::{Recording, weight};
use crate::settings::RunSettings;
use crate::steps::Stopwatch;
use crate::toolbox::{Shared, Toolbox};
use crate::{fence_processor, ot, precheck, snippets, type_check};

/// What the client gets.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReply {
    pub text: String,
    /// Content beside the text: images and the like.
    pub parts: Vec<Part>,
    pub is_error: bool,
}

impl RunReply {
    fn error(text: String) -> Self {
        Self { text, parts: Vec::new(), is_error: true }
    }
}

/// Runs commands. Cheap to clone; clones share the toolbox and the sandbox.
#[derive(Clone)]
pub struct Runner {
    toolbox: Toolbox,
    sandbox: Arc<Sandbox>,
    settings: Arc<parking_lot::RwLock<Arc<RunSettings>>>,
    direct: Arc<DirectRuns>,
}

/// How a stored text is laid out in lines.
#[derive(Clone, Copy)]
enum Layout {
    Text,
    Json,
}

/// What the code says of its own presentation.
struct PresentationOptions {
    format: Option<Format>,
    sanitise: bool,
}

impl Runner {
    pub fn new(toolbox: Toolbox, sandbox: Arc<Sandbox>, settings: RunSettings) -> Self {
        let settings = Arc::new(parking_lot::RwLock::new(Arc::new(settings)));
        Self { toolbox, sandbox, settings, direct: Arc::default() }
    }

    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    pub fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// Later runs follow these.
    pub fn replace_settings(&self, settings: RunSettings) {
        *self.settings.write() = Arc::new(settings);
    }

    /// Executes a command. Never fails: a failure is a reply.
    pub async fn run(&self, command: &str, ctx: CallContext) -> RunReply {
        let settings = self.settings.read().clone();
        self.run_as(command, ctx, settings).await
    }

    /// The same for a reader that takes a reply of any size, such as a pipe.
    pub async fn run_whole(&self, command: &str, ctx: CallContext) -> RunReply {
        let settings = RunSettings { stores_large_output: false, ..(**self.settings.read()).clone() };
        self.run_as(command, ctx, Arc::new(settings)).await
    }

    async fn run_as(&self, command: &str, ctx: CallContext, settings: Arc<RunSettings>) -> RunReply {
        let mut watch = Stopwatch::start();
        let shared = self.toolbox.now();
        let mut ctx = ctx.within();
        ctx.progress = CheckedProgress::wrap(ctx.progress, &settings.redactor);
        let mut reply = self.run_with(command, &ctx, &settings, &shared, &mut watch).await;
        // Results are redacted before they are stored; this is for errors and summaries.
        reply.text = settings.redactor.owned(reply.text);
        watch.end_of(|steps| &mut steps.present);
        shared.record_run(command, &reply, &watch, &ctx);
        reply
    }

    async fn run_with(
        &self,
        command: &str,
        ctx: &CallContext,
        settings: &RunSettings,
        shared: &Arc<Shared>,
        watch: &mut Stopwatch,
    ) -> RunReply {
        let prepared = prepare(command, settings, shared);
        watch.end_of(|steps| &mut steps.prepare);
        let prepared = match prepared {
            Ok(prepared) => prepared,
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
        ctx.deadline = Some(ctx.deadline.unwrap_or_else(|| Instant::now() + settings.limits.timeout));
        ctx.tools = Some(Arc::new(self.toolbox.clone()));
        ctx.code = Some(prepared.original.as_str().into());
        // A run that ends early takes its calls with it.
        ctx.cancel = ctx.cancel.child_token();
        let guard = ctx.cancel.clone().drop_guard();
        let used: HashMap<_, _> = prepared.facts.used.iter().map(|(name, how)| (name.clone(), *how)).collect();
        let proxy = Arc::new(PackProxy::new(shared.clone(), ctx.clone(), used));
        let limits = &settings.limits;
        let execution = match self.direct.enter(prepared.single.as_ref(), &*proxy, limits) {
            Some(call) => call.execute(limits, &*proxy, ctx.cancel.clone()).await,
            None => self.execute(&prepared, settings, proxy.clone(), &ctx.cancel, shared).await,
        };
        drop(guard);
        watch.unsent = proxy.unsent();
        watch.end_of(|steps| &mut steps.execute);
        self.reply(execution, &prepared, settings, shared, &proxy, ctx.deadline).await
    }

    /// Runs code as part of a call: the value, not how it is shown. What is only printed is the value as a text.
    pub async fn evaluate(&self, code: &str, ctx: &CallContext) -> Result<Value, ToolError> {
        let settings = self.settings.read().clone();
        let shared = self.toolbox.now();
        let prepared = prepare(code, &settings, &shared).map_err(|text| ToolError::raised("RuntimeError", text))?;
        if settings.type_check && let Some(refusal) = precheck::check(&prepared, &shared) {
            return Err(ToolError::raised("RuntimeError", account::refused(&refusal, &prepared)));
        }
        let mut ctx = ctx.clone();
        ctx.deadline = Some(ctx.deadline.unwrap_or_else(|| Instant::now() + settings.limits.timeout));
        ctx.tools = Some(Arc::new(self.toolbox.clone()));
        ctx.cancel = ctx.cancel.child_token();
        let guard = ctx.cancel.clone().drop_guard();
        let used: HashMap<_, _> = prepared.facts.used.iter().map(|(name, how)| (name.clone(), *how)).collect();
        let proxy = Arc::new(PackProxy::new(shared.clone(), ctx.clone(), used));
        let execution = self.execute(&prepared, &settings, proxy.clone(), &ctx.cancel, &shared).await;
        drop(guard);
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
                    limits: &settings.limits,
                };
                let text = account::cap(account::text(&account), settings.max_error_bytes);
                Err(ToolError::raised("RuntimeError", settings.redactor.owned(text)))
            }
        }
    }

    /// Runs the code in its engine, and where that one does not do, in the other.
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
            let surroundings = code::Surroundings { is_pack: &is_pack, engine, collect_called: false };
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
        proxy: &PackProxy,
        deadline: Option<Instant>,
    ) -> RunReply {
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
        // Compact JSON is one line; stored, it is laid out so that lines mean something.
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
            Some(value) => match present_in_time(value, format, deadline).await {
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
            self.fit(text, layout, tool, options.format.unwrap_or_default(), shared).await
        } else {
            text
        };
        RunReply { text, parts, is_error: false }
    }

    /// Stores what is too large for a reply and answers its summary instead.
    async fn fit(&self, text: String, layout: Layout, tool: String, format: Format, shared: &Arc<Shared>) -> String {
        let output = shared.state.output.clone();
        if output.max_inline_size == 0 || text.len() <= output.max_inline_size {
            return text;
        }
        let size = text.len();
        let store = shared.state.results.clone();
        let stored = tokio::task::spawn_blocking(move || {
            let stored = match layout {
                Layout::Json => store.store_json(&text, &tool, output.preview_lines),
                Layout::Text => store.store(&text, &tool, output.preview_lines),
            };
            // The summary is all that is left of it.
            match stored {
                Ok(stored) => {
                    drop(text);
                    if size > MUCH_MEMORY {
                        onetool_sandbox::give_back_heap();
                    }
                    Ok(stored.summary(None))
                }
                // A disk that is full must not cost the model its result altogether.
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

/// Whether the code gives a value: by its last expression, or by a `return` that it reached.
fn has_value(prepared: &PreparedCode, read_back: &[(String, Value)]) -> bool {
    prepared.facts.ends_with_expression
        || (prepared.facts.returns_at_top && !read_back.iter().any(|(name, _)| name == END_REACHED))
}

/// What a sandbox is to run.
fn program(prepared: &PreparedCode, shared: &Shared, settings: &RunSettings) -> Program {
    let facts = &prepared.facts;
    let is_free = |name: &&String| !facts.bound.contains(*name) && shared.state.catalog.pack(name).is_some();
    Program {
        code: prepared.text.clone(),
        script_name: "run".to_owned(),
        files: settings.files,
        folder: shared.state.folder.to_string_lossy().into_owned(),
        packs: facts.used.keys().filter(is_free).cloned().collect(),
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

/// Values that take more memory are written on a thread of their own.
const WRITTEN_INLINE: usize = 256 << 10;

/// Writes a value; nothing if that takes longer than the run may.
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

/// After a result of this many bytes, memory is given back.
const MUCH_MEMORY: usize = 8 << 20;

const NOTHING: &str = "Code executed successfully (no value returned)";

fn trim_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

fn is_pack(shared: &Shared, name: &str) -> bool {
    shared.state.catalog.pack(name).is_some() || shared.state.aliases.contains_key(name)
}

/// Whether what is shown is a page of a stored result.
fn is_result_page(prepared: &PreparedCode, shared: &Shared) -> bool {
    let called = prepared.facts.last_call.as_deref();
    called.is_some_and(|name| shared.resolve_alias(name).ok().flatten().as_deref().unwrap_or(name) == "ot.result")
}

/// Whether a call is one of the `ot` pack, by its name or by an alias.
fn is_of_ot(name: &str, shared: &Shared) -> bool {
    let target = shared.resolve_alias(name).ok().flatten();
    target.as_deref().unwrap_or(name).starts_with("ot.")
}

/// From the command to code; the error is a text for the client.
fn prepare(command: &str, settings: &RunSettings, shared: &Shared) -> Result<PreparedCode, String> {
    if command.len() > settings.limits.max_source {
        return Err(format!(
            "ValueError: the command has {} bytes; at most {} are allowed\nhint: pass data through a tool (file.read, ot.result) instead of writing it into the code",
            command.len(),
            settings.limits.max_source
        ));
    }
    let stripped = fence_processor::strip(command).map_err(|error| {
        let kind = if error == fence_processor::FenceError::LegacyPrefix { "SyntaxError" } else { "ValueError" };
        format!("{kind}: {error}\nhint: send Python code, e.g. ot.help()")
    })?;
    let expanded;
    let source = if snippets::is_snippet(stripped) {
        expanded =
            snippets::expand(stripped, &shared.state.snippets).map_err(|error| format!("ValueError: {error}"))?;
        fence_processor::strip(&expanded)
            .map_err(|error| format!("ValueError: the snippet expands to nothing: {error}"))?
    } else {
        stripped
    };
    let is_pack = |name: &str| is_pack(shared, name);
    let surroundings =
        code::Surroundings { is_pack: &is_pack, engine: settings.engine, collect_called: !settings.gate.is_open() };
    let prepared = code::prepare(source, surroundings)
        .or_else(|problem| {
            // Words around one block of code: the block is the code.
            let block = fence_processor::only_block(source).ok_or(problem.clone())?;
            code::prepare(block, surroundings).map_err(|_| problem)
        })
        .map_err(|problem| account::syntax(&problem))?;
    for (name, line) in &prepared.called {
        match settings.gate.verdict(name) {
            Verdict::Pass => {}
            Verdict::Warn => tracing::warn!(span = "run", call = name, line, "a call that the configuration warns of"),
            Verdict::Block => {
                return Err(format!(
                    "PermissionError: '{name}' is blocked by the configuration (line {line})\nhint: security.blocked and security.allow decide"
                ));
            }
        }
    }
    Ok(prepared)
}

/// Python's truth, for the value of an option.
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
