//! The resolved configuration of upstream servers: no variable is left to expand, nothing is optional that must exist.
//! The limits that cannot be configured are here too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use onetool_process::SearchPath;

use super::era::EraChoice;
use super::oauth::AuthSettings;

/// Default timeout of a call, or of an attempt to connect.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Default time that a server may take to answer in one era before it is asked in the other as well.
pub const DEFAULT_PROBE: Duration = Duration::from_secs(2);

/// Default time that calls fail immediately after a server hung.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(15);

/// Default maximum pause between two attempts to connect.
pub const DEFAULT_RETRY_MAX: Duration = Duration::from_mins(2);

/// Default maximum size of a message from a server: a line, an event, a body.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The limits of this source, in one place.
pub(super) mod limits {
    use std::time::Duration;

    /// Maximum number of tools, resources or prompts read from one server.
    pub(crate) const LISTED_ITEMS: usize = 5_000;
    /// Maximum number of pages of one list.
    pub(crate) const LIST_PAGES: usize = 100;
    /// Maximum length of a tool's description, in characters.
    pub(crate) const DESCRIPTION_CHARS: usize = 4_000;
    /// Maximum length of a parameter's description, in characters.
    pub(crate) const PARAMETER_CHARS: usize = 400;
    /// Maximum length of a server's instructions, in characters.
    pub(crate) const INSTRUCTIONS_CHARS: usize = 2_000;
    /// Maximum length of a tool's name; tools with longer names are left out.
    pub(crate) const NAME_CHARS: usize = 128;
    /// Maximum size of a tool's schema; a larger one is replaced by a schema that accepts anything.
    pub(crate) const SCHEMA_BYTES: usize = 256 * 1024;
    /// Maximum length of the text kept of a pinned tool to show later changes, in characters.
    pub(crate) const PINNED_CHARS: usize = 32_000;
    /// The same for all pinned tools of one server together, in bytes.
    pub(crate) const PINNED_BYTES: usize = 8 * 1024 * 1024;
    /// Maximum size of an HTTP error body that is read.
    pub(crate) const ERROR_BODY_BYTES: usize = 64 * 1024;
    /// Maximum length of a forwarded error text, in characters.
    pub(crate) const ERROR_CHARS: usize = 8_000;
    /// Maximum length of the reason in a status, in characters.
    pub(crate) const REASON_CHARS: usize = 400;
    /// Maximum length of a logged line of standard error, in bytes.
    pub(crate) const STDERR_LINE_BYTES: usize = 2_048;
    /// Maximum number of lines of standard error logged in one window.
    pub(crate) const STDERR_LINES: u32 = 200;
    pub(crate) const STDERR_WINDOW: Duration = Duration::from_secs(10);
    /// Maximum number of log messages of one connection forwarded in one window.
    pub(crate) const LOG_MESSAGES: u32 = 200;
    pub(crate) const LOG_WINDOW: Duration = Duration::from_secs(10);
    /// Maximum length of a log message, in characters.
    pub(crate) const LOG_CHARS: usize = 2_000;

    /// Delay before the first server is started in the background, so that our own start is not slowed down.
    pub(crate) const START_DELAY: Duration = Duration::from_millis(100);
    /// Maximum number of servers starting at once in the background. A call does not queue.
    pub(crate) const STARTING_AT_ONCE: usize = 6;
    /// How long a starting server keeps its slot: one that hangs must not hold up the others.
    pub(crate) const START_PLACE: Duration = Duration::from_secs(3);
    /// The pause after the first failed attempt to connect; it doubles with each further one.
    pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);
    /// An attempt that fails after this long has hung: calls do not wait for the next one.
    pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(3);
    /// How long a call waits for a server that hung before and is being tried again.
    pub(crate) const HALF_OPEN_WAIT: Duration = Duration::from_millis(300);
    /// How much longer than its timeout a call waits for the outcome of an attempt that started with it.
    pub(crate) const OUTCOME_GRACE: Duration = Duration::from_millis(700);
    /// A server that froze this often in a row, without an answer in between, is left alone for a while.
    pub(crate) const FREEZES: u32 = 2;
    /// Maximum number of watched resources of one server.
    pub(crate) const WATCHED: usize = 256;
    /// Pause before an ended subscription stream is reopened; doubles up to the maximum below.
    pub(crate) const LISTEN_PAUSE: Duration = Duration::from_secs(1);
    pub(crate) const LISTEN_PAUSE_MOST: Duration = Duration::from_mins(1);
    /// How long the first call waits for the stream for the server's questions: earlier questions are lost.
    pub(crate) const STREAM_WAIT: Duration = Duration::from_secs(2);
    /// Maximum number of changes queued for listeners.
    pub(crate) const WAITING_CHANGES: usize = 256;
    /// Poll interval for sign-ins by other processes.
    pub(crate) const SIGN_IN_POLL: Duration = Duration::from_secs(2);
    /// How long it may take to find out where to sign in.
    pub(crate) const SIGN_IN_BEGINS: Duration = Duration::from_secs(30);
    /// How long the era of a server is remembered.
    pub(crate) const ERA_KEPT: Duration = Duration::from_hours(7 * 24);
    /// Calls can cut a pause short, but not below this.
    pub(crate) const ATTEMPT_GAP: Duration = Duration::from_millis(250);
    /// A connection that lasted this long was stable: after its loss, the pauses start over.
    pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(5);
    /// Minimum time between two refreshes of a tool list.
    pub(crate) const REFRESH_GAP: Duration = Duration::from_millis(200);
    /// How long a suspected server has to answer a ping.
    pub(crate) const PING: Duration = Duration::from_secs(5);
    /// How often an idle HTTP server is pinged.
    pub(crate) const KEEP_ALIVE: Duration = Duration::from_mins(1);
    /// How long a stdio server may take to exit after its input was closed, and again after it was signalled.
    pub(crate) const EXIT_GRACE: Duration = Duration::from_millis(800);
    /// How long to wait for the exit status and the last output of a server that exited.
    pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
    /// How long a killed process may take to be reaped.
    pub(crate) const REAP: Duration = Duration::from_secs(1);
    /// How long closing a connection may take in total.
    pub(crate) const CLOSE: Duration = Duration::from_secs(6);
    /// How long a notice of cancellation may take to be sent.
    pub(crate) const CANCEL_NOTICE: Duration = Duration::from_secs(2);
    /// How long a server is asked to keep a task and its result.
    pub(crate) const TASK_KEPT: Duration = Duration::from_mins(30);
    /// Default poll interval of a task, and the bounds of the interval that its server may set.
    pub(crate) const TASK_POLL: Duration = Duration::from_millis(500);
    pub(crate) const TASK_POLL_LEAST: Duration = Duration::from_millis(20);
    pub(crate) const TASK_POLL_MOST: Duration = Duration::from_secs(5);
    /// Progress extends the timeout of a call, but not beyond this many timeouts.
    pub(crate) const PROGRESS_STRETCH: u32 = 20;
    /// Maximum number of times one call may ask the client for input.
    pub(crate) const INPUT_ROUNDS: usize = 10;
    /// How long the client may take to answer a server's question.
    pub(crate) const CLIENT_ANSWER: Duration = Duration::from_mins(10);
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerKind {
    /// A child process that communicates on its standard streams.
    Stdio { command: String, args: Vec<String>, env: BTreeMap<String, String>, cwd: Option<PathBuf> },
    /// A streamable HTTP endpoint (or an older one with server-sent events).
    Http { url: String, headers: BTreeMap<String, String> },
}

impl std::fmt::Debug for ServerKind {
    /// Environment, headers and the URL's query may hold secrets: only their names are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, env, .. } => {
                f.debug_struct("Stdio").field("command", command).field("env", &env.keys()).finish_non_exhaustive()
            }
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &url.split(['?', '#']).next())
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

/// Whether a server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enabled {
    Yes,
    /// Not used, and why: disabled, or a missing variable.
    No {
        reason: String,
    },
}

/// What happens when a tool's description or schema changes after it was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinMode {
    /// The change is shown in the health report.
    #[default]
    Flag,
    /// The tool is blocked until the change is accepted.
    Strict,
    /// Changes are not checked.
    Off,
}

/// One upstream server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The configured name. The pack is named after it.
    pub name: String,
    pub kind: ServerKind,
    pub enabled: Enabled,
    /// For connecting, and for each call; progress extends it.
    pub timeout: Duration,
    /// Globs over the tools' original names. Empty means all.
    pub include: Vec<String>,
    /// Globs over the tools' original names.
    pub exclude: Vec<String>,
    /// Whether text that is JSON is parsed.
    pub reads_json: bool,
    /// The configured documentation of the server: `Some(None)` means none.
    pub docs: Option<Option<String>>,
    pub pin: PinMode,
    /// Maximum size of a message: a line of standard output, a server-sent event, the body of an answer.
    pub max_message_bytes: usize,
    /// How to sign in, if the server requires it.
    pub auth: AuthSettings,
    /// The secrets that its configuration names.
    pub secrets: Vec<String>,
    pub era: EraChoice,
    /// How long the first request of one era may take before that of the other is sent as well.
    pub probe: Duration,
    /// How long calls fail immediately after the server hung, before it is tried again. Doubles each time.
    pub retry_after: Duration,
    /// Maximum pause between two attempts to connect.
    pub retry_max: Duration,
}

impl ServerSettings {
    /// A child process with default settings.
    pub fn stdio<A: Into<String>>(
        name: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::new(name.into(), ServerKind::Stdio { command: command.into(), args, env: BTreeMap::new(), cwd: None })
    }

    /// An HTTP endpoint with default settings.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), ServerKind::Http { url: url.into(), headers: BTreeMap::new() })
    }

    fn new(name: String, kind: ServerKind) -> Self {
        Self {
            name,
            kind,
            enabled: Enabled::Yes,
            timeout: DEFAULT_TIMEOUT,
            include: Vec::new(),
            exclude: Vec::new(),
            reads_json: true,
            docs: None,
            pin: PinMode::default(),
            max_message_bytes: DEFAULT_MESSAGE_BYTES,
            auth: AuthSettings::default(),
            secrets: Vec::new(),
            era: EraChoice::default(),
            probe: DEFAULT_PROBE,
            retry_after: DEFAULT_RETRY_AFTER,
            retry_max: DEFAULT_RETRY_MAX,
        }
    }

    /// The file name for this server's data. Its own name may contain anything, or differ from another only by case.
    pub(super) fn file_name(&self) -> String {
        file_name(&self.name)
    }

    /// Changes when the server is replaced, so that cached tools of the old one are not used for the new one. Excludes
    /// environment and headers: a renewed token is the same server.
    pub(super) fn fingerprint(&self) -> String {
        let identity = match &self.kind {
            ServerKind::Stdio { command, args, cwd, .. } => serde_json::json!([command, args, cwd]),
            ServerKind::Http { url, .. } => serde_json::json!([url]),
        };
        blake3::hash(identity.to_string().as_bytes()).to_hex().to_string()
    }
}

/// The file name for data about the server of this name.
pub(super) fn file_name(server: &str) -> String {
    let digest = blake3::hash(server.as_bytes()).to_hex();
    let readable: String = server.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    format!("{}-{}", readable.to_lowercase(), &digest.as_str()[..16])
}

/// All upstream servers, and where this source keeps its state.
#[derive(Clone)]
pub struct ProxySettings {
    pub servers: Vec<ServerSettings>,
    /// Where the programs of servers are looked up, and their `PATH`.
    pub search_path: SearchPath,
    /// Stores lists of tools, and every tool as it was first seen, or last accepted.
    pub state: onetool_state::State,
    /// Stores the credentials of sign-ins.
    pub credentials: onetool_state::State,
    /// Which questions servers may ask the client, as declared to them.
    pub offers: Offers,
}

/// What servers may ask of the downstream client. Whether there is one to ask is decided for each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    pub elicitation: bool,
    pub sampling: bool,
}

impl Default for Offers {
    fn default() -> Self {
        Self { elicitation: true, sampling: true }
    }
}
