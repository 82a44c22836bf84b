//! The macros that declare keys.

/// Declares a struct of keys: each with its name, type, limits, default, when a change takes effect, and one line of
/// documentation.
///
/// ```
/// use std::time::Duration;
/// use onetool_config::{Section, Shape, keys};
///
/// keys! {
///     /// Boilers, one per kitchen.
///     pub struct BoilerKeys {
///         /// Seconds without use after which a boiler cools down.
///         idle_timeout: Duration = Duration::from_secs(600), live;
///         /// Boilers at once.
///         max: usize [Shape::Count(1, 100)] = 4, restart;
///         /// Kind of water. Without it, whatever the tap gives.
///         kind as "type": Option<String> = None, live, example "spring";
///     }
/// }
///
/// pub const BOILERS: Section<BoilerKeys> = Section::new("boilers");
/// assert_eq!(BoilerKeys::default().max, 4);
/// ```
///
/// Changes of `live` keys take effect when the file is saved, those of `restart` keys at the next start (a reload says
/// so); `ignored` keys are accepted for older files and have no effect. `example` is shown in the commented example for
/// a key without a default.
#[macro_export]
macro_rules! keys {
    (
        $(#[doc = $doc:literal])+
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $key_doc:literal])+
                $field:ident $(as $key:literal)? : $ty:ty $([$shape:expr])? = $default:expr, $effect:ident
                $(, example $example:literal)?;
            )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $(
                $(#[doc = $key_doc])+
                pub $field: $ty,
            )*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $crate::ConfigValue for $name {
            const SHAPE: $crate::Shape = $crate::Shape::Keys(&[$(
                $crate::Key {
                    name: $crate::__key_name!($field $(, $key)?),
                    shape: $crate::__key_shape!($ty $(, $shape)?),
                    doc: concat!($($key_doc),+),
                    effect: $crate::__key_effect!($effect),
                    default: || {
                        let value: $ty = $default;
                        $crate::ConfigValue::write(&value)
                    },
                    example: $crate::__key_example!($($example)?),
                },
            )*]);
            const DOC: &'static str = concat!($($doc),+);

            fn read(value: $crate::serde_json::Value) -> Option<Self> {
                let $crate::serde_json::Value::Object(mut entries) = value else { return None };
                Some(Self {
                    $($field: match entries.remove($crate::__key_name!($field $(, $key)?)) {
                        Some(value) => $crate::ConfigValue::read(value)?,
                        None => $default,
                    },)*
                })
            }

            fn write(&self) -> $crate::serde_json::Value {
                let mut entries = $crate::serde_json::Map::new();
                $(
                    let value = $crate::ConfigValue::write(&self.$field);
                    if !value.is_null() {
                        entries.insert($crate::__key_name!($field $(, $key)?).to_owned(), value);
                    }
                )*
                entries.into()
            }
        }
    };
}

/// Makes an enum a key type: declares the words for each variant, the preferred one first.
#[macro_export]
macro_rules! choices {
    ($name:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $crate::ConfigValue for $name {
            const SHAPE: $crate::Shape = $crate::Shape::Choice(&[$($word),+]);

            fn read(value: $crate::serde_json::Value) -> Option<Self> {
                match value.as_str()? {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            #[allow(unreachable_patterns, reason = "a variant may have several words")]
            fn write(&self) -> $crate::serde_json::Value {
                match self {
                    $(Self::$variant => $word.into(),)+
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident, $key:literal) => {
        $key
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key_shape {
    ($ty:ty) => {
        <$ty as $crate::ConfigValue>::SHAPE
    };
    ($ty:ty, $shape:expr) => {
        $shape
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key_effect {
    (live) => {
        $crate::Effect::Live
    };
    (restart) => {
        $crate::Effect::Restart
    };
    (ignored) => {
        $crate::Effect::Ignored
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key_example {
    () => {
        ""
    };
    ($example:literal) => {
        $example
    };
}
