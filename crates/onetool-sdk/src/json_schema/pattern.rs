//! Patterns: translates ECMAScript regular expressions for engines that interpret some syntax differently.
//!
//! `\d`, `\w` and `\s` are expanded; `[`, `&&`, `--` and `~~`, which engines interpret inside classes, are escaped;
//! control escapes become characters. Most patterns run in linear time; only those with look-around or back-references
//! may backtrack, a limited number of times.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use regex_syntax::ast::{ErrorKind, parse::Parser};

/// Maximum backtracking steps before a match counts as unfinished.
const MAX_BACKTRACKING: usize = 100_000;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

const DIGITS: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\x09-\x0d\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The pattern as written in the schema.
    source: Box<str>,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    /// `^text`
    Prefix(Box<str>),
    /// `^text$`
    Exact(Box<str>),
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// A match that was abandoned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfinished;

impl Pattern {
    /// Returns `None` if the pattern is invalid or too large.
    pub(super) fn new(source: &str) -> Option<Self> {
        let engine = match literal(source) {
            Some(engine) => engine,
            None => compile(source)?,
        };
        Some(Self { source: source.into(), engine })
    }

    pub(super) fn is_match(&self, text: &str) -> Result<bool, Unfinished> {
        // The engine panics for a few patterns (https://github.com/rust-lang/regex/issues/1344).
        match &self.engine {
            Engine::Prefix(prefix) => Ok(text.starts_with(&**prefix)),
            Engine::Exact(exact) => Ok(*text == **exact),
            Engine::Linear(regex) => catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).map_err(|_| Unfinished),
            Engine::Backtracking(regex) => match catch_unwind(AssertUnwindSafe(|| regex.is_match(text))) {
                Ok(Ok(is_match)) => Ok(is_match),
                Ok(Err(_)) | Err(_) => Err(Unfinished),
            },
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn backtracks(&self) -> bool {
        matches!(self.engine, Engine::Backtracking(_))
    }
}

/// Most patterns for keys are plain text with an anchor, which is compared far faster than an engine is built.
fn literal(source: &str) -> Option<Engine> {
    let rest = source.strip_prefix('^')?;
    let (rest, is_exact) = rest.strip_suffix('$').map_or((rest, false), |rest| (rest, true));
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/'));
    is_plain.then(|| if is_exact { Engine::Exact(rest.into()) } else { Engine::Prefix(rest.into()) })
}

fn compile(source: &str) -> Option<Engine> {
    let pattern = prepared(source)?;
    match Parser::new().parse(&pattern) {
        Ok(_) => {
            let translated = with_classes_spelled_out(&pattern)?;
            let regex = regex::RegexBuilder::new(&translated).size_limit(MAX_PATTERN_BYTES).build().ok()?;
            Some(Engine::Linear(regex))
        }
        Err(error)
            if matches!(error.kind(), ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference) =>
        {
            let regex = fancy_regex::RegexBuilder::new(&pattern)
                .backtrack_limit(MAX_BACKTRACKING)
                .delegate_size_limit(MAX_PATTERN_BYTES)
                .build()
                .ok()?;
            Some(Engine::Backtracking(Box::new(regex)))
        }
        Err(_) => None,
    }
}

/// The position within a class.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    /// After an atom that may start a range.
    AfterAtom,
    /// After a class such as `\w`, which cannot.
    AfterClass,
    /// After the hyphen of a range.
    RangeEnd,
}

/// Returns the pattern with control escapes as characters, and with everything escaped that only the engine would
/// interpret as class syntax.
fn prepared(source: &str) -> Option<Cow<'_, str>> {
    if !source.contains('[') && !source.contains("\\c") {
        return Some(Cow::Borrowed(source));
    }
    let mut out = String::with_capacity(source.len() + 8);
    let mut class: Option<Place> = None;
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\\' {
            let escaped = rest.next();
            match escaped {
                Some('c') => {
                    let letter = rest.next().filter(char::is_ascii_alphabetic)?;
                    out.push(char::from(letter as u8 % 32));
                }
                Some(escaped) => out.extend([c, escaped]),
                None => out.push(c),
            }
            class = class.map(|place| match escaped {
                Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => Place::AfterClass,
                _ => after_atom(place),
            });
            continue;
        }
        let Some(place) = class else {
            out.push(c);
            if c == '[' {
                class = Some(Place::Start);
                if rest.peek() == Some(&'^') {
                    out.extend(rest.next());
                }
            }
            continue;
        };
        let next = rest.peek().copied();
        class = match c {
            ']' => {
                out.push(c);
                None
            }
            '[' => {
                out.push_str("\\[");
                Some(after_atom(place))
            }
            '-' if place == Place::AfterClass && next == Some('-') => {
                rest.next();
                out.push_str("\\-\\-");
                Some(Place::AfterAtom)
            }
            '-' if matches!(place, Place::AfterAtom | Place::AfterClass) && next.is_some_and(|next| next != ']') => {
                out.push(c);
                Some(Place::RangeEnd)
            }
            '-' if next == Some('-') || out.ends_with('-') => {
                out.push_str("\\-");
                Some(after_atom(place))
            }
            '&' | '~' if next == Some(c) => {
                rest.next();
                out.extend(['\\', c, '\\', c]);
                Some(after_atom(place))
            }
            _ => {
                out.push(c);
                Some(after_atom(place))
            }
        };
    }
    Some(Cow::Owned(out))
}

fn after_atom(place: Place) -> Place {
    if place == Place::RangeEnd { Place::Start } else { Place::AfterAtom }
}

/// Returns `None` for `\a`, which ECMAScript does not have.
fn with_classes_spelled_out(pattern: &str) -> Option<Cow<'_, str>> {
    if !pattern.contains('\\') {
        return Some(Cow::Borrowed(pattern));
    }
    let mut out = String::with_capacity(pattern.len() + 32);
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                let Some(escaped) = rest.next() else { break };
                let (is_negated, members) = match escaped {
                    'd' | 'D' => (escaped == 'D', DIGITS),
                    'w' | 'W' => (escaped == 'W', WORD),
                    's' | 'S' => (escaped == 'S', SPACE),
                    'a' if !in_class => return None,
                    _ => {
                        out.extend(['\\', escaped]);
                        continue;
                    }
                };
                out.push_str(if is_negated { "[^" } else { "[" });
                out.push_str(members);
                out.push(']');
            }
            '[' => {
                in_class = true;
                out.push(c);
            }
            ']' => {
                in_class = false;
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_ecmascript_means() {
        for (pattern, text, expected) in [
            (r"^\d$", "٣", false),
            (r"^\w$", "é", false),
            (r"^\s$", "\u{feff}", true),
            (r"^\S$", "\u{a0}", false),
            (r"^[\d-]$", "-", true),
            (r"^[a-z&&^b]+$", "b&", true),
            (r"^[a-z--b]$", "0", true),
            (r"^[\w--z]$", "-", true),
            (r"^[[a]$", "[", true),
            (r"^[^\s]$", "x", true),
            (r"\cJ", "\n", true),
            (r"^\p{L}+$", "né", true),
            (r"^(?!a)b", "b", true),
            (r"^(a)\1$", "aa", true),
            ("^x-", "x-a", true),
            ("^x$", "xy", false),
            ("a.c", "xabcx", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().is_match(text), Ok(expected), "{pattern} {text}");
        }
        for bad in ["(", "[", "a{3,2}", "\\", r"\c", r"\c1", r"[a-\w]", r"\a", "*", r"\m", "x{1000}{1000}{1000}"] {
            assert!(Pattern::new(bad).is_none(), "{bad}");
        }
    }
}
