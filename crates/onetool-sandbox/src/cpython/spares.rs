//! Spare children: forked while runs follow each other, so that the next one only pays for the hand-over.
//!
//! A spare is confined and waits for its program. There are two, and as many as ran at once a moment ago, so that what came
//! together and comes together again finds them; none once no run has come for a moment: an idle server keeps the zygote
//! alone.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::child::Child;
use super::zygote::Zygote;

/// Spare children while runs follow each other.
const SPARES: usize = 2;
/// Spare children at most. More than [`SPARES`] are forked only while nothing runs.
const MAX_SPARES: usize = 16;
/// Time between those, for a run that may come.
const PACE: Duration = Duration::from_millis(1);
/// While more children than this are alive, forking ahead would only take time from them.
const BUSY: usize = 8;
/// How long it is waited then.
const BREATHER: Duration = Duration::from_millis(3);
/// How long they are kept after the last run.
const KEPT_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Spares {
    state: Mutex<State>,
    taken: Notify,
}

#[derive(Default)]
struct State {
    children: Vec<Child>,
    /// How many ran at once, and when that was.
    peak: Option<(usize, Instant)>,
    /// A task looks after them.
    is_kept: bool,
}

/// What to do about the number of spares.
enum Next {
    /// Fork one, and wait for so long.
    Fork { then: Duration },
    /// What runs needs the processors.
    Wait,
    /// There are enough.
    Rest,
}

impl Spares {
    /// A spare child of this zygote, if there is one. The next is forked in the background.
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
        // The run that comes first has no spare, and no use for what takes time from it.
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
                // Nobody runs anything. The code that runs need is back in a fraction of a millisecond.
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

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.state.lock().children.len()
    }

    /// Ends all spares.
    pub(super) fn clear(&self) {
        let spares = std::mem::take(&mut self.state.lock().children);
        drop(spares);
    }
}
