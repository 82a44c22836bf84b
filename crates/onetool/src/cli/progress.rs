//! Progress and printed text on a terminal: a line on stderr shows what takes long. Nothing is shown elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use onetool_sdk::{NoProgress, Progress, ProgressSink};
use parking_lot::Mutex;

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Shows the progress of calls in a line on stderr, if that is a terminal.
pub fn sink() -> Arc<dyn ProgressSink> {
    if std::io::stderr().is_terminal() { Arc::new(Line::default()) } else { Arc::new(NoProgress) }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    set_template(&bar, "{spinner} {msg} ({elapsed})");
    bar.enable_steady_tick(TICK);
    bar
}

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[derive(Default)]
struct Line {
    bar: OnceLock<ProgressBar>,
}

impl ProgressSink for Line {
    fn report(&self, progress: Progress) {
        let bar = self.bar.get_or_init(new_bar);
        if let Some(total) = progress.total {
            set_template(bar, "{spinner} {msg} {pos}/{len} ({elapsed})");
            bar.set_length(total as u64);
        }
        bar.set_position(progress.done as u64);
        if let Some(message) = progress.message {
            bar.set_message(message);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Writes printed text to stdout at once, and remembers it, because the reply contains it too.
#[derive(Default)]
pub struct PrintedOutput {
    spinner: Option<Line>,
    written: Mutex<String>,
}

impl PrintedOutput {
    pub fn new() -> Self {
        Self { spinner: std::io::stderr().is_terminal().then(Line::default), written: Mutex::default() }
    }

    /// Returns the part of a reply that has not been written yet, and ends the progress line.
    pub fn rest<'a>(&self, reply: &'a str) -> &'a str {
        if let Some(bar) = self.spinner.as_ref().and_then(|spinner| spinner.bar.get()) {
            bar.finish_and_clear();
        }
        let written = self.written.lock();
        // The reply has no newline at its end.
        let shown = written.strip_suffix('\n').unwrap_or(&written);
        match reply.strip_prefix(shown) {
            Some(rest) => rest.strip_prefix('\n').unwrap_or(rest),
            // A summary, or sanitised text.
            None => reply,
        }
    }

    /// Whether the last written line has no newline yet.
    pub fn is_open(&self) -> bool {
        let written = self.written.lock();
        !written.is_empty() && !written.ends_with('\n')
    }
}

impl ProgressSink for PrintedOutput {
    fn report(&self, progress: Progress) {
        if let Some(spinner) = &self.spinner {
            spinner.report(progress);
        }
    }

    fn printed(&self, text: &str) -> bool {
        let write = || {
            let mut out = std::io::stdout().lock();
            // A closed pipe is handled at the end.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match self.spinner.as_ref().and_then(|spinner| spinner.bar.get()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
        self.written.lock().push_str(text);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_not_written_again() {
        for (written, reply, rest) in
            [("", "5", "5"), ("a\n", "a", ""), ("a\n", "a\n5", "5"), ("a", "a\n5", "5"), ("a\n", "summary", "summary")]
        {
            let output = PrintedOutput::default();
            output.written.lock().push_str(written);
            assert_eq!(output.rest(reply), rest, "{written:?} {reply:?}");
        }
    }
}
