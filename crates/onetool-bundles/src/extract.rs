//! Extracts the wanted part of a reply.

use regex::Regex;
use serde_json::Value as Json;
use serde_json_path::JsonPath;

/// A parsed `extractExpr`.
#[derive(Debug, Clone)]
pub(crate) enum Extract {
    Whole,
    Path { path: JsonPath, definite: bool },
    Pattern(Regex),
}

impl Extract {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Whole);
        }
        if text.starts_with('$') {
            let path = JsonPath::parse(text).map_err(|error| format!("extractExpr: {error}"))?;
            return Ok(Self::Path { path, definite: is_definite(text) });
        }
        let pattern = text.strip_prefix("regex:").unwrap_or(text);
        Regex::new(pattern).map(Self::Pattern).map_err(|error| format!("extractExpr: {error}"))
    }

    /// Extracts from a JSON value; a pattern applies to text only and returns the value unchanged.
    pub(crate) fn from_value(&self, json: Json) -> Json {
        match self {
            Self::Path { path, definite } => Self::from_json(path, *definite, &json),
            Self::Whole | Self::Pattern(_) => json,
        }
    }

    /// Returns the matches of a path: one value if the path can match only one, else a list.
    pub(crate) fn from_json(path: &JsonPath, definite: bool, json: &Json) -> Json {
        let nodes = path.query(json);
        if definite {
            nodes.first().cloned().unwrap_or(Json::Null)
        } else {
            Json::Array(nodes.iter().map(|node| (*node).clone()).collect())
        }
    }

    /// Returns the match of a pattern: its first group, or else the whole match.
    pub(crate) fn from_text(pattern: &Regex, text: &str) -> Json {
        pattern
            .captures(text)
            .and_then(|captures| captures.get(1).or_else(|| captures.get(0)))
            .map_or(Json::Null, |found| Json::from(found.as_str()))
    }
}

/// Whether a valid path consists of names and indices only.
pub(crate) fn is_definite(path: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    let mut previous = ' ';
    for c in path.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '\'' | '"' => quote = Some(c),
                '*' | '?' | ',' | ':' => return false,
                '.' if previous == '.' => return false,
                _ => {}
            },
        }
        previous = c;
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(expression: &str, json: &Json) -> Json {
        match Extract::parse(expression).unwrap() {
            Extract::Path { path, definite } => Extract::from_json(&path, definite, json),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_definite_path_gives_one_value() {
        let json = json!({"a": [{"b": 1}, {"b": 2}], "x, y": {"..": 3}});
        assert_eq!(path("$.a[1].b", &json), json!(2));
        assert_eq!(path("$['x, y']['..']", &json), json!(3));
        assert_eq!(path("$.none", &json), Json::Null);
        assert_eq!(path("$.a[*].b", &json), json!([1, 2]));
        assert_eq!(path("$..b", &json), json!([1, 2]));
        assert_eq!(path("$.a[0:1].b", &json), json!([1]));
        assert!(Extract::parse("$[").is_err());
    }

    #[test]
    fn anything_else_is_a_pattern() {
        let Extract::Pattern(pattern) = Extract::parse(r"regex:\$(\d+)").unwrap() else { panic!() };
        assert_eq!(Extract::from_text(&pattern, "costs $42"), json!("42"));
        let Extract::Pattern(pattern) = Extract::parse("[a-z]+").unwrap() else { panic!() };
        assert_eq!(Extract::from_text(&pattern, "12 ab"), json!("ab"));
        assert_eq!(Extract::from_text(&pattern, "12"), Json::Null);
        assert!(Extract::parse("(").is_err());
    }
}
