//! Values exchanged between Python and tools: everything that the sandbox, a worker, an MCP server or a Rust function
//! may pass, without loss. JSON is a subset of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use num_bigint::BigInt;
use serde_json::{Map, Value as Json};

/// A Python value, owned.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit 64 bits.
    BigInt(BigInt),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Set(Vec<Value>),
    FrozenSet(Vec<Value>),
    /// In insertion order; keys are not only strings.
    Dict(Vec<(Value, Value)>),
    Date(NaiveDate),
    DateTime(DateTimeValue),
    Time(NaiveTime),
    TimeDelta(TimeDelta),
    /// A file system path.
    Path(String),
    /// An object with named fields: a dataclass, a named tuple, a model.
    Record {
        type_name: String,
        fields: Vec<(String, Value)>,
    },
    /// An exception as a value (not raised).
    Exception {
        type_name: String,
        message: String,
    },
    /// Content that is not text: an image, a recording, a resource.
    Part(Part),
    /// Anything else, by its `repr`.
    Opaque(String),
}

/// A date and time, aware of its offset or naive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateTimeValue {
    pub naive: NaiveDateTime,
    pub offset: Option<FixedOffset>,
}

impl DateTimeValue {
    pub fn iso(&self) -> String {
        let base = self.naive.format("%Y-%m-%dT%H:%M:%S%.6f").to_string();
        let base = base.strip_suffix(".000000").map(str::to_owned).unwrap_or(base);
        match self.offset {
            Some(offset) => format!("{base}{offset}"),
            None => base,
        }
    }
}

/// A piece of content for a model, as defined by MCP.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Image {
        media_type: String,
        data: Vec<u8>,
    },
    /// Any other content block (audio, resource, resource link), in MCP's own form.
    Other(Json),
}

impl Part {
    /// Returns a line that represents the part where only text is possible.
    pub fn placeholder(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Image { media_type, data } => format!("[image {media_type}, {} bytes]", data.len()),
            Self::Other(json) => {
                let kind = json.get("type").and_then(Json::as_str).unwrap_or("content");
                format!("[{kind}]")
            }
        }
    }
}

impl Value {
    /// Converts JSON, without loss.
    pub fn from_json(json: Json) -> Self {
        match json {
            Json::Null => Self::None,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => number
                .as_i64()
                .map(Self::Int)
                .or_else(|| number.as_u64().map(|value| Self::BigInt(value.into())))
                .or_else(|| number.as_f64().map(Self::Float))
                .unwrap_or(Self::None),
            Json::String(text) => Self::Str(text),
            Json::Array(items) => Self::List(items.into_iter().map(Self::from_json).collect()),
            Json::Object(object) => {
                Self::Dict(object.into_iter().map(|(key, value)| (Self::Str(key), Self::from_json(value))).collect())
            }
        }
    }

    /// Returns the nearest JSON. Sets become lists (sorted if their items are comparable), dates ISO 8601, bytes text
    /// if they are UTF-8 and base64 otherwise, NaN and infinities the texts `NaN`, `Infinity` and `-Infinity`.
    pub fn to_json(&self) -> Json {
        match self {
            Self::None => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::BigInt(value) => u64::try_from(value).map_or_else(|_| Json::String(value.to_string()), Json::from),
            Self::Float(value) => {
                serde_json::Number::from_f64(*value).map_or_else(|| Json::from(non_finite_text(*value)), Json::Number)
            }
            Self::Str(text) | Self::Path(text) | Self::Opaque(text) | Self::Part(Part::Text(text)) => {
                Json::String(text.clone())
            }
            Self::Bytes(bytes) => Json::String(bytes_text(bytes)),
            Self::List(items) | Self::Tuple(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Set(items) | Self::FrozenSet(items) => {
                Json::Array(sorted(items).into_iter().map(Self::to_json).collect())
            }
            Self::Dict(pairs) => {
                Json::Object(pairs.iter().map(|(key, value)| (key.key_text(), value.to_json())).collect())
            }
            Self::Date(date) => Json::String(date.to_string()),
            Self::DateTime(at) => Json::String(at.iso()),
            Self::Time(time) => Json::String(time_iso(*time)),
            Self::TimeDelta(delta) => serde_json::Number::from_f64(seconds(*delta)).map_or(Json::Null, Json::Number),
            Self::Record { fields, .. } => {
                Json::Object(fields.iter().map(|(key, value)| (key.clone(), value.to_json())).collect())
            }
            Self::Exception { type_name, message } => Json::String(format!("{type_name}: {message}")),
            Self::Part(Part::Image { media_type, data }) => {
                let mut object = Map::new();
                object.insert("type".into(), "image".into());
                object.insert("mimeType".into(), media_type.clone().into());
                object.insert("data".into(), STANDARD.encode(data).into());
                Json::Object(object)
            }
            Self::Part(Part::Other(json)) => json.clone(),
        }
    }

    /// Returns the text of a dict's key in JSON: strings unchanged, others as Python's `json` or `str` would render
    /// them.
    pub fn key_text(&self) -> String {
        match self {
            Self::Str(text) => text.clone(),
            Self::None => "null".to_owned(),
            Self::Bool(true) => "true".to_owned(),
            Self::Bool(false) => "false".to_owned(),
            other => other.str(),
        }
    }

    /// Returns the value of a field of a dict or a record.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Dict(pairs) => {
                pairs.iter().find(|(name, _)| matches!(name, Self::Str(name) if name == key)).map(|(_, value)| value)
            }
            Self::Record { fields, .. } => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns Python's name for the value's type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::BigInt(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Set(_) => "set",
            Self::FrozenSet(_) => "frozenset",
            Self::Dict(_) => "dict",
            Self::Date(_) => "date",
            Self::DateTime(_) => "datetime",
            Self::Time(_) => "time",
            Self::TimeDelta(_) => "timedelta",
            Self::Path(_) => "Path",
            Self::Record { type_name, .. } | Self::Exception { type_name, .. } => type_name,
            Self::Part(_) => "Content",
            Self::Opaque(_) => "object",
        }
    }

    /// Returns the result of Python's `str()`.
    pub fn str(&self) -> String {
        match self {
            Self::Str(text) | Self::Path(text) => text.clone(),
            Self::Date(date) => date.to_string(),
            Self::DateTime(at) => at.iso().replacen('T', " ", 1),
            Self::Time(time) => time_iso(*time),
            Self::TimeDelta(delta) => timedelta_str(*delta),
            Self::Exception { message, .. } => message.clone(),
            other => other.repr(),
        }
    }

    /// Returns the result of Python's `repr()`.
    pub fn repr(&self) -> String {
        let mut text = String::new();
        self.write_repr(&mut text);
        text
    }

    fn write_repr(&self, out: &mut String) {
        use std::fmt::Write as _;
        let _ = match self {
            Self::None => write!(out, "None"),
            Self::Bool(true) => write!(out, "True"),
            Self::Bool(false) => write!(out, "False"),
            Self::Int(value) => write!(out, "{value}"),
            Self::BigInt(value) => write!(out, "{value}"),
            Self::Float(value) => write!(out, "{}", float_repr(*value)),
            Self::Str(text) => {
                str_repr(text, out);
                Ok(())
            }
            Self::Bytes(bytes) => {
                bytes_repr(bytes, out);
                Ok(())
            }
            Self::List(items) => {
                write_items(items, out, "[", "]");
                Ok(())
            }
            Self::Tuple(items) if items.len() == 1 => {
                write_items(items, out, "(", ",)");
                Ok(())
            }
            Self::Tuple(items) => {
                write_items(items, out, "(", ")");
                Ok(())
            }
            Self::Set(items) if items.is_empty() => write!(out, "set()"),
            Self::Set(items) => {
                write_items(items, out, "{", "}");
                Ok(())
            }
            Self::FrozenSet(items) if items.is_empty() => write!(out, "frozenset()"),
            Self::FrozenSet(items) => {
                write_items(items, out, "frozenset({", "})");
                Ok(())
            }
            Self::Dict(pairs) => {
                out.push('{');
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    key.write_repr(out);
                    out.push_str(": ");
                    value.write_repr(out);
                }
                out.push('}');
                Ok(())
            }
            Self::Date(date) => write!(out, "datetime.date({})", date.format("%Y, %-m, %-d")),
            Self::DateTime(at) => write!(out, "{}", datetime_repr(at)),
            Self::Time(time) => write!(out, "datetime.time({})", clock_arguments(*time)),
            Self::TimeDelta(delta) => write!(out, "{}", timedelta_repr(*delta)),
            Self::Path(path) => {
                out.push_str("PosixPath(");
                str_repr(path, out);
                out.push(')');
                Ok(())
            }
            Self::Record { type_name, fields } => {
                let _ = write!(out, "{type_name}(");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    out.push_str(name);
                    out.push('=');
                    value.write_repr(out);
                }
                out.push(')');
                Ok(())
            }
            Self::Exception { type_name, message } => {
                let _ = write!(out, "{type_name}(");
                str_repr(message, out);
                out.push(')');
                Ok(())
            }
            Self::Part(part) => write!(out, "{}", part.placeholder()),
            Self::Opaque(text) => write!(out, "{text}"),
        };
    }
}

/// Returns the text for a float that JSON has no number for.
pub fn non_finite_text(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Returns a duration in seconds, with microsecond precision.
pub(crate) fn seconds(delta: TimeDelta) -> f64 {
    delta.num_microseconds().map_or(delta.num_seconds() as f64, |micros| micros as f64 / 1e6)
}

/// Returns a duration in microseconds. Python's longest durations do not fit in 64 bits.
pub(crate) fn microseconds(delta: TimeDelta) -> i128 {
    i128::from(delta.num_seconds()) * 1_000_000 + i128::from(delta.subsec_nanos() / 1000)
}

/// Splits a duration into days, seconds and microseconds as Python does: only the days can be negative.
fn timedelta_fields(delta: TimeDelta) -> (i128, i128, i128) {
    const DAY: i128 = 86_400_000_000;
    let all = microseconds(delta);
    let rest = all.rem_euclid(DAY);
    (all.div_euclid(DAY), rest / 1_000_000, rest % 1_000_000)
}

fn timedelta_repr(delta: TimeDelta) -> String {
    let (days, seconds, microseconds) = timedelta_fields(delta);
    let fields = [("days", days), ("seconds", seconds), ("microseconds", microseconds)];
    let given: Vec<String> =
        fields.iter().filter(|(_, value)| *value != 0).map(|(name, value)| format!("{name}={value}")).collect();
    if given.is_empty() {
        "datetime.timedelta(0)".to_owned()
    } else {
        format!("datetime.timedelta({})", given.join(", "))
    }
}

/// Formats a time like Python's `isoformat()`: no fraction, or six digits.
pub(crate) fn time_iso(time: NaiveTime) -> String {
    let text = time.format("%H:%M:%S%.6f").to_string();
    text.strip_suffix(".000000").map(str::to_owned).unwrap_or(text)
}

/// Returns hour and minute, plus seconds and microseconds if they are not zero.
fn clock_arguments(time: NaiveTime) -> String {
    use chrono::Timelike as _;
    let micros = time.nanosecond() / 1000;
    let mut text = format!("{}, {}", time.hour(), time.minute());
    if time.second() != 0 || micros != 0 {
        text = format!("{text}, {}", time.second());
    }
    if micros != 0 {
        text = format!("{text}, {micros}");
    }
    text
}

fn datetime_repr(at: &DateTimeValue) -> String {
    let date = at.naive.format("%-Y, %-m, %-d");
    let zone = match at.offset.map(|offset| offset.local_minus_utc()) {
        None => String::new(),
        Some(0) => ", tzinfo=datetime.timezone.utc".to_owned(),
        Some(seconds) => {
            let offset = timedelta_repr(TimeDelta::seconds(i64::from(seconds)));
            format!(", tzinfo=datetime.timezone({offset})")
        }
    };
    format!("datetime.datetime({date}, {}{zone})", clock_arguments(at.naive.time()))
}

fn timedelta_str(delta: TimeDelta) -> String {
    let (days, secs, micros) = timedelta_fields(delta);
    let clock = format!("{}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60);
    let clock = if micros > 0 { format!("{clock}.{micros:06}") } else { clock };
    match days {
        0 => clock,
        1 | -1 => format!("{days} day, {clock}"),
        _ => format!("{days} days, {clock}"),
    }
}

fn bytes_text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| STANDARD.encode(bytes), str::to_owned)
}

/// Returns set items in a stable order: by value if all are numbers or all are text, otherwise as given.
pub(crate) fn sorted(items: &[Value]) -> Vec<&Value> {
    let mut order: Vec<&Value> = items.iter().collect();
    if items.iter().all(|item| matches!(item, Value::Str(_))) {
        order.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    } else if items.iter().all(|item| matches!(item, Value::Int(_))) {
        order.sort_by_key(|item| if let Value::Int(value) = item { *value } else { 0 });
    }
    order
}

fn write_items(items: &[Value], out: &mut String, open: &str, close: &str) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        item.write_repr(out);
    }
    out.push_str(close);
}

/// Formats a float as Python prints it.
pub(crate) fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) => {
                let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
                format!("{mantissa}e{sign}{digits:0>2}")
            }
            None => text,
        };
    }
    let text = value.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

fn str_repr(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => {
                out.push(c);
                Ok(())
            }
            c if (c as u32) < 0x100 => write!(out, "\\x{:02x}", c as u32),
            c if (c as u32) < 0x1_0000 => write!(out, "\\u{:04x}", c as u32),
            c => write!(out, "\\U{:08x}", c as u32),
        };
    }
    out.push(quote);
}

/// Whether Python's `repr()` shows a character unescaped: no controls, no whitespace other than the space, and nothing
/// that is invisible or changes the text direction.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && (c == ' ' || !c.is_whitespace())
        && !matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{10ffff}')
}

fn bytes_repr(bytes: &[u8], out: &mut String) {
    use std::fmt::Write as _;
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.push('b');
    out.push(quote);
    for &byte in bytes {
        let _ = match byte {
            b'\\' => write!(out, "\\\\"),
            b'\n' => write!(out, "\\n"),
            b'\r' => write!(out, "\\r"),
            b'\t' => write!(out, "\\t"),
            byte if byte as char == quote => write!(out, "\\{}", byte as char),
            0x20..0x7f => {
                out.push(byte as char);
                Ok(())
            }
            byte => write!(out, "\\x{byte:02x}"),
        };
    }
    out.push(quote);
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        Self::from_json(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repr_is_pythons() {
        let value = Value::Dict(vec![
            (Value::Int(1), Value::Tuple(vec![Value::Float(1.0)])),
            (Value::Str("it's".into()), Value::Set(vec![])),
            (Value::None, Value::Bytes(b"a\x00'".to_vec())),
            (Value::Bool(true), Value::Float(1e100)),
        ]);
        assert_eq!(value.repr(), r#"{1: (1.0,), "it's": set(), None: b"a\x00'", True: 1e+100}"#);
    }

    #[test]
    fn times_are_written_as_python_writes_them() {
        let date = NaiveDate::from_ymd_opt(2024, 2, 9).unwrap();
        let at = |offset| {
            Value::DateTime(DateTimeValue { naive: date.and_hms_micro_opt(1, 2, 3, 500_000).unwrap(), offset })
        };
        let cases = [
            (at(None), "datetime.datetime(2024, 2, 9, 1, 2, 3, 500000)", "2024-02-09 01:02:03.500000"),
            (
                at(FixedOffset::east_opt(-3600)),
                "datetime.datetime(2024, 2, 9, 1, 2, 3, 500000, \
                 tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=82800)))",
                "2024-02-09 01:02:03.500000-01:00",
            ),
            (Value::Time(NaiveTime::from_hms_opt(1, 2, 0).unwrap()), "datetime.time(1, 2)", "01:02:00"),
            (
                Value::Time(NaiveTime::from_hms_milli_opt(1, 2, 3, 5).unwrap()),
                "datetime.time(1, 2, 3, 5000)",
                "01:02:03.005000",
            ),
            (Value::TimeDelta(TimeDelta::zero()), "datetime.timedelta(0)", "0:00:00"),
            (
                Value::TimeDelta(TimeDelta::microseconds(-1)),
                "datetime.timedelta(days=-1, seconds=86399, microseconds=999999)",
                "-1 day, 23:59:59.999999",
            ),
            (
                Value::TimeDelta(TimeDelta::days(999_999_999)),
                "datetime.timedelta(days=999999999)",
                "999999999 days, 0:00:00",
            ),
        ];
        for (value, repr, text) in cases {
            assert_eq!((value.repr().as_str(), value.str().as_str()), (repr, text));
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped_in_a_repr() {
        let text = "a\u{a0}\u{7f}\u{200b}\u{202e}\u{e0041} ü漢😀";
        assert_eq!(Value::from(text).repr(), r"'a\xa0\x7f\u200b\u202e\U000e0041 ü漢😀'");
    }

    #[test]
    fn json_goes_through_unchanged() {
        let json = serde_json::json!({"b": [1, 2.5, null, true, "x"], "a": {"n": 18_446_744_073_709_551_615_u64}});
        assert_eq!(Value::from_json(json.clone()).to_json(), json);
    }

    #[test]
    fn what_json_lacks_gets_the_nearest_form() {
        assert_eq!(Value::Float(f64::NAN).to_json(), serde_json::json!("NaN"));
        assert_eq!(Value::Float(f64::NEG_INFINITY).to_json(), serde_json::json!("-Infinity"));
        assert_eq!(Value::Set(vec![Value::Int(2), Value::Int(1)]).to_json(), serde_json::json!([1, 2]));
        assert_eq!(Value::Bytes(vec![0xff]).to_json(), serde_json::json!("/w=="));
    }
}
