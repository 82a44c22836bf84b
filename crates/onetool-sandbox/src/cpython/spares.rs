//! Spare children, forked ahead while runs follow each other, so that the next run only pays for the hand-over.
//!
//! A spare is confined and waits for its program. There are at least two, and as many as ran at once a moment ago, so
//! that another burst of runs finds them ready. Once no run has arrived for a moment there are none: an idle server
//! keeps only the zygote.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::child::Child;
use super::zygote::Zygote;

/// Number of spare children while runs follow each other.
const SPARES: usize = 2;
/// Maximum number of spare children. More than [`SPARES`] are forked only while nothing runs.
const MAX_SPARES: usize = 16;
/// Interval between forking those, which leaves room for a run that may arrive.
const PACE: Duration = Duration::from_millis(1);
/// While more children than this are alive, forking ahead would only slow them down.
const BUSY: usize = 8;
/// How long to wait in that case.
const BREATHER: Duration = Duration::from_millis(3);
/// How long spares are kept after the last run.
const KEPT_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Spares {
    state: Mutex<State>,
    taken: Notify,
}

#[derive(Default)]
struct State {
    children: Vec<Child>,
    /// How many ran at once, and when.
    peak: Option<(usize, Instant)>,
    /// Whether a task maintains the spares.
    is_kept: bool,
}

/// The next step in maintaining the number of spares.
enum Next {
    /// Fork one, then wait this long.
    Fork { then: Duration },
    /// Running programs need the processors.
    Wait,
    /// There are enough.
    Rest,
}

impl Spares {
    /// Returns a spare child of this zygote, if there is one. The next is forked in the background.
    pub(super) fn take(self: &Arc<Self>, zygote: &Arc<Zygote>, setup: &Arc<[u8]>) -> Option<Child> {
        let mut state = self.state.lock();
        let at_work = zygote.children().saturating_sub(state.children.len()) + 1;
        let now = Instant::now();
        if state.peak.is_none_or(|(peak, since)| at_work >= peak || now - since > KEPT_FOR) {
            state.peak = Some((at_work, now));
        }
        let mut found = None;
        while let Some(mut child) = state.children.pop() {
            if child.is_alive() {
                found = Some(child);
                break;
            }
        }
        if state.is_kept {
            self.taken.notify_one();
        } else {
            state.is_kept = true;
            tokio::spawn(Arc::clone(self).keep(Arc::downgrade(zygote), Arc::clone(setup)));
        }
        found
    }

    /// Forks spares until no run takes one for a while, or their zygote is gone.
    async fn keep(self: Arc<Self>, zygote: Weak<Zygote>, setup: Arc<[u8]>) {
        // The first run has no spare, and forking now would slow it down.
        tokio::time::sleep(BREATHER).await;
        let mut last_run = Instant::now();
        loop {
            let Some(alive) = zygote.upgrade().filter(|zygote| zygote.is_alive()) else { return self.give_up() };
            let wait = match self.next(&alive) {
                Next::Fork { then } => match alive.fork(&setup).await {
                    Ok(child) => {
                        self.state.lock().children.push(child);
                        then
                    }
                    Err(_) => return self.give_up(),
                },
                Next::Wait => BREATHER,
                Next::Rest => KEPT_FOR,
            };
            drop(alive);
            if wait.is_zero() {
                continue;
            }
            let left = KEPT_FOR.saturating_sub(last_run.elapsed());
            if tokio::time::timeout(wait.min(left), self.taken.notified()).await.is_ok() {
                last_run = Instant::now();
            } else if last_run.elapsed() >= KEPT_FOR {
                self.give_up();
                // Nothing runs. When a run needs the code again, it is back in a fraction of a millisecond.
                let _ = tokio::task::spawn_blocking(crate::resident::give_back_code).await;
                return;
            }
        }
    }

    fn next(&self, zygote: &Zygote) -> Next {
        let state = self.state.lock();
        let (spares, alive) = (state.children.len(), zygote.children());
        let wanted = state.peak.map_or(0, |(peak, _)| peak).clamp(SPARES, MAX_SPARES);
        if spares < SPARES {
            if alive > BUSY { Next::Wait } else { Next::Fork { then: Duration::ZERO } }
        } else if spares < wanted {
            if alive > spares { Next::Wait } else { Next::Fork { then: PACE } }
        } else {
            Next::Rest
        }
    }

    fn give_up(&self) {
        let spares = {
            let mut state = self.state.lock();
            state.is_kept = false;
            state.peak = None;
            std::mem::take(&mut state.children)
        };
        drop(spares);
    }

    /// Returns the number of spares.
    pub(super) fn count(&self) -> usize {
        self.state.lock().children.len()
    }

    /// Ends all spares.
    pub(super) fn clear(&self) {
        let spares = std::mem::take(&mut self.state.lock().children);
        drop(spares);
    }
}
