//! One interpreter process: forked by the zygote or started through the launcher, used for one program or for all
//! programs of one session, then killed.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::OwnedSemaphorePermit;

use super::launch::{self, LaunchOrder, Streams};
use super::protocol::Lines;
use super::zygote::Forked;
use crate::Host;
use crate::pipe::ChildPipe;

/// How long a child that closed its side may take to exit, and its last printed text to arrive.
const END_WAIT: Duration = Duration::from_secs(2);
/// How long a child may take to exit after its last message.
const RETIRE_WAIT: Duration = Duration::from_millis(200);
const PRINTED_READ: usize = 32 << 10;

pub(super) struct Child {
    process: Process,
    pub(super) input: Sender,
    pub(super) output: ChildPipe,
    pub(super) printed: Receiver,
    /// Messages that it has sent and that are not read yet.
    pub(super) lines: Lines,
    /// Bytes to send to it before its first program.
    pub(super) unsent: Vec<u8>,
    /// Whether it has reported that it is confined and waiting for a program.
    pub(super) is_ready: bool,
    /// Address space that it uses before its first program.
    pub(super) headroom: usize,
}

enum Process {
    Started(tokio::process::Child),
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no zygote"))]
    Forked(Forked),
}

impl Child {
    pub(super) fn start(launcher: &Path, order: &LaunchOrder) -> std::io::Result<Self> {
        let streams = Streams { input: Stdio::piped(), output: Stdio::piped(), printed: Stdio::piped() };
        let mut process = launch::start(launcher, order, streams)?;
        let (Some(input), Some(output), Some(printed)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        let (input, output, printed) = (input.into_owned_fd()?, output.into_owned_fd()?, printed.into_owned_fd()?);
        Self::with_pipes(Process::Started(process), input, output, printed)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn forked(forked: Forked, input: OwnedFd, output: OwnedFd, printed: OwnedFd) -> std::io::Result<Self> {
        Self::with_pipes(Process::Forked(forked), input, output, printed)
    }

    fn with_pipes(process: Process, input: OwnedFd, output: OwnedFd, printed: OwnedFd) -> std::io::Result<Self> {
        Ok(Self {
            process,
            input: Sender::from_owned_fd(input)?,
            output: ChildPipe::new(output)?,
            printed: Receiver::from_owned_fd(printed)?,
            lines: Lines::default(),
            unsent: Vec::new(),
            is_ready: false,
            headroom: 0,
        })
    }

    /// Tells it how to confine itself. The bytes that it does not accept at once are sent before its first program.
    ///
    /// Writes to the descriptor itself, because the event loop does not know yet that the new pipe is writable.
    pub(super) fn set_up(&mut self, setup: &[u8], headroom: usize) {
        let taken = rustix::io::write(&self.input, setup).unwrap_or(0);
        self.unsent = setup[taken..].to_vec();
        self.headroom = headroom;
    }

    /// Whether it has not been seen to exit.
    pub(super) fn is_alive(&mut self) -> bool {
        match &mut self.process {
            Process::Started(process) => matches!(process.try_wait(), Ok(None)),
            Process::Forked(forked) => forked.is_alive(),
        }
    }

    /// Kills it after its last message, or because it must stop. A task keeps its permit until it has exited.
    pub(super) fn dismiss(mut self, permit: OwnedSemaphorePermit) {
        self.process.kill();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(END_WAIT, self.process.wait()).await;
            drop(permit);
        });
    }

    /// Lets it exit by itself after its last message, and kills it if it does not.
    pub(super) fn retire(mut self, permit: OwnedSemaphorePermit) {
        tokio::spawn(async move {
            if tokio::time::timeout(RETIRE_WAIT, self.process.wait()).await.is_err() {
                self.dismiss(permit);
            }
        });
    }

    /// Waits for a child that closed its side, collects its last printed text, and returns its exit status.
    pub(super) async fn end(&mut self, printed: &mut Printed, grace: Duration) -> Option<ExitStatus> {
        let status = tokio::time::timeout(grace, self.process.wait()).await.unwrap_or_default();
        if status.is_none() {
            self.process.kill();
            let _ = tokio::time::timeout(END_WAIT, self.process.wait()).await;
        }
        let _ = tokio::time::timeout(END_WAIT, async { while printed.read(&mut self.printed).await {} }).await;
        status
    }
}

impl Process {
    async fn wait(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Started(process) => process.wait().await.ok(),
            Self::Forked(forked) => forked.wait().await,
        }
    }

    /// A forked child has its own process group and cannot start processes that would outlive it.
    fn kill(&mut self) {
        match self {
            Self::Started(process) => {
                if let Some(group) = process.id().and_then(|id| Pid::from_raw(id as i32)) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = process.start_kill();
            }
            Self::Forked(forked) => forked.kill(),
        }
    }
}

/// A program's printed text, up to a limit; the rest is read and dropped, so that the program never blocks.
pub(super) struct Printed {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
    chunk: Box<[u8]>,
    /// How many bytes have been passed to the host.
    shown: usize,
}

impl Printed {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, truncated: false, chunk: vec![0; PRINTED_READ].into_boxed_slice(), shown: 0 }
    }

    /// Reads once; returns `false` at the end.
    pub(super) async fn read(&mut self, source: &mut Receiver) -> bool {
        match source.read(&mut self.chunk).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.keep(count);
                true
            }
        }
    }

    /// Reads the available text without waiting. A program that keeps printing does not keep this busy.
    ///
    /// Reads from the descriptor itself, because the event loop may not have noticed the last text yet.
    pub(super) fn drain(&mut self, source: &Receiver) {
        while !self.truncated {
            match rustix::io::read(source, &mut self.chunk[..]) {
                Ok(count) if count > 0 => self.keep(count),
                _ => return,
            }
        }
    }

    /// Passes new complete lines to the host.
    pub(super) fn show_new(&mut self, host: &dyn Host) {
        let new = &self.bytes[self.shown..];
        if let Some(end) = new.iter().rposition(|byte| *byte == b'\n') {
            host.printed(&String::from_utf8_lossy(&new[..=end]));
            self.shown += end + 1;
        }
    }

    /// Passes the remaining text to the host when the program is done.
    pub(super) fn show_rest(&mut self, host: &dyn Host) {
        let new = &self.bytes[self.shown..];
        if !new.is_empty() {
            host.printed(&String::from_utf8_lossy(new));
            self.shown = self.bytes.len();
        }
    }

    fn keep(&mut self, count: usize) {
        let kept = count.min(self.limit - self.bytes.len());
        self.bytes.extend_from_slice(&self.chunk[..kept]);
        self.truncated |= kept < count;
    }

    /// Returns the text, and whether some of it was dropped.
    pub(super) fn finish(self) -> (String, bool) {
        let text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        // The cut may have split a character.
        let text = if self.truncated { text.trim_end_matches('\u{fffd}').to_owned() } else { text };
        (text, self.truncated)
    }
}
