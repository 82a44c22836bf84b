//! Permanent approvals: a rule of `security.policy`, written into the file whose own rule says to ask.
//!
//! If the user's file asks, the rule is written there, since a project cannot loosen the user's rules; if the project's
//! file asks, it is written there and applies nowhere else. The rule is put first, because the first match wins. Then
//! the files are read again: if the tool is still not allowed, they are restored.

use std::path::PathBuf;
use std::time::Duration;

use onetool_config::ConfigPlaces;
use onetool_run::approvals::StandingApprovals;
use onetool_run::{Permission, Permissions};
use onetool_sdk::QualifiedName;
use onetool_state::atomic::Lock;
use parking_lot::Mutex;
use serde_json::Value as Json;

use crate::cli::config_file::{Backup, ConfigFile, Scope, main_path};
use crate::config;

const POLICY: [&str; 2] = ["security", "policy"];
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The policy in the files of one project and its user.
pub struct PolicyFile {
    places: ConfigPlaces,
    /// Serializes changes in this process; a lock file does so between processes.
    changing: Mutex<()>,
}

impl PolicyFile {
    pub fn new(places: ConfigPlaces) -> Self {
        Self { places, changing: Mutex::new(()) }
    }

    /// The files that a rule for this tool would be written to.
    pub fn targets(&self, tool: &QualifiedName) -> Vec<PathBuf> {
        let mut known: Vec<PathBuf> = Vec::new();
        for scope in [Scope::User, Scope::Project] {
            let path = main_path(&self.places, scope).ok();
            known.extend(path.filter(|path| !known.contains(path)));
        }
        let asking: Vec<PathBuf> = known.iter().filter(|path| asks(path, tool)).cloned().collect();
        // An included file asks: the user's own file takes precedence.
        if asking.is_empty() { known.into_iter().take(1).collect() } else { asking }
    }

    fn write(&self, tool: &QualifiedName) -> anyhow::Result<()> {
        let permission = || config::resolve(&self.places, config::load(&self.places)).permissions.of(tool);
        if permission() == Permission::Allow {
            return Ok(());
        }
        let name = tool.to_string();
        let mut files = Vec::new();
        for path in self.targets(tool) {
            let mut file = ConfigFile::open(path)?;
            file.set_first(&[POLICY[0], POLICY[1], &name], &Json::from("allow"))?;
            files.push(file);
        }
        let outcome = files.iter().try_for_each(|file| file.save(Backup::Skip).map(drop)).and_then(|()| {
            if permission() == Permission::Allow {
                return Ok(());
            }
            let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
            anyhow::bail!(
                "another rule still asks for {name} after a rule in {}; change security.policy by hand",
                names.join(" and ")
            )
        });
        if outcome.is_err() {
            for file in &files {
                if let Err(error) = file.restore() {
                    tracing::error!(%error, "a configuration file was not put back as it was");
                }
            }
        }
        outcome
    }
}

/// Whether the file's own policy says to ask.
fn asks(path: &std::path::Path, tool: &QualifiedName) -> bool {
    let policy = ConfigFile::open(path.to_owned()).and_then(|file| file.value(&POLICY));
    let Ok(Some(Json::Object(rules))) = policy else { return false };
    let rules = rules.iter().filter_map(|(pattern, word)| {
        let word = word.as_str().map(str::to_ascii_lowercase);
        let permission = match word.as_deref() {
            Some("allow") => Permission::Allow,
            Some("ask") => Permission::Ask,
            _ => Permission::Deny,
        };
        Permissions::new([(pattern.as_str(), permission)]).ok().map(|_| (pattern.as_str(), permission))
    });
    Permissions::new(rules).is_ok_and(|permissions| permissions.of(tool) == Permission::Ask)
}

impl StandingApprovals for PolicyFile {
    /// Always `false`: the policy itself has already decided to ask.
    fn is_allowed(&self, _: &QualifiedName) -> bool {
        false
    }

    fn allow(&self, tool: &QualifiedName) -> Result<(), String> {
        let _changing = self.changing.lock();
        let folder = self.places.global.clone().unwrap_or_else(|| self.places.own());
        let _lock = Lock::take(&folder.join("policy.lock"), LOCK_PATIENCE).map_err(|error| error.to_string())?;
        self.write(tool).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(folder: &Path) -> PolicyFile {
        PolicyFile::new(ConfigPlaces {
            project: folder.join("project"),
            global: Some(folder.join("home/.onetool")),
            explicit: None,
        })
    }

    fn write(path: PathBuf, text: &str) -> PathBuf {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn the_rule_goes_where_the_question_comes_from() {
        let tool = QualifiedName::new("demo", "danger");
        let ask = "# kept\nsecurity:\n  policy:\n    \"demo.*\": ask\n";
        let allowed = "# kept\nsecurity:\n  policy:\n    demo.danger: allow\n    \"demo.*\": ask\n";
        for (user, project) in [(true, false), (false, true), (true, true)] {
            let folder = tempfile::tempdir().unwrap();
            let policy = policy(folder.path());
            let text = |asks: bool| if asks { ask } else { "version: 1\n" };
            let user_file = write(folder.path().join("home/.onetool/onetool.yaml"), text(user));
            let project_file = write(folder.path().join("project/.onetool/onetool.yaml"), text(project));
            policy.allow(&tool).unwrap();
            let expected = |asks: bool| if asks { allowed } else { "version: 1\n" };
            assert_eq!((read(&user_file).as_str(), read(&project_file).as_str()), (expected(user), expected(project)));
            let now = config::resolve(&policy.places, config::load(&policy.places));
            assert_eq!(now.permissions.of(&tool), Permission::Allow);
            assert_eq!(now.permissions.of(&QualifiedName::new("demo", "other")), Permission::Ask);
            policy.allow(&tool).unwrap();
            assert_eq!(read(&user_file), expected(user));
        }
    }

    #[test]
    fn a_rule_that_would_not_count_is_not_written() {
        let tool = QualifiedName::new("demo", "danger");
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path());
        let own = folder.path().join("project/.onetool");
        write(own.join("more.yaml"), "security: {policy: {demo.danger: ask}}\n");
        write(own.join("onetool.yaml"), "include: more.yaml\n");
        let error = policy.allow(&tool).unwrap_err();
        assert!(error.contains("another rule still asks for demo.danger"), "{error}");
        assert!(!folder.path().join("home/.onetool/onetool.yaml").exists());
        // A file that cannot be edited stays unchanged.
        let broken = write(folder.path().join("home/.onetool/onetool.yaml"), "security: [\n");
        assert!(policy.allow(&tool).is_err());
        assert_eq!(read(&broken), "security: [\n");
    }
}
