//! The `servers` section of the configuration. A server with an invalid configuration is left out: started with half of
//! its configuration, it could do something that no one wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indexmap::IndexMap;
use onetool_config::{AnySection, ConfigValue, Expandable, Reader, Section, Shape, choices, expand_home, keys};
use onetool_sdk::{RESERVED_PACKS, to_python_identifier};
use serde_json::Value as Json;

use crate::era::EraChoice;
use crate::oauth::{AuthSettings, DEFAULT_LOGIN_TIMEOUT, ResourceIndicator};
use crate::settings::{
    DEFAULT_MESSAGE_BYTES, DEFAULT_PROBE, DEFAULT_RETRY_AFTER, DEFAULT_RETRY_MAX, DEFAULT_TIMEOUT, Enabled, PinMode,
    ServerKind, ServerSettings,
};

choices!(PinMode { "flag" => Flag, "strict" => Strict, "off" => Off });

/// How a server is reached, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerType {
    Stdio,
    Http,
}

choices!(ServerType { "stdio" => Stdio, "http" => Http, "sse" => Http, "streamable-http" => Http });

keys! {
    /// One MCP server.
    pub struct ServerKeys {
        /// How it is reached. Without it, `http` where there is a `url`, else `stdio`.
        kind as "type": Option<ServerType> = None, live, example "stdio";
        /// Whether it is used.
        enabled: bool = true, live;
        /// Address of an HTTP server.
        url: Option<Expandable> = None, live, example "https://mcp.example.org/mcp";
        /// Headers of every request.
        headers: IndexMap<String, Expandable> = IndexMap::new(), live, example "{Authorization: \"Bearer ${TOKEN}\"}";
        /// Program of a stdio server.
        command: Option<Expandable> = None, live, example "npx";
        /// Its arguments.
        args: Vec<Expandable> = Vec::new(), live, example "[-y, some-server]";
        /// Its environment, on top of a small safe set.
        env: IndexMap<String, Expandable> = IndexMap::new(), live, example "{LOG_LEVEL: warn}";
        /// Variables that `${NAME}` may take from the environment. Secrets always may be used.
        env_allow: Vec<String> = Vec::new(), live, example "[HTTPS_PROXY]";
        /// Folder that it starts in, relative to the project. Without it, the project.
        cwd: Option<Expandable> = None, live, example ".";
        /// Seconds for connecting, and for each call; progress extends it.
        timeout: Duration = DEFAULT_TIMEOUT, live;
        /// How it is spoken to: `legacy` begins with `initialize` (up to 2025-11-25), `modern` with `server/discover`
        /// (2026-07-28). `auto` finds out, and remembers.
        era: EraChoice = EraChoice::Auto, live;
        /// Seconds that it may take to answer in one era before it is asked in the other as well.
        probe: Duration = DEFAULT_PROBE, live;
        /// Seconds that calls fail at once after it hung, before it is tried again. Doubles with each time.
        retry_after: Duration = DEFAULT_RETRY_AFTER, live;
        /// Longest pause between two attempts to connect, in seconds.
        retry_max: Duration = DEFAULT_RETRY_MAX, live;
        /// Longest message that it may send, in megabytes.
        max_message_mb: usize [Shape::Count(1, 1024)] = DEFAULT_MESSAGE_BYTES >> 20, live;
        /// How to sign in to an HTTP server that requires it (OAuth). Usually nothing needs to be set.
        auth: ServerAuthKeys = ServerAuthKeys::default(), live;
        /// Which of its tools are offered.
        tools: ServerToolsKeys = ServerToolsKeys::default(), live;
        /// What happens when a tool's description or schema changes: report it, block the tool, or nothing.
        pin: PinMode = PinMode::Flag, live;
        /// Whether text that is a JSON object or array arrives as that value.
        json: JsonText = JsonText::Auto, live;
        /// Where it is documented; `off` shows no address. Without it, OneTool's own pages.
        docs: Option<Docs> = None, live, example "https://example.org/docs";
    }
}

/// What happens to text that is JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonText {
    Auto,
    Off,
}

choices!(JsonText { "auto" => Auto, "off" => Off });

/// Where something is documented. YAML reads `off` as a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Docs {
    At(String),
    Nowhere,
}

impl ConfigValue for Docs {
    const SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::Choice(&["off"])]);

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::String(text) if text != "off" => Some(Self::At(text)),
            Json::String(_) | Json::Bool(false) => Some(Self::Nowhere),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        match self {
            Self::At(address) => address.as_str().into(),
            Self::Nowhere => "off".into(),
        }
    }
}

/// How the resource is named to the authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource(ResourceIndicator);

impl ConfigValue for Resource {
    const SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::Choice(&["auto", "off"])]);

    fn read(value: Json) -> Option<Self> {
        Some(Self(match value {
            Json::String(text) if text == "auto" => ResourceIndicator::Auto,
            Json::String(text) if text == "off" => ResourceIndicator::Omit,
            Json::Bool(false) => ResourceIndicator::Omit,
            Json::String(text) => ResourceIndicator::Exactly(text),
            _ => return None,
        }))
    }

    fn write(&self) -> Json {
        match &self.0 {
            ResourceIndicator::Auto => "auto".into(),
            ResourceIndicator::Omit => "off".into(),
            ResourceIndicator::Exactly(resource) => resource.as_str().into(),
        }
    }
}

keys! {
    /// How to sign in to a server.
    pub struct ServerAuthKeys {
        /// Whether to sign in at all.
        enabled: bool = true, live;
        /// A client that the authorization server knows. Without it, one is registered.
        client_id: Option<Expandable> = None, live, example "my-client";
        /// Its secret, where it has one.
        client_secret: Option<Expandable> = None, live, example "${CLIENT_SECRET}";
        /// Address of a document that describes the client, for authorization servers that take one.
        client_metadata_url: Option<Expandable> = None, live, example "https://example.org/client.json";
        /// Name of the account, where several servers at one address sign in as different users.
        account: Option<String> = None, live, example "work";
        /// Rights to ask for, instead of those that the server names.
        scopes: Vec<String> = Vec::new(), live, example "[read]";
        /// Port of this machine that the browser is sent back to; 0 is any.
        redirect_port: usize [Shape::Count(0, 65535)] = 0, live;
        /// Where the browser is sent back to instead of this machine; its address is pasted then. A server with
        /// `server.public_url` takes it back itself and needs no address here.
        redirect_url: Option<Expandable> = None, live, example "https://example.org/callback";
        /// Name of the server in requests for tokens: as it names itself, none, or this one.
        resource: Resource = Resource(ResourceIndicator::Auto), live;
        /// Whether the authorization server must say that it checks PKCE (S256).
        require_pkce: bool = true, live;
        /// Seconds that somebody may take to sign in.
        login_timeout: Duration = DEFAULT_LOGIN_TIMEOUT, live;
    }
}

keys! {
    /// Which tools of a server are offered.
    pub struct ServerToolsKeys {
        /// Patterns of tools to offer. Without it, all.
        include: Vec<String> = Vec::new(), live, example "[\"read_*\"]";
        /// Patterns of tools to leave out.
        exclude: Vec<String> = Vec::new(), live, example "[\"delete_*\"]";
    }
}

/// The sections of this crate.
pub const SECTIONS: &[&dyn AnySection] = &[&SERVERS];

pub const SERVERS: Section<IndexMap<String, ServerKeys>> =
    Section::new("servers").with_doc("MCP servers, each a pack of its own.").with_example(
        r#"
files:
  type: stdio
  command: npx
  args: [-y, "@modelcontextprotocol/server-filesystem", "."]
  env: {LOG_LEVEL: warn}
  env_allow: [HTTPS_PROXY]           # variables that ${…} may take from the environment
  # cwd: .                           # where it starts; the project
  timeout: 30                        # seconds, for connecting and for each call
  era: auto                          # auto | legacy | modern: how the conversation begins
  probe: 2                           # seconds to answer in one era before it is asked in the other
  retry_after: 15                    # seconds that calls fail at once after it hung
  retry_max: 120                     # the longest pause between two attempts
  max_message_mb: 64                 # the longest message that it may send
  tools: {include: ["read_*", "list_*"], exclude: []}
  pin: flag                          # flag | strict | off: what a changed description does
  json: auto                         # auto | off: text that is JSON arrives as a value
  docs: https://example.org/docs     # for help; off shows none
  enabled: false
remote:
  type: http
  url: https://mcp.example.org/mcp
  headers: {Accept-Language: en}     # Authorization: "Bearer ${TOKEN}", with TOKEN in secrets.yaml
  # For `onetool servers login remote`; as a rule nothing needs to be said.
  # auth: {enabled: true, client_id: my-client, client_secret: "${CLIENT_SECRET}", scopes: [read], redirect_port: 0}
  # auth: {client_metadata_url: "https://example.org/client.json", redirect_url: "https://example.org/callback"}
  # auth: {resource: auto, require_pkce: true, login_timeout: 600, account: work}
  enabled: false
"#,
    );

/// The servers of the configuration.
pub fn servers(reader: &mut Reader) -> Vec<ServerSettings> {
    reader.read(&SERVERS).into_iter().map(|(name, keys)| server(reader, name, &keys)).collect()
}

fn server(reader: &mut Reader, name: String, keys: &ServerKeys) -> ServerSettings {
    let kind = if reader.is_wrong(&["servers", &name]) {
        Err("its configuration has a mistake".to_owned())
    } else if !name.chars().any(char::is_alphanumeric) {
        Err("a server's name needs a letter or a digit; it is the name of its pack".to_owned())
    } else if RESERVED_PACKS.contains(&to_python_identifier(&name).as_str()) {
        Err("its name is that of a pack that cannot be replaced; choose another".to_owned())
    } else {
        server_kind(keys, reader)
    };
    let auth = auth(keys, reader);
    let mut enabled = if keys.enabled {
        Enabled::Yes
    } else {
        Enabled::No { reason: "switched off in the configuration".to_owned() }
    };
    // For a disabled server, nothing else matters.
    let mut leave_out = |reason: String| {
        if enabled == Enabled::Yes {
            reader.problem(&["servers", &name], &format!("this server is left out: {reason}"));
            enabled = Enabled::No { reason };
        }
    };
    let kind = kind.unwrap_or_else(|reason| {
        leave_out(reason);
        match &keys.command {
            Some(_) => ServerKind::Stdio { command: String::new(), args: Vec::new(), env: BTreeMap::new(), cwd: None },
            None => ServerKind::Http { url: String::new(), headers: BTreeMap::new() },
        }
    });
    let auth = auth.unwrap_or_else(|reason| {
        leave_out(reason);
        AuthSettings::default()
    });
    ServerSettings {
        name,
        kind,
        enabled,
        timeout: keys.timeout,
        include: keys.tools.include.clone(),
        exclude: keys.tools.exclude.clone(),
        pin: keys.pin,
        reads_json: keys.json == JsonText::Auto,
        docs: keys.docs.as_ref().map(|docs| match docs {
            Docs::At(address) => Some(address.clone()),
            Docs::Nowhere => None,
        }),
        max_message_bytes: keys.max_message_mb << 20,
        auth,
        secrets: secrets(keys, reader),
        era: keys.era,
        probe: keys.probe,
        retry_after: keys.retry_after,
        retry_max: keys.retry_max,
    }
}

/// The secrets passed to a server, without duplicates.
fn secrets(keys: &ServerKeys, reader: &Reader) -> Vec<String> {
    let auth = &keys.auth;
    let texts = [&keys.url, &keys.command, &keys.cwd, &auth.client_id, &auth.client_secret, &auth.client_metadata_url];
    let texts = texts.into_iter().flatten().chain(&auth.redirect_url).chain(&keys.args);
    let texts = texts.chain(keys.headers.values()).chain(keys.env.values());
    let names: BTreeSet<String> = texts.flat_map(|text| reader.secrets_in(text)).collect();
    names.into_iter().collect()
}

fn expanded(text: &Expandable, keys: &ServerKeys, reader: &Reader) -> Result<String, String> {
    let allowed = |name: &str| keys.env_allow.iter().any(|allowed| allowed == name);
    let get = |name: &str| {
        let variable = || allowed(name).then(|| std::env::var(name).ok()).flatten();
        reader.secrets().get(name).map(str::to_owned).or_else(variable)
    };
    text.expand(get).map_err(|name| {
        if allowed(&name) {
            return format!("'{name}' is neither a secret nor set in the environment; add it to secrets.yaml");
        }
        format!("'{name}' is neither a secret nor a variable named in env_allow; add it to secrets.yaml")
    })
}

fn auth(keys: &ServerKeys, reader: &Reader) -> Result<AuthSettings, String> {
    let expand = |text: &Option<Expandable>| text.as_ref().map(|text| expanded(text, keys, reader)).transpose();
    let auth = &keys.auth;
    Ok(AuthSettings {
        enabled: auth.enabled,
        client_id: expand(&auth.client_id)?,
        client_secret: expand(&auth.client_secret)?,
        client_metadata_url: expand(&auth.client_metadata_url)?,
        scopes: auth.scopes.clone(),
        account: auth.account.clone(),
        redirect_url: expand(&auth.redirect_url)?,
        redirect_port: u16::try_from(auth.redirect_port).unwrap_or(0),
        resource: auth.resource.0.clone(),
        require_pkce: auth.require_pkce,
        login_timeout: auth.login_timeout,
    })
}

fn server_kind(keys: &ServerKeys, reader: &Reader) -> Result<ServerKind, String> {
    let expand = |text: &Expandable| expanded(text, keys, reader);
    let expand_all = |map: &IndexMap<String, Expandable>| {
        map.iter().map(|(name, value)| Ok((name.clone(), expand(value)?))).collect::<Result<BTreeMap<_, _>, String>>()
    };
    let default = if keys.url.is_some() { ServerType::Http } else { ServerType::Stdio };
    match keys.kind.unwrap_or(default) {
        ServerType::Http => Ok(ServerKind::Http {
            url: expand(keys.url.as_ref().ok_or("an http server needs a url")?)?,
            headers: expand_all(&keys.headers)?,
        }),
        ServerType::Stdio => Ok(ServerKind::Stdio {
            command: expand(keys.command.as_ref().ok_or("a stdio server needs a command")?)?,
            args: keys.args.iter().map(expand).collect::<Result<_, _>>()?,
            env: expand_all(&keys.env)?,
            cwd: match &keys.cwd {
                Some(folder) => Some(reader.places().project.join(expand_home(&expand(folder)?))),
                None => None,
            },
        }),
    }
}
