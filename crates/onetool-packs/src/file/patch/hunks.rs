//! Applies hunks to a text.
//!
//! A hunk applies at its line number if the text matches there, or else at the only other place that matches; several
//! matches are ambiguous. Context stays as it is in the file; line endings and the end of the file stay unless the
//! patch changes them itself.

use std::cell::Cell;

use super::super::content::Newline;
use super::parse::{Hunk, HunkLine, Kind};

/// Maximum number of matching places that are counted.
const MAX_PLACES: usize = 20;
const BOM: char = '\u{feff}';

/// Why a hunk does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HunkProblem {
    /// The lines do not occur after the previous hunk.
    NotFound,
    /// The lines occur at these places (counted from 1), none of which is at the hunk's line number.
    Ambiguous(Vec<usize>),
    /// Lines to insert, without a position.
    Nowhere,
}

/// Maximum number of line comparisons in the search for a place.
const MAX_COMPARISONS: usize = 100_000_000;

/// How strictly lines are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Exact,
    LineEndings,
    TrailingWhitespace,
}

/// Applies all hunks; an error has the number of the hunk that does not apply.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, (usize, HunkProblem)> {
    let file: Vec<&str> = text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect();
    let mut ended = text.is_empty() || text.ends_with('\n');
    let originally_ended = ended;
    let mut out: Vec<String> = Vec::with_capacity(file.len());
    let mut done = 0;
    let mut shift: isize = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let fit = find(&file, originally_ended, hunk, done, shift).map_err(|misfit| (index, misfit))?;
        out.extend(file[done..fit.start].iter().map(|line| (*line).to_owned()));
        let returns = carriage_returns(text, &file, &fit, hunk);
        let mut at = fit.start;
        for line in &hunk.lines {
            match line.kind {
                Kind::Context => {
                    out.push(file[at].to_owned());
                    at += 1;
                }
                Kind::Removed => at += 1,
                Kind::Added => out.push(match returns {
                    Returns::AsGiven => line.text.clone(),
                    Returns::Never => line.text.trim_end_matches('\r').to_owned(),
                    Returns::Always => format!("{}\r", line.text.trim_end_matches('\r')),
                }),
            }
        }
        done = at;
        if let Some(first) = hunk.old_start {
            shift = fit.start as isize - expected(first, hunk) as isize;
        }
        if done == file.len() {
            let last_new = hunk.lines.iter().rfind(|line| line.kind != Kind::Removed);
            if last_new.is_some_and(|line| line.unended) {
                ended = false;
            } else if hunk.lines.iter().any(|line| line.unended) {
                ended = true;
            }
        }
    }
    out.extend(file[done..].iter().map(|line| (*line).to_owned()));
    // A patch that does not mention the byte order mark does not mean to remove it.
    let aware = hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| line.text.starts_with(BOM));
    if text.starts_with(BOM)
        && !aware
        && let Some(first) = out.first_mut()
        && !first.starts_with(BOM)
    {
        first.insert(0, BOM);
    }
    let mut text = out.join("\n");
    if ended && !out.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

struct Fit {
    start: usize,
    strictness: Strictness,
}

/// How to handle carriage returns in added lines.
enum Returns {
    AsGiven,
    Never,
    Always,
}

fn carriage_returns(text: &str, file: &[&str], fit: &Fit, hunk: &Hunk) -> Returns {
    let has_context = hunk.lines.iter().any(|line| line.kind != Kind::Added);
    if fit.strictness == Strictness::Exact && has_context {
        return Returns::AsGiven;
    }
    let neighbour = file.get(fit.start).or_else(|| file.last());
    let dominant = Newline::dominant(text);
    match (neighbour, dominant) {
        (_, None) => Returns::AsGiven,
        (Some(line), _) if line.ends_with('\r') => Returns::Always,
        (None, Some(Newline::Crlf)) => Returns::Always,
        // A last line without an ending does not decide.
        (Some(_), Some(Newline::Crlf)) if fit.start + 1 >= file.len() => Returns::Always,
        _ => Returns::Never,
    }
}

/// The position of a hunk's line number, from 0. An insertion without context names the line before it.
fn expected(first: usize, hunk: &Hunk) -> usize {
    if hunk.lines.iter().any(|line| line.kind != Kind::Added) { first.saturating_sub(1) } else { first }
}

fn find(file: &[&str], ended: bool, hunk: &Hunk, from: usize, shift: isize) -> Result<Fit, HunkProblem> {
    let old: Vec<&HunkLine> = hunk.lines.iter().filter(|line| line.kind != Kind::Added).collect();
    let named = hunk.old_start.map(|first| expected(first, hunk).saturating_add_signed(shift));
    if old.is_empty() {
        return match named {
            Some(start) if start >= from && start <= file.len() => Ok(Fit { start, strictness: Strictness::Exact }),
            None if file.is_empty() => Ok(Fit { start: 0, strictness: Strictness::Exact }),
            _ => Err(HunkProblem::Nowhere),
        };
    }
    let Some(last) = file.len().checked_sub(old.len()) else { return Err(HunkProblem::NotFound) };
    let compared = Cell::new(0_usize);
    for strictness in [Strictness::Exact, Strictness::LineEndings, Strictness::TrailingWhitespace] {
        let fits = |start: usize| {
            old.iter().enumerate().all(|(offset, line)| {
                let at = start + offset;
                compared.set(compared.get() + 1);
                let at_open_end = at + 1 == file.len() && !ended;
                same(file[at], &line.text, strictness) && (!line.unended || at_open_end)
            })
        };
        if let Some(start) = named
            && start >= from
            && start <= last
            && fits(start)
        {
            return Ok(Fit { start, strictness });
        }
        let places: Vec<usize> = (from..=last)
            .take_while(|_| compared.get() < MAX_COMPARISONS)
            .filter(|start| fits(*start))
            .take(MAX_PLACES)
            .collect();
        match places.as_slice() {
            [] => {}
            [start] => return Ok(Fit { start: *start, strictness }),
            many => return Err(HunkProblem::Ambiguous(many.iter().map(|start| start + 1).collect())),
        }
    }
    Err(HunkProblem::NotFound)
}

fn same(file: &str, patch: &str, strictness: Strictness) -> bool {
    match strictness {
        Strictness::Exact => file == patch,
        Strictness::LineEndings => marked(file).trim_end_matches('\r') == marked(patch).trim_end_matches('\r'),
        Strictness::TrailingWhitespace => marked(file).trim_end() == marked(patch).trim_end(),
    }
}

/// A line without a leading byte order mark.
fn marked(line: &str) -> &str {
    line.strip_prefix(BOM).unwrap_or(line)
}

/// Whether the hunks are already applied.
pub(super) fn is_applied(text: &str, hunks: &[Hunk]) -> bool {
    let reversed: Vec<Hunk> = hunks
        .iter()
        .map(|hunk| Hunk {
            old_start: None,
            at: hunk.at,
            lines: hunk
                .lines
                .iter()
                .map(|line| HunkLine {
                    kind: match line.kind {
                        Kind::Context => Kind::Context,
                        Kind::Removed => Kind::Added,
                        Kind::Added => Kind::Removed,
                    },
                    ..line.clone()
                })
                .collect(),
        })
        .collect();
    !hunks.is_empty() && apply(text, &reversed).is_ok()
}
