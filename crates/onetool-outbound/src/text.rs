//! Decodes the text of a response: by its byte order mark, its header or its `<meta>` tag, otherwise as UTF-8.

/// How many bytes of a page are searched for its declared charset.
const DECLARATION_BYTES: usize = 1024;

/// Decodes bytes as text. Invalid sequences are replaced.
pub fn decode_text(body: &[u8], content_type: &str) -> String {
    match body {
        [0xef, 0xbb, 0xbf, rest @ ..] => return String::from_utf8_lossy(rest).into_owned(),
        [0xff, 0xfe, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    let declared = charset(content_type).or_else(|| {
        let start = String::from_utf8_lossy(&body[..body.len().min(DECLARATION_BYTES)]).to_ascii_lowercase();
        charset(start.split("<meta").find(|tag| tag.contains("charset="))?)
    });
    match declared.as_deref() {
        Some("iso-8859-1" | "latin1" | "windows-1252" | "cp1252" | "us-ascii" | "iso-8859-15") => {
            body.iter().map(|byte| single_byte(*byte)).collect()
        }
        Some("utf-16" | "utf-16le") => utf16(body, u16::from_le_bytes),
        Some("utf-16be") => utf16(body, u16::from_be_bytes),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Code points 128 to 159 in Windows-1252, which is what pages mean by these numbers.
pub const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn charset(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once("charset=")?;
    let name = after.trim_start_matches(['"', '\'', ' ']);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(name.len());
    (end > 0).then(|| name[..end].to_owned())
}

fn single_byte(byte: u8) -> char {
    match byte {
        128..=159 => WINDOWS_1252[usize::from(byte - 128)],
        byte => char::from(byte),
    }
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_by_what_declares_it() {
        assert_eq!(decode_text("Zoë".as_bytes(), "text/html"), "Zoë");
        assert_eq!(decode_text(b"Zo\xeb \x80", "text/html; charset=ISO-8859-1"), "Zoë €");
        assert_eq!(decode_text(b"<META charset='windows-1252'>Zo\xeb", ""), "<META charset='windows-1252'>Zoë");
        assert_eq!(decode_text(b"\xff\xfeZ\0o\0\xeb\0", ""), "Zoë");
        assert_eq!(decode_text("\u{feff}x".as_bytes(), "text/html; charset=latin1"), "x");
        assert_eq!(decode_text(b"Zo\xeb", "text/html; charset=unknown"), "Zo\u{fffd}");
    }
}
