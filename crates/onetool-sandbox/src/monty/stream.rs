//! A message goes into the pipe while it is encoded.
//!
//! The protocol's own writer encodes a message into one buffer first, so that a large value would be in the child's
//! memory twice, while the server already makes room for it. Here what is small is gathered in a buffer of fixed size,
//! and what is larger than that goes from the value to the pipe itself.

use std::io::{self, Write};

use bytes::BufMut;
use bytes::buf::UninitSlice;
use monty_proto::{FrameError, MAX_FRAME_LEN};
use prost::Message;

/// What is gathered before it is written: as much as a pipe holds.
const GATHERED_BYTES: usize = 64 << 10;

/// Writes messages as frames: their length in four bytes, the lowest first, then the message.
pub(super) struct Frames<W> {
    gathered: Box<[u8]>,
    filled: usize,
    pipe: W,
    /// Encoding cannot fail, writing can: the first failure is kept for the end of the frame.
    failure: Option<io::Error>,
}

impl<W: Write> Frames<W> {
    pub(super) fn new(pipe: W) -> Self {
        Self { gathered: vec![0; GATHERED_BYTES].into_boxed_slice(), filled: 0, pipe, failure: None }
    }

    /// Sends one message. One that is too large for a frame is refused before a byte is written.
    pub(super) fn send(&mut self, message: &impl Message) -> Result<(), FrameError> {
        let size = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
        if size > MAX_FRAME_LEN {
            return Err(FrameError::FrameTooLarge { len: size, max: MAX_FRAME_LEN });
        }
        self.put_slice(&size.to_le_bytes());
        message.encode_raw(self);
        self.write_gathered();
        match self.failure.take() {
            Some(failure) => Err(FrameError::Io(failure)),
            None => self.pipe.flush().map_err(FrameError::Io),
        }
    }

    fn write_gathered(&mut self) {
        if self.failure.is_none() {
            self.failure = self.pipe.write_all(&self.gathered[..self.filled]).err();
        }
        self.filled = 0;
    }
}

#[expect(unsafe_code, reason = "the trait is declared so; the slices handed out are ordinary borrows of `gathered`")]
// SAFETY: `chunk_mut` lends initialised bytes that live as long as the borrow, and `advance_mut` only counts them.
unsafe impl<W: Write> BufMut for Frames<W> {
    fn remaining_mut(&self) -> usize {
        usize::MAX
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        self.filled = (self.filled + count).min(GATHERED_BYTES);
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.filled == GATHERED_BYTES {
            self.write_gathered();
        }
        UninitSlice::new(&mut self.gathered[self.filled..])
    }

    fn put_slice(&mut self, bytes: &[u8]) {
        if bytes.len() > GATHERED_BYTES - self.filled {
            self.write_gathered();
        }
        if bytes.len() > GATHERED_BYTES {
            if self.failure.is_none() {
                self.failure = self.pipe.write_all(bytes).err();
            }
            return;
        }
        self.gathered[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use monty_proto::{FrameReader, pb, write_frame};
    use monty_types::MontyObject;

    use super::*;

    fn completed(value: MontyObject) -> pb::ChildEvent {
        let complete = pb::Complete { value: Some(value.into()) };
        pb::ChildEvent { kind: Some(pb::child_event::Kind::Complete(complete)), ..Default::default() }
    }

    /// Sizes around that of the buffer, alone and beside one another.
    #[test]
    fn frames_are_those_of_the_protocols_own_writer() {
        let sizes = [0, 1, GATHERED_BYTES - 9, GATHERED_BYTES, GATHERED_BYTES + 1, 3 * GATHERED_BYTES + 7];
        let texts = || sizes.iter().map(|size| MontyObject::String("x".repeat(*size)));
        let numbers = (0..40_000).map(MontyObject::Int).collect();
        let mut values: Vec<MontyObject> = texts().collect();
        values.push(MontyObject::List(texts().collect()));
        values.push(MontyObject::List(numbers));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut frames = Frames::new(&mut ours);
        for value in values {
            let event = completed(value);
            assert!(frames.send(&event).is_ok());
            assert!(write_frame(&mut theirs, &event).is_ok());
        }
        drop(frames);
        assert!(ours == theirs);
        assert!(FrameReader::new(ours.as_slice()).read::<pb::ChildEvent>().is_ok_and(|event| event.is_some()));
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
    fn a_closed_pipe_is_told_at_the_end_of_the_frame() {
        let mut frames = Frames::new(Closed);
        let sent = frames.send(&completed(MontyObject::String("x".repeat(2 * GATHERED_BYTES))));
        assert!(matches!(sent, Err(FrameError::Io(_))));
    }
}
