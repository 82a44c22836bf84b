//! Finds calls that cannot work because of a value's type, before anything runs.
//!
//! The preceding check (`precheck`) reads literals and binds names exactly as the call itself does. What remains are
//! values that the source does not spell out (`n = len(text)`, `f"{a}"`, `[x for x in y]`). Their kinds are inferred
//! from the syntax tree while the code is prepared (`infer`, over `bindings` and `constants`), and a call is refused
//! only if a kind is certain and the parameter's schema cannot accept it (`kinds`). Everything else runs.

mod bindings;
mod constants;
mod infer;
mod kinds;

use onetool_sdk::{Arguments, Origin, Value};

use crate::code::{CallSite, PreparedCode};
use crate::parameters;
use crate::precheck::{self, Refusal, Target};
use crate::toolbox::Shared;

pub(crate) use infer::Inference;
pub use infer::Inferred;
pub(crate) use kinds::Expected;
pub use kinds::Kind;

/// Returns the first call whose argument types cannot work. A single call is not checked here: the call path does it
/// before any effect.
pub(crate) fn check(code: &PreparedCode, shared: &Shared) -> Option<Refusal> {
    if code.calls.len() < 2 {
        return None;
    }
    code.calls.iter().find_map(|site| check_site(site, shared))
}

fn check_site(site: &CallSite, shared: &Shared) -> Option<Refusal> {
    if site.inferred.iter().all(|argument| argument.inferred == Inferred::Unknown) {
        return None;
    }
    let target = precheck::target(&site.pack, site.function.as_deref(), shared)?;
    let Target { name, entry, tool } = &target;
    if matches!(entry.pack.origin, Origin::Worker { .. }) || !tool.checkable {
        return None;
    }
    // Each argument is replaced by its index, so that binding shows which parameter it belongs to.
    let number = |index: usize| Value::Int(index as i64);
    let given = Arguments {
        positional: (0..site.positional.len()).map(number).collect(),
        named: site
            .named
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), number(site.positional.len() + index)))
            .collect(),
    };
    let bound = parameters::bind(&name.to_string(), tool, given).ok()?;
    let mut refusals: Vec<Refusal> = bound
        .named
        .iter()
        .filter_map(|(parameter, number)| {
            let Value::Int(index) = number else { return None };
            let argument = site.inferred.get(usize::try_from(*index).ok()?)?;
            let kind = match &argument.inferred {
                Inferred::Kind(kind) => *kind,
                Inferred::ResultOf { pack, function } => declared_result(pack, function.as_deref(), shared)?,
                Inferred::Unknown => return None,
            };
            let expected = Expected::by(tool, parameter)?;
            let error = expected.refuses(kind).then(|| expected.mistaken(&target, parameter, kind.python_name()))?;
            Some(Refusal { line: argument.line, error })
        })
        .collect();
    refusals.sort_by_key(|refusal| refusal.line);
    refusals.into_iter().next()
}

/// The declared result of a tool, if it can be relied on: only built-in tools guarantee theirs.
fn declared_result(pack: &str, function: Option<&str>, shared: &Shared) -> Option<Kind> {
    let target = precheck::target(pack, function, shared)?;
    if !matches!(target.entry.pack.origin, Origin::Native) {
        return None;
    }
    Kind::of_annotation(target.tool.signature.returns.as_deref()?)
}
