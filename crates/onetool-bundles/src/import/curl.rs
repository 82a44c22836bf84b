//! A `curl` command as a tool: what it sends is the template, what it gives for names are the arguments' defaults.
//!
//! Values under names that look like secrets (headers, the query, fields of the body, `-u`) become named secrets; their
//! values are not kept.

use std::collections::BTreeSet;

use onetool_state::bundles::{ApiKeyPlace, Auth, BundleDraft, HttpImplementation, Implementation, ToolAuth, ToolDraft};
use reqwest::Url;
use serde_json::{Map, Value as Json, json};

use super::naming;
use super::{Format, ImportOptions, Imported, ImportedTool, Unexpressed};
use crate::template::percent_encode;

/// The longest command.
const MAX_BYTES: usize = 256 * 1024;

/// What the options of a command come to.
#[derive(Debug, Default)]
struct Command {
    method: Option<String>,
    url: Option<String>,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    is_json: bool,
    as_query: bool,
    user: Option<(String, String)>,
    ignored: Vec<Unexpressed>,
}

pub(super) fn read(line: &str, options: &ImportOptions) -> Result<Imported, String> {
    if line.len() > MAX_BYTES {
        return Err(format!("a command has at most {MAX_BYTES} bytes"));
    }
    let words = split(line)?;
    let command = Command::parse(&words)?;
    let url = command.url.clone().ok_or("the command names no address")?;
    let url = if url.contains("://") { url } else { format!("https://{url}") };
    let url = Url::parse(&url).map_err(|error| format!("the address is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} addresses are not supported", url.scheme()));
    }
    let host = url.host_str().unwrap_or_default();
    let labels: Vec<&str> =
        host.split('.').filter(|label| !matches!(*label, "www" | "api" | "com" | "org" | "net" | "io")).collect();
    let slug = options.slug.clone().or_else(|| naming::slug(&labels.join("-"))).ok_or("name a slug for the bundle")?;
    let bundle = slug.to_string();
    let mut builder = Builder::new(&bundle);
    let draft = builder.tool(&command, &url)?;
    let method = builder.method(&command);
    let name = format!("{} {}", method.to_lowercase(), url.path().trim_end_matches('/'));
    let tool_slug = naming::slug(&name).ok_or("the address gives no name for a tool")?;
    let tool = ImportedTool { slug: tool_slug, version: naming::version(options.version.as_ref())?, draft };
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

/// A request as templates, with what its variables are.
struct Builder<'a> {
    bundle: &'a str,
    properties: Map<String, Json>,
    secrets: BTreeSet<String>,
}

impl<'a> Builder<'a> {
    fn new(bundle: &'a str) -> Self {
        Self { bundle, properties: Map::new(), secrets: BTreeSet::new() }
    }

    fn method(&self, command: &Command) -> String {
        let has_body = !command.data.is_empty() && !command.as_query;
        command.method.clone().unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned()).to_uppercase()
    }

    fn secret(&mut self, word: &str) -> String {
        let name = naming::secret(self.bundle, word);
        self.secrets.insert(name.clone());
        format!("${{{name}}}")
    }

    /// A value as a variable: a secret, or an argument with this default.
    fn variable(&mut self, name: &str, value: Json) -> String {
        if naming::is_secret(name) {
            return self.secret(name);
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
        let mut auth = None;
        if let Some(password) = url.password() {
            auth = Some(self.basic(url.username(), password));
        }
        if let Some((user, password)) = &command.user {
            auth = Some(self.basic(user, password));
        }
        let mut content_type = None;
        for (name, value) in &command.headers {
            let lower = name.to_ascii_lowercase();
            match lower.as_str() {
                "authorization" => {
                    let (scheme, rest) = value.split_once(' ').unwrap_or(("", value));
                    auth = Some(match scheme.to_ascii_lowercase().as_str() {
                        "bearer" => Auth::Bearer { token: self.secret("token") },
                        "basic" if !rest.is_empty() => self.basic("", ""),
                        _ => {
                            let secret = self.secret("authorization");
                            Auth::ApiKey { place: ApiKeyPlace::Header, name: "Authorization".to_owned(), value: secret }
                        }
                    });
                }
                "host" | "content-length" | "connection" | "accept-encoding" | "transfer-encoding" | "expect" => {}
                "content-type" => {
                    content_type = Some(value.to_ascii_lowercase());
                    http.headers.insert(name.clone(), value.clone());
                }
                _ if naming::is_secret_header(&lower) => {
                    let secret = self.secret(&lower);
                    http.headers.insert(name.clone(), secret);
                }
                _ => {
                    http.headers.insert(name.clone(), escaped(value));
                }
            }
        }
        http.auth = auth.map_or(ToolAuth::Inherited, ToolAuth::from);
        let mut query: Vec<String> = Vec::new();
        let pairs: Vec<(String, String)> =
            url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        for (name, value) in pairs {
            query.push(format!("{}={}", percent_encode(&name), self.variable(&name, Json::from(value))));
        }
        let data = command.data.join("&");
        if command.as_query {
            query.extend(self.form(&data));
        } else if !command.data.is_empty() {
            http.body_template = self.body(&data, command.is_json, content_type.as_deref(), &mut http)?;
        }
        let mut base = url.clone();
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.set_fragment(None);
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        http.url_template = format!("{}{query}", escaped(base.as_str()));
        http.secrets = self.secrets.iter().cloned().collect();
        let (name, path) = (http.method.clone(), url.path());
        Ok(ToolDraft {
            display_name: format!("{name} {path}"),
            description: format!("{name} {}{path}", url.host_str().unwrap_or_default()),
            tags: Vec::new(),
            implementation: Implementation::Http(Box::new(http)),
            is_enabled: true,
            arg_schema: json!({"type": "object", "properties": self.properties, "additionalProperties": false}),
            output_schema: None,
            max_calls_per_minute: None,
            example: None,
            translations: onetool_state::bundles::Translations::default(),
        })
    }

    fn basic(&mut self, _user: &str, _password: &str) -> Auth {
        Auth::Basic { username: self.secret("username"), password: self.secret("password") }
    }

    fn form(&mut self, data: &str) -> Vec<String> {
        // An address with this query: the library takes it apart.
        let Ok(url) = Url::parse(&format!("http://form.invalid/?{data}")) else { return Vec::new() };
        let pairs: Vec<(String, String)> =
            url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        pairs
            .into_iter()
            .map(|(name, value)| format!("{}={}", percent_encode(&name), self.variable(&name, Json::from(value))))
            .collect()
    }

    fn body(
        &mut self,
        data: &str,
        is_json: bool,
        content_type: Option<&str>,
        http: &mut HttpImplementation,
    ) -> Result<String, String> {
        let says_json = is_json || content_type.is_some_and(|kind| kind.contains("json"));
        let parsed = serde_json::from_str::<Json>(data).ok().filter(|value| value.is_object() || value.is_array());
        if says_json || (content_type.is_none() && parsed.is_some()) {
            let value = parsed.ok_or("its data is said to be JSON but is not")?;
            if content_type.is_none() {
                http.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
            }
            return Ok(self.json_body(value));
        }
        if content_type.is_none_or(|kind| kind.contains("x-www-form-urlencoded")) {
            if content_type.is_none() {
                http.headers.insert("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned());
            }
            return Ok(self.form(data).join("&"));
        }
        Ok(self.variable("body", Json::from(data)))
    }

    /// Every member of the outermost object is a variable; secrets deeper inside are found too.
    fn json_body(&mut self, value: Json) -> String {
        match value {
            Json::Object(members) => {
                let parts: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| {
                        let name = escaped(&Json::from(key.as_str()).to_string());
                        let holds_secret = has_secret(&value);
                        let value = if holds_secret { self.masked(value) } else { self.variable(&key, value) };
                        format!("{name}: {value}")
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            other if has_secret(&other) => self.masked(other),
            other => self.variable("body", other),
        }
    }

    fn masked(&mut self, value: Json) -> String {
        match value {
            Json::Object(members) => {
                let parts: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| {
                        let name = escaped(&Json::from(key.as_str()).to_string());
                        let value = if naming::is_secret(&key) { self.secret(&key) } else { self.masked(value) };
                        format!("{name}: {value}")
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            Json::Array(items) => {
                let items: Vec<String> = items.into_iter().map(|item| self.masked(item)).collect();
                format!("[{}]", items.join(", "))
            }
            scalar => escaped(&scalar.to_string()),
        }
    }
}

fn has_secret(value: &Json) -> bool {
    match value {
        Json::Object(members) => members.iter().any(|(key, value)| naming::is_secret(key) || has_secret(value)),
        Json::Array(items) => items.iter().any(has_secret),
        _ => false,
    }
}

/// A text in which a template reads no variable.
pub(super) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

impl Command {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut words = words.iter();
        match words.next().map(String::as_str) {
            Some("curl") => {}
            _ => return Err("the command must start with curl".to_owned()),
        }
        let mut command = Self::default();
        while let Some(word) = words.next() {
            let (option, attached) = match word.as_str() {
                long if long.starts_with("--") => match long.split_once('=') {
                    Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                },
                short if short.starts_with('-') && short.len() > 1 => match short_option(short, &mut command)? {
                    Some(found) => found,
                    None => continue,
                },
                address => {
                    if command.url.replace(address.to_owned()).is_some() {
                        return Err("the command names several addresses".to_owned());
                    }
                    continue;
                }
            };
            if is_switch(&option) {
                command.switch(&option);
                continue;
            }
            let value = match attached {
                Some(value) => value,
                None => words.next().cloned().ok_or_else(|| format!("{option} needs a value"))?,
            };
            command.option(&option, value)?;
        }
        Ok(command)
    }

    fn switch(&mut self, option: &str) {
        match option {
            "-G" | "--get" => self.as_query = true,
            "-I" | "--head" => self.method = Some("HEAD".to_owned()),
            "-k" | "--insecure" => self
                .ignored
                .push(Unexpressed { what: option.to_owned(), reason: "certificates are always checked".to_owned() }),
            _ => {}
        }
    }

    fn option(&mut self, option: &str, value: String) -> Result<(), String> {
        match option {
            "-X" | "--request" => self.method = Some(value),
            "-H" | "--header" => {
                if let Some((name, value)) = value.split_once(':') {
                    self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
            }
            "-d" | "--data" | "--data-ascii" | "--data-binary" | "--data-raw" | "--json" => {
                if value.starts_with('@') && option != "--data-raw" {
                    return Err(format!("{option} {value} reads a file; put the data into the command"));
                }
                if option == "--json" {
                    self.is_json = true;
                    self.headers.push(("Accept".to_owned(), "application/json".to_owned()));
                }
                self.data.push(value);
            }
            "--data-urlencode" => {
                let (name, value) = value.split_once('=').unwrap_or(("", &value));
                if value.starts_with('@') || name.contains('@') {
                    return Err("--data-urlencode reads a file; put the data into the command".to_owned());
                }
                let encoded = percent_encode(value);
                self.data.push(if name.is_empty() { encoded } else { format!("{name}={encoded}") });
            }
            "-F" | "--form" | "--form-string" => {
                return Err("multipart forms (-F) are not supported: a tool's body is JSON, a form or text".to_owned());
            }
            "-T" | "--upload-file" => return Err("uploads of files (-T) are not supported".to_owned()),
            "-u" | "--user" => {
                let (user, password) = value.split_once(':').unwrap_or((&value, ""));
                self.user = Some((user.to_owned(), password.to_owned()));
            }
            "-A" | "--user-agent" => self.headers.push(("User-Agent".to_owned(), value)),
            "-e" | "--referer" => self.headers.push(("Referer".to_owned(), value)),
            "-b" | "--cookie" => self.headers.push(("Cookie".to_owned(), value)),
            "--oauth2-bearer" => self.headers.push(("Authorization".to_owned(), format!("Bearer {value}"))),
            "--url" => self.url = Some(value),
            "-m" | "--max-time" | "--connect-timeout" | "-o" | "--output" | "-w" | "--write-out" | "--retry"
            | "--retry-delay" | "-c" | "--cookie-jar" | "-D" | "--dump-header" => self.ignored.push(Unexpressed {
                what: option.to_owned(),
                reason: "it says how curl behaves, not what is sent".to_owned(),
            }),
            other => {
                return Err(format!("the option {other} is not supported"));
            }
        }
        Ok(())
    }
}

fn is_switch(option: &str) -> bool {
    matches!(
        option,
        "-G" | "--get"
            | "-I"
            | "--head"
            | "-k"
            | "--insecure"
            | "-L"
            | "--location"
            | "-s"
            | "--silent"
            | "-S"
            | "--show-error"
            | "-v"
            | "--verbose"
            | "-i"
            | "--include"
            | "--compressed"
            | "-f"
            | "--fail"
            | "--http1.1"
            | "--http2"
            | "-N"
            | "--no-buffer"
            | "-4"
            | "-6"
            | "-g"
            | "--globoff"
            | "--fail-with-body"
            | "-O"
            | "--remote-name"
            | "-#"
            | "--progress-bar"
            | "--basic"
    )
}

/// `-sSL`, `-XPOST`: the switches before the last letter, and the option that takes the rest.
fn short_option(word: &str, command: &mut Command) -> Result<Option<(String, Option<String>)>, String> {
    let letters: Vec<char> = word.chars().skip(1).collect();
    for (at, letter) in letters.iter().enumerate() {
        let option = format!("-{letter}");
        if is_switch(&option) {
            command.switch(&option);
            continue;
        }
        let rest: String = letters[at + 1..].iter().collect();
        return Ok(Some((option, (!rest.is_empty()).then_some(rest))));
    }
    Ok(None)
}

/// The words of a command, as a shell splits them. Nothing is expanded.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_with(String::new);
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_with(String::new);
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some('\n') => {}
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a quote is not closed".to_owned()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
            }
            '$' if chars.peek() == Some(&'\'') => {
                chars.next();
                ansi(&mut chars, word.get_or_insert_with(String::new))?;
            }
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some('\r') => {
                    chars.next_if_eq(&'\n');
                }
                Some(c) => word.get_or_insert_with(String::new).push(c),
            },
            '|' | ';' | '&' | '>' | '<' if word.is_none() => {
                return Err(format!("'{c}' ends a command; give one curl command alone"));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// `$'…'`, as browsers copy it.
fn ansi(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String) -> Result<(), String> {
    loop {
        let open = || "a quote is not closed".to_owned();
        match chars.next().ok_or_else(open)? {
            '\'' => return Ok(()),
            '\\' => match chars.next().ok_or_else(open)? {
                'n' => word.push('\n'),
                'r' => word.push('\r'),
                't' => word.push('\t'),
                'u' | 'x' => {
                    let mut code = 0;
                    for _ in 0..4 {
                        let Some(digit) = chars.peek().and_then(|c| c.to_digit(16)) else { break };
                        code = code * 16 + digit;
                        chars.next();
                    }
                    word.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                }
                other => word.push(other),
            },
            c => word.push(c),
        }
    }
}
