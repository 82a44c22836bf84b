//! Converts the interpreter's values to and from messages.

use monty_types::{
    ExcType, MontyClassInstance, MontyClassType, MontyDate, MontyDateTime, MontyObject, MontyTime, MontyTimeDelta,
    MontyUuid,
};

use crate::monty::wire::{
    Build, ContainerKind, HostClass, Input, MAX_DEPTH, Moment, Output, Scalar, TooDeep, ValueWriter, WireError,
};

const PACK_CLASS: MontyUuid = MontyUuid::from_u128(0x6f6e_6574_6f6f_6c00_8000_0000_0000_0001);
const CONTENT_CLASS: MontyUuid = MontyUuid::from_u128(0x6f6e_6574_6f6f_6c00_8000_0000_0000_0002);

/// Returns the id of an object of the host.
pub(super) fn host_id(id: MontyUuid) -> Option<u32> {
    u128::from_be_bytes(*id.as_bytes()).checked_sub(1).and_then(|id| u32::try_from(id).ok())
}

/// Writes a value for the server.
pub(super) fn put_object(out: &mut impl Output, object: &MontyObject) -> Result<(), TooDeep> {
    put(out, object, 0)
}

fn put(out: &mut impl Output, object: &MontyObject, level: usize) -> Result<(), TooDeep> {
    if level > MAX_DEPTH {
        return Err(TooDeep);
    }
    let mut writer = ValueWriter(out);
    match object {
        MontyObject::None => writer.none(),
        MontyObject::Bool(value) => writer.bool(*value),
        MontyObject::Int(value) => writer.int(*value),
        MontyObject::BigInt(value) => writer.big_int(value),
        MontyObject::Float(value) => writer.float(*value),
        MontyObject::String(text) => writer.str(text),
        MontyObject::Bytes(bytes) => writer.bytes(bytes),
        MontyObject::List(items) => return put_items(out, ContainerKind::List, items, level),
        MontyObject::Tuple(items) => return put_items(out, ContainerKind::Tuple, items, level),
        MontyObject::Set(items) => return put_items(out, ContainerKind::Set, items, level),
        MontyObject::FrozenSet(items) => return put_items(out, ContainerKind::FrozenSet, items, level),
        MontyObject::Dict(pairs) => {
            writer.dict(pairs.len());
            for (key, value) in pairs {
                put(out, key, level + 1)?;
                put(out, value, level + 1)?;
            }
        }
        MontyObject::NamedTuple { type_name, field_names, values } => {
            writer.record(type_name, field_names.len().min(values.len()));
            for (name, value) in field_names.iter().zip(values) {
                ValueWriter(out).field(name);
                put(out, value, level + 1)?;
            }
        }
        MontyObject::Date(date) => writer.date(date.year, date.month, date.day),
        MontyObject::DateTime(at) => writer.date_time(
            (at.year, at.month, at.day),
            Moment { hour: at.hour, minute: at.minute, second: at.second, microsecond: at.microsecond },
            at.offset_seconds,
        ),
        MontyObject::Time(time) => writer.time(Moment {
            hour: time.hour,
            minute: time.minute,
            second: time.second,
            microsecond: time.microsecond,
        }),
        MontyObject::TimeDelta(delta) => writer.time_delta(delta.days, delta.seconds, delta.microseconds),
        MontyObject::Exception { exc_type, arg } => {
            writer.exception(&exc_type.to_string(), arg.as_deref().unwrap_or_default());
        }
        MontyObject::Path(path) => writer.path(path),
        MontyObject::Repr(text) => writer.opaque(text),
        MontyObject::Function { name, .. } => writer.function(name),
        MontyObject::ClassInstance(instance) => return put_instance(out, instance, level),
        other => writer.opaque(&other.to_string()),
    }
    Ok(())
}

fn put_items(out: &mut impl Output, kind: ContainerKind, items: &[MontyObject], level: usize) -> Result<(), TooDeep> {
    ValueWriter(out).container(kind, items.len());
    items.iter().try_for_each(|item| put(out, item, level + 1))
}

fn put_instance(out: &mut impl Output, instance: &MontyClassInstance, level: usize) -> Result<(), TooDeep> {
    let mut writer = ValueWriter(out);
    let class = match instance.class_type.id {
        PACK_CLASS => Some(HostClass::Pack),
        CONTENT_CLASS => Some(HostClass::Content),
        _ => None,
    };
    if let (Some(class), Some(id), true) = (class, host_id(instance.instance_id), instance.class_type.host_defined) {
        writer.host_object(class, id, &[]);
        return Ok(());
    }
    writer.record(&instance.class_type.name, instance.attrs.len());
    for (name, value) in &instance.attrs {
        ValueWriter(out).field(&name.to_string());
        put(out, value, level + 1)?;
    }
    Ok(())
}

/// Builds the interpreter's values from a message of the server.
pub(super) struct MontyObjects;

impl Build for MontyObjects {
    type Value = MontyObject;

    fn scalar(&mut self, scalar: Scalar) -> MontyObject {
        match scalar {
            Scalar::None => MontyObject::None,
            Scalar::Bool(value) => MontyObject::Bool(value),
            Scalar::Int(value) => MontyObject::Int(value),
            Scalar::BigInt(value) => MontyObject::BigInt(value),
            Scalar::Float(value) => MontyObject::Float(value),
            Scalar::Str(text) | Scalar::Opaque(text) => MontyObject::String(text),
            Scalar::Bytes(bytes) => MontyObject::Bytes(bytes),
            Scalar::Date { year, month, day } => MontyObject::Date(MontyDate { year, month, day }),
            Scalar::DateTime { year, month, day, time, offset } => MontyObject::DateTime(MontyDateTime {
                year,
                month,
                day,
                hour: time.hour,
                minute: time.minute,
                second: time.second,
                microsecond: time.microsecond,
                offset_seconds: offset,
                timezone_name: None,
            }),
            Scalar::Time(time) => MontyObject::Time(MontyTime {
                hour: time.hour,
                minute: time.minute,
                second: time.second,
                microsecond: time.microsecond,
                offset_seconds: None,
                timezone_name: None,
                fold: 0,
            }),
            Scalar::TimeDelta { days, seconds, microseconds } => {
                MontyObject::TimeDelta(MontyTimeDelta { days, seconds, microseconds })
            }
            Scalar::Path(path) => MontyObject::Path(path),
            Scalar::Exception { type_name, message } => {
                MontyObject::Exception { exc_type: type_name.parse().unwrap_or(ExcType::Exception), arg: Some(message) }
            }
            Scalar::Function(name) => MontyObject::Function { name, docstring: None },
        }
    }

    fn container(&mut self, kind: ContainerKind, items: Vec<MontyObject>) -> MontyObject {
        match kind {
            ContainerKind::List => MontyObject::List(items),
            ContainerKind::Tuple => MontyObject::Tuple(items),
            ContainerKind::Set => MontyObject::Set(items),
            ContainerKind::FrozenSet => MontyObject::FrozenSet(items),
        }
    }

    fn dict(&mut self, pairs: Vec<(MontyObject, MontyObject)>) -> MontyObject {
        MontyObject::Dict(pairs.into())
    }

    fn record(&mut self, type_name: String, fields: Vec<(String, MontyObject)>) -> MontyObject {
        let (field_names, values) = fields.into_iter().unzip();
        MontyObject::NamedTuple { type_name, field_names, values }
    }

    fn host_object(
        &mut self,
        _: &mut Input<'_>,
        (class, id): (HostClass, u32),
        attributes: Vec<(String, String)>,
    ) -> Result<MontyObject, WireError> {
        let (name, class_id) = match class {
            HostClass::Pack => ("Pack", PACK_CLASS),
            HostClass::Content => ("Content", CONTENT_CLASS),
        };
        Ok(MontyObject::ClassInstance(Box::new(MontyClassInstance {
            class_type: MontyClassType {
                name: name.to_owned(),
                id: class_id,
                host_defined: true,
                is_dataclass: false,
                attrs: Vec::new().into(),
            },
            instance_id: MontyUuid::from_u128(u128::from(id) + 1),
            attrs: attributes
                .into_iter()
                .map(|(name, value)| (MontyObject::String(name), MontyObject::String(value)))
                .collect(),
        })))
    }
}
