//! Bundles as packs: an enabled bundle is a pack, its enabled tools are the pack's functions.
//!
//! If a tool has several versions, the newest enabled one is used, and `_version="v2"` selects another. When the store
//! changes, packs are rebuilt bundle by bundle; a large number of changed tools is read in the background.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::Utc;
use indexmap::IndexMap;
use onetool_sdk::{
    Arguments, CallContext, CallReport, Effect, ErrorKind, HealthNote, NoteFacts, Origin, Pack, PackDocs, PageReport,
    QualifiedName, Severity, Signature, ToolCall, ToolError, ToolSource, ToolSpec, VERSION_ARGUMENT, Value, Violation,
    is_python_identifier, to_python_identifier,
};
use onetool_state::bundles::{
    Bundle, BundleId, BundleStore, BundleView, Disabled, ErrorMode, Implementation, Tool, ToolView,
};
use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value as Json, json};

use super::arguments::{fitting, with_path_variables};
use super::engine::{Compiled, HttpEngine, Outcome, Work};
use super::request::is_idempotent_name;
use super::sequence::Execution;

/// Up to this number of changed tools are read in the foreground.
const FEW_TOOLS: usize = 300;
/// How long the first access waits for the store to load.
const LOAD_PATIENCE: Duration = Duration::from_millis(20);
/// Larger than the number of bundles in any store.
const ALL_BUNDLES: usize = 100_000;

/// Offers the store's bundles as packs.
pub struct BundleSource {
    inner: Arc<Inner>,
    builder: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    store: BundleStore,
    engine: Arc<HttpEngine>,
    built: Mutex<Built>,
    /// The store generation that `built` represents.
    generation: AtomicU64,
    /// Whether a background thread is reading tools.
    building: Mutex<bool>,
    built_once: Condvar,
    /// Languages of tool descriptions, in order of preference.
    languages: Vec<String>,
}

#[derive(Default)]
struct Built {
    bundles: HashMap<BundleId, (u64, Arc<BuiltPack>)>,
    packs: Vec<Arc<Pack>>,
    notes: Vec<HealthNote>,
}

struct BuiltPack {
    pack: Arc<Pack>,
    is_built_in: bool,
    /// Newest first.
    functions: HashMap<String, Vec<Arc<BuiltTool>>>,
}

struct BuiltTool {
    bundle: Arc<Bundle>,
    tool: Tool,
    compiled: OnceLock<Result<Compiled, String>>,
}

impl BundleSource {
    pub fn new(store: BundleStore, engine: Arc<HttpEngine>) -> Self {
        Self::in_languages(store, engine, Vec::new())
    }

    /// Creates a source with descriptions in the first of `languages` that each tool has.
    pub fn in_languages(store: BundleStore, engine: Arc<HttpEngine>, languages: Vec<String>) -> Self {
        let inner = Inner {
            store,
            engine,
            built: Mutex::default(),
            generation: AtomicU64::new(0),
            building: Mutex::new(false),
            built_once: Condvar::new(),
            languages,
        };
        Self { inner: Arc::new(inner), builder: Mutex::new(None) }
    }

    /// Languages of tool descriptions, in order of preference.
    pub fn languages(&self) -> &[String] {
        &self.inner.languages
    }

    /// Waits until the packs reflect the store, at most `patience`. Blocks: call it where blocking is allowed.
    pub fn settle(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        if !self.inner.store.is_loaded(patience) {
            return false;
        }
        loop {
            self.update();
            let mut building = self.inner.building.lock();
            if !*building {
                return self.inner.generation.load(Ordering::Acquire) == self.inner.store.generation();
            }
            if self.inner.built_once.wait_until(&mut building, until).timed_out() {
                return false;
            }
        }
    }

    /// Updates the packs, or starts an update in the background.
    fn update(&self) {
        if !self.inner.store.is_loaded(LOAD_PATIENCE) {
            return;
        }
        let generation = self.inner.store.generation();
        if generation == self.inner.generation.load(Ordering::Acquire) || *self.inner.building.lock() {
            return;
        }
        let bundles = self.inner.enabled_bundles();
        let changed: usize = {
            let built = self.inner.built.lock();
            let is_new =
                |view: &&BundleView| built.bundles.get(&view.bundle.id).is_none_or(|(at, _)| *at != view.generation);
            bundles.iter().filter(is_new).map(|view| view.tool_count).sum()
        };
        if changed <= FEW_TOOLS {
            self.inner.rebuild(&bundles, generation);
            return;
        }
        if std::mem::replace(&mut *self.inner.building.lock(), true) {
            return;
        }
        let inner = self.inner.clone();
        let started = std::thread::Builder::new().name("bundle-packs".to_owned()).spawn(move || {
            inner.rebuild(&bundles, generation);
            inner.end_building();
        });
        match started {
            Ok(thread) => {
                if let Some(previous) = self.builder.lock().replace(thread) {
                    let _ = previous.join();
                }
            }
            Err(_) => self.inner.end_building(),
        }
    }
}

impl Drop for BundleSource {
    fn drop(&mut self) {
        if let Some(thread) = self.builder.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn enabled_bundles(&self) -> Vec<BundleView> {
        self.store.bundles(&[], Disabled::Hidden, ALL_BUNDLES, None).map(|page| page.items).unwrap_or_default()
    }

    fn end_building(&self) {
        *self.building.lock() = false;
        self.built_once.notify_all();
    }

    fn rebuild(&self, bundles: &[BundleView], generation: u64) {
        let mut fresh = HashMap::with_capacity(bundles.len());
        for view in bundles {
            let id = view.bundle.id;
            let known = self.built.lock().bundles.get(&id).filter(|(at, _)| *at == view.generation).cloned();
            let entry = known.or_else(|| {
                Some((view.generation, Arc::new(build(view, self.store.tools_of(id).ok()?, &self.languages))))
            });
            fresh.extend(entry.map(|entry| (id, entry)));
        }
        // If two bundles share a name, the user's own wins, then the older one.
        let mut order: Vec<&Arc<BuiltPack>> = bundles
            .iter()
            .rev()
            .filter_map(|view| fresh.get(&view.bundle.id).map(|(_, pack)| pack))
            .filter(|pack| !pack.functions.is_empty())
            .collect();
        order.sort_by_key(|pack| pack.is_built_in);
        let mut names = HashSet::new();
        let mut packs = Vec::new();
        let mut notes = Vec::new();
        for built in order {
            if names.insert(built.pack.name.clone()) {
                packs.push(built.pack.clone());
            } else {
                notes.push(HealthNote {
                    severity: Severity::Warning,
                    subject: format!("bundle {}", built.pack.name),
                    message: "another enabled bundle has the same name and answers instead".to_owned(),
                    facts: NoteFacts::default(),
                });
            }
        }
        *self.built.lock() = Built { bundles: fresh, packs, notes };
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether calling a tool again has no further effect, if it is a bundle's tool.
    fn is_repeatable(&self, name: &QualifiedName, version: Option<&str>, depth: u32) -> bool {
        const DEEPEST: u32 = 16;
        let picked = {
            let built = self.built.lock();
            let pack = built.packs.iter().find(|pack| pack.name == name.pack);
            let id = pack.and_then(|pack| match &pack.origin {
                Origin::Bundle { id } => id.parse::<BundleId>().ok(),
                _ => None,
            });
            let pack = id.and_then(|id| built.bundles.get(&id)).map(|(_, pack)| pack.clone());
            let versions = pack.as_ref().and_then(|pack| pack.functions.get(&name.function));
            versions.and_then(|versions| {
                let fits = |one: &&Arc<BuiltTool>| version.is_none_or(|version| one.tool.version.as_str() == version);
                versions.iter().find(fits).cloned()
            })
        };
        match picked.as_ref().map(|picked| &picked.tool.implementation) {
            Some(Implementation::Http(http)) => is_idempotent_name(&http.method),
            Some(Implementation::Sequence(sequence)) if depth < DEEPEST => sequence.steps.iter().all(|step| {
                let name = step.tool.parse::<QualifiedName>();
                name.is_ok_and(|name| self.is_repeatable(&name, step.version.as_deref(), depth + 1))
            }),
            _ => false,
        }
    }

    fn pick(&self, call: &ToolCall, version: Option<&str>) -> Result<Arc<BuiltTool>, ToolError> {
        let name = call.name();
        let missing = || ToolError::not_found(format!("{name} is not there any more"));
        let Origin::Bundle { id } = &call.pack.origin else { return Err(missing()) };
        let id: BundleId = id.parse().map_err(|_| missing())?;
        let pack = self.built.lock().bundles.get(&id).map(|(_, pack)| pack.clone()).ok_or_else(missing)?;
        let versions = pack.functions.get(&name.function).ok_or_else(missing)?;
        match version {
            None => versions.first().cloned().ok_or_else(missing),
            Some(wanted) => versions.iter().find(|one| one.tool.version.as_str() == wanted).cloned().ok_or_else(|| {
                let known: Vec<&str> = versions.iter().map(|one| one.tool.version.as_str()).collect();
                ToolError::not_found(format!("{name} has no version '{wanted}'"))
                    .with_hint(format!("there are: {}", known.join(", ")))
            }),
        }
    }
}

fn build(view: &BundleView, tools: Vec<ToolView>, languages: &[String]) -> BuiltPack {
    let bundle = &view.bundle;
    let mut functions: IndexMap<String, Vec<Arc<BuiltTool>>> = IndexMap::new();
    for view in tools.into_iter().filter(ToolView::is_callable) {
        // Native packs have their own source.
        if bundle.is_built_in && matches!(view.tool.implementation, Implementation::Native(_)) {
            continue;
        }
        let tool = with_path_variables(&view.tool).unwrap_or(view.tool);
        let tool = BuiltTool { bundle: bundle.clone(), tool, compiled: OnceLock::new() };
        functions.entry(tool.tool.slug.identifier()).or_default().push(Arc::new(tool));
    }
    functions.sort_keys();
    let specs =
        functions.iter().map(|(name, versions)| (name.clone(), Arc::new(spec(name, versions, languages)))).collect();
    let (display_name, text) = bundle.translations.choose(languages, &bundle.display_name, &bundle.description);
    let description = if text.is_empty() { display_name } else { text }.to_owned();
    let pack = Pack {
        name: bundle.slug.identifier(),
        description,
        origin: Origin::Bundle { id: bundle.id.to_string() },
        tools: specs,
        note: None,
        docs: bundle.docs.as_deref().and_then(PackDocs::read).unwrap_or_default(),
    };
    BuiltPack { pack: Arc::new(pack), is_built_in: bundle.is_built_in, functions: functions.into_iter().collect() }
}

fn spec(name: &str, versions: &[Arc<BuiltTool>], languages: &[String]) -> ToolSpec {
    let newest = versions.first().map(|one| &one.tool);
    let only = newest.filter(|_| versions.len() == 1);
    let input_schema = match only {
        Some(tool) => tool.arg_schema.clone(),
        None => merged_schema(versions),
    };
    let signature = Signature::from_json_schema(&input_schema);
    // A failed request may return an empty value that does not match the output schema.
    let keeps_promise = |tool: &&Tool| match &tool.implementation {
        Implementation::Http(http) => http.error_mode == ErrorMode::Fail,
        Implementation::Native(_) | Implementation::Sequence(_) => true,
    };
    ToolSpec {
        name: name.to_owned(),
        description: newest
            .map(|tool| {
                let (name, text) = tool.translations.choose(languages, &tool.display_name, &tool.description);
                if text.is_empty() { name } else { text }.to_owned()
            })
            .unwrap_or_default(),
        checkable: only.is_some() && signature.parameters.iter().all(|one| is_python_identifier(&one.name)),
        signature,
        input_schema: input_schema.into(),
        output_schema: only.filter(keeps_promise).and_then(|tool| tool.output_schema.clone()),
        returns: only.and_then(returns),
        example: newest.and_then(|tool| tool.example.clone()),
        effect: versions.iter().map(|one| effect_of(&one.tool)).reduce(least_certain).unwrap_or_default(),
    }
}

/// The side effects of calling a tool. Those of a sequence are determined by its steps.
fn effect_of(tool: &Tool) -> Effect {
    match &tool.implementation {
        Implementation::Http(http) if matches!(http.method.to_ascii_uppercase().as_str(), "GET" | "HEAD") => {
            Effect::ReadOnly
        }
        Implementation::Http(http) if is_idempotent_name(&http.method) => Effect::Idempotent,
        Implementation::Http(_) => Effect::Unknown,
        Implementation::Sequence(_) => Effect::Transparent,
        Implementation::Native(_) => Effect::Transparent,
    }
}

/// If versions differ, the effect is unknown: a call may select any of them.
fn least_certain(one: Effect, other: Effect) -> Effect {
    if one == other { one } else { Effect::Unknown }
}

/// Describes the result of a paginated list: a model must know that it may be truncated.
fn returns(tool: &Tool) -> Option<String> {
    let Implementation::Http(http) = &tool.implementation else { return None };
    let pages = http.paginate.as_ref()?;
    if pages.envelope {
        return Some("{items, pages, cut, next}: the items of all pages; cut says why there are more".to_owned());
    }
    Some(match (pages.max_items, pages.max_pages) {
        (Some(items), _) => format!("the items of all pages, at most {items}"),
        (None, Some(pages)) => format!("the items of all pages, at most {pages} pages"),
        (None, None) => "the items of all pages, as many as http.max_items and http.max_pages allow".to_owned(),
    })
}

/// A schema that accepts the arguments of any version; the selected version then checks its own.
fn merged_schema(versions: &[Arc<BuiltTool>]) -> Json {
    let mut properties = Map::new();
    let mut required: Option<Vec<String>> = None;
    for one in versions {
        let schema = &one.tool.arg_schema;
        for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
            match properties.get(name) {
                None => {
                    properties.insert(name.clone(), property.clone());
                }
                Some(same) if same == property => {}
                Some(_) => {
                    properties.insert(name.clone(), json!({}));
                }
            }
        }
        let needs: Vec<String> = schema
            .get("required")
            .and_then(Json::as_array)
            .map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        required = Some(match required {
            Some(required) => required.into_iter().filter(|name| needs.contains(name)).collect(),
            None => needs,
        });
    }
    let labels: Vec<&str> = versions.iter().map(|one| one.tool.version.as_str()).collect();
    properties.insert(
        VERSION_ARGUMENT.to_owned(),
        json!({"enum": labels, "default": labels.first(), "description": "which version to call"}),
    );
    json!({
        "type": "object", "properties": properties, "required": required.unwrap_or_default(), "additionalProperties": false,
    })
}

#[async_trait]
impl ToolSource for BundleSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        self.update();
        self.inner.built.lock().packs.clone()
    }

    fn generation(&self) -> u64 {
        self.update();
        self.inner.generation.load(Ordering::Acquire)
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let arguments = call.arguments.named.clone();
        let picked = self.inner.pick(&call, call.version.as_deref())?;
        let compiled = picked
            .compiled
            .get_or_init(|| self.inner.engine.compile(&picked.bundle, &picked.tool))
            .as_ref()
            .map_err(|reason| {
                ToolError::unavailable(format!("{} can't be used: {reason}", call.name())).with_hint("store it anew")
            })?;
        let arguments = fitting(&compiled.arguments, arguments, &picked.tool.arg_schema)?;
        self.inner.engine.check_tool_rate(picked.tool.id, picked.tool.max_calls_per_minute).await?;
        self.inner.store.record_call(picked.tool.id, Utc::now());
        let mut report = CallReport::default();
        let outcome = match &compiled.work {
            Work::Native => return call_native(&picked.tool, arguments, ctx).await,
            Work::Http(http) => self.inner.engine.call(http, &arguments, ctx, &mut report).await,
            Work::Sequence(sequence) => {
                let started = Instant::now();
                let execution = Execution {
                    sequence,
                    settings: self.inner.engine.sequences(),
                    is_repeatable: &|name, version| self.inner.is_repeatable(name, version, 0),
                };
                let value = execution.run(&with_defaults(arguments, &picked.tool), ctx, &mut report.trace).await;
                report.duration = started.elapsed();
                value.map(|value| Outcome { value, is_empty: false })
            }
        };
        if let Some(PageReport { pages, items, cut: Some(cut) }) = report.pages {
            ctx.notices.add(&format!(
                "{}: the list is not whole: {} after {items} items in {pages} pages",
                call.name(),
                cut.reason()
            ));
        }
        if let Some(slot) = &ctx.report {
            slot.fill(report);
        }
        let outcome = outcome?;
        if let Some(output) = compiled.output.as_ref().filter(|_| !outcome.is_empty) {
            output.validate(&outcome.value).map_err(|violation| {
                let Violation { pointer, message } = violation;
                let place = if pointer.is_empty() { String::new() } else { format!(" at {pointer}") };
                let message = format!("the value does not fit outputSchema{place}: {message}");
                ToolError::new(ErrorKind::Output, message).at(pointer)
            })?;
        }
        Ok(Value::from_json(outcome.value))
    }

    fn absence(&self, pack: &str) -> Option<String> {
        if *self.inner.building.lock() {
            return Some("bundles are still being read; try again in a moment".to_owned());
        }
        const LOOKED_AT: usize = 1000;
        let bundles = self.inner.store.bundles(&[], Disabled::Shown, LOOKED_AT, None).ok()?;
        let bundle = bundles.items.iter().find(|view| to_python_identifier(view.bundle.slug.as_str()) == pack)?;
        let slug = &bundle.bundle.slug;
        Some(if bundle.bundle.is_enabled {
            let tools = self.inner.store.tools_of(bundle.bundle.id).unwrap_or_default();
            let reason = tools.into_iter().find(|tool| !tool.is_available).and_then(|tool| tool.disabled_reason);
            match reason {
                Some(reason) => format!("the bundle '{slug}' is off: {reason}"),
                None => format!("the bundle '{slug}' has no tool that is switched on"),
            }
        } else {
            format!("the bundle '{slug}' is switched off; `onetool bundles enable {slug}` switches it on")
        })
    }

    fn secrets(&self, name: &QualifiedName) -> Vec<String> {
        let found = self.inner.built.lock().bundles.values().find_map(|(_, built)| {
            (built.pack.name == name.pack).then(|| built.functions.get(&name.function).cloned()).flatten()
        });
        let mut names = Vec::new();
        // All versions: a call may select any.
        for tool in found.iter().flatten() {
            let compiled = tool.compiled.get_or_init(|| self.inner.engine.compile(&tool.bundle, &tool.tool));
            if let Ok(Compiled { work: Work::Http(http), .. }) = compiled {
                names.extend(http.secret_names.iter().cloned());
            }
        }
        names
    }

    fn health(&self) -> Vec<HealthNote> {
        let mut notes = self.inner.built.lock().notes.clone();
        notes.extend(self.inner.store.problems().into_iter().map(|problem| HealthNote {
            severity: Severity::Warning,
            subject: problem.path.display().to_string(),
            message: problem.message,
            facts: NoteFacts::default(),
        }));
        notes
    }
}

/// Fills in missing arguments with the defaults of their schema.
fn with_defaults(mut arguments: IndexMap<String, Value>, tool: &Tool) -> IndexMap<String, Value> {
    let properties = tool.arg_schema.get("properties").and_then(Json::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !arguments.contains_key(name)) {
            arguments.insert(name.clone(), Value::from_json(default.clone()));
        }
    }
    arguments
}

async fn call_native(tool: &Tool, named: IndexMap<String, Value>, ctx: &CallContext) -> Result<Value, ToolError> {
    let Implementation::Native(native) = &tool.implementation else {
        return Err(ToolError::internal("a tool without anything to call"));
    };
    let name: QualifiedName = native.function.parse()?;
    let tools = ctx.tools.clone().ok_or_else(|| ToolError::internal("this call has no way to other tools"))?;
    // This tool is only another name for that one, whose report is the report of this call.
    let within = CallContext { report: ctx.report.clone(), ..ctx.nested() };
    tools.call_tool(&name, Arguments { positional: Vec::new(), named }, &within).await
}
