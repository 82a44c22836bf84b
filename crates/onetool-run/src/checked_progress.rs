//! Progress on its way to a client: capped, and without secrets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onetool_sdk::{Progress, ProgressSink, Redactor};

/// Longer messages are cut to this many characters.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// Maximum bytes of all messages of one run, more than a tool's stream may have. Later reports are dropped.
const MAX_BYTES: usize = 16 << 20;
/// Bytes counted for a report besides its message.
const REPORT_BYTES: usize = 64;

pub(crate) struct CheckedProgress {
    inner: Arc<dyn ProgressSink>,
    redactor: Redactor,
    /// Bytes that may still be reported.
    left: AtomicUsize,
}

impl CheckedProgress {
    pub(crate) fn wrap(inner: Arc<dyn ProgressSink>, redactor: &Redactor) -> Arc<dyn ProgressSink> {
        Arc::new(Self { inner, redactor: redactor.clone(), left: AtomicUsize::new(MAX_BYTES) })
    }
}

impl ProgressSink for CheckedProgress {
    fn report(&self, progress: Progress) {
        let message = progress.message.map(|text| clipped(self.redactor.owned(text)));
        let size = REPORT_BYTES + message.as_ref().map_or(0, String::len);
        let take = |left: usize| left.checked_sub(size);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            self.inner.report(Progress { message, ..progress });
        }
    }

    fn printed(&self, text: &str) -> bool {
        self.inner.printed(&self.redactor.owned(text.to_owned()))
    }
}

/// Cuts a long message. Secrets are already redacted, so a cut cannot leave half of one.
fn clipped(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_MESSAGE_CHARS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Received(AtomicUsize);

    impl ProgressSink for Received {
        fn report(&self, progress: Progress) {
            self.0.fetch_add(progress.message.unwrap_or_default().len(), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_flood_of_progress_ends() {
        let received = Arc::new(Received::default());
        let checked = CheckedProgress::wrap(received.clone(), &Redactor::default());
        for _ in 0..20_000 {
            checked.report(Progress { done: 0.0, total: None, message: Some("x".repeat(1_000)) });
        }
        let bytes = received.0.load(Ordering::Relaxed);
        assert!((MAX_BYTES / 2..=MAX_BYTES).contains(&bytes), "{bytes}");
    }
}
