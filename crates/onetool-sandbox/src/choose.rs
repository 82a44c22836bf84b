//! Decides from a program's text, before anything runs, which engine can run it.
//!
//! Monty is preferred; [`needs_cpython`] names the first thing in a program that Monty lacks (`survey`) or that it
//! answers differently from Python (`differences`). What it lacks is data (`choose/table/monty.tsv`), found by running
//! every entry in both engines; `tests/choices.rs` repeats that and fails when something has changed.
//! **Invariant:** reading a program never overflows our stack, however deeply it is nested.

mod caught;
mod differences;
mod effects;
mod integers;
mod nesting;
mod survey;
mod table;

use std::str::FromStr;

use ruff_python_ast::ModModule;
use ruff_python_parser::{Mode, ParseErrorType, ParseOptions, parse_unchecked};

use differences::Differences;
use survey::Survey;

pub use nesting::is_nested_deeply;
pub(crate) use table::is_builtin;

/// Maximum recursion depth of the parser.
const MAX_RECURSION: u16 = 200;

/// The engine that the configuration selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Monty where it can run the program, full Python otherwise.
    #[default]
    Auto,
    Monty,
    CPython,
}

onetool_config::choices!(Engine { "auto" => Auto, "monty" => Monty, "cpython" => CPython });

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "monty" => Ok(Self::Monty),
            "cpython" => Ok(Self::CPython),
            _ => Err(UnknownEngine(name.to_owned())),
        }
    }
}

/// The Python version that the fast engine implements, and the engine's name.
pub const FAST_ENGINE: &str = "3.14 (monty)";

/// Whether an exception of this type may mean that the fast engine lacks something. Others occur in full Python too.
pub fn may_lack(exception: &str) -> bool {
    matches!(
        exception,
        "AttributeError"
            | "NotImplementedError"
            | "OverflowError"
            | "RuntimeError"
            | "SyntaxError"
            | "TypeError"
            | "ValueError"
            | "binascii.Error"
            | "json.JSONDecodeError"
    )
}

/// A name that is not an engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine '{0}': expected auto, monty or cpython")]
pub struct UnknownEngine(String);

/// Text that is not Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line})")]
pub struct SyntaxProblem {
    pub message: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// Why a program needs full Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Monty cannot run it.
    Lacks(String),
    /// Monty runs it but may answer differently from Python: acceptable only if there is no other engine.
    Differs(&'static str),
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lacks(what) => f.write_str(what),
            Self::Differs(what) => f.write_str(what),
        }
    }
}

/// Whether a module belongs to Python's standard library.
pub fn is_standard_module(name: &str) -> bool {
    table::is_standard_module(name)
}

/// Returns why this program should not run in Monty, or `None` if there is no known reason.
pub fn needs_cpython(code: &str) -> Result<Option<Need>, SyntaxProblem> {
    const TOO_DEEP: &str = "the program is nested deeply";
    if is_nested_deeply(code) {
        return Ok(Some(Need::Lacks(TOO_DEEP.to_owned())));
    }
    let parsed = parse_unchecked(code, ParseOptions::from(Mode::Module).with_max_recursion_depth(MAX_RECURSION));
    if let Some(error) = parsed.errors().first() {
        if error.error == ParseErrorType::RecursionLimitExceeded {
            return Ok(Some(Need::Lacks(TOO_DEEP.to_owned())));
        }
        return Err(problem(code, usize::from(error.location.start()), error.error.to_string()));
    }
    Ok(parsed.try_into_module().and_then(|module| needs_cpython_in(module.syntax())))
}

/// Like [`needs_cpython`], for a program that is already parsed.
pub fn needs_cpython_in(module: &ModModule) -> Option<Need> {
    Survey::of(module).map(Need::Lacks).or_else(|| Differences::of(module).map(Need::Differs))
}

fn problem(code: &str, offset: usize, message: String) -> SyntaxProblem {
    let before = code.get(..offset).unwrap_or(code);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    SyntaxProblem { message, line: line as u32, column: column as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_table_run_where_they_are_right() {
        assert!(table::programs().count() > 100);
        for (same, code) in table::programs() {
            let need = needs_cpython(&code).unwrap();
            assert_eq!(need.is_none(), same, "{code}: {need:?}");
        }
    }

    #[test]
    fn what_monty_can_stays_with_monty() {
        for code in table::TRIED_IN_MONTY {
            assert_eq!(needs_cpython(code), Ok(None), "{code}");
        }
    }

    #[test]
    fn what_monty_lacks_goes_to_cpython() {
        for code in table::REFUSED_BY_MONTY {
            assert!(matches!(needs_cpython(code), Ok(Some(Need::Lacks(_)))), "{code}");
        }
    }

    #[test]
    fn what_monty_answers_differently_goes_to_cpython() {
        for code in table::ANSWERED_DIFFERENTLY {
            assert!(matches!(needs_cpython(code), Ok(Some(Need::Differs(_)))), "{code}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_place() {
        let problem = needs_cpython("x = 1\ny = = 2").unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 5));
    }

    #[test]
    fn deep_programs_are_not_parsed() {
        for code in [
            "1+".repeat(60_000) + "1",
            "a".to_owned() + &".b".repeat(60_000),
            "f".to_owned() + &"()".repeat(60_000),
            "a".to_owned() + &"[0]".repeat(60_000),
            "(".repeat(60_000) + &")".repeat(60_000),
            "-".repeat(100_000) + "1",
            "not ".repeat(60_000) + "1",
            "lambda:".repeat(30_000) + "1",
            format!("f'{{{}1}}'", "1+".repeat(60_000)),
        ] {
            let need = Need::Lacks("the program is nested deeply".to_owned());
            assert_eq!(needs_cpython(&code), Ok(Some(need)), "{code:.20}");
        }
        let long_list = format!("[{}]", "{'a': 1 + 2, 'b': x.y},".repeat(5_000));
        assert_eq!(needs_cpython(&long_list), Ok(None));
    }

    #[test]
    fn long_programs_are_looked_through() {
        let operators = "1 - ".repeat(140) + "1\n";
        let names = "x = [a for a in b if a in c]\n".repeat(100);
        let nested: Vec<String> = (0..90).map(|depth| format!("{}for x in enumerate(y):", " ".repeat(depth))).collect();
        let nested = nested.join("\n") + "\n";
        let derived: Vec<String> = (0..12_000).rev().map(|at| format!("a{} = a{at}", at + 1)).collect();
        let derived = derived.join("\n") + "\n";
        let derived = derived + "a0 = {1}\nprint(a12000)";
        assert!(matches!(needs_cpython(&derived), Ok(Some(Need::Differs(_)))));
        for code in [operators.repeat(400), names.repeat(80), format!("{nested}{}pass", " ".repeat(90))] {
            needs_cpython(&code).unwrap();
        }
    }

    #[test]
    fn engines_are_read_by_name() {
        assert_eq!("cpython".parse(), Ok(Engine::CPython));
        assert!("python".parse::<Engine>().is_err());
    }
}
