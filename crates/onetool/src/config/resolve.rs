//! From raw sections to settings. Each section is read key by key where it does not fit as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use onetool_run::{
    Gate, OutputSettings, Permission, Permissions, Project, RunSettings, Snippet, SnippetParameter, StatsSettings,
    Topic,
};
use onetool_sandbox::{Engine, Limits};
use onetool_sdk::{HealthNote, Severity, is_python_identifier};
use onetool_sources::http::{AllowedHosts, HttpSettings, PackageUrls};
use onetool_sources::proxy::{DEFAULT_MESSAGE_BYTES, Enabled, PinMode, ServerKind, ServerSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::files::{ConfigPlaces, LoadedConfig};
use super::secrets::{Secrets, expand_with};
use super::{locate, raw};
use crate::api::{AccessToken, ApiSettings, Scope};
use crate::telemetry::TelemetrySettings;

/// What `servers.<name>.max_message_mb` may say at the most.
const MAX_MESSAGE_MB: usize = 1024;

/// The HTTP server.
#[derive(Clone)]
pub struct ServerKeys {
    pub bind: Option<String>,
    pub tokens: Vec<AccessToken>,
    /// Further names that the server is known by.
    pub hosts: Vec<String>,
    /// Sites whose pages may call it.
    pub origins: Vec<String>,
    pub api: ApiSettings,
}

/// Everything that a configuration says.
#[derive(Clone)]
pub struct Resolved {
    pub folder: PathBuf,
    /// `.onetool`
    pub own: PathBuf,
    pub global: Option<PathBuf>,
    pub run: RunSettings,
    pub prewarm: usize,
    pub max_parallel: usize,
    pub max_waiting: usize,
    pub max_wait: Duration,
    pub python: Option<PathBuf>,
    pub allow_unconfined: bool,
    pub output: OutputSettings,
    pub stats: StatsSettings,
    pub aliases: IndexMap<String, String>,
    pub snippets: IndexMap<String, Snippet>,
    pub projects: IndexMap<String, Project>,
    pub servers: Vec<ServerSettings>,
    pub topics: Vec<Topic>,
    pub instructions: Option<String>,
    pub run_description: Option<String>,
    pub pack_instructions: IndexMap<String, String>,
    pub permissions: Permissions,
    pub tools_dir: Vec<String>,
    pub workers: WorkerKeys,
    pub file_roots: Vec<PathBuf>,
    pub bundles_dir: PathBuf,
    pub http: HttpSettings,
    pub packages: PackageUrls,
    pub server: ServerKeys,
    /// `tools.<pack>`, as it is written.
    pub tools: Map<String, Json>,
    /// Where spans go, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    pub log_level: String,
    pub log_dir: PathBuf,
    pub secrets: Secrets,
    /// The files that all this was read from.
    pub files: Vec<PathBuf>,
    /// Those of them that could not be understood at all. Each has a note.
    pub unreadable: Vec<PathBuf>,
    pub notes: Vec<HealthNote>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct WorkerKeys {
    pub idle_timeout: Duration,
    pub call_timeout: Duration,
    pub startup_timeout: Duration,
    pub max: usize,
    pub max_queue: usize,
    pub max_memory_mb: Option<u64>,
}

/// Shorter secrets would redact ordinary text.
const MIN_SECRET: usize = 6;

/// Packs that nothing else may stand for.
const PROTECTED: &[&str] = &["ot", "std", "file", "proj"];

const SECTIONS: &[&str] = &[
    "version",
    "tools_dir",
    "log_level",
    "log_dir",
    "security",
    "projects",
    "servers",
    "tools",
    "alias",
    "snippets",
    "prompts",
    "stats",
    "output",
    "run",
    "workers",
    "http",
    "bundles",
    "server",
    "telemetry",
];

/// Resolves a configuration.
pub fn resolve(places: &ConfigPlaces, loaded: LoadedConfig) -> Resolved {
    let mut reader = Reader { files: loaded.files, notes: loaded.notes };
    let mut root = loaded.root;
    let mut take = |key: &str| root.remove(key);
    let secrets = Secrets::load(places, &mut reader.notes);
    let files = reader.files.iter().map(|(path, _)| path).chain(&secrets.files).cloned().collect();
    let unreadable = loaded.unreadable.iter().chain(&secrets.unreadable).cloned().collect();
    let own = places.own();
    let run: raw::Run = reader.section("run", take("run"));
    let output: raw::Output = reader.section("output", take("output"));
    let stats: raw::Stats = reader.section("stats", take("stats"));
    let workers: raw::Workers = reader.section("workers", take("workers"));
    let security: raw::Security = reader.section("security", take("security"));
    let prompts: raw::Prompts = reader.section("prompts", take("prompts"));
    let bundles: raw::Bundles = reader.section("bundles", take("bundles"));
    let server: raw::HttpServer = reader.section("server", take("server"));
    let telemetry: raw::Telemetry = reader.section("telemetry", take("telemetry"));
    let telemetry = reader.telemetry(telemetry, &secrets);
    let aliases = reader.aliases(take("alias"));
    let snippets = reader.snippets(take("snippets"));
    let projects = reader.projects(take("projects"), places);
    let servers = reader.servers(take("servers"), &secrets, places);
    let tools = reader.map("tools", take("tools"));
    let topics = reader.topics(&tools, &own);
    let file_roots = reader.file_roots(&tools, places);
    let permissions = reader.permissions(&security.policy);
    let tools_dir = reader.texts("tools_dir", take("tools_dir"));
    let log_level = reader.text("log_level", take("log_level")).unwrap_or_else(|| "info".to_owned()).to_lowercase();
    let log_dir = reader.text("log_dir", take("log_dir"));
    let http: raw::Http = reader.section("http", take("http"));
    let _ = take("version");
    for key in root.keys() {
        reader.problem(&[key], &format!("unknown key '{key}'; expected one of {}", SECTIONS.join(", ")));
    }
    let defaults = Limits::default();
    let limits = Limits {
        max_compute: reader.seconds(&["run", "timeout"], run.timeout, defaults.max_compute),
        timeout: reader.seconds(&["run", "total_timeout"], run.total_timeout, defaults.timeout),
        max_memory: run.max_memory_mb.map_or(defaults.max_memory, |mb| mb.max(8) << 20),
        max_calls: run.max_calls.unwrap_or(defaults.max_calls),
        max_recursion: run.max_recursion.unwrap_or(defaults.max_recursion).clamp(10, 10_000),
        max_printed: run.max_printed_kb.map_or(defaults.max_printed, |kb| kb << 10),
        max_source: run.max_source_kb.map_or(defaults.max_source, |kb| kb << 10),
        ..defaults
    };
    let engine = match run.engine.as_deref() {
        None | Some("auto") => Engine::Auto,
        Some("monty") => Engine::Monty,
        Some("cpython") => Engine::CPython,
        Some(other) => {
            reader.problem(&["run", "engine"], &format!("'{other}' is no engine; expected auto, monty or cpython"));
            Engine::Auto
        }
    };
    let (gate, bad) = Gate::new(&security.blocked, &security.warned, &security.allow);
    for pattern in bad {
        reader.problem(&["security"], &format!("'{pattern}' is no pattern"));
    }
    let http = reader.http(http);
    let packages: raw::Packages = reader.typed(&["tools", "package"], tools.get("package").cloned());
    let server = reader.server(server, &secrets);
    let run_defaults = RunSettings::default();
    Resolved {
        folder: places.project.clone(),
        own: own.clone(),
        global: places.global.clone(),
        run: RunSettings {
            secrets: secrets.values().filter(|value| value.len() >= MIN_SECRET).map(str::to_owned).collect(),
            gate,
            engine,
            limits,
            type_check: run.type_check.unwrap_or(run_defaults.type_check),
            sanitise: security.sanitize.enabled,
            max_error_bytes: run.max_error_kb.map_or(run_defaults.max_error_bytes, |kb| kb.max(1) << 10),
        },
        prewarm: run.prewarm.unwrap_or(1),
        max_parallel: run.max_parallel.unwrap_or(16).max(1),
        max_waiting: run.max_waiting.unwrap_or(256),
        max_wait: reader.seconds(&["run", "max_wait"], run.max_wait, Duration::from_secs(60)),
        python: run.python.map(|path| expand_home(&path)),
        allow_unconfined: run.allow_unconfined.unwrap_or(false),
        output: OutputSettings {
            max_inline_size: output.max_inline_size.unwrap_or(50_000),
            result_ttl: Duration::from_secs(output.result_ttl.unwrap_or(3600)),
            preview_lines: output.preview_lines.unwrap_or(10),
            result_store_dir: own.join(expand_home(output.result_store_dir.as_deref().unwrap_or("tmp"))),
        },
        stats: StatsSettings {
            enabled: stats.enabled.unwrap_or(true),
            file: own
                .join(expand_home(stats.persist_dir.as_deref().unwrap_or("stats")))
                .join(stats.persist_path.as_deref().unwrap_or("stats.jsonl")),
            flush_interval: Duration::from_secs(stats.flush_interval_seconds.unwrap_or(30).max(1)),
            context_per_call: stats.context_per_call.unwrap_or(30_000),
            time_overhead_per_call_ms: stats.time_overhead_per_call_ms.unwrap_or(4000),
            input_cost: stats.cost_per_million_input_tokens.unwrap_or(15.0),
            output_cost: stats.cost_per_million_output_tokens.unwrap_or(75.0),
            chars_per_token: stats.chars_per_token.filter(|chars| *chars > 0.0).unwrap_or(4.0),
        },
        aliases,
        snippets,
        projects,
        servers,
        topics,
        instructions: prompts.instructions,
        run_description: prompts.tools.run.description,
        pack_instructions: prompts.packs,
        permissions,
        tools_dir,
        workers: WorkerKeys {
            idle_timeout: reader.seconds(&["workers", "idle_timeout"], workers.idle_timeout, Duration::from_mins(10)),
            call_timeout: reader.seconds(&["workers", "call_timeout"], workers.call_timeout, Duration::from_mins(2)),
            startup_timeout: reader.seconds(
                &["workers", "startup_timeout"],
                workers.startup_timeout,
                Duration::from_mins(5),
            ),
            max: workers.max.unwrap_or(20).max(1),
            max_queue: workers.max_queue.unwrap_or(1000).max(1),
            max_memory_mb: workers.max_memory_mb,
        },
        file_roots,
        bundles_dir: own.join(expand_home(bundles.dir.as_deref().unwrap_or("bundles"))),
        http,
        packages: PackageUrls { npm: packages.npm_url, pypi: packages.pypi_url, crates: packages.crates_url },
        server,
        tools,
        telemetry,
        log_level,
        log_dir: log_dir.map_or_else(|| own.join("logs"), |path| own.join(expand_home(&path))),
        secrets,
        files,
        unreadable,
        notes: reader.notes,
    }
}

/// `~/x` below the home folder.
pub(super) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), path, std::env::home_dir()) {
        (Some(rest), _, Some(home)) => home.join(rest),
        (_, "~", Some(home)) => home,
        _ => PathBuf::from(path),
    }
}

struct Reader {
    files: Vec<(PathBuf, String)>,
    notes: Vec<HealthNote>,
}

impl Reader {
    /// Notes a problem with the key at `path`, in the file that says it.
    fn problem(&mut self, path: &[&str], message: &str) {
        let place = self
            .files
            .iter()
            .filter_map(|(file, text)| locate::line(text, path).map(|line| (file, line, path_depth(text, path))))
            .max_by_key(|(_, _, depth)| *depth)
            .map(|(file, line, _)| (file.display().to_string(), Some(line)));
        let (subject, line) = place.unwrap_or_else(|| ("configuration".to_owned(), None));
        let key = path.join(".");
        self.notes.push(HealthNote {
            severity: Severity::Error,
            subject,
            message: format!("{}{key}: {message}", locate::at(line)),
        });
    }

    /// A section of fixed keys. What does not fit is noted and left out.
    fn section<T: DeserializeOwned + Default>(&mut self, name: &str, value: Option<Json>) -> T {
        self.typed(&[name], value)
    }

    fn typed<T: DeserializeOwned + Default>(&mut self, path: &[&str], value: Option<Json>) -> T {
        let Some(value) = value.filter(|value| !value.is_null()) else { return T::default() };
        let Json::Object(object) = value else {
            self.problem(path, "expected a mapping of keys");
            return T::default();
        };
        if let Ok(section) = serde_json::from_value(Json::Object(object.clone())) {
            return section;
        }
        let mut valid = Map::new();
        for (key, value) in object {
            let alone: Map<String, Json> = [(key.clone(), value.clone())].into_iter().collect();
            match serde_json::from_value::<T>(Json::Object(alone)) {
                Ok(_) => {
                    valid.insert(key, value);
                }
                Err(error) => {
                    let mut path = path.to_vec();
                    path.push(&key);
                    let path: Vec<&str> = path.clone();
                    self.problem(&path, &error.to_string());
                }
            }
        }
        serde_json::from_value(Json::Object(valid)).unwrap_or_default()
    }

    fn map(&mut self, name: &str, value: Option<Json>) -> Map<String, Json> {
        match value {
            Some(Json::Object(map)) => map,
            None | Some(Json::Null) => Map::new(),
            Some(_) => {
                self.problem(&[name], "expected a mapping of names");
                Map::new()
            }
        }
    }

    fn text(&mut self, name: &str, value: Option<Json>) -> Option<String> {
        match value {
            Some(Json::String(text)) => Some(text),
            None | Some(Json::Null) => None,
            Some(_) => {
                self.problem(&[name], "expected text");
                None
            }
        }
    }

    fn texts(&mut self, name: &str, value: Option<Json>) -> Vec<String> {
        match value {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) => vec![text],
            Some(Json::Array(items)) if items.iter().all(Json::is_string) => {
                items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
            }
            Some(_) => {
                self.problem(&[name], "expected text, or a list of texts");
                Vec::new()
            }
        }
    }

    fn seconds(&mut self, path: &[&str], value: Option<f64>, default: Duration) -> Duration {
        match value {
            None => default,
            Some(seconds) if seconds > 0.0 && seconds <= 1e9 => Duration::from_secs_f64(seconds),
            Some(other) => {
                self.problem(path, &format!("{other} is no number of seconds above 0"));
                default
            }
        }
    }

    fn aliases(&mut self, value: Option<Json>) -> IndexMap<String, String> {
        let mut aliases = IndexMap::new();
        for (name, target) in self.map("alias", value) {
            match target {
                Json::String(_) if PROTECTED.contains(&name.as_str()) => {
                    self.problem(&["alias", &name], "this is the name of a pack that cannot be replaced");
                }
                Json::String(target)
                    if is_python_identifier(&name)
                        && target.split('.').count() <= 2
                        && target.split('.').all(is_python_identifier) =>
                {
                    aliases.insert(name, target);
                }
                Json::String(_) if is_python_identifier(&name) => {
                    self.problem(&["alias", &name], "expected text like pack.function");
                }
                Json::String(_) => self.problem(&["alias", &name], "an alias must be a Python name"),
                _ => self.problem(&["alias", &name], "expected text like pack.function"),
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

    fn snippets(&mut self, value: Option<Json>) -> IndexMap<String, Snippet> {
        let mut snippets = IndexMap::new();
        for (name, value) in self.map("snippets", value) {
            let value = match value {
                Json::String(body) => serde_json::json!({"body": body}),
                other => other,
            };
            let entry: raw::SnippetEntry = self.typed(&["snippets", &name], Some(value));
            if entry.body.trim().is_empty() {
                self.problem(&["snippets", &name], "expected a body");
                continue;
            }
            let parameters = entry
                .params
                .into_iter()
                .map(|(key, parameter)| {
                    let _ = parameter.kind;
                    let required = parameter.required.unwrap_or(parameter.default.is_none());
                    let parameter =
                        SnippetParameter { required, default: parameter.default, description: parameter.description };
                    (key, parameter)
                })
                .collect();
            snippets.insert(name, Snippet { description: entry.description, parameters, body: entry.body });
        }
        snippets
    }

    fn projects(&mut self, value: Option<Json>, places: &ConfigPlaces) -> IndexMap<String, Project> {
        let mut projects = IndexMap::new();
        for (name, value) in self.map("projects", value) {
            let (path, attributes) = match serde_json::from_value::<raw::ProjectEntry>(value) {
                Ok(raw::ProjectEntry::Path(path)) => (path, IndexMap::new()),
                Ok(raw::ProjectEntry::Full { path, attrs }) => (path, attrs),
                Err(_) => {
                    self.problem(&["projects", &name], "expected a path, or a mapping with path and attrs");
                    continue;
                }
            };
            let path = places.project.join(expand_home(&path));
            projects.insert(name, Project { path, attributes });
        }
        projects
    }

    fn servers(&mut self, value: Option<Json>, secrets: &Secrets, places: &ConfigPlaces) -> Vec<ServerSettings> {
        let mut servers = Vec::new();
        for (name, value) in self.map("servers", value) {
            let raw: raw::Server = self.typed(&["servers", &name], Some(value));
            let timeout = self.seconds(&["servers", &name, "timeout"], raw.timeout, Duration::from_secs(30));
            let kind = server_kind(&raw, secrets, places);
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
                Some("strict") => PinMode::Strict,
                Some("off") => PinMode::Off,
                Some(_) => {
                    self.problem(&["servers", &name, "pin"], "expected flag, strict or off; strict until then");
                    PinMode::Strict
                }
            };
            servers.push(ServerSettings {
                name,
                kind,
                enabled,
                timeout,
                include: raw.tools.include,
                exclude: raw.tools.exclude,
                pin,
                max_message_bytes: raw
                    .max_message_mb
                    .map_or(DEFAULT_MESSAGE_BYTES, |mb| mb.clamp(1, MAX_MESSAGE_MB) << 20),
            });
        }
        servers
    }

    /// Without an address nothing is exported; what cannot be read as it was meant exports nothing either.
    fn telemetry(&mut self, raw: raw::Telemetry, secrets: &Secrets) -> Option<TelemetrySettings> {
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

    fn topics(&mut self, tools: &Map<String, Json>, own: &Path) -> Vec<Topic> {
        let Some(entries) = tools.get("msg").and_then(|msg| msg.get("topics")) else { return Vec::new() };
        match serde_json::from_value::<Vec<raw::TopicEntry>>(entries.clone()) {
            Ok(entries) => entries
                .into_iter()
                .map(|entry| Topic { pattern: entry.pattern, file: own.join(expand_home(&entry.file)) })
                .collect(),
            Err(error) => {
                self.problem(&["tools", "msg", "topics"], &format!("expected a list of {{pattern, file}}: {error}"));
                Vec::new()
            }
        }
    }

    fn file_roots(&mut self, tools: &Map<String, Json>, places: &ConfigPlaces) -> Vec<PathBuf> {
        let pack: raw::FilePack = self.typed(&["tools", "file"], tools.get("file").cloned());
        let roots: Vec<PathBuf> = pack.roots.iter().map(|root| places.project.join(expand_home(root))).collect();
        if roots.is_empty() { vec![places.project.clone()] } else { roots }
    }

    fn http(&mut self, raw: raw::Http) -> HttpSettings {
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
            max_timeout: self.seconds(&["http", "max_timeout"], raw.max_timeout, defaults.max_timeout),
            max_calls_per_minute: raw.max_calls_per_minute.or(defaults.max_calls_per_minute),
        }
    }

    fn server(&mut self, raw: raw::HttpServer, secrets: &Secrets) -> ServerKeys {
        let mut tokens = Vec::new();
        for entry in raw.tokens {
            let get = |name: &str| secrets.get(name).map(str::to_owned).or_else(|| std::env::var(name).ok());
            let token = match expand_with(&entry.token, get) {
                Ok(token) => token,
                Err(name) => {
                    self.problem(
                        &["server", "tokens"],
                        &format!("no secret and no variable '{name}'; nobody has this token"),
                    );
                    // Left out, the last one would open the server to all; so it stays, as one that nobody can know.
                    format!("{}{}", uuid::Uuid::new_v4(), uuid::Uuid::new_v4())
                }
            };
            let mut scopes = Vec::new();
            for scope in &entry.scopes {
                match scope.as_str() {
                    "read" => scopes.push(Scope::Read),
                    "invoke" => scopes.push(Scope::Invoke),
                    "admin" => scopes.push(Scope::Admin),
                    other => self.problem(
                        &["server", "tokens"],
                        &format!("scope '{other}' is not known; expected read, invoke or admin"),
                    ),
                }
            }
            tokens.push(AccessToken { token, scopes });
        }
        let defaults = ApiSettings::default();
        ServerKeys {
            bind: raw.bind,
            tokens,
            hosts: raw.allowed_hosts,
            origins: raw.allowed_origins,
            api: ApiSettings {
                max_body_bytes: raw.max_body_bytes.unwrap_or(defaults.max_body_bytes),
                request_timeout: self.seconds(
                    &["server", "request_timeout"],
                    raw.request_timeout,
                    defaults.request_timeout,
                ),
                invoke_timeout: self.seconds(
                    &["server", "invoke_timeout"],
                    raw.invoke_timeout,
                    defaults.invoke_timeout,
                ),
            },
        }
    }

    fn permissions(&mut self, policy: &IndexMap<String, String>) -> Permissions {
        let mut rules = Vec::new();
        for (pattern, word) in policy {
            let permission = match word.as_str() {
                "allow" => Permission::Allow,
                "ask" => Permission::Ask,
                "deny" => Permission::Deny,
                _ => {
                    // What cannot be read must not be laxer than what was meant.
                    self.problem(&["security", "policy", pattern], "expected allow, ask or deny; denied until then");
                    Permission::Deny
                }
            };
            match Permissions::new([(pattern.as_str(), permission)]) {
                Ok(_) => rules.push((pattern.as_str(), permission)),
                Err(error) => self.problem(&["security", "policy", pattern], &error.to_string()),
            }
        }
        Permissions::new(rules).unwrap_or_default()
    }
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

/// How many of the keys of a path a file has.
fn path_depth(text: &str, path: &[&str]) -> usize {
    (1..=path.len())
        .rev()
        .find(|&depth| {
            let shorter = locate::line(text, &path[..depth]);
            shorter.is_some() && (depth == 1 || shorter != locate::line(text, &path[..depth - 1]))
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn resolved(text: &str) -> Resolved {
        let folder = tempfile::tempdir().unwrap();
        let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
        std::fs::create_dir_all(places.own()).unwrap();
        std::fs::write(places.own().join("onetool.yaml"), text).unwrap();
        resolve(&places, load(&places))
    }

    #[test]
    fn nothing_is_needed() {
        let settings = resolved("");
        assert!(settings.notes.is_empty());
        assert_eq!(settings.output.max_inline_size, 50_000);
    }

    #[test]
    fn one_bad_key_costs_itself_alone() {
        let settings =
            resolved("run:\n  timeout: 2\n  max_calls: many\n  zz: 1\noutput: {preview_lines: 3}\nbogus: 1\n");
        assert_eq!(settings.run.limits.max_compute, Duration::from_secs(2));
        assert_eq!(settings.output.preview_lines, 3);
        let notes: Vec<&str> = settings.notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("line 3: run.max_calls: invalid type")), "{notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("line 4: run.zz: unknown field")), "{notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("line 6: bogus: unknown key")), "{notes:?}");
    }

    #[test]
    fn a_server_without_its_secret_is_left_out_with_the_reason() {
        let settings = resolved("servers:\n  gh:\n    url: http://127.0.0.1/${NO_SUCH_SECRET}\n");
        assert!(matches!(&settings.servers[0].enabled, Enabled::No { reason } if reason.contains("NO_SUCH_SECRET")));
        assert!(settings.notes[0].message.starts_with("line 2: servers.gh"));
    }

    #[test]
    fn telemetry_that_cannot_be_as_it_was_meant_is_off() {
        let said = |text: &str| {
            let settings = resolved(&format!("telemetry: {text}\n"));
            (settings.telemetry.is_some(), settings.notes.len())
        };
        assert_eq!(said("{}"), (false, 0));
        assert_eq!(said("{otlp_endpoint: 'http://127.0.0.1:4318', headers: {a: b}}"), (true, 0));
        assert_eq!(said("{otlp_endpoint: 'ftp://x'}"), (false, 1));
        assert_eq!(said("{otlp_endpoint: 'http://x', headers: {a: '${NO_SUCH_SECRET}'}}"), (false, 1));
        assert_eq!(said("{otlp_endpoint: 'http://x', headers: {'a b': c}}"), (false, 1));
    }

    #[test]
    fn alias_cycles_are_noted() {
        let settings = resolved("alias: {a: b, b: a, c: d.e}\n");
        assert_eq!(settings.notes.len(), 2);
    }

    #[test]
    fn the_example_says_every_key_and_no_wrong_one() {
        let text = include_str!("../../../../examples/config/onetool.yaml");
        let settings = resolved(text);
        assert!(settings.notes.is_empty(), "{:?}", settings.notes);
        for section in SECTIONS {
            assert!(text.contains(&format!("\n{section}:")), "the example lacks {section}");
        }
    }
}
