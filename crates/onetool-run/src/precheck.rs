//! Calls that cannot work, found before anything runs: a name that is no parameter, an argument that is missing, a
//! literal of the wrong type. Half a run with half its effects is worse than none.
//!
//! Only what is certain is refused. Prefixes count as the names they stand for; values that the text does not tell are
//! taken as right; Python files do not enforce their annotations, so only their names and counts are checked.

use std::sync::Arc;

use onetool_sdk::{Arguments, Origin, QualifiedName, ToolError, ToolSpec, Value};

use crate::catalog::CatalogPack;
use crate::code::{CallSite, PreparedCode};
use crate::parameters;
use crate::toolbox::Shared;
use crate::type_check::{Expected, Kind};

/// Stands for a value that only the run knows.
const UNKNOWN: &str = "\u{1}";

/// A call that cannot work.
pub(crate) struct Refusal {
    pub(crate) line: u32,
    pub(crate) error: ToolError,
}

/// The tool that a call names.
#[derive(Clone)]
pub(crate) struct Target<'a> {
    pub(crate) name: QualifiedName,
    pub(crate) entry: &'a CatalogPack,
    pub(crate) tool: &'a Arc<ToolSpec>,
}

/// The first call that cannot work. A single call is not checked here: the call path does it before anything happens.
pub(crate) fn check(code: &PreparedCode, shared: &Shared) -> Option<Refusal> {
    if code.calls.len() < 2 {
        return None;
    }
    code.calls.iter().find_map(|site| check_site(site, shared).map(|error| Refusal { line: site.line, error }))
}

/// What a call calls, where that is known.
pub(crate) fn target<'a>(site: &CallSite, shared: &'a Shared) -> Option<Target<'a>> {
    let (pack, function) = match &site.function {
        Some(function) => {
            let pack = shared.resolve_alias(&site.pack).ok().flatten().unwrap_or_else(|| site.pack.clone());
            (pack, function.clone())
        }
        None => {
            let target = shared.resolve_alias(&site.pack).ok().flatten()?;
            let (pack, function) = target.split_once('.')?;
            (pack.to_owned(), function.to_owned())
        }
    };
    let entry = shared.state.catalog.pack(&pack)?;
    let tool = entry.pack.tools.get(&function)?;
    Some(Target { name: QualifiedName::new(pack, function), entry, tool })
}

fn check_site(site: &CallSite, shared: &Shared) -> Option<ToolError> {
    let target = target(site, shared)?;
    let Target { name, entry, tool } = &target;
    let value = |given: &Option<Value>| given.clone().unwrap_or_else(|| Value::Opaque(UNKNOWN.to_owned()));
    let arguments = Arguments {
        positional: site.positional.iter().map(value).collect(),
        named: site.named.iter().map(|(name, given)| (name.clone(), value(given))).collect(),
    };
    let bound = match parameters::bind(&name.to_string(), tool, arguments) {
        Ok(bound) => bound,
        Err(error) => return Some(error),
    };
    if matches!(entry.pack.origin, Origin::Worker { .. }) || !tool.checkable {
        return None;
    }
    bound.named.iter().find_map(|(parameter, value)| {
        let expected = Expected::by(tool, parameter, &entry.pack.origin)?;
        expected
            .refuses(Kind::of(value)?)
            .then(|| expected.mistaken(&target, parameter, &format!("{} {}", value.type_name(), value.repr())))
    })
}
