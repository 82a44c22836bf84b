//! JSON that other programs write and that is not quite JSON.

use std::borrow::Cow;

/// The text as JSON accepts it: what is not UTF-8, and escapes of half a surrogate pair, become U+FFFD.
pub fn repaired_json(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

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
