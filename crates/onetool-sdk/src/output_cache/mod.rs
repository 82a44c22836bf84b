//! Tool outputs stay in the conversation while they fit; then the oldest are replaced by references.
//!
//! [`OutputCache::fit`] keeps the messages of a conversation below a [`Budget`]; [`OutputCache::lines`] and
//! [`OutputCache::search`] read the output behind a reference, one chunk at a time. **Invariants**: a message never
//! gets longer, errors and the newest message are never touched, and nothing is trimmed before it is stored.

mod content;
mod lines;
mod memory;
mod store;

use std::sync::Arc;

pub use lines::{LinePage, LineRange, MAX_LINE_BYTES, MAX_PAGE_BYTES, OutputLine, OutputSearch};
pub use memory::{MemoryLimits, MemoryOutputStore};
pub use store::{OutputRef, OutputStore, OutputWriter, StoredOutput};

use crate::{MessageContent, ToolError, ToolMessage};

/// Default amount of tool output that a conversation keeps, in bytes.
const DEFAULT_KEEP: usize = 200_000;
/// The media type of plain text.
pub const TEXT_MEDIA_TYPE: &str = "text/plain; charset=utf-8";
/// Beginning of the text that replaces a trimmed output.
const TRIMMED: &str = "[output trimmed: ";

/// How much tool output a conversation keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nothing is trimmed while all outputs together have at most this many bytes.
    pub keep_bytes: usize,
    /// Beyond that, outputs are trimmed to this many bytes: lower than `keep_bytes`, so that not every new message
    /// changes an old one (which would invalidate a provider's prompt cache).
    pub trim_to_bytes: usize,
}

impl Budget {
    /// Keeps `keep_bytes`, and trims to three quarters of that.
    pub fn new(keep_bytes: usize) -> Self {
        Self { keep_bytes, trim_to_bytes: keep_bytes / 4 * 3 }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_KEEP)
    }
}

/// What [`OutputCache::fit`] did.
#[derive(Debug, Default)]
pub struct TrimReport {
    /// Number of messages whose output was replaced by a reference.
    pub messages: usize,
    pub bytes_saved: usize,
    /// Why outputs that should have been trimmed were kept.
    pub failures: Vec<ToolError>,
}

/// The outputs of one conversation (its scope), and the store that keeps them. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use onetool_sdk::{Budget, LineRange, MemoryOutputStore, OutputCache, ToolMessage};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let cache = OutputCache::new(Arc::new(MemoryOutputStore::default()), "conversation-1", Budget::new(1_000));
/// let mut messages = vec![
///     ToolMessage::new("1", "read", Ok("line\n".repeat(500).into())),
///     ToolMessage::new("2", "read", Ok("short".into())),
/// ];
/// assert_eq!(cache.fit(&mut messages).await.messages, 1);
///
/// let reference = messages[0].output_ref.as_ref().unwrap().parse().unwrap();
/// let page = cache.lines(&reference, LineRange { first: 499, count: 10 }).await.unwrap();
/// assert_eq!(page.render(), "   499\tline\n   500\tline\n");
/// # });
/// ```
#[derive(Clone)]
pub struct OutputCache {
    store: Arc<dyn OutputStore>,
    scope: Arc<str>,
    budget: Budget,
}

impl OutputCache {
    /// `scope` separates conversations: a reference is valid only in its own scope.
    pub fn new(store: Arc<dyn OutputStore>, scope: impl Into<Arc<str>>, budget: Budget) -> Self {
        Self { store, scope: scope.into(), budget }
    }

    /// Trims `messages`, oldest first, if they exceed the budget together.
    pub async fn fit(&self, messages: &mut [ToolMessage]) -> TrimReport {
        let mut total: usize = messages.iter().map(|message| message.content.size()).sum();
        let mut report = TrimReport::default();
        if total <= self.budget.keep_bytes {
            return report;
        }
        let Some((_newest, older)) = messages.split_last_mut() else { return report };
        for message in older {
            if total <= self.budget.trim_to_bytes {
                break;
            }
            if message.is_error || is_trimmed(message) {
                continue;
            }
            let size = message.content.size();
            // All references have the same length, so this is known before anything is stored.
            if reference_text(&message.content, &OutputRef::sample()).len() >= size {
                continue;
            }
            match self.put(&message.content).await {
                Ok(reference) => {
                    message.content = MessageContent::Text(reference_text(&message.content, &reference));
                    message.output_ref = Some(reference.to_string());
                    let saved = size - message.content.size();
                    total -= saved;
                    report.messages += 1;
                    report.bytes_saved += saved;
                }
                Err(error) => report.failures.push(error),
            }
        }
        report
    }

    /// Stores a message's output and sets its reference, without trimming it.
    pub async fn remember(&self, message: &mut ToolMessage) -> Result<OutputRef, ToolError> {
        let reference = self.put(&message.content).await?;
        message.output_ref = Some(reference.to_string());
        Ok(reference)
    }

    /// Stores a text or parts. The same content gets the same reference.
    pub async fn put(&self, content: &MessageContent) -> Result<OutputRef, ToolError> {
        content::put(&*self.store, &self.scope, content).await
    }

    /// Stores an output that arrives in chunks, without holding it in memory as a whole.
    pub async fn writer(&self, media_type: &str) -> Result<Box<dyn OutputWriter>, ToolError> {
        self.store.writer(&self.scope, media_type).await
    }

    /// Returns the whole stored content.
    pub async fn restore(&self, reference: &OutputRef) -> Result<MessageContent, ToolError> {
        content::restore(&*self.store, &self.scope, reference).await
    }

    pub async fn describe(&self, reference: &OutputRef) -> Result<StoredOutput, ToolError> {
        self.store.describe(&self.scope, reference).await
    }

    /// Returns some lines of an output; anything that is not text is represented by a line.
    pub async fn lines(&self, reference: &OutputRef, range: LineRange) -> Result<LinePage, ToolError> {
        lines::page(&*self.store, &self.scope, reference, range).await
    }

    /// Returns the matching lines of an output, with their surroundings.
    pub async fn search(&self, reference: &OutputRef, search: &OutputSearch) -> Result<LinePage, ToolError> {
        lines::search(&*self.store, &self.scope, reference, search).await
    }
}

fn is_trimmed(message: &ToolMessage) -> bool {
    match (&message.content, &message.output_ref) {
        (MessageContent::Text(text), Some(reference)) => text.starts_with(TRIMMED) && text.contains(reference.as_str()),
        _ => false,
    }
}

fn reference_text(content: &MessageContent, reference: &OutputRef) -> String {
    let what = match content {
        MessageContent::Text(text) => format!("{} bytes, {} lines", text.len(), text.lines().count()),
        MessageContent::Parts(parts) => format!("{} bytes, {} parts", content.size(), parts.len()),
    };
    format!("{TRIMMED}{what}; read it with tool_output_cache, ref_id {reference}]")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
