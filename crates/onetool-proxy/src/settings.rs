//! What the configuration says of upstream servers, resolved: no variable is left to expand, nothing is optional that
//! must exist. The limits that no configuration changes stand beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use onetool_process::SearchPath;

use super::era::EraChoice;
use super::oauth::AuthSettings;

/// How long a call, or a connection being made, may take unless the configuration says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server may take to answer in one era before it is asked in the other as well.
pub const DEFAULT_PROBE: Duration = Duration::from_secs(2);

/// How long calls fail at once after a server hung, unless the configuration says otherwise.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(15);

/// The longest pause between two attempts to connect, unless the configuration says otherwise.
pub const DEFAULT_RETRY_MAX: Duration = Duration::from_mins(2);

/// The longest message that a server may send, unless the configuration says otherwise: a line, an event, a body.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The limits of this source, in one place.
pub(super) mod limits {
    use std::time::Duration;

    /// The most tools, resources or prompts that are read off one server.
    pub(crate) const LISTED_ITEMS: usize = 5_000;
    /// The most pages of one list.
    pub(crate) const LIST_PAGES: usize = 100;
    /// The longest description of a tool, in characters.
    pub(crate) const DESCRIPTION_CHARS: usize = 4_000;
    /// The longest description of a parameter, in characters.
    pub(crate) const PARAMETER_CHARS: usize = 400;
    /// The longest instructions of a server, in characters.
    pub(crate) const INSTRUCTIONS_CHARS: usize = 2_000;
    /// The longest name of a tool; longer ones are left out.
    pub(crate) const NAME_CHARS: usize = 128;
    /// The largest schema of a tool; a larger one is replaced by "anything goes".
    pub(crate) const SCHEMA_BYTES: usize = 256 * 1024;
    /// Of a tool that is pinned, so much text is kept to show what changes later, in characters.
    pub(crate) const PINNED_CHARS: usize = 32_000;
    /// Of all pinned tools of one server together, in bytes.
    pub(crate) const PINNED_BYTES: usize = 8 * 1024 * 1024;
    /// The largest body of an HTTP error that is read.
    pub(crate) const ERROR_BODY_BYTES: usize = 64 * 1024;
    /// The longest error text that is passed on, in characters.
    pub(crate) const ERROR_CHARS: usize = 8_000;
    /// The longest reason in a status, in characters.
    pub(crate) const REASON_CHARS: usize = 400;
    /// The longest line of standard error that is logged, in bytes.
    pub(crate) const STDERR_LINE_BYTES: usize = 2_048;
    /// The most lines of standard error that are logged in one window.
    pub(crate) const STDERR_LINES: u32 = 200;
    pub(crate) const STDERR_WINDOW: Duration = Duration::from_secs(10);
    /// The most log messages of one connection that are passed on in one window.
    pub(crate) const LOG_MESSAGES: u32 = 200;
    pub(crate) const LOG_WINDOW: Duration = Duration::from_secs(10);
    /// The longest log message, in characters.
    pub(crate) const LOG_CHARS: usize = 2_000;

    /// Before the first server is started in the background, so that our own start is not disturbed.
    pub(crate) const START_DELAY: Duration = Duration::from_millis(100);
    /// How many servers may be starting at once in the background. A call does not queue.
    pub(crate) const STARTING_AT_ONCE: usize = 6;
    /// How long a starting server keeps its place in that queue: one that hangs must not hold up the others.
    pub(crate) const START_PLACE: Duration = Duration::from_secs(3);
    /// The pause after the first attempt to connect that failed; it doubles with each that follows.
    pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);
    /// An attempt that fails after this long has hung: calls do not wait for the next.
    pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(3);
    /// How long a call waits for a server that hung before and is just being tried again.
    pub(crate) const HALF_OPEN_WAIT: Duration = Duration::from_millis(300);
    /// How much longer than its timeout a call waits for the outcome of an attempt that began with it.
    pub(crate) const OUTCOME_GRACE: Duration = Duration::from_millis(700);
    /// A server that stood still this often in a row, without an answer in between, is left alone for a while.
    pub(crate) const FREEZES: u32 = 2;
    /// The most resources of one server that are watched at once.
    pub(crate) const WATCHED: usize = 256;
    /// Before a stream of news that ended is opened again; doubles up to the other.
    pub(crate) const LISTEN_PAUSE: Duration = Duration::from_secs(1);
    pub(crate) const LISTEN_PAUSE_MOST: Duration = Duration::from_mins(1);
    /// How long the first call waits for the stream on which the server may ask something: what it asks before is lost.
    pub(crate) const STREAM_WAIT: Duration = Duration::from_secs(2);
    /// How many changes may wait for those who listen.
    pub(crate) const WAITING_CHANGES: usize = 256;
    /// How often it is looked whether another process has signed in.
    pub(crate) const SIGN_IN_POLL: Duration = Duration::from_secs(2);
    /// How long it may take to find out where to sign in.
    pub(crate) const SIGN_IN_BEGINS: Duration = Duration::from_secs(30);
    /// How long the era of a server is remembered.
    pub(crate) const ERA_KEPT: Duration = Duration::from_hours(7 * 24);
    /// Calls can cut a pause short, but not below this.
    pub(crate) const ATTEMPT_GAP: Duration = Duration::from_millis(250);
    /// A connection that lived this long was a good one: its loss starts the pauses anew.
    pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(5);
    /// Between two refreshes of a tool list.
    pub(crate) const REFRESH_GAP: Duration = Duration::from_millis(200);
    /// How long a server under suspicion has to answer a ping.
    pub(crate) const PING: Duration = Duration::from_secs(5);
    /// How often a quiet HTTP server is asked whether it is still there.
    pub(crate) const KEEP_ALIVE: Duration = Duration::from_mins(1);
    /// How long a stdio server may take to end after its input was closed, and again after it was signalled.
    pub(crate) const EXIT_GRACE: Duration = Duration::from_millis(800);
    /// How long the exit status and the last words of a server that left are waited for.
    pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
    /// How long a killed process may take to be reaped.
    pub(crate) const REAP: Duration = Duration::from_secs(1);
    /// How long the end of a connection may take as a whole.
    pub(crate) const CLOSE: Duration = Duration::from_secs(6);
    /// How long a notice of cancellation may take to be sent.
    pub(crate) const CANCEL_NOTICE: Duration = Duration::from_secs(2);
    /// How long a server is to keep a task and its result.
    pub(crate) const TASK_KEPT: Duration = Duration::from_mins(30);
    /// How often a task is looked at where its server does not say, and the bounds of what it may say.
    pub(crate) const TASK_POLL: Duration = Duration::from_millis(500);
    pub(crate) const TASK_POLL_LEAST: Duration = Duration::from_millis(20);
    pub(crate) const TASK_POLL_MOST: Duration = Duration::from_secs(5);
    /// Progress postpones the timeout of a call, but not beyond this many timeouts.
    pub(crate) const PROGRESS_STRETCH: u32 = 20;
    /// How often one call may ask the client for input before it must answer.
    pub(crate) const INPUT_ROUNDS: usize = 10;
    /// How long the client may take to answer a question of a server.
    pub(crate) const CLIENT_ANSWER: Duration = Duration::from_mins(10);
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerKind {
    /// A child process that speaks on its standard streams.
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
    /// Not used, and why: switched off, or a variable that is missing.
    No {
        reason: String,
    },
}

/// What happens when a tool's description or schema changes after it was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinMode {
    /// The change is told in the health report.
    #[default]
    Flag,
    /// The tool is blocked until the change is accepted.
    Strict,
    /// Changes are not looked for.
    Off,
}

/// One upstream server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// As the configuration names it. The pack is named after it.
    pub name: String,
    pub kind: ServerKind,
    pub enabled: Enabled,
    /// For connecting, and for each call; progress postpones it.
    pub timeout: Duration,
    /// Globs over the tools' own names. Empty: all.
    pub include: Vec<String>,
    /// Globs over the tools' own names.
    pub exclude: Vec<String>,
    /// Whether text that is JSON arrives as the value that it stands for.
    pub reads_json: bool,
    /// Where the server is documented, if that is said: nowhere, or at an address.
    pub docs: Option<Option<String>>,
    pub pin: PinMode,
    /// The longest message that it may send: a line of standard output, a server-sent event, the body of an answer.
    pub max_message_bytes: usize,
    /// How to sign in to it, where it wants that.
    pub auth: AuthSettings,
    /// The secrets that its configuration names.
    pub secrets: Vec<String>,
    pub era: EraChoice,
    /// How long the request that begins one era may take before that of the other is sent as well.
    pub probe: Duration,
    /// How long calls fail at once after the server hung, before it is tried again. Doubles with each time.
    pub retry_after: Duration,
    /// The longest pause between two attempts to connect.
    pub retry_max: Duration,
}

impl ServerSettings {
    /// A child process with the defaults of everything else.
    pub fn stdio<A: Into<String>>(
        name: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::new(name.into(), ServerKind::Stdio { command: command.into(), args, env: BTreeMap::new(), cwd: None })
    }

    /// An HTTP endpoint with the defaults of everything else.
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

    /// A name for what is kept of it. Its own name may hold anything, and may differ from another by case alone.
    pub(super) fn file_name(&self) -> String {
        file_name(&self.name)
    }

    /// Changes when the server is another one, so that its cached tools are not taken for the new one's. Without
    /// environment and headers: a renewed token is the same server.
    pub(super) fn fingerprint(&self) -> String {
        let identity = match &self.kind {
            ServerKind::Stdio { command, args, cwd, .. } => serde_json::json!([command, args, cwd]),
            ServerKind::Http { url, .. } => serde_json::json!([url]),
        };
        blake3::hash(identity.to_string().as_bytes()).to_hex().to_string()
    }
}

/// A name for a file about the server of this name.
pub(super) fn file_name(server: &str) -> String {
    let digest = blake3::hash(server.as_bytes()).to_hex();
    let readable: String = server.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    format!("{}-{}", readable.to_lowercase(), &digest.as_str()[..16])
}

/// All upstream servers, and where this source keeps what it learns of them.
#[derive(Clone)]
pub struct ProxySettings {
    pub servers: Vec<ServerSettings>,
    /// Where the programs of servers are looked up, and their `PATH`.
    pub search_path: SearchPath,
    /// Keeps lists of tools, and what every tool looked like when it was first seen, or last accepted.
    pub state: onetool_state::State,
    /// Keeps what was given out to us when somebody signed in.
    pub credentials: onetool_state::State,
    /// Questions that servers are told they may ask the client.
    pub offers: Offers,
}

/// What servers may ask of the client at our other end. Each call decides anew whether there is one to ask.
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
