//! The files that control this program, collected from the current configuration: files that no tool may change, and
//! files that no tool may read.

mod imports;
mod programs;

use std::path::{Path, PathBuf};

use onetool_config::separate_git_folders;
use onetool_packs::file::Guard;
use onetool_proxy::ServerKind;
use serde_json::{Value as Json, json};

use crate::cli::config_file::BACKUP;
use crate::config::Resolved;
use crate::secret_values;

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
        hide_copies(&mut guard, file, "");
    }
    guard.hide(crate::state::credentials_home(settings));
    if let Some(tls) = &settings.server.tls {
        guard.hide(&tls.key);
        guard.protect(&tls.certificate);
    }
    // Data of individual users is read only through tools that check ownership.
    for folder in ["runs", "state", "audit"] {
        guard.hide(settings.own.join(folder));
        guard.hide(settings.state_home.join(folder));
    }
    guard.hide_matching(&settings.output.result_store_dir, "*result-*");
    // A configuration file that contains a token is a secret itself.
    let literals = literal_secrets(settings);
    for file in &settings.files {
        if holds_any(file, &literals) {
            guard.hide(file);
            hide_copies(&mut guard, file, "");
        } else {
            // From before the tokens were moved to `secrets.yaml`.
            hide_copies(&mut guard, file, BACKUP);
        }
    }
    // Whether files came with a repository is read from there, and git runs hooks from there.
    for folder in settings.packs.file.roots.iter().chain([&settings.folder]).flat_map(|root| separate_git_folders(root))
    {
        guard.protect(folder);
    }
    guard.protect(&settings.bundles_dir);
    // Work is also kept in the project, even if it is not a root.
    let roots: Vec<PathBuf> = settings.packs.file.roots.iter().chain([&settings.folder]).cloned().collect();
    for pattern in &settings.workers.tools_dir {
        let pattern = pattern.trim_end_matches('/');
        guard.protect_matching(&settings.folder, pattern);
        // It may name a folder.
        guard.protect_matching(&settings.folder, &format!("{pattern}/*.py"));
        // A tool file can import its neighbours.
        let above = Path::new(pattern).parent().unwrap_or(Path::new("")).to_string_lossy();
        if has_wildcard(&above) {
            imports::protect_folders(&mut guard, &settings.folder, &above);
        } else {
            imports::protect_folder(&mut guard, &settings.folder.join(above.as_ref()), &roots);
        }
    }
    for file in onetool_worker::governing_files(&settings.workers) {
        if file.extension().is_some_and(|end| end == "py") {
            imports::protect(&mut guard, &file, &roots);
        }
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
        programs::protect_program(&mut guard, python);
    }
    programs::protect_search_path(&mut guard, settings);
    programs::protect(&mut guard, settings);
    guard
}

/// Hides the copies of a file that editors and people leave beside it: what has its name, as a word and followed by
/// `infix`, in its own.
fn hide_copies(guard: &mut Guard, file: &Path, infix: &str) {
    if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
        let name = globset::escape(&name.to_string_lossy());
        guard.hide_matching(folder, &format!("{name}{infix}*"));
        guard.hide_matching(folder, &format!("*[!0-9A-Za-z]{name}{infix}*"));
    }
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
            ServerKind::Http { url, headers } => {
                found.extend(secret_values::find(&json!({"url": url, "headers": headers})));
                found.extend(headers.values().cloned());
                // `Bearer …`: the token alone is secret too.
                let parts = headers.values().flat_map(|value| value.split_whitespace().skip(1));
                found.extend(parts.map(str::to_owned));
            }
            ServerKind::Stdio { env, args, .. } => {
                found.extend(secret_values::find(&json!({"env": env, "args": args})));
                let is_secret = |name: &str| SECRET_NAMES.iter().any(|part| name.to_ascii_uppercase().contains(part));
                found.extend(env.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone()));
            }
        }
    }
    found.extend(settings.tools.values().flat_map(secret_values::find_named));
    found.extend(settings.files.iter().flat_map(|file| passwords_of_state(file)));
    found.extend(settings.telemetry.iter().flat_map(|telemetry| telemetry.header_values()));
    // The password of an address may be percent-encoded in it.
    let decoded: Vec<String> = found.iter().filter_map(|value| decoded(value)).collect();
    found.extend(decoded);
    found.retain(|value| value.len() >= MIN_SECRET);
    found
}

/// The password in the address of the shared state, if it is written in this file.
fn passwords_of_state(file: &Path) -> Vec<String> {
    let document = std::fs::read_to_string(file).ok().and_then(|text| serde_saphyr::from_str::<Json>(&text).ok());
    document.as_ref().and_then(|document| document.get("state")).map(secret_values::find_named).unwrap_or_default()
}

/// Whether a file contains one of these texts. An unreadable file counts as containing one.
fn holds_any(file: &Path, texts: &[String]) -> bool {
    if texts.is_empty() {
        return false;
    }
    std::fs::read_to_string(file).map_or(true, |content| texts.iter().any(|text| content.contains(text.as_str())))
}

/// A value without its percent-encoding, if it has any.
fn decoded(value: &str) -> Option<String> {
    let mut parts = value.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok().filter(|decoded| decoded != value)
}

fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}
