//! Tasks and blocking work of this crate.
//!
//! The runtime is generic over what it runs: every future or closure that is handed to it as it is costs dozens of functions
//! in the build. Behind a box, one set of them serves all.

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::oneshot;
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

/// Does work that may block, on a thread that may wait. It is finished even if nobody waits for it.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoResult> {
    let (sender, receiver) = oneshot::channel();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        let _ = sender.send(work());
    });
    tokio::task::spawn_blocking(work);
    receiver.await.map_err(|_| NoResult)
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
