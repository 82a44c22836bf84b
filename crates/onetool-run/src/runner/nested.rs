//! Code that is run by a call of another run: saved code.
//!
//! Each piece needs its own interpreter while the one around it waits. One run must neither take all of them nor a
//! multiple of its memory, so a run has one such piece at a time per level, and each deeper level has half the memory.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use onetool_sandbox::Limits;
use onetool_sdk::{CallContext, ToolError};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum nesting depth of code that calls code.
const MAX_DEPTH: u32 = 4;
/// Minimum memory of a piece, in bytes, unless the limit of all runs is lower.
const LEAST_MEMORY: usize = 32 << 20;

/// Who has a turn, by run and level.
#[derive(Default)]
pub(super) struct Nested {
    turns: Mutex<HashMap<(Arc<str>, u32), Weak<Semaphore>>>,
}

impl Nested {
    /// Waits for the run's turn on this level, and sets the memory limit.
    pub(super) async fn turn(
        &self,
        ctx: &CallContext,
        limits: &mut Limits,
    ) -> Result<Option<OwnedSemaphorePermit>, ToolError> {
        if ctx.depth > MAX_DEPTH {
            return Err(ToolError::denied(format!("saved code calls saved code more than {MAX_DEPTH} deep")));
        }
        let half = limits.max_memory >> ctx.depth.saturating_sub(1);
        limits.max_memory = half.max(LEAST_MEMORY.min(limits.max_memory));
        let turns = self.of(ctx);
        Ok(turns.acquire_owned().await.ok())
    }

    fn of(&self, ctx: &CallContext) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        let key = (ctx.run_id.clone(), ctx.depth);
        if let Some(known) = turns.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let new = Arc::new(Semaphore::new(1));
        turns.insert(key, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use onetool_sdk::Caller;

    use super::*;

    #[tokio::test]
    async fn a_run_has_one_piece_of_code_on_each_level() {
        let nested = Nested::default();
        let level = |run: &CallContext, depth| CallContext { depth, ..run.clone() };
        let (run, other) = (CallContext::new(Caller::Run), CallContext::new(Caller::Run));
        let memory = Limits::DEFAULT.max_memory;
        let mut limits = Limits::default();
        let first = nested.turn(&level(&run, 1), &mut limits).await.unwrap();
        assert_eq!(limits.max_memory, memory);
        let below = nested.turn(&level(&run, 2), &mut limits).await.unwrap();
        assert_eq!(limits.max_memory, memory / 2);
        nested.turn(&level(&other, 1), &mut Limits::default()).await.unwrap();
        let (ctx, mut limits) = (level(&run, 1), Limits::default());
        let second = nested.turn(&ctx, &mut limits);
        assert!(tokio::time::timeout(Duration::from_millis(50), second).await.is_err());
        drop(first);
        nested.turn(&ctx, &mut limits).await.unwrap();
        drop(below);
        assert!(nested.turn(&level(&run, MAX_DEPTH + 1), &mut limits).await.is_err());
        let mut small = Limits { max_memory: 16 << 20, ..Limits::default() };
        nested.turn(&level(&run, 3), &mut small).await.unwrap();
        assert_eq!(small.max_memory, 16 << 20);
        nested.of(&other);
        assert_eq!(nested.turns.lock().len(), 1);
    }
}
