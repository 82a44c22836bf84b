//! Sends printed text to the server.

use std::borrow::Cow;
use std::io::Write;
use std::time::{Duration, Instant};

use monty_types::{ExcType, MontyException, PrintWriterCallback};

use crate::monty::wire::events::put_print;
use crate::monty::wire::frames::MessageWriter;

/// Amount of text that is buffered before it is sent.
const GATHERED_BYTES: usize = 8 << 10;
/// How long text may be buffered while the program runs.
const MAX_DELAY: Duration = Duration::from_millis(50);

/// Buffers a program's printed text. It owns the channel to the server while the program runs, so that text and other
/// events keep their order: [`Self::events`] sends the text first.
pub(super) struct Printer<'a, W> {
    events: &'a mut MessageWriter<W>,
    gathered: String,
    since: Option<Instant>,
}

impl<'a, W: Write> Printer<'a, W> {
    pub(super) fn new(events: &'a mut MessageWriter<W>) -> Self {
        Self { events, gathered: String::new(), since: None }
    }

    /// Returns the channel to the server, after sending all text so far.
    pub(super) fn events(&mut self) -> &mut MessageWriter<W> {
        // The next write finds a broken pipe as well.
        let _ = self.flush();
        self.events
    }

    fn flush(&mut self) -> Result<(), MontyException> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        put_print(self.events, &self.gathered);
        self.gathered.clear();
        self.since = None;
        let failed = |_| MontyException::new(ExcType::RuntimeError, Some("nobody reads what is printed".to_owned()));
        self.events.send().map_err(failed)
    }

    fn push(&mut self, text: &str) -> Result<(), MontyException> {
        self.since.get_or_insert_with(Instant::now);
        self.gathered.push_str(text);
        if self.gathered.len() >= GATHERED_BYTES { self.flush() } else { self.poll_flush() }
    }
}

impl<W: Write> PrintWriterCallback for Printer<'_, W> {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        let mut rest = output.as_ref();
        while !rest.is_empty() {
            let end = (0..=rest.len().min(GATHERED_BYTES)).rev().find(|&end| rest.is_char_boundary(end)).unwrap_or(0);
            let (part, later) = rest.split_at(end);
            self.push(part)?;
            rest = later;
        }
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.push(end.encode_utf8(&mut [0; 4]))
    }

    fn poll_flush(&mut self) -> Result<(), MontyException> {
        if self.since.is_some_and(|since| since.elapsed() >= MAX_DELAY) { self.flush() } else { Ok(()) }
    }
}
