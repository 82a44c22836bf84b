//! Requests to end the process: interrupt, and the other signals of each platform.

use std::io;

/// Waits until the process is asked to end.
pub(crate) struct EndRequests {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(windows)]
    closed: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shut_down: tokio::signal::windows::CtrlShutdown,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl EndRequests {
    /// For a server that lives as long as its terminal or client.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { hang_up: Some(signal(SignalKind::hangup())?), ..Self::without_hang_up()? })
    }

    /// For a server that may outlive its terminal: respects `nohup`.
    #[cfg(unix)]
    pub(crate) fn without_hang_up() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: None,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::windows;
        Ok(Self { closed: windows::ctrl_close()?, shut_down: windows::ctrl_shutdown()?, interrupt: windows::ctrl_c()? })
    }

    #[cfg(windows)]
    pub(crate) fn without_hang_up() -> io::Result<Self> {
        Self::listen()
    }

    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = hung_up => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(windows)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.closed.recv() => {}
            _ = self.shut_down.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
