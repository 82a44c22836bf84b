//! Output of commands: tables and JSON on standard output, with colour only on a terminal.
//!
//! Text of tools and servers is untrusted: control characters never reach the terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use serde_json::Value as Json;

/// How a command shows its answer.
#[derive(Args)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    pub fn is_json(&self) -> bool {
        self.json
    }
}

/// Space between two columns.
const GAP: &str = "  ";

/// Emphasis of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Doubtful => Some("33"),
            Self::Bad => Some("31"),
        }
    }

    /// The tone of a server's state or of the overall state.
    pub fn of_state(state: &str) -> Self {
        match state {
            "ok" | "connected" | "enabled" => Self::Good,
            "connecting" => Self::Doubtful,
            "disabled" => Self::Faint,
            _ => Self::Bad,
        }
    }
}

/// Whether the user and the terminal support colours.
pub fn is_colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Text for standard output, printed all at once.
pub struct Page {
    text: String,
    coloured: bool,
}

impl Page {
    pub fn new() -> Self {
        Self { text: String::new(), coloured: std::io::stdout().is_terminal() && is_colour_wanted() }
    }

    /// Appends text to the current line.
    pub fn put(&mut self, tone: Tone, text: &str) -> &mut Self {
        let clean = printable(text);
        match tone.code().filter(|_| self.coloured) {
            Some(code) => {
                let _ = write!(self.text, "\x1b[{code}m{clean}\x1b[0m");
            }
            None => self.text.push_str(&clean),
        }
        self
    }

    pub fn end_line(&mut self) -> &mut Self {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        self
    }

    /// Appends lines of text unchanged.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for line in text.lines() {
            self.put(Tone::Plain, line).end_line();
        }
        self
    }

    /// Appends rows under a heading; columns are as wide as necessary, the last one has no limit.
    pub fn table(&mut self, heading: &[&str], rows: &[Vec<(Tone, String)>]) -> &mut Self {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|(_, text)| text.chars().count());
            cells.chain([heading.get(column).map_or(0, |text| text.chars().count())]).max().unwrap_or(0)
        };
        let columns = rows.iter().map(Vec::len).max().unwrap_or(heading.len());
        let widths: Vec<usize> = (0..columns).map(width).collect();
        if !heading.is_empty() {
            self.row(&heading.iter().map(|text| (Tone::Strong, (*text).to_owned())).collect::<Vec<_>>(), &widths);
        }
        for row in rows {
            self.row(row, &widths);
        }
        self
    }

    fn row(&mut self, cells: &[(Tone, String)], widths: &[usize]) {
        for (index, (tone, text)) in cells.iter().enumerate() {
            let line = text.lines().next().unwrap_or("");
            self.put(*tone, line);
            if index + 1 < cells.len() {
                let missing = widths.get(index).map_or(0, |width| width.saturating_sub(line.chars().count()));
                let _ = write!(self.text, "{:missing$}{GAP}", "");
            }
        }
        self.end_line();
    }

    /// Prints everything. A closed pipe is not an error.
    pub fn print(&self) -> anyhow::Result<()> {
        print(&self.text)
    }
}

/// Prints a value as indented JSON.
pub fn print_json(value: &Json) -> anyhow::Result<()> {
    print(&format!("{value:#}\n"))
}

/// Prints text to standard output unchanged. A closed pipe is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Replaces control characters, and those that change the direction in which a line is read.
fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// A string member of a JSON object, or an empty text.
pub fn text_of<'a>(value: &'a Json, key: &str) -> &'a str {
    value.get(key).and_then(Json::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_are_gone() {
        let mut page = Page { text: String::new(), coloured: false };
        let row = |name: &str, what: &str| vec![(Tone::Strong, name.to_owned()), (Tone::Plain, what.to_owned())];
        page.table(&["NAME", "WHAT"], &[row("a", "x\u{1b}[2Jy"), row("longer", "")]);
        assert_eq!(page.text, "NAME    WHAT\na       x [2Jy\nlonger\n");
        let mut page = Page { text: String::new(), coloured: false };
        page.put(Tone::Plain, "tools/a\u{202e}yp.py 👩\u{200d}🔬").end_line();
        assert_eq!(page.text, "tools/a\u{fffd}yp.py 👩\u{200d}🔬\n");
    }

    #[test]
    fn colour_wraps_the_text_alone() {
        let mut page = Page { text: String::new(), coloured: true };
        page.put(Tone::Good, "ok").end_line();
        assert_eq!(page.text, "\u{1b}[32mok\u{1b}[0m\n");
    }
}
