//! Types that a key can have.

use std::num::NonZeroU32;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::shape::{MAX_COUNT, Shape};

/// A type that can be read from a configuration.
///
/// Implemented for the usual types here, for structs of keys by [`keys!`](crate::keys), and for enums by
/// [`choices!`](crate::choices).
pub trait ConfigValue: Sized {
    /// The accepted values, unless the key narrows them.
    const SHAPE: Shape;

    /// Description, in one sentence.
    const DOC: &'static str = "";

    /// Reads a value that has been checked against the shape. `None` means that the shape and the type disagree.
    fn read(value: Json) -> Option<Self>;

    /// The value as it would be written in a file. `null` for a missing key.
    fn write(&self) -> Json;
}

impl ConfigValue for bool {
    const SHAPE: Shape = Shape::Flag;

    fn read(value: Json) -> Option<Self> {
        value.as_bool()
    }

    fn write(&self) -> Json {
        (*self).into()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl ConfigValue for $number {
            const SHAPE: Shape = Shape::Count(0, MAX_COUNT);

            fn read(value: Json) -> Option<Self> {
                value.as_u64().and_then(|number| Self::try_from(number).ok())
            }

            fn write(&self) -> Json {
                (*self).into()
            }
        }
    )+};
}

numbers!(u16, u32, u64, usize);

impl ConfigValue for NonZeroU32 {
    const SHAPE: Shape = Shape::Count(1, MAX_COUNT);

    fn read(value: Json) -> Option<Self> {
        u32::read(value).and_then(Self::new)
    }

    fn write(&self) -> Json {
        self.get().into()
    }
}

impl ConfigValue for f64 {
    const SHAPE: Shape = Shape::Number(0.0, 1e9);

    fn read(value: Json) -> Option<Self> {
        value.as_f64()
    }

    fn write(&self) -> Json {
        (*self).into()
    }
}

/// Seconds.
impl ConfigValue for Duration {
    const SHAPE: Shape = Shape::Seconds;

    fn read(value: Json) -> Option<Self> {
        value.as_f64().and_then(|seconds| Self::try_from_secs_f64(seconds).ok())
    }

    fn write(&self) -> Json {
        if self.subsec_nanos() == 0 { self.as_secs().into() } else { self.as_secs_f64().into() }
    }
}

impl ConfigValue for String {
    const SHAPE: Shape = Shape::Text;

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        self.as_str().into()
    }
}

/// Anything; its user checks it.
impl ConfigValue for Json {
    const SHAPE: Shape = Shape::Any;

    fn read(value: Json) -> Option<Self> {
        Some(value)
    }

    fn write(&self) -> Json {
        self.clone()
    }
}

/// A key without a default.
impl<T: ConfigValue> ConfigValue for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const DOC: &'static str = T::DOC;

    fn read(value: Json) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::read(value).map(Some) }
    }

    fn write(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::write)
    }
}

impl<T: ConfigValue> ConfigValue for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::Array(items) => items.into_iter().map(T::read).collect(),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        self.iter().map(T::write).collect()
    }
}

/// User-defined names, in the order of the file.
impl<T: ConfigValue> ConfigValue for IndexMap<String, T> {
    const SHAPE: Shape = Shape::Names(&T::SHAPE);

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::Object(entries) => entries.into_iter().map(|(name, value)| Some((name, T::read(value)?))).collect(),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        self.iter().map(|(name, value)| (name.clone(), value.write())).collect::<Map<_, _>>().into()
    }
}
