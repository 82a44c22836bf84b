//! OpenAPI 3.0 and 3.1: each operation becomes a tool.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use onetool_state::bundles::{
    BundleDraft, ErrorMode, HttpImplementation, Implementation, ResponseEncoding, Slug, ToolAuth, ToolDraft, Version,
};
use reqwest::Url;
use serde_json::{Map, Value as Json, json};

use super::curl::escaped;
use super::naming::{self, Slugs, shortened};
use super::schemas::{Direction, Standalone, follow, members};
use super::settings::{DESCRIPTION_CHARS, ImportSettings, REMARK_CHARS, Shares};
use super::{Format, ImportOptions, Imported, ImportedTool, Unexpressed};
use crate::request::header_name;
use crate::template::percent_encode;

mod security;

use security::Security;

const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(super) fn read(document: &Json, options: &ImportOptions, settings: &ImportSettings) -> Result<Imported, String> {
    let version = document.get("openapi").and_then(Json::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err(format!("OpenAPI {version} is not supported; 3.0 and 3.1 are"));
    }
    let info = document.get("info");
    let text = |key: &str| info.and_then(|info| info.get(key)).and_then(Json::as_str).unwrap_or_default();
    let slug =
        options.slug.clone().or_else(|| naming::slug(text("title"))).ok_or("the document has no title: name a slug")?;
    let mut reader = Reader {
        document,
        options,
        version: naming::version(options.version.as_ref())?,
        security: Security::read(document, &slug),
        slugs: Slugs::default(),
        shares: Shares::of(0),
        unexpressed: Vec::new(),
        secrets: BTreeSet::new(),
    };
    let tools = reader.tools(settings)?;
    let (bundle_auth, tools) = reader.security.shared(tools);
    let mut unexpressed = std::mem::take(&mut reader.unexpressed);
    if document.get("webhooks").and_then(Json::as_object).is_some_and(|hooks| !hooks.is_empty()) {
        unexpressed.push(Unexpressed {
            what: "webhooks".to_owned(),
            reason: "they are requests to you, not to the API".to_owned(),
        });
    }
    let secrets = reader.secrets;
    Ok(Imported {
        format: Format::OpenApi,
        bundle: BundleDraft {
            display_name: shortened(text("title"), 200),
            description: shortened(text("description"), DESCRIPTION_CHARS),
            secrets: secrets.iter().cloned().collect(),
            auth: bundle_auth,
            ..BundleDraft::new(slug)
        },
        tools,
        unexpressed,
        secrets,
    })
}

struct Reader<'a> {
    document: &'a Json,
    options: &'a ImportOptions,
    version: Version,
    security: Security<'a>,
    slugs: Slugs,
    shares: Shares,
    unexpressed: Vec<Unexpressed>,
    secrets: BTreeSet<String>,
}

/// One operation and its context.
struct Operation<'a> {
    /// `GET /pets/{id}`
    label: String,
    method: &'a str,
    path: &'a str,
    item: &'a Json,
    json: &'a Json,
}

/// The parts of a request, collected step by step.
struct Request<'a> {
    schemas: Standalone<'a>,
    properties: Map<String, Json>,
    required: Vec<String>,
    taken: HashSet<String>,
    query: Vec<String>,
    http: HttpImplementation,
}

impl<'a> Reader<'a> {
    fn tools(&mut self, settings: &ImportSettings) -> Result<Vec<ImportedTool>, String> {
        let mut operations = Vec::new();
        let paths = self.document.get("paths").and_then(Json::as_object);
        for (path, item) in paths.into_iter().flatten() {
            let Some(item) = follow(self.document, item) else {
                self.note(path.clone(), "it refers to something that is not in the document");
                continue;
            };
            if !item.is_object() {
                self.note(path.clone(), "it is not an object");
                continue;
            }
            for method in METHODS {
                let Some(json) = item.get(*method) else { continue };
                let label = format!("{} {path}", method.to_uppercase());
                if !json.is_object() {
                    self.note(label, "it is not an object");
                    continue;
                }
                let operation = Operation { label, method, path, item, json };
                if self.is_wanted(&operation) {
                    operations.push(operation);
                }
            }
        }
        if operations.len() > settings.max_tools {
            return Err(format!(
                "there are more than {} operations; choose some by tag or pattern, or raise imports.max_tools",
                settings.max_tools
            ));
        }
        self.shares = Shares::of(operations.len());
        let mut tools = Vec::with_capacity(operations.len());
        for operation in operations {
            match self.tool(&operation) {
                Ok(tool) => tools.push(tool),
                Err(reason) => self.unexpressed.push(Unexpressed { what: operation.label, reason }),
            }
        }
        if tools.is_empty() {
            let why = match self.unexpressed.first() {
                Some(first) => format!("; {}: {}", first.what, first.reason),
                None => String::new(),
            };
            return Err(format!("no operation can be imported{why}"));
        }
        Ok(tools)
    }

    fn is_wanted(&self, operation: &Operation<'_>) -> bool {
        let (tags, patterns) = (&self.options.tags, &self.options.patterns);
        let own = operation.json.get("tags").and_then(Json::as_array);
        let by_tag = tags.is_empty()
            || own.into_iter().flatten().filter_map(Json::as_str).any(|tag| tags.iter().any(|one| one == tag));
        let id = operation.json.get("operationId").and_then(Json::as_str).unwrap_or_default();
        let names = [id, operation.path, operation.label.as_str()];
        by_tag
            && (patterns.is_empty()
                || patterns.iter().any(|pattern| names.iter().any(|name| naming::fits(pattern, name))))
    }

    fn note(&mut self, what: String, reason: impl Into<String>) {
        self.unexpressed.push(Unexpressed { what, reason: reason.into() });
    }

    fn tool(&mut self, operation: &Operation<'a>) -> Result<ImportedTool, String> {
        if operation.method == "trace" {
            return Err("the method TRACE is not supported".to_owned());
        }
        let base = self.base(operation)?;
        let mut request = Request {
            schemas: Standalone::new(self.document, self.shares.argument_bytes, Direction::Request),
            properties: Map::new(),
            required: Vec::new(),
            taken: HashSet::new(),
            query: Vec::new(),
            http: HttpImplementation {
                method: operation.method.to_uppercase(),
                error_mode: ErrorMode::Fail,
                timeout_ms: 30_000,
                ..HttpImplementation::get("")
            },
        };
        let path = self.parameters(operation, &mut request)?;
        self.body(operation, &mut request)?;
        let output_schema = self.response(operation, &mut request)?;
        let auth = self.security.of(operation.json, &mut self.secrets);
        for reason in auth.notes {
            self.note(operation.label.clone(), reason);
        }
        request.http.headers.extend(auth.headers);
        request.query.extend(auth.query);
        request.http.auth = auth.auth;
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query.join("&")) };
        request.http.url_template = format!("{base}{path}{query}");
        let finished = request.schemas.finish(request.properties.values_mut());
        if finished.was_cut {
            self.note(operation.label.clone(), "its argument schemas are too large: parts of them take anything");
        }
        for reference in finished.missing {
            let reference = shortened(&reference, 100);
            self.note(
                operation.label.clone(),
                format!("'{reference}' is not in the document: that part takes anything"),
            );
        }
        if operation.json.get("callbacks").and_then(Json::as_object).is_some_and(|calls| !calls.is_empty()) {
            self.note(operation.label.clone(), "its callbacks are requests to you, not to the API");
        }
        let mut arg_schema = json!({
            "type": "object", "properties": request.properties, "required": request.required,
            "additionalProperties": false,
        });
        if !finished.definitions.is_empty() {
            arg_schema["$defs"] = Json::Object(finished.definitions);
        }
        let text = |key: &str| operation.json.get(key).and_then(Json::as_str).unwrap_or_default();
        let id = Some(text("operationId")).filter(|id| !id.is_empty()).unwrap_or(&operation.label);
        let slug = self.slugs.unique(id).ok_or("its operationId gives no name")?;
        let summary = text("summary");
        let description = match (summary, text("description")) {
            ("", description) => description.to_owned(),
            (summary, "") => summary.to_owned(),
            (summary, description) if description.starts_with(summary) => description.to_owned(),
            (summary, description) => format!("{}\n\n{description}", summary.trim_end()),
        };
        let is_deprecated = operation.json.get("deprecated") == Some(&Json::Bool(true));
        let description = if is_deprecated { format!("Deprecated. {description}") } else { description };
        let display_name = if summary.is_empty() { slug.to_string() } else { shortened(summary, 200) };
        let tags = operation.json.get("tags").and_then(Json::as_array).into_iter().flatten();
        let draft = ToolDraft {
            display_name,
            description: shortened(&description, DESCRIPTION_CHARS),
            tags: tags.filter_map(Json::as_str).map(|tag| shortened(tag, 100)).collect(),
            implementation: Implementation::Http(Box::new(request.http)),
            is_enabled: true,
            arg_schema,
            output_schema,
            max_calls_per_minute: None,
            example: None,
            translations: onetool_state::bundles::Translations::default(),
        };
        Ok(ImportedTool { slug, version: self.version.clone(), draft: draft.into() })
    }

    /// The base URL of an operation, without a trailing slash.
    fn base(&self, operation: &Operation<'_>) -> Result<String, String> {
        if let Some(base) = &self.options.base_url {
            return Ok(base.trim_end_matches('/').to_owned());
        }
        let servers = [operation.json, operation.item, self.document]
            .into_iter()
            .find_map(|place| place.get("servers").and_then(Json::as_array).filter(|servers| !servers.is_empty()));
        let server = servers.and_then(|servers| servers.first());
        let mut url = server.and_then(|server| server.get("url")).and_then(Json::as_str).unwrap_or("/").to_owned();
        let variables = server.and_then(|server| server.get("variables")).and_then(Json::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = variable.get("default").and_then(Json::as_str).unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), default);
        }
        if url.starts_with("//") {
            url.insert_str(0, "https:");
        }
        if url.starts_with("http://") || url.starts_with("https://") {
            if url.contains(['{', '}', '$', '?', '#']) {
                return Err(format!("its server '{}' can't be used; name a base URL", shortened(&url, 100)));
            }
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let document = self.options.document_url.as_deref().and_then(|url| Url::parse(url).ok());
        let joined = document.and_then(|document| document.join(&url).ok());
        joined
            .map(|url| url.as_str().trim_end_matches('/').to_owned())
            .ok_or_else(|| "the document does not say where the API is; name a base URL".to_owned())
    }

    /// Adds the parameters; returns the path with variables.
    fn parameters(&mut self, operation: &Operation<'a>, request: &mut Request<'a>) -> Result<String, String> {
        // The operation's own come last and override the others.
        let mut all: BTreeMap<(&str, &str), &'a Json> = BTreeMap::new();
        let mut order = Vec::new();
        for place in [operation.item, operation.json] {
            for parameter in place.get("parameters").and_then(Json::as_array).into_iter().flatten() {
                let Some(parameter) = follow(self.document, parameter) else {
                    return Err("a parameter refers to nothing".to_owned());
                };
                let text = |key: &str| parameter.get(key).and_then(Json::as_str);
                let (Some(name), Some(place)) = (text("name"), text("in")) else { continue };
                if all.insert((place, name), parameter).is_none() {
                    order.push((place, name));
                }
            }
        }
        let mut path = escaped(operation.path);
        for (place, name) in order {
            let Some(parameter) = all.get(&(place, name)).copied() else { continue };
            let is_required = place == "path" || parameter.get("required") == Some(&Json::Bool(true));
            if let Some(reason) = self.hindrance(place, parameter) {
                if is_required {
                    return Err(format!("the required parameter '{name}' {reason}"));
                }
                self.note(operation.label.clone(), format!("the parameter '{name}' {reason}; it is left out"));
                continue;
            }
            let argument = request.argument(name, place);
            let text = parameter.get("description").and_then(Json::as_str).unwrap_or_default();
            let (property, text) = match self.separator(place, parameter) {
                // Templates accept scalars only: a list in one value is passed as text.
                Some(separator) => {
                    let text = shortened(text, REMARK_CHARS - 40);
                    let gap = if text.is_empty() { "" } else { " " };
                    (json!({"type": "string"}), format!("{text}{gap}(values separated by '{separator}')"))
                }
                None => {
                    let anything = json!({"type": "string"});
                    let schema = parameter.get("schema").unwrap_or(&anything);
                    (request.schemas.convert(schema, 0), shortened(text, REMARK_CHARS))
                }
            };
            let mut property = property;
            if let Some(object) = property.as_object_mut().filter(|_| !text.is_empty()) {
                object.insert("description".to_owned(), Json::from(text));
            }
            request.properties.insert(argument.clone(), property);
            if is_required {
                request.required.push(argument.clone());
            }
            match place {
                "path" => path = path.replace(&format!("{{{name}}}"), &format!("${{{argument}}}")),
                "query" => {
                    let brackets = if self.is_deep_list(parameter, parameter.get("schema")) { "%5B%5D" } else { "" };
                    request.query.push(format!("{}{brackets}=${{{argument}}}", percent_encode(name)));
                }
                _ => drop(request.http.headers.insert(name.to_owned(), format!("${{{argument}}}"))),
            }
        }
        // A path variable without a description is text.
        while let Some((start, end)) = undescribed(&path) {
            let name = path[start + 1..end].to_owned();
            let argument = request.argument(&name, "path");
            request.properties.insert(argument.clone(), json!({"type": "string"}));
            request.required.push(argument.clone());
            path.replace_range(start..=end, &format!("${{{argument}}}"));
        }
        if path.contains(['#', '?', '\\']) {
            return Err("its path holds a character that no path has".to_owned());
        }
        Ok(path)
    }

    /// Returns why a parameter cannot be expressed.
    fn hindrance(&self, place: &str, parameter: &Json) -> Option<&'static str> {
        const OURS: &[&str] = &["accept", "content-type", "authorization"];
        let name = parameter.get("name").and_then(Json::as_str).unwrap_or_default().to_ascii_lowercase();
        match place {
            "cookie" => return Some("is a cookie"),
            "header" if OURS.contains(&name.as_str()) => return Some("is set by the tool itself"),
            "header" if header_name(&name).is_err() => return Some("is a header that is not a tool's to set"),
            "path" | "query" | "header" => {}
            _ => return Some("is in a place that OpenAPI does not know"),
        }
        if parameter.get("content").is_some() {
            return Some("is encoded as a document of its own");
        }
        let style = parameter.get("style").and_then(Json::as_str);
        match (self.kind(parameter.get("schema")), place, style) {
            // Templates write an object as `name[key]=value`.
            (Some("object"), "query", Some("deepObject")) => None,
            (Some("object"), ..) => Some("is an object"),
            (_, "path", Some("label" | "matrix")) => Some("is in a style other than simple"),
            _ => None,
        }
    }

    /// The type of a schema, ignoring `null`.
    fn kind<'s>(&'s self, schema: Option<&'s Json>) -> Option<&'s str> {
        let kind = schema.and_then(|schema| follow(self.document, schema))?.get("type")?;
        kind.as_str().or_else(|| kind.as_array()?.iter().filter_map(Json::as_str).find(|kind| *kind != "null"))
    }

    /// The separator of a list that is sent as one value.
    fn separator(&self, place: &str, parameter: &Json) -> Option<char> {
        if self.kind(parameter.get("schema")) != Some("array") {
            return None;
        }
        match (place, parameter.get("style").and_then(Json::as_str)) {
            ("query", Some("deepObject")) => None,
            ("query", Some("spaceDelimited")) => Some(' '),
            ("query", Some("pipeDelimited")) => Some('|'),
            ("query", _) if parameter.get("explode") != Some(&Json::Bool(false)) => None,
            _ => Some(','),
        }
    }

    /// Whether this is a list that is written as `name[]=…`.
    fn is_deep_list(&self, rules: &Json, schema: Option<&Json>) -> bool {
        rules.get("style").is_some_and(|style| style == "deepObject") && self.kind(schema) == Some("array")
    }

    fn body(&mut self, operation: &Operation<'a>, request: &mut Request<'a>) -> Result<(), String> {
        let Some(body) = operation.json.get("requestBody") else { return Ok(()) };
        let body = follow(self.document, body).ok_or("its body refers to nothing")?;
        let is_required = body.get("required") == Some(&Json::Bool(true));
        let content = body.get("content").and_then(Json::as_object);
        let Some(content) = content.filter(|content| !content.is_empty()) else { return Ok(()) };
        let kind = |name: &str| name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_json =
            |name: &str| kind(name) == "application/json" || kind(name).ends_with("+json") || kind(name) == "*/*";
        let is_form = |name: &str| kind(name) == "application/x-www-form-urlencoded";
        let find = |fits: &dyn Fn(&str) -> bool| content.iter().find(|(name, _)| fits(name));
        let chosen = find(&|name| kind(name) == "application/json")
            .or_else(|| find(&is_json))
            .or_else(|| find(&is_form))
            .or_else(|| find(&|name| kind(name).starts_with("text/")));
        let Some((name, media)) = chosen else {
            let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
            let reason = format!("its body is {}, which tools can't send", kinds.join(" or "));
            if is_required || operation.method != "get" {
                return Err(reason);
            }
            self.note(operation.label.clone(), reason);
            return Ok(());
        };
        let anything = json!({});
        let schema = media.get("schema").unwrap_or(&anything);
        if kind(name) != "application/json" && kind(name) != "*/*" {
            request.http.headers.insert("Content-Type".to_owned(), kind(name));
        }
        if let Some((properties, required)) =
            members(self.document, schema).filter(|_| !kind(name).starts_with("text/"))
        {
            let required: Vec<&str> = if is_required { required } else { Vec::new() };
            let mut parts = Vec::new();
            for (key, property) in properties {
                let argument = request.argument(key, "body");
                let converted = request.schemas.convert(property, 0);
                request.properties.insert(argument.clone(), converted);
                if required.contains(&key) {
                    request.required.push(argument.clone());
                }
                let encoding = media.get("encoding").and_then(|encoding| encoding.get(key));
                let brackets = encoding.is_some_and(|rules| self.is_deep_list(rules, Some(property)));
                parts.push(if is_form(name) {
                    let brackets = if brackets { "%5B%5D" } else { "" };
                    format!("{}{brackets}=${{{argument}}}", percent_encode(key))
                } else {
                    format!("{}: ${{{argument}}}", literal(key))
                });
            }
            request.http.body_template =
                if is_form(name) { parts.join("&") } else { format!("{{{}}}", parts.join(", ")) };
            return Ok(());
        }
        if is_form(name) {
            return Err("its form has no known fields".to_owned());
        }
        let argument = request.argument("body", "body");
        let mut converted = request.schemas.convert(schema, 0);
        if kind(name).starts_with("text/") {
            converted = json!({"type": "string", "description": "the body"});
        }
        request.properties.insert(argument.clone(), converted);
        if is_required {
            request.required.push(argument.clone());
        }
        request.http.body_template = format!("${{{argument}}}");
        Ok(())
    }

    /// Returns the schema of a successful response, and sets how the response is read.
    fn response(&mut self, operation: &Operation<'a>, request: &mut Request<'a>) -> Result<Option<Json>, String> {
        let responses = operation.json.get("responses").and_then(Json::as_object);
        let is_success = |status: &str| status.starts_with('2') || status == "default";
        let mut found: Vec<(&String, &Json)> =
            responses.into_iter().flatten().filter(|(status, _)| is_success(status)).collect();
        found.sort_by_key(|(status, _)| (*status).clone());
        let content = found.iter().find_map(|(_, response)| {
            follow(self.document, response)?.get("content")?.as_object().filter(|content| !content.is_empty())
        });
        let Some(content) = content else { return Ok(None) };
        let is_json = |name: &str| name.contains("json") || name.starts_with("*/*");
        let Some((name, media)) = content.iter().find(|(name, _)| is_json(name)) else {
            let name = content.keys().next().map(String::as_str).unwrap_or_default();
            let is_text = name.starts_with("text/") || name.contains("xml") || name.contains("yaml");
            if !is_text {
                return Err(format!("it answers with {name}, which is not text"));
            }
            request.http.response_encoding = ResponseEncoding::Text;
            request.http.headers.entry("Accept".to_owned()).or_insert_with(|| name.to_owned());
            return Ok(None);
        };
        if !name.starts_with("*/*") {
            request.http.headers.entry("Accept".to_owned()).or_insert_with(|| name.clone());
        }
        let Some(schema) = media.get("schema") else { return Ok(None) };
        let mut standalone = Standalone::new(self.document, self.shares.output_bytes, Direction::Response);
        let mut converted = standalone.convert(schema, 0);
        let finished = standalone.finish([&mut converted]);
        for reference in finished.missing {
            let reference = shortened(&reference, 100);
            self.note(operation.label.clone(), format!("its response: '{reference}' is not in the document"));
        }
        if let (Some(object), false) = (converted.as_object_mut(), finished.definitions.is_empty()) {
            object.insert("$defs".to_owned(), Json::Object(finished.definitions));
        }
        Ok(converted.as_object().is_some_and(|schema| !schema.is_empty()).then_some(converted))
    }
}

impl Request<'_> {
    /// Returns a unique name for an argument.
    fn argument(&mut self, name: &str, place: &str) -> String {
        let plain = naming::argument(name);
        let candidates = [plain.clone(), format!("{place}_{plain}")].into_iter();
        let candidates = candidates.chain((2..).map(|number| format!("{plain}_{number}")));
        let mut found = plain.clone();
        for candidate in candidates {
            if self.taken.insert(candidate.clone()) {
                found = candidate;
                break;
            }
        }
        found
    }
}

/// Writes a body key as JSON, escaped so that a template reads no variables in it.
fn literal(key: &str) -> String {
    escaped(&Json::from(key).to_string())
}

/// Finds a `{name}` in the path that is not a template variable yet.
fn undescribed(path: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(at) = path[from..].find('{').map(|at| at + from) {
        let end = path[at..].find('}')? + at;
        if !path[..at].ends_with('$') {
            return Some((at, end));
        }
        from = end;
    }
    None
}

/// Removes a tool's own block if it equals the bundle's.
pub(super) fn inherited(tools: Vec<ImportedTool>, shared: &ToolAuth) -> Vec<ImportedTool> {
    let inherit = |mut tool: ImportedTool| {
        if let Implementation::Http(http) = tool.draft.implementation_mut() {
            if http.auth == *shared {
                http.auth = ToolAuth::Inherited;
            } else if http.auth == ToolAuth::Inherited {
                http.auth = ToolAuth::Off;
            }
        }
        tool
    };
    tools.into_iter().map(inherit).collect()
}

/// The slug of an operation, the same that [`read`] gives its tool.
pub(super) fn operation_slug(id: &str) -> Option<Slug> {
    naming::slug(id)
}
