//! The values that a key accepts, described for users.
//!
//! A value is checked against its shape before it is read: invalid parts are left out, each with a [`ShapeProblem`] that names
//! the key, what was found and what was expected. A value that passes can be read as the key's type.

use onetool_sdk::nearest;
use serde_json::{Map, Value as Json};

/// The accepted values.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Anything; its user checks it.
    Any,
    /// Text. It may be a secret, so messages never quote a value in its place.
    Text,
    /// true or false
    Flag,
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// A time in seconds, above 0.
    Seconds,
    /// One of these words, ignoring case.
    Choice(&'static [&'static str]),
    /// A list of such values.
    List(&'static Shape),
    /// One such value, or a list of them.
    OneOrMore(&'static Shape),
    /// User-defined names, each with such a value.
    Names(&'static Shape),
    /// These keys.
    Keys(&'static [Key]),
    /// The first that fits; the last one is used for the error message.
    Either(&'static [Shape]),
}

/// The declaration of one key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// What it is for, in one line.
    pub doc: &'static str,
    pub effect: Effect,
    /// The default, as JSON; `null` for a key without one.
    pub default: fn() -> Json,
    /// Shown in the commented example if there is no default.
    pub example: &'static str,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// As soon as the file is saved.
    Live,
    /// At the next start; a reload says so.
    Restart,
    /// Never: the key is accepted for compatibility with older files.
    Ignored,
}

/// Megabytes, up to a terabyte.
pub const MAX_MB: u64 = 1 << 20;
/// Kilobytes, up to a gigabyte.
pub const MAX_KB: u64 = 1 << 20;
/// Bytes, up to a gigabyte.
pub const MAX_BYTES: u64 = 1 << 30;
/// For counts that need no specific limit.
pub const MAX_COUNT: u64 = 1_000_000_000;
/// Seconds are bounded, so that they can be added to any time.
pub(crate) const MAX_SECONDS: f64 = 1e9;

/// A problem with a key.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeProblem {
    /// Relative to the checked value.
    pub path: Vec<String>,
    pub kind: ShapeProblemKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeProblemKind {
    /// The key is unknown; the others are used.
    UnknownKey,
    /// The key is known, but its value is invalid.
    WrongValue,
}

/// Maximum number of characters of a value in a message.
const MAX_QUOTED: usize = 40;

/// Returns the valid part of `value`, if any. A key without a value counts as missing.
pub fn fit(shape: Shape, value: Json, flaws: &mut Vec<ShapeProblem>) -> Option<Json> {
    let mut checker = Checker { path: Vec::new(), flaws };
    checker.fit(shape, value)
}

struct Checker<'a> {
    path: Vec<String>,
    flaws: &'a mut Vec<ShapeProblem>,
}

impl Checker<'_> {
    fn flaw(&mut self, kind: ShapeProblemKind, message: String) {
        self.flaws.push(ShapeProblem { path: self.path.clone(), kind, message });
    }

    fn wrong(&mut self, shape: Shape, value: &Json) -> Option<Json> {
        let found = if shape.may_be_quoted() { quoted(value) } else { kind(value).to_owned() };
        let hint = match (shape, value) {
            (Shape::Text, Json::Number(_) | Json::Bool(_)) => " (put it in quotes)",
            _ => "",
        };
        self.flaw(ShapeProblemKind::WrongValue, format!("found {found}, expected {}{hint}", shape.describe()));
        None
    }

    fn fit(&mut self, shape: Shape, value: Json) -> Option<Json> {
        if value.is_null() && !matches!(shape, Shape::Any) {
            return None;
        }
        match (shape, value) {
            (Shape::Any, value) => Some(value),
            (Shape::Text, Json::String(text)) => Some(Json::String(text)),
            (Shape::Flag, Json::Bool(flag)) => Some(Json::Bool(flag)),
            (Shape::Count(least, most), value) => match whole(&value) {
                Some(number) if (least..=most).contains(&number) => Some(number.into()),
                _ => self.wrong(shape, &value),
            },
            (Shape::Number(least, most), value) => match value.as_f64() {
                Some(number) if (least..=most).contains(&number) => Some(value),
                _ => self.wrong(shape, &value),
            },
            (Shape::Seconds, value) => match value.as_f64() {
                Some(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => Some(value),
                _ => self.wrong(shape, &value),
            },
            (Shape::Choice(words), Json::String(text)) => {
                match words.iter().find(|word| text.eq_ignore_ascii_case(word)) {
                    Some(word) => Some(Json::String((*word).to_owned())),
                    None => {
                        let guess = nearest(&text, words.iter().copied())
                            .map(|word| format!("; did you mean '{word}'?"))
                            .unwrap_or_default();
                        let found = quoted(&Json::String(text));
                        self.flaw(
                            ShapeProblemKind::WrongValue,
                            format!("found {found}, expected {}{guess}", shape.describe()),
                        );
                        None
                    }
                }
            }
            // YAML reads `pin: off` as false.
            (Shape::Choice(words), Json::Bool(false)) if words.contains(&"off") => Some(Json::String("off".to_owned())),
            (Shape::List(item) | Shape::OneOrMore(item), Json::Array(items)) => {
                Some(Json::Array(self.fit_items(*item, items)))
            }
            (Shape::OneOrMore(item), value) if item.takes_kind(&value) => {
                self.fit(*item, value).map(|value| Json::Array(vec![value]))
            }
            (Shape::Names(inner), Json::Object(entries)) => Some(Json::Object(self.fit_names(*inner, entries))),
            (Shape::Keys(keys), Json::Object(entries)) => Some(Json::Object(self.fit_keys(keys, entries))),
            (Shape::Either(shapes), value) => match shapes.iter().find(|shape| shape.takes_kind(&value)) {
                Some(chosen) => self.fit(*chosen, value),
                None => self.wrong(shape, &value),
            },
            (shape, value) => self.wrong(shape, &value),
        }
    }

    fn within(&mut self, step: String, shape: Shape, value: Json) -> Option<Json> {
        self.path.push(step);
        let fitting = self.fit(shape, value);
        self.path.pop();
        fitting
    }

    fn fit_items(&mut self, item: Shape, items: Vec<Json>) -> Vec<Json> {
        let mut fitting = Vec::with_capacity(items.len());
        for (index, value) in items.into_iter().enumerate() {
            let step = format!("[{index}]");
            if value.is_null() && !matches!(item, Shape::Any) {
                self.path.push(step);
                self.wrong(item, &value);
                self.path.pop();
            } else {
                fitting.extend(self.within(step, item, value));
            }
        }
        fitting
    }

    fn fit_names(&mut self, inner: Shape, entries: Map<String, Json>) -> Map<String, Json> {
        let mut fitting = Map::new();
        for (name, value) in entries {
            // A name without a value gets all defaults.
            let value = if value.is_null() && inner.has_keys() { Json::Object(Map::new()) } else { value };
            if value.is_null() && !matches!(inner, Shape::Any) {
                self.path.push(name);
                self.wrong(inner, &value);
                self.path.pop();
            } else if let Some(value) = self.within(name.clone(), inner, value) {
                fitting.insert(name, value);
            }
        }
        fitting
    }

    fn fit_keys(&mut self, keys: &'static [Key], entries: Map<String, Json>) -> Map<String, Json> {
        let mut fitting = Map::new();
        for (name, value) in entries {
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                let message = unknown(&name, keys.iter().map(|key| key.name));
                self.path.push(name);
                self.flaw(ShapeProblemKind::UnknownKey, message);
                self.path.pop();
                continue;
            };
            if let Some(value) = self.within(name.clone(), key.shape, value) {
                fitting.insert(name, value);
            }
        }
        fitting
    }
}

/// The message for an unknown key.
pub(crate) fn unknown(name: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(meant) => format!("unknown key '{}'; did you mean '{meant}'?", short(name)),
        None => {
            let known: Vec<&str> = known.collect();
            format!("unknown key '{}'; expected one of {}", short(name), known.join(", "))
        }
    }
}

impl Shape {
    /// Describes the accepted values for a message.
    pub fn describe(self) -> String {
        match self {
            Self::Any => "a value".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Count(least, u64::MAX) => format!("a whole number from {least} on"),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Seconds => format!("a number of seconds above 0 (up to {MAX_SECONDS})"),
            Self::Choice(words) => match words.split_last() {
                Some((last, [])) => (*last).to_owned(),
                Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
                None => "nothing".to_owned(),
            },
            Self::List(item) => format!("a list; each item {}", item.describe()),
            Self::OneOrMore(item) => format!("{}, or a list of such", item.describe()),
            Self::Names(inner) => format!("a mapping of names; each value {}", inner.describe()),
            Self::Keys(keys) => {
                let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
                format!("a mapping with keys such as {}", names[..names.len().min(4)].join(", "))
            }
            Self::Either(shapes) => {
                let words: Vec<String> = shapes.iter().map(|shape| shape.describe()).collect();
                words.join(", or ")
            }
        }
    }

    /// Whether an invalid value may be quoted: where numbers, flags and fixed words are expected, it is not a secret.
    fn may_be_quoted(self) -> bool {
        matches!(self, Self::Flag | Self::Count(..) | Self::Number(..) | Self::Seconds | Self::Choice(_))
    }

    pub(crate) fn has_keys(self) -> bool {
        match self {
            Self::Keys(_) => true,
            Self::Either(shapes) => shapes.iter().any(|shape| shape.has_keys()),
            _ => false,
        }
    }

    /// Whether the value has the right kind, whatever its content.
    fn takes_kind(self, value: &Json) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Count(..) | Self::Number(..) | Self::Seconds => value.is_number(),
            Self::Choice(_) => value.is_string() || value.is_boolean(),
            Self::List(_) => value.is_array(),
            Self::OneOrMore(item) => value.is_array() || item.takes_kind(value),
            Self::Names(_) | Self::Keys(_) => value.is_object(),
            Self::Either(shapes) => shapes.iter().any(|shape| shape.takes_kind(value)),
        }
    }
}

/// `5` and `5.0` are the same whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked on the same line")]
fn whole(value: &Json) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=EXACT).contains(n)).map(|n| n as u64))
}

/// The kind of a value, for messages.
pub(crate) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

/// Formats a value for display; never used where it may be a secret.
pub fn quoted(value: &Json) -> String {
    match value {
        Json::Bool(flag) => flag.to_string(),
        Json::Number(number) => format!("the number {number}"),
        Json::String(text) => format!("the text '{}'", short(text)),
        other => kind(other).to_owned(),
    }
}

/// The beginning of a text, on one line.
pub fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use std::time::Duration;

    crate::keys! {
        /// Of an entry.
        struct EntryKeys {
            /// A.
            a: String = String::new(), live;
        }
    }

    crate::keys! {
        /// All kinds.
        struct SampleKeys {
            /// Seconds.
            timeout: Duration = Duration::from_secs(1), live;
            /// A count.
            count: usize [Shape::Count(1, 10)] = 1, live;
            /// A flag.
            flag: bool = false, live;
            /// A word.
            word: Option<String> [Shape::Choice(&["auto", "off"])] = None, live;
            /// Text.
            name: Option<String> = None, live;
            /// One or more.
            names: Vec<String> [Shape::OneOrMore(&Shape::Text)] = Vec::new(), live;
            /// Entries.
            entries: Vec<EntryKeys> = Vec::new(), live;
        }
    }

    const KEYS: Shape = <SampleKeys as crate::ConfigValue>::SHAPE;

    fn check(value: Json) -> (Json, Vec<String>) {
        let mut flaws = Vec::new();
        let fitting = fit(KEYS, value, &mut flaws).unwrap_or(Json::Null);
        (fitting, flaws.into_iter().map(|flaw| format!("{}: {}", flaw.path.join("."), flaw.message)).collect())
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let value = json!({"timeout": 1.5, "count": 3, "flag": true, "word": "auto", "name": "x", "names": ["a"]});
        assert_eq!(check(value.clone()), (value, vec![]));
        assert_eq!(
            check(json!({"names": "a", "word": "AUTO", "count": 2.0, "flag": null})).0,
            json!({"names": ["a"], "word": "auto", "count": 2})
        );
        assert_eq!(check(json!({"word": false})).0, json!({"word": "off"}));
    }

    #[test]
    fn what_does_not_fit_is_told_in_words() {
        for (value, message) in [
            (
                json!({"timeout": "soon"}),
                "timeout: found the text 'soon', expected a number of seconds above 0 (up to 1000000000)",
            ),
            (
                json!({"timeout": -1}),
                "timeout: found the number -1, expected a number of seconds above 0 (up to 1000000000)",
            ),
            (json!({"count": 11}), "count: found the number 11, expected a whole number from 1 to 10"),
            (json!({"count": 1.5}), "count: found the number 1.5, expected a whole number from 1 to 10"),
            (json!({"flag": "maybe"}), "flag: found the text 'maybe', expected true or false"),
            (json!({"word": "aut"}), "word: found the text 'aut', expected auto or off; did you mean 'auto'?"),
            (json!({"name": 123_456}), "name: found a number, expected text (put it in quotes)"),
            (json!({"name": ["secret"]}), "name: found a list, expected text"),
            (json!({"names": ["a", 5]}), "names.[1]: found a number, expected text (put it in quotes)"),
            (json!({"entries": [{"b": 1}]}), "entries.[0].b: unknown key 'b'; expected one of a"),
            (json!({"timout": 5}), "timout: unknown key 'timout'; did you mean 'timeout'?"),
            (json!([1]), ": found a list, expected a mapping with keys such as timeout, count, flag, word"),
        ] {
            assert_eq!(check(value.clone()).1, [message], "{value}");
        }
    }
}
