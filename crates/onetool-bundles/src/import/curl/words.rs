//! Splits a command like a shell. Nothing is expanded: names of shell variables stay, between [`OPEN`] and [`CLOSE`].

use std::iter::Peekable;
use std::str::Chars;

/// Delimit the name of a shell variable. They are removed from the input first, so they are never part of its text.
pub(super) const OPEN: char = '\u{e0f0}';
pub(super) const CLOSE: char = '\u{e0f1}';

/// The words of one command, and what follows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) words: Vec<String>,
    /// A pipe or a redirection, as written.
    pub(super) rest: Option<String>,
}

pub(super) fn split(line: &str) -> Result<Words, String> {
    let line: String = line.trim().chars().filter(|c| !matches!(*c, OPEN | CLOSE)).collect();
    refuse_other_shells(&line)?;
    let mut words = Words::default();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_with(String::new);
                loop {
                    match chars.next().ok_or_else(open_quote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_with(String::new))?,
            '$' if chars.peek() == Some(&'\'') => {
                chars.next();
                ansi(&mut chars, word.get_or_insert_with(String::new))?;
            }
            '$' => variable(&mut chars, word.get_or_insert_with(String::new))?,
            '`' => return Err(substitution()),
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some('\r') => {
                    chars.next_if_eq(&'\n');
                }
                Some(c) => word.get_or_insert_with(String::new).push(c),
            },
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '|' | '>' if c == '|' || word.as_deref().is_none_or(is_descriptor) => {
                let descriptor = word.take().filter(|_| c == '>').unwrap_or_default();
                let after: String = chars.by_ref().collect();
                words.rest = Some(format!("{descriptor}{c}{after}").trim().to_owned());
            }
            '<' if word.is_none() => return Err(ends(c)),
            ';' | '&' if word.is_none() || chars.peek().is_none_or(|next| next.is_whitespace() || *next == '&') => {
                if chars.any(|c| !c.is_whitespace()) {
                    return Err(ends(c));
                }
            }
            c if c.is_whitespace() => words.words.extend(word.take()),
            c => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.words.extend(word);
    Ok(words)
}

/// Restores the shell variables of a text as they were written.
pub(super) fn literal(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            OPEN => Some('$'),
            CLOSE => None,
            c => Some(c),
        })
        .collect()
}

/// Refuses commands for Windows shells, which browsers can copy too.
fn refuse_other_shells(line: &str) -> Result<(), String> {
    let continued = |mark: &str| line.contains(&format!("{mark}\n")) || line.contains(&format!("{mark}\r\n"));
    if continued(" ^") || line.contains("^\"") {
        return Err("the command is written for cmd; copy it as cURL (bash)".to_owned());
    }
    if continued(" `") {
        return Err("the command is written for PowerShell; copy it as cURL (bash)".to_owned());
    }
    Ok(())
}

fn is_descriptor(word: &str) -> bool {
    matches!(word, "1" | "2")
}

fn ends(c: char) -> String {
    format!("'{c}' ends a command; give one curl command alone")
}

fn open_quote() -> String {
    "a quote is not closed".to_owned()
}

fn substitution() -> String {
    "the command runs another one ($(…)); write its value out".to_owned()
}

fn double_quoted(chars: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), String> {
    loop {
        match chars.next().ok_or_else(open_quote)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or_else(open_quote)? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                '\n' => {}
                c => word.extend(['\\', c]),
            },
            '$' => variable(chars, word)?,
            '`' => return Err(substitution()),
            c => word.push(c),
        }
    }
}

/// Parses the rest of `$NAME` or `${NAME}` after the `$`.
fn variable(chars: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), String> {
    let is_first = |c: &char| c.is_ascii_alphabetic() || *c == '_';
    let is_next = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let in_braces = match chars.peek() {
        Some('(') => return Err(substitution()),
        Some('{') => {
            let mut ahead = chars.clone();
            ahead.next();
            ahead.peek().is_some_and(is_first)
        }
        Some(c) if is_first(c) => false,
        _ => {
            word.push('$');
            return Ok(());
        }
    };
    if in_braces {
        chars.next();
    } else if chars.peek() == Some(&'{') {
        word.push('$');
        return Ok(());
    }
    word.push(OPEN);
    while let Some(c) = chars.next_if(is_next) {
        word.push(c);
    }
    word.push(CLOSE);
    if in_braces {
        // Skip `:-default` and similar.
        chars.find(|c| *c == '}').ok_or("'${' is not closed")?;
    }
    Ok(())
}

/// Parses `$'…'`, which browsers emit.
fn ansi(chars: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), String> {
    loop {
        let c = chars.next().ok_or_else(open_quote)?;
        if c == '\'' {
            return Ok(());
        }
        if c != '\\' {
            word.push(c);
            continue;
        }
        let made = match chars.next().ok_or_else(open_quote)? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => character(code(chars, 16, 2)),
            'u' => unicode(chars),
            'U' => character(code(chars, 16, 8)),
            first @ '0'..='7' => {
                let first = first.to_digit(8).unwrap_or_default();
                let more: Vec<u32> = std::iter::from_fn(|| digit(chars, 8)).take(2).collect();
                character(more.iter().fold(first, |code, digit| code * 8 + digit))
            }
            other => other,
        };
        word.push(made);
    }
}

/// Parses four hex digits after `\u`; characters outside the BMP are surrogate pairs.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> char {
    let first = code(chars, 16, 4);
    if !(0xd800..0xdc00).contains(&first) {
        return character(first);
    }
    let mut ahead = chars.clone();
    if ahead.next() != Some('\\') || ahead.next() != Some('u') {
        return char::REPLACEMENT_CHARACTER;
    }
    let second = code(&mut ahead, 16, 4);
    if !(0xdc00..0xe000).contains(&second) {
        return char::REPLACEMENT_CHARACTER;
    }
    *chars = ahead;
    character(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn character(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn digit(chars: &mut Peekable<Chars<'_>>, radix: u32) -> Option<u32> {
    chars.next_if(|c| c.is_digit(radix))?.to_digit(radix)
}

fn code(chars: &mut Peekable<Chars<'_>>, radix: u32, most: usize) -> u32 {
    let digits: Vec<u32> = std::iter::from_fn(|| digit(chars, radix)).take(most).collect();
    digits.iter().fold(0_u32, |code, digit| code.wrapping_mul(radix).wrapping_add(*digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap().words
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(words(r#"a 'b c' "d \"e\" \n" f\ g ''"#), ["a", "b c", "d \"e\" \\n", "f g", ""]);
        assert_eq!(words("a \\\n  b \\\r\n c # d\n e"), ["a", "b", "c", "e"]);
        assert_eq!(words(r"$'\x41bc \u00e9\u0021 \uD83D\uDE00 \101 it\'s\n'"), ["Abc é! 😀 A it's\n"]);
        let shown: Vec<String> =
            words(r#"$A "b${C_1}d" '$E' "\$F" $1 ${G:-h}i"#).iter().map(|word| literal(word)).collect();
        assert_eq!(shown, ["$A", "b$C_1d", "$E", "$F", "$1", "$Gi"]);
        assert_eq!(words("$A")[0], format!("{OPEN}A{CLOSE}"));
        assert_eq!(words("'$E'")[0], "$E");
    }

    #[test]
    fn what_follows_a_command_is_kept_apart() {
        let piped = split("curl x | jq '.a'").unwrap();
        assert_eq!((piped.words.len(), piped.rest.as_deref()), (2, Some("| jq '.a'")));
        assert_eq!(split("curl x 2>/dev/null").unwrap().rest.as_deref(), Some("2>/dev/null"));
        assert_eq!(words("curl x?a=1&b=2"), ["curl", "x?a=1&b=2"]);
        for (bad, part) in [
            ("curl x; rm y", "ends a command"),
            ("curl x && y", "ends a command"),
            ("curl $(id)", "another one"),
            ("curl \"`id`\"", "another one"),
            ("curl ^\"https://x^\" ^\n -H ^\"a: b^\"", "cmd"),
            ("curl `\n x `\n", "PowerShell"),
            ("curl 'x", "not closed"),
            ("curl $'x", "not closed"),
        ] {
            let error = split(bad).map(|_| ()).map_err(|error| error.contains(part));
            assert!(error == Err(true), "{bad}");
        }
    }
}
