//! One child process and the exchange of messages with it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use monty_types::OOM_EXIT_CODE;
use onetool_sdk::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

use super::CHILD_ARGUMENT;
use super::convert::Values;
use super::objects::Objects;
use super::wire::events::{Event, read_event};
use super::wire::frames::{self, Message, MessageReader, ReadError};
use super::wire::{Input, WireError};
use crate::budget::Budget;
use crate::execution::{Failure, Limits};

/// A buffer that grew larger than this is not kept.
const KEPT_BYTES: usize = 64 << 10;
/// Larger messages are decoded on a separate thread.
const DECODED_INLINE: usize = 64 << 10;
/// How long a child that closed its pipe may take to exit.
const EXIT_GRACE: Duration = Duration::from_millis(200);

#[cfg(unix)]
type Events = crate::pipe::ChildPipe;
#[cfg(not(unix))]
type Events = tokio::process::ChildStdout;

/// A child that waits for a program or runs one.
pub(super) struct Process {
    child: Child,
    requests: ChildStdin,
    events: MessageReader<Events>,
    message: Vec<u8>,
    /// Number of programs that it has run.
    pub(super) runs: u32,
}

impl Process {
    /// Starts a child, which is killed when this is dropped.
    pub(super) fn start(executable: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(executable);
        command.arg(CHILD_ARGUMENT).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C in a terminal is for us: a child that died of it would look like a crash.
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(windows)]
        if let Some(root) = std::env::var_os("SystemRoot") {
            command.env("SystemRoot", root);
        }
        let failed = |reason: String| Failure::Unavailable(format!("cannot start {}: {reason}", executable.display()));
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(requests), Some(events)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        #[cfg(unix)]
        let events = events.into_owned_fd().and_then(Events::new).map_err(|error| failed(error.to_string()))?;
        Ok(Self { child, requests, events: MessageReader::new(events), message: Vec::new(), runs: 0 })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Begins a message to the child. [`Self::send`] must follow.
    pub(super) fn begin(&mut self) -> &mut Vec<u8> {
        frames::begin(&mut self.message);
        &mut self.message
    }

    /// Returns the message that was begun, to be extended.
    pub(super) fn message(&mut self) -> &mut Vec<u8> {
        &mut self.message
    }

    /// Sends the message that was begun.
    pub(super) async fn send(&mut self) -> Result<(), Failure> {
        let Some(message) = frames::seal(&mut self.message) else {
            return Err(Failure::TooLarge("a message to the sandbox is too large".to_owned()));
        };
        let sent = self.requests.write_all(message).await;
        if self.message.capacity() > KEPT_BYTES {
            self.message = Vec::new();
        }
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(self.why_it_ended().await),
        }
    }

    /// Polls briefly for the child's next event, unless others need the processor.
    #[cfg(unix)]
    pub(super) fn look(&mut self, talk: &crate::pipe::Talk) {
        talk.look(self.events.pipe());
    }

    /// Waits for the child's next event.
    pub(super) async fn receive(&mut self, limits: &Limits, objects: &mut Objects) -> Result<Event<Value>, Failure> {
        let max_size = Budget::max_message_bytes(limits);
        let budget = Budget::new(limits);
        let read = match self.events.next(max_size).await {
            Ok(Message::Small(message)) => read_event(Input::new(message, budget), &mut Values(objects)),
            Ok(Message::Large(message)) if message.len() <= DECODED_INLINE => {
                read_event(Input::new(&message, budget), &mut Values(objects))
            }
            Ok(Message::Large(message)) => {
                let known = std::mem::take(objects);
                let decode = move || {
                    let read = read_event(Input::new(&message, budget), &mut Values(&known));
                    (read, known)
                };
                match tokio::task::spawn_blocking(decode).await {
                    Ok((read, known)) => {
                        *objects = known;
                        read
                    }
                    Err(error) => return Err(Failure::Crashed(format!("a message could not be decoded: {error}"))),
                }
            }
            Err(ReadError::TooLarge) => {
                return Err(Failure::TooLarge(format!("a value has more than {max_size} bytes")));
            }
            Err(ReadError::Empty) => return Err(Failure::Crashed("invalid message: an empty chunk".to_owned())),
            Err(ReadError::Ended) => return Err(self.why_it_ended().await),
        };
        read.map_err(|error| match error {
            WireError::Budget(exceeded) => Failure::TooLarge(exceeded.to_string()),
            WireError::Invalid(_) => Failure::Crashed(error.to_string()),
        })
    }

    /// Lets the child exit by closing its pipe, and kills it if it does not.
    pub(super) async fn end(self) {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        if tokio::time::timeout(EXIT_GRACE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    async fn why_it_ended(&mut self) -> Failure {
        match tokio::time::timeout(EXIT_GRACE, self.child.wait()).await {
            Ok(Ok(status)) if status.code() == Some(OOM_EXIT_CODE) => Failure::Memory,
            Ok(Ok(status)) => Failure::Crashed(format!("the interpreter ended unexpectedly ({})", shown(status))),
            Ok(Err(_)) | Err(_) => Failure::Crashed("the interpreter closed its pipe".to_owned()),
        }
    }
}

fn shown(status: ExitStatus) -> String {
    status.to_string()
}
