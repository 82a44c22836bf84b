//! The child's side: a loop that reads requests from standard input and answers on standard output.
//!
//! The interpreter caps its memory in the global allocator, so an executable that serves as child must install
//! [`Allocator`] as its own; without it the memory limit would silently not exist, and the child refuses to serve.

use std::fs::File;
use std::io::{self, BufReader};
use std::process::ExitCode;

use monty_proto::worker::{Child, EventSink, HandleOutcome, protocol_violation};
use monty_proto::{FrameError, FrameReader, pb};

use super::stream::Frames;
use crate::resident::Meter;

/// The allocator that an executable must install to serve as a child.
pub use monty_alloc::LimitedAllocator as Allocator;

/// The argument with which the pool starts its children.
pub const CHILD_ARGUMENT: &str = "subprocess";

/// Deep but legal programs need more stack than a main thread has. Pages that are never touched cost nothing.
const STACK_BYTES: usize = 256 << 20;

/// After a run, a child may keep so much memory for the next one.
const KEPT_BYTES: usize = 32 << 20;

/// Serves one parent until it closes the pipe.
pub fn serve() -> ExitCode {
    // A program that computes does not look at the pipe: when the server is killed, its children must be too.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let serving = std::thread::Builder::new().name("interpreter".to_owned()).stack_size(STACK_BYTES).spawn(serve_pipes);
    match serving.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

/// Standard output as the protocol's way back, without the standard library's buffer of lines.
struct Stdout(Frames<File>);

impl EventSink for Stdout {
    fn send(&mut self, event: &pb::ChildEvent) -> Result<(), FrameError> {
        self.0.send(event)
    }
}

#[cfg(unix)]
fn standard_output() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn standard_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    io::stdout().as_handle().try_clone_to_owned().map(File::from)
}

fn serve_pipes() -> ExitCode {
    let mut child = Child::default();
    let mut reader = FrameReader::new(BufReader::new(io::stdin().lock()));
    let Ok(pipe) = standard_output() else { return ExitCode::FAILURE };
    let mut sink = Stdout(Frames::new(pipe));
    let meter = Meter::new();
    crate::give_back_code();
    loop {
        let outcome = match reader.read::<pb::ParentRequest>() {
            Ok(Some(request)) => {
                let ends_run = matches!(request.kind, Some(pb::parent_request::Kind::Reset(_)));
                let outcome = child.handle(request, &mut sink);
                if ends_run && meter.bytes() > KEPT_BYTES {
                    crate::give_back_heap();
                }
                outcome
            }
            Ok(None) => return ExitCode::SUCCESS,
            Err(FrameError::Decode(error)) => {
                sink.send(&protocol_violation(&error.to_string())).map(|()| HandleOutcome::Continue)
            }
            Err(error) => {
                let _ = sink.send(&child.fatal_event(&error.to_string()));
                return ExitCode::FAILURE;
            }
        };
        match outcome {
            Ok(HandleOutcome::Continue) => {}
            Ok(HandleOutcome::Shutdown) => return ExitCode::SUCCESS,
            Ok(HandleOutcome::Fatal) => return ExitCode::FAILURE,
            Err(error) => {
                let _ = sink.send(&child.fatal_event(&error.to_string()));
                return ExitCode::FAILURE;
            }
        }
        let budget = child.session_budget();
        if let Err(reason) = monty_alloc::set_limit(budget.max_memory, budget.type_check) {
            let _ = sink.send(&child.fatal_event(reason));
            return ExitCode::FAILURE;
        }
    }
}
