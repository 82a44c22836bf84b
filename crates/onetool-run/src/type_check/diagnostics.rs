//! From what the type checker says to the kinds of arguments: only those that are certain.

use onetool_sandbox::Finding;

use super::Kind;
use super::stubs::NOTHING_FITS;
use crate::code::Place;

/// What the checker says where an argument does not fit.
const ARGUMENT_RULE: &str = "invalid-argument-type";

/// The kinds of the arguments that the stubs ask for, by place and in the text's order.
pub(super) fn argument_kinds(findings: &[Finding]) -> Vec<(Place, Kind)> {
    let question = format!("Expected `{NOTHING_FITS}`, found `");
    findings
        .iter()
        .filter(|finding| finding.rule == ARGUMENT_RULE)
        .filter_map(|finding| {
            let (_, told) = finding.message.split_once(&question)?;
            let place = Place { line: finding.line, column: finding.column };
            Some((place, kind(told.strip_suffix('`')?)?))
        })
        .collect()
}

/// The kind of a type as the checker writes it; `None` for a union, for anything unknown, and for what becomes text on
/// its way to a tool or may do so.
fn kind(told: &str) -> Option<Kind> {
    match told {
        "str" | "LiteralString" => return Some(Kind::Text),
        "int" => return Some(Kind::Integer),
        // The star marks a float that is certainly no int.
        "float" | "float*" => return Some(Kind::Float),
        "bool" => return Some(Kind::Truth),
        _ => {}
    }
    let (name, inner) = told.split_once('[')?;
    let inner = inner.strip_suffix(']').filter(|inner| is_balanced(inner))?;
    match name {
        "Literal" => literal_kind(inner),
        "list" | "tuple" | "set" | "frozenset" => Some(Kind::List),
        "dict" => Some(Kind::Dict),
        _ => None,
    }
}

/// Whether no bracket is closed that was not opened: `int] | list[int` is the inside of a union.
fn is_balanced(inner: &str) -> bool {
    let mut depth = 0_usize;
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            '"' => skip_text(&mut rest),
            _ => {}
        }
    }
    depth == 0
}

/// Goes on behind the closing quote.
fn skip_text(rest: &mut std::str::Chars<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '"' => return,
            _ => {}
        }
    }
}

/// The one kind of all the values of a `Literal[…]`.
fn literal_kind(values: &str) -> Option<Kind> {
    let mut found: Option<Kind> = None;
    let mut rest = values;
    while !rest.is_empty() {
        let (kind, after) = if let Some(text) = rest.strip_prefix('"') {
            let mut chars = text.chars();
            skip_text(&mut chars);
            (Kind::Text, chars.as_str())
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let kind = match &rest[..end] {
                "True" | "False" => Kind::Truth,
                number if number.parse::<i64>().is_ok() => Kind::Integer,
                _ => return None,
            };
            (kind, &rest[end..])
        };
        if found.is_some_and(|found| found != kind) {
            return None;
        }
        found = Some(kind);
        rest = match after.strip_prefix(", ") {
            Some(after) => after,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(column: u32, rule: &str, message: &str) -> Finding {
        Finding { line: 1, column, rule: rule.to_owned(), message: message.to_owned() }
    }

    fn told(column: u32, found: &str) -> Finding {
        let message = format!(
            "Argument to bound method `_Tool.__call__` is incorrect: Expected `{NOTHING_FITS}`, found `{found}`"
        );
        finding(column, ARGUMENT_RULE, &message)
    }

    #[test]
    fn plain_types_are_certain() {
        for (text, expected) in [
            ("int", Kind::Integer),
            ("float*", Kind::Float),
            ("bool", Kind::Truth),
            ("LiteralString", Kind::Text),
            ("Literal[5]", Kind::Integer),
            ("Literal[-5, 7]", Kind::Integer),
            ("Literal[True]", Kind::Truth),
            (r#"Literal["a, [b", "c\"]"]"#, Kind::Text),
            ("list[int | str]", Kind::List),
            ("tuple[Literal[1], Literal[2]]", Kind::List),
            ("tuple[()]", Kind::List),
            (r#"dict[str, Literal["]"]]"#, Kind::Dict),
            ("set[Unknown]", Kind::List),
        ] {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "int | str",
            "Unknown | None",
            "Any",
            "None",
            "Literal[5, \"s\"]",
            "Literal[5] | str",
            "list[int] | list[str]",
            "list[int] | None",
            "Literal[b\"\"]",
            "bytes",
            "Path",
            "date",
            "range",
            "A",
            "<class 'list'>",
            "() -> Literal[5]",
            "int & ~AlwaysFalsy",
            "dict_items[str, int]",
            "enumerate[int]",
            "Literal[99999999999999999999]",
            "type[int]",
            "",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn only_answers_to_our_question_count() {
        let findings = [
            finding(1, "unresolved-reference", "Name `x` used when not defined"),
            told(3, "int"),
            told(5, "int | str"),
            finding(7, ARGUMENT_RULE, "Argument to bound method `append` is incorrect: Expected `int`, found `str`"),
            finding(8, "unresolved-attribute", "Object of type `int` has no attribute `x`"),
            told(9, "list[int]"),
        ];
        let place = |column| Place { line: 1, column };
        assert_eq!(argument_kinds(&findings), [(place(3), Kind::Integer), (place(9), Kind::List)]);
    }
}
