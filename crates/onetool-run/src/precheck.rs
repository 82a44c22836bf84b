//! Finds calls that cannot work before anything runs: an unknown parameter, a missing argument, a literal that does not
//! fit. Half a run with half its effects is worse than none.
//!
//! Only what is certain is refused. Prefixes count as the names they abbreviate; values that the source does not show
//! are assumed to be valid. The rules are those of the call path.

use std::sync::Arc;

use onetool_sdk::{Arguments, QualifiedName, ToolError, ToolSpec, Value};

use crate::catalog::CatalogPack;
use crate::code::{CallSite, PreparedCode};
use crate::toolbox::Shared;
use crate::{parameters, validate};

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

/// Returns the first call that cannot work. A single call is not checked here: the call path does it before any effect.
pub(crate) fn check(code: &PreparedCode, shared: &Shared) -> Option<Refusal> {
    if code.calls.len() < 2 {
        return None;
    }
    code.calls.iter().find_map(|site| check_site(site, shared).map(|error| Refusal { line: site.line, error }))
}

/// Resolves `name.function(…)`, or `name(…)` with an alias, to a tool, if it is known.
pub(crate) fn target<'a>(name: &str, function: Option<&str>, shared: &'a Shared) -> Option<Target<'a>> {
    let (pack, function) = match function {
        Some(function) => {
            let pack = shared.resolve_alias(name).ok().flatten().unwrap_or_else(|| name.to_owned());
            (pack, function.to_owned())
        }
        None => {
            let target = shared.resolve_alias(name).ok().flatten()?;
            let (pack, function) = target.split_once('.')?;
            (pack.to_owned(), function.to_owned())
        }
    };
    let entry = shared.state.catalog.pack(&pack)?;
    let tool = entry.pack.tools.get(&function)?;
    Some(Target { name: QualifiedName::new(pack, function), entry, tool })
}

fn check_site(site: &CallSite, shared: &Shared) -> Option<ToolError> {
    let target = target(&site.pack, site.function.as_deref(), shared)?;
    let Target { name, tool, .. } = &target;
    // A value known only at run time is opaque to the checks.
    let value =
        |given: &Option<Value>| given.clone().unwrap_or_else(|| Value::Opaque("not known before the run".to_owned()));
    let arguments = Arguments {
        positional: site.positional.iter().map(value).collect(),
        named: site.named.iter().map(|(name, given)| (name.clone(), value(given))).collect(),
    };
    let bound = match parameters::bind(&name.to_string(), tool, arguments) {
        Ok(bound) => bound,
        Err(error) => return Some(error),
    };
    if !tool.checkable {
        return None;
    }
    // Opaque values are not checked.
    validate::check(&name.to_string(), tool, &bound).err()
}
