//! JSON with comments and trailing commas, as editors use for settings: parsing, and changing one value.

use std::ops::Range;

use serde_json::Value as Json;

/// Parses the text. Comments and trailing commas are allowed.
pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
    serde_json::from_str(&plain(text))
}

/// Replaces the value at `path`; `None` if there is no such value.
pub fn replace(text: &str, path: &[String], value: &Json) -> Option<String> {
    let plain = plain(text);
    let mut scanner = Scanner { text: plain.as_bytes(), at: 0 };
    let span = scanner.find(path)?;
    let line = text[..span.start].rsplit('\n').next().unwrap_or("");
    let indent = &line[..line.len() - line.trim_start().len()];
    let written = pretty(value, &unit(indent, path.len())).replace('\n', &format!("\n{indent}"));
    Some(format!("{}{written}{}", &text[..span.start], &text[span.end..]))
}

/// The file's indentation unit, derived from the indentation of a value at some depth.
fn unit(indent: &str, depth: usize) -> String {
    match indent.len().checked_div(depth) {
        _ if indent.starts_with('\t') => "\t".to_owned(),
        Some(width) if width > 0 => " ".repeat(width.min(8)),
        _ => "  ".to_owned(),
    }
}

fn pretty(value: &Json, unit: &str) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    match serde::Serialize::serialize(value, &mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => format!("{value:#}"),
    }
}

/// The source text of the value at `path`.
pub fn raw<'a>(text: &'a str, path: &[String]) -> Option<&'a str> {
    let plain = plain(text);
    let span = Scanner { text: plain.as_bytes(), at: 0 }.find(path)?;
    text.get(span)
}

/// Replaces the value at `path` with source text; `None` if the result would be invalid.
pub fn replace_raw(text: &str, path: &[String], raw: &str) -> Option<String> {
    let plain = plain(text);
    let span = Scanner { text: plain.as_bytes(), at: 0 }.find(path)?;
    let changed = format!("{}{raw}{}", &text[..span.start], &text[span.end..]);
    parse(&changed).is_ok().then_some(changed)
}

/// Sets the value at `path`: replaces an existing one, and adds missing objects. `None` if something other than an
/// object is in the way.
pub fn set(text: &str, path: &[String], value: &Json) -> Option<String> {
    if text.trim().is_empty() {
        return Some(format!("{:#}\n", nested(path, value)));
    }
    if let Some(changed) = replace(text, path, value) {
        return Some(changed);
    }
    let plain = plain(text);
    let (span, rest) = (0..path.len()).rev().find_map(|depth| {
        let span = Scanner { text: plain.as_bytes(), at: 0 }.find(&path[..depth])?;
        Some((span, &path[depth..]))
    })?;
    let inside = plain[span.clone()].strip_prefix('{')?.strip_suffix('}')?;
    let line = text[..span.start].rsplit('\n').next().unwrap_or("");
    let outer = &line[..line.len() - line.trim_start().len()];
    let indent = format!("{outer}  ");
    let (key, below) = rest.split_first()?;
    let written = format!("{:#}", nested(below, value)).replace('\n', &format!("\n{indent}"));
    let end = if inside.trim().is_empty() { format!("\n{outer}") } else { ",".to_owned() };
    let key = Json::String(key.clone());
    Some(format!("{}\n{indent}{key}: {written}{end}{}", &text[..=span.start], &text[span.start + 1..]))
}

/// Wraps a value in the objects of a path.
fn nested(path: &[String], value: &Json) -> Json {
    path.iter().rev().fold(value.clone(), |inner, key| serde_json::json!({ key: inner }))
}

/// Replaces comments and trailing commas with spaces; every other byte keeps its position.
fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    let mut comma: Option<usize> = None;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes[..3].fill(b' ');
    }
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                comma = None;
                at = string_end(&bytes, at);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
                bytes[at..end].fill(b' ');
                at = end;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                let end = end.map_or(bytes.len(), |length| at + 2 + length + 2);
                for byte in bytes[at..end].iter_mut().filter(|byte| **byte != b'\n') {
                    *byte = b' ';
                }
                at = end;
                continue;
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The position after the string that begins at `start`.
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

/// Finds values in valid JSON.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn find(&mut self, path: &[String]) -> Option<Range<usize>> {
        self.skip_space();
        let Some((first, rest)) = path.split_first() else {
            let start = self.at;
            self.skip_value();
            return Some(start..self.at);
        };
        if self.text.get(self.at) != Some(&b'{') {
            return None;
        }
        self.at += 1;
        loop {
            self.skip_space();
            match self.text.get(self.at)? {
                b',' => self.at += 1,
                b'"' => {
                    let end = string_end(self.text, self.at);
                    let key: String = serde_json::from_slice(&self.text[self.at..end]).ok()?;
                    self.at = end;
                    self.skip_space();
                    self.at += 1;
                    if key == *first {
                        return self.find(rest);
                    }
                    self.skip_space();
                    self.skip_value();
                }
                _ => return None,
            }
        }
    }

    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => {
                    self.at = string_end(self.text, self.at);
                    if depth == 0 {
                        return;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    if depth <= 1 {
                        self.at += depth;
                        return;
                    }
                    depth -= 1;
                }
                b',' if depth == 0 => return,
                byte if depth == 0 && byte.is_ascii_whitespace() => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SETTINGS: &str = r#"{
  // Who we are, "quoted" and all.
  "theme": "da\"rk", /* é */
  "mcpServers": {
    "a": {"command": "x", "args": ["1", "2",],},
  },
  "after": [1, 2],
}
"#;

    #[test]
    fn comments_and_trailing_commas_are_read() {
        let value = parse(SETTINGS).unwrap();
        assert_eq!(value["mcpServers"]["a"]["args"], json!(["1", "2"]));
        assert_eq!(value["theme"], "da\"rk");
        assert!(parse("{\"a\": 1 \"b\": 2}").is_err());
    }

    #[test]
    fn one_value_changes_and_the_comments_stay() {
        let changed =
            replace(SETTINGS, &["mcpServers".to_owned()], &json!({"onetool": {"command": "onetool"}})).unwrap();
        assert_eq!(
            changed,
            SETTINGS.replace(
                "{\n    \"a\": {\"command\": \"x\", \"args\": [\"1\", \"2\",],},\n  }",
                "{\n    \"onetool\": {\n      \"command\": \"onetool\"\n    }\n  }"
            )
        );
        assert_eq!(parse(&changed).unwrap()["after"], json!([1, 2]));
        assert_eq!(replace(SETTINGS, &["none".to_owned()], &json!(1)), None);
        let last = replace(SETTINGS, &["after".to_owned()], &json!([])).unwrap();
        assert_eq!(parse(&last).unwrap()["after"], json!([]));
    }

    #[test]
    fn a_file_is_indented_as_it_was() {
        let path = ["mcpServers".to_owned()];
        for unit in ["\t", "  ", "    "] {
            let text = |value: &str| format!("{{\n{unit}\"mcpServers\": {value}\n}}\n");
            let expected = text(&format!("{{\n{unit}{unit}\"a\": 1\n{unit}}}"));
            assert_eq!(replace(&text("{}"), &path, &json!({"a": 1})), Some(expected));
        }
    }

    #[test]
    fn what_is_missing_is_added() {
        let path = ["mcpServers".to_owned(), "onetool".to_owned()];
        for (before, after) in [
            ("", "{\n  \"mcpServers\": {\n    \"onetool\": 1\n  }\n}\n"),
            ("{}", "{\n  \"mcpServers\": {\n    \"onetool\": 1\n  }\n}"),
            (
                "{ // mine\n  \"a\": 2,\n}\n",
                "{\n  \"mcpServers\": {\n    \"onetool\": 1\n  }, // mine\n  \"a\": 2,\n}\n",
            ),
            ("{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {\n    \"onetool\": 1\n  }\n}\n"),
        ] {
            let changed = set(before, &path, &json!(1)).unwrap();
            assert_eq!(changed, after, "{before}");
            assert_eq!(parse(&changed).unwrap()["mcpServers"]["onetool"], 1);
        }
        assert_eq!(set("[1]", &path, &json!(1)), None);
        assert_eq!(set("{\"mcpServers\": 5}", &path, &json!(1)), None);
    }
}
