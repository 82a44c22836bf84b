//! Diffs of files, with names in git's format.

use std::fmt::Write as _;

use crate::diff;

/// Returns the diff of the file `name`; `None` on either side means no file. Empty if nothing changed.
pub(super) fn unified(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let (old, new) = (side("a/", name, before), side("b/", name, after));
    let changes = diff::unified((&old, &new), before.unwrap_or(""), after.unwrap_or(""));
    if changes.is_empty() { format!("--- {old}\n+++ {new}\n") } else { changes }
}

/// Numbers of added and removed lines.
pub(super) fn counts(diff: &str) -> (usize, usize) {
    let body = || diff.lines().skip(2);
    (body().filter(|line| line.starts_with('+')).count(), body().filter(|line| line.starts_with('-')).count())
}

fn side(prefix: &str, name: &str, content: Option<&str>) -> String {
    if content.is_none() {
        return "/dev/null".to_owned();
    }
    if name.chars().any(|c| c == '"' || c == '\\' || c.is_control()) {
        return quoted(&format!("{prefix}{name}"));
    }
    // As in git, a tab ends a name that contains spaces.
    let end = if name.contains(' ') { "\t" } else { "" };
    format!("{prefix}{name}{end}")
}

fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                for byte in c.to_string().bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
