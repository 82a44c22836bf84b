//! Direct access to standard input and output.
//!
//! The runtime's own standard streams hand every read and write to another thread, because a file may block. Clients
//! connect pipes or sockets, which do not need that: reading and writing them directly halves the time of a small
//! request.

use tokio::io::{AsyncRead, AsyncWrite};

pub(super) type Input = Box<dyn AsyncRead + Send + Sync + Unpin>;
pub(super) type Output = Box<dyn AsyncWrite + Send + Sync + Unpin>;

#[cfg(unix)]
pub(super) fn input() -> Input {
    direct::input(std::io::stdin()).unwrap_or_else(|| Box::new(tokio::io::stdin()))
}

#[cfg(unix)]
pub(super) fn output() -> Output {
    direct::output(std::io::stdout()).unwrap_or_else(|| Box::new(tokio::io::stdout()))
}

#[cfg(not(unix))]
pub(super) fn input() -> Input {
    Box::new(tokio::io::stdin())
}

#[cfg(not(unix))]
pub(super) fn output() -> Output {
    Box::new(tokio::io::stdout())
}

#[cfg(unix)]
mod direct {
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream as StdUnixStream;

    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{Input, Output};

    pub(super) fn input(stream: impl AsFd) -> Option<Input> {
        let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
        match kind(&descriptor)? {
            Kind::Pipe => pipe::Receiver::from_owned_fd(descriptor).ok().map(|pipe| Box::new(pipe) as Input),
            Kind::Socket => socket(descriptor).map(|socket| Box::new(socket) as Input),
        }
    }

    pub(super) fn output(stream: impl AsFd) -> Option<Output> {
        let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
        match kind(&descriptor)? {
            Kind::Pipe => pipe::Sender::from_owned_fd(descriptor).ok().map(|pipe| Box::new(pipe) as Output),
            Kind::Socket => socket(descriptor).map(|socket| Box::new(socket) as Output),
        }
    }

    enum Kind {
        Pipe,
        Socket,
    }

    fn kind(descriptor: &OwnedFd) -> Option<Kind> {
        let mode = rustix::fs::fstat(descriptor).ok()?.st_mode;
        match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::Fifo => Some(Kind::Pipe),
            rustix::fs::FileType::Socket => Some(Kind::Socket),
            _ => None,
        }
    }

    fn socket(descriptor: OwnedFd) -> Option<UnixStream> {
        let stream = StdUnixStream::from(descriptor);
        stream.set_nonblocking(true).ok()?;
        UnixStream::from_std(stream).ok()
    }
}
