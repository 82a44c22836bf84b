//! Converts the server's values to and from messages.

use chrono::{Datelike as _, FixedOffset, NaiveDate, NaiveTime, TimeDelta, Timelike as _};
use onetool_sdk::{DateTimeValue, Value};

use super::objects::{self, HostObject, Objects};
use super::wire::{
    Build, ContainerKind, HostClass, Input, MAX_DEPTH, Moment, Output, Scalar, TooDeep, ValueWriter, WireError,
};

const DAY_MICROS: i64 = 86_400_000_000;

/// Writes a value for the sandbox. Content that is not text stays here, referred to by an id.
pub(super) fn put_value(out: &mut impl Output, value: Value, objects: &mut Objects) -> Result<(), TooDeep> {
    put(out, value, objects, 0)
}

fn put(out: &mut impl Output, value: Value, objects: &mut Objects, level: usize) -> Result<(), TooDeep> {
    if level > MAX_DEPTH {
        return Err(TooDeep);
    }
    let mut writer = ValueWriter(out);
    match value {
        Value::None => writer.none(),
        Value::Bool(value) => writer.bool(value),
        Value::Int(value) => writer.int(value),
        Value::BigInt(value) => writer.big_int(&value),
        Value::Float(value) => writer.float(value),
        Value::Str(text) | Value::Opaque(text) => writer.str(&text),
        Value::Bytes(bytes) => writer.bytes(&bytes),
        Value::List(items) => return put_items(out, ContainerKind::List, items, objects, level),
        Value::Tuple(items) => return put_items(out, ContainerKind::Tuple, items, objects, level),
        Value::Set(items) => return put_items(out, ContainerKind::Set, items, objects, level),
        Value::FrozenSet(items) => return put_items(out, ContainerKind::FrozenSet, items, objects, level),
        Value::Dict(pairs) => {
            writer.dict(pairs.len());
            for (key, value) in pairs {
                put(out, key, objects, level + 1)?;
                put(out, value, objects, level + 1)?;
            }
        }
        Value::Date(date) => writer.date(date.year(), date.month() as u8, date.day() as u8),
        Value::DateTime(at) => writer.date_time(
            (at.naive.year(), at.naive.month() as u8, at.naive.day() as u8),
            moment(&at.naive.time()),
            at.offset.map(|offset| offset.local_minus_utc()),
        ),
        Value::Time(time) => writer.time(moment(&time)),
        Value::TimeDelta(delta) => {
            let micros = delta.num_microseconds().unwrap_or(i64::MAX);
            let (seconds, micros_of_day) = (micros.rem_euclid(DAY_MICROS) / 1_000_000, micros.rem_euclid(1_000_000));
            writer.time_delta(micros.div_euclid(DAY_MICROS) as i32, seconds as i32, micros_of_day as i32);
        }
        Value::Path(path) => writer.path(&path),
        Value::Record { type_name, fields } => {
            writer.record(&type_name, fields.len());
            for (name, value) in fields {
                ValueWriter(out).field(&name);
                put(out, value, objects, level + 1)?;
            }
        }
        Value::Exception { type_name, message } => writer.exception(&type_name, &message),
        Value::Part(part) => {
            let attributes = objects::attributes(&part);
            writer.host_object(HostClass::Content, objects.part(part), &attributes);
        }
    }
    Ok(())
}

fn put_items(
    out: &mut impl Output,
    kind: ContainerKind,
    items: Vec<Value>,
    objects: &mut Objects,
    level: usize,
) -> Result<(), TooDeep> {
    ValueWriter(out).container(kind, items.len());
    items.into_iter().try_for_each(|item| put(out, item, objects, level + 1))
}

fn moment(time: &NaiveTime) -> Moment {
    Moment {
        hour: time.hour() as u8,
        minute: time.minute() as u8,
        second: time.second() as u8,
        microsecond: time.nanosecond() / 1000 % 1_000_000,
    }
}

/// Builds values from a child's message.
pub(super) struct Values<'a>(pub(super) &'a Objects);

impl Build for Values<'_> {
    type Value = Value;

    fn scalar(&mut self, scalar: Scalar) -> Value {
        match scalar {
            Scalar::None => Value::None,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::BigInt(value) => Value::BigInt(value),
            Scalar::Float(value) => Value::Float(value),
            Scalar::Str(text) => Value::Str(text),
            Scalar::Bytes(bytes) => Value::Bytes(bytes),
            Scalar::Date { year, month, day } => NaiveDate::from_ymd_opt(year, month.into(), day.into())
                .map_or_else(|| Value::Opaque(format!("{year}-{month}-{day}")), Value::Date),
            Scalar::DateTime { year, month, day, time, offset } => date_time(year, month, day, time, offset)
                .map_or_else(
                    || Value::Opaque(format!("{year}-{month}-{day} {}:{}:{}", time.hour, time.minute, time.second)),
                    Value::DateTime,
                ),
            Scalar::Time(time) => naive_time(time).map_or(Value::None, Value::Time),
            Scalar::TimeDelta { days, seconds, microseconds } => Value::TimeDelta(
                TimeDelta::days(days.into())
                    + TimeDelta::seconds(seconds.into())
                    + TimeDelta::microseconds(microseconds.into()),
            ),
            Scalar::Path(path) => Value::Path(path),
            Scalar::Exception { type_name, message } => Value::Exception { type_name, message },
            Scalar::Opaque(text) => Value::Opaque(text),
            Scalar::Function(name) => Value::Opaque(format!("<function {name}>")),
        }
    }

    fn container(&mut self, kind: ContainerKind, items: Vec<Value>) -> Value {
        match kind {
            ContainerKind::List => Value::List(items),
            ContainerKind::Tuple => Value::Tuple(items),
            ContainerKind::Set => Value::Set(items),
            ContainerKind::FrozenSet => Value::FrozenSet(items),
        }
    }

    fn dict(&mut self, pairs: Vec<(Value, Value)>) -> Value {
        Value::Dict(pairs)
    }

    fn record(&mut self, type_name: String, fields: Vec<(String, Value)>) -> Value {
        Value::Record { type_name, fields }
    }

    fn host_object(
        &mut self,
        input: &mut Input<'_>,
        (_, id): (HostClass, u32),
        _: Vec<(String, String)>,
    ) -> Result<Value, WireError> {
        match self.0.get(id) {
            Some(HostObject::Pack(name)) => {
                input.budget.charge_bytes(name.len())?;
                Ok(Value::Opaque(format!("<pack '{name}'>")))
            }
            Some(HostObject::Part(part)) => {
                input.budget.charge_bytes(objects::size(part))?;
                Ok(Value::Part(part.clone()))
            }
            None => Err(WireError::Invalid("unknown object")),
        }
    }
}

fn naive_time(time: Moment) -> Option<NaiveTime> {
    NaiveTime::from_hms_micro_opt(time.hour.into(), time.minute.into(), time.second.into(), time.microsecond)
}

fn date_time(year: i32, month: u8, day: u8, time: Moment, offset: Option<i32>) -> Option<DateTimeValue> {
    let naive = NaiveDate::from_ymd_opt(year, month.into(), day.into())?.and_time(naive_time(time)?);
    let offset = match offset {
        Some(seconds) => Some(FixedOffset::east_opt(seconds)?),
        None => None,
    };
    Some(DateTimeValue { naive, offset })
}
