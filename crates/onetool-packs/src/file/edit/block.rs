//! Replaces lines that were found by a looser match.
//!
//! Lines that the caller did not change stay byte for byte; new lines get the file's indentation instead of the
//! caller's. Pairs of old and found lines show how the one translates to the other.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::view::View;
use crate::diff::{self, DiffOp};

/// After this long, fewer lines are recognised as unchanged.
const EFFORT: Duration = Duration::from_secs(1);

/// Returns the text that replaces the lines `found` when `old` should become `new`, and its range. Both lists are lines
/// without endings; `old` is as long as `found`.
pub(super) fn replacement(view: &View<'_>, found: Range<usize>, old: &[&str], new: &[&str]) -> (Range<usize>, String) {
    let range = view.lines[found.start].start..view.lines[found.end - 1].end;
    if new.is_empty() {
        return (whole_lines(view, &found, range), String::new());
    }
    let newline = view.newline_for(&range).map_or("\n", super::super::content::Newline::text);
    let pairs: Vec<(usize, &str, &str)> = found
        .clone()
        .zip(old)
        .enumerate()
        .filter(|(_, (index, line))| !line.trim().is_empty() && !view.line(*index).trim().is_empty())
        .map(|(position, (index, line))| (position, indent(line), indent(view.line(index))))
        .collect();
    let translation = Translation { pairs: &pairs, units: units(view, &pairs, new) };
    let mut pieces: Vec<(String, &str)> = Vec::with_capacity(new.len());
    let trimmed_old: Vec<&str> = old.iter().map(|line| line.trim_end()).collect();
    let trimmed_new: Vec<&str> = new.iter().map(|line| line.trim_end()).collect();
    for op in diff::changes(&trimmed_old, &trimmed_new, EFFORT) {
        if let DiffOp::Equal { old_index, len, .. } = op {
            for position in old_index..old_index + len {
                let index = found.start + position;
                let ending = view.ending(index).map_or(newline, super::super::content::Newline::text);
                pieces.push((view.line(index).to_owned(), ending));
            }
            continue;
        }
        for line in &new[op.new_range()] {
            pieces.push((translation.apply(line, op.old_range().start), newline));
        }
    }
    let mut text = String::new();
    let last = pieces.len() - 1;
    for (position, (line, ending)) in pieces.iter().enumerate() {
        text.push_str(line);
        if position < last {
            text.push_str(ending);
        }
    }
    (range, text)
}

/// Extends the range by one newline: the one after the lines, or the one before them at the end of a file without one.
fn whole_lines(view: &View<'_>, found: &Range<usize>, range: Range<usize>) -> Range<usize> {
    if range.end < view.text.len() {
        range.start..range.end + 1
    } else if found.start > 0 {
        range.start - 1..range.end
    } else {
        range
    }
}

pub(super) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Translates the caller's indentation to the file's.
struct Translation<'a> {
    /// Position, the caller's indentation, the file's.
    pairs: &'a [(usize, &'a str, &'a str)],
    /// One level of the caller's indentation and of the file's, if they differ.
    units: Option<(usize, String)>,
}

impl Translation<'_> {
    /// `line` with the file's indentation; `near` is the old line that it replaces or follows.
    fn apply(&self, line: &str, near: usize) -> String {
        let wanted = indent(line);
        let content = &line[wanted.len()..];
        if content.trim().is_empty() || self.pairs.is_empty() {
            return line.to_owned();
        }
        let distance = |position: usize| position.abs_diff(near);
        // The nearest line with the same indentation, or else the one with the longest common indentation.
        let base = self
            .pairs
            .iter()
            .filter(|(_, old, _)| wanted.starts_with(old))
            .max_by_key(|(position, old, _)| (old.len(), usize::MAX - distance(*position)));
        if let Some((_, old, file)) = base {
            return format!("{file}{}{content}", self.levels(&wanted[old.len()..]));
        }
        // Less indented than every old line: remove the difference from the file's indentation.
        let deeper =
            self.pairs.iter().filter(|(_, old, _)| old.starts_with(wanted)).min_by_key(|(_, old, _)| old.len());
        if let Some((_, old, file)) = deeper {
            let missing = self.levels(&old[wanted.len()..]);
            return format!("{}{content}", file.strip_suffix(missing.as_str()).unwrap_or(""));
        }
        line.to_owned()
    }

    fn levels(&self, rest: &str) -> String {
        let Some((width, unit)) = &self.units else { return rest.to_owned() };
        if !rest.chars().all(|c| c == ' ' || c == '\t') {
            return rest.to_owned();
        }
        let columns = rest.chars().count();
        format!("{}{}", unit.repeat(columns / width), " ".repeat(columns % width))
    }
}

/// One level on either side: from two pairs of different depth, or else from the indentation of the new lines and of
/// the whole file.
fn units(view: &View<'_>, pairs: &[(usize, &str, &str)], new: &[&str]) -> Option<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (_, old, file) in pairs {
        for (_, deeper_old, deeper_file) in pairs {
            let (Some(step), Some(file_step)) = (deeper_old.strip_prefix(*old), deeper_file.strip_prefix(*file)) else {
                continue;
            };
            if !step.is_empty() && !file_step.is_empty() {
                steps.push((step.chars().count(), file_step.to_owned()));
            }
        }
    }
    steps.sort();
    if let Some((width, unit)) = steps.into_iter().next() {
        return Some(reduced(width, unit));
    }
    let caller = common_step(new.iter().copied())?;
    let file = common_step((0..view.lines.len()).map(|index| view.line(index)))?;
    (caller != file).then(|| reduced(caller.chars().count(), file.to_owned()))
}

/// Reduces the ratio to its smallest numbers, so that a step of two levels still yields one level.
fn reduced(width: usize, unit: String) -> (usize, String) {
    let uniform = unit.bytes().all(|byte| byte == b' ') || unit.bytes().all(|byte| byte == b'\t');
    let length = unit.len();
    match (1..=width).rev().find(|divisor| width.is_multiple_of(*divisor) && length.is_multiple_of(*divisor)) {
        Some(divisor) if uniform => (width / divisor, unit[..length / divisor].to_owned()),
        _ => (width, unit),
    }
}

/// The most frequent increase of indentation from one line to the next.
fn common_step<'l>(lines: impl Iterator<Item = &'l str>) -> Option<&'l str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut previous: Option<&str> = None;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let own = indent(line);
        if let Some(step) = previous.and_then(|previous| own.strip_prefix(previous))
            && !step.is_empty()
        {
            *counts.entry(step).or_default() += 1;
        }
        previous = Some(own);
    }
    counts.into_iter().max_by_key(|(step, count)| (*count, usize::MAX - step.len())).map(|(step, _)| step)
}
