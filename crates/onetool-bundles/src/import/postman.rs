//! Postman collections, version 2.1: each request becomes a tool, each folder a tag.

use std::collections::{BTreeSet, HashMap};

use onetool_state::bundles::{
    ApiKeyPlace, Auth, BundleDraft, ClientAuth, HttpImplementation, Implementation, OAuth2Auth, SigV4Auth, ToolAuth,
    ToolDraft,
};
use serde_json::{Map, Value as Json, json};

use super::naming::{self, Slugs, shortened};
use super::settings::{DESCRIPTION_CHARS, ImportSettings};
use super::{Format, ImportOptions, Imported, ImportedTool, Unexpressed};
use crate::request::header_name;
use crate::template::percent_encode;

/// Maximum nesting of folders.
const FOLDERS: usize = 32;

pub(super) fn read(document: &Json, options: &ImportOptions, settings: &ImportSettings) -> Result<Imported, String> {
    // The envelope of Postman's own API.
    let document = document.get("collection").unwrap_or(document);
    let info = document.get("info");
    let title = info.and_then(|info| info.get("name")).and_then(Json::as_str).unwrap_or_default();
    let schema = info.and_then(|info| info.get("schema")).and_then(Json::as_str).unwrap_or_default();
    if schema.contains("/v1.") || schema.contains("/v2.0") {
        return Err("it is a collection of an older format; export it as Collection v2.1".to_owned());
    }
    let slug = options.slug.clone().or_else(|| naming::slug(title)).ok_or("the collection has no name: name a slug")?;
    let mut reader = Reader {
        options,
        settings,
        bundle: slug.to_string(),
        known: variables(document),
        slugs: Slugs::default(),
        tools: Vec::new(),
        unexpressed: Vec::new(),
        secrets: BTreeSet::new(),
    };
    let mut notes = Vec::new();
    let auth = reader.auth(document.get("auth"), &mut Vars::default(), &mut notes);
    for reason in notes {
        reader.note("the collection", reason);
    }
    reader.scripts("the collection", document);
    reader.items(document, &mut Vec::new(), None)?;
    if reader.tools.is_empty() {
        let why = reader.unexpressed.first().map(|first| format!("; {}: {}", first.what, first.reason));
        return Err(format!("no request can be imported{}", why.unwrap_or_default()));
    }
    let block = match auth {
        ToolAuth::Own(block) => Some(*block),
        ToolAuth::Inherited | ToolAuth::Off => None,
    };
    let description = info.and_then(|info| info.get("description")).map(plain_text).unwrap_or_default();
    Ok(Imported {
        format: Format::Postman,
        bundle: BundleDraft {
            display_name: shortened(title, 200),
            description: shortened(&description, DESCRIPTION_CHARS),
            secrets: reader.secrets.iter().cloned().collect(),
            auth: block,
            ..BundleDraft::new(slug)
        },
        tools: reader.tools,
        unexpressed: reader.unexpressed,
        secrets: reader.secrets,
    })
}

/// The collection's variables that have values and are not secrets.
fn variables(document: &Json) -> HashMap<String, String> {
    let all = document.get("variable").and_then(Json::as_array).into_iter().flatten();
    all.filter_map(|one| {
        let name = one.get("key").or_else(|| one.get("id"))?.as_str()?;
        let value = one.get("value")?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_secret = naming::is_secret(name) || one.get("type").is_some_and(|kind| kind == "secret");
        (!value.is_empty() && !is_secret).then(|| (name.to_owned(), value))
    })
    .collect()
}

fn plain_text(value: &Json) -> String {
    let text = value.as_str().or_else(|| value.get("content").and_then(Json::as_str));
    text.unwrap_or_default().to_owned()
}

struct Reader<'a> {
    options: &'a ImportOptions,
    settings: &'a ImportSettings,
    bundle: String,
    known: HashMap<String, String>,
    slugs: Slugs,
    tools: Vec<ImportedTool>,
    unexpressed: Vec<Unexpressed>,
    secrets: BTreeSet<String>,
}

/// The arguments of a tool, collected step by step.
#[derive(Default)]
struct Vars {
    properties: Map<String, Json>,
    required: Vec<String>,
}

impl Vars {
    fn add(&mut self, name: &str, property: Json, is_required: bool) -> String {
        let argument = naming::argument(name);
        if !self.properties.contains_key(&argument) {
            self.properties.insert(argument.clone(), property);
            if is_required {
                self.required.push(argument.clone());
            }
        }
        argument
    }
}

impl Reader<'_> {
    fn note(&mut self, what: &str, reason: impl Into<String>) {
        self.unexpressed.push(Unexpressed { what: what.to_owned(), reason: reason.into() });
    }

    fn scripts(&mut self, what: &str, place: &Json) {
        if place.get("event").and_then(Json::as_array).is_some_and(|events| !events.is_empty()) {
            self.note(what, "its scripts (pre-request, tests) are not imported");
        }
    }

    /// Reads the requests of a folder; `auth` is inherited from the innermost folder that sets it.
    fn items(&mut self, place: &Json, folders: &mut Vec<String>, auth: Option<&Json>) -> Result<(), String> {
        if folders.len() > FOLDERS {
            return Err(format!("folders nest more than {FOLDERS} deep"));
        }
        for item in place.get("item").and_then(Json::as_array).into_iter().flatten() {
            let name = item.get("name").and_then(Json::as_str).unwrap_or("request").to_owned();
            if item.get("item").is_some() {
                folders.push(shortened(&name, 100));
                self.scripts(&name, item);
                self.items(item, folders, own_auth(item).or(auth))?;
                folders.pop();
                continue;
            }
            if !self.is_wanted(&name, folders) {
                continue;
            }
            if self.tools.len() >= self.settings.max_tools {
                return Err(format!(
                    "there are more than {} requests; choose some by tag or pattern, or raise imports.max_tools",
                    self.settings.max_tools
                ));
            }
            self.scripts(&name, item);
            match self.tool(&name, item, folders, auth) {
                Ok(tool) => self.tools.push(tool),
                Err(reason) => self.note(&name, reason),
            }
        }
        Ok(())
    }

    fn is_wanted(&self, name: &str, folders: &[String]) -> bool {
        let (tags, patterns) = (&self.options.tags, &self.options.patterns);
        (tags.is_empty() || folders.iter().any(|folder| tags.contains(folder)))
            && (patterns.is_empty() || patterns.iter().any(|pattern| naming::fits(pattern, name)))
    }

    fn tool(
        &mut self,
        name: &str,
        item: &Json,
        folders: &[String],
        auth: Option<&Json>,
    ) -> Result<ImportedTool, String> {
        let request = item.get("request").ok_or("it has no request")?;
        let text_url = request.as_str();
        let mut vars = Vars::default();
        let mut http = HttpImplementation { timeout_ms: 30_000, ..HttpImplementation::get("") };
        if let Some(method) = request.get("method").and_then(Json::as_str) {
            http.method = method.to_uppercase();
        }
        http.url_template = match text_url {
            Some(url) => self.address(&json!({"raw": url}), &mut vars)?,
            None => self.address(request.get("url").ok_or("it has no address")?, &mut vars)?,
        };
        for header in request.get("header").and_then(Json::as_array).into_iter().flatten() {
            let text = |key: &str| header.get(key).and_then(Json::as_str).unwrap_or_default();
            let (key, value) = (text("key"), text("value"));
            if key.is_empty() || header.get("disabled") == Some(&Json::Bool(true)) {
                continue;
            }
            if header_name(key).is_err() {
                self.note(name, format!("the header '{}' is not a tool's to set", shortened(key, 60)));
                continue;
            }
            let value = match value.split_once(' ') {
                _ if value.contains("{{") || !naming::is_secret_header(key) => self.template(value, &mut vars),
                Some((scheme @ ("Bearer" | "Basic" | "Token"), _)) => format!("{scheme} {}", self.secret(key)),
                _ => self.secret(key),
            };
            http.headers.insert(key.to_owned(), value);
        }
        if let Some(body) = request.get("body").filter(|body| !body.is_null()) {
            self.body(body, &mut http, &mut vars)?;
        }
        let mut notes = Vec::new();
        http.auth = self.auth(own_auth(request).or(auth), &mut vars, &mut notes);
        for reason in notes {
            self.note(name, reason);
        }
        let slug = self.slugs.unique(name).ok_or("its name gives no slug")?;
        let description = request.get("description").map(plain_text).unwrap_or_default();
        let draft = ToolDraft {
            display_name: shortened(name, 200),
            description: shortened(if description.is_empty() { name } else { &description }, DESCRIPTION_CHARS),
            tags: folders.to_vec(),
            implementation: Implementation::Http(Box::new(http)),
            is_enabled: true,
            arg_schema: json!({
                "type": "object", "properties": vars.properties, "required": vars.required,
                "additionalProperties": false,
            }),
            output_schema: None,
            max_calls_per_minute: None,
            example: None,
            translations: onetool_state::bundles::Translations::default(),
        };
        Ok(ImportedTool { slug, version: naming::version(self.options.version.as_ref())?, draft: draft.into() })
    }

    fn secret(&mut self, word: &str) -> String {
        let name = naming::secret(&self.bundle, word);
        self.secrets.insert(name.clone());
        format!("${{{name}}}")
    }

    /// Converts a JSON body: literal secrets become named ones, and a variable may replace a whole value.
    fn json_template(&mut self, value: &Json, vars: &mut Vars) -> String {
        match value {
            Json::Object(members) => {
                let parts: Vec<String> = members
                    .iter()
                    .map(|(key, value)| {
                        let is_literal = value.as_str().is_some_and(|text| !text.is_empty() && !text.contains("{{"));
                        let value = if naming::is_secret(key) && is_literal {
                            self.secret(key)
                        } else {
                            self.json_template(value, vars)
                        };
                        format!("{}: {value}", self.template(&Json::from(key.as_str()).to_string(), vars))
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            Json::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.json_template(item, vars)).collect();
                format!("[{}]", items.join(", "))
            }
            Json::String(text) => match text.strip_prefix(WHOLE) {
                Some(name) if self.known.contains_key(name) => self.template(&format!("{{{{{name}}}}}"), vars),
                Some(name) if naming::is_secret(name) => self.secret(name),
                Some(name) => format!("${{{}}}", vars.add(name, json!({}), true)),
                None => self.template(&Json::from(text.as_str()).to_string(), vars),
            },
            scalar => scalar.to_string(),
        }
    }

    /// Replaces `{{name}}` with a value of the collection, a secret, or an argument.
    fn template(&mut self, text: &str, vars: &mut Vars) -> String {
        let mut made = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            made.push_str(&super::curl::escaped(before));
            let Some((name, after)) = after.split_once("}}") else {
                made.push_str("{{");
                rest = after;
                continue;
            };
            let name = name.trim();
            if let Some(value) = self.known.get(name) {
                made.push_str(&super::curl::escaped(value));
            } else if naming::is_secret(name) {
                made.push_str(&self.secret(name));
            } else {
                let argument = vars.add(name, json!({"type": "string"}), true);
                made.push_str(&format!("${{{argument}}}"));
            }
            rest = after;
        }
        made.push_str(&super::curl::escaped(rest));
        made
    }

    fn address(&mut self, url: &Json, vars: &mut Vars) -> Result<String, String> {
        let raw = url.as_str().or_else(|| url.get("raw").and_then(Json::as_str)).ok_or("its address is not text")?;
        let raw = raw.split('#').next().unwrap_or_default();
        let (path, query) = raw.split_once('?').map_or((raw, None), |(path, query)| (path, Some(query)));
        let mut path = path.to_owned();
        for _ in 0..4 {
            for (name, value) in &self.known {
                path = path.replace(&format!("{{{{{name}}}}}"), value);
            }
        }
        if let Some(base) = &self.options.base_url
            && let Some(after) = path.strip_prefix("{{").and_then(|rest| rest.split_once("}}"))
        {
            path = format!("{}{}", base.trim_end_matches('/'), after.1);
        }
        if !path.contains("://") && !path.starts_with("{{") {
            path = format!("https://{path}");
        }
        let (scheme, rest) = path.split_once("://").ok_or("its host is a variable without a value; name a base URL")?;
        let (host, segments) = rest.split_once('/').map_or((rest, ""), |(host, segments)| (host, segments));
        if host.contains("{{") {
            return Err("its host is a variable without a value; name a base URL".to_owned());
        }
        let described = url.get("variable").and_then(Json::as_array);
        let segments: Vec<String> = segments
            .split('/')
            .map(|segment| match segment.strip_prefix(':').filter(|name| !name.is_empty()) {
                Some(name) => {
                    let about =
                        described.into_iter().flatten().find(|one| one.get("key").is_some_and(|key| key == name));
                    let text = about.and_then(|one| one.get("description")).map(plain_text).unwrap_or_default();
                    let mut property = json!({"type": "string"});
                    if !text.is_empty() {
                        property["description"] = Json::from(shortened(&text, 300));
                    }
                    format!("${{{}}}", vars.add(name, property, true))
                }
                None => self.template(segment, vars),
            })
            .collect();
        let mut pairs = Vec::new();
        match url.get("query").and_then(Json::as_array) {
            Some(query) => {
                for pair in query {
                    let text = |key: &str| pair.get(key).and_then(Json::as_str).unwrap_or_default();
                    let about = pair.get("description").map(plain_text).unwrap_or_default();
                    let is_on = pair.get("disabled") != Some(&Json::Bool(true));
                    pairs.push((text("key").to_owned(), text("value").to_owned(), about, is_on));
                }
            }
            None => {
                for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    pairs.push((name.to_owned(), value.to_owned(), String::new(), true));
                }
            }
        }
        let query: Vec<String> = pairs
            .into_iter()
            .filter(|(name, ..)| !name.is_empty())
            .map(|(name, value, about, is_on)| {
                let value = self.field(&name, &value, &about, is_on, vars);
                format!("{}={value}", percent_encode(&name))
            })
            .collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Ok(format!("{scheme}://{host}/{}{query}", segments.join("/")))
    }

    /// Converts a query or form field to a secret, a variable's value, or an argument with this default.
    fn field(&mut self, name: &str, value: &str, about: &str, is_on: bool, vars: &mut Vars) -> String {
        if value.contains("{{") {
            return self.template(value, vars);
        }
        if naming::is_secret(name) {
            return self.secret(name);
        }
        let mut property = json!({"type": "string"});
        if !value.is_empty() && is_on {
            property["default"] = Json::from(value);
        }
        if !about.is_empty() {
            property["description"] = Json::from(shortened(about, 300));
        }
        format!("${{{}}}", vars.add(name, property, false))
    }

    fn body(&mut self, body: &Json, http: &mut HttpImplementation, vars: &mut Vars) -> Result<(), String> {
        let has_type = http.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
        match body.get("mode").and_then(Json::as_str) {
            None => Ok(()),
            Some("raw") => {
                let raw = body.get("raw").and_then(Json::as_str).unwrap_or_default();
                if raw.trim().is_empty() {
                    return Ok(());
                }
                let language = body.pointer("/options/raw/language").and_then(Json::as_str);
                http.body_template = match marked(raw) {
                    Some(json) => self.json_template(&json, vars),
                    None => self.template(raw, vars),
                };
                if language == Some("json") && !has_type {
                    http.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
                }
                Ok(())
            }
            Some("urlencoded") => {
                let fields = body.get("urlencoded").and_then(Json::as_array);
                let parts: Vec<String> = fields
                    .into_iter()
                    .flatten()
                    .filter_map(|field| {
                        let text = |key: &str| field.get(key).and_then(Json::as_str).unwrap_or_default();
                        let about = field.get("description").map(plain_text).unwrap_or_default();
                        let is_on = field.get("disabled") != Some(&Json::Bool(true));
                        let name = Some(text("key")).filter(|name| !name.is_empty())?;
                        let value = self.field(name, text("value"), &about, is_on, vars);
                        Some(format!("{}={value}", percent_encode(name)))
                    })
                    .collect();
                http.body_template = parts.join("&");
                if !has_type {
                    let form = "application/x-www-form-urlencoded".to_owned();
                    http.headers.insert("Content-Type".to_owned(), form);
                }
                Ok(())
            }
            Some("graphql") => {
                let query = body.pointer("/graphql/query").and_then(Json::as_str).unwrap_or_default();
                let argument = vars.add("variables", json!({"type": "object", "default": {}}), false);
                let query = super::curl::escaped(&Json::from(query).to_string());
                http.body_template = format!("{{\"query\": {query}, \"variables\": ${{{argument}}}}}");
                if !has_type {
                    http.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
                }
                Ok(())
            }
            Some("formdata") => Err("its body is a multipart form, which tools can't send".to_owned()),
            Some(other) => Err(format!("its body is of the mode '{}', which tools can't send", shortened(other, 40))),
        }
    }

    fn auth(&mut self, auth: Option<&Json>, vars: &mut Vars, notes: &mut Vec<String>) -> ToolAuth {
        let Some(auth) = auth.filter(|auth| !auth.is_null()) else { return ToolAuth::Inherited };
        let kind = auth.get("type").and_then(Json::as_str).unwrap_or_default();
        let part = |name: &str| -> Option<String> {
            let parts = auth.get(kind)?;
            let listed = parts
                .as_array()
                .and_then(|parts| parts.iter().find(|one| one.get("key").is_some_and(|key| key == name)));
            let value = listed.and_then(|one| one.get("value")).or_else(|| parts.get(name))?;
            value.as_str().map(str::to_owned)
        };
        match kind {
            "noauth" => ToolAuth::Off,
            "bearer" => Auth::Bearer { token: self.credential(part("token"), "token", vars) }.into(),
            "basic" => Auth::Basic {
                username: self.credential(part("username"), "username", vars),
                password: self.credential(part("password"), "password", vars),
            }
            .into(),
            "awsv4" => {
                let given = |name: &str| part(name).filter(|value| !value.is_empty() && !value.contains("{{"));
                let (Some(service), Some(region)) = (given("service"), given("region")) else {
                    notes.push("its auth 'awsv4' names no service and region; declare it on the bundle".to_owned());
                    return ToolAuth::Inherited;
                };
                let token = part("sessionToken").filter(|token| !token.is_empty());
                Auth::SigV4(Box::new(SigV4Auth {
                    service,
                    region,
                    access_key_id: self.credential(part("accessKey"), "access_key_id", vars),
                    secret_access_key: self.credential(part("secretKey"), "secret_access_key", vars),
                    session_token: token.map(|token| self.credential(Some(token), "session_token", vars)),
                    ..SigV4Auth::default()
                }))
                .into()
            }
            "oauth2" => {
                let url = part("accessTokenUrl").filter(|url| url.starts_with("http") && !url.contains("{{"));
                match url.filter(|_| part("grant_type").as_deref() == Some("client_credentials")) {
                    Some(token_url) => Auth::OAuth2(Box::new(OAuth2Auth {
                        token_url,
                        client_id: self.credential(part("clientId"), "client_id", vars),
                        client_secret: Some(self.credential(part("clientSecret"), "client_secret", vars)),
                        client_auth: match part("client_authentication").as_deref() {
                            Some("body") => ClientAuth::Body,
                            _ => ClientAuth::Basic,
                        },
                        scopes: part("scope").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
                        ..OAuth2Auth::default()
                    }))
                    .into(),
                    // The user signs in elsewhere; only the token can be stored.
                    None => Auth::Bearer { token: self.credential(part("accessToken"), "token", vars) }.into(),
                }
            }
            "apikey" => {
                let name = part("key").filter(|name| !name.contains("{{")).unwrap_or_else(|| "X-Api-Key".to_owned());
                let place =
                    if part("in").as_deref() == Some("query") { ApiKeyPlace::Query } else { ApiKeyPlace::Header };
                Auth::ApiKey { place, name, value: self.credential(part("value"), "api_key", vars) }.into()
            }
            other => {
                notes.push(format!("its auth '{}' is not imported; declare it on the bundle", shortened(other, 40)));
                ToolAuth::Inherited
            }
        }
    }

    /// A credential always becomes a secret, whatever its value in the collection is.
    fn credential(&mut self, value: Option<String>, word: &str, _: &mut Vars) -> String {
        let variable = value.as_deref().and_then(|value| value.strip_prefix("{{")?.strip_suffix("}}").map(str::trim));
        let word = variable.filter(|name| !name.is_empty()).unwrap_or(word).to_owned();
        self.secret(&word)
    }
}

/// The block of a folder or a request, unless it is inherited.
fn own_auth(place: &Json) -> Option<&Json> {
    place.get("auth").filter(|auth| auth.is_object() && auth.get("type").is_none_or(|kind| kind != "inherit"))
}

/// Prefix of a variable that replaces a whole value.
const WHOLE: char = '\u{e0f0}';

/// Parses a JSON body, with `{{name}}` outside strings as a string that begins with [`WHOLE`]; `None` for other bodies.
fn marked(raw: &str) -> Option<Json> {
    let mut text = String::with_capacity(raw.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        if let Some((name, after)) =
            rest.strip_prefix("{{").filter(|_| !in_string).and_then(|after| after.split_once("}}"))
            && !name.contains(['"', '{', '\n'])
        {
            text.push_str(&Json::from(format!("{WHOLE}{}", name.trim())).to_string());
            rest = after;
            continue;
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            WHOLE => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        text.push(c);
        rest = &rest[c.len_utf8()..];
    }
    serde_json::from_str(&text).ok().filter(|json: &Json| json.is_object() || json.is_array())
}
