//! Repairs the almost-JSON that other programs write.

use std::borrow::Cow;

/// Returns the text as valid JSON: invalid UTF-8 and escapes of unpaired surrogates become U+FFFD; `NaN` and
/// `Infinity`, as Python writes them, become null.
pub fn repaired_json(bytes: &[u8]) -> Cow<'_, str> {
    let text = with_null_for_no_numbers(String::from_utf8_lossy(bytes));
    if !text.contains("\\u") {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let length = match unit(rest) {
            Some(0xD800..=0xDBFF)
                if rest.get(6..).and_then(unit).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) =>
            {
                12
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn with_null_for_no_numbers(text: Cow<'_, str>) -> Cow<'_, str> {
    const NONE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NONE.iter().any(|none| text.contains(none)) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    // Every second piece is inside quotes; a quote after an odd number of backslashes does not count.
    let (mut rest, mut in_string) = (&*text, false);
    while !rest.is_empty() {
        let end = if in_string { end_of_string(rest) } else { rest.find('"').map_or(rest.len(), |at| at + 1) };
        let (piece, after) = rest.split_at(end);
        if in_string {
            out.push_str(piece);
        } else {
            out.push_str(&NONE.iter().fold(piece.to_owned(), |piece, none| piece.replace(none, "null")));
        }
        (rest, in_string) = (after, !in_string);
    }
    Cow::Owned(out)
}

/// Returns the end of the string that `text` begins in, including its closing quote.
fn end_of_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_are_null_outside_of_strings() {
        assert_eq!(
            repaired_json(br#"{"a":NaN,"b":[-Infinity,Infinity],"NaN":"NaN \" NaN","c":"\\","d":NaN}"#),
            r#"{"a":null,"b":[null,null],"NaN":"NaN \" NaN","c":"\\","d":null}"#
        );
        assert_eq!(repaired_json(b"\"NaN \\"), "\"NaN \\");
    }

    #[test]
    fn half_pairs_are_mended_and_whole_ones_stay() {
        assert_eq!(
            repaired_json(br#""\ud83d \ud83d\ude00 \\ud83d \u0041 \ude00""#),
            r#""\ufffd \ud83d\ude00 \\ud83d \u0041 \ufffd""#
        );
        assert_eq!(repaired_json(b"\"\xff\""), "\"\u{fffd}\"");
        assert_eq!(repaired_json(b"\\"), "\\");
        assert_eq!(repaired_json(b"\\ud8"), "\\ud8");
    }
}
