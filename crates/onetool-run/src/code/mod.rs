//! Prepares the user's code: fixes its indentation, collects facts about it, and makes the few changes that running
//! needs.
//!
//! Everything here works on the syntax tree and keeps line numbers: an error in line 3 of what the user wrote is an
//! error in line 3.

mod awaited;
mod called;
mod calls;
mod facts;
mod full_python;
mod handed_over;
mod imports;
mod indentation;
mod kept;
mod shown;
mod single;
mod wrapping;

pub use wrapping::END_REACHED;

use std::collections::HashSet;

use onetool_sandbox::{Engine, Need, needs_cpython_in};
use ruff_python_ast::ModModule;
use ruff_python_parser::{ParseError, Parsed};
use ruff_text_size::{Ranged as _, TextRange};

pub use calls::CallSite;
pub use facts::{Facts, MagicValue, SESSION, SessionRequest, Use};
pub use kept::keep;
pub use single::{Single, SingleCall};

/// Code that is ready for a sandbox.
#[derive(Debug, Clone)]
pub struct PreparedCode {
    /// What is executed.
    pub text: String,
    /// What the user wrote, as errors show it.
    pub original: String,
    /// Number of lines inserted before the user's first line.
    pub line_offset: u32,
    pub facts: Facts,
    /// Tool calls, for the check before the run.
    pub calls: Vec<CallSite>,
    /// The call or literal, if the code is nothing else and needs no interpreter.
    pub single: Option<Single>,
    /// Dotted names that are called or imported, with their lines, if requested.
    pub called: Vec<(String, u32)>,
    /// The engine that runs it; never `Auto`.
    pub engine: Engine,
    /// Why it is not Monty, if the engine was chosen automatically.
    pub need: Option<Need>,
    /// The engine to try if that one cannot run the code.
    pub fallback: FallbackEngine,
}

/// Another engine for the same code, if the engine is chosen automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackEngine {
    None,
    /// Full Python, if the run shows that Monty lacks something.
    CPython,
    /// Monty, if full Python is unavailable: its result may differ in rare cases.
    Monty,
}

/// What preparation needs besides the code.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Whether a name is a pack or an alias.
    pub is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    /// The configured engine.
    pub engine: Engine,
    /// Whether to collect the called names.
    pub collect_called: bool,
    /// Whether the names of the code persist, which keeps it at the top level.
    pub keeps_names: bool,
}

/// Code that does not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxProblem {
    pub message: String,
    pub line: u32,
    pub column: u32,
    /// The line itself.
    pub text: String,
}

/// Long chains make syntax trees that are deep without being nested, and walking them takes stack. Code larger than
/// this is prepared on a thread with enough stack.
const SMALL: usize = 4 << 10;
const STACK_BYTES: usize = 1 << 30;

/// Prepares code.
pub fn prepare(code: &str, surroundings: Surroundings<'_>) -> Result<PreparedCode, SyntaxProblem> {
    if code.len() <= SMALL {
        return prepare_here(code, surroundings);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("prepare".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || prepare_here(code, surroundings));
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(prepared)) => prepared,
            _ => Err(SyntaxProblem {
                message: "the code could not be read".to_owned(),
                line: 1,
                column: 1,
                text: String::new(),
            }),
        }
    })
}

fn prepare_here(code: &str, surroundings: Surroundings<'_>) -> Result<PreparedCode, SyntaxProblem> {
    let (original, parsed) = parse_leniently(code)?;
    let Some(replaced) = imports::without_packs(&original, parsed.syntax(), surroundings.is_pack) else {
        return Ok(prepare_parsed(&original, &parsed, None, surroundings));
    };
    let parsed = ruff_python_parser::parse_module(&replaced.text).map_err(|error| problem(&original, &error))?;
    // In Monty a renamed function returns its value at once, whether awaited or not.
    let need = replaced.renames.then(|| Need::Lacks("tools under other names".to_owned()));
    Ok(PreparedCode { original, ..prepare_parsed(&replaced.text, &parsed, need, surroundings) })
}

/// `async_need` applies only to code that uses `await`.
fn prepare_parsed(
    source: &str,
    parsed: &Parsed<ModModule>,
    async_need: Option<Need>,
    surroundings: Surroundings<'_>,
) -> PreparedCode {
    let facts = Facts::of(parsed.syntax(), source);
    let need = match surroundings.engine {
        Engine::Monty | Engine::CPython => None,
        Engine::Auto => async_need
            .filter(|_| facts.uses_async)
            .or_else(|| full_python::need(parsed.syntax(), &facts, surroundings.is_pack))
            .or_else(|| needs_cpython_in(parsed.syntax())),
    };
    let (engine, fallback) = match (surroundings.engine, &need) {
        (Engine::Monty, _) => (Engine::Monty, FallbackEngine::None),
        (Engine::CPython, _) | (Engine::Auto, Some(Need::Lacks(_))) => (Engine::CPython, FallbackEngine::None),
        (Engine::Auto, Some(Need::Differs(_))) => (Engine::CPython, FallbackEngine::Monty),
        (Engine::Auto, None) => (Engine::Monty, FallbackEngine::CPython),
    };
    let calls = calls::call_sites(parsed.syntax(), source, &facts, surroundings.is_pack);
    let shown = shown::numbered_read(parsed.syntax(), source, &facts);
    let mut single = (engine == Engine::Monty).then(|| single::single(parsed.syntax(), source)).flatten();
    if let (Some(Single::Call(call)), Some(_)) = (&mut single, &shown) {
        call.arguments.named.insert(shown::LINE_NUMBERS.to_owned(), onetool_sdk::Value::Bool(true));
    }
    let called = if surroundings.collect_called { called::called_names(parsed.syntax(), source) } else { Vec::new() };
    let mut edits: Vec<Edit> = shown.into_iter().collect();
    // CPython marks the calls itself.
    if facts.uses_async && engine == Engine::Monty {
        awaited::edits(parsed.syntax(), &facts, surroundings.is_pack, &mut edits);
    }
    if engine == Engine::Monty && !facts.returns_at_top {
        edits.extend(handed_over::edit(parsed.syntax()));
    }
    // Full Python supports a `return` at the top level.
    let (text, line_offset) = if facts.returns_at_top && !surroundings.keeps_names {
        wrapping::as_function(source, parsed, &facts, edits)
    } else if facts.returns_at_top && !facts.ends_with_expression {
        (format!("{}\n{END_REACHED} = True", apply(source, edits)), 0)
    } else {
        (apply(source, edits), 0)
    };
    PreparedCode {
        text,
        original: source.to_owned(),
        line_offset,
        facts,
        calls,
        single,
        called,
        engine,
        need,
        fallback,
    }
}

/// Parses the code; if only the indentation is wrong, fixes it.
fn parse_leniently(code: &str) -> Result<(String, Parsed<ModModule>), SyntaxProblem> {
    let first = match ruff_python_parser::parse_module(code) {
        Ok(parsed) => return Ok((code.to_owned(), parsed)),
        Err(error) => error,
    };
    for candidate in indentation::candidates(code) {
        if let Ok(parsed) = ruff_python_parser::parse_module(&candidate) {
            return Ok((candidate, parsed));
        }
    }
    Err(problem(code, &first))
}

fn problem(code: &str, error: &ParseError) -> SyntaxProblem {
    // If the code ends too early, report its last line rather than the empty place after it.
    let offset = error.location.start().to_usize().min(code.trim_end().len());
    let line_start = code[..offset].rfind('\n').map_or(0, |at| at + 1);
    let text = code[line_start..].lines().next().unwrap_or("");
    SyntaxProblem {
        message: error.error.to_string(),
        line: code[..offset].matches('\n').count() as u32 + 1,
        column: code[line_start..offset].chars().count() as u32 + 1,
        text: text.chars().take(200).collect(),
    }
}

/// A change to the text.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) range: TextRange,
    pub(crate) text: String,
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    if edits.is_empty() {
        return source.to_owned();
    }
    edits.sort_by_key(|edit| edit.range.start());
    let mut out = String::with_capacity(source.len() + 64);
    let mut at = 0;
    for edit in edits {
        let (start, end) = (edit.range.start().to_usize(), edit.range.end().to_usize());
        out.push_str(&source[at..start]);
        out.push_str(&edit.text);
        at = end;
    }
    out.push_str(&source[at..]);
    out
}

/// Byte offsets of lines that begin inside a string, which must not be changed.
pub(crate) fn lines_inside_strings(source: &str, parsed: &Parsed<ModModule>) -> HashSet<usize> {
    let mut inside = HashSet::new();
    for token in parsed.tokens() {
        if !is_string_part(token.kind()) {
            continue;
        }
        let range = token.range();
        let text = &source[range.start().to_usize()..range.end().to_usize()];
        for (at, _) in text.match_indices('\n') {
            inside.insert(range.start().to_usize() + at + 1);
        }
    }
    inside
}

fn is_string_part(kind: ruff_python_ast::token::TokenKind) -> bool {
    use ruff_python_ast::token::TokenKind;
    matches!(
        kind,
        TokenKind::String
            | TokenKind::FStringStart
            | TokenKind::FStringMiddle
            | TokenKind::FStringEnd
            | TokenKind::TStringStart
            | TokenKind::TStringMiddle
            | TokenKind::TStringEnd
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Surroundings<'static> =
        Surroundings { is_pack: &|_| false, engine: Engine::Auto, collect_called: false, keeps_names: false };

    fn prepared(code: &str) -> PreparedCode {
        prepare(
            code,
            Surroundings {
                is_pack: &|name| name == "p",
                engine: Engine::Monty,
                collect_called: false,
                keeps_names: false,
            },
        )
        .unwrap()
    }

    #[test]
    fn indented_code_is_set_right_and_strings_keep_their_text() {
        assert_eq!(prepared("    x = 1\n    x").text, "x = 1\nx");
        assert_eq!(prepared("  s = '''a\n    b\n  c'''\n  s").text, "s = '''a\n    b\n  c'''\ns");
        assert_eq!(prepared("x = 1\n    y = 2\n    y").text, "x = 1\ny = 2\ny");
        assert_eq!(prepared("if 1:\n\tx = 1\n        y = 2\n").text.matches('\t').count(), 0);
        assert_eq!(prepared("  if 1:\n    x = 1\n\n  x").text, "if 1:\n  x = 1\n\nx");
    }

    #[test]
    fn a_return_at_the_top_wraps_the_code() {
        let code = prepared("x = '''a\nb'''\nif x:\n    return 1\nx");
        assert_eq!(code.line_offset, 2);
        assert!(code.text.contains("a\nb'''"), "{}", code.text);
        assert!(code.text.contains("\n return x"), "{}", code.text);
    }

    #[test]
    fn awaited_calls_of_packs_are_marked() {
        let text = |code: &str| prepared(code).text;
        assert_eq!(text("await p.f(1)"), "await p.awaited__f(1)");
        assert_eq!(
            text("import asyncio\nawait asyncio.gather(p.a(), *[p.b(p.c(i)) for i in x])"),
            "import asyncio\nawait asyncio.gather(p.awaited__a(), *[p.awaited__b(p.c(i)) for i in x])"
        );
        assert_eq!(
            text("import asyncio\nts = [p.a(i) for i in x]\nts.append(p.b())\nawait asyncio.gather(*ts)"),
            "import asyncio\nts = [p.awaited__a(i) for i in x]\nts.append(p.awaited__b())\nawait asyncio.gather(*ts)"
        );
        assert_eq!(text("await q.f(p.g())"), "await q.f(p.g())");
        assert_eq!(text("p = 5\nawait p.f()"), "p = 5\nawait p.f()");
        assert_eq!(text("r = p.f()  # await p.f()"), "r = p.f()  # await p.f()");
    }

    #[test]
    fn syntax_errors_name_the_line() {
        let problem = prepare("x = 1\ny = = 2\n", NOTHING).unwrap_err();
        assert_eq!((problem.line, problem.text.as_str()), (2, "y = = 2"));
        let problem = prepare("x = 1\ny = (x +\n\n", NOTHING).unwrap_err();
        assert_eq!((problem.line, problem.text.as_str()), (2, "y = (x +"));
    }

    #[test]
    fn hostile_shapes_do_not_overflow() {
        for code in
            ["1+".repeat(100_000) + "1", "a".to_owned() + &".b".repeat(100_000), "f".to_owned() + &"()".repeat(100_000)]
        {
            let _ = prepare(&code, NOTHING);
        }
        assert!(prepare(&"(".repeat(100_000), NOTHING).is_err());
    }
}
