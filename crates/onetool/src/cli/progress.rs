//! Progress on a terminal: a line on stderr that says what takes its time. Elsewhere nothing is said.

use std::io::IsTerminal as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use onetool_sdk::{NoProgress, Progress, ProgressSink};

/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(120);

/// Where the progress of calls goes: a line on stderr where that is a terminal.
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
