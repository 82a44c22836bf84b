//! The zygote: one confined interpreter that has imported the modules programs need, and forks a child per program.
//!
//! Starting Python takes tens of milliseconds, forking it about one. The zygote never sees user code: it receives the
//! three pipes of a run as descriptors and forks; the child closes everything else, sets its own limits and the second
//! wall, and only then reads its program. The zygote reports how each child ended and kills one on request, which is
//! safe from reused process ids because only it waits for them. Children die with the zygote, and the zygote with the
//! server.

use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv,
    send, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::child::Child;
use super::launch::{self, LaunchOrder, Streams};

/// How long the zygote may take until it is ready to fork.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Address space that starting a program needs in addition to the zygote's own.
const SLACK: usize = 24 << 20;

/// The zygote, which ends when this is dropped.
pub(super) struct Zygote {
    link: Arc<Link>,
    /// Address space of the zygote when it was ready; a child's limit is added to it.
    pub(super) headroom: usize,
    process: Mutex<tokio::process::Child>,
    listener: AbortHandle,
}

/// The socket to the zygote, and the waiters for each child.
struct Link {
    socket: UnixStream,
    waiting: Mutex<HashMap<u64, oneshot::Sender<ExitStatus>>>,
    last_id: AtomicU64,
    dead: AtomicBool,
}

/// One forked child.
pub(super) struct Forked {
    id: u64,
    link: Arc<Link>,
    ended: Option<oneshot::Receiver<ExitStatus>>,
}

impl Zygote {
    /// Starts it and waits until it can fork. Its children may use `more` address space than the zygote itself.
    pub(super) async fn start(launcher: &Path, order: &LaunchOrder, more: usize) -> std::io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // The event loop only needs the descriptor; the socket type preserves message boundaries.
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true)?;
        let streams = Streams { input: Stdio::from(theirs), output: Stdio::null(), printed: Stdio::null() };
        let process = launch::start(launcher, order, streams)?;
        let link = Arc::new(Link {
            socket: UnixStream::from_std(ours)?,
            waiting: Mutex::default(),
            last_id: AtomicU64::new(0),
            dead: AtomicBool::new(false),
        });
        let ready = tokio::time::timeout(START_TIMEOUT, link.receive()).await;
        if !matches!(ready, Ok(Some(Notice::Ready))) {
            return Err(std::io::Error::other("the interpreter that programs are forked from does not start"));
        }
        let headroom = process.id().map_or(0, address_space) + SLACK + more;
        let listener = tokio::spawn(Arc::clone(&link).listen()).abort_handle();
        Ok(Self { link, headroom, process: Mutex::new(process), listener })
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.link.dead.load(Ordering::Relaxed) && matches!(self.process.lock().try_wait(), Ok(None))
    }

    /// Returns the number of children that have not ended.
    pub(super) fn children(&self) -> usize {
        self.link.waiting.lock().len()
    }

    /// Forks a child, which confines itself according to `setup` and waits for a program.
    pub(super) async fn fork(&self, setup: &[u8]) -> std::io::Result<Child> {
        let (their_input, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (output, their_output) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (printed, their_printed) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let id = self.link.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        self.link.waiting.lock().insert(id, sender);
        let forked = Forked { id, link: Arc::clone(&self.link), ended: Some(receiver) };
        let theirs = [their_input.as_fd(), their_output.as_fd(), their_printed.as_fd()];
        self.link.ask_to_fork(id, &theirs).await?;
        let mut child = Child::forked(forked, input, output, printed)?;
        child.set_up(setup, self.headroom);
        Ok(child)
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Forked {
    /// Kills the child; does nothing if it has ended.
    pub(super) fn kill(&self) {
        if self.link.waiting.lock().contains_key(&self.id) {
            // If sending fails, the zygote is dead, and its children with it.
            let _ = send(&self.link.socket, &request(b'K', self.id), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.link.waiting.lock().contains_key(&self.id)
    }

    /// Waits for its exit and returns the status, or `None` if it is unknown.
    pub(super) async fn wait(&mut self) -> Option<ExitStatus> {
        let status = self.ended.as_mut()?.await.ok();
        self.ended = None;
        status
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A message from the zygote.
enum Notice {
    Ready,
    Ended { id: u64, status: i32 },
}

fn request(kind: u8, id: u64) -> [u8; 9] {
    let mut bytes = [kind; 9];
    bytes[1..].copy_from_slice(&id.to_le_bytes());
    bytes
}

impl Link {
    async fn ask_to_fork(&self, id: u64, descriptors: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let request = request(b'F', id);
        loop {
            self.socket.writable().await?;
            let sent = self.socket.try_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                control.push(SendAncillaryMessage::ScmRights(descriptors));
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(sendmsg(&self.socket, &[IoSlice::new(&request)], &mut control, flags)?)
            });
            match sent {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                sent => return sent.map(drop),
            }
        }
    }

    /// Returns the next notice, or `None` if the zygote is gone or sends invalid data.
    async fn receive(&self) -> Option<Notice> {
        loop {
            self.socket.readable().await.ok()?;
            let mut buffer = [0_u8; 16];
            let received = self.socket.try_io(Interest::READABLE, || {
                Ok(recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT).map(|got| got.1)?)
            });
            let received = match received {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                received => received.ok()?,
            };
            return match (received, buffer[0]) {
                (1, b'R') => Some(Notice::Ready),
                (13, b'E') => Some(Notice::Ended {
                    id: u64::from_le_bytes(buffer[1..9].try_into().ok()?),
                    status: i32::from_le_bytes(buffer[9..13].try_into().ok()?),
                }),
                _ => None,
            };
        }
    }

    async fn listen(self: Arc<Self>) {
        while let Some(Notice::Ended { id, status }) = self.receive().await {
            if let Some(waiting) = self.waiting.lock().remove(&id) {
                let _ = waiting.send(ExitStatus::from_raw(status));
            }
        }
        self.dead.store(true, Ordering::Relaxed);
        self.waiting.lock().clear();
    }
}

/// Returns the size of a process's address space in bytes, or 0 if the system does not report it.
fn address_space(id: u32) -> usize {
    let sizes = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let pages = sizes.split_ascii_whitespace().next().and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * rustix::param::page_size()
}
