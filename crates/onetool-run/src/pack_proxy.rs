//! What a run sees of the toolbox: packs by name, aliases, the project pack, and errors that say what there is instead.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use onetool_sandbox::{AWAITED_PREFIX, CallTarget, Host, Lookup};
use onetool_sdk::{Arguments, CallContext, ErrorKind, Origin, QualifiedName, ToolError, Value};
use parking_lot::Mutex;

use crate::code::Use;
use crate::nearest::{listed, nearest};
use crate::toolbox::Shared;

/// The pack whose attributes are projects.
pub const PROJECTS: &str = "proj";

/// One tool call that a run made, for the account of a run that failed.
#[derive(Debug, Clone)]
pub struct CallRecord {
    pub name: QualifiedName,
    pub state: CallState,
}

/// How far a call has come.
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
}

/// An account of more calls than this says how many there were.
const RECORDED_CALLS: usize = 1000;

/// Modules whose import is forgotten most.
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

impl PackProxy {
    pub(crate) fn new(shared: Arc<Shared>, ctx: CallContext, used: HashMap<String, Use>) -> Self {
        Self { shared, ctx, used, calls: Mutex::new(Vec::new()) }
    }

    /// Notes that a call begins, and where.
    fn begin(&self, name: &QualifiedName) -> Option<usize> {
        let mut calls = self.calls.lock();
        (calls.len() < RECORDED_CALLS).then(|| {
            calls.push(CallRecord { name: name.clone(), state: CallState::UnderWay });
            calls.len() - 1
        })
    }

    /// The calls so far that reached their tools, in the order in which they began.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.calls.lock().iter().filter(|call| call.state != CallState::Refused).cloned().collect()
    }

    fn unknown_name(&self, name: &str) -> ToolError {
        let catalog = &self.shared.state.catalog;
        let packs: Vec<&str> = catalog.packs().map(|pack| pack.name.as_str()).collect();
        let message = format!("name '{name}' is not defined");
        let candidates = packs.iter().copied().chain(self.shared.state.aliases.keys().map(String::as_str));
        let meant = nearest(name, candidates).map(|near| format!("; did you mean '{near}'?"));
        let forgotten = || MODULES.contains(&name).then(|| format!("; did you forget `import {name}`?"));
        let absent = || self.shared.absence(name).map(|why| format!(": {why}"));
        // `my-github.list_issues()` is a subtraction to Python.
        let dashed = packs
            .iter()
            .find(|pack| pack.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')) && !self.used.contains_key(**pack))
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
        let (prefix, bare) = name.strip_prefix(AWAITED_PREFIX).map_or(("", name), |bare| (AWAITED_PREFIX, bare));
        if let Some(target) = self.shared.resolve_alias(bare)? {
            return Ok(match target.split_once('.') {
                Some(_) => Lookup::Function(format!("{prefix}{target}")),
                None => Lookup::Pack(target),
            });
        }
        if self.shared.state.catalog.pack(bare).is_some() {
            return Ok(Lookup::Pack(bare.to_owned()));
        }
        Err(self.unknown_name(bare))
    }

    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError> {
        let bare = name.strip_prefix(AWAITED_PREFIX).unwrap_or(name);
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
        // A server that has not told its tools yet may have this one: the call will see.
        if entry.pack.tools.is_empty() && matches!(entry.pack.origin, Origin::Proxy { .. }) {
            return Ok(Lookup::Function(name.to_owned()));
        }
        Err(Shared::unknown_function(entry, bare))
    }

    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError> {
        let name = match target {
            CallTarget::Function(name) => {
                let name = name.strip_prefix(AWAITED_PREFIX).unwrap_or(&name);
                match self.shared.resolve_alias(name)? {
                    Some(target) => target.parse()?,
                    // A function that was handed out under its full name.
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
        let mut calls = self.calls.lock();
        if let Some(record) = place.and_then(|place| calls.get_mut(place)) {
            record.state = match &outcome {
                _ if !began => CallState::Refused,
                Ok(_) => CallState::Completed { milliseconds: started.elapsed().as_millis() as u64 },
                Err(error) => CallState::Failed(error.to_string()),
            };
        }
        outcome
    }
}
