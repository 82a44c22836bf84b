//! The child's side: a loop that reads requests from standard input and answers on standard output.
//!
//! The interpreter caps its memory in the global allocator, so an executable that serves as child must install
//! [`Allocator`] as its own; without it the memory limit would silently not exist, and the child refuses to serve.

use std::io::{self, BufReader, BufWriter, StdoutLock, Write as _};
use std::process::ExitCode;

use monty_proto::worker::{Child, EventSink, HandleOutcome, protocol_violation};
use monty_proto::{FrameError, FrameReader, pb, write_frame};

/// The allocator that an executable must install to serve as a child.
pub use monty_alloc::LimitedAllocator as Allocator;

/// The argument with which the pool starts its children.
pub const CHILD_ARGUMENT: &str = "subprocess";

/// Deep but legal programs need more stack than a main thread has. Pages that are never touched cost nothing.
const STACK_BYTES: usize = 256 << 20;

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

struct Stdout(BufWriter<StdoutLock<'static>>);

impl EventSink for Stdout {
    fn send(&mut self, event: &pb::ChildEvent) -> Result<(), FrameError> {
        write_frame(&mut self.0, event)?;
        self.0.flush().map_err(FrameError::Io)
    }
}

fn serve_pipes() -> ExitCode {
    let mut child = Child::default();
    let mut reader = FrameReader::new(BufReader::new(io::stdin().lock()));
    let mut sink = Stdout(BufWriter::new(io::stdout().lock()));
    loop {
        let outcome = match reader.read::<pb::ParentRequest>() {
            Ok(Some(request)) => child.handle(request, &mut sink),
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
