//! Writes values as YAML: on one line (flow), indented (block), or in the mixture used for `ot.*` results.
//!
//! **Invariant:** YAML 1.1 and 1.2 parsers read the output back as the same scalars. So a text is left unquoted only if
//! no parser could read it as anything else; dates are text; floats always have a dot.

use std::borrow::Cow;
use std::fmt::Write as _;

use onetool_sdk::{Part, Value};

/// A list of plain values longer than this is shown with one item per line.
const FLOW_LIST_WIDTH: usize = 100;
/// Maximum levels of flow style in a shown object.
const FLOW_LEVELS: usize = 2;
/// Maximum length of an implicit key; parsers give up beyond 1024 characters. Longer keys are written with `?`.
const IMPLICIT_KEY_CAP: usize = 500;

/// Writes everything on one line: `{name: ws, tags: [a, b]}`.
pub fn to_yaml_flow(value: &Value) -> String {
    let mut out = String::new();
    write_flow(&View::of(value), &mut out);
    out
}

/// Writes indented YAML, with multi-line texts as literal blocks. Ends without a line break.
pub fn to_yaml_block(value: &Value) -> String {
    let mut out = String::new();
    write_block(&View::of(value), 0, &mut out, Style::Block);
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// Formats `ot.*` results: texts unchanged, a simple object in flow style, a list of objects as a block sequence of
/// flow items, never more than two levels of flow.
pub fn to_ot_display(value: &Value) -> String {
    let view = View::of(value);
    match &view {
        View::Scalar(Scalar::Text(text)) => text.clone().into_owned(),
        // A simple object; below the top level a second level of flow is fine too.
        View::Map(_) if flow_depth(&view) <= 1 => to_yaml_flow(value),
        _ => {
            let mut out = String::new();
            write_block(&view, 0, &mut out, Style::Display);
            out.truncate(out.trim_end_matches('\n').len());
            out
        }
    }
}

/// Writes a text as a double-quoted scalar.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_quoted(text, &mut out);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Block,
    /// Like block, but values that fit in two flow levels are written as flow.
    Display,
}

enum Scalar<'a> {
    Text(Cow<'a, str>),
    /// Written unchanged.
    Literal(String),
}

/// A value reduced to YAML's types.
enum View<'a> {
    Scalar(Scalar<'a>),
    List(Vec<View<'a>>),
    Map(Vec<(Scalar<'a>, View<'a>)>),
}

impl<'a> View<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::List(items) | Value::Tuple(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Set(items) | Value::FrozenSet(items) => {
                Self::List(in_stable_order(items).into_iter().map(Self::of).collect())
            }
            Value::Dict(pairs) => {
                Self::Map(pairs.iter().map(|(key, value)| (key_scalar(key), Self::of(value))).collect())
            }
            Value::Record { fields, .. } => Self::Map(
                fields.iter().map(|(key, value)| (Scalar::Text(Cow::Borrowed(key)), Self::of(value))).collect(),
            ),
            Value::Part(part) => Self::of_part(part),
            scalar => Self::Scalar(scalar_of(scalar)),
        }
    }

    fn of_part(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::Scalar(Scalar::Text(Cow::Borrowed(text))),
            other => Self::Scalar(Scalar::Text(Cow::Owned(other.placeholder()))),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::List(items) => items.is_empty(),
            Self::Map(pairs) => pairs.is_empty(),
        }
    }
}

fn scalar_of(value: &Value) -> Scalar<'_> {
    match value {
        Value::None => Scalar::Literal("null".to_owned()),
        Value::Bool(value) => Scalar::Literal(value.to_string()),
        Value::Int(value) => Scalar::Literal(value.to_string()),
        Value::BigInt(value) => Scalar::Literal(value.to_string()),
        Value::Float(value) => Scalar::Literal(float_text(*value)),
        Value::Str(text) => Scalar::Text(Cow::Borrowed(text)),
        other => match other.to_json() {
            serde_json::Value::String(text) => Scalar::Text(Cow::Owned(text)),
            json => Scalar::Literal(json.to_string()),
        },
    }
}

/// Writes complex keys as JSON text, because YAML readers of most languages reject lists as keys.
fn key_scalar(key: &Value) -> Scalar<'_> {
    match key {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Str(_) => {
            scalar_of(key)
        }
        other => Scalar::Text(Cow::Owned(other.key_text())),
    }
}

/// YAML 1.1 readers parse `1e+100` as text: a number with an exponent needs a dot.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = Value::Float(value).repr();
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}

fn in_stable_order(items: &[Value]) -> Vec<&Value> {
    let mut order: Vec<&Value> = items.iter().collect();
    if items.iter().all(|item| matches!(item, Value::Str(_))) {
        order.sort_by_key(|item| item.as_str());
    } else if items.iter().all(|item| matches!(item, Value::Int(_))) {
        order.sort_by_key(|item| if let Value::Int(value) = item { *value } else { 0 });
    }
    order
}

/// Levels of flow style that a value needs on one line; empty collections need none.
fn flow_depth(view: &View<'_>) -> usize {
    match view {
        View::Scalar(_) => 0,
        View::List(items) if items.is_empty() => 0,
        View::Map(pairs) if pairs.is_empty() => 0,
        View::List(items) => 1 + items.iter().map(flow_depth).max().unwrap_or(0),
        View::Map(pairs) => 1 + pairs.iter().map(|(_, value)| flow_depth(value)).max().unwrap_or(0),
    }
}

fn write_flow(view: &View<'_>, out: &mut String) {
    match view {
        View::Scalar(scalar) => write_scalar(scalar, out, Place::Flow),
        View::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_flow(item, out);
            }
            out.push(']');
        }
        View::Map(pairs) => {
            out.push('{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                let start = out.len();
                write_scalar(key, out, Place::Flow);
                if out.len() - start > IMPLICIT_KEY_CAP {
                    out.insert_str(start, "? ");
                    out.push(' ');
                }
                out.push_str(": ");
                write_flow(value, out);
            }
            out.push('}');
        }
    }
}

/// Whether a nested value is shown on one line.
fn fits_flow(view: &View<'_>) -> bool {
    match view {
        View::Scalar(_) => true,
        View::List(items) if items.iter().all(View::is_empty) => {
            let mut line = String::new();
            write_flow(view, &mut line);
            line.chars().count() <= FLOW_LIST_WIDTH
        }
        // Lists of objects are block sequences at any level.
        View::List(_) => false,
        View::Map(pairs) => flow_depth(view) <= FLOW_LEVELS && pairs.iter().all(|(_, value)| flow_inside(value)),
    }
}

/// Whether a value may appear in a one-line object: a short list of plain values may, a list of objects may not.
fn flow_inside(view: &View<'_>) -> bool {
    match view {
        View::Scalar(_) => true,
        View::List(items) => items.iter().all(View::is_empty),
        View::Map(pairs) => pairs.iter().all(|(_, value)| flow_inside(value)),
    }
}

/// Writes a value at `indent`, starting at the current position. Ends with a line break.
fn write_block(view: &View<'_>, indent: usize, out: &mut String, style: Style) {
    match view {
        View::Scalar(scalar) => write_block_scalar(scalar, indent, out, style),
        View::List(items) if items.is_empty() => out.push_str("[]\n"),
        View::Map(pairs) if pairs.is_empty() => out.push_str("{}\n"),
        View::List(_) if style == Style::Display && fits_flow(view) => {
            write_flow(view, out);
            out.push('\n');
        }
        View::List(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                if style == Style::Display && fits_flow(item) && !matches!(item, View::Scalar(_)) {
                    write_flow(item, out);
                    out.push('\n');
                } else {
                    write_block(item, indent + 2, out, style);
                }
            }
        }
        View::Map(pairs) => {
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                write_entry(key, value, indent, out, style);
            }
        }
    }
}

fn write_entry(key: &Scalar<'_>, value: &View<'_>, indent: usize, out: &mut String, style: Style) {
    let start = out.len();
    write_scalar(key, out, Place::Block);
    if out.len() - start > IMPLICIT_KEY_CAP {
        out.insert_str(start, "? ");
        out.push('\n');
        pad(indent, out);
    }
    out.push(':');
    let one_line = value.is_empty() || (style == Style::Display && fits_flow(value));
    match value {
        View::Scalar(scalar) => {
            out.push(' ');
            write_block_scalar(scalar, indent + 2, out, style);
        }
        _ if one_line => {
            out.push(' ');
            write_flow(value, out);
            out.push('\n');
        }
        _ => {
            out.push('\n');
            pad(indent + 2, out);
            write_block(value, indent + 2, out, style);
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_block_scalar(scalar: &Scalar<'_>, indent: usize, out: &mut String, style: Style) {
    match scalar {
        Scalar::Text(text) if style == Style::Block && fits_literal(text) => {
            out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
            // At the top level a literal must still be indented.
            let indent = indent.max(2);
            for line in text.lines() {
                if !line.is_empty() {
                    pad(indent, out);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        scalar => {
            write_scalar(scalar, out, Place::Block);
            out.push('\n');
        }
    }
}

/// Whether a literal block preserves a text: nothing in it may depend on indentation, trailing blanks or escapes.
fn fits_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\n', '\t'])
        && !body.ends_with('\n')
        && body.split('\n').all(|line| !line.ends_with([' ', '\t']) && line.chars().all(is_bare))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Flow,
    Block,
}

fn write_scalar(scalar: &Scalar<'_>, out: &mut String, place: Place) {
    match scalar {
        Scalar::Literal(text) => out.push_str(text),
        Scalar::Text(text) if is_plain(text, place) => out.push_str(text),
        Scalar::Text(text) => write_quoted(text, out),
    }
}

/// Words that some parser reads as null, a boolean, a number or a merge key.
const RESERVED: &[&str] =
    &["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf", "infinity"];

fn is_plain(text: &str, place: Place) -> bool {
    // Numbers, dates and versions begin with a digit, a sign or a dot; such texts are always quoted.
    let starts = text.chars().next().is_some_and(|c| c.is_alphabetic() || matches!(c, '_' | '/' | '$' | '('));
    starts
        && text.len() <= IMPLICIT_KEY_CAP
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| is_bare(c) && c != '\t')
        && (place == Place::Block || !text.contains([',', '[', ']', '{', '}', ':', '?']))
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a character may appear in YAML without an escape and is not a line break.
fn is_bare(c: char) -> bool {
    match c {
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        '\t' | ' '..='~' | '\u{a0}'..='\u{10ffff}' => true,
        _ => false,
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_bare(c) => out.push(c),
            c if (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
