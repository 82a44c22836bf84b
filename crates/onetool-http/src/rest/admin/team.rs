//! Activity in progress on other servers that share the state.
//!
//! Each server publishes activity that has lasted for a second, and how it ended: one document, written at most once a
//! second and only while it changes. A viewer of one server's activity also sees that of the others. Shorter activity
//! is visible only at its own server, and in the audit trail.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use onetool_run::activity::{Activity, ActivityEvent, Viewer};
use onetool_state::StateError;
use onetool_state::interface::{Change, Collection, Cursor, Effort, Expect, Key};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::model::ActivityRow;
use crate::{Service, outdated};

const ACTIVITY: Collection = Collection::named("activity");
/// Minimum duration of published activity.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Interval for publishing changes, and for a heartbeat while nothing changes.
const PUBLISH: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_secs(5);
/// A server that has been silent for this long has ended.
const SILENCE: TimeDelta = TimeDelta::seconds(15);
/// Documents of such servers are removed after this time.
const OLD: TimeDelta = TimeDelta::minutes(5);
const SWEEP: Duration = Duration::from_mins(5);
/// Poll interval for the documents of others while somebody watches.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// Limits per server: activity in progress, the oldest first, and activity that has just ended.
const MAX_UNDER_WAY: usize = 100;
const MAX_ENDED: usize = 50;
/// How long the end of an activity is published.
const TOLD_ENDED: Duration = Duration::from_secs(10);
/// Maximum length of arguments, commands and errors.
const SHOWN_CHARS: usize = 200;
/// Maximum length of a machine's name.
const HOST_CHARS: usize = 40;
/// Number of digits of a server's id in its name.
const NAME_DIGITS: usize = 6;
/// The error of activity at a server that has become silent.
const LOST: &str = "CancelledError: its server does not answer any more";

/// A call or a run of another server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TeamRow {
    /// The owner, in a form that does not reveal a token's fingerprint.
    owner: String,
    row: ActivityRow,
}

/// The activity that one server publishes.
#[derive(Serialize, Deserialize)]
struct Published {
    at: DateTime<Utc>,
    rows: Vec<TeamRow>,
}

/// Activity that this server publishes, and the known activity of others.
pub(crate) struct TeamActivity {
    service: Arc<dyn Service>,
    activity: Arc<Activity>,
    known: tokio::sync::Mutex<Known>,
}

#[derive(Default)]
struct Known {
    cursor: Cursor,
    servers: HashMap<Key, Published>,
    looked: Option<Instant>,
}

/// The published state of this server.
#[derive(Default)]
struct Own {
    under_way: HashSet<u64>,
    ended: VecDeque<(Instant, TeamRow)>,
    written: Option<Instant>,
}

/// Returns a server's display name: its machine, and digits that distinguish servers on the same machine.
pub(super) fn server_name(node: &str) -> String {
    static HOST: LazyLock<Option<String>> = LazyLock::new(|| {
        let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname")).ok()?;
        let name: String = name.trim().chars().filter(|c| !c.is_control()).take(HOST_CHARS).collect();
        (!name.is_empty()).then_some(name)
    });
    let digits = node.get(..NAME_DIGITS).unwrap_or(node);
    HOST.as_ref().map_or_else(|| digits.to_owned(), |host| format!("{host}-{digits}"))
}

fn mark(owner: &str) -> String {
    blake3::Hash::from(blake3::derive_key("onetool owner of an activity", owner.as_bytes())).to_hex()[..32].to_owned()
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl TeamRow {
    fn of(event: ActivityEvent, node: &str) -> Self {
        let owner = mark(&event.owner);
        let mut row = ActivityRow::from(event);
        row.node = Some(server_name(node));
        row.detail = shortened(row.detail);
        row.error = row.error.map(shortened);
        Self { owner, row }
    }

    fn is_for(&self, viewer: &Viewer) -> bool {
        match viewer {
            Viewer::Administrator => true,
            Viewer::Owner(owner) => self.owner == mark(owner),
        }
    }
}

impl TeamActivity {
    /// Publishes this server's activity until `stop`.
    pub(crate) fn start(service: &Arc<dyn Service>, activity: &Arc<Activity>, stop: &CancellationToken) -> Arc<Self> {
        let (service, activity) = (service.clone(), activity.clone());
        let team = Arc::new(Self { service, activity, known: tokio::sync::Mutex::default() });
        crate::task::spawn(publish(Arc::downgrade(&team), stop.clone()));
        team
    }

    fn is_shared(&self) -> bool {
        self.service.served().state.is_shared()
    }

    /// Returns the name of this server, if there are others.
    pub(super) fn own_name(&self) -> Option<String> {
        self.is_shared().then(|| server_name(self.service.served().runs.node()))
    }

    /// Converts an activity of this server to a row.
    pub(super) fn own_row(&self, event: ActivityEvent) -> ActivityRow {
        ActivityRow { node: self.own_name(), ..ActivityRow::from(event) }
    }

    /// Returns activity of other servers, in progress or just ended, as far as the viewer may see it. If the state is
    /// unavailable, returns the last known activity.
    pub(super) async fn others(&self, viewer: &Viewer) -> Vec<ActivityRow> {
        if !self.is_shared() {
            return Vec::new();
        }
        let mut known = self.known.lock().await;
        if known.looked.is_none_or(|looked| looked.elapsed() >= LOOK / 2) {
            known.looked = Some(Instant::now());
            if let Err(error) = self.read(&mut known).await {
                tracing::debug!(%error, "what other servers do could not be looked at");
            }
        }
        let (now, own) = (Utc::now(), self.service.served().runs.node().to_owned());
        let others = known.servers.iter().filter(|(key, published)| {
            let is_own = key.as_str() == own;
            !is_own && now - published.at < SILENCE
        });
        let seen = others.flat_map(|(_, published)| &published.rows).filter(|row| row.is_for(viewer));
        let mut rows: Vec<ActivityRow> = seen.map(|row| row.row.clone()).collect();
        drop(known);
        for row in rows.iter_mut().filter(|row| row.is_under_way) {
            row.duration_ms = (now - row.at).as_seconds_f64().max(0.0) * 1e3;
        }
        rows.sort_by_key(|row| (row.at, row.id));
        rows
    }

    async fn read(&self, known: &mut Known) -> Result<(), StateError> {
        let documents = self.service.served().state.documents();
        let feed = documents.changes(ACTIVITY, known.cursor, Effort::Usual).await?;
        if feed.is_whole {
            known.servers.clear();
        }
        for change in feed.changes {
            match change {
                Change::Put(document) => match serde_json::from_slice(&document.content) {
                    Ok(published) => drop(known.servers.insert(document.key, published)),
                    Err(_) => drop(known.servers.remove(&document.key)),
                },
                Change::Gone(key) => drop(known.servers.remove(&key)),
                Change::Unreadable { .. } => {}
            }
        }
        known.cursor = feed.cursor;
        Ok(())
    }

    /// Publishes changes since the last write.
    async fn write(&self, own: &mut Own) -> Result<(), StateError> {
        if own.under_way.is_empty() && own.ended.is_empty() && !self.activity.has_long(SHOWN_AFTER) {
            return self.forget(own).await;
        }
        let served = self.service.served();
        let (documents, node) = (served.state.documents(), served.runs.node());
        let long: Vec<ActivityEvent> = {
            let under_way = self.activity.under_way().into_iter();
            under_way.filter(|event| event.elapsed() > SHOWN_AFTER).take(MAX_UNDER_WAY).collect()
        };
        let ids: HashSet<u64> = long.iter().map(|event| event.id).collect();
        let gone: HashSet<u64> = own.under_way.difference(&ids).copied().collect();
        let mut has_changed = ids != own.under_way;
        if !gone.is_empty() {
            let ended = self.activity.recent().into_iter().filter(|event| gone.contains(&event.id));
            own.ended.extend(ended.map(|event| (Instant::now(), TeamRow::of(event, node))));
        }
        while own.ended.len() > MAX_ENDED || own.ended.front().is_some_and(|(at, _)| at.elapsed() > TOLD_ENDED) {
            own.ended.pop_front();
            has_changed = true;
        }
        own.under_way = ids;
        if !has_changed && own.written.is_some_and(|written| written.elapsed() < BEAT) {
            return Ok(());
        }
        let rows = long.into_iter().map(|event| TeamRow::of(event, node));
        let rows = rows.chain(own.ended.iter().map(|(_, row)| row.clone())).collect();
        let content = serde_json::to_vec(&Published { at: Utc::now(), rows })
            .map_err(|error| StateError::Invalid(error.to_string()))?;
        // A failed write is due again.
        own.written = None;
        documents.put(ACTIVITY, &node.parse()?, &content, &Expect::Anything.into()).await?;
        own.written = Some(Instant::now());
        Ok(())
    }

    /// Removes the document, because nothing is in progress.
    async fn forget(&self, own: &mut Own) -> Result<(), StateError> {
        if own.written.is_some() {
            let served = self.service.served();
            let key: Key = served.runs.node().parse()?;
            served.state.documents().delete(ACTIVITY, &key, &Expect::Anything.into()).await?;
            own.written = None;
        }
        Ok(())
    }
}

async fn publish(team: Weak<TeamActivity>, stop: CancellationToken) {
    let (mut own, mut swept) = (Own::default(), Instant::now());
    loop {
        let has_ended = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(PUBLISH) => false,
        };
        let Some(team) = team.upgrade() else { return };
        if !team.is_shared() {
            if has_ended {
                return;
            }
            continue;
        }
        let done = if has_ended { team.forget(&mut own).await } else { team.write(&mut own).await };
        if let Err(error) = done {
            tracing::debug!(%error, "the active work could not be published");
        }
        if has_ended {
            return;
        }
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let _ = outdated::remove(&*team.service.served().state.documents(), ACTIVITY, OLD).await;
        }
    }
}

/// The activity of other servers that a watcher was notified of.
#[derive(Default)]
pub(super) struct ReportedActivity(HashMap<u64, ActivityRow>);

impl ReportedActivity {
    /// Returns the changes: rows that began, and reported rows that have ended.
    pub(super) fn news(&mut self, rows: Vec<ActivityRow>) -> Vec<ActivityRow> {
        let mut news = Vec::new();
        let mut open = HashSet::new();
        for row in rows {
            if row.is_under_way {
                open.insert(row.id);
                if self.0.insert(row.id, row.clone()).is_none() {
                    news.push(row);
                }
            } else if self.0.remove(&row.id).is_some() {
                news.push(row);
            }
        }
        let lost: Vec<u64> = self.0.keys().filter(|id| !open.contains(id)).copied().collect();
        for row in lost.iter().filter_map(|id| self.0.remove(id)) {
            news.push(ActivityRow { is_under_way: false, error: Some(LOST.to_owned()), ..row });
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetool_run::activity::{ActivityKind, Beginning};
    use onetool_sdk::{CallContext, Caller};

    fn row(id: u64, is_under_way: bool) -> ActivityRow {
        let activity = Arc::new(Activity::default());
        activity.watch();
        let ctx = CallContext::new(Caller::Run).within();
        let beginning =
            Beginning { kind: ActivityKind::Run, name: "run", detail: &"x".repeat(900), chars_in: 1, ctx: &ctx };
        let _shown = activity.begin(&beginning, |text| text);
        let event = activity.under_way().remove(0);
        let TeamRow { row, .. } = TeamRow::of(event, "0123456789abcdef");
        ActivityRow { id, is_under_way, ..row }
    }

    #[test]
    fn a_watcher_hears_of_each_row_when_it_begins_and_when_it_ends() {
        let mut told = ReportedActivity::default();
        let seen = |news: Vec<ActivityRow>| -> Vec<(u64, bool, bool)> {
            news.iter().map(|row| (row.id, row.is_under_way, row.error.is_some())).collect()
        };
        assert_eq!(
            seen(told.news(vec![row(1, true), row(2, true), row(3, false)])),
            [(1, true, false), (2, true, false)]
        );
        assert_eq!(seen(told.news(vec![row(1, true), row(2, true)])), []);
        assert_eq!(seen(told.news(vec![row(1, false), row(2, true)])), [(1, false, false)]);
        assert_eq!(seen(told.news(vec![row(1, false)])), [(2, false, true)], "its server is silent");
        assert_eq!(seen(told.news(vec![row(1, false)])), []);
    }

    #[test]
    fn a_published_row_is_short_and_names_its_server() {
        let row = row(1, true);
        assert_eq!(row.detail.chars().count(), SHOWN_CHARS + 1);
        assert!(row.node.is_some_and(|name| name.ends_with("012345")));
        assert_ne!(mark("token:1"), mark("token:2"));
    }
}
