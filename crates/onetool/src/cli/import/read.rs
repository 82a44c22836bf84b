//! From a client's file to servers in our own words.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::{Map, Value as Json, json};

use super::clients::{Client, ClientFile, Layout};
use super::jsonc;

/// A server of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundServer {
    pub name: String,
    pub client: Client,
    /// As `servers.<name>` of ours holds it.
    pub settings: Map<String, Json>,
    /// Tools that the client calls without asking.
    pub allowed_tools: Vec<String>,
    /// Secrets that must be added by hand, with what they are.
    pub inputs: Vec<(String, String)>,
    /// What could not be carried over.
    pub remarks: Vec<String>,
    /// Whether this is OneTool itself.
    pub is_onetool: bool,
}

/// The largest file of a client that is read. Some keep their history in it.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The servers of a file; `None` where there is no file.
pub fn read(file: &ClientFile, project: &std::path::Path) -> anyhow::Result<Option<Vec<FoundServer>>> {
    let Some(text) = text_of(&file.path)? else { return Ok(None) };
    let path = || file.path.display().to_string();
    let root: Json = match file.layout {
        Layout::Toml => toml::from_str::<Json>(&text).with_context(path)?,
        Layout::Yaml => onetool_config::edit::get(&text, &["servers"]).with_context(path)?.unwrap_or(Json::Null),
        Layout::Json(_) | Layout::ClaudeProject => jsonc::parse(&text).with_context(path)?,
    };
    let servers = match file.layout {
        Layout::Yaml => Some(&root),
        layout => path_of(layout, project).iter().try_fold(&root, |value, step| value.get(step)),
    };
    let Some(Json::Object(servers)) = servers else { return Ok(Some(Vec::new())) };
    let descriptions = input_descriptions(&root);
    Ok(Some(
        servers.iter().map(|(name, server)| Reading::new(file.client, name, &descriptions).server(server)).collect(),
    ))
}

/// A file's text, if there is one.
pub fn text_of(path: &std::path::Path) -> anyhow::Result<Option<String>> {
    let context = || format!("cannot read {}", path.display());
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => {
            anyhow::bail!("{}: larger than {} MB; not read", path.display(), MAX_FILE_BYTES >> 20)
        }
        meta => meta.with_context(context)?,
    };
    std::fs::read_to_string(path).with_context(context).map(Some)
}

/// Where the servers are in a file that is read as JSON.
pub fn path_of(layout: Layout, project: &std::path::Path) -> Vec<String> {
    match layout {
        Layout::Json(path) => path.iter().map(|&step| step.to_owned()).collect(),
        Layout::ClaudeProject => vec!["projects".to_owned(), project.display().to_string(), "mcpServers".to_owned()],
        Layout::Toml => vec!["mcp_servers".to_owned()],
        Layout::Yaml => vec!["servers".to_owned()],
    }
}

/// `inputs` of VS Code: what is asked for, by id.
fn input_descriptions(root: &Json) -> Map<String, Json> {
    let inputs = root.get("inputs").and_then(Json::as_array).into_iter().flatten();
    inputs
        .filter_map(|input| Some((input.get("id")?.as_str()?.to_owned(), input.get("description")?.clone())))
        .collect()
}

struct Reading<'a> {
    client: Client,
    found: FoundServer,
    descriptions: &'a Map<String, Json>,
    variables: BTreeSet<String>,
}

impl<'a> Reading<'a> {
    fn new(client: Client, name: &str, descriptions: &'a Map<String, Json>) -> Self {
        let found = FoundServer {
            name: name.to_owned(),
            client,
            settings: Map::new(),
            allowed_tools: Vec::new(),
            inputs: Vec::new(),
            remarks: Vec::new(),
            is_onetool: false,
        };
        Self { client, found, descriptions, variables: BTreeSet::new() }
    }

    fn server(mut self, server: &Json) -> FoundServer {
        let Json::Object(entries) = server else {
            self.found.remarks.push("not a mapping".to_owned());
            return self.found;
        };
        if self.client == Client::Onetool {
            self.found.settings = entries.clone();
            return self.found;
        }
        for (key, value) in entries {
            self.key(key, value);
        }
        if !self.variables.is_empty() {
            self.set("env_allow", json!(self.variables));
        }
        let command = self.found.settings.get("command").and_then(Json::as_str).unwrap_or("");
        let program = std::path::Path::new(command).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.found.is_onetool = program.as_deref() == Some("onetool");
        if !self.found.settings.contains_key("command") && !self.found.settings.contains_key("url") {
            self.found.remarks.push("it has neither a command nor a url".to_owned());
        }
        self.found
    }

    fn set(&mut self, key: &str, value: Json) {
        let is_empty = match &value {
            Json::Array(items) => items.is_empty(),
            Json::Object(entries) => entries.is_empty(),
            other => other.is_null(),
        };
        if !is_empty {
            self.found.settings.insert(key.to_owned(), value);
        }
    }

    fn key(&mut self, key: &str, value: &Json) {
        match (key, value) {
            // opencode has the arguments in the same list; older Zed has an object.
            ("command", Json::Array(words)) => {
                let mut words = words.iter();
                if let Some(program) = words.next() {
                    let program = self.text(program);
                    self.set("command", program);
                }
                let rest: Json = words.map(|word| self.text(word)).collect();
                self.set("args", rest);
            }
            ("command", Json::Object(inner)) => {
                for (key, value) in inner {
                    self.key(if key == "path" { "command" } else { key }, value);
                }
            }
            ("command" | "cwd", value) => {
                let value = self.text(value);
                self.set(key, value);
            }
            ("url" | "serverUrl" | "httpUrl", value) => {
                let value = self.text(value);
                self.set("url", value);
            }
            ("args", Json::Array(items)) => {
                let items: Json = items.iter().map(|item| self.text(item)).collect();
                self.set("args", items);
            }
            ("env" | "environment", Json::Object(entries)) => self.map("env", entries),
            ("headers" | "http_headers", Json::Object(entries)) => self.map("headers", entries),
            ("env_http_headers", Json::Object(entries)) => {
                for (name, variable) in entries {
                    self.header(name, variable.as_str().unwrap_or(""), "");
                }
            }
            ("env_vars", Json::Array(names)) => {
                self.variables.extend(names.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            ("bearer_token_env_var", Json::String(variable)) => self.header("Authorization", variable, "Bearer "),
            ("disabled", Json::Bool(true)) | ("enabled", Json::Bool(false)) => self.set("enabled", json!(false)),
            ("disabled" | "enabled", _) => {}
            ("autoApprove" | "alwaysAllow", Json::Array(tools)) => {
                self.found.allowed_tools.extend(tools.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            ("timeout", Json::Number(number)) => {
                // opencode counts milliseconds.
                let seconds =
                    number.as_f64().map(|value| if self.client == Client::Opencode { value / 1000.0 } else { value });
                self.set("timeout", seconds.filter(|seconds| *seconds > 0.0).map_or(Json::Null, whole));
            }
            ("tool_timeout_sec", Json::Number(number)) => self.set("timeout", Json::Number(number.clone())),
            ("oauth", Json::Bool(false)) => self.set("auth", json!({"enabled": false})),
            ("oauth", Json::Object(entries)) => self.oauth(entries),
            ("enabled_tools", tools) => self.tools("include", tools),
            ("disabled_tools" | "disabledTools", tools) => self.tools("exclude", tools),
            // The kind shows in command and url; where it came from does not matter.
            (
                "type" | "transport" | "source" | "startup_timeout_sec" | "startup_timeout_ms" | "gallery" | "version",
                _,
            ) => {}
            (other, _) => self.found.remarks.push(format!("'{other}' is not carried over")),
        }
    }

    fn map(&mut self, key: &str, entries: &Map<String, Json>) {
        let mut map = match self.found.settings.get(key) {
            Some(Json::Object(known)) => known.clone(),
            _ => Map::new(),
        };
        for (name, value) in entries {
            map.insert(name.clone(), self.text(value));
        }
        self.set(key, Json::Object(map));
    }

    /// How to sign in, as opencode and VS Code say it.
    fn oauth(&mut self, entries: &Map<String, Json>) {
        let mut auth = Map::new();
        for (key, value) in entries {
            match (key.as_str(), value) {
                ("clientId", value) => drop(auth.insert("client_id".to_owned(), self.text(value))),
                ("clientSecret", value) => drop(auth.insert("client_secret".to_owned(), self.text(value))),
                ("scope", Json::String(scopes)) => {
                    drop(auth.insert("scopes".to_owned(), scopes.split_whitespace().collect()));
                }
                (other, _) => self.found.remarks.push(format!("'oauth.{other}' is not carried over")),
            }
        }
        self.set("auth", Json::Object(auth));
    }

    fn header(&mut self, name: &str, variable: &str, before: &str) {
        self.variables.insert(variable.to_owned());
        let mut headers = self.found.settings.get("headers").and_then(Json::as_object).cloned().unwrap_or_default();
        headers.insert(name.to_owned(), json!(format!("{before}${{{variable}}}")));
        self.set("headers", Json::Object(headers));
    }

    fn tools(&mut self, which: &str, tools: &Json) {
        let mut both = self.found.settings.get("tools").and_then(Json::as_object).cloned().unwrap_or_default();
        both.insert(which.to_owned(), tools.clone());
        self.set("tools", Json::Object(both));
    }

    /// Text with references in our own words. Numbers and flags become text, as a process would see them.
    fn text(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.references(text)),
            Json::Null => Json::String(String::new()),
            other => Json::String(other.to_string()),
        }
    }

    fn references(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        loop {
            let dollar = rest.find("${");
            // opencode writes {env:NAME}.
            let brace = if self.client == Client::Opencode { rest.find("{env:") } else { None };
            let (start, open) = match (dollar, brace) {
                (Some(dollar), Some(brace)) if brace < dollar => (brace, 1),
                (Some(dollar), _) => (dollar, 2),
                (None, Some(brace)) => (brace, 1),
                (None, None) => break,
            };
            let Some(length) = rest[start..].find('}') else { break };
            let inner = rest[start + open..start + length].to_owned();
            out.push_str(&rest[..start]);
            out.push_str(&self.reference(&inner));
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        out
    }

    fn reference(&mut self, inner: &str) -> String {
        match inner.split_once(':') {
            Some(("env", name)) => self.variable(name),
            Some(("input", id)) => {
                let name = onetool_sdk::to_python_identifier(id).to_ascii_uppercase();
                let what = self.descriptions.get(id).and_then(Json::as_str).unwrap_or("").to_owned();
                if !self.found.inputs.iter().any(|(known, _)| *known == name) {
                    self.found.inputs.push((name.clone(), what));
                }
                format!("${{{name}}}")
            }
            _ if inner == "workspaceFolder" || inner == "workspaceRoot" => ".".to_owned(),
            _ if inner == "userHome" => "~".to_owned(),
            _ if inner == "pathSeparator" || inner == "/" => std::path::MAIN_SEPARATOR.to_string(),
            _ => self.variable(inner),
        }
    }

    /// `NAME` and `NAME:-default` mean the same to us.
    fn variable(&mut self, name: &str) -> String {
        let plain = name.split(":-").next().unwrap_or(name);
        self.variables.insert(plain.to_owned());
        format!("${{{name}}}")
    }
}

fn whole(seconds: f64) -> Json {
    if seconds.fract() == 0.0 && seconds < 1e9 { json!(seconds as u64) } else { json!(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(client: Client, server: Json, inputs: Json) -> FoundServer {
        Reading::new(client, "s", &input_descriptions(&json!({ "inputs": inputs }))).server(&server)
    }

    #[test]
    fn each_client_has_its_own_words() {
        for (client, server, expected) in [
            (
                Client::Cursor,
                json!({"command": "npx", "args": ["-y", "x", "${workspaceFolder}/a"], "env": {"A": "${env:HOME}", "N": 5}}),
                json!({"command": "npx", "args": ["-y", "x", "./a"], "env": {"A": "${HOME}", "N": "5"}, "env_allow": ["HOME"]}),
            ),
            (
                Client::ClaudeCode,
                json!({"type": "http", "url": "https://${HOST:-h}/mcp", "headers": {"X": "y"}}),
                json!({"url": "https://${HOST:-h}/mcp", "headers": {"X": "y"}, "env_allow": ["HOST"]}),
            ),
            (
                Client::Windsurf,
                json!({"serverUrl": "https://h/mcp", "disabled": true}),
                json!({"url": "https://h/mcp", "enabled": false}),
            ),
            (
                Client::Codex,
                json!({"url": "https://h", "bearer_token_env_var": "T", "enabled_tools": ["a"], "tool_timeout_sec": 45}),
                json!({"url": "https://h", "headers": {"Authorization": "Bearer ${T}"}, "tools": {"include": ["a"]}, "timeout": 45, "env_allow": ["T"]}),
            ),
            (
                Client::Zed,
                json!({"source": "custom", "command": {"path": "p", "args": ["a"], "env": {}}}),
                json!({"command": "p", "args": ["a"]}),
            ),
            (
                Client::Opencode,
                json!({"type": "local", "command": ["npx", "x"], "environment": {"K": "{env:KEY}"}, "enabled": false, "timeout": 5000}),
                json!({"command": "npx", "args": ["x"], "env": {"K": "${KEY}"}, "enabled": false, "timeout": 5, "env_allow": ["KEY"]}),
            ),
        ] {
            let found = read_one(client, server, Json::Null);
            assert_eq!(Json::Object(found.settings), expected, "{client:?}");
            assert!(found.remarks.is_empty(), "{client:?}: {:?}", found.remarks);
        }
    }

    #[test]
    fn inputs_approvals_and_what_is_unknown_are_reported() {
        let inputs =
            json!([{"type": "promptString", "id": "gh-token", "description": "GitHub token", "password": true}]);
        let found = read_one(
            Client::Vscode,
            json!({"command": "x", "env": {"T": "${input:gh-token}"}, "autoApprove": ["get"], "envFile": ".env"}),
            inputs,
        );
        assert_eq!(found.settings["env"]["T"], "${GH_TOKEN}");
        assert_eq!(found.inputs, [("GH_TOKEN".to_owned(), "GitHub token".to_owned())]);
        assert_eq!(found.allowed_tools, ["get"]);
        assert_eq!(found.remarks, ["'envFile' is not carried over"]);
        assert!(
            read_one(Client::Cursor, json!({"command": "/usr/bin/onetool", "args": ["serve"]}), Json::Null).is_onetool
        );
    }
}
