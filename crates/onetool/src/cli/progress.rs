//! Progress on a terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use onetool_sdk::{NoProgress, Progress, ProgressSink};

/// A spinner on stderr where that is a terminal; silence elsewhere.
pub fn sink() -> Arc<dyn ProgressSink> {
    if std::io::stderr().is_terminal() { Arc::new(Spinner::default()) } else { Arc::new(NoProgress) }
}

#[derive(Default)]
struct Spinner {
    bar: std::sync::OnceLock<ProgressBar>,
}

impl ProgressSink for Spinner {
    fn report(&self, progress: Progress) {
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {pos}/{len}") {
                bar.set_style(style);
            }
            bar
        });
        if let Some(total) = progress.total {
            bar.set_length(total as u64);
        }
        bar.set_position(progress.done as u64);
        if let Some(message) = progress.message {
            bar.set_message(message);
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
