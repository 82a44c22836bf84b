//! Reads request bodies; errors name the key, in words that need no knowledge of our types.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::ApiError;

/// Reads a body's bytes.
pub(super) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let body: Json = serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ApiError::invalid(format!("the body is not valid JSON ({place})"))
    })?;
    from_json(body)
}

/// Reads a body that is already parsed.
pub fn from_json<T: DeserializeOwned>(body: Json) -> Result<T, ApiError> {
    from_part("", body)
}

/// Reads a part of a body; `key` is its path.
pub(super) fn from_part<T: DeserializeOwned>(key: &str, part: Json) -> Result<T, ApiError> {
    let name = if key.is_empty() { "the body" } else { key };
    if !part.is_object() {
        return Err(ApiError::invalid(format!("{name} must be a JSON object")));
    }
    serde_path_to_error::deserialize(part).map_err(|error| {
        let inner = error.path().to_string();
        let path = match (key, inner.as_str()) {
            (key, "." | "?") => key.to_owned(),
            ("", inner) => inner.to_owned(),
            (key, inner) => format!("{key}.{inner}"),
        };
        let pointer = crate::error::pointer_of(&path);
        let place = if path.is_empty() { "the body".to_owned() } else { path };
        ApiError::invalid(format!("{place}: {}", in_plain_words(&error.inner().to_string()))).at(pointer)
    })
}

/// Rewords messages of the JSON library for users.
fn in_plain_words(message: &str) -> String {
    let mut text = message.to_owned();
    for (theirs, ours) in [
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
        ("missing field `", "a key is missing: `"),
        ("unknown field `", "unknown key `"),
        ("unknown variant `", "unknown value `"),
        ("integer `", "the number `"),
        ("floating point `", "the number `"),
        ("boolean `", "`"),
        ("string \"", "the text \""),
        ("sequence", "a list"),
        ("expected a map", "expected an object"),
        ("found map", "found an object"),
        ("expected a string", "expected text"),
        ("expected a boolean", "expected true or false"),
        ("expected a nonzero u32", "expected a whole number from 1"),
        ("there are no fields", "there are none"),
    ] {
        text = text.replace(theirs, ours);
    }
    for number in ["u8", "u16", "u32", "u64", "usize", "i32", "i64"] {
        text = text.replace(&format!("expected {number}"), "expected a whole number");
    }
    // The rest of a type's name only says that an object was expected.
    match text.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected an object"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the mistakes matter")]
    struct Body {
        slug: String,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        count: Option<NonZeroU32>,
        #[serde(default)]
        codes: Vec<u16>,
        #[serde(default)]
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the mistakes matter")]
    struct Inner {
        x: u64,
    }

    #[test]
    fn mistakes_are_told_by_their_key() {
        for (body, expected) in [
            ("nope", "the body is not valid JSON (line 1, column 2)"),
            ("[]", "the body must be a JSON object"),
            ("{}", "the body: a key is missing: `slug`"),
            (r#"{"slug": 5}"#, "slug: found the number `5`, expected text"),
            (
                r#"{"slug": "a", "zz": 1}"#,
                "zz: unknown key `zz`, expected one of `slug`, `flag`, `count`, `codes`, `inner`",
            ),
            (r#"{"slug": "a", "flag": "x"}"#, r#"flag: found the text "x", expected true or false"#),
            (r#"{"slug": "a", "count": 0}"#, "count: found the number `0`, expected a whole number from 1"),
            (r#"{"slug": "a", "codes": [200, -1]}"#, "codes[1]: found the number `-1`, expected a whole number"),
            (r#"{"slug": "a", "inner": "x"}"#, r#"inner: found the text "x", expected an object"#),
            (r#"{"slug": "a", "inner": {"x": []}}"#, "inner.x: found a list, expected a whole number"),
        ] {
            assert_eq!(from_bytes::<Body>(body.as_bytes()).unwrap_err().reply().error.message, expected);
        }
        let deep = "[".repeat(100_000);
        assert!(from_bytes::<Body>(deep.as_bytes()).is_err());
    }
}
