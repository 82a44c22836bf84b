//! A toolbox with the real `ot` pack, a local pack and an upstream server.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use onetool_sdk::NativeSource;
use onetool_sdk::{
    Arguments, CallContext, Caller, Origin, Pack, QualifiedName, ToolCall, ToolError, ToolSource, ToolSpec, Value,
};
use onetool_state::flat::{FlatFiles, FlatPlaces};
use onetool_state::interface::{Backend as _, Retention, Stream};
use onetool_state::results::ResultStore;
use onetool_state::stats::StatsRecorder;
use parking_lot::RwLock;
use serde_json::{Value as Json, json};

use crate::ot::{Awaited, Toolbox, ot_pack};
use crate::{Catalog, OutputSettings, ServerStatus, Snippet, SnippetParameter, StatsSettings, ToolboxState, Topic};

/// Packs that are listed but never called.
pub(super) struct Shelf(pub(super) Vec<Arc<Pack>>);

#[async_trait]
impl ToolSource for Shelf {
    fn packs(&self) -> Vec<Arc<Pack>> {
        self.0.clone()
    }

    fn generation(&self) -> u64 {
        0
    }

    async fn call(&self, call: ToolCall, _: &CallContext) -> Result<Value, ToolError> {
        Ok(Value::Str(call.name().to_string()))
    }
}

pub(super) fn spec(name: &str, description: &str, schema: Json) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::from_schema(name, description, schema))
}

pub(super) fn pack(name: &str, description: &str, origin: Origin, tools: Vec<Arc<ToolSpec>>) -> Arc<Pack> {
    Arc::new(Pack {
        name: name.to_owned(),
        description: description.to_owned(),
        origin,
        tools: tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect(),
        note: None,
        docs: onetool_sdk::PackDocs::Unsaid,
    })
}

fn packs() -> Vec<Arc<Pack>> {
    let query = json!({"type": "object", "properties": {"query": {"type": "string", "description": "what to look for"},
        "count": {"type": "integer", "default": 10}}, "required": ["query"]});
    let mut search =
        Arc::unwrap_or_clone(spec("search", "Search the web.\n\nUses an index of its own.", query.clone()));
    search.returns = Some("one dict a page".to_owned());
    search.signature.returns = Some("list[dict]".to_owned());
    search.example = Some("brave.search(query=\"rust\")".to_owned());
    let github = json!({"type": "object", "properties": {
        "repo": {"type": "string"},
        "query": {"type": "string", "description": "what to look for"}}, "required": ["query"]});
    let worker = |name: &str| Origin::Worker { file: format!("/tools/{name}.py").into() };
    vec![
        pack(
            "brave",
            "Web search",
            worker("brave"),
            vec![Arc::new(search), spec("web_search", "Search pages.", query)],
        ),
        pack(
            "web",
            "Pages",
            worker("web"),
            vec![spec(
                "fetch",
                "Fetch a web page as text.",
                json!({"properties": {
            "url": {"type": "string", "description": "address of the document"}}, "required": ["url"]}),
            )],
        ),
        pack("firecrawl", "Crawl sites", worker("firecrawl"), vec![spec("scrape", "Scrape one site.", json!({}))]),
        pack("excel", "Sheets", worker("excel"), vec![spec("scaffold", "Make an empty workbook.", json!({}))]),
        pack("github", "", Origin::Proxy { server: "github".into() }, vec![spec("search", "Find code.", github)]),
    ]
}

pub(super) struct TestToolbox {
    pub(super) state: RwLock<Arc<ToolboxState>>,
    pub(super) stats: Arc<StatsRecorder>,
}

#[async_trait]
impl Toolbox for TestToolbox {
    fn state(&self) -> Arc<ToolboxState> {
        self.state.read().clone()
    }

    async fn settle(&self, _: Awaited, _: &CallContext) {}

    fn sessions(&self) -> Arc<onetool_sandbox::Sessions> {
        Arc::default()
    }

    async fn evaluate(&self, _: &str, _: &CallContext) -> Result<Value, ToolError> {
        Err(ToolError::unavailable("there is no sandbox here"))
    }

    fn reload(&self) -> Result<(), ToolError> {
        self.change(|state| {
            state.aliases.insert("fresh".into(), "brave.search".into());
        });
        Ok(())
    }
}

impl TestToolbox {
    pub(super) fn change(&self, change: impl FnOnce(&mut ToolboxState)) {
        change(Arc::make_mut(&mut self.state.write()));
    }

    /// Calls `ot.{function}` as the call path would.
    pub(super) async fn try_call(&self, function: &str, arguments: Json) -> Result<Value, ToolError> {
        let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
        let catalog = self.state().catalog.clone();
        let entry = catalog.pack("ot").expect("the pack is there").clone();
        let tool = catalog.tool(&QualifiedName::new("ot", function)).expect("the tool is there").clone();
        let call =
            ToolCall { pack: entry.pack.clone(), tool, version: None, arguments: Arguments::from_json(arguments) };
        entry.source.call(call, &CallContext::new(Caller::Rust)).await
    }

    pub(super) async fn call(&self, function: &str, arguments: Json) -> Value {
        self.try_call(function, arguments).await.expect("the call succeeds")
    }

    pub(super) async fn json(&self, function: &str, arguments: Json) -> Json {
        self.call(function, arguments).await.to_json()
    }

    pub(super) async fn text(&self, function: &str, arguments: Json) -> String {
        match self.call(function, arguments).await {
            Value::Str(text) => text,
            other => panic!("{function} answered {}", other.repr()),
        }
    }
}

/// A toolbox in `folder`, with the packs given beside `ot`.
pub(super) fn toolbox_with(folder: &Path, packs: Vec<Arc<Pack>>) -> Arc<TestToolbox> {
    let places =
        FlatPlaces::new(folder.join(".onetool")).with_stream(Stream::STATS, &folder.join(".onetool/stats/stats.jsonl"));
    let trail = FlatFiles::new(places).trail();
    let stats = Arc::new(StatsRecorder::new(trail, Duration::from_mins(10)));
    Arc::new_cyclic(|weak: &Weak<TestToolbox>| {
        let native = NativeSource::new(vec![ot_pack(weak.clone(), stats.clone())]);
        let catalog = Catalog::new(&[Arc::new(native), Arc::new(Shelf(packs))]);
        TestToolbox { state: RwLock::new(Arc::new(state(folder, catalog))), stats }
    })
}

pub(super) fn toolbox(folder: &Path) -> Arc<TestToolbox> {
    toolbox_with(folder, packs())
}

fn state(folder: &Path, catalog: Catalog) -> ToolboxState {
    let parameter = |required, default, description: &str| SnippetParameter {
        required,
        kind: None,
        default,
        description: Some(description.to_owned()),
    };
    let research = Snippet {
        description: "Search web and extract structured findings".into(),
        parameters: IndexMap::from([
            ("topic".to_owned(), parameter(true, None, "Topic to research")),
            ("count".to_owned(), parameter(false, Some(json!(5)), "Number of sources")),
        ]),
        body: "results = brave.search(query=\"{{ topic }}\", count={{ count }})\n\
               llm.transform(input=results, prompt=\"Extract key findings\")\n"
            .into(),
        is_saved: false,
    };
    let package = Snippet { description: "Versions".into(), body: "pkg.npm()".into(), ..Snippet::default() };
    ToolboxState {
        catalog: Arc::new(catalog),
        search: Arc::default(),
        permissions: crate::Permissions::default(),
        overrides: IndexMap::new(),
        docs: IndexMap::new(),
        groups: Arc::default(),
        quotas: Arc::default(),
        saved: Arc::new(crate::SavedCode::nowhere()),
        learned: Arc::new(crate::LearnedShapes::in_file(folder.join("shapes.json"))),
        aliases: IndexMap::from([
            ("ws".to_owned(), "brave.web_search".to_owned()),
            ("alias_f".to_owned(), "demo.foo".to_owned()),
        ]),
        snippets: IndexMap::from([("brv_research".to_owned(), research), ("pkg_v".to_owned(), package)]),
        instructions: IndexMap::from([("excel".to_owned(), "Open the workbook before you write.".to_owned())]),
        servers: vec![ServerStatus { name: "github".into(), state: "connected".into(), reason: None }],
        topics: vec![
            Topic { pattern: "notes".into(), file: folder.join(".onetool/notes.yaml") },
            Topic { pattern: "note*".into(), file: folder.join(".onetool/other.yaml") },
        ],
        output: OutputSettings {
            max_inline_size: 50_000,
            result_ttl: Duration::from_hours(1),
            preview_lines: 10,
            max_media_bytes: 8 << 20,
            result_store_dir: folder.join(".onetool/tmp"),
            max_store_bytes: 1 << 30,
        },
        results: ResultStore::in_folder(folder.join(".onetool/tmp"), Retention::default()),
        trail: None,
        stats: StatsSettings {
            enabled: true,
            file: folder.join(".onetool/stats/stats.jsonl"),
            flush_interval: Duration::from_secs(30),
            context_per_call: Some(30_000),
            time_overhead_per_call_ms: Some(4_000),
            input_cost: 15.0,
            output_cost: 75.0,
            chars_per_token: 4.0,
            shapes: true,
        },
        folder: folder.to_owned(),
        storage: vec![folder.join(".onetool")],
        engine: "3.14 (monty)".into(),
        notes: Vec::new(),
    }
}
