//! A listing as a pack: Python names, signatures, cleaned descriptions, and for every function the route of its calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use globset::{Glob, GlobSet, GlobSetBuilder};
use indexmap::IndexMap;
use onetool_sdk::{
    Effect, Origin, Pack, Parameter, ParameterKind, Signature, ToolSpec, is_python_identifier, to_python_identifier,
};
use serde_json::{Map, Value as Json, json};

use super::listing::{Listing, RemoteTool};
use super::pins::{INSTRUCTIONS, PinError, ServerPins};
use super::result::Reading;
use super::settings::{PinMode, ServerSettings, limits};
use super::text::{clean, clean_json};

/// What a function of a pack refers to.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// A tool of the server.
    Tool(Arc<ToolRoute>),
    /// A tool that must not be called, and why.
    Blocked { reason: String },
    /// `resources()`
    Resources,
    /// `read(uri)`
    Read,
    /// `prompts()`
    Prompts,
    /// `prompt(name, /, **arguments)`
    Prompt,
}

/// How to call a tool.
#[derive(Debug)]
pub(super) struct ToolRoute {
    /// The name in the server's listing.
    pub(super) original: String,
    /// Maps Python names of parameters to original names that are not identifiers.
    pub(super) renamed: HashMap<String, String>,
    pub(super) reading: Reading,
    /// Set when the server has refused a call that is not a task.
    pub(super) is_task: AtomicBool,
}

/// The name of a server's instructions in the list of changed tools.
pub(super) const CHANGED_INSTRUCTIONS: &str = "its instructions";

/// A pack, how to call its functions, and which tools changed since they were pinned.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) pack: Arc<Pack>,
    pub(super) routes: HashMap<String, Route>,
    /// Tools that changed since they were pinned, by their original names.
    pub(super) changed: Vec<String>,
    pub(super) tool_count: usize,
}

/// Which tools of a server are offered.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Filter {
    pub(super) fn new(settings: &ServerSettings) -> Result<Self, globset::Error> {
        let set = |globs: &[String]| -> Result<GlobSet, globset::Error> {
            let mut builder = GlobSetBuilder::new();
            for glob in globs {
                builder.add(Glob::new(glob)?);
            }
            builder.build()
        };
        let include = if settings.include.is_empty() { None } else { Some(set(&settings.include)?) };
        Ok(Self { include, exclude: set(&settings.exclude)? })
    }

    fn wants(&self, name: &str) -> bool {
        self.include.as_ref().is_none_or(|globs| globs.is_match(name)) && !self.exclude.is_match(name)
    }
}

/// The inputs for building a pack.
pub(super) struct PackInputs<'a> {
    pub(super) settings: &'a ServerSettings,
    pub(super) pack_name: &'a str,
    pub(super) filter: &'a Filter,
    pub(super) listing: Option<&'a Listing>,
    pub(super) pins: &'a Result<ServerPins, PinError>,
    pub(super) note: Option<String>,
}

impl PackInputs<'_> {
    pub(super) fn publish(&self) -> Published {
        let mut routes = HashMap::new();
        let mut changed: Vec<String> = Vec::new();
        let mut tool_count = 0;
        let mut specs: IndexMap<String, Arc<ToolSpec>> = IndexMap::new();
        let mut description = format!("Tools of the MCP server '{}'", self.settings.name);
        if let Some(listing) = self.listing {
            let tools: Vec<&RemoteTool> = listing.tools.iter().filter(|tool| self.filter.wants(&tool.name)).collect();
            tool_count = tools.len();
            for (tool, name) in tools.iter().zip(function_names(&tools)) {
                let is_changed = self.is_changed(&tool.name, || tool.hash());
                if is_changed {
                    changed.push(tool.name.clone());
                }
                let (spec, route) = match self.block(&tool.name, is_changed) {
                    Some(reason) => (blocked_spec(&name, &reason), Route::Blocked { reason }),
                    None => tool_spec(&name, tool, self.settings.reads_json),
                };
                specs.insert(name.clone(), Arc::new(spec));
                routes.insert(name, route);
            }
            for (spec, route) in extras(listing) {
                if !specs.contains_key(&spec.name) {
                    routes.insert(spec.name.clone(), route);
                    specs.insert(spec.name.clone(), Arc::new(spec));
                }
            }
            let told_otherwise =
                !listing.instructions.is_empty() && self.is_changed(INSTRUCTIONS, || listing.instructions_hash());
            if told_otherwise {
                changed.push(CHANGED_INSTRUCTIONS.to_owned());
            }
            if !listing.title.is_empty() {
                let title = clean(&listing.title, limits::NAME_CHARS).replace('\n', " ");
                description = format!("{description} ({title})");
            }
            if !listing.instructions.is_empty() && self.block(INSTRUCTIONS, told_otherwise).is_none() {
                description.push('\n');
                description.push_str(&clean(&listing.instructions, limits::INSTRUCTIONS_CHARS));
            }
        }
        let pack = Arc::new(Pack {
            name: self.pack_name.to_owned(),
            description,
            origin: Origin::Proxy { server: self.settings.name.clone() },
            tools: specs,
            note: self.note.clone(),
            docs: onetool_sdk::PackDocs::Unsaid,
        });
        Published { pack, routes, changed, tool_count }
    }

    fn is_changed(&self, name: &str, hash: impl FnOnce() -> String) -> bool {
        match (self.settings.pin, self.pins) {
            (PinMode::Off, _) | (_, Err(_)) => false,
            (PinMode::Flag | PinMode::Strict, Ok(pins)) => pins.get(name).is_some_and(|pinned| *pinned != hash()),
        }
    }

    /// Why a tool must not be called, if it must not.
    fn block(&self, name: &str, changed: bool) -> Option<String> {
        if self.settings.pin != PinMode::Strict {
            return None;
        }
        let accept = format!("look at it, then run: onetool servers accept {}", self.settings.name);
        match self.pins {
            Err(error) => Some(error.to_string()),
            Ok(_) if changed => Some(format!("its description or schema changed since it was accepted; {accept}")),
            // Not pinned: a cached listing whose pins are missing, or pins that could not be written.
            Ok(pins) if !pins.contains_key(name) => Some(format!("it has not been accepted yet; {accept}")),
            Ok(_) => None,
        }
    }
}

/// A Python name for every tool. A tool whose own name is valid keeps it; of the others that map to the same name, the
/// first by its own name gets it and the next get `_2`, `_3` and so on, in whatever order the server lists them.
fn function_names(tools: &[&RemoteTool]) -> Vec<String> {
    let mut taken: HashSet<String> =
        tools.iter().filter(|tool| is_python_identifier(&tool.name)).map(|tool| tool.name.clone()).collect();
    let mut order: Vec<&RemoteTool> = tools.iter().copied().filter(|tool| !is_python_identifier(&tool.name)).collect();
    order.sort_by(|a, b| a.name.cmp(&b.name));
    let mut given: HashMap<&str, String> = HashMap::new();
    for tool in order {
        let wanted = to_python_identifier(&tool.name);
        let mut name = wanted.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        given.insert(&tool.name, name);
    }
    tools.iter().map(|tool| given.get(tool.name.as_str()).unwrap_or(&tool.name).clone()).collect()
}

fn tool_spec(name: &str, tool: &RemoteTool, reads_json: bool) -> (ToolSpec, Route) {
    let mut input_schema = tool.input_schema.clone();
    clean_json(&mut input_schema, limits::DESCRIPTION_CHARS);
    let (mut signature, renamed) = signature(&input_schema, tool);
    if reads_json && signature.returns.is_none() {
        signature.returns = Some("str | dict | list".to_owned());
    }
    let takes_more = signature.parameters.iter().any(|parameter| parameter.kind == ParameterKind::VarKeyword);
    let mut description = clean(tool.description.trim(), limits::DESCRIPTION_CHARS);
    if description.is_empty() {
        description = clean(tool.title.as_deref().unwrap_or_default(), limits::DESCRIPTION_CHARS);
    }
    let mut output_schema = tool.output_schema.clone();
    if let Some(schema) = &mut output_schema {
        clean_json(schema, limits::DESCRIPTION_CHARS);
        if tool.wraps_result() {
            *schema = unwrapped(schema);
        }
    }
    let spec = ToolSpec {
        name: name.to_owned(),
        description,
        signature,
        input_schema: input_schema.into(),
        output_schema,
        returns: None,
        example: None,
        checkable: !takes_more,
        effect: effect_of(tool),
    };
    let route = ToolRoute {
        original: tool.name.clone(),
        renamed,
        reading: Reading { wraps_result: tool.wraps_result(), json: reads_json },
        is_task: AtomicBool::new(false),
    };
    (spec, Route::Tool(Arc::new(route)))
}

/// The schema of `result` alone, with the definitions that it may refer to.
fn unwrapped(schema: &Json) -> Json {
    let mut inner = schema.pointer("/properties/result").cloned().unwrap_or_else(|| json!({}));
    if let Some(inner) = inner.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = schema.get(key) {
                inner.insert(key.to_owned(), definitions.clone());
            }
        }
    }
    inner
}

/// Returns the signature, and Python names for parameters whose own names are not identifiers. Those parameters are not
/// listed by name: they are passed through `**kwargs`, under their own names or the Python ones.
fn signature(schema: &Json, tool: &RemoteTool) -> (Signature, HashMap<String, String>) {
    let flat = flattened(schema);
    let mut signature = Signature::from_json_schema(&flat);
    for parameter in &mut signature.parameters {
        if let Some(description) = &mut parameter.description {
            *description = clean(description, limits::PARAMETER_CHARS);
        }
    }
    let (listed, others): (Vec<Parameter>, Vec<Parameter>) =
        signature.parameters.into_iter().partition(|parameter| is_python_identifier(&parameter.name));
    let mut renamed = HashMap::new();
    let mut told = Vec::new();
    for parameter in others {
        let python = to_python_identifier(&parameter.name);
        if !listed.iter().any(|listed| listed.name == python) {
            renamed.entry(python).or_insert_with(|| parameter.name.clone());
        }
        let annotation = parameter.annotation.as_deref().unwrap_or("Any");
        let need = if parameter.required { ", required" } else { "" };
        let description = parameter.description.map(|text| format!(": {text}")).unwrap_or_default();
        told.push(format!("'{}' ({annotation}{need}){description}", clean(&parameter.name, limits::NAME_CHARS)));
    }
    let takes_anything =
        flat.get("additionalProperties").is_some_and(|more| more.as_bool() == Some(true) || more.is_object());
    let mut parameters = listed;
    if takes_anything || !told.is_empty() {
        let name = if parameters.iter().any(|parameter| parameter.name == "kwargs") { "more_kwargs" } else { "kwargs" };
        parameters.push(Parameter {
            name: name.to_owned(),
            kind: ParameterKind::VarKeyword,
            annotation: None,
            default: None,
            required: false,
            description: (!told.is_empty()).then(|| told.join("; ")),
        });
    }
    let returns = tool.output_schema.as_ref().and_then(|schema| {
        let result = if tool.wraps_result() { unwrapped(schema) } else { schema.clone() };
        let mut holder = Map::new();
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = result.get(key) {
                holder.insert(key.to_owned(), definitions.clone());
            }
        }
        holder.insert("properties".to_owned(), json!({"result": result}));
        Signature::from_json_schema(&Json::Object(holder)).parameters.into_iter().next()?.annotation
    });
    (Signature { parameters, returns }, renamed)
}

/// A schema with its properties at the top level, even if the server composed it of parts.
fn flattened(schema: &Json) -> Json {
    if schema.get("properties").is_some() {
        return schema.clone();
    }
    let follow = |part: &Json| -> Json {
        part.get("$ref")
            .and_then(Json::as_str)
            .and_then(|reference| reference.strip_prefix('#'))
            .and_then(|pointer| schema.pointer(pointer))
            .unwrap_or(part)
            .clone()
    };
    let mut parts: Vec<(Json, bool)> = Vec::new();
    if schema.get("$ref").is_some() {
        parts.push((follow(schema), true));
    }
    for (key, all_hold) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        for part in schema.get(key).and_then(Json::as_array).into_iter().flatten() {
            parts.push((follow(part), all_hold));
        }
    }
    if parts.is_empty() {
        return schema.clone();
    }
    let mut flat = schema.as_object().cloned().unwrap_or_default();
    let mut properties = Map::new();
    let mut required: Vec<Json> = schema.get("required").and_then(Json::as_array).cloned().unwrap_or_default();
    for (part, all_hold) in parts {
        for (name, property) in part.get("properties").and_then(Json::as_object).into_iter().flatten() {
            properties.entry(name.clone()).or_insert_with(|| property.clone());
        }
        if all_hold {
            required.extend(part.get("required").and_then(Json::as_array).into_iter().flatten().cloned());
        }
    }
    flat.insert("properties".to_owned(), Json::Object(properties));
    flat.insert("required".to_owned(), Json::Array(required));
    Json::Object(flat)
}

fn effect_of(tool: &RemoteTool) -> Effect {
    match (tool.is_read_only, tool.is_idempotent) {
        (true, _) => Effect::ReadOnly,
        (false, true) => Effect::Idempotent,
        (false, false) => Effect::Unknown,
    }
}

fn blocked_spec(name: &str, reason: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("Blocked: {reason}"),
        signature: Signature { parameters: vec![keywords("kwargs", None)], returns: None },
        input_schema: json!({"type": "object", "additionalProperties": true}).into(),
        output_schema: None,
        returns: None,
        example: None,
        checkable: false,
        effect: Effect::default(),
    }
}

fn keywords(name: &str, description: Option<&str>) -> Parameter {
    Parameter {
        name: name.to_owned(),
        kind: ParameterKind::VarKeyword,
        annotation: None,
        default: None,
        required: false,
        description: description.map(str::to_owned),
    }
}

/// Functions for what a server offers besides tools.
fn extras(listing: &Listing) -> Vec<(ToolSpec, Route)> {
    let text = |name: &str, description: &str| json!({"type": "object", "properties": {name: {"type": "string", "description": description}}, "required": [name]});
    let nothing = || json!({"type": "object", "properties": {}});
    let extra = |name: &str, description: &str, input_schema: Json, returns: &str| {
        let mut spec = ToolSpec::from_schema(name, description, input_schema);
        spec.signature.returns = Some(returns.to_owned());
        spec
    };
    let mut extras = Vec::new();
    if listing.has_resources {
        extras.push((
            extra("resources", "List the resources and resource templates of this server.", nothing(), "list[dict]"),
            Route::Resources,
        ));
        extras.push((
            extra(
                "read",
                "Read a resource of this server: text as str, an image as content, other data as bytes.",
                text("uri", "the resource's URI"),
                "Any",
            ),
            Route::Read,
        ));
    }
    if listing.has_prompts {
        extras.push((extra("prompts", "List the prompts of this server.", nothing(), "list[dict]"), Route::Prompts));
        let mut prompt = extra(
            "prompt",
            "Get a prompt of this server, as a list of messages with role and content.",
            text("name", "the prompt's name"),
            "list[dict]",
        );
        for parameter in &mut prompt.signature.parameters {
            parameter.kind = ParameterKind::PositionalOnly;
        }
        prompt.signature.parameters.push(keywords("arguments", Some("what the prompt takes")));
        let mut schema = prompt.input_schema.to_json();
        schema["additionalProperties"] = Json::Bool(true);
        prompt.input_schema = schema.into();
        prompt.checkable = false;
        extras.push((prompt, Route::Prompt));
    }
    extras
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(settings: &ServerSettings, tools: Json) -> Published {
        let tools = tools.as_array().unwrap().iter().filter_map(RemoteTool::read).collect();
        let listing = Listing { tools, has_resources: true, has_prompts: true, ..Listing::default() };
        let pins = listing.tools.iter().map(|tool| (tool.name.clone(), tool.hash())).collect();
        PackInputs {
            settings,
            pack_name: "p",
            filter: &Filter::new(settings).unwrap(),
            listing: Some(&listing),
            pins: &Ok(pins),
            note: None,
        }
        .publish()
    }

    fn names(published: &Published) -> Vec<&str> {
        published.pack.tools.keys().map(String::as_str).collect()
    }

    #[test]
    fn names_become_identifiers_in_any_order_alike() {
        let settings = ServerSettings::stdio("p", "x", [""; 0]);
        let one = json!([{"name": "a b"}, {"name": "a-b"}, {"name": "a_b"}, {"name": "read"}]);
        let published = publish(&settings, one);
        assert_eq!(names(&published), ["a_b_2", "a_b_3", "a_b", "read", "resources", "prompts", "prompt"]);
        assert!(matches!(&published.routes["a_b_3"], Route::Tool(route) if route.original == "a-b"));
        assert!(matches!(&published.routes["read"], Route::Tool(_)));
        let other = publish(&settings, json!([{"name": "a-b"}, {"name": "a_b"}, {"name": "a b"}]));
        assert!(matches!(&other.routes["a_b_3"], Route::Tool(route) if route.original == "a-b"));
    }

    proptest::proptest! {
        #[test]
        fn every_tool_gets_one_name_that_python_accepts(names in proptest::collection::hash_set(".{1,6}|[ab_-]{1,4}", 1..12)) {
            let tools: Vec<RemoteTool> =
                names.iter().filter_map(|name| RemoteTool::read(&json!({"name": name}))).collect();
            let forward: Vec<&RemoteTool> = tools.iter().collect();
            let backward: Vec<&RemoteTool> = tools.iter().rev().collect();
            let given = function_names(&forward);
            proptest::prop_assert!(given.iter().all(|name| is_python_identifier(name)), "{given:?}");
            proptest::prop_assert_eq!(given.iter().collect::<HashSet<_>>().len(), tools.len());
            let mut other_way = function_names(&backward);
            other_way.reverse();
            proptest::prop_assert_eq!(given, other_way);
        }
    }

    #[test]
    fn globs_choose_by_the_servers_own_names() {
        let mut settings = ServerSettings::stdio("p", "x", [""; 0]);
        settings.include = vec!["get-*".into(), "list*".into()];
        settings.exclude = vec!["*-secret".into()];
        let published = publish(&settings, json!([{"name": "get-a"}, {"name": "get-secret"}, {"name": "put-a"}]));
        assert_eq!(names(&published)[0], "get_a");
        assert_eq!(published.tool_count, 1);
    }

    #[test]
    fn parameters_that_python_cannot_name_go_through_kwargs() {
        let settings = ServerSettings::stdio("p", "x", [""; 0]);
        let published = publish(
            &settings,
            json!([{"name": "t", "inputSchema": {"type": "object", "required": ["q", "per-page"],
                "properties": {"q": {"type": "string"}, "per-page": {"type": "integer"}, "from": {"type": "string"}}}}]),
        );
        let spec = &published.pack.tools["t"];
        assert_eq!(spec.signature.render("p.t"), "p.t(q: str, **kwargs) -> str | dict | list");
        assert!(!spec.checkable);
        let Route::Tool(route) = &published.routes["t"] else { panic!("not a tool") };
        assert_eq!(route.renamed["per_page"], "per-page");
        assert_eq!(route.renamed["from_"], "from");
    }

    #[test]
    fn composed_schemas_and_results_are_read() {
        let settings = ServerSettings::stdio("p", "x", [""; 0]);
        let published = publish(
            &settings,
            json!([
                {"name": "all", "inputSchema": {"type": "object", "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "string"}}}],
                    "$defs": {"A": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}}},
                {"name": "wrapped", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object",
                    "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/N"}}}, "$defs": {"N": {"type": "integer"}},
                    "x-fastmcp-wrap-result": true}}
            ]),
        );
        assert_eq!(
            published.pack.tools["all"].signature.render("all"),
            "all(a: int, b: str = '...') -> str | dict | list"
        );
        assert_eq!(published.pack.tools["wrapped"].signature.render("wrapped"), "wrapped() -> list[int]");
    }

    #[test]
    fn what_a_reader_cannot_see_never_reaches_a_model() {
        let settings = ServerSettings::stdio("p", "x", [""; 0]);
        let published = publish(
            &settings,
            json!([{"name": "t", "description": "Adds\u{200b} two\u{202e}.", "inputSchema":
                {"type": "object", "properties": {"a": {"type": "string", "description": "x\u{e0041}y"}}}}]),
        );
        let spec = &published.pack.tools["t"];
        assert_eq!(spec.description, "Adds two.");
        assert_eq!(spec.signature.described_parameters(), ["a: xy"]);
        assert_eq!(spec.input_schema.pointer("/properties/a/description"), Some(&json!("xy")));
    }
}
