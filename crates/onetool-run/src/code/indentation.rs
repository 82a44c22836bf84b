//! Repairs wrong indentation: all lines indented, only the first line not indented, or tabs and spaces mixed.

use ruff_python_ast::{Mod, PySourceType};
use ruff_python_parser::{ParseOptions, Parsed};

use super::lines_inside_strings;

/// Returns texts to try instead, the most likely first.
pub(super) fn candidates(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |text: String| {
        if text != code && !found.contains(&text) {
            found.push(text);
        }
    };
    for width in [None, Some(4), Some(8)] {
        let text = width.map_or_else(|| code.to_owned(), |width| expand_tabs(code, width));
        add(dedent(&text, FirstLine::Counts));
        add(dedent(&text, FirstLine::LostItsIndentation));
        add(text);
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstLine {
    Counts,
    LostItsIndentation,
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Removes the indentation that all lines share. Lines inside strings are left alone.
fn dedent(code: &str, first_line: FirstLine) -> String {
    let inside = string_lines(code);
    let mut lines: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        lines.push((at, line));
        at += line.len();
    }
    let skip = usize::from(first_line == FirstLine::LostItsIndentation);
    let common = lines
        .iter()
        .filter(|(_, line)| !line.trim().is_empty())
        .skip(skip)
        .filter(|(at, _)| !inside.contains(at))
        .map(|(_, line)| indentation(line))
        .reduce(|a, b| {
            let shared = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
            &a[..shared]
        })
        .unwrap_or("");
    if common.is_empty() {
        return code.to_owned();
    }
    lines
        .into_iter()
        .map(|(at, line)| {
            if inside.contains(&at) {
                return line;
            }
            line.strip_prefix(common).unwrap_or_else(|| {
                let body = line.trim_start_matches([' ', '\t']);
                if body.trim().is_empty() { body } else { line }
            })
        })
        .collect()
}

/// Offsets of lines that begin inside a string. The code does not parse as it is, so it is parsed as the body of a
/// block.
fn string_lines(code: &str) -> std::collections::HashSet<usize> {
    const HEAD: &str = "if 1:\n";
    let wrapped = format!("{HEAD}{code}");
    let parsed: Parsed<Mod> = ruff_python_parser::parse_unchecked(&wrapped, ParseOptions::from(PySourceType::Python));
    match parsed.try_into_module() {
        Some(module) => {
            lines_inside_strings(&wrapped, &module).into_iter().filter_map(|at| at.checked_sub(HEAD.len())).collect()
        }
        None => std::collections::HashSet::new(),
    }
}

/// Expands leading tabs to spaces, up to the next multiple of `width`.
fn expand_tabs(code: &str, width: usize) -> String {
    let inside = string_lines(code);
    let mut out = String::with_capacity(code.len() + 16);
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        if inside.contains(&at) {
            out.push_str(line);
        } else {
            let lead = indentation(line);
            let mut column = 0;
            for c in lead.chars() {
                column = if c == '\t' { (column / width + 1) * width } else { column + 1 };
            }
            out.extend(std::iter::repeat_n(' ', column));
            out.push_str(&line[lead.len()..]);
        }
        at += line.len();
    }
    out
}
