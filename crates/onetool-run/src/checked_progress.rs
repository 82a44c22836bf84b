//! Progress on its way to a client: capped, and without secrets.

use std::sync::Arc;

use onetool_sdk::{Progress, ProgressSink, Redactor};

/// Longer messages are cut to this many characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

pub(crate) struct CheckedProgress {
    inner: Arc<dyn ProgressSink>,
    redactor: Redactor,
}

impl CheckedProgress {
    pub(crate) fn wrap(inner: Arc<dyn ProgressSink>, redactor: &Redactor) -> Arc<dyn ProgressSink> {
        Arc::new(Self { inner, redactor: redactor.clone() })
    }
}

impl ProgressSink for CheckedProgress {
    fn report(&self, progress: Progress) {
        let message = progress.message.map(|text| clipped(self.redactor.owned(text)));
        self.inner.report(Progress { message, ..progress });
    }

    fn printed(&self, text: &str) -> bool {
        self.inner.printed(&self.redactor.owned(text.to_owned()))
    }
}

/// Secrets are gone by now: a cut cannot leave half of one.
fn clipped(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_MESSAGE_CHARS) {
        text.truncate(at);
        text.push('…');
    }
    text
}
