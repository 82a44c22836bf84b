//! Counts the values in a JSON text before any of them is built.
//!
//! A tree takes many times the memory of its text: `[0,0,…]` has a value in every two bytes. Code that reads untrusted
//! JSON checks this first.

/// Whether a text holds at most `max_values` values and member names. Text that is not JSON is counted as if it were.
pub fn holds_at_most(text: &[u8], max_values: usize) -> bool {
    // Every value but the first has a comma, a colon or a bracket of its own.
    if text.len() <= max_values || max_values == 0 {
        return text.len() <= max_values;
    }
    has_at_most(text, max_values - 1, |byte| matches!(byte, b',' | b':' | b'[' | b'{'))
}

/// Whether a text holds at most `max_containers` arrays and objects, each of which takes as much memory as many plain
/// values.
pub fn nests_at_most(text: &[u8], max_containers: usize) -> bool {
    text.len() <= max_containers || has_at_most(text, max_containers, |byte| matches!(byte, b'[' | b'{'))
}

/// Whether at most `max` bytes outside of strings match `counted`.
fn has_at_most(text: &[u8], max: usize, counted: impl Fn(u8) -> bool) -> bool {
    let (mut count, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        if *byte == b'"' {
            at = end_of_string(text, at + 1);
        } else if counted(*byte) {
            count += 1;
            if count > max {
                return false;
            }
        }
        at += 1;
    }
    true
}

/// Returns the end of the string that begins at `at`.
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

    /// Counts the values and member names of a tree.
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
        let nested = r#"[{"[{": []}, 1, 2, 3]"#.as_bytes();
        assert!(nests_at_most(nested, 3) && !nests_at_most(nested, 2));
        for broken in [&b"\"\\"[..], b"\"", b"[\"a\\\"", b"\xff\xfe,,"] {
            holds_at_most(broken, 0);
        }
    }
}
