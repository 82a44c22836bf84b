//! The reading end of a pipe that a child writes to.
//!
//! A sleeping thread takes longer to wake up than most tools take to answer. So after answering a program, the server
//! polls briefly for its next message before it sleeps, and the child polls for the answer in the same way. That pays
//! off only while a processor is free for each of them (see [`Talk`]), and while most messages arrive at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// How long to poll for a program's next message.
const NEXT_MESSAGE: Duration = Duration::from_micros(60);
/// How long a child polls for an answer.
const ANSWER: Duration = Duration::from_micros(150);
/// One poll takes a microsecond or two, an interrupt a little more. A longer gap means that the processor is shared.
const AWAY: Duration = Duration::from_micros(400);
/// Number of consecutive misses that starts a pause.
const MISSES: u32 = 8;
/// How long polling pauses after that, in microseconds: the first pause is short because the misses may be a
/// coincidence; repeated pauses grow to the maximum.
const FIRST_PAUSE: u64 = 1_000;
const LAST_PAUSE: u64 = 50_000;
/// Number of messages received in time that resets the next pause to the first one.
const HITS: u32 = 16;
/// Maximum number of bytes per read: the capacity of a pipe. A reader's buffer may be far larger, and clearing room
/// that a read does not fill would be wasted.
const READ: usize = 64 << 10;
/// Size of the first read: most messages are small, and the buffer is cleared before it is read into.
const FIRST_READ: usize = 4 << 10;
/// Bytes read before yielding to other tasks: a child may fill its pipe faster than it is read.
const TURN: usize = 512 << 10;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static TALKS: AtomicUsize = AtomicUsize::new(0);
static MISSED: AtomicU32 = AtomicU32::new(0);
/// Messages received in time since the last pause.
static IN_TIME: AtomicU32 = AtomicU32::new(0);
/// The last pause, in microseconds.
static PAUSE: AtomicU64 = AtomicU64::new(0);
/// Microseconds since the start.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// A running program. While there are at least as many as processors, none of them polls; they sleep while waiting.
pub(crate) struct Talk(());

impl Talk {
    pub(crate) fn begin() -> Self {
        TALKS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Polls briefly for new bytes, unless others need the processor.
    pub(crate) fn look(&self, pipe: &mut ChildPipe) {
        if TALKS.load(Ordering::Relaxed) < *PROCESSORS && is_worth_it() {
            pipe.look(NEXT_MESSAGE);
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        TALKS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads the values that polling needs, before the process is confined.
pub(crate) fn prepare() {
    LazyLock::force(&START);
    LazyLock::force(&PROCESSORS);
}

/// Polls a child's pipe briefly for an answer, unless others need the processor.
pub(crate) fn look_for_answer(pipe: BorrowedFd<'_>) {
    if *PROCESSORS > 1 && is_worth_it() {
        look(pipe, ANSWER);
    }
}

fn now() -> u64 {
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn is_worth_it() -> bool {
    PAUSED_UNTIL.load(Ordering::Relaxed) <= now()
}

fn pause() {
    MISSED.store(0, Ordering::Relaxed);
    let went_well = IN_TIME.swap(0, Ordering::Relaxed) >= HITS;
    let before = if went_well { 0 } else { PAUSE.load(Ordering::Relaxed) };
    let pause = (before * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
    PAUSE.store(pause, Ordering::Relaxed);
    PAUSED_UNTIL.store(now().saturating_add(pause), Ordering::Relaxed);
}

fn found() {
    MISSED.store(0, Ordering::Relaxed);
    IN_TIME.fetch_add(1, Ordering::Relaxed);
}

/// Polls a pipe for bytes for up to `time`. The end of the pipe counts as found too.
fn look(pipe: BorrowedFd<'_>, time: Duration) {
    let mut last = Instant::now();
    let end = last + time;
    loop {
        let mut looked = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
        if !matches!(poll(&mut looked, Some(&Timespec::default())), Ok(0)) {
            return found();
        }
        let now = Instant::now();
        if now - last > AWAY {
            return pause();
        }
        if now >= end {
            if MISSED.fetch_add(1, Ordering::Relaxed) + 1 >= MISSES {
                pause();
            }
            return;
        }
        last = now;
        std::hint::spin_loop();
    }
}

/// A pipe that is registered with the event loop only while a task sleeps on it: being notified of every message would
/// wake a thread each time.
#[derive(Debug)]
pub(crate) struct ChildPipe {
    state: State,
    /// Bytes read since the last yield to other tasks.
    unbroken: usize,
}

#[derive(Debug)]
enum State {
    Awake(OwnedFd),
    Asleep(AsyncFd<OwnedFd>),
    /// Registration with the event loop failed.
    Lost,
}

impl ChildPipe {
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { state: State::Awake(pipe), unbroken: 0 })
    }

    fn look(&mut self, time: Duration) {
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::Asleep(pipe) => State::Awake(pipe.into_inner()),
            other => other,
        };
        if let State::Awake(pipe) = &self.state {
            look(pipe.as_fd(), time);
        }
    }
}

#[expect(unsafe_code, reason = "the event loop asks that the descriptor stays open as long as it is known there")]
fn registered(pipe: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and the same descriptor, until it is dropped or taken back.
    Ok(unsafe { AsyncFd::register_with_interest(pipe, Interest::READABLE) }?)
}

impl AsyncRead for ChildPipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unbroken > TURN {
            self.unbroken = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = self.state.poll_read(context, buffer);
        self.unbroken = if read.is_ready() { self.unbroken + (buffer.filled().len() - before) } else { 0 };
        read
    }
}

impl State {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match self {
                Self::Awake(pipe) => match read_into(pipe.as_fd(), buffer) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                    Err(error) => return Poll::Ready(Err(error.into())),
                },
                Self::Asleep(pipe) => {
                    let mut readiness = ready!(pipe.poll_read_ready(context))?;
                    match readiness.try_io(|pipe| Ok(read_into(pipe.as_fd(), buffer)?)) {
                        Ok(read) => return Poll::Ready(read),
                        Err(_) => continue,
                    }
                }
                Self::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
            if let Self::Awake(pipe) = std::mem::replace(self, Self::Lost) {
                *self = Self::Asleep(registered(pipe)?);
            }
        }
    }
}

/// Reads the available bytes, at most the capacity of a pipe.
fn read_into(pipe: BorrowedFd<'_>, buffer: &mut ReadBuf<'_>) -> rustix::io::Result<()> {
    let room = buffer.remaining().min(FIRST_READ);
    let count = rustix::io::read(pipe, buffer.initialize_unfilled_to(room))?;
    buffer.advance(count);
    let more = buffer.remaining().min(READ - FIRST_READ);
    if count == FIRST_READ && more > 0 {
        // The next read finds an error or the end as well.
        let count = rustix::io::read(pipe, buffer.initialize_unfilled_to(more)).unwrap_or(0);
        buffer.advance(count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn bytes_are_read_whether_they_were_looked_for_or_slept_for() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut pipe = ChildPipe::new(reader).unwrap();
        let mut buffer = [0; 8];
        for round in 0_u8..4 {
            rustix::io::write(&writer, &[round]).unwrap();
            pipe.look(NEXT_MESSAGE);
            assert_eq!((pipe.read(&mut buffer).await.unwrap(), buffer[0]), (1, round));
            let late = writer.try_clone().unwrap();
            let writing = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                rustix::io::write(&late, &[round + 100]).unwrap();
            });
            // Nothing arrives in time, so the read sleeps.
            pipe.look(NEXT_MESSAGE);
            assert_eq!((pipe.read(&mut buffer).await.unwrap(), buffer[0]), (1, round + 100));
            writing.join().unwrap();
        }
        drop(writer);
        pipe.look(NEXT_MESSAGE);
        assert_eq!(pipe.read(&mut buffer).await.unwrap(), 0);
    }

    /// Buffer space that a read does not fill is not cleared.
    #[tokio::test]
    async fn a_read_clears_no_more_than_a_pipe_holds() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut pipe = ChildPipe::new(reader).unwrap();
        let mut space = vec![std::mem::MaybeUninit::uninit(); 4 * READ];
        for length in [5, 50_000] {
            rustix::io::write(&writer, &vec![2; length]).unwrap();
            let mut room = ReadBuf::uninit(&mut space);
            std::future::poll_fn(|context| Pin::new(&mut pipe).poll_read(context, &mut room)).await.unwrap();
            assert_eq!(room.filled(), vec![2; length]);
            assert!(room.initialized().len() <= READ, "{}", room.initialized().len());
        }
    }

    /// Reading a pipe that is never empty yields to other tasks and can be cancelled.
    #[tokio::test]
    async fn a_pipe_that_is_always_full_does_not_keep_the_thread() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut pipe = ChildPipe::new(reader).unwrap();
        let filling = std::thread::spawn(move || {
            let zeros = [0; 64 << 10];
            while rustix::io::write(&writer, &zeros).is_ok() {}
        });
        let mut read = 0;
        let mut buffer = vec![0; 32 << 10];
        let reading = async {
            loop {
                read += pipe.read(&mut buffer).await.unwrap();
            }
        };
        let others = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = reading => {}
            () = others => {}
        }
        assert!(read <= 21 * (TURN + (64 << 10)), "{read}");
        drop(pipe);
        filling.join().unwrap();
    }
}
