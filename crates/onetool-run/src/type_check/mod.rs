//! Calls that cannot work because of a value's type, found before anything runs, with the interpreter's type checker.
//!
//! The check before this one reads literals and binds names exactly as the call itself does. What is left are values that
//! the text does not spell out (`n = len(text)`, `f"{a}"`, `[x for x in y]`). The checker is asked for the types of just
//! these arguments (`stubs`), where its word can be relied upon (`code::grounds`), and only an answer that is one plain type
//! counts (`diagnostics`), if the parameter's schema cannot take it (`kinds`). Everything else goes on to run.

mod diagnostics;
mod kinds;
mod stubs;

use std::collections::HashMap;

use onetool_sandbox::{Engine, Finding, Sandbox};
use onetool_sdk::{Arguments, Origin, Value};

use crate::code::{CallSite, Place, PreparedCode};
use crate::parameters;
use crate::precheck::{self, Refusal, Target};
use crate::toolbox::Shared;

pub(crate) use kinds::{Expected, Kind};

/// Where fewer calls stand, the call itself finds the mistake before anything has happened; where more stand, asking takes
/// longer than it is worth.
const CALLS_WORTH_A_CHECK: std::ops::RangeInclusive<usize> = 2..=100;

/// The first call whose arguments have types that cannot work.
pub(crate) async fn check(code: &PreparedCode, shared: &Shared, sandbox: &Sandbox) -> Option<Refusal> {
    let question = Question::about(code, shared)?;
    let findings = sandbox.findings(&code.original, &question.stubs).await;
    question.verdict(&findings)
}

/// What the type checker is asked.
struct Question<'a> {
    stubs: String,
    arguments: HashMap<Place, Asked<'a>>,
}

/// An argument whose type would matter.
struct Asked<'a> {
    target: Target<'a>,
    parameter: String,
    expected: Expected,
}

impl<'a> Question<'a> {
    /// `None` where no answer could make a difference.
    fn about(code: &PreparedCode, shared: &'a Shared) -> Option<Self> {
        if !CALLS_WORTH_A_CHECK.contains(&code.calls.len()) || code.engine != Engine::Monty {
            return None;
        }
        let mut stubs = stubs::Stubs::default();
        let mut arguments = HashMap::new();
        for site in &code.calls {
            let Some(target) = precheck::target(site, shared) else { continue };
            let asked = asked(site, &target);
            if !asked.is_empty() {
                stubs.add(&site.pack, site.function.as_deref());
                arguments.extend(asked);
            }
        }
        if arguments.is_empty() {
            return None;
        }
        for name in code.facts.used.keys().filter(|name| !code.facts.bound.contains(*name)) {
            if shared.state.catalog.pack(name).is_some() || shared.state.aliases.contains_key(name) {
                stubs.add_untyped(name);
            }
        }
        Some(Self { stubs: stubs.text(), arguments })
    }

    fn verdict(&self, findings: &[Finding]) -> Option<Refusal> {
        diagnostics::argument_kinds(findings).into_iter().find_map(|(place, kind)| {
            let asked = self.arguments.get(&place)?;
            if !asked.expected.refuses(kind) {
                return None;
            }
            let error = asked.expected.mistaken(&asked.target, &asked.parameter, kind.python_name());
            Some(Refusal { line: place.line, error })
        })
    }
}

/// The arguments of a call that only the run knows and whose parameters are choosy.
fn asked<'a>(site: &CallSite, target: &Target<'a>) -> Vec<(Place, Asked<'a>)> {
    let Target { name, entry, tool } = target;
    if matches!(entry.pack.origin, Origin::Worker { .. }) || !tool.checkable {
        return Vec::new();
    }
    // Which argument goes to which parameter is for the binding of calls to say: each argument is its own number.
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
    let Ok(bound) = parameters::bind(&name.to_string(), tool, given) else { return Vec::new() };
    let values: Vec<&Option<Value>> = site.positional.iter().chain(site.named.iter().map(|(_, value)| value)).collect();
    bound
        .named
        .iter()
        .filter_map(|(parameter, number)| {
            let Value::Int(index) = number else { return None };
            let index = usize::try_from(*index).ok()?;
            if values.get(index)?.is_some() {
                return None;
            }
            let asked = Asked {
                target: target.clone(),
                parameter: parameter.clone(),
                expected: Expected::by(tool, parameter, &entry.pack.origin)?,
            };
            Some(((*site.places.get(index)?)?, asked))
        })
        .collect()
}
