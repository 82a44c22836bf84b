//! Ready-made bundles: compiled in, and read-only except for being enabled or disabled.
//!
//! Each is one file in `bundles/` with its name, the address of its API, and its tools. A bundle that needs a secret is
//! disabled until the secret is set; one that needs none is disabled until somebody enables it. `tools.<pack>.url` sets
//! another address, such as a self-hosted server.

mod package;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use onetool_config::{AnySection, Reader, Section, keys};
use onetool_state::bundles::{
    AuthBlock, BuiltInBundle, BuiltInTool, HttpImplementation, Implementation, ResponseEncoding,
    SequenceImplementation, SequenceStep, ToolAuth,
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

pub use package::{PACKAGE, PackageKeys, PackageUrls};

keys! {
    /// A ready-made bundle: where its API is.
    pub struct ReadyMadeKeys {
        /// Address of the API, where another is meant than the one that the bundle names.
        url: Option<String> = None, live, example "https://api.example.org";
    }
}

/// Every ready-made bundle: its section, its name and its file.
const FILES: &[(Section<ReadyMadeKeys>, &str, &str)] = &[
    (Section::new("tools.brave"), "brave", include_str!("../../bundles/brave.json")),
    (Section::new("tools.github"), "github", include_str!("../../bundles/github.json")),
    (Section::new("tools.openalex"), "openalex", include_str!("../../bundles/openalex.json")),
    (Section::new("tools.wikipedia"), "wikipedia", include_str!("../../bundles/wikipedia.json")),
    (Section::new("tools.open_meteo"), "open_meteo", include_str!("../../bundles/open_meteo.json")),
    (Section::new("tools.context7"), "context7", include_str!("../../bundles/context7.json")),
    (Section::new("tools.firecrawl"), "firecrawl", include_str!("../../bundles/firecrawl.json")),
];

/// The sections of the ready-made bundles.
pub(crate) fn ready_made_sections() -> impl Iterator<Item = &'static dyn AnySection> {
    FILES.iter().map(|(section, ..)| section as &dyn AnySection)
}

/// The addresses of the APIs of ready-made bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadyMade {
    pub packages: PackageUrls,
    /// Overridden addresses, by pack.
    pub urls: BTreeMap<String, String>,
}

impl ReadyMade {
    /// Reads the sections `tools.<pack>`.
    pub fn read(reader: &mut Reader) -> Self {
        let mut urls = BTreeMap::new();
        for (section, pack, _) in FILES {
            if let Some(url) = reader.read(section).url {
                urls.insert((*pack).to_owned(), url);
            }
        }
        Self { packages: PackageUrls::read(reader), urls }
    }
}

/// One file of `bundles/`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    pack: String,
    display_name: String,
    description: String,
    base: String,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    secrets: Vec<String>,
    #[serde(default)]
    auth: Option<AuthBlock>,
    #[serde(default)]
    headers: IndexMap<String, String>,
    tools: Vec<FileTool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileTool {
    function: String,
    description: String,
    example: String,
    #[serde(default)]
    base: Option<String>,
    #[serde(default)]
    path: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    body: String,
    #[serde(default)]
    headers: IndexMap<String, String>,
    #[serde(default)]
    extract: String,
    #[serde(default)]
    encoding: ResponseEncoding,
    #[serde(default)]
    timeout: Option<u64>,
    arguments: Json,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    output: Option<Json>,
    /// Steps of a sequence, instead of a path.
    #[serde(default)]
    steps: Vec<SequenceStep>,
    #[serde(default)]
    result: Option<Json>,
}

fn yes() -> bool {
    true
}

/// Returns all ready-made bundles. `has_secret` says whether a secret is set.
pub fn built_in_bundles(settings: &ReadyMade, has_secret: &dyn Fn(&str) -> bool) -> Vec<BuiltInBundle> {
    let mut bundles = vec![package::bundle(&settings.packages)];
    for (_, pack, text) in FILES {
        match serde_json::from_str::<File>(text) {
            Ok(file) => bundles.push(bundle(file, settings.urls.get(*pack), has_secret)),
            // Unreachable: a test reads every file.
            Err(error) => tracing::error!(pack, %error, "a ready-made bundle can't be read"),
        }
    }
    bundles
}

fn bundle(file: File, url: Option<&String>, has_secret: &dyn Fn(&str) -> bool) -> BuiltInBundle {
    let missing: Vec<&str> = file.secrets.iter().map(String::as_str).filter(|name| !has_secret(name)).collect();
    let unavailable = (!missing.is_empty())
        .then(|| format!("the secret {} is not set; add it to secrets.yaml", missing.join(" and ")));
    let tool = |tool: FileTool| {
        let arg_schema = json!({
            "type": "object", "properties": tool.arguments, "required": tool.required, "additionalProperties": false,
        });
        let (kind, implementation) = if tool.steps.is_empty() {
            let base = url.or(tool.base.as_ref()).unwrap_or(&file.base).trim_end_matches('/');
            let mut http = HttpImplementation::get(format!("{base}{}", tool.path));
            http.method = tool.method.unwrap_or(http.method);
            http.headers = file.headers.clone();
            http.headers.extend(tool.headers);
            http.body_template = tool.body;
            http.extract_expr = tool.extract;
            http.response_encoding = tool.encoding;
            http.timeout_ms = tool.timeout.unwrap_or(http.timeout_ms);
            if let Some(auth) = &file.auth {
                http.auth = ToolAuth::Own(Box::new(auth.clone()));
            }
            ("http", Implementation::Http(Box::new(http)))
        } else {
            let sequence =
                SequenceImplementation { timeout_ms: 60_000, max_parallel: 8, steps: tool.steps, output: tool.result };
            ("sequence", Implementation::Sequence(Box::new(sequence)))
        };
        BuiltInTool {
            function: tool.function,
            description: tool.description,
            tags: vec![kind.to_owned()],
            implementation,
            arg_schema,
            output_schema: tool.output,
            max_calls_per_minute: None,
            unavailable: unavailable.clone(),
            example: Some(tool.example),
        }
    };
    let tools = file.tools.into_iter().map(tool).collect();
    BuiltInBundle {
        pack: file.pack,
        display_name: file.display_name,
        description: file.description,
        secrets: file.secrets,
        is_enabled: file.enabled,
        tools,
    }
}
