//! MCP on standard input and output. Ends with its input, or on a signal, together with all child processes.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio_util::sync::CancellationToken;

use super::lines::Lines;
use super::{Handler, Shared};
use crate::background::Background;
use crate::ending::EndRequests;
use crate::{ServeError, Service};

/// Children that do not exit within this time are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Serves one client until it disconnects. `ready` is called once signals end the process gracefully.
pub async fn serve_stdio(service: Arc<dyn Service>, ready: impl FnOnce()) -> Result<(), ServeError> {
    let mut end = EndRequests::listen()?;
    ready();
    let warming = service.clone();
    crate::task::spawn(async move { warming.warm_up().await });
    let stop = CancellationToken::new();
    let background = Background::start(&service, &stop);
    let serving = async {
        let shared = Shared::new(&service, background.clone(), None);
        match Handler::new(service.clone(), shared).serve(Lines::new()).await {
            Ok(session) => session.waiting().await.map(drop).map_err(|error| ServeError::Io(error.into())),
            // A client that disconnects before it initializes is not an error.
            Err(error) => {
                tracing::info!(%error, "no session");
                Ok(())
            }
        }
    };
    let outcome = tokio::select! {
        outcome = serving => outcome,
        () = end.next() => Ok(()),
    };
    stop.cancel();
    let ending = async {
        background.shutdown().await;
        service.shutdown().await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, ending).await;
    outcome
}
