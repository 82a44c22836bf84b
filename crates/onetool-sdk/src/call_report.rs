//! What a call reports besides its value: how many requests it made, what it left out, how its steps ended.
//!
//! A caller that wants the report gives its context a [`ReportSlot`]. It belongs to that one call: contexts for calls
//! that a tool makes itself ([`crate::CallContext::nested`]) have none, so that a step cannot overwrite the report of the
//! tool that it is part of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Details of a call, besides its value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallReport {
    /// The last reply's status.
    pub status: Option<u16>,
    /// Number of requests, not counting redirects.
    pub attempts: u32,
    pub duration: Duration,
    /// Set for a paginated list.
    pub pages: Option<PageReport>,
    /// Number of stream events.
    pub events: Option<usize>,
    /// The outcome of each step of a sequence.
    pub trace: Vec<StepTrace>,
}

/// Why a list is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Pages,
    Items,
    Bytes,
    /// The server returned the same page repeatedly.
    Repeated,
}

impl Cut {
    /// The reason in words, for people and models.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Pages => "it was cut at maxPages",
            Self::Items => "it was cut at maxItems",
            Self::Bytes => "it was cut at the size limit",
            Self::Repeated => "the other side gave the same page again",
        }
    }

    /// The reason as one word, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pages => "maxPages",
            Self::Items => "maxItems",
            Self::Bytes => "maxBytes",
            Self::Repeated => "repeatedPage",
        }
    }
}

/// Summary of a paginated call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageReport {
    pub pages: u32,
    pub items: usize,
    pub cut: Option<Cut>,
}

/// One step of a completed call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTrace {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    /// Start time, as RFC 3339; absent for a step that did not start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
    pub ms: f64,
    pub ok: bool,
    /// `done`, `failed`, `skipped`, `cancelled` or `waiting`.
    pub status: String,
    /// Number of calls, over all items.
    pub attempts: u32,
    /// Number of items of a `forEach`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<usize>,
    /// Identifies equal arguments without showing them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Where a call leaves its report. Cheap to clone; clones share the report.
#[derive(Debug, Clone, Default)]
pub struct ReportSlot(Arc<Mutex<Option<CallReport>>>);

impl ReportSlot {
    pub fn fill(&self, report: CallReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Takes the report; `None` if the call made none, or has not ended.
    pub fn take(&self) -> Option<CallReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
