//! Tasks and blocking work of this crate.
//!
//! The runtime is generic over what it runs: each distinct future or closure type adds dozens of functions to the
//! build. Boxed, all share one set.

use std::any::Any;

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::task::JoinHandle;

/// Runs a future on its own, as `tokio::spawn` does.
pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: BoxFuture<'static, T> = future.boxed();
    tokio::spawn(future)
}

/// The work panicked, or the runtime is shutting down.
#[derive(Debug, thiserror::Error)]
#[error("the work ended without a result")]
pub(crate) struct NoResult;

/// A result of any type.
type Erased = Box<dyn Any + Send>;

/// Runs work that may block on a blocking thread. It is finished even if nobody waits for it.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoResult> {
    let result = erased(Box::new(move || Box::new(work()) as Erased)).await?;
    result.downcast().map(|result| *result).map_err(|_| NoResult)
}

fn erased(work: Box<dyn FnOnce() -> Erased + Send>) -> BoxFuture<'static, Result<Erased, NoResult>> {
    let working = tokio::task::spawn_blocking(work);
    async move { working.await.map_err(|_| NoResult) }.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_whoever_waits() {
        assert_eq!(blocking(|| 1 + 1).await.unwrap(), 2);
        assert!(blocking(|| panic!("on purpose")).await.is_err());
        assert!(spawn(async { panic!("on purpose") }).await.is_err());
    }
}
