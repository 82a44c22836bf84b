//! The result of changing one file, as reported to the caller.

use serde_json::{Value as Json, json};

use super::change::Change;
use super::content::hash;
use super::diff;
use super::place::slashed;
use super::settings::FileSettings;

/// The effect of a change.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) changed: bool,
    /// Hash of the new content; `None` for a removed file.
    hash: Option<String>,
    added: usize,
    removed: usize,
    /// `None` if it is too large to report.
    diff: Option<String>,
}

impl Outcome {
    pub(super) fn of(settings: &FileSettings, change: &Change) -> Self {
        let before = change.before.as_ref().map(|before| before.content.full_text().into_bytes());
        let changed = before != change.after;
        // Both sides are already known to be text.
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let (old, new) = (text(&before), text(&change.after));
        let diff = diff::unified(&slashed(&change.place.relative), old.as_deref(), new.as_deref());
        let (added, removed) = diff::counts(&diff);
        let diff = Some(diff).filter(|diff| diff.len() <= settings.max_diff_bytes);
        Self { changed, hash: change.after.as_deref().map(hash), added, removed, diff }
    }

    /// Adds the details to an answer.
    pub(super) fn describe(self, answer: &mut Json) {
        answer["hash"] = json!(self.hash);
        answer["added"] = json!(self.added);
        answer["removed"] = json!(self.removed);
        match self.diff {
            Some(diff) => answer["diff"] = json!(diff),
            None => answer["diff_left_out"] = json!("too large"),
        }
    }
}
