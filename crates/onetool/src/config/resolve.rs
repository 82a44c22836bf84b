//! Resolves sections to settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use onetool_bundles::{HttpSettings, ImportSettings, LOCALE, ReadyMade, SequenceSettings};
use onetool_config::{LoadedConfig, Outcome, Reader, RestartKeys, Secrets, UNTRUSTED, VERSION};
use onetool_http::{BackgroundSettings, ServerSettings as HttpServerSettings};
use onetool_packs::PackSettings;
use onetool_process::SearchPath;
use onetool_proxy::ServerSettings;
use onetool_run::groups::Groups;
use onetool_run::keys::RunKeys;
use onetool_run::{
    OutputSettings, Permissions, Project, RunSettings, Snippet, StatsSettings, ToolOverride, Topic, keys,
};
use onetool_sandbox::is_standard_module;
use onetool_sdk::{HealthNote, NoteFacts, Redactor, Severity, to_python_identifier};
use onetool_worker::WorkerSettings;
use serde_json::Value as Json;

use super::ConfigPlaces;
use super::sections::SECTIONS;
use crate::audit::AuditOptions;
use crate::governing;
use crate::log::{LOG_DIR, LOG_LEVEL, Level};
use crate::telemetry::TelemetrySettings;

/// Shorter secrets would redact ordinary text.
const MIN_SECRET: usize = 6;

/// The resolved configuration.
#[derive(Clone)]
pub struct Resolved {
    pub folder: PathBuf,
    /// `.onetool`
    pub own: PathBuf,
    /// Where our own state is kept: `.onetool`, unless what is there came with the repository.
    pub state_home: PathBuf,
    pub global: Option<PathBuf>,
    /// The user's cache folder.
    pub cache: Option<PathBuf>,
    pub run: RunSettings,
    /// The section `run`, for the engines.
    pub run_keys: RunKeys,
    pub python: Option<PathBuf>,
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
    /// Overrides of what tools declare themselves.
    pub overrides: IndexMap<String, ToolOverride>,
    /// Documentation addresses from `tools.<pack>.docs`; `None` disables them.
    pub pack_docs: Vec<(String, Option<String>)>,
    pub permissions: Permissions,
    /// Permissions by group.
    pub groups: Arc<Groups>,
    /// The audit settings.
    pub audit: AuditOptions,
    pub workers: WorkerSettings,
    pub packs: PackSettings,
    /// Where programs are searched.
    pub search_path: SearchPath,
    pub bundles_dir: PathBuf,
    /// Whether bundles are trusted, so that their requests may use secrets.
    pub bundles_are_trusted: bool,
    pub bundle_limits: onetool_state::bundles::Limits,
    pub http: HttpSettings,
    pub sequences: SequenceSettings,
    pub imports: ImportSettings,
    /// `locale`: the language of descriptions.
    pub locale: Option<String>,
    pub ready_made: ReadyMade,
    pub server: HttpServerSettings,
    pub background: BackgroundSettings,
    /// `tools.<pack>`, as written.
    pub tools: IndexMap<String, Json>,
    /// Where telemetry is sent, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    /// The address of the shared state, unless it is kept in files.
    pub state: Option<crate::state::StateAddress>,
    pub log_level: Level,
    pub log_dir: PathBuf,
    pub secrets: Secrets,
    /// The configuration files that were read.
    pub files: Vec<PathBuf>,
    /// Files that could not be parsed. Each has a note.
    pub unreadable: Vec<PathBuf>,
    /// Paths without a file. A file that was there before has been removed.
    pub absent: Vec<PathBuf>,
    /// Paths where a new file would take precedence over one of them.
    pub passed: Vec<PathBuf>,
    /// The keys that take effect at the next start.
    pub restart: RestartKeys,
    pub notes: Vec<HealthNote>,
}

/// An address, or `off`, which YAML reads as false.
fn pack_docs(tools: &IndexMap<String, Json>) -> Vec<(String, Option<String>)> {
    let docs = |own: &Json| match own.get("docs")? {
        Json::Bool(false) => Some(None),
        Json::String(text) => Some(Some(text.clone()).filter(|text| text != "off")),
        _ => None,
    };
    tools.iter().filter_map(|(pack, own)| Some((pack.clone(), docs(own)?))).collect()
}

/// Resolves a configuration.
pub fn resolve(places: &ConfigPlaces, loaded: LoadedConfig) -> Resolved {
    let mut reader = Reader::new(places, loaded);
    let own = places.own();
    reader.read(&VERSION);
    let run_keys = reader.read(&keys::RUN);
    let security = reader.read(&keys::SECURITY);
    let prompts = reader.read(&keys::PROMPTS);
    let mut run = keys::run_settings(&mut reader, &run_keys, &security);
    run.packages = run_keys.requirements(&mut reader, &places.project);
    let permissions = keys::permissions(&mut reader, &security.policy);
    let groups = Arc::new(keys::groups(&mut reader, &security));
    let python = run_keys.python.as_deref().map(|program| {
        // A version is resolved by `uv`.
        let is_version = program.contains('.') && program.bytes().all(|c| c.is_ascii_digit() || c == b'.');
        if is_version { PathBuf::from(program) } else { reader.program(&["run", "python"], program) }
    });
    let output = keys::output(&mut reader);
    let stats = keys::stats(&mut reader);
    let aliases = keys::aliases(&mut reader);
    let snippets = keys::snippets(&mut reader);
    let projects = keys::projects(&mut reader);
    let servers = onetool_proxy::keys::servers(&mut reader);
    check_names(&mut reader, &servers);
    let topics = keys::topics(&mut reader);
    let tools = reader.read(&keys::TOOLS);
    let packs = PackSettings::read(&mut reader);
    // Programs are not run from folders that tools can write to.
    let search_path = SearchPath::from_environment(&packs.file.roots);
    let workers = WorkerSettings {
        project_tools: Some(own.join("tools")),
        global_tools: places.global.as_ref().map(|global| global.join("tools")),
        tools_dir: reader.read(&onetool_worker::TOOLS_DIR),
        folder: places.project.clone(),
        search_path: search_path.clone(),
        trust: reader.trust().clone(),
        ..WorkerSettings::new(&reader.read(&onetool_worker::WORKERS))
    };
    let bundles = reader.read(&onetool_bundles::BUNDLES);
    let bundles_dir = reader.folder(&["bundles", "dir"], &bundles.dir);
    let bundles_are_trusted = reader.trust().covers_below(&bundles_dir);
    let bundle_limits = bundles.limits();
    let state_home = reader.state_home().to_owned();
    let is_state_foreign = reader.trust().is_state_foreign();
    let http = HttpSettings::read(&mut reader);
    let sequences = SequenceSettings::read(&mut reader);
    let imports = ImportSettings::read(&mut reader);
    let locale = reader.read(&LOCALE).filter(|locale| {
        let is_language = onetool_state::bundles::is_language(locale);
        if !is_language {
            reader.problem(&["locale"], "it is not a language such as de or pt-BR");
        }
        is_language
    });
    let ready_made = ReadyMade::read(&mut reader);
    let mut server = HttpServerSettings::read(&mut reader);
    if let Some(oauth) = &mut server.oauth {
        oauth.known_groups = groups.names().map(str::to_owned).collect();
    }
    let audit = AuditOptions::read(&mut reader);
    let background = BackgroundSettings::read(&mut reader);
    let telemetry = TelemetrySettings::read(&mut reader);
    let state = crate::state::address(&mut reader);
    let log_level = reader.read(&LOG_LEVEL);
    let log_dir = reader.read(&LOG_DIR);
    let log_dir = reader.state_folder(&["log_dir"], &log_dir);
    reader.check_unknown(&SECTIONS);
    let overrides = keys::overrides(&prompts);
    let Outcome { notes, secrets, files, unreadable, absent, passed, restart } = reader.finish();
    let mut resolved = Resolved {
        folder: places.project.clone(),
        own,
        state_home,
        global: places.global.clone(),
        cache: cache_home(places.global.as_deref()),
        run,
        run_keys,
        python,
        output,
        stats,
        aliases,
        snippets,
        projects,
        servers,
        topics,
        instructions: prompts.instructions,
        run_description: prompts.tools.get("run").and_then(|run| run.description.clone()),
        overrides,
        pack_docs: pack_docs(&tools),
        pack_instructions: prompts.packs,
        permissions,
        groups,
        audit,
        workers,
        packs,
        search_path,
        bundles_dir,
        bundles_are_trusted,
        bundle_limits,
        http,
        sequences,
        imports,
        locale,
        ready_made,
        server,
        background,
        tools,
        telemetry,
        state,
        log_level,
        log_dir,
        secrets,
        files,
        unreadable,
        absent,
        passed,
        restart,
        notes,
    };
    let untrusted = |folder: &Path, what: String| HealthNote {
        severity: Severity::Error,
        subject: folder.display().to_string(),
        message: format!("{what}: {UNTRUSTED}"),
        facts: NoteFacts { untrusted: Some(what), ..NoteFacts::default() },
    };
    if !resolved.bundles_are_trusted {
        let what = "requests of HTTP tools get no secrets".to_owned();
        resolved.notes.push(untrusted(&resolved.bundles_dir, what));
    }
    if is_state_foreign {
        let home = resolved.state_home.display();
        let what = format!("the runs, tokens and other state in it are not used, and new state is kept in {home}");
        resolved.notes.push(untrusted(&resolved.own, what));
    }
    // Secrets in the configuration are redacted like those in secrets.yaml.
    let literals = governing::literal_secrets(&resolved);
    let secrets = resolved.secrets.values().filter(|value| value.len() >= MIN_SECRET);
    resolved.run.redactor = Redactor::new(secrets.chain(literals.iter().map(String::as_str)));
    resolved
}

/// Warns about server names whose packs are not reachable under that name in code.
fn check_names(reader: &mut Reader, servers: &[ServerSettings]) {
    for server in servers {
        let pack = to_python_identifier(&server.name);
        if is_standard_module(&pack) {
            let message = format!(
                "its pack has the name of Python's module {pack}, and code that imports the module no longer reaches the \
                 pack; choose another name"
            );
            reader.warning(&["servers", &server.name], &message);
        } else if !server.name.is_empty() && pack == format!("{}_", server.name) {
            let message = format!("'{}' is a reserved word of Python; its pack is {pack}", server.name);
            reader.warning(&["servers", &server.name], &message);
        }
    }
}

/// The folder below `XDG_CACHE_HOME`, or else below `.cache` next to the user's own folder.
fn cache_home(global: Option<&Path>) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = named.or_else(|| Some(global?.parent()?.join(".cache")))?;
    Some(folder.join("onetool"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn a_password_in_the_address_of_the_state_is_a_secret() {
        for state in ["postgres://me:hunter22@db/x", "{url: 'postgres://me:hunter22@db/x'}"] {
            let settings = resolved(&format!("state: {state}\n"));
            assert_eq!(settings.run.redactor.text("is hunter22 here"), "is [REDACTED] here", "{state}");
        }
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
    fn a_file_that_is_one_section_has_its_own_lines() {
        let folder = tempfile::tempdir().unwrap();
        let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
        std::fs::create_dir_all(places.own()).unwrap();
        std::fs::write(places.own().join("snippets.yaml"), "# x\nbad:\n  body: 5\n").unwrap();
        let settings = resolve(&places, load(&places));
        let messages: Vec<&str> = settings.notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(messages[0], "line 3: snippets.bad.body: found a number, expected text (put it in quotes)");
    }

    #[test]
    fn keys_that_wait_for_a_start_are_known() {
        let restart = |text: &str| resolved(text).restart;
        let defaults = restart("");
        for (text, changed) in [
            ("run: {prewarm: 2, timeout: 5}", vec!["run.prewarm"]),
            ("run: {max_parallel: 3, max_wait: 5, python: python3}", vec!["run.max_parallel", "run.max_wait"]),
            ("log_dir: elsewhere", vec!["log_dir"]),
            ("run: {prewarm: 1}\nlog_level: debug", vec![]),
        ] {
            assert_eq!(defaults.changed(&restart(text)), changed, "{text}");
        }
    }

    #[test]
    fn names_that_mean_something_to_python_are_told() {
        let message = |name: &str| {
            let settings = resolved(&format!("servers: {{{name}: {{command: x}}}}\n"));
            settings.notes.first().map(|note| note.message.clone()).unwrap_or_default()
        };
        assert!(message("json").contains("servers.json: its pack has the name of Python's module json"));
        assert_eq!(message("class"), "line 1: servers.class: 'class' is a reserved word of Python; its pack is class_");
        assert_eq!(message("my-github"), "");
    }

    #[test]
    fn alias_cycles_are_noted() {
        let settings = resolved("alias: {a: b, b: a, c: d.e}\n");
        assert_eq!(settings.notes.len(), 2);
    }
}
