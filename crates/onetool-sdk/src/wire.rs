//! Lossless encoding of values as JSON, for our own processes: workers and the full Python engine.
//!
//! Plain JSON represents itself. Everything else is an object with the key `$ot` that names its type and `v` that holds
//! its content; a dict that has non-text keys, or the key `$ot` itself, is written as pairs. The Python side of this
//! format is `wire.py` beside the hosts that use it; `cases/wire/vectors.json` specifies the format by example.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike as _};
use num_bigint::BigInt;
use serde_json::{Map, Value as Json, json};

use crate::value::{DateTimeValue, Part, Value};

/// A message that does not follow the format.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("not a value in wire form: {0}")]
pub struct WireError(String);

const TAG: &str = "$ot";

impl Value {
    /// Converts to wire form.
    pub fn to_wire(&self) -> Json {
        match self {
            Self::None | Self::Bool(_) | Self::Int(_) | Self::Str(_) => self.to_json(),
            Self::BigInt(value) => tagged("int", value.to_string()),
            Self::Float(value) if value.is_finite() => self.to_json(),
            Self::Float(value) => tagged("float", crate::value::float_repr(*value)),
            Self::Bytes(bytes) => tagged("bytes", STANDARD.encode(bytes)),
            Self::List(items) => wire_items(items),
            Self::Tuple(items) => tagged("tuple", wire_items(items)),
            Self::Set(items) => tagged("set", wire_items(items)),
            Self::FrozenSet(items) => tagged("frozenset", wire_items(items)),
            Self::Dict(pairs) => {
                let plain = pairs.iter().all(|(key, _)| matches!(key, Self::Str(text) if text != TAG));
                if plain {
                    Json::Object(pairs.iter().map(|(key, value)| (key.key_text(), value.to_wire())).collect())
                } else {
                    let pairs = pairs.iter().map(|(key, value)| json!([key.to_wire(), value.to_wire()]));
                    tagged("dict", pairs.collect::<Json>())
                }
            }
            Self::Date(date) => tagged("date", date.to_string()),
            Self::DateTime(at) => tagged("datetime", at.iso()),
            Self::Time(time) => tagged("time", crate::value::time_iso(*time)),
            Self::TimeDelta(delta) => {
                let micros = crate::value::microseconds(*delta);
                // Python's longest durations do not fit in a portable JSON number.
                tagged("timedelta", i64::try_from(micros).map_or_else(|_| Json::from(micros.to_string()), Json::from))
            }
            Self::Path(path) => tagged("path", path.clone()),
            Self::Record { type_name, fields } => {
                let fields: Vec<Json> = fields.iter().map(|(name, value)| json!([name, value.to_wire()])).collect();
                json!({TAG: "record", "t": type_name, "v": fields})
            }
            Self::Exception { type_name, message } => json!({TAG: "exception", "t": type_name, "v": message}),
            Self::Part(Part::Text(text)) => tagged("text", text.clone()),
            Self::Part(Part::Image { media_type, data }) => {
                json!({TAG: "image", "t": media_type, "v": STANDARD.encode(data)})
            }
            Self::Part(Part::Other(json)) => tagged("part", json.clone()),
            Self::Opaque(text) => tagged("opaque", text.clone()),
        }
    }

    /// Converts from wire form.
    pub fn from_wire(json: Json) -> Result<Self, WireError> {
        from_wire(json, &mut Digits(MAX_DIGITS))
    }
}

/// Maximum number of decimal digits of large integers in one value. Parsing them takes quadratic time, so this bounds
/// time. Slightly more than a million-bit integer has.
const MAX_DIGITS: usize = 320_000;

/// The remaining digits.
struct Digits(usize);

impl Digits {
    fn integer(&mut self, text: &str) -> Result<Value, WireError> {
        let too_long = || WireError(format!("its integers have more than {MAX_DIGITS} digits"));
        self.0 = self.0.checked_sub(text.len()).ok_or_else(too_long)?;
        let big: BigInt = text.parse().map_err(|_| WireError("bad content for 'int'".to_owned()))?;
        Ok(i64::try_from(&big).map_or(Value::BigInt(big), Value::Int))
    }
}

fn from_wire(json: Json, digits: &mut Digits) -> Result<Value, WireError> {
    match json {
        Json::Array(items) => Ok(Value::List(from_items(items, digits)?)),
        Json::Object(object) if object.contains_key(TAG) => from_tagged(object, digits),
        Json::Object(object) => object
            .into_iter()
            .map(|(key, value)| Ok((Value::Str(key), from_wire(value, digits)?)))
            .collect::<Result<_, _>>()
            .map(Value::Dict),
        scalar => Ok(Value::from_json(scalar)),
    }
}

fn tagged(tag: &str, content: impl Into<Json>) -> Json {
    json!({TAG: tag, "v": content.into()})
}

fn wire_items(items: &[Value]) -> Json {
    Json::Array(items.iter().map(Value::to_wire).collect())
}

fn from_items(items: Vec<Json>, digits: &mut Digits) -> Result<Vec<Value>, WireError> {
    items.into_iter().map(|item| from_wire(item, digits)).collect()
}

fn from_tagged(mut object: Map<String, Json>, digits: &mut Digits) -> Result<Value, WireError> {
    let tag = object.get(TAG).and_then(Json::as_str).unwrap_or_default().to_owned();
    let type_name = object.get("t").and_then(Json::as_str).unwrap_or_default().to_owned();
    let content = object.remove("v").unwrap_or(Json::Null);
    let bad = || WireError(format!("bad content for '{tag}'"));
    let text = || content.as_str().ok_or_else(bad);
    let mut items = |content: Json| match content {
        Json::Array(items) => from_items(items, digits),
        _ => Err(WireError("a sequence was expected".to_owned())),
    };
    Ok(match tag.as_str() {
        "int" => digits.integer(text()?)?,
        "float" => Value::Float(text()?.parse().map_err(|_| bad())?),
        "bytes" => Value::Bytes(STANDARD.decode(text()?).map_err(|_| bad())?),
        "tuple" => Value::Tuple(items(content)?),
        "set" => Value::Set(items(content)?),
        "frozenset" => Value::FrozenSet(items(content)?),
        "dict" => Value::Dict(pairs(content, digits)?),
        "date" => Value::Date(text()?.parse::<NaiveDate>().map_err(|_| bad())?),
        "datetime" => Value::DateTime(parse_datetime(text()?).ok_or_else(bad)?),
        "time" => Value::Time(text()?.parse::<NaiveTime>().map_err(|_| bad())?),
        "timedelta" => Value::TimeDelta(timedelta(&content).ok_or_else(bad)?),
        "path" => Value::Path(text()?.to_owned()),
        "record" => {
            let fields = pairs(content, digits)?.into_iter().map(|(name, value)| (name.key_text(), value)).collect();
            Value::Record { type_name, fields }
        }
        "exception" => Value::Exception { type_name, message: text()?.to_owned() },
        "text" => Value::Part(Part::Text(text()?.to_owned())),
        "image" => {
            Value::Part(Part::Image { media_type: type_name, data: STANDARD.decode(text()?).map_err(|_| bad())? })
        }
        "part" => Value::Part(Part::Other(content)),
        "opaque" => Value::Opaque(text()?.to_owned()),
        _ => return Err(WireError(format!("unknown type '{tag}'"))),
    })
}

fn pairs(content: Json, digits: &mut Digits) -> Result<Vec<(Value, Value)>, WireError> {
    let Json::Array(items) = content else {
        return Err(WireError("pairs were expected".to_owned()));
    };
    items
        .into_iter()
        .map(|pair| match pair {
            Json::Array(pair) => {
                let [key, value] = <[Json; 2]>::try_from(pair).map_err(|_| WireError("not a pair".to_owned()))?;
                Ok((from_wire(key, digits)?, from_wire(value, digits)?))
            }
            _ => Err(WireError("not a pair".to_owned())),
        })
        .collect()
}

/// Parses microseconds, given as a number or, if they do not fit, as digits.
fn timedelta(content: &Json) -> Option<TimeDelta> {
    let micros = match content {
        Json::String(digits) => digits.parse::<i128>().ok()?,
        number => i128::from(number.as_i64()?),
    };
    let seconds = i64::try_from(micros.div_euclid(1_000_000)).ok()?;
    TimeDelta::new(seconds, u32::try_from(micros.rem_euclid(1_000_000) * 1000).ok()?)
}

/// Parses Python's `isoformat()`, with or without an offset.
fn parse_datetime(text: &str) -> Option<DateTimeValue> {
    if let Ok(aware) = DateTime::<FixedOffset>::parse_from_rfc3339(text) {
        return Some(DateTimeValue { naive: aware.naive_local(), offset: Some(*aware.offset()) });
    }
    if let Ok(naive) = text.parse::<NaiveDateTime>() {
        return Some(DateTimeValue { naive, offset: None });
    }
    // Offsets of historical zones have seconds, which RFC 3339 does not support.
    let (local, offset) = text.split_at_checked(text.rfind(['+', '-'])?)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let time = NaiveTime::parse_from_str(&offset[1..], "%H:%M:%S").ok()?;
    let seconds = i32::try_from(time.num_seconds_from_midnight()).ok()?;
    Some(DateTimeValue { naive: local.parse().ok()?, offset: Some(FixedOffset::east_opt(sign * seconds)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_would_take_long_to_read_are_refused() {
        let int = |length: usize| json!({TAG: "int", "v": "9".repeat(length)});
        assert!(Value::from_wire(int(1000)).is_ok());
        assert!(Value::from_wire(int(MAX_DIGITS + 1)).is_err());
        let many: Vec<Json> = (0..1000).map(|_| int(1000)).collect();
        assert!(Value::from_wire(Json::Array(many)).is_err(), "all of them together");
    }

    #[test]
    fn every_kind_of_value_comes_back() {
        let date = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
        let values = vec![
            Value::None,
            Value::Int(-5),
            Value::BigInt("123456789012345678901234567890".parse().unwrap()),
            Value::Float(f64::INFINITY),
            Value::Float(2.0),
            Value::Bytes(vec![0, 255]),
            Value::Tuple(vec![Value::Set(vec![Value::Int(1)]), Value::FrozenSet(vec![])]),
            Value::Dict(vec![(Value::Int(1), Value::None)]),
            Value::Dict(vec![(Value::Str("$ot".into()), Value::Int(1))]),
            Value::Date(date),
            Value::DateTime(DateTimeValue { naive: date.and_hms_micro_opt(1, 2, 3, 4).unwrap(), offset: None }),
            Value::DateTime(DateTimeValue {
                naive: date.and_hms_opt(1, 2, 3).unwrap(),
                offset: FixedOffset::east_opt(3600),
            }),
            Value::DateTime(DateTimeValue {
                naive: date.and_hms_opt(1, 2, 3).unwrap(),
                offset: FixedOffset::west_opt(3208),
            }),
            Value::Time(NaiveTime::from_hms_micro_opt(1, 2, 3, 40_000).unwrap()),
            Value::TimeDelta(TimeDelta::microseconds(-1)),
            Value::TimeDelta(TimeDelta::days(999_999_999)),
            Value::TimeDelta(TimeDelta::days(-999_999_999)),
            Value::Path("/a/b".into()),
            Value::Record { type_name: "P".into(), fields: vec![("x".into(), Value::Int(1))] },
            Value::Part(Part::Image { media_type: "image/png".into(), data: vec![1, 2] }),
        ];
        for value in values {
            assert_eq!(Value::from_wire(value.to_wire()).unwrap(), value);
        }
    }

    fn values() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::None),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_filter("NaN is never equal", |value| !value.is_nan()).prop_map(Value::Float),
            "\\PC{0,8}|\\$ot".prop_map(Value::Str),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
            any::<i64>().prop_map(|micros| Value::TimeDelta(TimeDelta::microseconds(micros))),
            "\\PC{0,8}".prop_map(Value::Path),
            (0..86_400_u32, 0..1_000_000_u32).prop_map(|(second, micro)| {
                Value::Time(NaiveTime::from_num_seconds_from_midnight_opt(second, micro * 1000).unwrap())
            }),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let items = || prop::collection::vec(inner.clone(), 0..5);
            prop_oneof![
                items().prop_map(Value::List),
                items().prop_map(Value::Tuple),
                items().prop_map(Value::Set),
                prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(|pairs| {
                    // A dict has each key once.
                    let mut dict: Vec<(Value, Value)> = Vec::new();
                    for (key, value) in pairs {
                        if dict.iter().all(|(known, _)| *known != key) {
                            dict.push((key, value));
                        }
                    }
                    Value::Dict(dict)
                }),
                ("\\PC{0,4}", prop::collection::vec(("[a-z]{1,3}", inner), 0..3))
                    .prop_map(|(type_name, fields)| Value::Record { type_name, fields }),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn what_goes_out_comes_back_also_as_text(value in values()) {
            let text = value.to_wire().to_string();
            let back = Value::from_wire(serde_json::from_str(&text).unwrap()).unwrap();
            proptest::prop_assert_eq!(back, value);
        }
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(Value::from_wire(json!({"$ot": "nope", "v": 1})).is_err());
        assert!(Value::from_wire(json!({"$ot": "dict", "v": [[1]]})).is_err());
    }
}
