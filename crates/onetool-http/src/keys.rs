//! The section `server`: how OneTool serves HTTP; and `background`: runs that nobody waits for.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use onetool_config::{AnySection, Expandable, MAX_BYTES, Reader, Section, Shape, choices, expand_home, keys, short};
use onetool_run::durable::DurableSettings;
use onetool_state::runs::RunLimits;
use reqwest::Url;

use crate::oauth::is_trustworthy;
use crate::{
    AccessToken, ApiSettings, BackgroundSettings, McpSettings, MetricsSettings, OAuthSettings, Scope, ServerSettings,
    TlsSettings, TrustedProxies, parse_address,
};

/// The sections of this crate.
pub const SECTIONS: &[&dyn AnySection] = &[&SERVER, &BACKGROUND];

choices!(Scope { "read" => Read, "invoke" => Invoke, "admin" => Admin });

keys! {
    /// `onetool serve --http`; plain `onetool serve` uses standard input and output.
    pub struct ServerKeys {
        /// Address and port, unless given on the command line.
        bind: Option<String> = None, restart, example "127.0.0.1:8765";
        /// Bearer tokens. Required for an address that other machines can reach.
        tokens: Vec<TokenKeys> = Vec::new(), live, example "[{token: \"${ONETOOL_TOKEN}\", scopes: [read, invoke]}]";
        /// Address that people reach this server at, through a proxy for example. Browsers return there after signing
        /// in to upstream servers (`/oauth/callback`), and its name counts as one of `allowed_hosts`.
        public_url: Option<String> = None, live, example "https://tools.example.org";
        /// Tokens of an OAuth issuer, besides `tokens` and those of `onetool tokens`. Needs `public_url`.
        oauth: OAuthKeys = OAuthKeys::default(), live;
        /// Further names that the server is known by.
        allowed_hosts: Vec<String> = Vec::new(), live, example "[tools.example.org]";
        /// Proxies in front of this server, as addresses or networks. Only they may state the client's address
        /// (`X-Forwarded-For`, `Forwarded`).
        trusted_proxies: Vec<String> = Vec::new(), live, example "[10.0.0.0/8]";
        /// Capabilities of this server that runs may require, besides its packs, servers and packages.
        tags: Vec<String> = Vec::new(), live, example "[gpu, eu]";
        /// Sites whose pages may call it.
        allowed_origins: Vec<String> = Vec::new(), live, example "[\"https://app.example.org\"]";
        /// Size of a request's body, in bytes.
        max_body_bytes: usize [Shape::Count(1, MAX_BYTES)] = 1024 * 1024, live;
        /// Seconds that a request may take, except calls of tools.
        request_timeout: Duration = Duration::from_secs(30), live;
        /// Seconds that a call of a tool may take.
        invoke_timeout: Duration = Duration::from_mins(2), live;
        /// Seconds after which an unused MCP session ends; its client's next request brings it back.
        session_idle: Duration = Duration::from_hours(8), live;
        /// Seconds after its start in which an MCP session can be brought back, also by another server and after a restart.
        session_memory: Duration = Duration::from_hours(7 * 24), live;
        /// MCP sessions at once; the one that is idle longest makes room for a new one.
        max_sessions: usize [Shape::Count(1, 1_000_000)] = 1024, live;
        /// MCP sessions at once of one client, by token and address.
        max_sessions_per_client: usize [Shape::Count(1, 1_000_000)] = 256, live;
        /// Seconds that answers are kept for clients that lost their connection.
        resume_window: Duration = Duration::from_mins(5), live;
        /// How much of them is kept, in megabytes.
        resume_mb: usize [Shape::Count(0, 65_536)] = 64, live;
        /// Seconds that a run waits for an answer of the user.
        input_timeout: Duration = Duration::from_mins(10), live;
        /// Serve HTTP+SSE too, the transport of MCP 2024-11-05, at /sse.
        legacy_sse: bool = false, live;
        /// Seconds that work in progress may continue when the server is asked to stop; it accepts nothing new meanwhile.
        drain: Duration [Shape::Number(0.0, 86_400.0)] = Duration::from_secs(30), live;
        /// Answer `GET /metrics`, for Prometheus. Where tokens are needed, one with the scope read.
        metrics: bool = true, live;
        /// A token that opens /metrics and nothing else.
        metrics_token: Option<Expandable> = None, live, example "${METRICS_TOKEN}";
        /// Serve HTTPS with this certificate. Without it, plain HTTP.
        tls: Option<TlsKeys> = None, restart;
    }
}

keys! {
    /// Background runs: MCP tasks, runs with an idempotency key, and `POST /runs`.
    pub struct BackgroundKeys {
        /// Background runs at once of one client, by token; more are refused.
        max_active: usize [Shape::Count(1, 10_000)] = 8, live;
        /// Background runs of one client that are kept; the oldest that have ended make room for new ones.
        max_kept: usize [Shape::Count(1, 100_000)] = 256, live;
        /// Seconds that a background run is kept, from its start, unless the client asks for another time.
        ttl: Duration = Duration::from_hours(1), live;
        /// Maximum number of seconds that a client may ask for.
        max_ttl: Duration = Duration::from_hours(24), live;
        /// Seconds that a background run may take, tools included.
        timeout: Duration = Duration::from_hours(1), live;
        /// Size of a kept reply, in megabytes.
        max_result_mb: usize [Shape::Count(1, 15)] = 8, live;
        /// Seconds after which a run becomes a task, for clients that accept tasks at any time (2026-07-28).
        task_after: Duration = Duration::from_secs(10), live;
        /// Poll interval that clients are advised to use, in seconds.
        poll_interval: Duration = Duration::from_secs(1), live;
        /// Background runs at once in one server; more wait in the queue until a server is free.
        max_running: usize [Shape::Count(0, 10_000)] = 32, live;
        /// Outcomes of calls that one run's journal keeps, in megabytes; a run that has more cannot resume elsewhere.
        max_journal_mb: usize [Shape::Count(1, 1024)] = 32, live;
        /// Seconds that a run waits for a permission when nobody is there to ask; after that the call is refused.
        approval_ttl: Duration = Duration::from_hours(24), live;
    }
}

pub const BACKGROUND: Section<BackgroundKeys> = Section::new("background");

impl BackgroundSettings {
    /// Returns the settings for runs that survive their process. `always` is `run.durable`.
    pub fn durable(&self, always: bool) -> DurableSettings {
        DurableSettings {
            limits: self.limits,
            ttl: self.ttl,
            timeout: self.timeout,
            approval_ttl: self.approval_ttl,
            journal_bytes: self.journal_bytes,
            always,
        }
    }

    /// Reads the section `background`.
    pub fn read(reader: &mut Reader) -> Self {
        Self::from(&reader.read(&BACKGROUND))
    }
}

impl From<&BackgroundKeys> for BackgroundSettings {
    fn from(keys: &BackgroundKeys) -> Self {
        Self {
            limits: RunLimits { active: keys.max_active, kept: keys.max_kept, reply_bytes: keys.max_result_mb << 20 },
            ttl: keys.ttl.min(keys.max_ttl),
            max_ttl: keys.max_ttl,
            timeout: keys.timeout,
            task_after: keys.task_after,
            poll_interval: keys.poll_interval,
            max_running: keys.max_running,
            approval_ttl: keys.approval_ttl,
            journal_bytes: keys.max_journal_mb << 20,
        }
    }
}

impl Default for BackgroundSettings {
    fn default() -> Self {
        Self::from(&BackgroundKeys::default())
    }
}

keys! {
    /// Certificate and key, in PEM files below `.onetool` or at absolute paths. Changed files are read again by themselves.
    pub struct TlsKeys {
        /// The certificate of this server, then those that signed it.
        certificate: Option<String> = None, restart, example "tls/server.pem";
        /// Its private key. No tool can read this file.
        key: Option<String> = None, restart, example "tls/server.key";
    }
}

keys! {
    /// One token.
    pub struct TokenKeys {
        /// The token itself; better a reference to a secret.
        token: Expandable = Expandable::default(), live, example "${ONETOOL_TOKEN}";
        /// Whose it is, for the audit trail and for `security.groups`.
        name: Option<String> = None, live, example "ci";
        /// Groups that it belongs to, besides those that name it as a member.
        groups: Vec<String> = Vec::new(), live, example "[readers]";
        /// What it allows.
        scopes: Vec<Scope> = Vec::new(), live, example "[read, invoke]";
    }
}

keys! {
    /// An OAuth issuer whose tokens are taken: signed JWTs (RS256, ES256, EdDSA). The server tells clients of it (RFC 9728).
    pub struct OAuthKeys {
        /// The issuer, exactly as its tokens name it.
        issuer: Option<String> = None, live, example "https://id.example.org";
        /// Accepted audiences of tokens, any of these; without it, `public_url` or its `/mcp`.
        audience: Vec<String> = Vec::new(), live, example "[\"https://tools.example.org/mcp\"]";
        /// Where the issuer's keys are; without it, where the issuer's own metadata says.
        jwks_url: Option<String> = None, live, example "https://id.example.org/keys";
        /// The scopes in a token that mean `read`, `invoke` and `admin`; without it, these words, also with the prefix
        /// `onetool:`.
        scopes: IndexMap<String, Vec<String>> = IndexMap::new(), live, example "{invoke: [\"tools:call\"]}";
        /// The claim that names the holder of a token, for groups and records.
        name_claim: String = "sub".to_owned(), live;
        /// The claim with their groups; groups that are not in `security.groups` are ignored.
        groups_claim: String = "groups".to_owned(), live;
    }
}

pub const SERVER: Section<ServerKeys> = Section::new("server");

impl ServerSettings {
    /// Reads the section `server`. An unreadable token grants no access.
    pub fn read(reader: &mut Reader) -> Self {
        let keys = reader.read(&SERVER);
        let mut tokens: Vec<AccessToken> = keys
            .tokens
            .iter()
            .map(|entry| AccessToken {
                token: token(reader, &entry.token),
                name: entry.name.clone(),
                groups: entry.groups.clone(),
                scopes: entry.scopes.clone(),
            })
            .collect();
        if reader.is_wrong(&["server", "tokens"]) {
            tokens.push(AccessToken { token: unguessable(), name: None, groups: Vec::new(), scopes: Vec::new() });
        }
        let oauth = oauth(reader, &keys);
        if oauth.is_none() && (keys.oauth.issuer.is_some() || reader.is_wrong(&["server", "oauth"])) {
            // A configuration that admits only the issuer's tokens must not become open to everyone.
            tokens.push(AccessToken { token: unguessable(), name: None, groups: Vec::new(), scopes: Vec::new() });
        }
        let bind = keys.bind.as_deref().and_then(|bind| match parse_address(bind) {
            Ok(address) => Some(address),
            Err(error) => {
                reader.problem(&["server", "bind"], &error.to_string());
                None
            }
        });
        let public_url = keys.public_url.as_deref().and_then(|address| match public_address(address) {
            Ok(found) => Some(found),
            Err(reason) => {
                reader.problem(&["server", "public_url"], reason);
                None
            }
        });
        let mut hosts = keys.allowed_hosts.clone();
        hosts.extend(public_url.iter().map(|(_, host)| host.clone()));
        let mut trusted_proxies = TrustedProxies::default();
        for written in &keys.trusted_proxies {
            if let Err(error) = trusted_proxies.add(written) {
                reader.problem(&["server", "trusted_proxies"], &error.to_string());
            }
        }
        let token = match keys.metrics_token.as_ref().map(|token| reader.expand(token)).transpose() {
            Ok(token) => token.filter(|token| !token.is_empty()),
            Err(name) => {
                let message = format!("no secret and no variable '{name}'; nobody can use this token");
                reader.problem(&["server", "metrics_token"], &message);
                None
            }
        };
        Self {
            public_url: public_url.map(|(address, _)| address),
            bind,
            tokens,
            drain: keys.drain,
            metrics: MetricsSettings { is_on: keys.metrics, token },
            tls: tls(reader, keys.tls.as_ref()),
            oauth,
            api: ApiSettings::from(&keys),
            mcp: McpSettings::from(&keys),
            hosts,
            origins: keys.allowed_origins,
            trusted_proxies,
            tags: keys.tags,
        }
    }
}

/// Returns an address without its trailing slash, and its host name.
fn public_address(address: &str) -> Result<(String, String), &'static str> {
    let uri: axum::http::Uri = address.parse().map_err(|_| "expected an address such as https://tools.example.org")?;
    let host = uri.host().filter(|_| matches!(uri.scheme_str(), Some("https" | "http")));
    let host = host.ok_or("expected an address such as https://tools.example.org")?;
    if uri.query().is_some() || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("an address with a query or a user's name cannot be reached by others");
    }
    Ok((address.trim_end_matches('/').to_owned(), host.to_ascii_lowercase()))
}

/// Returns the issuer's settings if an issuer is set and everything it needs is present.
fn oauth(reader: &mut Reader, keys: &ServerKeys) -> Option<OAuthSettings> {
    let issuer = keys.oauth.issuer.clone()?;
    let address = |reader: &mut Reader, path: &[&str], text: &str| -> Option<Url> {
        let url = text.parse::<Url>().ok().filter(|url| url.host_str().is_some());
        if !url.as_ref().is_some_and(is_trustworthy) {
            reader.problem(path, &format!("'{}' is not an https address; OAuth tokens are not accepted", short(text)));
            return None;
        }
        url
    };
    address(reader, &["server", "oauth", "issuer"], &issuer)?;
    let Some(public) = &keys.public_url else {
        reader.problem(&["server", "oauth"], "server.public_url is missing; OAuth tokens are not accepted");
        return None;
    };
    let public_url = address(reader, &["server", "public_url"], public)?;
    let jwks_url = match &keys.oauth.jwks_url {
        Some(url) => Some(address(reader, &["server", "oauth", "jwks_url"], url)?),
        None => None,
    };
    for name in keys.oauth.scopes.keys().filter(|name| Scope::named(name).is_none()) {
        let message = format!("'{}' is not a scope; expected read, invoke or admin", short(name));
        reader.problem(&["server", "oauth", "scopes"], &message);
    }
    let base = public_url.as_str().trim_end_matches('/').to_owned();
    let audiences = match keys.oauth.audience.as_slice() {
        [] => vec![base.clone(), format!("{base}/"), format!("{base}/mcp")],
        audiences => audiences.to_vec(),
    };
    let scopes = [Scope::Read, Scope::Invoke, Scope::Admin].map(|scope| {
        let words = || vec![format!("onetool:{}", scope.name()), scope.name().to_owned()];
        (scope, keys.oauth.scopes.get(scope.name()).cloned().unwrap_or_else(words))
    });
    Some(OAuthSettings {
        issuer,
        audiences,
        jwks_url,
        scopes: scopes.into(),
        name_claim: keys.oauth.name_claim.clone(),
        groups_claim: keys.oauth.groups_claim.clone(),
        public_url,
        known_groups: Vec::new(),
    })
}

impl From<&ServerKeys> for ApiSettings {
    fn from(keys: &ServerKeys) -> Self {
        Self {
            max_body_bytes: keys.max_body_bytes,
            request_timeout: keys.request_timeout,
            invoke_timeout: keys.invoke_timeout,
        }
    }
}

impl From<&ServerKeys> for McpSettings {
    fn from(keys: &ServerKeys) -> Self {
        Self {
            session_idle: keys.session_idle,
            session_memory: keys.session_memory,
            max_sessions: keys.max_sessions,
            max_sessions_per_client: keys.max_sessions_per_client,
            resume_window: keys.resume_window,
            resume_bytes: keys.resume_mb << 20,
            input_timeout: keys.input_timeout,
            legacy_sse: keys.legacy_sse,
        }
    }
}

impl Default for McpSettings {
    fn default() -> Self {
        Self::from(&ServerKeys::default())
    }
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self::from(&ServerKeys::default())
    }
}

/// Returns the file locations. An invalid section yields empty paths: the server then does not start, because plain
/// HTTP is not what was asked for.
fn tls(reader: &Reader, keys: Option<&TlsKeys>) -> Option<TlsSettings> {
    if keys.is_none() && !reader.is_wrong(&["server", "tls"]) {
        return None;
    }
    let own = reader.places().own();
    let path = |path: Option<&String>| match path.map(|path| path.trim()).filter(|path| !path.is_empty()) {
        Some(path) => own.join(expand_home(path)),
        None => PathBuf::new(),
    };
    let keys = keys.cloned().unwrap_or_default();
    Some(TlsSettings { certificate: path(keys.certificate.as_ref()), key: path(keys.key.as_ref()) })
}

/// Without its last token the server would be open to all, so a missing token is replaced by one that nobody knows.
fn token(reader: &mut Reader, written: &Expandable) -> String {
    let problem = match reader.expand(written) {
        Ok(token) if !token.is_empty() => return token,
        Ok(_) => "an entry has no token; nobody can use it".to_owned(),
        Err(name) => format!("no secret and no variable '{name}'; nobody can use this token"),
    };
    reader.problem(&["server", "tokens"], &problem);
    unguessable()
}

fn unguessable() -> String {
    format!("{}{}", uuid::Uuid::new_v4(), uuid::Uuid::new_v4())
}
