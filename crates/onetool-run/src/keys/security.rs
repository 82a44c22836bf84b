//! `security`: what may be called.

use indexmap::IndexMap;
use onetool_config::{Reader, Section, Shape, keys, quoted, short};
use onetool_sandbox::FileAccess;
use onetool_sdk::Redactor;
use serde_json::Value as Json;

use super::run::RunKeys;
use crate::groups::{Group, Groups, Names, Quota};
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
        /// What some of those who have tokens may do: less than the rest of this section says, never more.
        groups: IndexMap<String, GroupKeys> = IndexMap::new(), live;
        /// What each of those who have tokens may use up, where none of their groups says.
        limits: LimitKeys = LimitKeys::default(), live;
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

keys! {
    /// A group of those who have tokens. Of several groups, the strictest rule and the lowest limit count; their packs and
    /// secrets add up.
    pub struct GroupKeys {
        /// Who belongs to it, by pattern: names of tokens, subjects of OAuth tokens. A token may also name its groups itself.
        members: Vec<String> = Vec::new(), live, example "[ana, \"ci-*\"]";
        /// `allow`, `ask` or `deny` by pattern, besides `security.policy`; the stricter of the two counts.
        policy: IndexMap<String, Json> = IndexMap::new(), live, example "{\"*.delete*\": deny}";
        /// Packs that its members see, by pattern; without it, all.
        packs: Option<Vec<String>> = None, live, example "[file, github]";
        /// Secrets that tools may use for its members, by pattern; without it, all.
        secrets: Option<Vec<String>> = None, live, example "[\"GITHUB_*\"]";
        /// What each of its members may use up.
        limits: LimitKeys = LimitKeys::default(), live;
    }
}

keys! {
    /// What one of those who have tokens may use up. More is refused, and the refusal says when to try again.
    pub struct LimitKeys {
        /// Runs at once, on all servers that share their state.
        runs_at_once: Option<u32> [Shape::Count(1, 10_000)] = None, live, example "4";
        /// Calls of tools a minute.
        calls_per_minute: Option<u32> [Shape::Count(1, 1_000_000)] = None, live, example "600";
        /// Seconds that runs may compute in a day; waiting for tools is not counted.
        cpu_seconds_per_day: Option<u32> [Shape::Count(1, 1_000_000)] = None, live, example "3600";
    }
}

impl From<&LimitKeys> for Quota {
    fn from(keys: &LimitKeys) -> Self {
        Self {
            runs_at_once: keys.runs_at_once,
            calls_per_minute: keys.calls_per_minute,
            cpu_seconds_per_day: keys.cpu_seconds_per_day,
        }
    }
}

pub const SECURITY: Section<SecurityKeys> = Section::new("security");

/// Minimum length of a redacted secret: a shorter one would redact ordinary text.
const MIN_SECRET: usize = 6;

/// Resolves the settings of runs.
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
        // An invalid value must not be more permissive than what was meant.
        files: if reader.is_wrong(&["run", "files"]) { FileAccess::Off } else { run.files },
        sessions: run.session_limits(),
        packages: Vec::new(),
        stores_large_output: true,
        max_inline: None,
    }
}

/// Resolves the policy. An invalid rule denies.
pub fn permissions(reader: &mut Reader, policy: &IndexMap<String, Json>) -> Permissions {
    if reader.is_wrong(&["security", "policy"]) {
        reader.problem(&["security", "policy"], "until this is fixed, every tool but those of ot is denied");
        return Permissions::new([("ot.*", Permission::Allow), ("*", Permission::Deny)]).unwrap_or_default();
    }
    let permissions = rules(reader, &["security", "policy"], policy);
    match reader.user_security(&SECURITY) {
        Some(user) => permissions.and(user_permissions(&user.policy)),
        None => permissions,
    }
}

/// Reads the rules at `path`.
fn rules(reader: &mut Reader, path: &[&str], policy: &IndexMap<String, Json>) -> Permissions {
    let mut rules = Vec::new();
    for (pattern, word) in policy {
        let permission = match word.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("allow") => Permission::Allow,
            Some("ask") => Permission::Ask,
            Some("deny") => Permission::Deny,
            _ => {
                let message = format!("found {}, expected allow, ask or deny; denied until then", quoted(word));
                reader.problem(&[path, &[pattern]].concat(), &message);
                Permission::Deny
            }
        };
        match Permissions::new([(pattern.as_str(), permission)]) {
            Ok(_) => rules.push((pattern.as_str(), permission)),
            Err(error) => {
                let message = format!("not a valid pattern ({}); expected one like pack.* or *.delete_*", error.kind());
                reader.problem(&[path, &[pattern]].concat(), &message);
            }
        }
    }
    Permissions::new(rules).unwrap_or_default()
}

/// Resolves the groups. An invalid section allows nothing; an invalid pattern matches nothing where it would allow, and
/// everything where it would limit.
pub fn groups(reader: &mut Reader, security: &SecurityKeys) -> Groups {
    const PATH: [&str; 2] = ["security", "groups"];
    if reader.is_wrong(&PATH) {
        reader.problem(&PATH, "until this is fixed, nobody with a token may call any tool but those of ot");
        return Groups::closed();
    }
    let groups = security.groups.iter().map(|(name, keys)| group(reader, name, keys)).collect();
    let quota = Quota::from(&security.limits);
    // A project's groups are added to the user's.
    match reader.user_security(&SECURITY) {
        Some(user) => {
            let own = user.groups.iter().map(|(name, keys)| group(reader, name, keys)).collect();
            Groups::new(groups, quota.and(Quota::from(&user.limits))).within(own)
        }
        None => Groups::new(groups, quota),
    }
}

fn group(reader: &mut Reader, name: &str, keys: &GroupKeys) -> Group {
    let mut names = |key: &str, patterns: &[String], fallback: &str| {
        Names::new(patterns.iter().map(String::as_str)).unwrap_or_else(|error| {
            let message = format!("not a valid pattern ({}); expected one like ci-*", error.kind());
            reader.problem(&["security", "groups", name, key], &message);
            Names::new([fallback]).unwrap_or_default()
        })
    };
    Group {
        name: name.to_owned(),
        members: names("members", &keys.members, "*"),
        packs: keys.packs.as_ref().map(|packs| names("packs", packs, "ot")),
        secrets: keys.secrets.as_ref().map(|secrets| names("secrets", secrets, "-")),
        permissions: rules(reader, &["security", "groups", name, "policy"], &keys.policy),
        quota: Quota::from(&keys.limits),
    }
}

/// The user's own policy, which no project loosens. Invalid words deny; they are reported elsewhere.
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
