//! A text normalized for matching: every line ends with `\n`, and every position maps back to the original text.

use std::ops::Range;

use super::super::content::Newline;

/// The text with `\r\n` replaced by `\n`.
pub(super) struct View<'t> {
    raw: &'t str,
    pub(super) text: String,
    /// Positions in `text` of newlines that were `\r\n`.
    crlf: Vec<usize>,
    /// Each line's range in `text`, without its newline.
    pub(super) lines: Vec<Range<usize>>,
}

impl<'t> View<'t> {
    pub(super) fn new(raw: &'t str) -> Self {
        let mut text = String::with_capacity(raw.len());
        let mut crlf = Vec::new();
        let mut lines = Vec::new();
        for line in raw.split_inclusive('\n') {
            let start = text.len();
            let content = line.strip_suffix('\n').unwrap_or(line);
            let ended = content.len() < line.len();
            match content.strip_suffix('\r') {
                Some(content) if ended => {
                    text.push_str(content);
                    crlf.push(text.len());
                }
                _ => text.push_str(content),
            }
            lines.push(start..text.len());
            if ended {
                text.push('\n');
            }
        }
        Self { raw, text, crlf, lines }
    }

    pub(super) fn line(&self, index: usize) -> &str {
        &self.text[self.lines[index].clone()]
    }

    /// The number of the line, counted from 1, that contains a position.
    pub(super) fn line_number(&self, at: usize) -> usize {
        self.lines.partition_point(|line| line.end < at).min(self.lines.len().saturating_sub(1)) + 1
    }

    /// The corresponding position in the raw text.
    pub(super) fn raw_offset(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|newline| *newline < at)
    }

    /// The ending of a line in the raw text; `None` for a last line without one.
    pub(super) fn ending(&self, index: usize) -> Option<Newline> {
        let end = self.lines[index].end;
        if self.crlf.binary_search(&end).is_ok() {
            Some(Newline::Crlf)
        } else if end < self.text.len() {
            Some(Newline::Lf)
        } else {
            None
        }
    }

    /// The line ending for text inserted at a range: that of the lines it touches, or else of most lines. `None` for a
    /// text without line endings, where the inserted text is used as given.
    pub(super) fn newline_for(&self, range: &Range<usize>) -> Option<Newline> {
        let first = self.line_number(range.start) - 1;
        if self.lines.is_empty() {
            return None;
        }
        self.ending(first).or_else(|| Newline::dominant(self.raw))
    }

    /// The raw text with ranges of the view replaced. Ranges are in order and do not overlap.
    pub(super) fn replaced(&self, replacements: &[(Range<usize>, String)]) -> String {
        let mut out = String::with_capacity(self.raw.len());
        let mut done = 0;
        for (range, text) in replacements {
            out.push_str(&self.raw[done..self.raw_offset(range.start)]);
            out.push_str(text);
            done = self.raw_offset(range.end);
        }
        out.push_str(&self.raw[done..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lead_back_to_the_raw_text() {
        let view = View::new("a\r\nb\nc\rd\r\n\r\nlast\r");
        assert_eq!(view.text, "a\nb\nc\rd\n\nlast\r");
        assert_eq!(view.replaced(&[]), "a\r\nb\nc\rd\r\n\r\nlast\r");
        // "a\n" with its newline, and "\n" before "last".
        assert_eq!(view.replaced(&[(0..2, "X".into()), (8..9, "Y".into())]), "Xb\nc\rd\r\nYlast\r");
        // A range up to a newline leaves both of its bytes.
        assert_eq!(view.replaced(&[(0..1, "X".into())]), "X\r\nb\nc\rd\r\n\r\nlast\r");
        assert_eq!((view.line_number(0), view.line_number(1), view.line_number(2)), (1, 1, 2));
        assert_eq!(view.ending(0), Some(Newline::Crlf));
        assert_eq!(view.ending(1), Some(Newline::Lf));
        assert_eq!(view.ending(4), None);
    }
}
