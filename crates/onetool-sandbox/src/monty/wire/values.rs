//! Values in messages. Both ends use one reader: the server builds its own values, the child those of the interpreter.

use num_bigint::{BigInt, Sign};

use super::{
    Input, Output, WireError, put_byte, put_bytes, put_length, put_number, put_optional, put_signed, put_text,
};

/// Maximum levels of nesting in a transferred value. Readers of values recurse, on threads with an ordinary stack.
pub(in crate::monty) const MAX_DEPTH: usize = 100;

/// Decimal digits.
const DIGITS_PER_100_BYTES: usize = 241;

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const BIG_INT: u8 = 4;
const FLOAT: u8 = 5;
const STR: u8 = 6;
const BYTES: u8 = 7;
const LIST: u8 = 8;
const TUPLE: u8 = 9;
const SET: u8 = 10;
const FROZEN_SET: u8 = 11;
const DICT: u8 = 12;
const DATE: u8 = 13;
const DATE_TIME: u8 = 14;
const TIME: u8 = 15;
const TIME_DELTA: u8 = 16;
const PATH: u8 = 17;
const RECORD: u8 = 18;
const EXCEPTION: u8 = 19;
const OPAQUE: u8 = 20;
const FUNCTION: u8 = 21;
const HOST_OBJECT: u8 = 22;

/// A value without parts. Dates and times are not validated yet.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::monty) enum Scalar {
    None,
    Bool(bool),
    Int(i64),
    BigInt(BigInt),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    Date {
        year: i32,
        month: u8,
        day: u8,
    },
    DateTime {
        year: i32,
        month: u8,
        day: u8,
        time: Moment,
        offset: Option<i32>,
    },
    Time(Moment),
    TimeDelta {
        days: i32,
        seconds: i32,
        microseconds: i32,
    },
    Path(String),
    Exception {
        type_name: String,
        message: String,
    },
    /// An object without another form, by its `repr`.
    Opaque(String),
    /// A function of the host.
    Function(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monty) struct Moment {
    pub(in crate::monty) hour: u8,
    pub(in crate::monty) minute: u8,
    pub(in crate::monty) second: u8,
    pub(in crate::monty) microsecond: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monty) enum ContainerKind {
    List,
    Tuple,
    Set,
    FrozenSet,
}

/// The class that represents a host object in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monty) enum HostClass {
    Pack,
    Content,
}

/// Builds the values that a reader finds, bottom up.
pub(in crate::monty) trait Build {
    type Value;

    fn scalar(&mut self, scalar: Scalar) -> Self::Value;
    fn container(&mut self, kind: ContainerKind, items: Vec<Self::Value>) -> Self::Value;
    fn dict(&mut self, pairs: Vec<(Self::Value, Self::Value)>) -> Self::Value;
    fn record(&mut self, type_name: String, fields: Vec<(String, Self::Value)>) -> Self::Value;
    /// Builds an object of the host from its id. `input` is charged for its cost beyond the node itself.
    fn host_object(
        &mut self,
        input: &mut Input<'_>,
        object: (HostClass, u32),
        attributes: Vec<(String, String)>,
    ) -> Result<Self::Value, WireError>;
}

/// Reads one value.
pub(in crate::monty) fn read_value<B: Build>(input: &mut Input<'_>, build: &mut B) -> Result<B::Value, WireError> {
    read(input, build, 0)
}

fn read<B: Build>(input: &mut Input<'_>, build: &mut B, level: usize) -> Result<B::Value, WireError> {
    input.budget.charge_node()?;
    input.budget.check_depth(level)?;
    let scalar = match input.byte()? {
        NONE => Scalar::None,
        FALSE => Scalar::Bool(false),
        TRUE => Scalar::Bool(true),
        INT => Scalar::Int(input.signed()?),
        BIG_INT => {
            let sign = if input.byte()? == 0 { Sign::Plus } else { Sign::Minus };
            let magnitude = input.bytes()?;
            input.budget.charge_digits(magnitude.len().saturating_mul(DIGITS_PER_100_BYTES) / 100)?;
            Scalar::BigInt(BigInt::from_bytes_le(sign, magnitude))
        }
        FLOAT => Scalar::Float(f64::from_le_bytes(input.array()?)),
        STR => Scalar::Str(input.text()?),
        BYTES => Scalar::Bytes(input.bytes()?.to_vec()),
        LIST => return items(input, build, level, ContainerKind::List),
        TUPLE => return items(input, build, level, ContainerKind::Tuple),
        SET => return items(input, build, level, ContainerKind::Set),
        FROZEN_SET => return items(input, build, level, ContainerKind::FrozenSet),
        DICT => {
            let mut pairs = Vec::new();
            for _ in 0..input.count()? {
                let key = read(input, build, level + 1)?;
                pairs.push((key, read(input, build, level + 1)?));
            }
            return Ok(build.dict(pairs));
        }
        DATE => Scalar::Date { year: signed_32(input)?, month: input.byte()?, day: input.byte()? },
        DATE_TIME => Scalar::DateTime {
            year: signed_32(input)?,
            month: input.byte()?,
            day: input.byte()?,
            time: moment(input)?,
            offset: input.optional(signed_32)?,
        },
        TIME => Scalar::Time(moment(input)?),
        TIME_DELTA => {
            Scalar::TimeDelta { days: signed_32(input)?, seconds: signed_32(input)?, microseconds: signed_32(input)? }
        }
        PATH => Scalar::Path(input.text()?),
        RECORD => {
            let type_name = input.text()?;
            let mut fields = Vec::new();
            for _ in 0..input.count()? {
                input.budget.charge_bytes(2 * size_of::<String>())?;
                let name = input.text()?;
                fields.push((name, read(input, build, level + 1)?));
            }
            return Ok(build.record(type_name, fields));
        }
        EXCEPTION => Scalar::Exception { type_name: input.text()?, message: input.text()? },
        OPAQUE => Scalar::Opaque(input.text()?),
        FUNCTION => Scalar::Function(input.text()?),
        HOST_OBJECT => {
            let class = if input.byte()? == 0 { HostClass::Pack } else { HostClass::Content };
            let id = input.small()?;
            let mut attributes = Vec::new();
            for _ in 0..input.count()? {
                input.budget.charge_bytes(4 * size_of::<String>())?;
                attributes.push((input.text()?, input.text()?));
            }
            return build.host_object(input, (class, id), attributes);
        }
        _ => return Err(WireError::Invalid("unknown kind of value")),
    };
    Ok(build.scalar(scalar))
}

fn items<B: Build>(
    input: &mut Input<'_>,
    build: &mut B,
    level: usize,
    kind: ContainerKind,
) -> Result<B::Value, WireError> {
    let mut items = Vec::new();
    for _ in 0..input.count()? {
        items.push(read(input, build, level + 1)?);
    }
    Ok(build.container(kind, items))
}

fn signed_32(input: &mut Input<'_>) -> Result<i32, WireError> {
    Ok(i32::try_from(input.signed()?)?)
}

fn moment(input: &mut Input<'_>) -> Result<Moment, WireError> {
    Ok(Moment { hour: input.byte()?, minute: input.byte()?, second: input.byte()?, microsecond: input.small()? })
}

/// A value that is nested more deeply than [`MAX_DEPTH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monty) struct TooDeep;

/// Writes the parts of values. The caller walks the value and calls these methods.
pub(in crate::monty) struct ValueWriter<'a, O>(pub(in crate::monty) &'a mut O);

impl<O: Output> ValueWriter<'_, O> {
    pub(in crate::monty) fn none(&mut self) {
        put_byte(self.0, NONE);
    }

    pub(in crate::monty) fn bool(&mut self, value: bool) {
        put_byte(self.0, if value { TRUE } else { FALSE });
    }

    pub(in crate::monty) fn int(&mut self, value: i64) {
        put_byte(self.0, INT);
        put_signed(self.0, value);
    }

    pub(in crate::monty) fn big_int(&mut self, value: &BigInt) {
        let (sign, magnitude) = value.to_bytes_le();
        put_byte(self.0, BIG_INT);
        put_byte(self.0, u8::from(sign == Sign::Minus));
        put_bytes(self.0, &magnitude);
    }

    pub(in crate::monty) fn float(&mut self, value: f64) {
        put_byte(self.0, FLOAT);
        self.0.put(&value.to_le_bytes());
    }

    pub(in crate::monty) fn str(&mut self, text: &str) {
        self.tagged_text(STR, text);
    }

    pub(in crate::monty) fn bytes(&mut self, bytes: &[u8]) {
        put_byte(self.0, BYTES);
        put_bytes(self.0, bytes);
    }

    pub(in crate::monty) fn path(&mut self, path: &str) {
        self.tagged_text(PATH, path);
    }

    pub(in crate::monty) fn opaque(&mut self, text: &str) {
        self.tagged_text(OPAQUE, text);
    }

    pub(in crate::monty) fn function(&mut self, name: &str) {
        self.tagged_text(FUNCTION, name);
    }

    /// The items must follow.
    pub(in crate::monty) fn container(&mut self, kind: ContainerKind, length: usize) {
        let tag = match kind {
            ContainerKind::List => LIST,
            ContainerKind::Tuple => TUPLE,
            ContainerKind::Set => SET,
            ContainerKind::FrozenSet => FROZEN_SET,
        };
        put_byte(self.0, tag);
        put_length(self.0, length);
    }

    /// Alternating keys and values must follow.
    pub(in crate::monty) fn dict(&mut self, length: usize) {
        put_byte(self.0, DICT);
        put_length(self.0, length);
    }

    /// Alternating names ([`Self::field`]) and values must follow.
    pub(in crate::monty) fn record(&mut self, type_name: &str, length: usize) {
        self.tagged_text(RECORD, type_name);
        put_length(self.0, length);
    }

    pub(in crate::monty) fn field(&mut self, name: &str) {
        put_text(self.0, name);
    }

    pub(in crate::monty) fn date(&mut self, year: i32, month: u8, day: u8) {
        put_byte(self.0, DATE);
        self.year_month_day(year, month, day);
    }

    pub(in crate::monty) fn date_time(&mut self, (year, month, day): (i32, u8, u8), time: Moment, offset: Option<i32>) {
        put_byte(self.0, DATE_TIME);
        self.year_month_day(year, month, day);
        self.moment(time);
        put_optional(self.0, offset, |out, offset| put_signed(out, offset.into()));
    }

    pub(in crate::monty) fn time(&mut self, time: Moment) {
        put_byte(self.0, TIME);
        self.moment(time);
    }

    pub(in crate::monty) fn time_delta(&mut self, days: i32, seconds: i32, microseconds: i32) {
        put_byte(self.0, TIME_DELTA);
        for part in [days, seconds, microseconds] {
            put_signed(self.0, part.into());
        }
    }

    pub(in crate::monty) fn exception(&mut self, type_name: &str, message: &str) {
        self.tagged_text(EXCEPTION, type_name);
        put_text(self.0, message);
    }

    pub(in crate::monty) fn host_object(&mut self, class: HostClass, id: u32, attributes: &[(&str, String)]) {
        put_byte(self.0, HOST_OBJECT);
        put_byte(self.0, u8::from(class == HostClass::Content));
        put_number(self.0, id.into());
        put_length(self.0, attributes.len());
        for (name, value) in attributes {
            put_text(self.0, name);
            put_text(self.0, value);
        }
    }

    fn tagged_text(&mut self, tag: u8, text: &str) {
        put_byte(self.0, tag);
        put_text(self.0, text);
    }

    fn year_month_day(&mut self, year: i32, month: u8, day: u8) {
        put_signed(self.0, year.into());
        self.0.put(&[month, day]);
    }

    fn moment(&mut self, time: Moment) {
        self.0.put(&[time.hour, time.minute, time.second]);
        put_number(self.0, time.microsecond.into());
    }
}
