//! From sections to settings: each is read by its shape, what it does not say has its default.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use onetool_http::ServerSettings as HttpServerSettings;
use onetool_run::{Gate, OutputSettings, Permissions, Project, RunSettings, Snippet, StatsSettings, Topic};
use onetool_sandbox::{Engine, Limits};
use onetool_sdk::HealthNote;
use onetool_bundles::{HttpSettings, PackageUrls};
use onetool_proxy::ServerSettings;
use serde_json::{Map, Value as Json};

use super::files::{ConfigPlaces, LoadedConfig};
use super::reader::Reader;
use super::secrets::Secrets;
use super::{keys, raw, shape};
use crate::telemetry::TelemetrySettings;

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
    pub zygote: bool,
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
    pub server: HttpServerSettings,
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

/// Resolves a configuration.
pub fn resolve(places: &ConfigPlaces, loaded: LoadedConfig) -> Resolved {
    let read: Vec<PathBuf> = loaded.files.iter().map(|(path, _)| path.clone()).collect();
    let mut reader = Reader::new(loaded.files, loaded.notes);
    let mut root = loaded.root;
    let mut take = |key: &str| root.remove(key);
    let secrets = Secrets::load(places, &mut reader.notes);
    let files = read.iter().chain(&secrets.files).cloned().collect();
    let unreadable = loaded.unreadable.iter().chain(&secrets.unreadable).cloned().collect();
    let own = places.own();
    let run: raw::Run = reader.typed(&["run"], keys::RUN, take("run"));
    let output: raw::Output = reader.typed(&["output"], keys::OUTPUT, take("output"));
    let stats: raw::Stats = reader.typed(&["stats"], keys::STATS, take("stats"));
    let workers: raw::Workers = reader.typed(&["workers"], keys::WORKERS, take("workers"));
    let security: raw::Security = reader.typed(&["security"], keys::SECURITY, take("security"));
    let prompts: raw::Prompts = reader.typed(&["prompts"], keys::PROMPTS, take("prompts"));
    let bundles: raw::Bundles = reader.typed(&["bundles"], keys::BUNDLES, take("bundles"));
    let server: raw::HttpServer = reader.typed(&["server"], keys::SERVER, take("server"));
    let telemetry: raw::Telemetry = reader.typed(&["telemetry"], keys::TELEMETRY, take("telemetry"));
    let telemetry = reader.telemetry(telemetry, &secrets);
    let aliases = reader.aliases(take("alias"));
    let snippets = reader.snippets(take("snippets"));
    let projects = reader.projects(take("projects"), places);
    let servers = reader.servers(take("servers"), &secrets, places);
    let tools: Map<String, Json> = reader.typed(&["tools"], keys::TOOLS, take("tools"));
    let topics = reader.topics(&tools, &own);
    let file_roots = reader.file_roots(&tools, places);
    let permissions = reader.permissions(&security.policy);
    let tools_dir: Vec<String> = reader.typed(&["tools_dir"], keys::TOOLS_DIR, take("tools_dir"));
    let log_level: Option<String> = reader.typed(&["log_level"], keys::LOG_LEVEL, take("log_level"));
    let log_dir: Option<String> = reader.typed(&["log_dir"], keys::LOG_DIR, take("log_dir"));
    let http: raw::Http = reader.typed(&["http"], keys::HTTP, take("http"));
    reader.fit(&["version"], keys::VERSION, take("version"));
    // `x-…` is a place for what other keys refer to with YAML's own aliases.
    for key in root.keys().filter(|key| !key.starts_with("x-")) {
        let known = keys::SECTIONS.iter().map(|(name, _)| *name).chain(["include", "inherit"]);
        reader.problem(&[key], &shape::unknown(key, known));
    }
    let defaults = Limits::default();
    let limits = Limits {
        max_compute: seconds(run.timeout, defaults.max_compute),
        timeout: seconds(run.total_timeout, defaults.timeout),
        max_memory: run.max_memory_mb.map_or(defaults.max_memory, |mb| mb << 20),
        max_calls: run.max_calls.unwrap_or(defaults.max_calls),
        max_recursion: run.max_recursion.unwrap_or(defaults.max_recursion),
        max_printed: run.max_printed_kb.map_or(defaults.max_printed, |kb| kb << 10),
        max_source: run.max_source_kb.map_or(defaults.max_source, |kb| kb << 10),
        ..defaults
    };
    let engine = match run.engine.as_deref() {
        Some("monty") => Engine::Monty,
        Some("cpython") => Engine::CPython,
        _ => Engine::Auto,
    };
    let (gate, bad) = Gate::new(&security.blocked, &security.warned, &security.allow);
    for pattern in bad {
        reader.problem(
            &["security"],
            &format!("'{}' is no valid pattern; expected one like os.*", shape::short(&pattern)),
        );
    }
    let http = reader.http(http);
    let packages: raw::Packages =
        reader.typed(&["tools", "package"], keys::PACKAGE_PACK, tools.get("package").cloned());
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
            // What cannot be read must not be laxer than what was meant.
            sanitise: security.sanitize.enabled || reader.is_wrong(&["security", "sanitize"]),
            max_error_bytes: run.max_error_kb.map_or(run_defaults.max_error_bytes, |kb| kb << 10),
        },
        prewarm: run.prewarm.unwrap_or(1),
        max_parallel: run.max_parallel.unwrap_or(16),
        max_waiting: run.max_waiting.unwrap_or(1024),
        max_wait: seconds(run.max_wait, Duration::from_mins(1)),
        python: run.python.map(|path| reader.program(&["run", "python"], expand_home(&path))),
        allow_unconfined: run.allow_unconfined.unwrap_or(false),
        zygote: run.zygote.unwrap_or(true),
        output: OutputSettings {
            max_inline_size: output.max_inline_size.unwrap_or(50_000),
            result_ttl: Duration::from_secs(output.result_ttl.unwrap_or(3600)),
            preview_lines: output.preview_lines.unwrap_or(10),
            result_store_dir: reader.folder(
                &["output", "result_store_dir"],
                own.join(expand_home(output.result_store_dir.as_deref().unwrap_or("tmp"))),
            ),
        },
        stats: StatsSettings {
            enabled: stats.enabled.unwrap_or(true),
            file: reader
                .folder(
                    &["stats", "persist_dir"],
                    own.join(expand_home(stats.persist_dir.as_deref().unwrap_or("stats"))),
                )
                .join(stats.persist_path.as_deref().unwrap_or("stats.jsonl")),
            flush_interval: Duration::from_secs(stats.flush_interval_seconds.unwrap_or(30)),
            context_per_call: stats.context_per_call.unwrap_or(30_000),
            time_overhead_per_call_ms: stats.time_overhead_per_call_ms.unwrap_or(4000),
            input_cost: stats.cost_per_million_input_tokens.unwrap_or(15.0),
            output_cost: stats.cost_per_million_output_tokens.unwrap_or(75.0),
            chars_per_token: stats.chars_per_token.unwrap_or(4.0),
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
            idle_timeout: seconds(workers.idle_timeout, Duration::from_mins(10)),
            call_timeout: seconds(workers.call_timeout, Duration::from_mins(2)),
            startup_timeout: seconds(workers.startup_timeout, Duration::from_mins(5)),
            max: workers.max.unwrap_or(20),
            max_queue: workers.max_queue.unwrap_or(1000),
            max_memory_mb: workers.max_memory_mb,
        },
        file_roots,
        bundles_dir: reader
            .folder(&["bundles", "dir"], own.join(expand_home(bundles.dir.as_deref().unwrap_or("bundles")))),
        http,
        packages: PackageUrls { npm: packages.npm_url, pypi: packages.pypi_url, crates: packages.crates_url },
        server,
        tools,
        telemetry,
        log_level: log_level.unwrap_or_else(|| "info".to_owned()),
        log_dir: reader.folder(&["log_dir"], own.join(expand_home(log_dir.as_deref().unwrap_or("logs")))),
        secrets,
        files,
        unreadable,
        notes: reader.into_notes(),
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

/// Seconds that were checked, or the default.
pub(super) fn seconds(value: Option<f64>, default: Duration) -> Duration {
    value.map_or(default, Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use onetool_proxy::Enabled;

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
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with("line 3: run.max_calls: found the text 'many', expected a whole number")),
            "{notes:?}"
        );
        assert!(notes.iter().any(|note| note.starts_with("line 4: run.zz: unknown key")), "{notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("line 6: bogus: unknown key")), "{notes:?}");
    }

    #[test]
    fn parts_may_be_shared_by_aliases_of_yaml() {
        let settings = resolved("x-limits: &limits {timeout: 7}\nrun:\n  <<: *limits\n  max_calls: 5\n");
        assert!(settings.notes.is_empty(), "{:?}", settings.notes);
        assert_eq!(settings.run.limits.max_compute, Duration::from_secs(7));
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

    /// Every key that a shape knows, at any depth.
    fn names(shape: shape::Shape) -> Vec<&'static str> {
        use shape::Shape::{Either, Keys, List, Names, OneOrMore};
        match shape {
            Keys(keys) => keys.iter().flat_map(|(key, shape)| names(*shape).into_iter().chain([*key])).collect(),
            List(inner) | Names(inner) | OneOrMore(inner) => names(*inner),
            Either(shapes) => shapes.iter().flat_map(|shape| names(*shape)).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn the_example_says_every_key_and_no_wrong_one() {
        let text = include_str!("../../../../examples/config/onetool.yaml");
        let settings = resolved(text);
        assert!(settings.notes.is_empty(), "{:?}", settings.notes);
        let readme = include_str!("../../../../README.md");
        for (section, shape) in keys::SECTIONS {
            assert!(text.contains(&format!("\n{section}:")), "the example lacks {section}");
            for key in names(*shape).into_iter().chain([*section]) {
                assert!(text.contains(key), "the example lacks {section}: {key}");
                assert!(readme.contains(key), "the README lacks {section}: {key}");
            }
        }
    }
}
