//! Unified diffs that `git apply` takes.
//!
//! Lines end at `\n` alone, as git sees them, so carriage returns and a missing last newline come through as they are.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{DiffTag, TextDiff};

const CONTEXT_LINES: usize = 3;
/// After this long a larger diff is accepted in place of the smallest.
const EFFORT: Duration = Duration::from_secs(2);

/// The change of the file `name`; `None` on either side is a file that is not there. Empty when nothing changed.
pub(super) fn unified(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let old: Vec<&str> = before.unwrap_or("").split_inclusive('\n').collect();
    let new: Vec<&str> = after.unwrap_or("").split_inclusive('\n').collect();
    let diff = TextDiff::configure().timeout(EFFORT).diff_slices(&old, &new);
    let mut out = String::new();
    let _ = writeln!(out, "--- {}", side("a/", name, before));
    let _ = writeln!(out, "+++ {}", side("b/", name, after));
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_lines = first.old_range().start..last.old_range().end;
        let new_lines = first.new_range().start..last.new_range().end;
        let _ = writeln!(out, "@@ -{} +{} @@", range(&old_lines), range(&new_lines));
        for op in group {
            match op.tag() {
                DiffTag::Equal => push(&mut out, ' ', &old[op.old_range()]),
                DiffTag::Delete => push(&mut out, '-', &old[op.old_range()]),
                DiffTag::Insert => push(&mut out, '+', &new[op.new_range()]),
                DiffTag::Replace => {
                    push(&mut out, '-', &old[op.old_range()]);
                    push(&mut out, '+', &new[op.new_range()]);
                }
            }
        }
    }
    out
}

/// Lines that were added and removed.
pub(super) fn counts(diff: &str) -> (usize, usize) {
    let body = || diff.lines().skip(2);
    (body().filter(|line| line.starts_with('+')).count(), body().filter(|line| line.starts_with('-')).count())
}

fn push(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// `first,count` as diffs write it: an empty range names the line before it.
fn range(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn side(prefix: &str, name: &str, content: Option<&str>) -> String {
    if content.is_none() {
        return "/dev/null".to_owned();
    }
    if name.chars().any(|c| c == '"' || c == '\\' || c.is_control()) {
        return quoted(&format!("{prefix}{name}"));
    }
    // A tab ends a name with spaces, as git itself writes it.
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
