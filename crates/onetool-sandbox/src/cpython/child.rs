//! One interpreter process: started through the launcher, used for one program, killed with its process group.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::launch::{LAUNCH_ARGUMENT, LaunchOrder};

/// How long a killed child may take to be gone, and its last printed text to arrive.
const END_WAIT: Duration = Duration::from_secs(2);
const PRINTED_READ: usize = 32 << 10;

pub(super) struct Child {
    process: tokio::process::Child,
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) printed: ChildStderr,
}

impl Child {
    pub(super) fn start(launcher: &Path, order: &LaunchOrder) -> std::io::Result<Self> {
        let mut process = Command::new(launcher)
            .arg(LAUNCH_ARGUMENT)
            .arg(serde_json::to_string(order)?)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output), Some(printed)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        Ok(Self { process, input, output, printed })
    }

    /// Itself, if it still runs.
    pub(super) fn alive(mut self) -> Option<Self> {
        matches!(self.process.try_wait(), Ok(None)).then_some(self)
    }

    /// Kills it if it still runs, collects what it printed last, and says how it ended.
    pub(super) async fn end(mut self, printed: &mut Printed, grace: Duration) -> Option<ExitStatus> {
        let status = match tokio::time::timeout(grace, self.process.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => None,
        };
        if status.is_none() {
            self.kill_group();
            let _ = tokio::time::timeout(END_WAIT, self.process.wait()).await;
        }
        let _ = tokio::time::timeout(END_WAIT, async { while printed.read(&mut self.printed).await {} }).await;
        status
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.process.id().and_then(|id| Pid::from_raw(id as i32)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.start_kill();
    }
}

/// What a program printed, up to a limit; the rest is read and dropped, so that the program never waits.
pub(super) struct Printed {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
    chunk: Box<[u8]>,
}

impl Printed {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, truncated: false, chunk: vec![0; PRINTED_READ].into_boxed_slice() }
    }

    /// Reads once; `false` at the end.
    pub(super) async fn read(&mut self, source: &mut ChildStderr) -> bool {
        match source.read(&mut self.chunk).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                let kept = count.min(self.limit - self.bytes.len());
                self.bytes.extend_from_slice(&self.chunk[..kept]);
                self.truncated |= kept < count;
                true
            }
        }
    }

    /// The text, and whether some of it was dropped.
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
