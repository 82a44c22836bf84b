//! `package`: the latest versions of packages, from registries whose addresses the configuration names.

use onetool_config::{Reader, Section, keys};
use onetool_state::bundles::{BuiltInBundle, BuiltInTool, HttpImplementation, Implementation};
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

/// Addresses of package registries: the keys `tools.package.npm_url`, `…pypi_url` and `…crates_url`. A registry without
/// an address is disabled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageUrls {
    pub npm: Option<String>,
    pub pypi: Option<String>,
    pub crates: Option<String>,
}

impl PackageUrls {
    /// Reads the section `tools.package`.
    pub fn read(reader: &mut Reader) -> Self {
        let PackageKeys { npm_url, pypi_url, crates_url } = reader.read(&PACKAGE);
        Self { npm: npm_url, pypi: pypi_url, crates: crates_url }
    }
}

pub(super) fn bundle(urls: &PackageUrls) -> BuiltInBundle {
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
        is_enabled: true,
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
        output_schema: Some(json!({"type": ["string", "null"]})),
        max_calls_per_minute: None,
        unavailable: None,
        example: Some(format!("package.{function}(name='serde')")),
    }
}
