//! Values between the host and the interpreter, in both directions and without panics.

use chrono::{Datelike as _, FixedOffset, NaiveDate, NaiveTime, TimeDelta, Timelike as _};
use monty_types::{ExcType, MontyDate, MontyDateTime, MontyException, MontyObject, MontyTime, MontyTimeDelta};
use onetool_sdk::{Arguments, DateTimeValue, ToolError, Value};

use super::objects::{HostObject, Objects};

/// To the sandbox.
pub(crate) fn to_monty(value: Value, objects: &mut Objects) -> MontyObject {
    let mut many = |items: Vec<Value>| items.into_iter().map(|item| to_monty(item, objects)).collect::<Vec<_>>();
    match value {
        Value::None => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Int(value) => MontyObject::Int(value),
        Value::BigInt(value) => MontyObject::BigInt(value),
        Value::Float(value) => MontyObject::Float(value),
        Value::Str(text) | Value::Opaque(text) => MontyObject::String(text),
        Value::Bytes(bytes) => MontyObject::Bytes(bytes),
        Value::List(items) => MontyObject::List(many(items)),
        Value::Tuple(items) => MontyObject::Tuple(many(items)),
        Value::Set(items) => MontyObject::Set(many(items)),
        Value::FrozenSet(items) => MontyObject::FrozenSet(many(items)),
        Value::Dict(pairs) => MontyObject::Dict(
            pairs
                .into_iter()
                .map(|(key, value)| (to_monty(key, objects), to_monty(value, objects)))
                .collect::<Vec<_>>()
                .into(),
        ),
        Value::Date(date) => {
            MontyObject::Date(MontyDate { year: date.year(), month: date.month() as u8, day: date.day() as u8 })
        }
        Value::DateTime(at) => MontyObject::DateTime(datetime_to_monty(&at)),
        Value::Time(time) => MontyObject::Time(MontyTime {
            hour: time.hour() as u8,
            minute: time.minute() as u8,
            second: time.second() as u8,
            microsecond: time.nanosecond() / 1000 % 1_000_000,
            offset_seconds: None,
            timezone_name: None,
            fold: 0,
        }),
        Value::TimeDelta(delta) => {
            let micros = delta.num_microseconds().unwrap_or(i64::MAX);
            MontyObject::TimeDelta(MontyTimeDelta {
                days: micros.div_euclid(DAY_MICROS) as i32,
                seconds: (micros.rem_euclid(DAY_MICROS) / 1_000_000) as i32,
                microseconds: (micros.rem_euclid(1_000_000)) as i32,
            })
        }
        Value::Path(path) => MontyObject::Path(path),
        Value::Record { type_name, fields } => {
            let (field_names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
            MontyObject::NamedTuple { type_name, field_names, values: many(values) }
        }
        Value::Exception { type_name, message } => {
            MontyObject::Exception { exc_type: type_name.parse().unwrap_or(ExcType::Exception), arg: Some(message) }
        }
        Value::Part(part) => objects.part(part),
    }
}

const DAY_MICROS: i64 = 86_400_000_000;

pub(crate) fn datetime_to_monty(at: &DateTimeValue) -> MontyDateTime {
    MontyDateTime {
        year: at.naive.year(),
        month: at.naive.month() as u8,
        day: at.naive.day() as u8,
        hour: at.naive.hour() as u8,
        minute: at.naive.minute() as u8,
        second: at.naive.second() as u8,
        microsecond: at.naive.nanosecond() / 1000 % 1_000_000,
        offset_seconds: at.offset.map(|offset| offset.local_minus_utc()),
        timezone_name: None,
    }
}

/// From the sandbox.
pub(crate) fn from_monty(object: MontyObject, objects: &Objects) -> Value {
    let many = |items: Vec<MontyObject>| items.into_iter().map(|item| from_monty(item, objects)).collect::<Vec<_>>();
    match object {
        MontyObject::None => Value::None,
        MontyObject::Bool(value) => Value::Bool(value),
        MontyObject::Int(value) => Value::Int(value),
        MontyObject::BigInt(value) => Value::BigInt(value),
        MontyObject::Float(value) => Value::Float(value),
        MontyObject::String(text) => Value::Str(text),
        MontyObject::Bytes(bytes) => Value::Bytes(bytes),
        MontyObject::List(items) => Value::List(many(items)),
        MontyObject::Tuple(items) => Value::Tuple(many(items)),
        MontyObject::Set(items) => Value::Set(many(items)),
        MontyObject::FrozenSet(items) => Value::FrozenSet(many(items)),
        MontyObject::Dict(pairs) => Value::Dict(
            pairs.into_iter().map(|(key, value)| (from_monty(key, objects), from_monty(value, objects))).collect(),
        ),
        MontyObject::NamedTuple { type_name, field_names, values } => {
            Value::Record { type_name, fields: field_names.into_iter().zip(many(values)).collect() }
        }
        MontyObject::Date(date) => NaiveDate::from_ymd_opt(date.year, date.month.into(), date.day.into())
            .map_or_else(|| Value::Opaque(format!("{}-{}-{}", date.year, date.month, date.day)), Value::Date),
        MontyObject::DateTime(at) => datetime_from_monty(&at)
            .map_or_else(|| Value::Opaque(MontyObject::DateTime(at.clone()).py_repr()), Value::DateTime),
        MontyObject::Time(time) => {
            NaiveTime::from_hms_micro_opt(time.hour.into(), time.minute.into(), time.second.into(), time.microsecond)
                .map_or(Value::None, Value::Time)
        }
        MontyObject::TimeDelta(delta) => Value::TimeDelta(
            TimeDelta::days(delta.days.into())
                + TimeDelta::seconds(delta.seconds.into())
                + TimeDelta::microseconds(delta.microseconds.into()),
        ),
        MontyObject::Exception { exc_type, arg } => {
            Value::Exception { type_name: exc_type.to_string(), message: arg.unwrap_or_default() }
        }
        MontyObject::Path(path) => Value::Path(path),
        MontyObject::Repr(text) => Value::Opaque(text),
        MontyObject::Function { name, .. } => Value::Opaque(format!("<function {name}>")),
        MontyObject::ClassInstance(instance) => match objects.get(instance.instance_id) {
            Some(HostObject::Part(part)) if instance.class_type.host_defined => Value::Part(part.clone()),
            Some(HostObject::Pack(name)) if instance.class_type.host_defined => {
                Value::Opaque(format!("<pack '{name}'>"))
            }
            _ => Value::Record {
                type_name: instance.class_type.name.clone(),
                fields: instance
                    .attrs
                    .into_iter()
                    .map(|(name, value)| (from_monty(name, objects).key_text(), from_monty(value, objects)))
                    .collect(),
            },
        },
        other => Value::Opaque(other.to_string()),
    }
}

fn datetime_from_monty(at: &MontyDateTime) -> Option<DateTimeValue> {
    let naive = NaiveDate::from_ymd_opt(at.year, at.month.into(), at.day.into())?.and_hms_micro_opt(
        at.hour.into(),
        at.minute.into(),
        at.second.into(),
        at.microsecond,
    )?;
    let offset = match at.offset_seconds {
        Some(seconds) => Some(FixedOffset::east_opt(seconds)?),
        None => None,
    };
    Some(DateTimeValue { naive, offset })
}

/// The arguments of a call.
pub(crate) fn arguments(
    args: Vec<MontyObject>,
    kwargs: Vec<(MontyObject, MontyObject)>,
    objects: &Objects,
) -> Arguments {
    Arguments {
        positional: args.into_iter().map(|value| from_monty(value, objects)).collect(),
        named: kwargs
            .into_iter()
            .map(|(name, value)| (from_monty(name, objects).key_text(), from_monty(value, objects)))
            .collect(),
    }
}

/// A failed call as an exception to raise.
pub(crate) fn exception(error: &ToolError) -> MontyException {
    let exc_type = error.exception().parse().unwrap_or(ExcType::RuntimeError);
    MontyException::new(exc_type, Some(error.text()))
}
