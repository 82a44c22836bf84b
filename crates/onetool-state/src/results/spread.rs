//! Spreads compact JSON over lines, one element per line, so that results of one enormous line can be read by line.
//!
//! What fits a line stays on it; only containers that do not fit are spread over several. Strings are never broken.
//! Works on the text itself: memory does not grow with it, and text that is not JSON passes through unchanged.

use std::io::{self, Write};

/// Containers up to this size stay on one line.
const LINE_BYTES: usize = 160;
/// Deeper levels are not indented any further.
const INDENTED_LEVELS: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Whole,
    Spread,
}

/// Writes `json`, which has no line breaks, spread over lines.
pub(super) fn spread(json: &str, out: &mut impl Write) -> io::Result<()> {
    let bytes = json.as_bytes();
    let mut open: Vec<Layout> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let layout = open.last().copied().unwrap_or(Layout::Spread);
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                out.write_all(&bytes[at..end])?;
                at = end;
                continue;
            }
            bracket @ (b'{' | b'[') => {
                let inner =
                    if layout == Layout::Whole || fits_line(&bytes[at..]) { Layout::Whole } else { Layout::Spread };
                open.push(inner);
                out.write_all(&[bracket])?;
                if inner == Layout::Spread {
                    break_line(open.len(), out)?;
                }
            }
            bracket @ (b'}' | b']') => {
                if open.pop() == Some(Layout::Spread) {
                    break_line(open.len(), out)?;
                }
                out.write_all(&[bracket])?;
            }
            b',' => {
                out.write_all(b",")?;
                if layout == Layout::Spread && !open.is_empty() {
                    break_line(open.len(), out)?;
                }
            }
            _ => {
                let length = bytes[at..].iter().position(|byte| b"\"{}[],".contains(byte)).unwrap_or(bytes.len() - at);
                out.write_all(&bytes[at..at + length])?;
                at += length;
                continue;
            }
        }
        at += 1;
    }
    Ok(())
}

/// The end of the string that begins at `start`, including its closing quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether the container that begins here fits on one line.
fn fits_line(bytes: &[u8]) -> bool {
    let near = &bytes[..bytes.len().min(LINE_BYTES)];
    let mut depth = 0_usize;
    let mut at = 0;
    while at < near.len() {
        match near[at] {
            b'"' => {
                at = string_end(near, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return true;
                }
            }
            _ => {}
        }
        at += 1;
    }
    false
}

fn break_line(level: usize, out: &mut impl Write) -> io::Result<()> {
    const INDENT: &[u8] = &[b' '; INDENTED_LEVELS];
    out.write_all(b"\n")?;
    out.write_all(&INDENT[..level.min(INDENTED_LEVELS)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text(json: &str) -> String {
        let mut out = Vec::new();
        spread(json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_element_is_a_line() {
        let rows: Vec<Value> = (0..20).map(|number| json!({"id": number, "name": "a, {b} \" c"})).collect();
        let spread = text(&json!({"rows": rows, "next": null}).to_string());
        let lines: Vec<&str> = spread.lines().collect();
        assert_eq!(lines.len(), 25);
        assert_eq!(lines[..3], ["{", " \"rows\":[", "  {\"id\":0,\"name\":\"a, {b} \\\" c\"},"]);
        assert_eq!(lines[22..], [" ],", " \"next\":null", "}"]);
    }

    #[test]
    fn what_is_small_or_not_json_stays_as_it_is() {
        for same in ["{}", "[1,2,{\"a\":[]}]", "\"text\"", "", "1.5", "}]", "[\"unfinished", "{\"a\\"] {
            assert_eq!(text(same).replace(['\n', ' '], ""), same, "{same}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
        leaf.prop_recursive(5, 200, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_stays_the_same_json(value in any_json()) {
            let spread = text(&value.to_string());
            prop_assert_eq!(serde_json::from_str::<Value>(&spread).unwrap(), value);
        }

        #[test]
        fn any_text_goes_through(wild in any::<String>()) {
            let spread = text(&wild);
            prop_assert!(spread.len() >= wild.len());
        }
    }
}
