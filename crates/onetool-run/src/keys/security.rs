//! `security`: what may be called.

use indexmap::IndexMap;
use onetool_config::{Reader, Section, keys, quoted, short};
use onetool_sandbox::FileAccess;
use onetool_sdk::Redactor;
use serde_json::Value as Json;

use super::run::RunKeys;
use crate::{Gate, Permission, Permissions, RunSettings};

keys! {
    /// What may be called.
    pub struct SecurityKeys {
        /// `allow`, `ask` or `deny` by pattern; the first that matches counts.
        policy: IndexMap<String, Json> = IndexMap::new(), live, example "{file.delete: ask}";
        /// Marking of output as external content.
        sanitize: SanitizeKeys = SanitizeKeys::default(), live;
        /// Dotted names that code may not call or import.
        blocked: Vec<String> = Vec::new(), live, example "[\"os.system\"]";
        /// Dotted names whose use is logged.
        warned: Vec<String> = Vec::new(), live, example "[\"subprocess.*\"]";
        /// Exceptions to both.
        allow: Vec<String> = Vec::new(), live, example "[\"os.path.*\"]";
        /// Accepted for older files.
        validate_code: Option<bool> = None, ignored;
        /// Accepted for older files.
        enabled: Option<bool> = None, ignored;
    }
}

keys! {
    /// Marking of output as external content.
    pub struct SanitizeKeys {
        /// Mark all output, even where the code does not ask for it.
        enabled: bool = false, live;
    }
}

pub const SECURITY: Section<SecurityKeys> = Section::new("security");

/// Shorter secrets would redact ordinary text.
const MIN_SECRET: usize = 6;

/// What runs follow.
pub fn run_settings(reader: &mut Reader, run: &RunKeys, security: &SecurityKeys) -> RunSettings {
    let (gate, bad) = Gate::new(&security.blocked, &security.warned, &security.allow);
    for pattern in bad {
        let message = format!("'{}' is not a valid pattern; expected one like os.*", short(&pattern));
        reader.problem(&["security"], &message);
    }
    let user = reader.user_security(&SECURITY);
    let gate = match &user {
        Some(user) => gate.and(Gate::new(&user.blocked, &user.warned, &user.allow).0),
        None => gate,
    };
    RunSettings {
        redactor: Redactor::new(reader.secrets().values().filter(|value| value.len() >= MIN_SECRET)),
        gate,
        engine: run.engine,
        limits: run.limits(),
        type_check: run.type_check,
        sanitise: security.sanitize.enabled
            || user.is_some_and(|user| user.sanitize.enabled)
            || reader.is_wrong(&["security", "sanitize"]),
        max_error_bytes: run.max_error_kb << 10,
        // What cannot be read must not be laxer than what was meant.
        files: if reader.is_wrong(&["run", "files"]) { FileAccess::Off } else { run.files },
        sessions: run.session_limits(),
        packages: Vec::new(),
        stores_large_output: true,
        max_inline: None,
    }
}

/// Who may call what. A rule that cannot be read denies.
pub fn permissions(reader: &mut Reader, policy: &IndexMap<String, Json>) -> Permissions {
    if reader.is_wrong(&["security", "policy"]) {
        reader.problem(&["security", "policy"], "until this is fixed, every tool but those of ot is denied");
        return Permissions::new([("ot.*", Permission::Allow), ("*", Permission::Deny)]).unwrap_or_default();
    }
    let mut rules = Vec::new();
    for (pattern, word) in policy {
        let permission = match word.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("allow") => Permission::Allow,
            Some("ask") => Permission::Ask,
            Some("deny") => Permission::Deny,
            _ => {
                let message = format!("found {}, expected allow, ask or deny; denied until then", quoted(word));
                reader.problem(&["security", "policy", pattern], &message);
                Permission::Deny
            }
        };
        match Permissions::new([(pattern.as_str(), permission)]) {
            Ok(_) => rules.push((pattern.as_str(), permission)),
            Err(error) => {
                let message = format!("not a valid pattern ({}); expected one like pack.* or *.delete_*", error.kind());
                reader.problem(&["security", "policy", pattern], &message);
            }
        }
    }
    let permissions = Permissions::new(rules).unwrap_or_default();
    match reader.user_security(&SECURITY) {
        Some(user) => permissions.and(user_permissions(&user.policy)),
        None => permissions,
    }
}

/// The user's own policy, which no project loosens. Words that are not understood deny; they are noted elsewhere.
fn user_permissions(policy: &IndexMap<String, Json>) -> Permissions {
    let rules = policy.iter().map(|(pattern, word)| {
        let permission = match word.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("allow") => Permission::Allow,
            Some("ask") => Permission::Ask,
            _ => Permission::Deny,
        };
        (pattern.as_str(), permission)
    });
    let valid = rules.filter(|rule| Permissions::new([*rule]).is_ok());
    Permissions::new(valid).unwrap_or_default()
}
