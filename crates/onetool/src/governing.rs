//! The files that control this program, collected from the current configuration: files that no tool may change, and
//! files that no tool may read.

use std::path::{Path, PathBuf};

use onetool_packs::file::Guard;
use onetool_proxy::ServerKind;

use crate::config::Resolved;

/// Extensions of files that count as programs on a server's command line.
const SCRIPTS: &[&str] = &["py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "php", "jar", "lua", "exe", "bat", "cmd"];

/// Programs that run a folder given on their command line.
const INTERPRETERS: &[&str] = &["python", "pypy", "node", "bun", "deno"];

/// The paths that the tools of the file pack must not touch.
pub fn guard(settings: &Resolved) -> Guard {
    let mut guard = Guard::default();
    guard.protect(&settings.own);
    if let Some(global) = &settings.global {
        guard.protect(global);
    }
    // Our code runs from there.
    if let Some(cache) = &settings.cache {
        guard.protect(cache);
    }
    // Including paths where a new file would be read.
    for file in settings.files.iter().chain(&settings.absent).chain(&settings.passed) {
        guard.protect(file);
    }
    for file in settings.secrets.files() {
        guard.hide(file);
        // Copies that editors and people leave next to it.
        if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
            let pattern = folder.join(format!("*{}*", name.display()));
            guard.hide_matching(&pattern.display().to_string());
        }
    }
    guard.hide(crate::state::credentials_home(settings));
    if let Some(tls) = &settings.server.tls {
        guard.hide(&tls.key);
        guard.protect(&tls.certificate);
    }
    // Data of individual users is read only through tools that check ownership.
    for folder in ["runs", "state", "audit"] {
        guard.hide(settings.own.join(folder));
    }
    guard.hide_matching(&settings.output.result_store_dir.join("*result-*").display().to_string());
    // A configuration file that contains a token is a secret itself.
    let literals = literal_secrets(settings);
    for file in settings.files.iter().filter(|file| holds_any(file, &literals)) {
        guard.hide(file);
    }
    guard.protect(&settings.bundles_dir);
    for pattern in &settings.workers.tools_dir {
        let pattern = settings.folder.join(pattern).display().to_string();
        guard.protect_matching(&pattern);
        // A tool file can import its neighbours.
        if let Some(folder) = Path::new(&pattern).parent() {
            protect_modules(&mut guard, folder, &settings.packs.file.roots);
        }
    }
    for file in onetool_worker::governing_files(&settings.workers) {
        guard.protect(file);
    }
    // Packages are built and installed outside the sandbox.
    for file in settings.run_keys.requirements_files(&settings.folder) {
        guard.protect(file);
    }
    for package in settings.run.packages.iter().filter_map(|package| onetool_config::local_package(package)) {
        guard.protect(settings.folder.join(package));
    }
    if let Some(python) = settings.python.as_deref() {
        protect_program(&mut guard, python);
    }
    for server in &settings.servers {
        if let ServerKind::Stdio { command, args, cwd, .. } = &server.kind {
            let folder = cwd.as_deref().unwrap_or(&settings.folder);
            if command.contains(std::path::MAIN_SEPARATOR) {
                protect_program(&mut guard, &folder.join(command));
            }
            let is_script = |path: &Path| {
                path.is_file() && path.extension().is_some_and(|end| SCRIPTS.iter().any(|script| end == *script))
            };
            args.iter()
                .map(|argument| folder.join(argument))
                .filter(|path| is_script(path))
                .for_each(|path| guard.protect(path));
            let module = args.iter().position(|argument| argument == "-m").and_then(|at| args.get(at + 1));
            if let Some(module) = module {
                module_files(folder, module).for_each(|path| guard.protect(path));
            }
            // `node web`: other programs do not run a folder given to them, but work on it.
            let program = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
            let is_interpreter = INTERPRETERS.iter().any(|name| program.starts_with(name));
            let named = args.iter().find(|argument| !argument.starts_with('-')).filter(|_| is_interpreter);
            named.into_iter().flat_map(|name| folder_programs(&folder.join(name))).for_each(|path| guard.protect(path));
        }
    }
    guard
}

/// The files that Python reads to run a module of this folder: its parent packages and the module itself.
fn module_files(folder: &Path, module: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let mut above = folder.to_owned();
    let mut files = Vec::new();
    for part in module.split('.') {
        above.push(part);
        files.push(above.join("__init__.py"));
    }
    files.into_iter().chain([above.with_extension("py"), above.join("__main__.py")])
}

/// The files that run if a command line names a folder.
fn folder_programs(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    ["__main__.py", "package.json", "index.js"].map(|name| folder.join(name)).into_iter().filter(|path| path.is_file())
}

/// Parts of names of variables that contain secrets.
const SECRET_NAMES: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"];
/// Shorter values are not secrets.
const MIN_SECRET: usize = 6;

/// Secrets in the configuration itself: tokens of this server, headers and variables of others.
pub fn literal_secrets(settings: &Resolved) -> Vec<String> {
    let mut found: Vec<String> = settings.server.tokens.iter().map(|token| token.token.clone()).collect();
    found.extend(settings.server.metrics.token.clone());
    for server in &settings.servers {
        found.extend(server.auth.client_secret.clone());
        match &server.kind {
            ServerKind::Http { headers, .. } => {
                found.extend(headers.values().cloned());
                // `Bearer …`: the token alone is secret too.
                let parts = headers.values().flat_map(|value| value.split_whitespace().skip(1));
                found.extend(parts.map(str::to_owned));
            }
            ServerKind::Stdio { env, .. } => {
                let is_secret = |name: &str| SECRET_NAMES.iter().any(|part| name.to_ascii_uppercase().contains(part));
                found.extend(env.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone()));
            }
        }
    }
    found.extend(settings.telemetry.iter().flat_map(|telemetry| telemetry.header_values()));
    found.retain(|value| value.len() >= MIN_SECRET);
    found
}

/// Whether a file contains one of these texts. An unreadable file counts as containing one.
fn holds_any(file: &Path, texts: &[String]) -> bool {
    if texts.is_empty() {
        return false;
    }
    std::fs::read_to_string(file).map_or(true, |content| texts.iter().any(|text| content.contains(text.as_str())))
}

/// Protects a folder that tools import from. If it is or contains a root, only importable files are protected.
fn protect_modules(guard: &mut Guard, folder: &Path, roots: &[PathBuf]) {
    if roots.iter().any(|root| root.starts_with(folder)) || has_wildcard(folder) {
        for ending in ["py", "pyc", "pyd", "so", "pth"] {
            guard.protect_matching(&folder.join(format!("*.{ending}")).display().to_string());
        }
    } else {
        guard.protect(folder);
    }
}

fn has_wildcard(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[', '{'])
}

/// Protects a program that the configuration names by path, and its virtual environment.
fn protect_program(guard: &mut Guard, program: &Path) {
    guard.protect(program);
    let environment = program.parent().and_then(Path::parent);
    if let Some(environment) = environment.filter(|folder| folder.join("pyvenv.cfg").is_file()) {
        guard.protect(environment);
    }
}
