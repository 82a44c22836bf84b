//! Output generated from the declarations: the reference, the JSON Schema and the commented example. None of it is
//! maintained by hand, so none of it can disagree with the checker.

mod example;
mod markdown;
mod schema;

pub use example::example;
pub use markdown::markdown;
pub use schema::json_schema;

use serde_json::Value as Json;

/// Formats a value as one line of YAML.
pub(crate) fn flow(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(flag) => flag.to_string(),
        Json::Number(number) => number.to_string(),
        Json::String(text) if is_plain(text) => text.clone(),
        Json::String(_) => value.to_string(),
        Json::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::Object(entries) => {
            let pair = |(key, value): (&String, &Json)| format!("{}: {}", flow(&key.as_str().into()), flow(value));
            format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether YAML reads this text unchanged without quotes, in any position.
fn is_plain(text: &str) -> bool {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    is_word
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a default is empty.
fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_yaml() {
        let value = json!({"a b": [1, true, "on", "x: y", "plain/text"], "c": null});
        assert_eq!(flow(&value), r#"{"a b": [1, true, "on", "x: y", plain/text], c: null}"#);
    }
}
