//! Converts a `curl` command to a tool: the request becomes the template, its values become defaults of the arguments.
//!
//! Values whose names look like secrets (headers, query parameters, body fields, `-u`) become named secrets, and the
//! values are dropped. Shell variables and `{placeholders}` of the path become arguments, or secrets if their names
//! look like it.

mod command;
mod words;

use std::collections::BTreeSet;

use onetool_state::bundles::{
    ApiKeyPlace, Auth, BundleDraft, HttpImplementation, Implementation, SigV4Auth, ToolAuth, ToolDraft,
};
use reqwest::Url;
use serde_json::{Map, Value as Json, json};

use super::naming;
use super::schemas::percent_decoded;
use super::{Format, ImportOptions, Imported, ImportedTool, Unexpressed};
use crate::request::RESERVED_HEADERS;
use crate::template::percent_encode;
use command::Command;
use words::{CLOSE, OPEN, literal};

/// Maximum length of a command.
const MAX_BYTES: usize = 256 * 1024;
const FORM: &str = "application/x-www-form-urlencoded";
const SESSION_TOKEN: &str = "x-amz-security-token";

/// Whether a text is a command rather than a document.
pub(super) fn is_command(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix(['$', '%']).map_or(text, str::trim_start);
    text.strip_prefix("curl").is_some_and(|rest| rest.starts_with(char::is_whitespace) || rest.starts_with(".exe"))
}

pub(super) fn read(line: &str, options: &ImportOptions) -> Result<Imported, String> {
    if line.len() > MAX_BYTES {
        return Err(format!("a command has at most {MAX_BYTES} bytes"));
    }
    let mut command = Command::parse(words::split(line)?)?;
    let url = address(&command)?;
    let host = url.host_str().unwrap_or_default();
    let labels: Vec<&str> =
        host.split('.').filter(|label| !matches!(*label, "www" | "api" | "com" | "org" | "net" | "io")).collect();
    let slug = options.slug.clone().or_else(|| naming::slug(&labels.join("-"))).ok_or("name a slug for the bundle")?;
    let bundle = slug.to_string();
    let mut builder = Builder::new(&bundle);
    let draft = builder.tool(&command, &url)?;
    command.ignored.append(&mut builder.ignored);
    let path = percent_decoded(url.path());
    let name = format!("{} {}", builder.method(&command).to_lowercase(), path.trim_end_matches('/'));
    let tool_slug = naming::slug(&name).ok_or("the address gives no name for a tool")?;
    let tool =
        ImportedTool { slug: tool_slug, version: naming::version(options.version.as_ref())?, draft: draft.into() };
    Ok(Imported {
        format: Format::Curl,
        bundle: BundleDraft {
            display_name: host.to_owned(),
            secrets: builder.secrets.iter().cloned().collect(),
            ..BundleDraft::new(slug)
        },
        tools: vec![tool],
        unexpressed: command.ignored,
        secrets: builder.secrets,
    })
}

fn address(command: &Command) -> Result<Url, String> {
    let url = command.url.clone().ok_or("the command names no address")?;
    let url = if url.contains("://") { url } else { format!("https://{url}") };
    let authority = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if authority.rsplit('@').next().is_some_and(|host| host.contains(OPEN)) {
        return Err(format!("its host is a shell variable ({}); write it out", literal(authority)));
    }
    let url = Url::parse(&url).map_err(|error| format!("the address is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} addresses are not supported", url.scheme()));
    }
    Ok(url)
}

/// A request in the form of templates, with its variables.
struct Builder<'a> {
    bundle: &'a str,
    properties: Map<String, Json>,
    required: Vec<String>,
    secrets: BTreeSet<String>,
    ignored: Vec<Unexpressed>,
}

impl<'a> Builder<'a> {
    fn new(bundle: &'a str) -> Self {
        Self { bundle, properties: Map::new(), required: Vec::new(), secrets: BTreeSet::new(), ignored: Vec::new() }
    }

    fn method(&self, command: &Command) -> String {
        let has_body = command.data.is_some() && !command.as_query;
        command.method.clone().unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned()).to_uppercase()
    }

    fn secret(&mut self, word: &str) -> String {
        self.secret_named(naming::secret(self.bundle, word))
    }

    fn secret_named(&mut self, name: String) -> String {
        let template = format!("${{{name}}}");
        self.secrets.insert(name);
        template
    }

    /// Turns a credential into a secret, named after its shell variable or its place.
    fn credential(&mut self, value: &str, word: &str) -> String {
        match only_variable(value) {
            Some(name) => self.secret_named(name.to_ascii_uppercase()),
            None => self.secret(word),
        }
    }

    /// Turns a shell variable into a secret or an argument.
    fn shell_variable(&mut self, name: &str) -> String {
        if naming::is_secret_header(name) {
            return self.secret_named(name.to_ascii_uppercase());
        }
        self.required_argument(&name.to_ascii_lowercase())
    }

    fn required_argument(&mut self, name: &str) -> String {
        let argument = naming::argument(name);
        if !self.properties.contains_key(&argument) {
            self.properties.insert(argument.clone(), json!({"type": "string"}));
            self.required.push(argument.clone());
        }
        format!("${{{argument}}}")
    }

    /// Converts text to a template in which only shell variables are variables.
    fn text(&mut self, text: &str) -> String {
        let mut made = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            made.push_str(&escaped(before));
            let (name, after) = after.split_once(CLOSE).unwrap_or((after, ""));
            made.push_str(&self.shell_variable(name));
            rest = after;
        }
        made.push_str(&escaped(rest));
        made
    }

    /// Turns a value into a secret, or into an argument with this default.
    fn variable(&mut self, name: &str, value: Json) -> String {
        let text = value.as_str().unwrap_or_default();
        if naming::is_secret(name) {
            return self.credential(text, name);
        }
        if text.contains(OPEN) {
            return match only_variable(text) {
                Some(variable) if naming::is_secret_header(variable) => self.shell_variable(variable),
                Some(_) => self.required_argument(name),
                None => self.text(text),
            };
        }
        let plain = naming::argument(name);
        let argument = std::iter::once(plain.clone())
            .chain((2..).map(|number| format!("{plain}_{number}")))
            .find(|name| !self.properties.contains_key(name))
            .unwrap_or(plain);
        let kind = match &value {
            Json::String(_) => Some("string"),
            Json::Bool(_) => Some("boolean"),
            Json::Number(number) if number.is_f64() => Some("number"),
            Json::Number(_) => Some("integer"),
            Json::Array(_) => Some("array"),
            Json::Object(_) => Some("object"),
            Json::Null => None,
        };
        let mut property = json!({"default": value});
        if let Some(kind) = kind {
            property["type"] = Json::from(kind);
        }
        self.properties.insert(argument.clone(), property);
        format!("${{{argument}}}")
    }

    fn tool(&mut self, command: &Command, url: &Url) -> Result<ToolDraft, String> {
        let mut http =
            HttpImplementation { method: self.method(command), timeout_ms: 30_000, ..HttpImplementation::get("") };
        let content_type = self.headers(command, url, &mut http)?;
        let mut query = Vec::new();
        for pair in url.query().into_iter().chain(command.query.iter().map(String::as_str)) {
            query.extend(self.form(pair));
        }
        match &command.data {
            Some(data) if command.as_query => query.extend(self.form(data)),
            Some(data) => {
                http.body_template = self.body(data, command.is_json, content_type.as_deref(), &mut http)?;
            }
            None => {}
        }
        let path = self.path(url.path());
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        http.url_template = format!("{}{path}{query}", url.origin().ascii_serialization());
        http.secrets = self.secrets.iter().cloned().collect();
        let (name, path) = (http.method.clone(), literal(&percent_decoded(url.path())));
        let mut arg_schema = json!({"type": "object", "properties": self.properties, "additionalProperties": false});
        if !self.required.is_empty() {
            arg_schema["required"] = Json::from(self.required.clone());
        }
        Ok(ToolDraft {
            display_name: format!("{name} {path}"),
            description: format!("{name} {}{path}", url.host_str().unwrap_or_default()),
            tags: Vec::new(),
            implementation: Implementation::Http(Box::new(http)),
            is_enabled: true,
            arg_schema,
            output_schema: None,
            max_calls_per_minute: None,
            example: None,
            translations: onetool_state::bundles::Translations::default(),
        })
    }

    /// Fills in the headers and the authentication; returns the content type.
    fn headers(
        &mut self,
        command: &Command,
        url: &Url,
        http: &mut HttpImplementation,
    ) -> Result<Option<String>, String> {
        let mut auth = match (&command.sigv4, &command.user) {
            (Some(provider), user) => Some(self.sigv4(provider, user.as_deref(), command, url)?),
            (None, Some(user)) => {
                let (name, password) = user.split_once(':').map_or((user.as_str(), None), |(a, b)| (a, Some(b)));
                Some(self.basic(name, password))
            }
            (None, None) if !url.username().is_empty() || url.password().is_some() => {
                Some(self.basic(url.username(), url.password().or(Some(""))))
            }
            (None, None) => None,
        };
        let mut content_type = None;
        for (name, value) in &command.headers {
            let (name, lower) = (literal(name), name.to_ascii_lowercase());
            match lower.as_str() {
                "authorization" => {
                    let (scheme, rest) = value.split_once(' ').unwrap_or(("", value));
                    auth = Some(match scheme.to_ascii_lowercase().as_str() {
                        "bearer" => Auth::Bearer { token: self.credential(rest.trim(), "token") },
                        "basic" if !rest.is_empty() => self.basic("user", None),
                        _ => {
                            let secret = self.credential(value, "authorization");
                            Auth::ApiKey { place: ApiKeyPlace::Header, name: "Authorization".to_owned(), value: secret }
                        }
                    });
                }
                reserved if RESERVED_HEADERS.contains(&reserved) => {}
                SESSION_TOKEN if command.sigv4.is_some() => {}
                "content-type" => {
                    content_type = Some(value.to_ascii_lowercase());
                    http.headers.insert(name, literal(value));
                }
                _ if naming::is_secret_header(&lower) => {
                    let secret = self.credential(value, &lower);
                    http.headers.insert(name, secret);
                }
                _ => {
                    let value = self.text(value);
                    http.headers.insert(name, value);
                }
            }
        }
        if command.is_json && !http.headers.keys().any(|name| name.eq_ignore_ascii_case("accept")) {
            http.headers.insert("Accept".to_owned(), "application/json".to_owned());
        }
        http.auth = auth.map_or(ToolAuth::Inherited, ToolAuth::from);
        Ok(content_type)
    }

    /// A password that is known to be empty is not a secret.
    fn basic(&mut self, user: &str, password: Option<&str>) -> Auth {
        let username = if user.is_empty() { String::new() } else { self.credential(user, "username") };
        let password = match password {
            Some("") => String::new(),
            other => self.credential(other.unwrap_or_default(), "password"),
        };
        Auth::Basic { username, password }
    }

    /// Parses `aws:amz:REGION:SERVICE`. Missing parts are taken from the host, as in `service.region.amazonaws.com`.
    fn sigv4(&mut self, provider: &str, user: Option<&str>, command: &Command, url: &Url) -> Result<Auth, String> {
        let parts: Vec<&str> = provider.split(':').collect();
        let labels: Vec<&str> = url.host_str().unwrap_or_default().split('.').collect();
        let labels = labels.iter().rev().skip_while(|label| **label != "amazonaws").skip(1).collect::<Vec<_>>();
        let region = parts.get(2).copied().or_else(|| labels.first().map(|label| **label));
        let service = parts.get(3).copied().or_else(|| labels.get(1).map(|label| **label));
        let (Some(region), Some(service), Some("aws")) = (region, service, parts.first().copied()) else {
            return Err("--aws-sigv4 must name region and service, as in aws:amz:us-east-1:execute-api".to_owned());
        };
        let (key, secret) = user.and_then(|user| user.split_once(':')).unwrap_or(("", ""));
        let token = command.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(SESSION_TOKEN));
        Ok(Auth::SigV4(Box::new(SigV4Auth {
            service: service.to_owned(),
            region: region.to_owned(),
            access_key_id: self.credential(key, "access_key_id"),
            secret_access_key: self.credential(secret, "secret_access_key"),
            session_token: token.map(|(_, value)| self.credential(value, "session_token")),
            ..SigV4Auth::default()
        })))
    }

    /// Converts a path, with `{name}` and shell variables as variables. The rest is already encoded by the URL library.
    fn path(&mut self, path: &str) -> String {
        let path = path.replace(&percent_encode(&OPEN.to_string()), &OPEN.to_string());
        let path = path.replace(&percent_encode(&CLOSE.to_string()), &CLOSE.to_string());
        let mut made = String::new();
        let mut rest = path.as_str();
        while let Some((before, after)) = rest.split_once(OPEN) {
            made.push_str(&self.placeholders(before));
            let (name, after) = after.split_once(CLOSE).unwrap_or((after, ""));
            made.push_str(&self.shell_variable(name));
            rest = after;
        }
        made.push_str(&self.placeholders(rest));
        made
    }

    fn placeholders(&mut self, path: &str) -> String {
        let mut made = String::new();
        let mut rest = path;
        while let Some((before, after)) = rest.split_once("%7B") {
            made.push_str(&escaped(before));
            rest = after;
            match after.split_once("%7D") {
                Some((name, after)) if is_word(name) => {
                    made.push_str(&self.required_argument(name));
                    rest = after;
                }
                _ => made.push_str("%7B"),
            }
        }
        made.push_str(&escaped(rest));
        made
    }

    /// Converts the pairs of a query or a form to templates.
    fn form(&mut self, data: &str) -> Vec<String> {
        let decoded = |text: &str| percent_decoded(&text.replace('+', " "));
        let pairs = data.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) => {
                    let name = literal(&decoded(name));
                    format!("{}={}", percent_encode(&name), self.variable(&name, Json::from(decoded(value))))
                }
                None => match only_variable(pair) {
                    Some(name) => self.shell_variable(name),
                    None => percent_encode(&literal(&decoded(pair))),
                },
            })
            .collect()
    }

    fn body(
        &mut self,
        data: &str,
        is_json: bool,
        content_type: Option<&str>,
        http: &mut HttpImplementation,
    ) -> Result<String, String> {
        if content_type.is_some_and(|kind| kind.contains("multipart/")) {
            return Err("multipart forms are not supported: a tool's body is JSON, a form or text".to_owned());
        }
        let says_json = is_json || content_type.is_some_and(|kind| kind.contains("json"));
        let parsed = parse(data).filter(|value| says_json || value.is_object() || value.is_array());
        if says_json || (content_type.is_none() && parsed.is_some()) {
            let value = parsed.ok_or("its data is said to be JSON but is not")?;
            if content_type.is_none() {
                http.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
            }
            return Ok(self.json_body(value));
        }
        if content_type.is_none_or(|kind| kind.contains(FORM)) {
            if content_type.is_none() {
                http.headers.insert("Content-Type".to_owned(), FORM.to_owned());
            }
            return Ok(self.form(data).join("&"));
        }
        Ok(self.variable("body", Json::from(data)))
    }

    /// Turns every member of the top-level object into a variable; nested secrets and shell variables are found too.
    fn json_body(&mut self, value: Json) -> String {
        match value {
            Json::Object(members) => {
                let parts: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| {
                        let name = key_text(&key);
                        let is_plain = value.is_string() && naming::is_secret(&key)
                            || !needs_look(&value)
                            || is_one_variable(&value);
                        let value = if is_plain { self.variable(&key, value) } else { self.masked(value) };
                        format!("{name}: {value}")
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            other if needs_look(&other) => self.masked(other),
            other => self.variable("body", other),
        }
    }

    fn masked(&mut self, value: Json) -> String {
        match value {
            Json::Object(members) => {
                let parts: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| {
                        let is_secret = naming::is_secret(&key);
                        let text = value.as_str().unwrap_or_default();
                        let value = if is_secret { self.credential(text, &key) } else { self.masked(value) };
                        format!("{}: {value}", key_text(&key))
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            Json::Array(items) => {
                let items: Vec<String> = items.into_iter().map(|item| self.masked(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Json::String(text) => match only_variable(&text) {
                Some(name) => self.shell_variable(name),
                // The variables are inside a JSON string, so the text around them is escaped.
                None => self.text(&Json::from(text).to_string()),
            },
            scalar => escaped(&scalar.to_string()),
        }
    }
}

/// Parses JSON in which a shell variable may replace a whole value.
fn parse(data: &str) -> Option<Json> {
    serde_json::from_str(data).ok().or_else(|| {
        let quoted = data.replace(OPEN, &format!("\"{OPEN}")).replace(CLOSE, &format!("{CLOSE}\""));
        serde_json::from_str(&quoted).ok()
    })
}

fn key_text(key: &str) -> String {
    escaped(&Json::from(literal(key)).to_string())
}

/// The variable's name, if the text is a single shell variable.
fn only_variable(text: &str) -> Option<&str> {
    text.strip_prefix(OPEN)?.strip_suffix(CLOSE).filter(|name| !name.contains([OPEN, CLOSE]))
}

fn is_one_variable(value: &Json) -> bool {
    value.as_str().is_some_and(|text| only_variable(text).is_some())
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Whether a value contains secrets or shell variables.
fn needs_look(value: &Json) -> bool {
    match value {
        Json::Object(members) => members.iter().any(|(key, value)| naming::is_secret(key) || needs_look(value)),
        Json::Array(items) => items.iter().any(needs_look),
        Json::String(text) => text.contains(OPEN),
        _ => false,
    }
}

/// Escapes text so that a template reads no variables in it.
pub(super) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}
