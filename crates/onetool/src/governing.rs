//! What governs this program, collected from the configuration in force: the files that no tool may change, those that
//! no tool may read.

use std::path::{Path, PathBuf};

use onetool_packs::file::Guard;
use onetool_proxy::ServerKind;

use crate::config::Resolved;

/// Endings of files that a server's command line may name as its program.
const SCRIPTS: &[&str] = &["py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "php", "jar", "lua", "exe", "bat", "cmd"];

/// What the tools of the file pack leave alone.
pub fn guard(settings: &Resolved) -> Guard {
    let mut guard = Guard::default();
    guard.protect(&settings.own);
    if let Some(global) = &settings.global {
        guard.protect(global);
    }
    for file in &settings.files {
        guard.protect(file);
    }
    for file in settings.secrets.files() {
        guard.hide(file);
        // Copies that editors and people leave beside it.
        if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
            let pattern = folder.join(format!("*{}*", name.display()));
            guard.hide_matching(&pattern.display().to_string());
        }
    }
    // A token that is written into a configuration makes a secret of the file.
    let literals = literal_secrets(settings);
    for file in settings.files.iter().filter(|file| holds_any(file, &literals)) {
        guard.hide(file);
    }
    guard.protect(&settings.bundles_dir);
    for pattern in &settings.workers.tools_dir {
        let pattern = settings.folder.join(pattern).display().to_string();
        guard.protect_matching(&pattern);
        // What lies beside a tool file can be imported by it.
        if let Some(folder) = Path::new(&pattern).parent() {
            protect_modules(&mut guard, folder, &settings.file_pack.roots);
        }
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
            let module = module.map(|module| folder.join(module.replace('.', "/")));
            for program in module.iter().chain(&args.iter().map(|argument| folder.join(argument)).collect::<Vec<_>>()) {
                programs_of(program).filter(|path| path.is_file()).for_each(|path| guard.protect(path));
            }
        }
    }
    guard
}

/// What runs where a command line names a module, or a folder.
fn programs_of(named: &Path) -> impl Iterator<Item = PathBuf> {
    let file = named.with_extension("py");
    ["__main__.py", "__init__.py", "package.json", "index.js"].into_iter().map(|name| named.join(name)).chain([file])
}

/// Names of variables that hold secrets.
const SECRET_NAMES: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"];
/// Shorter values are not secrets.
const MIN_SECRET: usize = 6;

/// The secrets that the configuration itself may hold: tokens of this server, headers and variables of others.
pub fn literal_secrets(settings: &Resolved) -> Vec<String> {
    let mut found: Vec<String> = settings.server.tokens.iter().map(|token| token.token.clone()).collect();
    for server in &settings.servers {
        match &server.kind {
            ServerKind::Http { headers, .. } => {
                found.extend(headers.values().cloned());
                // `Bearer …`: the token also goes alone.
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

/// Whether a file contains one of these texts. One that cannot be read is taken to.
fn holds_any(file: &Path, texts: &[String]) -> bool {
    if texts.is_empty() {
        return false;
    }
    std::fs::read_to_string(file).map_or(true, |content| texts.iter().any(|text| content.contains(text.as_str())))
}

/// A folder that tools import from. Where it is a root itself, or holds one, only what Python would import counts.
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

/// A program that the configuration names by its path, and the virtual environment that it belongs to.
fn protect_program(guard: &mut Guard, program: &Path) {
    guard.protect(program);
    let environment = program.parent().and_then(Path::parent);
    if let Some(environment) = environment.filter(|folder| folder.join("pyvenv.cfg").is_file()) {
        guard.protect(environment);
    }
}
