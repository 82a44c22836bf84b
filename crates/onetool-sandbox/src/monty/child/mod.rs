//! The child's side: runs one program after another for the server that started it.
//!
//! The interpreter limits its memory in the global allocator, so an executable that acts as a child must install
//! [`Allocator`]; without it the memory limit would silently not exist, so the child refuses to serve.

mod convert;
mod print;
mod session;

use std::fs::File;
use std::io::{self, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use session::{Ended, Session};

use super::wire::events::{FailedEvent, put_failed};
use super::wire::frames::MessageWriter;
use crate::resident::Meter;

/// The allocator that an executable must install to serve as a child.
pub use monty_alloc::LimitedAllocator as Allocator;

/// The argument with which the server starts its children.
pub const CHILD_ARGUMENT: &str = "subprocess";

/// Deep but legal programs need more stack than a main thread has. Pages that are never touched cost nothing.
const STACK_BYTES: usize = 256 << 20;

/// Enough for the pipes and what the standard library opens.
#[cfg(unix)]
const MAX_OPEN_FILES: u64 = 16;

/// Memory that a child may keep for the next run.
const KEPT_BYTES: usize = 32 << 20;

/// Serves one parent until it closes the pipe.
pub fn serve() -> ExitCode {
    // Everything that needs a file comes first: behind the wall there are none.
    let Ok((from, to)) = pipes() else { return ExitCode::FAILURE };
    let meter = Meter::new();
    #[cfg(unix)]
    crate::pipe::prepare();
    crate::give_back_code();
    confine();
    #[cfg(unix)]
    end_with_the_parent();
    let serving = std::thread::Builder::new()
        .name("interpreter".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || serve_pipes(from, to, &meter));
    match serving.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

/// Gives up everything but memory, clocks and the pipes. The interpreter has no access to anything else, so this is a
/// second line of defence: where the system has no wall, the interpreter alone must do.
fn confine() {
    #[cfg(unix)]
    limit();
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::thread::set_no_new_privs(true);
        let _ = crate::wall::raise_compute_only();
    }
}

#[cfg(unix)]
fn limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for resource in [Resource::Fsize, Resource::Core] {
        let _ = setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) });
    }
    let open_files = getrlimit(Resource::Nofile).maximum.map_or(MAX_OPEN_FILES, |maximum| maximum.min(MAX_OPEN_FILES));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(open_files), maximum: Some(open_files) });
}

/// Ends this process with the server: a program that computes does not watch the pipe, so a second thread does.
#[cfg(unix)]
fn end_with_the_parent() {
    use rustix::event::{PollFd, PollFlags, poll};
    let watch = || {
        let stdin = io::stdin();
        loop {
            let mut pipe = [PollFd::new(&stdin, PollFlags::empty())];
            match poll(&mut pipe, None) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) if !pipe[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {}
                Ok(_) | Err(_) => std::process::exit(0),
            }
        }
    };
    // If the thread cannot be started, a child whose server was killed ends with its program.
    let _ = std::thread::Builder::new().name("parent".to_owned()).stack_size(128 << 10).spawn(watch);
}

/// Returns standard input and output as files, without the standard library's locks and line buffer.
#[cfg(unix)]
fn pipes() -> io::Result<(File, File)> {
    use std::os::fd::AsFd as _;
    let (from, to) = (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?);
    Ok((from.into(), to.into()))
}

#[cfg(windows)]
fn pipes() -> io::Result<(File, File)> {
    use std::os::windows::io::AsHandle as _;
    let (from, to) = (io::stdin().as_handle().try_clone_to_owned()?, io::stdout().as_handle().try_clone_to_owned()?);
    Ok((from.into(), to.into()))
}

/// Polls briefly for an answer, which is often microseconds away: sleeping and being woken takes longer.
fn look_for_answer() {
    #[cfg(unix)]
    crate::pipe::look_for_answer(std::os::fd::AsFd::as_fd(&io::stdin()));
}

fn serve_pipes(from: File, to: File, meter: &Meter) -> ExitCode {
    let mut requests = BufReader::new(from);
    let mut events = MessageWriter::new(to);
    // The server learns about a panic from the message below, and nobody reads standard error.
    std::panic::set_hook(Box::new(|_| {}));
    if let Err(reason) = monty_alloc::set_limit(None, false) {
        put_failed(&mut events, &FailedEvent::Broken(reason.to_owned()));
        let _ = events.send();
        return ExitCode::FAILURE;
    }
    loop {
        let mut session = Session { requests: &mut requests, events: &mut events };
        match catch_unwind(AssertUnwindSafe(|| session.serve_run())) {
            Ok(Ok(Ended::Run)) => {}
            Ok(Ok(Ended::Parent)) => return ExitCode::SUCCESS,
            Ok(Err(_)) => return ExitCode::FAILURE,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                events.take_back();
                put_failed(&mut events, &FailedEvent::Broken(format!("the interpreter panicked: {reason}")));
                let _ = events.send();
                return ExitCode::FAILURE;
            }
        }
        let _ = monty_alloc::set_limit(None, false);
        if meter.bytes() > KEPT_BYTES {
            crate::give_back_heap();
        }
    }
}
