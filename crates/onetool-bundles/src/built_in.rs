//! Ready-made bundles of HTTP tools.

use std::fmt::Write as _;

use onetool_config::{Reader, Section, keys};
use onetool_state::bundles::{ApiKeyPlace, Auth, BuiltInBundle, BuiltInTool, HttpImplementation, Implementation};
use serde_json::{Value as Json, json};

keys! {
    /// The pack `package`: where package registries are. A registry without an address is off.
    pub struct PackageKeys {
        /// JavaScript packages.
        npm_url: Option<String> = None, live, example "https://npm.example.org";
        /// Python packages.
        pypi_url: Option<String> = None, live, example "https://pypi.example.org";
        /// Rust crates.
        crates_url: Option<String> = None, live, example "https://crates.example.org";
    }
}

pub const PACKAGE: Section<PackageKeys> = Section::new("tools.package");

/// Where package registries are: the keys `tools.package.npm_url`, `…pypi_url` and `…crates_url`. A registry without an
/// address is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageUrls {
    pub npm: Option<String>,
    pub pypi: Option<String>,
    pub crates: Option<String>,
}

impl PackageUrls {
    /// From the section `tools.package`.
    pub fn read(reader: &mut Reader) -> Self {
        let PackageKeys { npm_url, pypi_url, crates_url } = reader.read(&PACKAGE);
        Self { npm: npm_url, pypi: pypi_url, crates: crates_url }
    }
}

/// `brave` and `package`.
pub fn built_in_bundles(package: &PackageUrls) -> Vec<BuiltInBundle> {
    vec![brave(), package_versions(package)]
}

const BRAVE: &str = "https://api.search.brave.com/res/v1";

fn brave() -> BuiltInBundle {
    let tools = vec![
        brave_tool(
            "web_search",
            "Searches the web.",
            "web/search",
            "$.web.results",
            20,
            &["country", "search_lang", "freshness", "safesearch", "offset"],
        ),
        brave_tool(
            "news_search",
            "Searches news.",
            "news/search",
            "$.results",
            50,
            &["country", "search_lang", "freshness", "offset"],
        ),
        brave_tool(
            "image_search",
            "Searches images.",
            "images/search",
            "$.results",
            100,
            &["country", "search_lang", "safesearch"],
        ),
        brave_tool(
            "video_search",
            "Searches videos.",
            "videos/search",
            "$.results",
            50,
            &["country", "search_lang", "freshness", "offset"],
        ),
    ];
    BuiltInBundle {
        pack: "brave".to_owned(),
        display_name: "Brave Search".to_owned(),
        description: "Web, news, image and video search by Brave. Needs the secret BRAVE_API_KEY.".to_owned(),
        secrets: vec!["BRAVE_API_KEY".to_owned()],
        tools,
    }
}

fn brave_tool(
    function: &str,
    description: &str,
    path: &str,
    extract: &str,
    most: u32,
    options: &[&str],
) -> BuiltInTool {
    let mut properties = json!({
        "query": {"type": "string", "minLength": 1, "maxLength": 400, "description": "what to search for"},
        "count": {"type": "integer", "minimum": 1, "maximum": most, "default": 10, "description": "how many results"},
    });
    let mut url = format!("{BRAVE}/{path}?q=${{query}}&count=${{count}}");
    for &option in options {
        properties[option] = match option {
            "country" => {
                json!({"type": "string", "pattern": "^([A-Z]{2}|ALL)$", "description": "two letters, e.g. US"})
            }
            "search_lang" => {
                json!({"type": "string", "maxLength": 10, "description": "language of the results, e.g. en"})
            }
            "freshness" => json!({"type": "string", "maxLength": 30,
                "description": "pd, pw, pm, py (past day, week, month, year) or YYYY-MM-DDtoYYYY-MM-DD"}),
            "safesearch" => json!({"enum": ["off", "moderate", "strict"]}),
            _ => json!({"type": "integer", "minimum": 0, "maximum": 9, "description": "page, from 0"}),
        };
        let _ = write!(url, "&{option}=${{{option}}}");
    }
    let mut http = HttpImplementation::get(url);
    http.headers.insert("Accept".to_owned(), "application/json".to_owned());
    http.auth = Auth::ApiKey {
        place: ApiKeyPlace::Header,
        name: "X-Subscription-Token".to_owned(),
        value: "${BRAVE_API_KEY}".to_owned(),
    }
    .into();
    extract.clone_into(&mut http.extract_expr);
    tool(function, description, http, properties, &["query"])
}

fn package_versions(urls: &PackageUrls) -> BuiltInBundle {
    let one = |function: &str, base: Option<&String>, path: &str, extract: &str, description: &str| {
        let unset = format!("https://{function}.invalid");
        let base = base.map(|base| base.trim_end_matches('/'));
        let mut http = HttpImplementation::get(format!("{}{path}", base.unwrap_or(&unset)));
        extract.clone_into(&mut http.extract_expr);
        let properties = json!({
            "name": {"type": "string", "minLength": 1, "maxLength": 214, "description": "the package's name"},
        });
        let mut tool = tool(function, description, http, properties, &["name"]);
        if base.is_none() {
            tool.unavailable = Some(format!("configure tools.package.{function}_url with the registry's address"));
        }
        tool
    };
    BuiltInBundle {
        pack: "package".to_owned(),
        display_name: "Package versions".to_owned(),
        description: "The latest version of a package, from its registry.".to_owned(),
        secrets: Vec::new(),
        tools: vec![
            one("npm", urls.npm.as_ref(), "/${name}/latest", "$.version", "The latest version of an npm package."),
            one(
                "pypi",
                urls.pypi.as_ref(),
                "/pypi/${name}/json",
                "$.info.version",
                "The latest version of a Python package.",
            ),
            one(
                "crates",
                urls.crates.as_ref(),
                "/api/v1/crates/${name}",
                "$.crate.max_stable_version",
                "The latest stable version of a Rust crate.",
            ),
        ],
    }
}

fn tool(
    function: &str,
    description: &str,
    http: HttpImplementation,
    properties: Json,
    required: &[&str],
) -> BuiltInTool {
    BuiltInTool {
        function: function.to_owned(),
        description: description.to_owned(),
        tags: vec!["http".to_owned()],
        implementation: Implementation::Http(Box::new(http)),
        arg_schema: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }),
        output_schema: None,
        max_calls_per_minute: None,
        unavailable: None,
    }
}
