//! Finds the text that a caller means, from an exact match to increasingly loose ones.
//!
//! Each step either finds the text once (or as often as the caller expects) or passes on to the next. A step that finds
//! it more often than expected ends the search, because a looser one could only guess. The last step compares by
//! similarity, and requires a match that is similar enough and clearly better than any other.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use super::block::{self, indent};
use super::view::View;

/// Looser steps require at least this many non-space characters.
const MIN_SOLID_CHARS: usize = 3;
/// If a new text of at least this length is already present, the edit was applied before.
const MIN_APPLIED_CHARS: usize = 8;
const MIN_ANCHORED_LINES: usize = 3;
/// Minimum similarity of the lines between the anchors, on average and each.
const MIN_SIMILARITY: f64 = 0.8;
const MIN_LINE_SIMILARITY: f64 = 0.5;
/// Minimum lead over the second best match.
const MIN_MARGIN: f64 = 0.1;
const MAX_COMPARED_CHARS: usize = 200;
/// Larger blocks, or more places, are not compared by similarity.
const MAX_ANCHORED_LINES: usize = 200;
const MAX_ANCHORED_PLACES: usize = 50;
/// Maximum number of places that are counted.
const MAX_COUNTED: usize = 1000;

/// The step that found the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Exact,
    TrailingWhitespace,
    Indentation,
    Trimmed,
    Whitespace,
    Typography,
    LineNumbers,
    Escapes,
    Anchors,
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TrailingWhitespace => "trailing whitespace ignored",
            Self::Indentation => "indentation shifted",
            Self::Trimmed => "indentation ignored",
            Self::Whitespace => "whitespace ignored",
            Self::Typography => "typographic characters ignored",
            Self::LineNumbers => "line numbers removed",
            Self::Escapes => "escapes undone",
            Self::Anchors => "first and last line, and similar lines between",
        }
    }
}

/// How many places may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    One,
    All,
    Exactly(usize),
}

/// An edit to apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) wanted: Wanted,
}

/// The outcome of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Edited {
        text: String,
        step: Step,
        lines: Vec<usize>,
    },
    /// The old text is missing and the new one is present.
    AlreadyApplied,
    NotFound,
    /// Found, but not as often as expected.
    Ambiguous {
        step: Step,
        lines: Vec<usize>,
    },
    /// The places overlap, so that not all of them can be replaced.
    Overlapping {
        lines: Vec<usize>,
    },
}

/// Applies a request only where the old text matches exactly.
pub(super) fn apply_exactly(raw: &str, request: Request<'_>) -> Answer {
    let old = request.old.replace("\r\n", "\n");
    let new = request.new.replace("\r\n", "\n");
    exact(&View::new(raw), &old, &new, request, Step::Exact).unwrap_or(Answer::NotFound)
}

/// Applies a request to a text.
pub(super) fn apply(raw: &str, request: Request<'_>) -> Answer {
    let view = View::new(raw);
    let old = request.old.replace("\r\n", "\n");
    let new = request.new.replace("\r\n", "\n");
    if let Some(answer) = exact(&view, &old, &new, request, Step::Exact) {
        return answer;
    }
    if solid_chars(&old) >= MIN_SOLID_CHARS {
        let trimmed = || {
            let (old, new) = without_blank_edges(&old, &new)?;
            by_lines(&view, &old, &new, request.wanted)
        };
        if let Some(answer) = by_lines(&view, &old, &new, request.wanted).or_else(trimmed) {
            return match answer {
                Answer::Edited { text, .. } if text == raw => Answer::AlreadyApplied,
                answer => answer,
            };
        }
        if let Some(answer) = unnumbered(&view, &old, &new, request) {
            return answer;
        }
        if let Some(answer) = unescaped(&view, &old, &new, request) {
            return answer;
        }
    }
    if is_applied(&view, &new) {
        return Answer::AlreadyApplied;
    }
    if request.wanted == Wanted::One
        && let Some(answer) = anchored(&view, &old, &new)
    {
        return answer;
    }
    Answer::NotFound
}

fn solid_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

fn exact(view: &View<'_>, old: &str, new: &str, request: Request<'_>, step: Step) -> Option<Answer> {
    let all: Vec<usize> = overlapping_matches(&view.text, old);
    if all.is_empty() {
        return None;
    }
    let lines = |starts: &[usize]| starts.iter().map(|at| view.line_number(*at)).collect::<Vec<_>>();
    // From left to right, without overlaps.
    let apart: Vec<usize> = view.text.match_indices(old).map(|(at, _)| at).collect();
    let enough = match request.wanted {
        Wanted::One => all.len() == 1,
        Wanted::All => true,
        Wanted::Exactly(count) => apart.len() == count,
    };
    if !enough {
        return Some(Answer::Ambiguous { step, lines: lines(&all) });
    }
    let replacements: Vec<(Range<usize>, String)> = apart
        .iter()
        .map(|at| {
            let range = *at..*at + old.len();
            // A text without line endings does not determine one: the new text is used as given.
            let text = match view.newline_for(&range) {
                Some(newline) => newline.apply(new),
                None if step == Step::Exact => request.new.to_owned(),
                None => new.to_owned(),
            };
            (range, text)
        })
        .collect();
    Some(Answer::Edited { text: view.replaced(&replacements), step, lines: lines(&apart) })
}

/// Start positions of `needle`, including overlapping ones.
fn overlapping_matches(text: &str, needle: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < MAX_COUNTED
        && let Some(at) = text[from..].find(needle)
    {
        found.push(from + at);
        let step = text[from + at..].chars().next().map_or(1, char::len_utf8);
        from += at + step;
    }
    found
}

/// Splits a block into lines: a newline at its end does not start another line.
fn block_lines(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    text.strip_suffix('\n').unwrap_or(text).split('\n').collect()
}

/// Both texts without the blank lines around the old one; `None` if it has none.
fn without_blank_edges(old: &str, new: &str) -> Option<(String, String)> {
    let (mut old, mut new) = (block_lines(old), block_lines(new));
    let length = old.len();
    let is_blank = |line: Option<&&str>| line.is_some_and(|line| line.trim().is_empty());
    while is_blank(old.first()) {
        old.remove(0);
        if is_blank(new.first()) {
            new.remove(0);
        }
    }
    while is_blank(old.last()) {
        old.pop();
        if is_blank(new.last()) {
            new.pop();
        }
    }
    let joined = |lines: &[&str]| lines.iter().flat_map(|line| [*line, "\n"]).collect::<String>();
    (old.len() < length && !old.is_empty()).then(|| (joined(&old), joined(&new)))
}

fn by_lines(view: &View<'_>, old: &str, new: &str, wanted: Wanted) -> Option<Answer> {
    let old = block_lines(old);
    let new = block_lines(new);
    let find = |key: fn(&str) -> Cow<'_, str>| windows(view, &old, key);
    let trailing = find(|line| Cow::Borrowed(line.trim_end()));
    let trimmed = if trailing.is_empty() { find(|line| Cow::Borrowed(line.trim())) } else { Vec::new() };
    let shifted: Vec<usize> = trimmed.iter().copied().filter(|start| is_shifted(view, *start, &old)).collect();
    let (step, found) = if !trailing.is_empty() {
        (Step::TrailingWhitespace, trailing)
    } else if !shifted.is_empty() {
        (Step::Indentation, shifted)
    } else if !trimmed.is_empty() {
        (Step::Trimmed, trimmed)
    } else {
        let spaced = find(|line| Cow::Owned(collapsed(line)));
        if spaced.is_empty() {
            (Step::Typography, find(|line| Cow::Owned(collapsed(&plain_characters(line)))))
        } else {
            (Step::Whitespace, spaced)
        }
    };
    if found.is_empty() {
        return None;
    }
    let lines: Vec<usize> = found.iter().map(|start| start + 1).collect();
    let enough = match wanted {
        Wanted::One => found.len() == 1,
        Wanted::All => true,
        Wanted::Exactly(count) => found.len() == count,
    };
    if !enough {
        return Some(Answer::Ambiguous { step, lines });
    }
    if found.windows(2).any(|pair| pair[0] + old.len() > pair[1]) {
        return Some(Answer::Overlapping { lines });
    }
    let replacements: Vec<_> =
        found.iter().map(|start| block::replacement(view, *start..start + old.len(), &old, &new)).collect();
    // Adjacent deletions at the end of a file may both include the newline between them.
    if replacements.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Some(Answer::Overlapping { lines });
    }
    Some(Answer::Edited { text: view.replaced(&replacements), step, lines })
}

/// Finds the places where all lines equal `old`, compared by `key`.
fn windows(view: &View<'_>, old: &[&str], key: impl Fn(&str) -> Cow<'_, str>) -> Vec<usize> {
    let old: Vec<Cow<'_, str>> = old.iter().map(|line| key(line)).collect();
    if old.iter().all(|line| line.is_empty()) {
        return Vec::new();
    }
    // Knuth–Morris–Pratt failure table, so that a file of equal lines does not take longer.
    let mut repeats = vec![0; old.len()];
    for index in 1..old.len() {
        let mut length = repeats[index - 1];
        while length > 0 && old[index] != old[length] {
            length = repeats[length - 1];
        }
        repeats[index] = length + usize::from(old[index] == old[length]);
    }
    let mut found = Vec::new();
    let mut matched = 0;
    for index in 0..view.lines.len() {
        let line = key(view.line(index));
        while matched > 0 && line != old[matched] {
            matched = repeats[matched - 1];
        }
        matched += usize::from(line == old[matched]);
        if matched == old.len() {
            found.push(index + 1 - matched);
            matched = repeats[matched - 1];
        }
    }
    found
}

/// Whether the found lines are the old ones with a uniform change of indentation.
fn is_shifted(view: &View<'_>, start: usize, old: &[&str]) -> bool {
    let found: Vec<&str> = (start..start + old.len()).map(|index| view.line(index)).collect();
    let (old_indent, found_indent) = (common_indent(old), common_indent(&found));
    old.iter().zip(&found).all(|(old, found)| {
        let (old, found) = (old.trim_end(), found.trim_end());
        (old.is_empty() && found.is_empty())
            || (old.len() >= old_indent && found.len() >= found_indent && old[old_indent..] == found[found_indent..])
    })
}

/// The length of the common indentation of all non-blank lines.
fn common_indent(lines: &[&str]) -> usize {
    let mut common: Option<&str> = None;
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let own = indent(line);
        common = Some(match common {
            None => own,
            Some(common) => {
                let shared = common.bytes().zip(own.bytes()).take_while(|(a, b)| a == b).count();
                &common[..common.floor_char_boundary(shared)]
            }
        });
    }
    common.map_or(0, str::len)
}

fn collapsed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces quotes, dashes and special spaces by the plain characters that models write.
fn plain_characters(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            c => c,
        })
        .collect()
}

/// Handles lines that were copied with the line numbers of `read` and `grep`.
fn unnumbered(view: &View<'_>, old: &str, new: &str, request: Request<'_>) -> Option<Answer> {
    let plain_old = without_numbers(old)?;
    let plain_new = without_numbers(new).unwrap_or_else(|| new.to_owned());
    exact(view, &plain_old, &plain_new, request, Step::LineNumbers)
}

fn without_numbers(text: &str) -> Option<String> {
    let plain: Option<Vec<&str>> = text
        .split_inclusive('\n')
        .map(|line| {
            let (number, content) = line.split_once('\t')?;
            let digits = number.trim_start().trim_end_matches([':', '-']);
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(content)
        })
        .collect();
    plain.filter(|lines| !lines.is_empty()).map(|lines| lines.concat())
}

/// Handles excess escapes: `\"` for `"`, `\n` for a newline. Kinds that are undone in the old text are undone in the
/// new one too, unless the new one also contains them unescaped and is therefore literal.
fn unescaped(view: &View<'_>, old: &str, new: &str, request: Request<'_>) -> Option<Answer> {
    let (plain_old, undone) = unescape(old, None);
    if undone.is_empty() || plain_old.is_empty() {
        return None;
    }
    let escaped_too = undone.iter().all(|escape| match escape {
        '\\' => true,
        escape => !has_unescaped(new, meaning(*escape).unwrap_or(*escape)),
    });
    let plain_new = if escaped_too { unescape(new, Some(&undone)).0 } else { new.to_owned() };
    exact(view, &plain_old, &plain_new, request, Step::Escapes)
}

fn meaning(escape: char) -> Option<char> {
    Some(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '"' | '\'' | '`' | '$' | '\\' => escape,
        _ => return None,
    })
}

fn has_unescaped(text: &str, wanted: char) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        if c == wanted && !escaped {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}

/// Removes escapes (of the kinds in `only`), and returns the kinds that were removed.
fn unescape(text: &str, only: Option<&BTreeSet<char>>) -> (String, BTreeSet<char>) {
    let mut out = String::with_capacity(text.len());
    let mut undone = BTreeSet::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = if c == '\\' { chars.peek().copied() } else { None };
        match next.and_then(|escape| meaning(escape).map(|meant| (escape, meant))) {
            Some((escape, meant)) if only.is_none_or(|only| only.contains(&escape)) => {
                undone.insert(escape);
                out.push(meant);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    (out, undone)
}

fn is_applied(view: &View<'_>, new: &str) -> bool {
    let solid = solid_chars(new);
    if solid >= MIN_APPLIED_CHARS && view.text.contains(new) {
        return true;
    }
    solid >= MIN_SOLID_CHARS && !windows(view, &block_lines(new), |line| Cow::Borrowed(line.trim())).is_empty()
}

/// Matches the first and the last line, and compares the lines between by similarity.
fn anchored(view: &View<'_>, old: &str, new: &str) -> Option<Answer> {
    let old = block_lines(old);
    if !(MIN_ANCHORED_LINES..=MAX_ANCHORED_LINES).contains(&old.len()) {
        return None;
    }
    let (first, last) = (collapsed(old[0]), collapsed(old[old.len() - 1]));
    if first.is_empty() || last.is_empty() {
        return None;
    }
    let places: Vec<usize> = (0..=view.lines.len().checked_sub(old.len())?)
        .filter(|start| collapsed(view.line(*start)) == first && collapsed(view.line(start + old.len() - 1)) == last)
        .collect();
    if places.len() > MAX_ANCHORED_PLACES {
        return None;
    }
    let mut scored: Vec<(f64, usize)> = places
        .into_iter()
        .filter_map(|start| middle_similarity(view, start, &old).map(|score| (score, start)))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (best, start) = *scored.first()?;
    if best < MIN_SIMILARITY {
        return None;
    }
    if let Some((second, other)) = scored.get(1)
        && best - second < MIN_MARGIN
    {
        let mut lines = vec![start + 1, other + 1];
        lines.sort_unstable();
        return Some(Answer::Ambiguous { step: Step::Anchors, lines });
    }
    let replacement = block::replacement(view, start..start + old.len(), &old, &block_lines(new));
    Some(Answer::Edited { text: view.replaced(&[replacement]), step: Step::Anchors, lines: vec![start + 1] })
}

/// The average similarity of the lines between the anchors; `None` if one of them is too different.
fn middle_similarity(view: &View<'_>, start: usize, old: &[&str]) -> Option<f64> {
    let mut sum = 0.0;
    for (position, line) in old.iter().enumerate().take(old.len() - 1).skip(1) {
        let similarity = line_similarity(line, view.line(start + position));
        if similarity < MIN_LINE_SIMILARITY {
            return None;
        }
        sum += similarity;
    }
    Some(sum / (old.len() - 2) as f64)
}

/// Similarity of two lines between 0 and 1, ignoring whitespace.
pub(super) fn line_similarity(a: &str, b: &str) -> f64 {
    let clip = |line: &str| {
        collapsed(&line[..line.floor_char_boundary(MAX_COMPARED_CHARS * 8)])
            .chars()
            .take(MAX_COMPARED_CHARS)
            .collect::<String>()
    };
    strsim::normalized_levenshtein(&clip(a), &clip(b))
}
