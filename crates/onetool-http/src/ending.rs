//! When the system asks the process to end: the interrupt key, and what each system has besides.

use std::io;

/// Waits until the process is asked to end.
pub(crate) struct EndRequests {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    closed: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shut_down: tokio::signal::windows::CtrlShutdown,
}

/// Whether a terminal that goes away ends the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HangUp {
    Ends,
    /// As the system has it.
    Default,
}

impl EndRequests {
    #[cfg(unix)]
    pub(crate) fn listen(hang_up: HangUp) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: (hang_up == HangUp::Ends).then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    #[cfg(windows)]
    pub(crate) fn listen(_: HangUp) -> io::Result<Self> {
        use tokio::signal::windows;
        Ok(Self { closed: windows::ctrl_close()?, shut_down: windows::ctrl_shutdown()? })
    }

    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => drop(hang_up.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            () = hang_up => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }

    #[cfg(windows)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.closed.recv() => {}
            _ = self.shut_down.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}
