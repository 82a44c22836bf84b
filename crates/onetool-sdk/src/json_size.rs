//! How many values a JSON text holds, told before any of them is built.
//!
//! A tree takes many times the memory of its text: `[0,0,…]` has a value in every two bytes. Whoever reads JSON of
//! others' making asks first.

/// Whether a text holds at most `max_values` values and names. Text that is not JSON is counted as if it were.
pub fn holds_at_most(text: &[u8], max_values: usize) -> bool {
    // Every value but the first has a comma, a colon or a bracket of its own.
    if text.len() <= max_values || max_values == 0 {
        return text.len() <= max_values;
    }
    let mut values = 1_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at + 1),
            b',' | b':' | b'[' | b'{' => {
                values += 1;
                if values > max_values {
                    return false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    true
}

/// Where a string ends that begins here.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = text.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and names of a tree.
    fn count(json: &serde_json::Value) -> usize {
        match json {
            serde_json::Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            serde_json::Value::Object(fields) => 1 + fields.values().map(|value| 1 + count(value)).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn the_count_is_never_less_than_what_a_tree_holds() {
        for text in [
            "0",
            "[]",
            "[0,0,0]",
            r#"{"a":[1,{"b":null}],"c":"x,y:[{"}"#,
            r#"["\\","\"",",,,,,"]"#,
            r#"[[[[[]]]],{"x":{}}]"#,
            r#""no end \"#,
        ] {
            let Ok(tree) = serde_json::from_str(text) else { continue };
            let least = (0..100).find(|limit| holds_at_most(text.as_bytes(), *limit)).unwrap();
            assert!(least >= count(&tree), "{text}: {least}");
            assert!(least <= text.len(), "{text}: {least}");
        }
    }

    #[test]
    fn what_stands_in_strings_does_not_count() {
        let text = format!("[\"{}\"]", ",[{:".repeat(1000));
        assert!(holds_at_most(text.as_bytes(), 3));
        assert!(!holds_at_most("[0,0,0,0]".as_bytes(), 4));
        for broken in [&b"\"\\"[..], b"\"", b"[\"a\\\"", b"\xff\xfe,,"] {
            holds_at_most(broken, 0);
        }
    }
}
