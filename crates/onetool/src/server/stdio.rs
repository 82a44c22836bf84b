//! MCP on standard input and output. Ends with its input, or when it is told to; takes all children with it.

use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio::signal::unix::{SignalKind, signal};

use super::Handler;
use super::lines::Lines;
use crate::assemble::App;

/// Children that do not end within this are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

pub async fn serve(app: std::sync::Arc<App>) -> anyhow::Result<()> {
    tokio::spawn(app.clone().warm_up());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let serving = async {
        match Handler::new(app.clone()).serve(Lines::new()).await {
            Ok(service) => service.waiting().await.map(drop).map_err(anyhow::Error::from),
            // A client that leaves before it has said hello is no error of ours.
            Err(error) => {
                tracing::info!(%error, "no session");
                Ok(())
            }
        }
    };
    let outcome = tokio::select! {
        outcome = serving => outcome,
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, app.shutdown()).await;
    outcome
}
