//! What an import would do, server by server: added, renamed, the same, or left out.

use std::collections::BTreeMap;

use onetool_sdk::{RESERVED_PACKS, to_python_identifier};
use serde_json::{Map, Value as Json, json};

use super::read::FoundServer;
use crate::cli::config_file::ConfigFile;
use crate::cli::secret_values;

/// What happens with one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Add,
    /// Another server has this name already.
    Rename(String),
    /// It is configured like this already.
    Same,
    Skip(String),
}

/// One server with what happens to it.
pub struct Step {
    pub found: FoundServer,
    pub action: Action,
}

/// All of it.
pub struct Plan {
    pub steps: Vec<Step>,
    /// Secrets that move into `secrets.yaml`.
    pub secrets: BTreeMap<String, String>,
    /// Secrets that the user must add, with what they are.
    pub inputs: Vec<(String, String)>,
}

impl Plan {
    /// Plans, and makes the changes in `file` without writing it. `known` are the servers of other files; `secret` says
    /// which value a secret has.
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
        for mut server in found {
            let moved = secret_values::take(&server.name, &mut server.settings, &|name| {
                plan.secrets.get(name).cloned().or_else(|| secret(name))
            });
            let action = action(&server, &servers);
            let name = match &action {
                Action::Add => Some(server.name.clone()),
                Action::Rename(name) => Some(name.clone()),
                Action::Same | Action::Skip(_) => None,
            };
            if let Some(name) = name {
                let settings = Json::Object(server.settings.clone());
                file.set(&["servers", &name], &settings)?;
                servers.insert(name.clone(), settings);
                for tool in &server.allowed_tools {
                    let pattern = format!("{}.{}", to_python_identifier(&name), to_python_identifier(tool));
                    if file.value(&["security", "policy", &pattern])?.is_none() {
                        file.set(&["security", "policy", &pattern], &json!("allow"))?;
                    }
                }
                plan.secrets.extend(moved.into_iter().filter(|(name, _)| secret(name).is_none()));
                plan.inputs.extend(server.inputs.iter().filter(|(name, _)| secret(name).is_none()).cloned());
            }
            plan.steps.push(Step { found: server, action });
        }
        plan.inputs.sort();
        plan.inputs.dedup_by(|a, b| a.0 == b.0);
        Ok(plan)
    }
}

fn action(server: &FoundServer, servers: &Map<String, Json>) -> Action {
    if server.is_onetool {
        return Action::Skip("this is OneTool itself".to_owned());
    }
    if !server.settings.contains_key("command") && !server.settings.contains_key("url") {
        return Action::Skip("it has neither a command nor a url".to_owned());
    }
    let is_same = |other: &Json| without_switch(other) == without_switch(&Json::Object(server.settings.clone()));
    if servers.values().any(is_same) {
        return Action::Same;
    }
    // Two names that make the same pack are the same name.
    let pack = |name: &str| to_python_identifier(name);
    let is_taken = |name: &str| {
        RESERVED_PACKS.contains(&pack(name).as_str()) || servers.keys().any(|known| pack(known) == pack(name))
    };
    if !is_taken(&server.name) {
        return Action::Add;
    }
    let base = format!("{}-{}", server.name, server.client.name());
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    match std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)) {
        Some(name) => Action::Rename(name),
        None => Action::Skip("no name is free for it".to_owned()),
    }
}

/// Whether a server is switched on does not make it another one.
fn without_switch(server: &Json) -> Json {
    let mut server = server.clone();
    if let Json::Object(entries) = &mut server {
        entries.shift_remove("enabled");
        entries.shift_remove("type");
    }
    server
}
