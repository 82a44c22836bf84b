//! One YAML file: its keys as JSON values, and the line number of each.
//!
//! Files are written by people, by programs and by attackers: size, number of values, depth and aliases are bounded.
//! Errors are phrased for the user; parser messages about Rust types are not passed on.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Spanned};

/// Files larger than this are not read.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of values in one file, after expanding aliases.
const MAX_VALUES: usize = 50_000;
/// Maximum nesting of mappings and lists.
const MAX_DEPTH: usize = 32;

/// A parsed file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) root: Map<String, Json>,
    pub(crate) lines: Lines,
    /// A key that is given more than once: the last one is used.
    pub(crate) repeated: Option<Mistake>,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone)]
pub(crate) struct Mistake {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

/// The line of every key and list item, from 1. An item's step is `[0]`, `[1]`, ….
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines(HashMap<Vec<String>, usize>);

impl Lines {
    /// Returns how many steps of the path exist in the file, and the line of the last of them.
    pub(crate) fn find(&self, path: &[String]) -> Option<(usize, usize)> {
        (1..=path.len()).rev().find_map(|depth| self.0.get(&path[..depth]).map(|line| (depth, *line)))
    }

    /// Prefixes all paths with a section name, for a file that holds one section only.
    pub(crate) fn below(self, section: &str) -> Self {
        let with = |path: Vec<String>| std::iter::once(section.to_owned()).chain(path).collect();
        Self(self.0.into_iter().map(|(path, line)| (with(path), line)).collect())
    }
}

/// `line 5: `, or nothing.
pub(crate) fn at(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

/// Reads a regular file of limited size.
pub(crate) fn read(path: &Path) -> Result<String, Mistake> {
    let whole = |message: String| Mistake { line: None, message };
    let io = |error: std::io::Error| {
        whole(match error.kind() {
            std::io::ErrorKind::NotFound => "this file does not exist".to_owned(),
            std::io::ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
            _ => format!("cannot be read: {error}"),
        })
    };
    // Checked before opening: opening a pipe waits for its other end.
    let meta = std::fs::metadata(path).map_err(io)?;
    if meta.is_dir() {
        return Err(whole("expected a file, found a folder".to_owned()));
    }
    if !meta.is_file() {
        return Err(whole("expected a file, found something else (a pipe or a device)".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(whole(format!("larger than {} MB; not read", MAX_FILE_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = good.matches('\n').count() + 1;
        Mistake { line: Some(line), message: "not valid UTF-8 text; save the file as UTF-8".to_owned() }
    })
}

/// Parses a file's text. An empty file is an empty mapping.
pub(crate) fn parse(text: &str) -> Result<Document, Mistake> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Document::default());
    }
    let (node, repeated) = match node(text, DuplicateKeyPolicy::Error) {
        Err(error) if is_repeated(&error) => {
            let repeated = mistake(&error);
            (node(text, DuplicateKeyPolicy::LastWins), Some(repeated))
        }
        other => (other, None),
    };
    let node = node.map_err(|error| mistake(&error))?;
    let mut lines = HashMap::new();
    match node.into_json(&mut Vec::new(), &mut lines) {
        Json::Object(root) => Ok(Document { root, lines: Lines(lines), repeated }),
        Json::Null => Ok(Document::default()),
        other => Err(Mistake {
            line: Some(1),
            message: format!("expected a mapping of keys at the top, found {}", crate::shape::kind(&other)),
        }),
    }
}

fn node(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node, Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_VALUES },
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_events: 4 * MAX_VALUES, max_depth: MAX_DEPTH },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Unwraps an alias error, which adds its place to another error.
fn innermost(error: &Error) -> &Error {
    match error {
        Error::AliasError { error, .. } => innermost(error),
        other => other,
    }
}

fn is_repeated(error: &Error) -> bool {
    matches!(innermost(error), Error::DuplicateMappingKey { .. })
}

fn mistake(error: &Error) -> Mistake {
    let line = error.location().and_then(|place| usize::try_from(place.line()).ok()).filter(|line| *line > 0);
    let message = match innermost(error) {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_ref().map(|key| format!(" '{}'", crate::shape::short(key))).unwrap_or_default();
            format!("the key{key} is given more than once; the last one counts")
        }
        Error::MultipleDocuments { .. } => "a second document begins here (---); expected one".to_owned(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "this alias contains itself".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "too large for a configuration: more than {MAX_VALUES} values (aliases count each time), or more than {MAX_DEPTH} levels"
        ),
        Error::UnknownAnchor { .. } => {
            "invalid YAML: unknown alias (text that begins with * or & needs quotes)".to_owned()
        }
        Error::NullIntoString { .. } => "a key without a name (null and ~ need quotes)".to_owned(),
        Error::Unexpected { expected: "string scalar", .. } => {
            "a list or a mapping cannot be a key (text with { or [ needs quotes)".to_owned()
        }
        Error::Message { msg, .. } => format!("invalid YAML: {msg}"),
        Error::ExternalMessage { msg, .. } => format!("invalid YAML: {}", in_plain_words(msg)),
        other => {
            let text = other.to_string();
            let text = text.split(" at line ").next().unwrap_or(&text);
            format!("invalid YAML: {}", text.split("; use ").next().unwrap_or(text))
        }
    };
    Mistake { line, message }
}

/// Adds advice for the most common mistakes.
fn in_plain_words(message: &str) -> String {
    let hint = if message.contains("tabs disallowed") {
        "; indent with spaces"
    } else if message.contains("mapping values are not allowed") {
        "; is the indentation right, and is text with ': ' in quotes?"
    } else if message.contains("unexpected character") {
        "; text that begins with a special character needs quotes"
    } else if message.contains("recursion limit") {
        return format!("nested more than {MAX_DEPTH} levels deep");
    } else {
        ""
    };
    format!("{message}{hint}")
}

/// A value of the file, with its line.
struct Node {
    line: usize,
    content: Content,
}

enum Content {
    Plain(Json),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

struct Key {
    text: String,
    line: usize,
}

impl Node {
    fn into_json(self, path: &mut Vec<String>, lines: &mut HashMap<Vec<String>, usize>) -> Json {
        match self.content {
            Content::Plain(value) => value,
            Content::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    path.push(format!("[{index}]"));
                    lines.insert(path.clone(), item.line);
                    list.push(item.into_json(path, lines));
                    path.pop();
                }
                Json::Array(list)
            }
            Content::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    path.push(key.text.clone());
                    lines.insert(path.clone(), key.line);
                    let value = value.into_json(path, lines);
                    path.pop();
                    map.insert(key.text, value);
                }
                Json::Object(map)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { line: usize::try_from(spanned.referenced.line()).unwrap_or(0), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read as text, so that the keys `on` and `5` stay as written.
        let spanned = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self { line: usize::try_from(spanned.referenced.line()).unwrap_or(0), text: spanned.value })
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Plain(Json::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Plain(Json::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Content, E> {
        Ok(Content::Plain(Json::Bool(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Plain(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(Content::Plain(number.into()))
    }

    #[expect(clippy::cast_precision_loss, reason = "no key takes a number of this size")]
    fn visit_i128<E>(self, number: i128) -> Result<Content, E> {
        Ok(Content::Plain(float(number as f64)))
    }

    #[expect(clippy::cast_precision_loss, reason = "no key takes a number of this size")]
    fn visit_u128<E>(self, number: u128) -> Result<Content, E> {
        Ok(Content::Plain(float(number as f64)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Content, E> {
        Ok(Content::Plain(float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Plain(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Plain(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Content::Map(map))
    }
}

fn float(number: f64) -> Json {
    Number::from_f64(number).map_or_else(|| Json::String(number.to_string()), Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let mistake = parse(text).unwrap_err();
        format!("{}{}", at(mistake.line), mistake.message)
    }

    fn line(text: &str, path: &[&str]) -> Option<usize> {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        parse(text).unwrap().lines.find(&path).map(|(_, line)| line)
    }

    #[test]
    fn every_key_and_item_has_its_line() {
        let text = "a:\n  b: 1\nservers:\n  # c\n  x: {url: u}\n  y:\n    url: v\n    args:\n    - 1\n    - 2\n";
        assert_eq!(line(text, &["servers", "y", "url"]), Some(7));
        assert_eq!(line(text, &["servers", "y", "args", "[1]"]), Some(10));
        assert_eq!(line(text, &["servers", "x", "url"]), Some(5));
        assert_eq!(line(text, &["servers", "z", "url"]), Some(3));
        assert_eq!(line(text, &["b"]), None);
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_line() {
        for (text, expected) in [
            (
                "a:\n\tb: 1\n",
                "line 2: invalid YAML: tabs disallowed within this context (block indentation); indent with spaces",
            ),
            ("a: [\n", "line 1: invalid YAML: unclosed bracket '['"),
            ("a: *x\n", "line 1: invalid YAML: unknown alias"),
            ("a: &x [*x]\n", "line 1: this alias contains itself"),
            ("a: 1\n---\nb: 2\n", "line 3: a second document begins here"),
            ("? {a: b}\n: x\n", "line 1: a list or a mapping cannot be a key"),
            ("- 1\n", "line 1: expected a mapping of keys at the top, found a list"),
            ("x\n", "line 1: expected a mapping of keys at the top, found text"),
            ("a: b: c\n", "line 1: invalid YAML: mapping values are not allowed in this context; is the indentation"),
        ] {
            assert!(refused(text).starts_with(expected), "{text:?}: {}", refused(text));
        }
    }

    #[test]
    fn bombs_are_refused_early() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..9 {
            let inner = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
        }
        assert!(refused(&bomb).contains("too large for a configuration"), "{}", refused(&bomb));
        let deep = format!("a: {}", "[".repeat(5000));
        assert!(refused(&deep).contains("levels"), "{}", refused(&deep));
        let long = "- x\n".repeat(MAX_VALUES + 1);
        assert!(refused(&format!("a:\n{long}")).contains("too large for a configuration"));
    }

    #[test]
    fn odd_values_are_values() {
        let document = parse("1: .inf\non: 99999999999999999999999999\nz: !x w\n").unwrap();
        assert_eq!(Json::Object(document.root), serde_json::json!({"1": ".inf", "on": 1e26, "z": "w"}));
    }

    #[test]
    fn of_a_repeated_key_the_last_counts_and_it_is_told() {
        let document = parse("a: 1\nb: 2\na: 3\n").unwrap();
        assert_eq!(Json::Object(document.root), serde_json::json!({"a": 3, "b": 2}));
        let repeated = document.repeated.unwrap();
        assert_eq!(repeated.line, Some(3));
        assert!(repeated.message.starts_with("the key 'a' is given more than once"), "{}", repeated.message);
    }

    #[test]
    fn files_that_are_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| read(path).unwrap_err().message;
        assert_eq!(message(folder.path()), "expected a file, found a folder");
        assert_eq!(message(&folder.path().join("none")), "this file does not exist");
        let large = folder.path().join("large");
        std::fs::write(&large, "#".repeat(10 << 20)).unwrap();
        assert_eq!(message(&large), "larger than 4 MB; not read");
        let binary = folder.path().join("binary");
        std::fs::write(&binary, b"a: 1\nb: \xff\n").unwrap();
        assert_eq!(read(&binary).unwrap_err().line, Some(2));
    }
}
