//! Messages as chunks in a pipe.
//!
//! A chunk is a header of four bytes, little-endian, and its data. The header holds the length and two flags: the last
//! chunk of a message, and a retracted message (its chunks so far are discarded). Chunks let a child write a large
//! value while it walks it, instead of encoding it into memory first.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Output;

const LAST: u32 = 1 << 31;
const TAKEN_BACK: u32 = 1 << 30;
const LENGTH: u32 = TAKEN_BACK - 1;
const HEADER: usize = 4;

/// How much a child buffers before it writes: the capacity of a pipe.
const GATHERED_BYTES: usize = 64 << 10;
/// How much the server reads at once. Messages up to this size are decoded in the read buffer.
const READ_AHEAD: usize = 16 << 10;

/// Starts a message in memory. [`seal`] must follow.
pub(in crate::monty) fn begin(message: &mut Vec<u8>) {
    message.clear();
    message.extend_from_slice(&[0; HEADER]);
}

/// Ends a message in memory, which becomes one chunk. Returns `None` if it is too large for one.
pub(in crate::monty) fn seal(message: &mut [u8]) -> Option<&[u8]> {
    let length = u32::try_from(message.len() - HEADER).ok().filter(|length| *length <= LENGTH)?;
    message[..HEADER].copy_from_slice(&(length | LAST).to_le_bytes());
    Some(message)
}

/// Why a message was not sent.
#[derive(Debug)]
pub(in crate::monty) enum SendError {
    /// The other end is closed.
    Io(io::Error),
    /// It has more bytes than allowed. The reader discards it, and the next message can follow.
    TooLarge,
}

/// Writes messages while they are encoded.
pub(in crate::monty) struct MessageWriter<W> {
    pipe: W,
    /// Space for a header, and the buffered bytes.
    gathered: Vec<u8>,
    /// Bytes of the message so far.
    size: usize,
    pub(in crate::monty) max_size: usize,
    /// Encoding cannot fail, but writing can: the first failure is kept until the end of the message.
    failure: Option<io::Error>,
}

impl<W: Write> MessageWriter<W> {
    pub(in crate::monty) fn new(pipe: W) -> Self {
        let mut gathered = Vec::with_capacity(HEADER + GATHERED_BYTES);
        gathered.extend_from_slice(&[0; HEADER]);
        Self { pipe, gathered, size: 0, max_size: usize::MAX, failure: None }
    }

    /// Ends a message.
    pub(in crate::monty) fn send(&mut self) -> Result<(), SendError> {
        let too_large = self.size > self.max_size;
        if too_large {
            self.take_back();
        } else {
            self.write_chunk(LAST);
        }
        self.size = 0;
        match self.failure.take() {
            Some(failure) => Err(SendError::Io(failure)),
            None if too_large => Err(SendError::TooLarge),
            None => Ok(()),
        }
    }

    /// Makes the reader discard the message that was begun.
    pub(in crate::monty) fn take_back(&mut self) {
        self.gathered.truncate(HEADER);
        self.write_chunk(LAST | TAKEN_BACK);
        self.size = 0;
    }

    fn write_chunk(&mut self, flags: u32) {
        let length = (self.gathered.len() - HEADER) as u32;
        self.gathered[..HEADER].copy_from_slice(&(length | flags).to_le_bytes());
        if self.failure.is_none() {
            self.failure = self.pipe.write_all(&self.gathered).err();
        }
        self.gathered.truncate(HEADER);
    }
}

impl<W: Write> Output for MessageWriter<W> {
    fn put(&mut self, bytes: &[u8]) {
        self.size = self.size.saturating_add(bytes.len());
        if self.size > self.max_size || self.failure.is_some() {
            return;
        }
        if HEADER + GATHERED_BYTES - self.gathered.len() < bytes.len() && self.gathered.len() > HEADER {
            self.write_chunk(0);
        }
        if bytes.len() <= GATHERED_BYTES {
            self.gathered.extend_from_slice(bytes);
            return;
        }
        for part in bytes.chunks(LENGTH as usize) {
            let header = (part.len() as u32).to_le_bytes();
            self.failure = self.pipe.write_all(&header).and_then(|()| self.pipe.write_all(part)).err();
        }
    }
}

/// Reads a message of the server, which is one chunk. Returns `None` at the end.
pub(in crate::monty) fn read_request(pipe: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER];
    match pipe.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut message = vec![0; (u32::from_le_bytes(header) & LENGTH) as usize];
    pipe.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Why no message could be read.
#[derive(Debug)]
pub(in crate::monty) enum ReadError {
    /// The child has closed its end, or reading failed.
    Ended,
    /// More bytes than allowed.
    TooLarge,
    /// An empty chunk that is not the last one.
    Empty,
}

/// A message as read.
pub(in crate::monty) enum Message<'a> {
    Small(&'a [u8]),
    Large(Vec<u8>),
}

/// Reads the messages of a child. Not cancel-safe: must not be used again if a read is abandoned.
pub(in crate::monty) struct MessageReader<R> {
    pipe: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    pub(in crate::monty) fn new(pipe: R) -> Self {
        Self { pipe, buffer: vec![0; READ_AHEAD].into_boxed_slice(), start: 0, end: 0 }
    }

    #[cfg(unix)]
    pub(in crate::monty) fn pipe(&mut self) -> &mut R {
        &mut self.pipe
    }

    /// Returns the next message, of at most `max_size` bytes.
    pub(in crate::monty) async fn next(&mut self, max_size: usize) -> Result<Message<'_>, ReadError> {
        let mut message = Vec::new();
        loop {
            self.fill(HEADER).await?;
            let mut header = [0; HEADER];
            header.copy_from_slice(&self.buffer[self.start..self.start + HEADER]);
            let header = u32::from_le_bytes(header);
            let length = (header & LENGTH) as usize;
            self.start += HEADER;
            if length > max_size.saturating_sub(message.len()) {
                return Err(ReadError::TooLarge);
            }
            // Without this check, a child could send chunks forever.
            if length == 0 && header & LAST == 0 {
                return Err(ReadError::Empty);
            }
            if header & LAST != 0 && header & TAKEN_BACK == 0 && message.is_empty() && length <= READ_AHEAD {
                self.fill(length).await?;
                let start = self.start;
                self.start += length;
                return Ok(Message::Small(&self.buffer[start..self.start]));
            }
            self.append(&mut message, length).await?;
            if header & TAKEN_BACK != 0 {
                message = Vec::new();
            } else if header & LAST != 0 {
                return Ok(Message::Large(message));
            }
        }
    }

    /// Reads until the buffer holds `wanted` bytes, which must fit into it.
    async fn fill(&mut self, wanted: usize) -> Result<(), ReadError> {
        if self.start + wanted > self.buffer.len() || self.start == self.end {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < wanted {
            match self.pipe.read(&mut self.buffer[self.end..]).await {
                Ok(0) | Err(_) => return Err(ReadError::Ended),
                Ok(count) => self.end += count,
            }
        }
        Ok(())
    }

    async fn append(&mut self, message: &mut Vec<u8>, length: usize) -> Result<(), ReadError> {
        let buffered = length.min(self.end - self.start);
        message.extend_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        let mut rest = (&mut self.pipe).take((length - buffered) as u64);
        while rest.limit() > 0 {
            // Memory is reserved for data that arrives, not for the length that a header announces.
            message.reserve((rest.limit() as usize).min(GATHERED_BYTES));
            match rest.read_buf(message).await {
                Ok(0) | Err(_) => return Err(ReadError::Ended),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes around those of the buffers, alone and next to each other.
    #[tokio::test]
    async fn messages_arrive_as_they_were_written() {
        let sizes = [0, 1, READ_AHEAD - 4, READ_AHEAD, READ_AHEAD + 1, GATHERED_BYTES, 3 * GATHERED_BYTES + 7, 5];
        let mut pipe = Vec::new();
        let mut writer = MessageWriter::new(&mut pipe);
        for size in sizes {
            for part in [size / 3, size - size / 3] {
                writer.put(&vec![size as u8; part]);
            }
            assert!(writer.send().is_ok());
        }
        let mut reader = MessageReader::new(pipe.as_slice());
        for size in sizes {
            let message = match reader.next(usize::MAX).await {
                Ok(Message::Small(bytes)) => bytes.to_vec(),
                Ok(Message::Large(bytes)) => bytes,
                Err(error) => panic!("{size}: {error:?}"),
            };
            assert!(message == vec![size as u8; size], "{size}");
        }
        assert!(matches!(reader.next(usize::MAX).await, Err(ReadError::Ended)));
    }

    #[tokio::test]
    async fn a_message_that_is_too_large_is_forgotten_by_the_reader() {
        let mut pipe = Vec::new();
        let mut writer = MessageWriter::new(&mut pipe);
        writer.max_size = 2 * GATHERED_BYTES;
        for _ in 0..3 {
            writer.put(&vec![1; GATHERED_BYTES]);
        }
        assert!(matches!(writer.send(), Err(SendError::TooLarge)));
        writer.put(b"next");
        assert!(writer.send().is_ok());
        let mut reader = MessageReader::new(pipe.as_slice());
        assert!(matches!(reader.next(usize::MAX).await, Ok(Message::Small(b"next"))));
    }

    #[tokio::test]
    async fn a_reader_stops_at_its_limit_and_at_the_end() {
        let mut message = Vec::new();
        begin(&mut message);
        message.put(&[7; 100]);
        let sealed = seal(&mut message).unwrap().to_vec();
        assert_eq!(read_request(&mut sealed.as_slice()).unwrap(), Some(vec![7; 100]));
        assert!(matches!(MessageReader::new(sealed.as_slice()).next(99).await, Err(ReadError::TooLarge)));
        assert!(matches!(MessageReader::new(&sealed[..50]).next(100).await, Err(ReadError::Ended)));
        let announced = u32::MAX.to_le_bytes();
        assert!(matches!(MessageReader::new(&announced[..]).next(100).await, Err(ReadError::TooLarge)));
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_reported_at_the_end_of_the_message() {
        let mut writer = MessageWriter::new(Closed);
        writer.put(&vec![0; 2 * GATHERED_BYTES]);
        assert!(matches!(writer.send(), Err(SendError::Io(_))));
    }
}
