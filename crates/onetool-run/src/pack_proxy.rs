//! The toolbox as a run sees it: packs by name, aliases, the project pack, and errors that suggest alternatives.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_sandbox::{CLOCK, CallTarget, Host, Lookup, REPEATING, WrittenName};
use onetool_sdk::{Arguments, CallContext, Caller, ErrorKind, Origin, QualifiedName, ToolError, Value};
use parking_lot::Mutex;

use crate::code::Use;
use crate::nearest::{listed, nearest};
use crate::shapes::Shape;
use crate::steps::Unsent;
use crate::toolbox::{Shared, value_size};

/// The pack whose attributes are projects.
pub const PROJECTS: &str = "proj";

/// One tool call that a run made, for the error report of a failed run.
#[derive(Debug, Clone)]
pub struct CallRecord {
    pub name: QualifiedName,
    pub state: CallState,
    /// Where in its own code a tool raised its exception.
    pub traceback: Option<String>,
}

/// The state of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallState {
    UnderWay,
    Completed {
        milliseconds: u64,
    },
    Failed(String),
    /// It never reached its tool.
    Refused,
}

/// The toolbox, as the code of one run sees it.
pub struct PackProxy {
    shared: Arc<Shared>,
    ctx: CallContext,
    /// How the code uses the names that it does not bind.
    used: HashMap<String, Use>,
    calls: Mutex<Vec<CallRecord>>,
    /// Shape of the first result of each tool, for errors of code that misreads it.
    returned: Mutex<Vec<(QualifiedName, Shape)>>,
    unsent: Mutex<Tally>,
    printed: Mutex<PrintedLines>,
}

/// Printed text to be sent to the client.
#[derive(Default)]
struct PrintedLines {
    /// An unfinished line.
    open: String,
    /// Number of pieces reported as progress.
    reported: usize,
}

/// What the model did not have to read.
#[derive(Default)]
struct Tally {
    unsent: Unsent,
    /// Tools whose definitions have been counted.
    defined: HashSet<QualifiedName>,
}

/// Maximum number of tools whose result shape is kept.
const SHOWN_SHAPES: usize = 4;

/// Maximum number of printed pieces shown as progress, and characters of each.
const MAX_SHOWN_PRINTED: usize = 1000;
const SHOWN_PRINTED: usize = 400;
/// Maximum number of calls recorded for the error report.
const RECORDED_CALLS: usize = 1000;

/// Modules whose import is most often forgotten.
const MODULES: &[&str] = &[
    "asyncio",
    "base64",
    "collections",
    "csv",
    "dataclasses",
    "datetime",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "os",
    "pathlib",
    "random",
    "re",
    "statistics",
    "string",
    "sys",
    "textwrap",
    "time",
    "typing",
    "urllib",
    "uuid",
];

/// Names that are most often used without importing them from their module.
const IMPORTED: &[(&str, &str)] = &[
    ("ABC", "abc"),
    ("Counter", "collections"),
    ("Decimal", "decimal"),
    ("Enum", "enum"),
    ("Fraction", "fractions"),
    ("OrderedDict", "collections"),
    ("Path", "pathlib"),
    ("ThreadPoolExecutor", "concurrent.futures"),
    ("ZoneInfo", "zoneinfo"),
    ("dataclass", "dataclasses"),
    ("date", "datetime"),
    ("deepcopy", "copy"),
    ("defaultdict", "collections"),
    ("deque", "collections"),
    ("lru_cache", "functools"),
    ("namedtuple", "collections"),
    ("partial", "functools"),
    ("pprint", "pprint"),
    ("reduce", "functools"),
    ("timedelta", "datetime"),
    ("timezone", "datetime"),
];

impl PackProxy {
    pub(crate) fn new(shared: Arc<Shared>, ctx: CallContext, used: HashMap<String, Use>) -> Self {
        Self {
            shared,
            ctx,
            used,
            calls: Mutex::default(),
            returned: Mutex::default(),
            unsent: Mutex::default(),
            printed: Mutex::default(),
        }
    }

    /// Records that a call begins; returns its index.
    fn begin(&self, name: &QualifiedName) -> Option<usize> {
        let mut calls = self.calls.lock();
        (calls.len() < RECORDED_CALLS).then(|| {
            calls.push(CallRecord { name: name.clone(), state: CallState::UnderWay, traceback: None });
            calls.len() - 1
        })
    }

    /// The calls so far that reached their tools, in the order in which they began.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.calls.lock().iter().filter(|call| call.state != CallState::Refused).cloned().collect()
    }

    pub(crate) fn caller(&self) -> Caller {
        self.ctx.caller
    }

    /// Tools that were called, with the shapes of their results.
    pub(crate) fn returned(&self) -> Vec<(QualifiedName, Shape)> {
        self.returned.lock().clone()
    }

    /// What the calls so far kept out of the model's context.
    pub(crate) fn unsent(&self) -> Unsent {
        self.unsent.lock().unsent
    }

    /// Counts a result, and the definition of its tool the first time. The `ot` pack saves nothing.
    fn count(&self, name: &QualifiedName, value: &Value, took: Duration) {
        if name.pack == "ot" {
            return;
        }
        let mut tally = self.unsent.lock();
        tally.unsent.bytes += value_size(value) as u64;
        tally.unsent.call_time += took;
        if tally.defined.insert(name.clone())
            && let Some(tool) = self.shared.state.catalog.tool(name)
        {
            tally.unsent.bytes += (tool.name.len() + tool.description.len() + tool.input_schema.bytes()) as u64;
        }
    }

    /// Shows the rest of the printed text: an unfinished line.
    pub(crate) fn end_of_printed(&self) {
        let mut printed = self.printed.lock();
        let rest = std::mem::take(&mut printed.open);
        if !rest.is_empty() {
            self.show(&mut printed, &rest);
        }
    }

    fn show(&self, printed: &mut PrintedLines, text: &str) {
        if self.ctx.progress.printed(text) || printed.reported >= MAX_SHOWN_PRINTED {
            return;
        }
        let last = text.trim_end().chars().rev().take(SHOWN_PRINTED).collect::<Vec<_>>();
        if !last.is_empty() {
            printed.reported += 1;
            let message = Some(last.into_iter().rev().collect());
            self.ctx.progress.report(onetool_sdk::Progress { done: 0.0, total: None, message });
        }
    }

    /// Records the shape of a tool's first result.
    fn look_at(&self, name: &QualifiedName, value: &Value) {
        let mut returned = self.returned.lock();
        if returned.len() < SHOWN_SHAPES && name.pack != "ot" && !returned.iter().any(|(known, _)| known == name) {
            returned.push((name.clone(), Shape::of(value)));
        }
    }

    fn unknown_name(&self, name: &str) -> ToolError {
        let catalog = &self.shared.state.catalog;
        let packs: Vec<&str> = catalog.packs().map(|pack| pack.name.as_str()).collect();
        let message = format!("name '{name}' is not defined");
        if let Some((_, module)) = IMPORTED.iter().find(|(known, _)| *known == name)
            && self.shared.absence(name).is_none()
        {
            return ToolError::raised("NameError", format!("{message}; did you forget `from {module} import {name}`?"));
        }
        let candidates = packs.iter().copied().chain(self.shared.state.aliases.keys().map(String::as_str));
        let meant = nearest(name, candidates).map(|near| format!("; did you mean '{near}'?"));
        let forgotten = || MODULES.contains(&name).then(|| format!("; did you forget `import {name}`?"));
        let absent = || self.shared.absence(name).map(|why| format!(": {why}"));
        // Python parses `my-github.list_issues()` as a subtraction.
        let dashed = packs
            .iter()
            .find(|pack| {
                pack.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')) && !self.used.contains_key(**pack)
            })
            .filter(|pack| pack.rsplit('_').next().is_some_and(|last| self.used.contains_key(last)))
            .map(|pack| format!("; in code, the pack is named {pack}, with underscores"));
        let meant = absent().or(dashed).or_else(forgotten).or(meant).unwrap_or_default();
        match self.used.get(name) {
            Some(Use::Called) => {
                let tools: Vec<String> =
                    catalog.tools().map(|(pack, tool)| format!("{}.{}", pack.name, tool.name)).collect();
                let near_tool = tools.iter().find(|tool| tool.ends_with(&format!(".{name}")));
                let meant = near_tool.map_or(meant, |tool| format!("; did you mean '{tool}'?"));
                ToolError::raised("NameError", format!("{message}{meant}")).with_hint(format!(
                    "available tools: {}; ot.tools() describes them",
                    listed(tools.iter().map(String::as_str))
                ))
            }
            Some(Use::Attribute) => ToolError::raised("NameError", format!("{message}{meant}"))
                .with_hint(format!("available packs: {}; ot.packs() describes them", listed(packs))),
            _ => ToolError::raised("NameError", format!("{message}{meant}")),
        }
    }

    fn project_attribute(&self, name: &str) -> Result<Lookup, ToolError> {
        if let Some(path) = self.shared.projects.get(name) {
            return Ok(Lookup::Value(Value::Path(path.path.to_string_lossy().into_owned())));
        }
        let functions: Vec<&str> = self
            .shared
            .state
            .catalog
            .pack(PROJECTS)
            .map(|entry| entry.pack.tools.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let projects: Vec<&str> = self.shared.projects.keys().map(String::as_str).collect();
        let meant = nearest(name, projects.iter().copied()).map(|near| format!("; did you mean '{near}'?"));
        Err(ToolError::raised(
            "AttributeError",
            format!("'{PROJECTS}' has no function or project '{name}'{}", meant.unwrap_or_default()),
        )
        .with_hint(format!(
            "available functions: {}; available projects: {}",
            listed(functions),
            listed(projects)
        )))
    }
}

#[async_trait]
impl Host for PackProxy {
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
        let WrittenName { name: bare, is_awaited } = WrittenName::read(name);
        if let Some(target) = self.shared.resolve_alias(bare)? {
            return Ok(match target.split_once('.') {
                Some(_) => Lookup::Function(WrittenName { name: &target, is_awaited }.to_string()),
                None => Lookup::Pack(target),
            });
        }
        if self.shared.state.catalog.pack(bare).is_some() {
            return Ok(Lookup::Pack(bare.to_owned()));
        }
        Err(self.unknown_name(bare))
    }

    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError> {
        let bare = WrittenName::read(name).name;
        let Some(entry) = self.shared.state.catalog.pack(pack) else {
            return Ok(Lookup::Undefined);
        };
        if entry.pack.tools.contains_key(bare) {
            return Ok(Lookup::Function(name.to_owned()));
        }
        if pack == PROJECTS {
            return self.project_attribute(name);
        }
        if name.starts_with("__") {
            return Ok(Lookup::Undefined);
        }
        // A server that has not listed its tools yet may have this one: the call will find out.
        if entry.pack.tools.is_empty() && matches!(entry.pack.origin, Origin::Proxy { .. }) {
            return Ok(Lookup::Function(name.to_owned()));
        }
        Err(Shared::unknown_function(entry, bare))
    }

    fn printed(&self, text: &str) {
        let mut printed = self.printed.lock();
        printed.open.push_str(text);
        let Some(end) = printed.open.rfind('\n') else { return };
        let rest = printed.open.split_off(end + 1);
        let lines = std::mem::replace(&mut printed.open, rest);
        self.show(&mut printed, &lines);
    }

    fn progress(&self, text: &str) {
        let message = Some(text.to_owned());
        self.ctx.progress.report(onetool_sdk::Progress { done: 0.0, total: None, message });
    }

    fn now(&self) -> Option<DateTime<Utc>> {
        self.ctx.journal.as_ref().map(|journal| journal.now())
    }

    fn seed(&self) -> Option<u64> {
        self.ctx.journal.as_ref().map(|journal| journal.seed())
    }

    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError> {
        let name = match target {
            CallTarget::Function(name) if name == CLOCK => {
                let now = self.now().unwrap_or_else(Utc::now);
                return Ok(Value::Int(now.timestamp_micros()));
            }
            CallTarget::Function(name) if name == REPEATING => {
                return Ok(Value::Bool(self.ctx.journal.as_ref().is_some_and(|journal| journal.is_repeating())));
            }
            CallTarget::Function(name) => {
                let name = WrittenName::read(&name).name;
                match self.shared.resolve_alias(name)? {
                    Some(target) => target.parse()?,
                    // A function that was passed on under its full name.
                    None if name.contains('.') => name.parse()?,
                    None => return Err(self.unknown_name(name)),
                }
            }
            CallTarget::Method { pack, function } => QualifiedName::new(pack, function),
        };
        let started = std::time::Instant::now();
        let place = self.begin(&name);
        let outcome = self.shared.call(&name, arguments, &self.ctx).await;
        let began = !matches!(
            outcome.as_ref().map_err(|error| &error.kind),
            Err(ErrorKind::NotFound | ErrorKind::Arguments | ErrorKind::Denied)
        );
        // `os.path.exists` and `import` probe for files that may not exist: not worth reporting.
        let was_absent = name.pack == "file"
            && name.function == "info"
            && outcome.as_ref().is_err_and(|error| error.exception() == "FileNotFoundError");
        if let Ok(value) = &outcome {
            self.look_at(&name, value);
            self.count(&name, value, started.elapsed());
        }
        let mut calls = self.calls.lock();
        if let Some(record) = place.and_then(|place| calls.get_mut(place)) {
            record.traceback = outcome.as_ref().err().and_then(|error| error.traceback.clone());
            record.state = match &outcome {
                _ if !began || was_absent => CallState::Refused,
                Ok(_) => CallState::Completed { milliseconds: started.elapsed().as_millis() as u64 },
                Err(error) => CallState::Failed(error.to_string()),
            };
        }
        outcome
    }
}
