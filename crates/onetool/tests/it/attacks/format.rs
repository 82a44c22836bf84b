//! The files in `cases/attacks/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attack {
    /// For the reader.
    #[serde(rename = "what")]
    _what: String,
    /// Files of the project. `{project}` is replaced by its folder.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Files that several attacks share: name, and the file in `cases/attacks/parts/`.
    #[serde(default)]
    pub(super) parts: BTreeMap<String, String>,
    /// A program of `cases/attacks/parts/` that runs next to the server; `{port}` becomes the port that it prints.
    #[serde(default)]
    pub(super) beside: Option<String>,
    /// Symbolic links: name and target.
    #[serde(default)]
    pub(super) links: BTreeMap<String, String>,
    /// Hard links.
    #[serde(default)]
    pub(super) twins: BTreeMap<String, String>,
    /// Executable scripts.
    #[serde(default)]
    pub(super) programs: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Default: `stdio`. `http` means MCP over HTTP.
    #[serde(default)]
    pub(super) doors: Vec<Door>,
    /// Whether the project is a git repository with all its files added.
    #[serde(default)]
    pub(super) repository: bool,
    /// Values that must not appear in any answer, log or stored result.
    #[serde(default)]
    pub(super) secrets: Vec<String>,
    /// Tokens by the name that requests use; `admin` is also used to check that the server works.
    #[serde(default)]
    pub(super) tokens: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) attempts: Vec<Attempt>,
    /// REST requests, each on its own.
    #[serde(default)]
    pub(super) requests: Vec<RestAttempt>,
    /// Files that must not exist afterwards.
    #[serde(default)]
    pub(super) absent: Vec<String>,
    /// Files that attempts may change.
    #[serde(default)]
    pub(super) may_change: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Door {
    Stdio,
    Http,
    Rest,
}

impl Attack {
    pub(super) fn doors(&self) -> Vec<Door> {
        let mut doors = self.doors.clone();
        if doors.is_empty() && !self.attempts.is_empty() {
            doors.push(Door::Stdio);
        }
        if !self.requests.is_empty() {
            doors.push(Door::Rest);
        }
        doors
    }
}

/// Code that must fail, optionally with details.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Attempt {
    Refused(String),
    Judged(Judged),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Judged {
    pub(super) run: String,
    /// The only engine to try; both by default.
    #[serde(default)]
    pub(super) engine: Option<String>,
    /// Text that the answer must contain, whether it is an error or not.
    #[serde(default)]
    pub(super) says: Option<String>,
    /// Text that the answer must not contain.
    #[serde(default)]
    pub(super) never: Option<String>,
    /// Whether any answer is accepted: only the absence of effects counts.
    #[serde(default)]
    pub(super) harmless: bool,
}

impl Attempt {
    /// The code for the engine that accepts it, and for full Python.
    pub(super) fn variants(&self) -> Vec<String> {
        let (code, engine) = match self {
            Self::Refused(code) => (code, None),
            Self::Judged(judged) => (&judged.run, judged.engine.as_deref()),
        };
        let full = format!("import zlib\n{code}");
        match engine {
            Some("monty" | "any") => vec![code.clone()],
            Some("cpython") => vec![full],
            Some(other) => panic!("unknown engine {other}"),
            None => vec![code.clone(), full],
        }
    }
}

/// A request that must be refused with one of these statuses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RestAttempt {
    /// `PUT /tools/bundles/x`
    pub(super) request: String,
    /// The token to send.
    #[serde(default)]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: Json,
    /// The raw request as sent over the wire, which no honest client would send. `{host}` is replaced by the server's
    /// address, `{admin}` by its token, `{long}` by a text of 600,000 letters, `{many}` by 2,000 headers. Of several
    /// answers the last one counts.
    #[serde(default)]
    pub(super) wire: Option<String>,
    /// A body that is not JSON, or is not sent as JSON.
    #[serde(default)]
    pub(super) raw: Option<String>,
    /// How often the raw body is repeated.
    #[serde(default)]
    pub(super) times: Option<usize>,
    pub(super) status: Vec<u16>,
    #[serde(default)]
    pub(super) says: Option<String>,
    #[serde(default)]
    pub(super) never: Option<String>,
}
