//! Serializes values in wire form directly into a message, without an intermediate tree, up to a limit.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onetool_sdk::{Part, Value};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

const TAG: &str = "$ot";

/// A value to be serialized in wire form.
pub(super) struct Wire<'a>(pub(super) &'a Value);

struct Items<'a>(&'a [Value]);

struct Pairs<'a>(&'a [(Value, Value)]);

struct Fields<'a>(&'a [(String, Value)]);

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::None => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::Float(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::Str(text) => serializer.serialize_str(text),
            Value::List(items) => Items(items).serialize(serializer),
            Value::Bytes(bytes) => tagged(serializer, "bytes", &STANDARD.encode(bytes)),
            Value::Tuple(items) => tagged(serializer, "tuple", &Items(items)),
            Value::Set(items) => tagged(serializer, "set", &Items(items)),
            Value::FrozenSet(items) => tagged(serializer, "frozenset", &Items(items)),
            Value::Dict(pairs) => {
                let plain = pairs.iter().all(|(key, _)| matches!(key, Value::Str(text) if text != TAG));
                if !plain {
                    return tagged(serializer, "dict", &Pairs(pairs));
                }
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                for (key, value) in pairs {
                    map.serialize_entry(key.as_str().unwrap_or_default(), &Wire(value))?;
                }
                map.end()
            }
            Value::Path(path) => tagged(serializer, "path", path),
            Value::Opaque(text) => tagged(serializer, "opaque", text),
            Value::Record { type_name, fields } => typed(serializer, "record", type_name, &Fields(fields)),
            Value::Exception { type_name, message } => typed(serializer, "exception", type_name, message),
            Value::Part(Part::Image { media_type, data }) => {
                typed(serializer, "image", media_type, &STANDARD.encode(data))
            }
            Value::Part(Part::Other(json)) => tagged(serializer, "part", json),
            Value::BigInt(_)
            | Value::Float(_)
            | Value::Date(_)
            | Value::DateTime(_)
            | Value::Time(_)
            | Value::TimeDelta(_)
            | Value::Part(Part::Text(_)) => self.0.to_wire().serialize(serializer),
        }
    }
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Wire))
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.0.len()))?;
        for (key, value) in self.0 {
            sequence.serialize_element(&(Wire(key), Wire(value)))?;
        }
        sequence.end()
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.0.len()))?;
        for (name, value) in self.0 {
            sequence.serialize_element(&(name, Wire(value)))?;
        }
        sequence.end()
    }
}

fn tagged<S: Serializer>(serializer: S, tag: &str, content: &impl Serialize) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry(TAG, tag)?;
    map.serialize_entry("v", content)?;
    map.end()
}

fn typed<S: Serializer>(
    serializer: S,
    tag: &str,
    type_name: &str,
    content: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry(TAG, tag)?;
    map.serialize_entry("t", type_name)?;
    map.serialize_entry("v", content)?;
    map.end()
}

/// A buffer that refuses to grow beyond a limit, or at all once `stop` is set.
pub(super) struct LimitedBuffer<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) limit: usize,
    pub(super) stop: &'a AtomicBool,
}

impl Write for LimitedBuffer<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + data.len() > self.limit || self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether encoding a value is faster than handing it to another thread.
pub(super) fn is_small(value: &Value) -> bool {
    fn rest(value: &Value, left: usize) -> Option<usize> {
        let left = left.checked_sub(16)?;
        match value {
            Value::Str(text) | Value::Path(text) | Value::Opaque(text) => left.checked_sub(text.len()),
            Value::Bytes(bytes) => left.checked_sub(bytes.len()),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                items.iter().try_fold(left, |left, item| rest(item, left))
            }
            Value::Dict(pairs) => pairs.iter().try_fold(left, |left, (key, value)| rest(value, rest(key, left)?)),
            Value::Record { fields, .. } => {
                fields.iter().try_fold(left, |left, (name, value)| rest(value, left.checked_sub(name.len())?))
            }
            Value::BigInt(number) => (number.bits() < 4096).then_some(left),
            Value::Exception { message, .. } => left.checked_sub(message.len()),
            Value::Part(_) => None,
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Date(_)
            | Value::DateTime(_)
            | Value::Time(_)
            | Value::TimeDelta(_) => Some(left),
        }
    }
    rest(value, super::conversation::SMALL_MESSAGE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_the_wire_form() {
        let values = Value::List(vec![
            Value::Dict(vec![(Value::from("a"), Value::Tuple(vec![Value::Int(1)]))]),
            Value::Dict(vec![(Value::from(TAG), Value::Float(f64::NAN))]),
            Value::Record { type_name: "P".into(), fields: vec![("x".into(), Value::Bytes(vec![1]))] },
            Value::Part(Part::Image { media_type: "image/png".into(), data: vec![1, 2] }),
            Value::Float(1.5),
        ]);
        assert_eq!(serde_json::to_value(Wire(&values)).unwrap(), values.to_wire());
    }

    #[test]
    fn a_message_never_grows_beyond_its_limit() {
        let stop = AtomicBool::new(false);
        let mut buffer = LimitedBuffer { bytes: Vec::new(), limit: 10, stop: &stop };
        assert!(serde_json::to_writer(&mut buffer, &Wire(&Value::from("x".repeat(20)))).is_err());
        assert!(buffer.bytes.len() <= 10);
    }

    #[test]
    fn large_values_are_told_from_small_ones() {
        assert!(is_small(&Value::List(vec![Value::Int(1); 10])));
        assert!(!is_small(&Value::List(vec![Value::Int(1); 100_000])));
        assert!(!is_small(&Value::from("x".repeat(1 << 20))));
    }
}
