//! When the system asks the process to end: the interrupt key, and what each system has besides.

use std::io;

/// Waits until the process is asked to end.
pub(crate) struct EndRequests {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
    #[cfg(windows)]
    closed: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shut_down: tokio::signal::windows::CtrlShutdown,
}

impl EndRequests {
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, hang_up: signal(SignalKind::hangup())? })
    }

    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::windows;
        Ok(Self { closed: windows::ctrl_close()?, shut_down: windows::ctrl_shutdown()? })
    }

    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
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
