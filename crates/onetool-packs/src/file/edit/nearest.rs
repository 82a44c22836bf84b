//! Finds the places that are most similar to a text that was not found, to show them to the caller.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::ladder::line_similarity;
use super::view::View;
use crate::lines::{clip, push_numbered};

const MAX_CANDIDATES: usize = 3;
/// Maximum number of candidates that are compared line by line.
const MAX_COMPARED: usize = 12;
/// Files with more lines are compared by equal lines only.
const MAX_LINES_COMPARED: usize = 50_000;
const MAX_SHOWN_LINES: usize = 12;
const MAX_SHOWN_CHARS: usize = 200;
const MIN_SIMILARITY: f64 = 0.4;

/// The nearest places with their line numbers; `None` if nothing is similar.
pub(in crate::file) fn describe(raw: &str, old: &str) -> Option<String> {
    let view = View::new(raw);
    let old = old.replace("\r\n", "\n");
    let old: Vec<&str> = old.trim_matches('\n').split('\n').collect();
    let candidates = candidates(&view, &old);
    let (best, _) = candidates.first()?;
    let mut out = format!("the nearest text is {:.0} % alike:", best * 100.0);
    for (index, (similarity, start)) in candidates.iter().enumerate() {
        if index > 0 {
            let _ = write!(out, "{:.0} % alike:", similarity * 100.0);
        }
        out.push('\n');
        let end = (start + old.len()).min(view.lines.len());
        for line in (*start..end).take(MAX_SHOWN_LINES) {
            let text = view.line(line);
            push_numbered(&mut out, line as u64 + 1, &clip(text, text.len() as u64, MAX_SHOWN_CHARS));
        }
    }
    Some(out.trim_end().to_owned())
}

/// The start of a line, long enough to compare lines.
fn start_of(line: &str) -> &str {
    let line = line.trim();
    &line[..line.floor_char_boundary(MAX_SHOWN_CHARS)]
}

fn candidates(view: &View<'_>, old: &[&str]) -> Vec<(f64, usize)> {
    let longest = (0..old.len()).max_by_key(|index| old[*index].trim().len()).unwrap_or(0);
    let known: HashSet<&str> = old.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let compare = view.lines.len() <= MAX_LINES_COMPARED;
    // A rough score: the most distinctive line against each line, and how many others are equal.
    let mut rough: Vec<(f64, usize)> = (0..view.lines.len())
        .filter(|index| *index >= longest)
        .map(|index| {
            let start = index - longest;
            let telling =
                if compare { strsim::sorensen_dice(start_of(old[longest]), start_of(view.line(index))) } else { 0.0 };
            let same = (start..(start + old.len()).min(view.lines.len()))
                .take(MAX_SHOWN_LINES)
                .filter(|line| known.contains(view.line(*line).trim()))
                .count();
            (telling + same as f64 / old.len().min(MAX_SHOWN_LINES) as f64, start)
        })
        .collect();
    rough.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut exact: Vec<(f64, usize)> = rough
        .into_iter()
        .take(MAX_COMPARED)
        .map(|(_, start)| {
            let sum: f64 = (0..old.len())
                .take(MAX_SHOWN_LINES)
                .map(|offset| match start + offset {
                    line if line < view.lines.len() => line_similarity(old[offset], view.line(line)),
                    _ => 0.0,
                })
                .sum();
            (sum / old.len().min(MAX_SHOWN_LINES) as f64, start)
        })
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    exact.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut apart: Vec<(f64, usize)> = Vec::new();
    for candidate in exact {
        if apart.iter().all(|(_, start)| start.abs_diff(candidate.1) >= old.len()) {
            apart.push(candidate);
        }
    }
    apart.truncate(MAX_CANDIDATES);
    apart
}
