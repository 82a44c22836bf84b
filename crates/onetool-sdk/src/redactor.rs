//! The shared redactor: replaces the values of secrets wherever text leaves the program.
//!
//! A safety net, not a security boundary: code that has a secret can transform it. Secrets are kept out of reach in the
//! first place; this catches accidental leaks in their usual forms: verbatim, escaped for JSON or Python,
//! percent-encoded, in Base64, and line by line.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use crate::{Part, ToolError, Value};

/// The replacement for a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Shorter values are replaced only if they are the whole text: inside other text they would match by chance.
const SHORTEST_PART: usize = 4;
/// Minimum length for single lines of a multi-line secret.
const SHORTEST_LINE: usize = 12;
/// Minimum length of a Base64 form. Eight characters are 48 bits: they match by chance in one of 10^8 texts of a megabyte,
/// and cover every secret of seven bytes or more at any offset.
const SHORTEST_BASE64: usize = 8;
/// Characters that percent-encoding leaves unchanged.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same, plus slashes, as in a path.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');
/// Unchanged by JavaScript's `encodeURIComponent`.
const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');
/// Unchanged by JavaScript's `encodeURI`.
const ADDRESS: &AsciiSet = &COMPONENT
    .remove(b';')
    .remove(b'/')
    .remove(b'?')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=')
    .remove(b'+')
    .remove(b'$')
    .remove(b',')
    .remove(b'#');
/// Unchanged in forms, by browsers and by Java.
const FORM: &AsciiSet = &UNRESERVED.remove(b'*').add(b'~');
/// Unchanged by older programs, which encode `~`.
const OLDER: &AsciiSet = &UNRESERVED.add(b'~');
/// Usual line lengths of wrapped Base64.
const BASE64_LINES: [usize; 2] = [64, 76];

/// Replaces secrets in text and values. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    forms: Option<Arc<Forms>>,
}

struct Forms {
    /// Prefers the longest match, so that no remainder of a longer secret is left.
    anywhere: AhoCorasick,
    whole: HashSet<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut anywhere, mut whole) = (HashSet::new(), HashSet::new());
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
            whole.insert(secret.to_owned());
            if secret.len() >= SHORTEST_PART {
                anywhere.extend(forms(secret));
            }
        }
        if whole.is_empty() {
            return Self::default();
        }
        // Fails only for more patterns than fit in memory; whole texts are replaced even then.
        let searcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&anywhere);
        let empty = || AhoCorasick::new([""; 0]);
        match searcher.or_else(|_| empty()) {
            Ok(anywhere) => Self { forms: Some(Arc::new(Forms { anywhere, whole })) },
            Err(_) => Self::default(),
        }
    }

    /// Whether there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        self.forms.is_none()
    }

    /// Redacts secrets in a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(forms) = &self.forms else { return Cow::Borrowed(text) };
        if forms.whole.contains(text) {
            return Cow::Borrowed(REDACTED);
        }
        let mut matches = forms.anywhere.find_iter(text).peekable();
        if matches.peek().is_none() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut last = 0;
        for found in matches {
            out.push_str(&text[last..found.start()]);
            out.push_str(REDACTED);
            last = found.end();
        }
        out.push_str(&text[last..]);
        Cow::Owned(out)
    }

    /// Like [`text`](Self::text), without a copy if nothing changes.
    pub fn owned(&self, text: String) -> String {
        match self.text(&text) {
            Cow::Borrowed(same) if std::ptr::eq(same, text.as_str()) => text,
            changed => changed.into_owned(),
        }
    }

    /// Redacts secrets in all strings of a JSON value, including member names.
    pub fn json(&self, value: Json) -> Json {
        if self.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => Json::String(self.owned(text)),
            Json::Array(items) => Json::Array(items.into_iter().map(|item| self.json(item)).collect()),
            Json::Object(members) => {
                Json::Object(members.into_iter().map(|(key, item)| (self.owned(key), self.json(item))).collect())
            }
            // A secret made of digits may come back as a number.
            Json::Number(number) if self.is_whole(&number.to_string()) => Json::from(REDACTED),
            other => other,
        }
    }

    /// Redacts secrets in all strings of a value.
    pub fn value(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        let all = |items: Vec<Value>| items.into_iter().map(|item| self.value(item)).collect();
        match value {
            Value::Str(text) => Value::Str(self.owned(text)),
            Value::Path(text) => Value::Path(self.owned(text)),
            Value::Opaque(text) => Value::Opaque(self.owned(text)),
            // Bytes that are text are shown as text.
            Value::Bytes(bytes) => Value::Bytes(match String::from_utf8(bytes) {
                Ok(text) => self.owned(text).into_bytes(),
                Err(other) => other.into_bytes(),
            }),
            Value::List(items) => Value::List(all(items)),
            Value::Tuple(items) => Value::Tuple(all(items)),
            Value::Set(items) => Value::Set(all(items)),
            Value::FrozenSet(items) => Value::FrozenSet(all(items)),
            Value::Dict(pairs) => {
                Value::Dict(pairs.into_iter().map(|(key, item)| (self.value(key), self.value(item))).collect())
            }
            Value::Record { type_name, fields } => Value::Record {
                type_name,
                fields: fields.into_iter().map(|(name, item)| (name, self.value(item))).collect(),
            },
            Value::Exception { type_name, message } => Value::Exception { type_name, message: self.owned(message) },
            Value::Part(part) => Value::Part(self.part(part)),
            other => other,
        }
    }

    /// Redacts secrets in an error.
    #[must_use]
    pub fn error(&self, mut error: ToolError) -> ToolError {
        error.message = self.owned(error.message);
        error.hint = error.hint.map(|hint| self.owned(hint));
        error.traceback = error.traceback.map(|traceback| self.owned(traceback));
        error
    }

    /// Redacts secrets in the text of a part.
    pub fn part(&self, part: Part) -> Part {
        match part {
            Part::Text(text) => Part::Text(self.owned(text)),
            Part::Other(json) => Part::Other(self.json(json)),
            image @ Part::Image { .. } => image,
        }
    }

    fn is_whole(&self, text: &str) -> bool {
        self.forms.as_ref().is_some_and(|forms| forms.whole.contains(text))
    }
}

/// Returns the forms in which a secret may appear.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    let mut texts = vec![secret];
    // A multi-line key is often shown line by line.
    texts.extend(secret.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE && *line != secret));
    for text in texts {
        let json = Json::from(text).to_string();
        let json = &json[1..json.len() - 1];
        let python = json.replace("\\\"", "\"").replace('\'', "\\'");
        // JSON within JSON, as in requests and logs.
        let twice = Json::from(json).to_string();
        forms.extend([text.to_owned(), json.to_owned(), python, ascii(json)]);
        forms.extend([
            twice[1..twice.len() - 1].to_owned(),
            ascii(&Json::from(ascii(json)).to_string()).trim_matches('"').to_owned(),
        ]);
        forms.extend(percent_forms(text));
        forms.push(html(text));
    }
    forms.extend(base64_forms(secret.as_bytes()));
    forms.retain(|form| form.len() >= SHORTEST_PART);
    forms
}

/// As in URLs and forms: encoded by several rules, spaces as `+` or `%20`, hex digits in either case.
fn percent_forms(text: &str) -> Vec<String> {
    let mut forms: Vec<String> = [UNRESERVED, PATH, COMPONENT, ADDRESS, FORM, OLDER]
        .into_iter()
        .map(|unchanged| utf8_percent_encode(text, unchanged).to_string())
        .collect();
    let in_forms: Vec<String> = forms.iter().map(|form| form.replace("%20", "+")).collect();
    forms.extend(in_forms);
    let twice = utf8_percent_encode(&forms[0], UNRESERVED).to_string();
    forms.push(twice);
    let small: Vec<String> = forms.iter().map(|form| small_hex(form)).collect();
    forms.extend(small);
    forms
}

/// Lowercases percent escapes: `%2F` becomes `%2f`.
fn small_hex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '%' {
            out.extend(chars.by_ref().take(2).map(|digit| digit.to_ascii_lowercase()));
        }
    }
    out
}

/// Escaped for HTML.
fn html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;").replace('\'', "&#x27;")
}

/// Returns JSON text with all non-ASCII characters escaped, as Python writes it.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Returns the Base64 forms of the secret at any offset of the encoded bytes, without the characters at either end that
/// depend on neighbouring bytes.
fn base64_forms(secret: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    let whole = STANDARD_NO_PAD.encode(secret);
    for length in BASE64_LINES.into_iter().filter(|length| whole.len() > *length) {
        let lines = whole.as_bytes().chunks(length).filter(|line| line.len() >= SHORTEST_BASE64);
        forms.extend(lines.map(|line| String::from_utf8_lossy(line).into_owned()));
    }
    for lead in 0..3_usize {
        let bytes = [vec![0; lead], secret.to_vec()].concat();
        let start = [0, 2, 3][lead];
        let whole_bits = bytes.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            if let Some(core) = text.get(start..whole_bits).filter(|core| core.len() >= SHORTEST_BASE64) {
                forms.push(core.to_owned());
            }
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn lines_of(text: &str, length: usize) -> String {
        text.as_bytes().chunks(length).map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect()
    }

    #[test]
    fn every_form_of_a_secret_is_replaced() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\"kqhk'iG9w0B\\AQEF\n-----END KEY-----";
        let redactor = Redactor::new(["s3cr/t\"", "12345", "ab", key, "pässwörd-lang"]);
        let json_text = Json::from(key).to_string();
        for leak in [
            format!("x {key} y"),
            format!("x {json_text} y"),
            "x MIIEvQIBADANBg\"kqhk'iG9w0B\\AQEF y".to_owned(),
            format!("x {} y", utf8_percent_encode(key, UNRESERVED)),
            format!("x {} y", STANDARD.encode(key)),
            format!("x {} y", STANDARD.encode(format!("user:{key}"))),
            format!("x {} y", STANDARD.encode(format!("me:{key}!"))),
            format!("x {} y", ascii(&Json::from("pässwörd-lang").to_string())),
            "x s3cr%2Ft%22 y".to_owned(),
            "x s3cr%2ft%22 y".to_owned(),
            "x s3cr/t%22 y".to_owned(),
            "x s3cr%252Ft%2522 y".to_owned(),
            "x s3cr/t&quot; y".to_owned(),
            format!("x {} y", Json::from(json_text.clone())),
            format!("x {} y", utf8_percent_encode(key, PATH).to_string().replace("%20", "+")),
            lines_of(&STANDARD.encode(key), 64),
            lines_of(&STANDARD.encode(key), 76),
            r#"x s3cr/t\" y"#.to_owned(),
        ] {
            let shown = redactor.text(&leak);
            assert!(shown.contains(REDACTED), "{leak}");
            assert!(!shown.contains("iG9w0B") && !shown.contains("s3cr"), "{shown}");
            assert!(!shown.contains("SUlFdlFJQkFE"), "{shown}");
        }
        let seen = json!({"k s3cr/t\"": ["a"], "n": 12345, "b": "abc", "c": "ab"});
        assert_eq!(redactor.json(seen), json!({"k [REDACTED]": ["a"], "n": REDACTED, "b": "abc", "c": REDACTED}));
        assert_eq!(Redactor::default().text("as it is"), "as it is");
        // As long as its replacement.
        assert_eq!(Redactor::new(["ten_chars!"]).owned("ten_chars!".to_owned()), REDACTED);
    }

    #[test]
    fn every_kind_of_percent_encoding_is_replaced_as_a_whole() {
        let redactor = Redactor::new(["pa!ss/wo*rd(x)~qq", "pa!ss/wo*rd(x)", "pa!ss"]);
        for leak in [
            "pa!ss%2Fwo*rd(x)~qq",
            "pa!ss/wo*rd(x)~qq",
            "pa%21ss%2Fwo*rd%28x%29%7Eqq",
            "pa%21ss%2Fwo%2Ard%28x%29~qq",
            "pa%21ss%2fwo%2ard%28x%29%7eqq",
        ] {
            assert_eq!(redactor.text(&format!("a {leak} b")), "a [REDACTED] b", "{leak}");
        }
    }

    #[test]
    fn a_short_password_is_replaced_in_basic_authentication() {
        let redactor = Redactor::new(["hunter2x"]);
        for user in ["user", "users", "me@example"] {
            let shown = redactor.text(&STANDARD.encode(format!("{user}:hunter2x"))).into_owned();
            assert!(shown.contains(REDACTED), "{shown}");
        }
        assert_eq!(redactor.text("aHVudGVy, the hunter"), "aHVudGVy, the hunter");
    }

    #[test]
    fn a_secret_that_begins_like_another_leaves_no_rest() {
        for secrets in [["abcdef", "abcdefghij"], ["abcdefghij", "abcdef"]] {
            let redactor = Redactor::new(secrets);
            assert_eq!(redactor.text("x abcdefghij y abcdef z"), "x [REDACTED] y [REDACTED] z");
        }
    }
}
