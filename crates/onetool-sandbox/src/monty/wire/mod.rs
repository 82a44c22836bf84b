//! The protocol between the server and a Monty child.
//!
//! Both ends are the same executable, so the format has no versions. A message is a kind (one byte) and its fields; a
//! value is a tag and a payload. Numbers are LEB128, texts and containers are prefixed with their length. [`frames`]
//! splits messages into chunks, [`requests`] go to the child, [`events`] come from it.
//!
//! **Invariant:** the server trusts nothing that it reads. Every length is checked against the available bytes, and
//! every value is charged to a [`Budget`] before it is built.

pub(super) mod events;
pub(super) mod frames;
pub(super) mod requests;
mod values;

use std::num::TryFromIntError;

use crate::budget::{Budget, BudgetExceeded};

pub(super) use values::{Build, ContainerKind, HostClass, MAX_DEPTH, Moment, Scalar, TooDeep, ValueWriter, read_value};

/// The destination of a message: memory in the server, the pipe in the child.
pub(super) trait Output {
    fn put(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

pub(super) fn put_byte(out: &mut impl Output, byte: u8) {
    out.put(&[byte]);
}

/// Writes seven bits per byte, lowest first; the high bit means that more follow.
pub(super) fn put_number(out: &mut impl Output, mut number: u64) {
    let mut bytes = [0; 10];
    let mut length = 0;
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes[length] = if number == 0 { low } else { low | 0x80 };
        length += 1;
        if number == 0 {
            return out.put(&bytes[..length]);
        }
    }
}

pub(super) fn put_length(out: &mut impl Output, length: usize) {
    put_number(out, length as u64);
}

/// Writes a signed number in zigzag encoding: small numbers of either sign take few bytes.
pub(super) fn put_signed(out: &mut impl Output, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

pub(super) fn put_bytes(out: &mut impl Output, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.put(bytes);
}

pub(super) fn put_text(out: &mut impl Output, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Writes an optional value, using `put` if there is one.
pub(super) fn put_optional<T, O: Output>(out: &mut O, value: Option<T>, put: impl FnOnce(&mut O, T)) {
    put_byte(out, u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Why a message cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error("invalid message: {0}")]
    Invalid(&'static str),
}

impl From<TryFromIntError> for WireError {
    fn from(_: TryFromIntError) -> Self {
        Self::Invalid("a number is out of range")
    }
}

/// A message being decoded.
pub(super) struct Input<'a> {
    rest: &'a [u8],
    pub(super) budget: Budget,
}

impl<'a> Input<'a> {
    pub(super) fn new(message: &'a [u8], budget: Budget) -> Self {
        Self { rest: message, budget }
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireError> {
        let (&byte, rest) = self.rest.split_first().ok_or(WireError::Invalid("it ends early"))?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(WireError::Invalid("it ends early"))?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError::Invalid("a number is too long"))
    }

    pub(super) fn small<T: TryFrom<u64, Error = TryFromIntError>>(&mut self) -> Result<T, WireError> {
        Ok(T::try_from(self.number()?)?)
    }

    pub(super) fn signed(&mut self) -> Result<i64, WireError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a number of items. Each takes at least one byte, so a count above the remaining bytes is invalid.
    pub(super) fn count(&mut self) -> Result<usize, WireError> {
        let count = self.small::<usize>()?;
        if count > self.rest.len() { Err(WireError::Invalid("a length is beyond the end")) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.count()?;
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.budget.charge_bytes(length)?;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, WireError> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Invalid("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// Reads a name that is looked up, called or given to an argument.
    pub(super) fn name(&mut self) -> Result<String, WireError> {
        self.budget.charge_name(0)?;
        self.text()
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(WireError::Invalid("it is neither there nor missing")),
        }
    }

    /// Checks that nothing follows.
    pub(super) fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Invalid("it goes on after its end")) }
    }
}

#[cfg(test)]
mod tests;
