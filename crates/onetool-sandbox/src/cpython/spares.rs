//! Spare children: forked while runs follow each other, so that the next one only pays for the hand-over.
//!
//! A spare is confined and waits for its program. There are a few at most, and none once no run has come for a moment: an
//! idle server keeps the zygote alone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::child::Child;
use super::zygote::Zygote;

/// Spare children at most.
const SPARES: usize = 2;
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
    /// A task looks after them.
    is_kept: bool,
}

impl Spares {
    /// A spare child of this zygote, if there is one. The next is forked in the background.
    pub(super) fn take(self: &Arc<Self>, zygote: &Arc<Zygote>, setup: &Arc<[u8]>) -> Option<Child> {
        let mut state = self.state.lock();
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
        loop {
            while self.state.lock().children.len() < SPARES {
                let Some(zygote) = zygote.upgrade().filter(|zygote| zygote.is_alive()) else { return self.give_up() };
                if zygote.children() > BUSY {
                    drop(zygote);
                    tokio::time::sleep(BREATHER).await;
                    continue;
                }
                match zygote.fork(&setup).await {
                    Ok(child) => self.state.lock().children.push(child),
                    Err(_) => return self.give_up(),
                }
            }
            if tokio::time::timeout(KEPT_FOR, self.taken.notified()).await.is_err() {
                self.give_up();
                // Nobody runs anything. The code that runs need is back in a fraction of a millisecond.
                let _ = tokio::task::spawn_blocking(crate::resident::give_back_code).await;
                return;
            }
        }
    }

    fn give_up(&self) {
        let spares = {
            let mut state = self.state.lock();
            state.is_kept = false;
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
