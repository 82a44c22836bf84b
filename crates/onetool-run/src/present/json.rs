//! Writes any value as JSON without building a JSON tree: integers of any size stay exact, and a large value is written
//! once.

use std::fmt::Write as _;

use onetool_sdk::Value;

/// Nesting beyond this is written as `"…"`.
const MAX_DEPTH: usize = 200;

/// Writes without white space.
pub fn compact(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, None, 0);
    out
}

/// Writes with two spaces per level.
pub fn indented(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, Some(2), 0);
    out
}

fn write(value: &Value, out: &mut String, indent: Option<usize>, depth: usize) {
    if depth > MAX_DEPTH {
        out.push_str("\"…\"");
        return;
    }
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::BigInt(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Float(number) if number.is_finite() => out.push_str(&value.str().replace("e+", "e")),
        // JSON has no NaN and no infinities.
        Value::Float(number) => string(onetool_sdk::non_finite_text(*number), out),
        Value::Str(text) => string(text, out),
        Value::List(items) | Value::Tuple(items) => sequence(items.iter(), out, indent, depth),
        Value::Set(_) | Value::FrozenSet(_) => match value.to_json() {
            serde_json::Value::Array(items) => {
                let items: Vec<Value> = items.into_iter().map(Value::from_json).collect();
                sequence(items.iter(), out, indent, depth);
            }
            _ => out.push_str("[]"),
        },
        Value::Dict(pairs) => {
            mapping(pairs.iter().map(|(key, value)| (key.key_text(), value)), out, indent, depth);
        }
        Value::Record { fields, .. } => {
            mapping(fields.iter().map(|(key, value)| (key.clone(), value)), out, indent, depth);
        }
        Value::Part(_) if depth > 0 => {
            if let Value::Part(part) = value {
                string(&part.placeholder(), out);
            }
        }
        other => match other.to_json() {
            serde_json::Value::String(text) => string(&text, out),
            json => out.push_str(&json.to_string()),
        },
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

fn sequence<'a>(items: impl Iterator<Item = &'a Value>, out: &mut String, indent: Option<usize>, depth: usize) {
    out.push('[');
    let mut any = false;
    for item in items {
        if any {
            out.push(',');
        }
        any = true;
        new_line(out, indent, depth + 1);
        write(item, out, indent, depth + 1);
    }
    if any {
        new_line(out, indent, depth);
    }
    out.push(']');
}

fn mapping<'a>(
    pairs: impl Iterator<Item = (String, &'a Value)>,
    out: &mut String,
    indent: Option<usize>,
    depth: usize,
) {
    out.push('{');
    let mut any = false;
    for (key, value) in pairs {
        if any {
            out.push(',');
        }
        any = true;
        new_line(out, indent, depth + 1);
        string(&key, out);
        out.push(':');
        if indent.is_some() {
            out.push(' ');
        }
        write(value, out, indent, depth + 1);
    }
    if any {
        new_line(out, indent, depth);
    }
    out.push('}');
}

fn new_line(out: &mut String, indent: Option<usize>, depth: usize) {
    if let Some(width) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_what_serde_writes() {
        let json = serde_json::json!({"a": [1, -2.5, null, true, "x\"\\\n\u{1}ü"], "b": {}, "c": []});
        let value = Value::from_json(json.clone());
        assert_eq!(compact(&value), json.to_string());
        assert_eq!(indented(&value), serde_json::to_string_pretty(&json).unwrap());
    }

    #[test]
    fn what_json_lacks_is_still_valid() {
        let value = Value::Dict(vec![
            (Value::Int(1), Value::Float(f64::NAN)),
            (Value::None, Value::BigInt("123456789012345678901234567890".parse().unwrap())),
            (Value::Bool(true), Value::Float(1e100)),
        ]);
        let text = compact(&value);
        assert_eq!(text, r#"{"1":"NaN","null":123456789012345678901234567890,"true":1e100}"#);
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn depth_is_bounded() {
        let mut value = Value::None;
        for _ in 0..1000 {
            value = Value::List(vec![value]);
        }
        assert!(compact(&value).contains('…'));
    }
}
