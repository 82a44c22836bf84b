//! Converts the servers in a client's file to our own format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value as Json, json};

use super::clients::{Client, ClientFile, Layout};
use super::{jsonc, own};

/// A server of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundServer {
    pub name: String,
    pub client: Client,
    /// In the format of `servers.<name>`.
    pub settings: Map<String, Json>,
    /// Tools that the client allows without asking.
    pub allowed_tools: Vec<String>,
    /// Secrets that must be added by hand, with a description.
    pub inputs: Vec<(String, String)>,
    /// Secrets that it refers to and that its configuration contains.
    pub secrets: BTreeMap<String, String>,
    /// What could not be converted.
    pub remarks: Vec<String>,
    /// Whether this is OneTool itself.
    pub is_onetool: bool,
}

/// Maximum size of a client's file. Some keep their history in it.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads the servers of a file; `None` if there is no file.
pub fn read(file: &ClientFile, project: &Path) -> anyhow::Result<Option<Vec<FoundServer>>> {
    text_of(&file.path)?.map(|text| read_text(file, &text, project)).transpose()
}

/// Parses the servers of a file's text.
fn read_text(file: &ClientFile, text: &str, project: &Path) -> anyhow::Result<Vec<FoundServer>> {
    let path = || file.path.display().to_string();
    let root: Json = match file.layout {
        // Some clients leave an empty file before the first server.
        _ if text.trim().is_empty() => Json::Null,
        Layout::Toml => toml::from_str::<Json>(text).with_context(path)?,
        Layout::Yaml => Json::Object(own::servers(&file.path, text)?),
        Layout::Json(_) | Layout::ClaudeProject => jsonc::parse(text).with_context(path)?,
    };
    let servers = match file.layout {
        Layout::Yaml => Some(&root),
        layout => path_of(layout, project).iter().try_fold(&root, |value, step| value.get(step)),
    };
    let Some(Json::Object(servers)) = servers else { return Ok(Vec::new()) };
    let inputs = inputs(&root);
    let about = About { client: file.client, project, inputs: &inputs };
    let secrets = if file.layout == Layout::Yaml { own::secrets(&file.path) } else { BTreeMap::new() };
    let read = |(name, server): (&String, &Json)| {
        let found = Reading::new(about, name).server(server);
        FoundServer { secrets: own::named(&found.settings, &secrets), ..found }
    };
    Ok(servers.iter().map(read).collect())
}

/// A file's text, if there is one.
pub fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => {
            anyhow::bail!("{}: larger than {} MB; not read", path.display(), MAX_FILE_BYTES >> 20)
        }
        meta => meta.map_err(|error| crate::cli::unreadable(path, &error))?,
    };
    std::fs::read_to_string(path).map_err(|error| crate::cli::unreadable(path, &error)).map(Some)
}

/// The path of the servers in a file that is read as JSON.
pub fn path_of(layout: Layout, project: &Path) -> Vec<String> {
    match layout {
        Layout::Json(path) => path.iter().map(|&step| step.to_owned()).collect(),
        Layout::ClaudeProject => vec!["projects".to_owned(), project.display().to_string(), "mcpServers".to_owned()],
        Layout::Toml => vec!["mcp_servers".to_owned()],
        Layout::Yaml => vec!["servers".to_owned()],
    }
}

/// The `inputs` of VS Code, by id.
fn inputs(root: &Json) -> Map<String, Json> {
    let inputs = root.get("inputs").and_then(Json::as_array).into_iter().flatten();
    inputs.filter_map(|input| Some((input.get("id")?.as_str()?.to_owned(), input.clone()))).collect()
}

/// The context in which a server is read.
#[derive(Clone, Copy)]
struct About<'a> {
    client: Client,
    project: &'a Path,
    /// The inputs of VS Code, by id.
    inputs: &'a Map<String, Json>,
}

struct Reading<'a> {
    about: About<'a>,
    found: FoundServer,
    variables: BTreeSet<String>,
    /// How the project's folder is written where the server starts.
    here: String,
}

impl<'a> Reading<'a> {
    fn new(about: About<'a>, name: &str) -> Self {
        let found = FoundServer {
            name: name.to_owned(),
            client: about.client,
            settings: Map::new(),
            allowed_tools: Vec::new(),
            inputs: Vec::new(),
            secrets: BTreeMap::new(),
            remarks: Vec::new(),
            is_onetool: false,
        };
        Self { about, found, variables: BTreeSet::new(), here: ".".to_owned() }
    }

    fn server(mut self, server: &Json) -> FoundServer {
        let Json::Object(entries) = server else {
            self.found.remarks.push("not a mapping".to_owned());
            return self.found;
        };
        if self.about.client == Client::Onetool {
            self.found.settings = entries.clone();
            return self.found;
        }
        // A server starts in the project, unless its entry sets another folder.
        if entries.get("cwd").and_then(Json::as_str).is_some_and(|folder| folder != "${workspaceFolder}") {
            self.here = self.about.project.display().to_string();
        }
        for (key, value) in entries {
            self.key(key, value);
        }
        if let Some(file) = entries.get("envFile").and_then(Json::as_str) {
            self.env_file(file);
        }
        if !self.variables.is_empty() {
            self.set("env_allow", json!(self.variables));
        }
        let text = |key: &str| self.found.settings.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
        let first = self.found.settings.get("args").and_then(|args| args.get(0)).and_then(Json::as_str).unwrap_or("");
        let is_ours = |program: &str| Path::new(program).file_stem().is_some_and(|stem| stem == "onetool");
        let is_runner = ["uvx", "npx"].contains(&text("command").as_str());
        let words = self.found.settings.get("args").and_then(Json::as_array).into_iter().flatten();
        self.found.is_onetool = is_ours(&text("command"))
            || is_runner && (first == "onetool" || words.filter_map(Json::as_str).any(|word| word == "onetool"));
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
            // opencode puts the arguments in the same list; older Zed uses an object.
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
            ("disabled", Json::Bool(true)) | ("enabled" | "isActive", Json::Bool(false)) => {
                self.set("enabled", json!(false));
            }
            ("disabled" | "enabled" | "isActive", _) => {}
            ("autoApprove" | "alwaysAllow", Json::Array(tools)) => {
                self.found.allowed_tools.extend(tools.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            ("autoApprove" | "alwaysAllow" | "trust", Json::Bool(allowed)) => {
                self.found.allowed_tools.extend(allowed.then(|| "*".to_owned()));
            }
            ("default_tools_approval_mode", Json::String(mode)) => {
                self.found.allowed_tools.extend((mode == "approve").then(|| "*".to_owned()));
            }
            // Codex: approval mode per tool.
            ("tools", Json::Object(tools)) if self.about.client == Client::Codex => {
                let is_approved = |tool: &Json| tool.get("approval_mode").and_then(Json::as_str) == Some("approve");
                let approved = tools.iter().filter(|(_, tool)| is_approved(tool));
                self.found.allowed_tools.extend(approved.map(|(name, _)| name.clone()));
            }
            ("timeout", Json::Number(number)) => {
                // opencode uses milliseconds.
                let seconds = number
                    .as_f64()
                    .map(|value| if self.about.client == Client::Opencode { value / 1000.0 } else { value });
                self.set("timeout", seconds.filter(|seconds| *seconds > 0.0).map_or(Json::Null, whole));
            }
            // Cline uses milliseconds here.
            ("networkTimeout", Json::Number(number)) => {
                self.set("timeout", number.as_f64().map_or(Json::Null, |value| whole(value / 1000.0)));
            }
            ("tool_timeout_sec", Json::Number(number)) => self.set("timeout", Json::Number(number.clone())),
            ("oauth", Json::Bool(false)) => self.set("auth", json!({"enabled": false})),
            ("oauth" | "auth", Json::Object(entries)) => self.oauth(entries),
            ("scopes", Json::Array(_)) => self.oauth(&Map::from_iter([(key.to_owned(), value.clone())])),
            ("oauth_resource", Json::String(_)) => self.oauth(&Map::from_iter([(key.to_owned(), value.clone())])),
            ("enabled_tools" | "includeTools", tools) => self.tools("include", tools),
            ("disabled_tools" | "disabledTools" | "excludeTools", tools) => self.tools("exclude", tools),
            // The kind follows from command and url; origin and display options do not matter.
            (
                "type"
                | "transport"
                | "transportType"
                | "source"
                | "startup_timeout_sec"
                | "startup_timeout_ms"
                | "gallery"
                | "version"
                | "dev"
                | "required"
                | "description"
                | "name",
                _,
            ) => {}
            ("envFile", Json::String(_)) => {}
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

    /// Converts the sign-in settings of any client.
    fn oauth(&mut self, entries: &Map<String, Json>) {
        let mut auth = self.found.settings.get("auth").and_then(Json::as_object).cloned().unwrap_or_default();
        for (key, value) in entries {
            let (ours, value) = match (key.as_str(), value) {
                ("clientId" | "client_id" | "CLIENT_ID", value) => ("client_id", self.text(value)),
                ("clientSecret" | "client_secret" | "CLIENT_SECRET", value) => ("client_secret", self.text(value)),
                ("scope" | "scopes", Json::String(scopes)) => ("scopes", scopes.split_whitespace().collect()),
                ("scopes", Json::Array(scopes)) => ("scopes", Json::Array(scopes.clone())),
                ("callbackPort", Json::Number(port)) => ("redirect_port", Json::Number(port.clone())),
                ("redirectUri", Json::String(_)) => ("redirect_url", self.text(value)),
                ("oauth_resource" | "resource", Json::String(_)) => ("resource", self.text(value)),
                ("enabled", Json::Bool(_)) => ("enabled", value.clone()),
                (other, _) => {
                    self.found.remarks.push(format!("'oauth.{other}' is not carried over"));
                    continue;
                }
            };
            auth.insert(ours.to_owned(), value);
        }
        self.set("auth", Json::Object(auth));
    }

    /// Reads the variables of a file; those of the entry itself take precedence.
    fn env_file(&mut self, name: &str) {
        let known = self.references(name);
        let path = self.about.project.join(onetool_config::expand_home(&known.replace("${HOME}", "~")));
        let text = match text_of(&path) {
            Ok(Some(text)) => text,
            Ok(None) => return self.found.remarks.push(format!("its envFile {} does not exist", path.display())),
            Err(error) => return self.found.remarks.push(format!("its envFile: {error:#}")),
        };
        let mut env = self.found.settings.get("env").and_then(Json::as_object).cloned().unwrap_or_default();
        for (name, value) in env_lines(&text) {
            env.entry(name).or_insert(Json::String(value));
        }
        self.set("env", Json::Object(env));
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

    /// Converts the references in a text to our own format. Numbers and flags become text, as a process would see them.
    fn text(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.references(text)),
            Json::Null => Json::String(String::new()),
            other => Json::String(other.to_string()),
        }
    }

    fn references(&mut self, text: &str) -> String {
        // opencode uses {env:NAME} and {file:PATH}.
        let openings: &[(&str, usize)] = match self.about.client {
            Client::Opencode => &[("${", 2), ("{env:", 1), ("{file:", 1)],
            _ => &[("${", 2)],
        };
        let mut out = String::new();
        let mut rest = text;
        loop {
            let found = openings.iter().filter_map(|(text, skip)| Some((rest.find(text)?, *skip))).min();
            let Some((start, open)) = found else { break };
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
                let of_input = |key: &str| self.about.inputs.get(id)?.get(key)?.as_str();
                let (what, default) = (of_input("description").unwrap_or("").to_owned(), of_input("default"));
                let asked = default.map(|default| format!(":-{default}}}"));
                let reference = self.input(id, what);
                match asked {
                    // A variable with a default need not be added.
                    Some(rest) => {
                        self.found.inputs.retain(|(name, _)| format!("${{{name}}}") != reference);
                        format!("{}{rest}", reference.trim_end_matches('}'))
                    }
                    None => reference,
                }
            }
            Some((_, default)) if default.starts_with('-') => self.variable(inner),
            Some(("file", path)) => {
                let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.input(&format!("{}_{name}", self.found.name), format!("the content of {path}"))
            }
            // `${command:…}`, `${config:…}`: only the editor can resolve them.
            Some((_, id)) => self.input(id, format!("what ${{{inner}}} is in {}", self.about.client.name())),
            None => match inner {
                "workspaceFolder" | "workspaceRoot" | "cwd" => self.here.clone(),
                "workspaceFolderBasename" => {
                    self.about.project.file_name().unwrap_or_default().to_string_lossy().into_owned()
                }
                "userHome" => self.variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" }),
                "pathSeparator" | "/" => std::path::MAIN_SEPARATOR.to_string(),
                name => self.variable(name),
            },
        }
    }

    /// A secret that the user must add.
    fn input(&mut self, id: &str, what: String) -> String {
        let name = onetool_sdk::to_python_identifier(id).to_ascii_uppercase();
        if !self.found.inputs.iter().any(|(known, _)| *known == name) {
            self.found.inputs.push((name.clone(), what));
        }
        format!("${{{name}}}")
    }

    /// `NAME` and `NAME:-default` have the same meaning here.
    fn variable(&mut self, name: &str) -> String {
        let plain = name.split(":-").next().unwrap_or(name);
        self.variables.insert(plain.to_owned());
        format!("${{{name}}}")
    }
}

/// Parses `NAME=value`, `export NAME="value"` and comments.
fn env_lines(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.split_once(*quote));
        let value = match quoted {
            Some((inside, _)) => inside,
            None => value.split(" #").next().unwrap_or(value).trim_end(),
        };
        is_name.then(|| (name.to_owned(), value.to_owned()))
    })
}

fn whole(seconds: f64) -> Json {
    if seconds.fract() == 0.0 && seconds < 1e9 { json!(seconds as u64) } else { json!(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(client: Client, server: Json, inputs: Json) -> FoundServer {
        read_in(Path::new("/p"), client, server, inputs)
    }

    fn read_in(project: &Path, client: Client, server: Json, inputs: Json) -> FoundServer {
        let inputs = super::inputs(&json!({ "inputs": inputs }));
        Reading::new(About { client, project, inputs: &inputs }, "s").server(&server)
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
        let inputs = json!([{"type": "promptString", "id": "gh-token", "description": "GitHub token", "password": true},
                   {"type": "pickString", "id": "level", "options": ["a", "b"], "default": "a"}]);
        let found = read_one(
            Client::Vscode,
            json!({"command": "x", "env": {"T": "${input:gh-token}", "L": "${input:level}"}, "autoApprove": ["get"], "headersHelper": "x"}),
            inputs,
        );
        assert_eq!(found.settings["env"], json!({"T": "${GH_TOKEN}", "L": "${LEVEL:-a}"}));
        assert_eq!(found.inputs, [("GH_TOKEN".to_owned(), "GitHub token".to_owned())]);
        assert_eq!(found.allowed_tools, ["get"]);
        assert_eq!(found.remarks, ["'headersHelper' is not carried over"]);
        assert!(
            read_one(Client::Cursor, json!({"command": "/usr/bin/onetool", "args": ["serve"]}), Json::Null).is_onetool
        );
    }

    #[test]
    fn rarer_words_are_understood_too() {
        for (client, server, expected) in [
            (
                Client::Codex,
                json!({"command": "x", "required": true, "tools": {"a": {"approval_mode": "approve"}, "b": {"approval_mode": "prompt"}}}),
                json!({"command": "x"}),
            ),
            (
                Client::Cursor,
                json!({"url": "https://h", "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:S}", "scopes": ["r"]}}),
                json!({"url": "https://h", "auth": {"client_id": "me", "client_secret": "${S}", "scopes": ["r"]}, "env_allow": ["S"]}),
            ),
            (
                Client::ClaudeCode,
                json!({"type": "http", "url": "https://h", "oauth": {"clientId": "me", "callbackPort": 8080}}),
                json!({"url": "https://h", "auth": {"client_id": "me", "redirect_port": 8080}}),
            ),
            (
                Client::Vscode,
                json!({"command": "${userHome}/x", "args": ["${workspaceFolder}", "${workspaceFolderBasename}", "${config:a.b}"], "dev": {}}),
                json!({"command": "${HOME}/x", "args": [".", "p", "${A_B}"], "env_allow": ["HOME"]}),
            ),
            (
                Client::Vscode,
                json!({"command": "x", "cwd": "${workspaceFolder}/sub", "args": ["${workspaceFolder}/a"]}),
                json!({"command": "x", "cwd": "/p/sub", "args": ["/p/a"]}),
            ),
            (
                Client::Opencode,
                json!({"type": "remote", "url": "https://h", "headers": {"Authorization": "Bearer {file:~/.keys/api}"}}),
                json!({"url": "https://h", "headers": {"Authorization": "Bearer ${S_API}"}}),
            ),
        ] {
            let found = read_one(client, server, Json::Null);
            assert_eq!(Json::Object(found.settings), expected, "{client:?}");
            assert!(found.remarks.is_empty(), "{client:?}: {:?}", found.remarks);
        }
        let codex = json!({"command": "x", "tools": {"a": {"approval_mode": "approve"}}});
        assert_eq!(read_one(Client::Codex, codex, Json::Null).allowed_tools, ["a"]);
        let all = json!({"command": "x", "autoApprove": true});
        assert_eq!(read_one(Client::Cline, all, Json::Null).allowed_tools, ["*"]);
        for ours in [
            json!({"command": "uvx", "args": ["onetool", "serve"]}),
            json!({"command": "npx", "args": ["-y", "onetool"]}),
        ] {
            assert!(read_one(Client::Cursor, ours.clone(), Json::Null).is_onetool, "{ours}");
        }
        assert!(
            !read_one(Client::Cursor, json!({"command": "uvx", "args": ["mcp-server-time"]}), Json::Null).is_onetool
        );
    }

    #[test]
    fn variables_of_a_file_are_taken_in() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".env"), "# mine\nA=1 # one\nexport B=\"two words\"\nC='x'\nnot a line\n")
            .unwrap();
        let server = json!({"command": "x", "env": {"C": "own"}, "envFile": "${workspaceFolder}/.env"});
        let found = read_in(folder.path(), Client::Vscode, server.clone(), Json::Null);
        assert_eq!(found.settings["env"], json!({"C": "own", "A": "1", "B": "two words"}));
        std::fs::remove_file(folder.path().join(".env")).unwrap();
        let found = read_in(folder.path(), Client::Vscode, server, Json::Null);
        assert!(found.remarks[0].ends_with(".env does not exist"), "{:?}", found.remarks);
    }
}
