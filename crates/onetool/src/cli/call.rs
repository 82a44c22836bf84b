//! `onetool call pack.function key=value …`: calls one tool without code.
//!
//! A value is text if the parameter takes text; otherwise it is parsed as JSON, or is text if that fails. `key:=value`
//! is always JSON.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use onetool_run::present::{self, Format};
use onetool_sdk::{Arguments, Part, QualifiedName, ToolSource as _, ToolSpec, Value};
use serde_json::{Map, Value as Json};

use super::{Location, ask, table};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool call file.read path=README.md
  onetool call file.grep pattern='fn main' max_matches=5
  onetool call file.read --json '{\"path\": \"README.md\"}'";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CallArgs {
    /// The tool: pack.function
    #[arg(value_parser = tool_name)]
    tool: QualifiedName,

    /// Arguments as name=value (text where the parameter takes text, else JSON) or name:=json
    #[arg(value_name = "NAME=VALUE", conflicts_with = "json")]
    arguments: Vec<String>,

    /// All arguments as one JSON object; `-` reads standard input
    #[arg(long, value_name = "OBJECT")]
    json: Option<String>,
}

fn tool_name(text: &str) -> Result<QualifiedName, String> {
    text.parse().map_err(|_| "this is not a tool name; expected pack.function, for example file.read".to_owned())
}

/// Maximum size of arguments from standard input, in bytes.
const MAX_INPUT: u64 = 64 << 20;

pub async fn main(args: CallArgs, at: Location) -> anyhow::Result<ExitCode> {
    let given = args.json.as_deref().map(object).transpose()?;
    let app = super::start(at)?;
    crate::log::show_prints();
    let arguments = match given {
        Some(given) => Ok(given),
        None => named(spec(&app, &args.tool).await.as_deref(), &args.arguments),
    };
    let answer = match arguments {
        Ok(arguments) => Ok(ask::call(&app, &args.tool, Arguments::from_json(arguments)).await),
        Err(error) => Err(error),
    };
    app.shutdown().await;
    match answer? {
        Ok(value) => {
            show(value)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let told = format!("{}: {}", error.exception(), error.text());
            // The tool's author wants the traceback; its last line is the error itself.
            let traceback = error.traceback.as_deref().map_or("", str::trim_end);
            if let Some(frames) = traceback.strip_suffix(told.as_str()) {
                eprint!("{frames}");
            } else if !traceback.is_empty() {
                eprintln!("{traceback}");
            }
            eprintln!("{told}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The tool's spec; a server may have to connect first.
async fn spec(app: &App, name: &QualifiedName) -> Option<std::sync::Arc<ToolSpec>> {
    let known = || app.runner.toolbox().now().catalog().tool(name).cloned();
    if known().is_none() {
        // Errors are reported by the call itself.
        let _ = ask::telling(app, app.servers().settle(&name.pack, &ask::context(app))).await;
    }
    known()
}

pub fn object(text: &str) -> anyhow::Result<Map<String, Json>> {
    let mut read = String::new();
    let text = if text == "-" {
        std::io::stdin().take(MAX_INPUT).read_to_string(&mut read).context("standard input")?;
        read.as_str()
    } else {
        text
    };
    serde_json::from_str(text).context("--json takes one JSON object, e.g. '{\"query\": \"rust\"}'")
}

pub fn named(tool: Option<&ToolSpec>, pairs: &[String]) -> anyhow::Result<Map<String, Json>> {
    let mut arguments = Map::new();
    for pair in pairs {
        let (name, text) = pair
            .split_once('=')
            .with_context(|| format!("'{pair}' is not an argument; expected name=value or name:=json"))?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => {
                let json = serde_json::from_str(text).with_context(|| format!("{name}: invalid JSON: {text}"))?;
                (name, json)
            }
            None => (name, value(tool, name, text)),
        };
        if arguments.insert(name.to_owned(), value).is_some() {
            anyhow::bail!("the argument '{name}' is given twice");
        }
    }
    Ok(arguments)
}

fn value(tool: Option<&ToolSpec>, name: &str, text: &str) -> Json {
    let schema = tool.and_then(|tool| {
        let properties = tool.input_schema.get("properties")?.as_object()?;
        properties
            .get(name)
            .or_else(|| properties.iter().find(|(key, _)| key.starts_with(name)).map(|(_, value)| value))
    });
    if schema.is_some_and(wants_text) {
        return text.into();
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Whether a schema allows text. `false` for one that is not understood, such as a reference.
fn wants_text(schema: &Json) -> bool {
    let is_text = |kind: &Json| kind == "string";
    match schema.get("type") {
        Some(Json::Array(kinds)) => kinds.iter().any(is_text),
        Some(kind) => is_text(kind),
        None => ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten().any(wants_text),
    }
}

pub fn show(value: Value) -> anyhow::Result<()> {
    let format = if std::io::stdout().is_terminal() { Format::JsonHuman } else { Format::Json };
    let (value, parts) = present::split_parts(value);
    let mut text = value.map(|value| present::format(&value, format)).unwrap_or_default();
    for part in &parts {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&Part::placeholder(part));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    table::print(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(properties: Json) -> ToolSpec {
        let schema = json!({"type": "object", "properties": properties});
        ToolSpec::from_schema("f", "", schema)
    }

    #[test]
    fn values_are_what_the_tool_wants() {
        let tool = spec(json!({
            "code": {"type": "string"}, "count": {"type": "integer"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "list": {"type": ["array", "null"]},
        }));
        let pairs = ["code=5", "cou=5", "maybe=null", "list=[1]", "other=a=b", "x:={\"y\": 1}"].map(str::to_owned);
        assert_eq!(
            Json::Object(named(Some(&tool), &pairs).unwrap()),
            json!({"code": "5", "cou": 5, "maybe": "null", "list": [1], "other": "a=b", "x": {"y": 1}})
        );
    }

    #[test]
    fn what_is_no_argument_is_refused() {
        for pairs in [vec!["x"], vec!["x:=nope"], vec!["x=1", "x=2"]] {
            let pairs: Vec<String> = pairs.into_iter().map(str::to_owned).collect();
            assert!(named(None, &pairs).is_err(), "{pairs:?}");
        }
    }
}
