//! Decodes a child's messages directly into values, within a [`Budget`].
//!
//! A program can write to the descriptor of its own protocol, so messages are not trusted even though our own host
//! program normally writes them. There is no intermediate tree: every value is charged before it is built, integers
//! before their digits are read, and decoding stops when the message is no longer wanted. The format is that of
//! `wire.py`, in which the key `$ot` always comes first.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigInt;
use onetool_sdk::{Part, Value};
use serde_json::{Map, Value as Json, json};

use crate::budget::{Budget, BudgetExceeded};

/// Number of values between two checks of whether the message is still wanted.
const VALUES_PER_CHECK: u32 = 1024;
/// Maximum length of a number; Python writes no longer ones.
const MAX_NUMBER: usize = 64;
const TAG: &str = "$ot";

/// Why a message cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error("{0} at byte {1}")]
    Malformed(&'static str, usize),
    /// The run has ended in the meantime.
    #[error("the run has ended")]
    Stopped,
}

type Decoded<T> = Result<T, DecodeError>;

/// A position in a message.
pub(super) struct Decoder<'a> {
    text: &'a str,
    at: usize,
    budget: Budget,
    stop: &'a AtomicBool,
    until_check: u32,
}

impl<'a> Decoder<'a> {
    /// `stop` may be set from another thread.
    pub(super) fn new(message: &'a [u8], budget: Budget, stop: &'a AtomicBool) -> Decoded<Self> {
        let text = std::str::from_utf8(message)
            .map_err(|error| DecodeError::Malformed("text that is not UTF-8", error.valid_up_to()))?;
        Ok(Self { text, at: 0, budget, stop, until_check: VALUES_PER_CHECK })
    }

    /// Memory of the values built so far, in bytes.
    pub(super) fn spent(&self) -> usize {
        self.budget.spent()
    }

    fn malformed<T>(&self, problem: &'static str) -> Decoded<T> {
        Err(DecodeError::Malformed(problem, self.at))
    }

    /// Returns the next byte that is not whitespace, or 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn expect(&mut self, byte: u8) -> Decoded<()> {
        if self.peek() == byte && self.at < self.text.len() {
            self.at += 1;
            Ok(())
        } else {
            self.malformed("an unexpected character")
        }
    }

    pub(super) fn end(&mut self) -> Decoded<()> {
        self.peek();
        if self.at == self.text.len() { Ok(()) } else { self.malformed("text after the message") }
    }

    fn literal(&mut self, word: &'static str) -> Decoded<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            self.malformed("an unknown word")
        }
    }

    /// Calls `item` for each item of an array, before it is read.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Decoded<()>) -> Decoded<()> {
        self.expect(b'[')?;
        if self.peek() == b']' {
            return self.expect(b']');
        }
        loop {
            item(self)?;
            if self.peek() == b',' {
                self.expect(b',')?;
            } else {
                return self.expect(b']');
            }
        }
    }

    /// Calls `field` with each key of an object, before its value is read.
    pub(super) fn object(&mut self, mut field: impl FnMut(&mut Self, &str) -> Decoded<()>) -> Decoded<()> {
        self.expect(b'{')?;
        if self.peek() == b'}' {
            return self.expect(b'}');
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            field(self, &key)?;
            if self.peek() == b',' {
                self.expect(b',')?;
            } else {
                return self.expect(b'}');
            }
        }
    }

    /// Returns the content of a string without its quotes, still escaped, and whether it has escapes.
    fn raw_string(&mut self) -> Decoded<(&'a str, bool)> {
        self.expect(b'"')?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut escaped = false;
        loop {
            let rest = &bytes[self.at..];
            let Some(found) = rest.iter().position(|byte| *byte == b'"' || *byte == b'\\') else {
                return self.malformed("a string without an end");
            };
            self.at += found;
            if bytes[self.at] == b'"' {
                let content = &self.text[start..self.at];
                self.at += 1;
                return Ok((content, escaped));
            }
            escaped = true;
            self.at += 2;
            if self.at > bytes.len() {
                self.at = bytes.len();
                return self.malformed("a string without an end");
            }
        }
    }

    /// Reads a string that needs no escapes: digits, base64, the name of a type.
    fn plain_string(&mut self) -> Decoded<&'a str> {
        match self.raw_string()? {
            (content, false) => Ok(content),
            _ => self.malformed("an escape where there is none"),
        }
    }

    pub(super) fn string(&mut self) -> Decoded<String> {
        let (content, escaped) = self.raw_string()?;
        self.budget.charge_bytes(content.len())?;
        if !escaped {
            return Ok(content.to_owned());
        }
        let mut text = String::with_capacity(content.len());
        let mut rest = content;
        while let Some((before, after)) = rest.split_once('\\') {
            text.push_str(before);
            let mut characters = after.chars();
            let escape = match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(same @ ('"' | '\\' | '/')) => same,
                Some('u') => {
                    let (character, after) = unicode_escape(characters.as_str());
                    text.push(character);
                    rest = after;
                    continue;
                }
                _ => return self.malformed("an unknown escape"),
            };
            text.push(escape);
            rest = characters.as_str();
        }
        text.push_str(rest);
        Ok(text)
    }

    pub(super) fn optional_string(&mut self) -> Decoded<Option<String>> {
        if self.peek() == b'n' { self.literal("null").map(|()| None) } else { self.string().map(Some) }
    }

    pub(super) fn boolean(&mut self) -> Decoded<bool> {
        if self.peek() == b't' { self.literal("true").map(|()| true) } else { self.literal("false").map(|()| false) }
    }

    /// Reads a name that is looked up, read back or given to an argument.
    pub(super) fn name(&mut self) -> Decoded<String> {
        let name = self.string()?;
        self.budget.charge_name(name.len())?;
        Ok(name)
    }

    pub(super) fn integer<T: std::str::FromStr>(&mut self) -> Decoded<T> {
        match self.number()?.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.malformed("an invalid number"),
        }
    }

    fn number(&mut self) -> Decoded<&'a str> {
        self.peek();
        let start = self.at;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        self.at += self.text.as_bytes()[start..].iter().take_while(|byte| is_part(byte)).take(MAX_NUMBER + 1).count();
        if (start + 1..=start + MAX_NUMBER).contains(&self.at) {
            Ok(&self.text[start..self.at])
        } else {
            self.malformed("an invalid number")
        }
    }

    /// Charges one value, and periodically checks whether the message is still wanted.
    pub(super) fn node(&mut self, level: usize) -> Decoded<()> {
        self.budget.check_depth(level)?;
        self.budget.charge_node()?;
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = VALUES_PER_CHECK;
            if self.stop.load(Ordering::Relaxed) {
                return Err(DecodeError::Stopped);
            }
        }
        Ok(())
    }

    /// Reads a value in wire form, `level` containers deep.
    pub(super) fn value(&mut self, level: usize) -> Decoded<Value> {
        self.node(level)?;
        match self.peek() {
            b'"' => self.string().map(Value::Str),
            b'[' => self.items(level).map(Value::List),
            b'{' => self.mapping(level),
            b'n' => self.literal("null").map(|()| Value::None),
            b't' | b'f' => self.boolean().map(Value::Bool),
            _ => self.number_value(),
        }
    }

    fn number_value(&mut self) -> Decoded<Value> {
        let digits = self.number()?;
        if let Ok(integer) = digits.parse() {
            return Ok(Value::Int(integer));
        }
        if digits.contains(['.', 'e', 'E'])
            && let Ok(float) = digits.parse()
        {
            return Ok(Value::Float(float));
        }
        match digits.parse::<BigInt>() {
            Ok(integer) => Ok(Value::BigInt(integer)),
            Err(_) => self.malformed("an invalid number"),
        }
    }

    pub(super) fn items(&mut self, level: usize) -> Decoded<Vec<Value>> {
        let mut items = Vec::new();
        self.array(|decoder| {
            items.push(decoder.value(level + 1)?);
            Ok(())
        })?;
        items.shrink_to_fit();
        Ok(items)
    }

    fn mapping(&mut self, level: usize) -> Decoded<Value> {
        if let Some(tag) = self.tag()? {
            return self.tagged(tag, level);
        }
        let mut pairs = Vec::new();
        self.object(|decoder, key| {
            if key == TAG {
                return decoder.malformed("a type that is not named first");
            }
            decoder.node(level + 1)?;
            let value = decoder.value(level + 1)?;
            pairs.push((Value::Str(key.to_owned()), value));
            Ok(())
        })?;
        pairs.shrink_to_fit();
        Ok(Value::Dict(pairs))
    }

    /// Returns the type of an object if its first key gives it; otherwise reads nothing.
    fn tag(&mut self) -> Decoded<Option<&'a str>> {
        let start = self.at;
        self.expect(b'{')?;
        if self.peek() == b'"' && self.plain_string().is_ok_and(|key| key == TAG) {
            self.expect(b':')?;
            return self.plain_string().map(Some);
        }
        self.at = start;
        Ok(None)
    }

    /// Reads the rest of an object after its type.
    fn tagged(&mut self, tag: &str, level: usize) -> Decoded<Value> {
        self.expect(b',')?;
        let mut key = self.plain_string()?;
        let mut type_name = String::new();
        if key == "t" {
            self.expect(b':')?;
            type_name = self.string()?;
            self.expect(b',')?;
            key = self.plain_string()?;
        }
        if key != "v" {
            return self.malformed("a type without content");
        }
        self.expect(b':')?;
        self.peek();
        let value = self.content(tag, type_name, level)?;
        self.expect(b'}')?;
        Ok(value)
    }

    fn content(&mut self, tag: &str, type_name: String, level: usize) -> Decoded<Value> {
        Ok(match tag {
            "int" => {
                let digits = self.plain_string()?;
                self.budget.charge_digits(digits.len())?;
                match digits.parse::<BigInt>() {
                    Ok(big) => i64::try_from(&big).map_or(Value::BigInt(big), Value::Int),
                    Err(_) => return self.malformed("an invalid integer"),
                }
            }
            "bytes" => Value::Bytes(self.base64()?),
            "image" => Value::Part(Part::Image { media_type: type_name, data: self.base64()? }),
            "tuple" => Value::Tuple(self.items(level)?),
            "set" => Value::Set(self.items(level)?),
            "frozenset" => Value::FrozenSet(self.items(level)?),
            "dict" => Value::Dict(self.pairs(level, |decoder| decoder.value(level + 1))?),
            "record" => {
                let fields = self.pairs(level, |decoder| {
                    decoder.node(level + 1)?;
                    decoder.string()
                })?;
                Value::Record { type_name, fields }
            }
            "path" => Value::Path(self.string()?),
            "opaque" => Value::Opaque(self.string()?),
            "exception" => Value::Exception { type_name, message: self.string()? },
            "text" => Value::Part(Part::Text(self.string()?)),
            "part" => Value::Part(Part::Other(self.json(level)?)),
            "float" | "date" | "datetime" | "time" | "timedelta" => {
                let content = if self.peek() == b'"' {
                    Json::from(self.plain_string()?)
                } else {
                    Json::from(self.integer::<i64>()?)
                };
                match Value::from_wire(json!({TAG: tag, "v": content})) {
                    Ok(value) => value,
                    Err(_) => return self.malformed("invalid content of a value"),
                }
            }
            _ => return self.malformed("an unknown type"),
        })
    }

    fn base64(&mut self) -> Decoded<Vec<u8>> {
        let text = self.plain_string()?;
        self.budget.charge_bytes(text.len())?;
        match STANDARD.decode(text) {
            Ok(bytes) => Ok(bytes),
            Err(_) => self.malformed("invalid base64"),
        }
    }

    /// Reads pairs of a key and a value, each an array of two.
    pub(super) fn pairs<K>(
        &mut self,
        level: usize,
        mut key: impl FnMut(&mut Self) -> Decoded<K>,
    ) -> Decoded<Vec<(K, Value)>> {
        let mut pairs = Vec::new();
        self.array(|decoder| {
            decoder.expect(b'[')?;
            let name = key(decoder)?;
            decoder.expect(b',')?;
            let value = decoder.value(level + 1)?;
            pairs.push((name, value));
            decoder.expect(b']')
        })?;
        pairs.shrink_to_fit();
        Ok(pairs)
    }

    /// Reads content from a server that a program passes on unchanged.
    fn json(&mut self, level: usize) -> Decoded<Json> {
        self.node(level)?;
        match self.peek() {
            b'"' => self.string().map(Json::String),
            b'[' => {
                let mut items = Vec::new();
                self.array(|decoder| {
                    items.push(decoder.json(level + 1)?);
                    Ok(())
                })?;
                Ok(Json::Array(items))
            }
            b'{' => {
                let mut fields = Map::new();
                self.object(|decoder, key| {
                    decoder.node(level + 1)?;
                    let value = decoder.json(level + 1)?;
                    fields.insert(key.to_owned(), value);
                    Ok(())
                })?;
                Ok(Json::Object(fields))
            }
            b'n' => self.literal("null").map(|()| Json::Null),
            b't' | b'f' => self.boolean().map(Json::Bool),
            _ => match serde_json::from_str(self.number()?) {
                Ok(number) => Ok(Json::Number(number)),
                Err(_) => self.malformed("an invalid number"),
            },
        }
    }
}

/// Returns the character after `\u` and the rest. An unpaired surrogate becomes the replacement character.
fn unicode_escape(rest: &str) -> (char, &str) {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(rest) else { return (char::REPLACEMENT_CHARACTER, rest) };
    let after = &rest[4..];
    if let Some(character) = char::from_u32(first) {
        return (character, after);
    }
    let second = after.strip_prefix("\\u").and_then(|low| Some((unit(low)?, &low[4..])));
    match second {
        Some((low @ 0xdc00..=0xdfff, end)) if (0xd800..0xdc00).contains(&first) => {
            let combined = 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(combined).unwrap_or(char::REPLACEMENT_CHARACTER), end)
        }
        _ => (char::REPLACEMENT_CHARACTER, after),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
