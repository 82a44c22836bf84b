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
            args.iter().map(|argument| folder.join(argument)).filter(|path| is_script(path)).for_each(|path| guard.protect(path));
        }
    }
    guard
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
