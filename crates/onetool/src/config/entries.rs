//! Sections whose entries have names or conditions of their own. What cannot be read must not be laxer than what was
//! meant: an unreadable rule denies, an unreadable token opens nothing, an unreadable server is left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use onetool_http::{AccessToken, ApiSettings, Scope, ServerSettings as HttpServerSettings, parse_address};
use onetool_run::{Permission, Permissions, Project, Snippet, SnippetParameter, Topic, check_template};
use onetool_sdk::{is_python_identifier, to_python_identifier};
use onetool_bundles::{AllowedHosts, HttpSettings};
use onetool_proxy::{DEFAULT_MESSAGE_BYTES, Enabled, PinMode, ServerKind, ServerSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::files::ConfigPlaces;
use super::reader::Reader;
use super::resolve::{expand_home, seconds};
use super::secrets::{Secrets, expand_with};
use super::{keys, raw, shape};
use crate::telemetry::TelemetrySettings;

/// Packs that nothing else may stand for.
const PROTECTED: &[&str] = &["ot", "std", "file", "proj"];

impl Reader {
    fn entries(&mut self, name: &str, shape: super::shape::Shape, value: Option<Json>) -> Map<String, Json> {
        match self.fit(&[name], shape, value) {
            Some(Json::Object(entries)) => entries,
            _ => Map::new(),
        }
    }

    /// An entry of a section whose shape was checked.
    fn checked<T: DeserializeOwned + Default>(&mut self, path: &[&str], value: Json) -> T {
        self.typed(path, super::shape::Shape::Any, Some(value))
    }

    pub(super) fn aliases(&mut self, value: Option<Json>) -> IndexMap<String, String> {
        let mut aliases = IndexMap::new();
        for (name, target) in self.entries("alias", keys::ALIAS, value) {
            let Json::String(target) = target else { continue };
            let is_name = target.split('.').count() <= 2 && target.split('.').all(is_python_identifier);
            if PROTECTED.contains(&name.as_str()) {
                self.problem(&["alias", &name], "this is the name of a pack that cannot be replaced");
            } else if !is_python_identifier(&name) {
                self.problem(&["alias", &name], "an alias must be a name in Python: letters, digits and underscores");
            } else if !is_name {
                let found = shape::short(&target);
                self.problem(&["alias", &name], &format!("found '{found}', expected a tool's name like pack.function"));
            } else {
                aliases.insert(name, target);
            }
        }
        let cyclic: Vec<String> = aliases
            .keys()
            .filter(|name| {
                let mut target: &str = name;
                (0..=aliases.len()).all(|_| match aliases.get(target) {
                    Some(next) => {
                        target = next;
                        true
                    }
                    None => false,
                })
            })
            .cloned()
            .collect();
        for name in cyclic {
            self.problem(&["alias", &name], "this alias leads back to itself");
        }
        aliases
    }

    pub(super) fn snippets(&mut self, value: Option<Json>) -> IndexMap<String, Snippet> {
        let mut snippets = IndexMap::new();
        for (name, value) in self.entries("snippets", keys::SNIPPETS, value) {
            let entry = match value {
                Json::String(body) => raw::SnippetEntry { body, ..raw::SnippetEntry::default() },
                other => self.checked(&["snippets", &name], other),
            };
            if !is_snippet_name(&name) {
                self.problem(
                    &["snippets", &name],
                    "a snippet's name has letters, digits, _ and -; it begins with no digit",
                );
                continue;
            }
            if entry.body.trim().is_empty() {
                if !self.is_wrong(&["snippets", &name, "body"]) {
                    self.problem(&["snippets", &name], "expected a body, the code to run");
                }
                continue;
            }
            // It stays, so that whoever uses it is told the same.
            if let Err(message) = check_template(&entry.body) {
                self.problem(&["snippets", &name, "body"], &format!("no valid template: {message}"));
            }
            let parameters = entry
                .params
                .into_iter()
                .map(|(key, parameter)| {
                    let required = parameter.required.unwrap_or(parameter.default.is_none());
                    let parameter = SnippetParameter {
                        required,
                        kind: parameter.kind,
                        default: parameter.default,
                        description: parameter.description,
                    };
                    (key, parameter)
                })
                .collect();
            snippets.insert(name, Snippet { description: entry.description, parameters, body: entry.body });
        }
        snippets
    }

    pub(super) fn projects(&mut self, value: Option<Json>, places: &ConfigPlaces) -> IndexMap<String, Project> {
        let mut projects = IndexMap::new();
        for (name, value) in self.entries("projects", keys::PROJECTS, value) {
            let entry = match value {
                Json::String(path) => raw::ProjectEntry { path: Some(path), ..raw::ProjectEntry::default() },
                other => self.checked(&["projects", &name], other),
            };
            let Some(path) = entry.path else {
                if !self.is_wrong(&["projects", &name, "path"]) {
                    self.problem(&["projects", &name], "expected a path, or a mapping with path and attrs");
                }
                continue;
            };
            if name.trim().is_empty() {
                self.problem(&["projects", &name], "a project needs a name, to be used as proj.name");
                continue;
            }
            let path = places.project.join(expand_home(&path));
            projects.insert(name, Project { path, attributes: entry.attrs });
        }
        projects
    }

    pub(super) fn servers(
        &mut self,
        value: Option<Json>,
        secrets: &Secrets,
        places: &ConfigPlaces,
    ) -> Vec<ServerSettings> {
        let mut servers = Vec::new();
        for (name, value) in self.entries("servers", keys::SERVERS, value) {
            let raw: raw::Server = self.checked(&["servers", &name], value);
            let timeout = seconds(raw.timeout, Duration::from_secs(30));
            // Started with half of what was meant it could do what was not meant.
            let kind = if self.is_wrong(&["servers", &name]) {
                Err("its configuration has a mistake".to_owned())
            } else if !name.chars().any(char::is_alphanumeric) {
                Err("a server's name needs a letter or a digit; it is the name of its pack".to_owned())
            } else if PROTECTED.contains(&to_python_identifier(&name).as_str()) {
                Err("its name is that of a pack that cannot be replaced; choose another".to_owned())
            } else {
                server_kind(&raw, secrets, places)
            };
            let mut enabled = match raw.enabled {
                Some(false) => Enabled::No { reason: "switched off in the configuration".to_owned() },
                _ => Enabled::Yes,
            };
            let kind = kind.unwrap_or_else(|reason| {
                if enabled == Enabled::Yes {
                    self.problem(&["servers", &name], &format!("this server is left out: {reason}"));
                }
                enabled = Enabled::No { reason };
                ServerKind::Http { url: String::new(), headers: BTreeMap::new() }
            });
            let pin = match raw.pin.as_deref() {
                None | Some("flag") => PinMode::Flag,
                Some("off") => PinMode::Off,
                Some(_) => PinMode::Strict,
            };
            servers.push(ServerSettings {
                name,
                kind,
                enabled,
                timeout,
                include: raw.tools.include,
                exclude: raw.tools.exclude,
                pin,
                max_message_bytes: raw.max_message_mb.map_or(DEFAULT_MESSAGE_BYTES, |megabytes| megabytes << 20),
            });
        }
        servers
    }

    /// Without an address nothing is exported; what cannot be read as it was meant exports nothing either.
    pub(super) fn telemetry(&mut self, raw: raw::Telemetry, secrets: &Secrets) -> Option<TelemetrySettings> {
        let get = |name: &str| secrets.get(name).map(str::to_owned).or_else(|| std::env::var(name).ok());
        let endpoint = raw.otlp_endpoint.filter(|endpoint| !endpoint.trim().is_empty())?;
        let key = ["telemetry", "otlp_endpoint"];
        let endpoint = match expand_with(endpoint.trim(), get) {
            Ok(endpoint) => endpoint,
            Err(name) => {
                self.problem(&key, &format!("no secret and no variable '{name}'; nothing is exported"));
                return None;
            }
        };
        let mut headers = Vec::new();
        for (name, value) in raw.headers {
            match expand_with(&value, get) {
                Ok(value) => headers.push((name, value)),
                Err(missing) => {
                    let message = format!("no secret and no variable '{missing}'; nothing is exported");
                    self.problem(&["telemetry", "headers", &name], &message);
                    return None;
                }
            }
        }
        let service_name = raw.service_name.unwrap_or_else(|| "onetool".to_owned());
        match TelemetrySettings::new(&endpoint, service_name, &headers) {
            Ok(settings) => Some(settings),
            Err(error) => {
                self.problem(&key, &format!("{error}; nothing is exported"));
                None
            }
        }
    }

    pub(super) fn topics(&mut self, tools: &Map<String, Json>, own: &Path) -> Vec<Topic> {
        let pack: raw::MsgPack = self.typed(&["tools", "msg"], keys::MSG_PACK, tools.get("msg").cloned());
        let mut topics = Vec::new();
        for entry in pack.topics {
            if entry.pattern.is_empty() || entry.file.is_empty() {
                self.problem(&["tools", "msg", "topics"], "each topic needs a pattern and a file");
            } else {
                topics.push(Topic { pattern: entry.pattern, file: own.join(expand_home(&entry.file)) });
            }
        }
        topics
    }

    pub(super) fn file_roots(&mut self, tools: &Map<String, Json>, places: &ConfigPlaces) -> Vec<PathBuf> {
        let pack: raw::FilePack = self.typed(&["tools", "file"], keys::FILE_PACK, tools.get("file").cloned());
        let roots: Vec<PathBuf> = pack.roots.iter().map(|root| places.project.join(expand_home(root))).collect();
        if roots.is_empty() { vec![places.project.clone()] } else { roots }
    }

    pub(super) fn http(&mut self, raw: raw::Http) -> HttpSettings {
        let defaults = HttpSettings::default();
        let allowed_hosts = AllowedHosts::parse(raw.allowed_hosts.iter().map(String::as_str)).unwrap_or_else(|error| {
            self.problem(&["http", "allowed_hosts"], &error.to_string());
            AllowedHosts::default()
        });
        HttpSettings {
            allowed_hosts,
            max_retries: raw.retries.unwrap_or(defaults.max_retries),
            max_sent_bytes: raw.max_sent_bytes.unwrap_or(defaults.max_sent_bytes),
            max_response_bytes: raw.max_response_bytes.unwrap_or(defaults.max_response_bytes),
            max_timeout: seconds(raw.max_timeout, defaults.max_timeout),
            max_calls_per_minute: raw.max_calls_per_minute.or(defaults.max_calls_per_minute),
        }
    }

    pub(super) fn server(&mut self, raw: raw::HttpServer, secrets: &Secrets) -> HttpServerSettings {
        // Left out, the last one would open the server to all; so it stays, as one that nobody can know.
        let unknown_to_all = || format!("{}{}", uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        let mut tokens = Vec::new();
        for entry in raw.tokens {
            let get = |name: &str| secrets.get(name).map(str::to_owned).or_else(|| std::env::var(name).ok());
            let token = match expand_with(&entry.token, get) {
                Ok(token) if token.is_empty() => {
                    self.problem(&["server", "tokens"], "an entry lacks its token; nobody has it");
                    unknown_to_all()
                }
                Ok(token) => token,
                Err(name) => {
                    self.problem(
                        &["server", "tokens"],
                        &format!("no secret and no variable '{name}'; nobody has this token"),
                    );
                    unknown_to_all()
                }
            };
            let scope = |name: &String| match name.as_str() {
                "read" => Some(Scope::Read),
                "invoke" => Some(Scope::Invoke),
                "admin" => Some(Scope::Admin),
                _ => None,
            };
            tokens.push(AccessToken { token, scopes: entry.scopes.iter().filter_map(scope).collect() });
        }
        if self.is_wrong(&["server", "tokens"]) {
            tokens.push(AccessToken { token: unknown_to_all(), scopes: Vec::new() });
        }
        let bind = raw.bind.as_deref().and_then(|bind| match parse_address(bind) {
            Ok(address) => Some(address),
            Err(error) => {
                self.problem(&["server", "bind"], &error.to_string());
                None
            }
        });
        let defaults = ApiSettings::default();
        HttpServerSettings {
            bind,
            tokens,
            hosts: raw.allowed_hosts,
            origins: raw.allowed_origins,
            api: ApiSettings {
                max_body_bytes: raw.max_body_bytes.unwrap_or(defaults.max_body_bytes),
                request_timeout: seconds(raw.request_timeout, defaults.request_timeout),
                invoke_timeout: seconds(raw.invoke_timeout, defaults.invoke_timeout),
            },
        }
    }

    pub(super) fn permissions(&mut self, policy: &IndexMap<String, Json>) -> Permissions {
        if self.is_wrong(&["security", "policy"]) {
            self.problem(&["security", "policy"], "until this is mended, every tool but those of ot is denied");
            return Permissions::new([("ot.*", Permission::Allow), ("*", Permission::Deny)]).unwrap_or_default();
        }
        let mut rules = Vec::new();
        for (pattern, word) in policy {
            let permission = match word.as_str().map(str::to_ascii_lowercase).as_deref() {
                Some("allow") => Permission::Allow,
                Some("ask") => Permission::Ask,
                Some("deny") => Permission::Deny,
                _ => {
                    let found = shape::quoted(word);
                    let message = format!("found {found}, expected allow, ask or deny; denied until then");
                    self.problem(&["security", "policy", pattern], &message);
                    Permission::Deny
                }
            };
            match Permissions::new([(pattern.as_str(), permission)]) {
                Ok(_) => rules.push((pattern.as_str(), permission)),
                Err(error) => {
                    let message =
                        format!("no valid pattern ({}); expected one like pack.* or *.delete_*", error.kind());
                    self.problem(&["security", "policy", pattern], &message);
                }
            }
        }
        Permissions::new(rules).unwrap_or_default()
    }
}

fn is_snippet_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn server_kind(raw: &raw::Server, secrets: &Secrets, places: &ConfigPlaces) -> Result<ServerKind, String> {
    let get = |name: &str| {
        secrets
            .get(name)
            .map(str::to_owned)
            .or_else(|| raw.env_allow.iter().any(|allowed| allowed == name).then(|| std::env::var(name).ok()).flatten())
    };
    let expand = |text: &str| {
        expand_with(text, get).map_err(|name| format!("'{name}' is neither a secret nor a variable named in env_allow"))
    };
    let is_http = match raw.kind.as_deref() {
        Some("http" | "sse" | "streamable-http") => true,
        Some("stdio") => false,
        None => raw.url.is_some(),
        Some(other) => return Err(format!("type '{other}' is not known; expected stdio or http")),
    };
    if is_http {
        let url = expand(raw.url.as_deref().ok_or("an http server needs a url")?)?;
        let headers = raw
            .headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), expand(value)?)))
            .collect::<Result<_, String>>()?;
        return Ok(ServerKind::Http { url, headers });
    }
    Ok(ServerKind::Stdio {
        command: expand(raw.command.as_deref().ok_or("a stdio server needs a command")?)?,
        args: raw.args.iter().map(|arg| expand(arg)).collect::<Result<_, _>>()?,
        env: raw.env.iter().map(|(name, value)| Ok((name.clone(), expand(value)?))).collect::<Result<_, String>>()?,
        cwd: raw
            .cwd
            .as_deref()
            .map(|folder| Ok::<_, String>(places.project.join(expand_home(&expand(folder)?))))
            .transpose()?,
    })
}
