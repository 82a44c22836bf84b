//! Reads the audit trail: the newest lines first, or all of them in order.

use std::ops::ControlFlow;

use chrono::{DateTime, Utc};
use globset::GlobMatcher;

use super::log::is_before;
use super::{AuditEvent, AuditRecord};
use crate::interface::{Position, StateError, Stream, Trail};

/// Selects lines.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub principal: Option<String>,
    /// A glob pattern.
    pub tool: Option<GlobMatcher>,
    pub event: Option<AuditEvent>,
    pub outcome: Option<String>,
    pub client: Option<String>,
    pub run: Option<String>,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    /// Anywhere in the line, ignoring case.
    pub text: Option<String>,
}

impl AuditFilter {
    /// Returns the record of a line, if it matches.
    fn accept(&self, line: &str) -> Option<AuditRecord> {
        if self.text.as_ref().is_some_and(|text| !line.to_lowercase().contains(&text.to_lowercase())) {
            return None;
        }
        let record: AuditRecord = serde_json::from_str(line).ok()?;
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let is_wanted = is(&self.principal, &record.principal)
            && is(&self.run, &record.run)
            && self.event.is_none_or(|event| event == record.event)
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == record.outcome)
            && self.client.as_ref().is_none_or(|wanted| {
                record.client.as_ref().is_some_and(|client| client.to_lowercase().contains(&wanted.to_lowercase()))
            })
            && self.tool.as_ref().is_none_or(|tool| record.tool.as_ref().is_some_and(|name| tool.is_match(name)))
            && self.since.is_none_or(|since| record.ts >= since)
            && self.until.is_none_or(|until| record.ts < until);
        is_wanted.then_some(record)
    }
}

/// Returns the last matching lines, at most `limit`, newest first. Lines before `horizon` are ignored.
pub async fn last(
    trail: &dyn Trail,
    filter: &AuditFilter,
    horizon: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<AuditRecord>, StateError> {
    let mut found = Vec::new();
    let horizon = filter.since.map_or(horizon, |since| since.max(horizon));
    // Lines of several servers are not strictly ordered by time.
    let early = horizon.checked_sub_signed(chrono::TimeDelta::minutes(5)).unwrap_or(horizon);
    if limit == 0 {
        return Ok(found);
    }
    trail
        .read_back(Stream::AUDIT, &mut |line| {
            if is_before(line, horizon) {
                return if is_before(line, early) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            found.extend(filter.accept(line));
            if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await?;
    Ok(found)
}

/// Visits every matching line, in order.
pub async fn read_all(
    trail: &dyn Trail,
    filter: &AuditFilter,
    horizon: DateTime<Utc>,
    visit: &mut (dyn FnMut(AuditRecord) + Send),
) -> Result<(), StateError> {
    let mut each = |line: &str| {
        if !is_before(line, horizon)
            && let Some(record) = filter.accept(line)
        {
            visit(record);
        }
    };
    trail.read(Stream::AUDIT, Position::default(), &mut each).await?;
    Ok(())
}

/// Follows the trail as it grows, also when its oldest lines are removed meanwhile.
pub struct Follower {
    position: Position,
    /// Identifies the newest line that was read.
    newest: Option<blake3::Hash>,
}

impl Follower {
    /// Starts at the end of the trail.
    pub async fn at_end(trail: &dyn Trail) -> Result<Self, StateError> {
        let mut newest = None;
        let mut each = |line: &str| newest = Some(blake3::hash(line.as_bytes()));
        let position = trail.read(Stream::AUDIT, Position::default(), &mut each).await?.position;
        Ok(Self { position, newest })
    }

    /// Returns the matching lines that were added since the last call, oldest first.
    pub async fn added(
        &mut self,
        trail: &dyn Trail,
        filter: &AuditFilter,
        horizon: DateTime<Utc>,
    ) -> Result<Vec<AuditRecord>, StateError> {
        let (mut found, mut known, mut newest) = (Vec::new(), 0, self.newest);
        let mut each = |line: &str| {
            newest = Some(blake3::hash(line.as_bytes()));
            if !is_before(line, horizon) {
                found.extend(filter.accept(line));
            }
            if newest == self.newest {
                known = found.len();
            }
        };
        let read = trail.read(Stream::AUDIT, self.position, &mut each).await?;
        // A rewritten trail is read from its start, and what is left of it is the end of the old one.
        if read.restarted {
            found.drain(..known);
        }
        (self.position, self.newest) = (read.position, newest);
        Ok(found)
    }
}
