//! Lines of a child, each up to a limit: a child that never ends its line must not fill the memory.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;
/// Maximum capacity of the buffer that is kept for the next line.
const KEPT_BYTES: usize = 256 << 10;

/// What [`BoundedLines::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A whole line, without its line feed.
    Whole(&'a [u8]),
    /// The start of a line that is longer than the limit. Returned before the line ends; its rest is skipped.
    TooLong(&'a [u8]),
    /// The end, also by an error, and what came after the last line feed.
    End(&'a [u8]),
}

/// Splits a stream into lines.
#[derive(Debug)]
pub struct BoundedLines<R> {
    reader: BufReader<R>,
    /// What has arrived of the line.
    line: Vec<u8>,
    limit: usize,
    /// Whether `line` was returned.
    is_returned: bool,
    /// Whether the rest of a line that was too long is still to come.
    is_skipping: bool,
}

enum Reached {
    LineFeed,
    Limit,
    End,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    /// Reads lines of at most `limit` bytes, the line feed included.
    pub fn new(reader: R, limit: usize) -> Self {
        let reader = BufReader::with_capacity(READ_BYTES, reader);
        Self { reader, line: Vec::new(), limit, is_returned: false, is_skipping: false }
    }

    /// Waits for the next line. Cancel-safe: what has arrived of it is kept.
    pub async fn next(&mut self) -> Line<'_> {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
            self.line.shrink_to(KEPT_BYTES);
        }
        let reached = self.read().await;
        self.is_returned = true;
        match reached {
            Reached::LineFeed => Line::Whole(self.line.strip_suffix(b"\n").unwrap_or(&self.line)),
            Reached::Limit => Line::TooLong(&self.line),
            Reached::End => Line::End(&self.line),
        }
    }

    async fn read(&mut self) -> Reached {
        loop {
            let buffer = match self.reader.fill_buf().await {
                Ok(buffer) if !buffer.is_empty() => buffer,
                Ok(_) | Err(_) => return Reached::End,
            };
            let end = memchr::memchr(b'\n', buffer);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            let room = self.limit - self.line.len();
            let was_skipping = self.is_skipping;
            if !was_skipping {
                self.line.extend_from_slice(&buffer[..taken.min(room)]);
            }
            self.reader.consume(taken);
            if was_skipping {
                self.is_skipping = end.is_none();
            } else if taken > room {
                self.is_skipping = end.is_none();
                return Reached::Limit;
            } else if end.is_some() {
                return Reached::LineFeed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_are_whole_or_known_to_be_too_long() {
        let mut lines = BoundedLines::new(&b"one\n\n1234567\n12345678\nlonger than that\nrest"[..], 8);
        assert_eq!(lines.next().await, Line::Whole(b"one"));
        assert_eq!(lines.next().await, Line::Whole(b""));
        assert_eq!(lines.next().await, Line::Whole(b"1234567"));
        assert_eq!(lines.next().await, Line::TooLong(b"12345678"));
        assert_eq!(lines.next().await, Line::TooLong(b"longer t"));
        assert_eq!(lines.next().await, Line::End(b"rest"));
        assert_eq!(lines.next().await, Line::End(b""));
    }

    #[tokio::test]
    async fn a_line_that_never_ends_is_reported_and_its_rest_skipped() {
        let (mut writer, reader) = tokio::io::duplex(1 << 10);
        let mut lines = BoundedLines::new(reader, 4);
        writer.write_all(b"12345").await.unwrap();
        assert_eq!(lines.next().await, Line::TooLong(b"1234"));
        writer.write_all(b"6789\nnext").await.unwrap();
        // What has arrived of a line outlives a reader that gave up waiting.
        assert!(line_now(&mut lines).is_none());
        writer.write_all(b"\n").await.unwrap();
        assert_eq!(lines.next().await, Line::TooLong(b"next"));
        writer.write_all(b"end\n").await.unwrap();
        assert_eq!(lines.next().await, Line::Whole(b"end"));
    }

    /// The next line, if it is there already.
    fn line_now<R: AsyncRead + Unpin>(lines: &mut BoundedLines<R>) -> Option<Vec<u8>> {
        let mut next = std::pin::pin!(lines.next());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match next.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Line::Whole(line) | Line::TooLong(line) | Line::End(line)) => Some(line.to_vec()),
            std::task::Poll::Pending => None,
        }
    }
}
