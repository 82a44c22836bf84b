//! Line diffs of texts: one algorithm and one format for tools, commands and the admin page.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
pub use similar::{DiffOp, DiffTag};

const CONTEXT_LINES: usize = 3;
/// After this long, a unified diff may be larger than necessary.
const EFFORT: Duration = Duration::from_secs(2);

/// The text's lines, each with the `\n` that ends it.
pub fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Computes the changes from `old` to `new`. After `effort`, more changes than necessary are accepted.
pub fn changes(old: &[&str], new: &[&str], effort: Duration) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let deadline = Some(Instant::now() + effort);
    let Ok(()) = myers::diff_deadline(&mut found, old, 0..old.len(), new, 0..new.len(), deadline);
    found.into_inner().into_inner().into_ops()
}

/// Returns a unified diff that `git apply` accepts; `names` are those of the two sides. Empty if nothing changed.
///
/// Only `\n` ends a line, as in git, so carriage returns and a missing last newline are preserved.
pub fn unified(names: (&str, &str), before: &str, after: &str) -> String {
    let (old, new) = (lines(before), lines(after));
    let mut out = format!("--- {}\n+++ {}\n", names.0, names.1);
    let head = out.len();
    for group in similar::group_diff_ops(changes(&old, &new, EFFORT), CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_lines = first.old_range().start..last.old_range().end;
        let new_lines = first.new_range().start..last.new_range().end;
        let _ = writeln!(out, "@@ -{} +{} @@", range(&old_lines), range(&new_lines));
        for op in group {
            if op.tag() == DiffTag::Equal {
                push(&mut out, ' ', &old[op.old_range()]);
                continue;
            }
            push(&mut out, '-', &old[op.old_range()]);
            push(&mut out, '+', &new[op.new_range()]);
        }
    }
    if out.len() == head { String::new() } else { out }
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

/// Formats `first,count` as in diffs: an empty range names the line before it.
fn range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}
