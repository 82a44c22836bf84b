//! Plans an import, server by server: added, renamed, unchanged, or left out.

use std::collections::{BTreeMap, BTreeSet};

use onetool_sdk::{RESERVED_PACKS, to_python_identifier};
use serde_json::{Map, Value as Json, json};

use super::read::FoundServer;
use crate::cli::config_file::ConfigFile;
use crate::secret_values;

/// What happens to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Add,
    /// Added under another name: its own is taken, or too long.
    Rename(String),
    /// Already configured like this, under this name.
    Same(String),
    Skip(String),
}

/// One server and its action.
pub struct Step {
    pub found: FoundServer,
    pub action: Action,
}

/// The whole plan.
pub struct Plan {
    pub steps: Vec<Step>,
    /// Secrets that move into `secrets.yaml`.
    pub secrets: BTreeMap<String, String>,
    /// Secrets that the user must add, with a description.
    pub inputs: Vec<(String, String)>,
}

impl Plan {
    /// Plans the import, and changes `file` without writing it. `known` are the servers of other files; `secret`
    /// returns the value of a secret.
    pub fn new(
        found: Vec<FoundServer>,
        file: &mut ConfigFile,
        known: &Map<String, Json>,
        secret: &dyn Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let mut plan = Self { steps: Vec::new(), secrets: BTreeMap::new(), inputs: Vec::new() };
        let mut servers = known.clone();
        if let Some(Json::Object(own)) = file.value(&["servers"])? {
            servers.extend(own);
        }
        let mut added = BTreeSet::new();
        for mut server in found {
            let moved = secret_values::take(short(&server.name), &mut server.settings, &|name| {
                plan.secrets.get(name).cloned().or_else(|| secret(name))
            });
            let action = action(&server, &servers);
            let name = match &action {
                Action::Add => Some(server.name.clone()),
                Action::Rename(name) => Some(name.clone()),
                // Two clients have it: tools that either allows are allowed, and it is enabled if either enables it.
                Action::Same(name) if added.contains(name) => {
                    allow(file, name, &server.allowed_tools)?;
                    if !server.settings.contains_key("enabled") && file.value(&["servers", name, "enabled"])?.is_some()
                    {
                        file.remove(&["servers", name, "enabled"])?;
                    }
                    None
                }
                Action::Same(_) | Action::Skip(_) => None,
            };
            if let Some(name) = name {
                let settings = Json::Object(server.settings.clone());
                file.set(&["servers", &name], &settings)?;
                servers.insert(name.clone(), settings);
                allow(file, &name, &server.allowed_tools)?;
                for (name, value) in &server.secrets {
                    let is_other = |known: String| known != *value;
                    if plan.secrets.get(name).cloned().or_else(|| secret(name)).is_some_and(is_other) {
                        server.remarks.push(format!("the secret {name} has another value here, which stays"));
                    } else if secret(name).is_none() {
                        plan.secrets.insert(name.clone(), value.clone());
                    }
                }
                plan.secrets.extend(moved.into_iter().filter(|(name, _)| secret(name).is_none()));
                plan.inputs.extend(server.inputs.iter().filter(|(name, _)| secret(name).is_none()).cloned());
                added.insert(name);
            }
            plan.steps.push(Step { found: server, action });
        }
        plan.inputs.sort();
        plan.inputs.dedup_by(|a, b| a.0 == b.0);
        Ok(plan)
    }
}

/// Allows these tools without asking, unless the policy mentions them.
fn allow(file: &mut ConfigFile, server: &str, tools: &[String]) -> anyhow::Result<()> {
    for tool in tools {
        let function = if tool == "*" { tool.clone() } else { to_python_identifier(tool) };
        let pattern = format!("{}.{function}", to_python_identifier(server));
        if file.value(&["security", "policy", &pattern])?.is_none() {
            file.set(&["security", "policy", &pattern], &json!("allow"))?;
        }
    }
    Ok(())
}

/// Shortens catalog names: `github.com/owner/repository/src/time` and `io.github.owner/time` become `time`.
fn short(name: &str) -> &str {
    name.rsplit('/').find(|part| part.chars().any(char::is_alphanumeric)).unwrap_or(name)
}

fn action(server: &FoundServer, servers: &Map<String, Json>) -> Action {
    if server.is_onetool {
        return Action::Skip("this is OneTool itself".to_owned());
    }
    if !server.settings.contains_key("command") && !server.settings.contains_key("url") {
        return Action::Skip("it has neither a command nor a url".to_owned());
    }
    let is_same = |other: &Json| without_switch(other) == without_switch(&Json::Object(server.settings.clone()));
    if let Some((name, _)) = servers.iter().find(|(_, other)| is_same(other)) {
        return Action::Same(name.clone());
    }
    // Two names with the same pack name are the same.
    let pack = |name: &str| to_python_identifier(name);
    let is_taken = |name: &str| {
        RESERVED_PACKS.contains(&pack(name).as_str()) || servers.keys().any(|known| pack(known) == pack(name))
    };
    let name = short(&server.name);
    if !is_taken(name) {
        return if name == server.name { Action::Add } else { Action::Rename(name.to_owned()) };
    }
    let base = format!("{name}-{}", server.client.name());
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    match std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)) {
        Some(name) => Action::Rename(name),
        None => Action::Skip("no name is free for it".to_owned()),
    }
}

/// Ignores whether a server is enabled, for comparison.
fn without_switch(server: &Json) -> Json {
    let mut server = server.clone();
    if let Json::Object(entries) = &mut server {
        entries.shift_remove("enabled");
        entries.shift_remove("type");
    }
    server
}
