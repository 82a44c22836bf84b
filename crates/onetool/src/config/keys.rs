//! Every key that a configuration knows, with what it may hold. [`super::raw`] has the same keys as types; a test holds
//! the two together.

use super::shape::Shape;
use Shape::{Any, Choice, Count, Either, Flag, Keys, List, Names, Number, OneOrMore, Seconds, Text};

/// Megabytes, up to a terabyte.
const MAX_MB: u64 = 1 << 20;
/// Kilobytes, up to a gigabyte.
const MAX_KB: u64 = 1 << 20;
/// Bytes, up to a gigabyte.
const MAX_BYTES: u64 = 1 << 30;
/// Seconds, as a whole number.
const MAX_SECONDS: u64 = 1_000_000_000;
/// What is counted and need not be bounded for its own sake.
const MANY: u64 = 1_000_000_000;

const TEXTS: Shape = List(&Text);
const TEXT_MAP: Shape = Names(&Text);

pub(super) const VERSION: Shape = Either(&[Count(0, MANY), Text]);
pub(super) const INCLUDE: Shape = OneOrMore(&Text);
pub(super) const INHERIT: Shape = Choice(&["global", "bundled", "none"]);
pub(super) const TOOLS_DIR: Shape = OneOrMore(&Text);
pub(super) const LOG_LEVEL: Shape = Choice(&["trace", "debug", "info", "warn", "error", "warning", "critical"]);
pub(super) const LOG_DIR: Shape = Text;

pub(super) const RUN: Shape = Keys(&[
    ("engine", Choice(&["auto", "monty", "cpython"])),
    ("timeout", Seconds),
    ("total_timeout", Seconds),
    ("max_memory_mb", Count(8, MAX_MB)),
    ("max_calls", Count(0, MANY)),
    ("max_recursion", Count(10, 10_000)),
    ("max_source_kb", Count(1, MAX_KB)),
    ("max_printed_kb", Count(0, MAX_KB)),
    ("max_error_kb", Count(1, MAX_KB)),
    ("type_check", Flag),
    ("prewarm", Count(0, 64)),
    ("max_parallel", Count(1, 1024)),
    ("max_waiting", Count(0, 1_000_000)),
    ("max_wait", Seconds),
    ("python", Text),
    ("allow_unconfined", Flag),
    ("zygote", Flag),
]);

pub(super) const OUTPUT: Shape = Keys(&[
    ("max_inline_size", Count(0, MAX_BYTES)),
    ("result_ttl", Count(0, MAX_SECONDS)),
    ("preview_lines", Count(0, 100_000)),
    ("result_store_dir", Text),
]);

pub(super) const STATS: Shape = Keys(&[
    ("enabled", Flag),
    ("persist_dir", Text),
    ("persist_path", Text),
    ("flush_interval_seconds", Count(1, 86_400)),
    ("context_per_call", Count(0, MANY)),
    ("time_overhead_per_call_ms", Count(0, MANY)),
    ("cost_per_million_input_tokens", Number(0.0, 1e9)),
    ("cost_per_million_output_tokens", Number(0.0, 1e9)),
    ("chars_per_token", Number(0.01, 1e6)),
    ("model", Text),
]);

pub(super) const WORKERS: Shape = Keys(&[
    ("idle_timeout", Seconds),
    ("call_timeout", Seconds),
    ("startup_timeout", Seconds),
    ("max", Count(1, 1000)),
    ("max_queue", Count(1, 1_000_000)),
    ("max_memory_mb", Count(16, MAX_MB)),
]);

pub(super) const SECURITY: Shape = Keys(&[
    ("sanitize", Keys(&[("enabled", Flag)])),
    ("blocked", TEXTS),
    ("warned", TEXTS),
    ("allow", TEXTS),
    // Its values are read one by one: what cannot be read must deny.
    ("policy", Names(&Any)),
    ("validate_code", Flag),
    ("enabled", Flag),
]);

pub(super) const ALIAS: Shape = Names(&Text);

pub(super) const SNIPPETS: Shape = Names(&Either(&[
    Text,
    Keys(&[
        ("description", Text),
        ("params", Names(&Keys(&[("required", Flag), ("default", Any), ("description", Text), ("type", Text)]))),
        ("body", Text),
    ]),
]));

pub(super) const PROJECTS: Shape = Names(&Either(&[Text, Keys(&[("path", Text), ("attrs", Names(&Any))])]));

pub(super) const SERVERS: Shape = Names(&Keys(&[
    ("type", Choice(&["stdio", "http", "sse", "streamable-http"])),
    ("enabled", Flag),
    ("url", Text),
    ("headers", TEXT_MAP),
    ("command", Text),
    ("args", TEXTS),
    ("env", TEXT_MAP),
    ("env_allow", TEXTS),
    ("cwd", Text),
    ("timeout", Seconds),
    ("max_message_mb", Count(1, 1024)),
    ("tools", Keys(&[("include", TEXTS), ("exclude", TEXTS)])),
    ("pin", Choice(&["flag", "strict", "off"])),
]));

pub(super) const PROMPTS: Shape =
    Keys(&[("instructions", Text), ("tools", Keys(&[("run", Keys(&[("description", Text)]))])), ("packs", TEXT_MAP)]);

/// `tools.<pack>` is each pack's own; these are ours.
pub(super) const TOOLS: Shape = Names(&Any);
pub(super) const FILE_PACK: Shape = Keys(&[("roots", TEXTS)]);
pub(super) const MSG_PACK: Shape = Keys(&[("topics", List(&Keys(&[("pattern", Text), ("file", Text)])))]);
pub(super) const PACKAGE_PACK: Shape = Keys(&[("npm_url", Text), ("pypi_url", Text), ("crates_url", Text)]);

pub(super) const BUNDLES: Shape = Keys(&[("dir", Text)]);

pub(super) const HTTP: Shape = Keys(&[
    ("allowed_hosts", TEXTS),
    ("retries", Count(0, 20)),
    ("max_sent_bytes", Count(1, MAX_BYTES)),
    ("max_response_bytes", Count(1, MAX_BYTES)),
    ("max_timeout", Seconds),
    ("max_calls_per_minute", Count(1, 1_000_000)),
]);

pub(super) const SERVER: Shape = Keys(&[
    ("bind", Text),
    ("tokens", List(&Keys(&[("token", Text), ("scopes", List(&Choice(&["read", "invoke", "admin"])))]))),
    ("allowed_hosts", TEXTS),
    ("allowed_origins", TEXTS),
    ("max_body_bytes", Count(1, MAX_BYTES)),
    ("request_timeout", Seconds),
    ("invoke_timeout", Seconds),
]);

pub(super) const TELEMETRY: Shape = Keys(&[("otlp_endpoint", Text), ("service_name", Text), ("headers", TEXT_MAP)]);

/// The keys at the top, but for `include` and `inherit`, which say what is read at all.
pub(super) const SECTIONS: &[(&str, Shape)] = &[
    ("version", VERSION),
    ("tools_dir", TOOLS_DIR),
    ("log_level", LOG_LEVEL),
    ("log_dir", LOG_DIR),
    ("security", SECURITY),
    ("projects", PROJECTS),
    ("servers", SERVERS),
    ("tools", TOOLS),
    ("alias", ALIAS),
    ("snippets", SNIPPETS),
    ("prompts", PROMPTS),
    ("stats", STATS),
    ("output", OUTPUT),
    ("run", RUN),
    ("workers", WORKERS),
    ("http", HTTP),
    ("bundles", BUNDLES),
    ("server", SERVER),
    ("telemetry", TELEMETRY),
];
