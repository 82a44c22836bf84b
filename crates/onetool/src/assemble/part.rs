//! A part that a reload may replace.

use onetool_sdk::{HealthNote, NoteFacts, Severity};

/// A value and the settings that it was built from. It is rebuilt only if the settings change.
#[derive(Clone)]
pub(super) struct Part<S, T> {
    settings: S,
    pub(super) value: T,
}

impl<S: PartialEq + Clone, T: Clone> Part<S, T> {
    /// Builds a part for the first time.
    pub(super) fn build(settings: S, build: impl FnOnce(&S) -> anyhow::Result<T>) -> anyhow::Result<Self> {
        let value = build(&settings)?;
        Ok(Self { settings, value })
    }

    /// Returns the part for these settings, rebuilt if they differ. If building fails, this one stays, with a note.
    pub(super) fn renewed(
        &self,
        settings: S,
        notes: &mut Vec<HealthNote>,
        build: impl FnOnce(&S) -> anyhow::Result<T>,
    ) -> Self {
        if settings == self.settings {
            return self.clone();
        }
        Self::build(settings, build).unwrap_or_else(|error| {
            notes.push(HealthNote {
                severity: Severity::Error,
                subject: "configuration".to_owned(),
                message: format!("{error:#}; what was in use before stays in use"),
                facts: NoteFacts::default(),
            });
            self.clone()
        })
    }
}
