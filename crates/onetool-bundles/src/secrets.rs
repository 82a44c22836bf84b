//! Secrets by name, and making sure that their values go nowhere but into requests.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::template::percent_encode;

/// Where secrets come from.
pub trait Secrets: Send + Sync {
    /// The secret `name` as the bundle with this slug may see it.
    fn get(&self, bundle: &str, name: &str) -> Option<String>;
}

/// What stands where a secret was.
pub(crate) const MASK: &str = "REDACTED";

/// Shorter values are masked only where they are a whole text: inside others they would hit by chance.
const SHORTEST_PART: usize = 4;

/// Masks the values of the secrets of one call, in every form that they take on their way.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// Longest first.
    forms: Vec<String>,
}

impl Redactor {
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = Vec::new();
        for value in values.into_iter().filter(|value| !value.is_empty()) {
            let json = Json::from(value).to_string();
            forms.extend([value.to_owned(), percent_encode(value), json[1..json.len() - 1].to_owned()]);
        }
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self { forms }
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for form in &self.forms {
            if form.len() < SHORTEST_PART {
                if text == form.as_str() {
                    text = Cow::Borrowed(MASK);
                }
            } else if text.contains(form.as_str()) {
                text = Cow::Owned(text.replace(form.as_str(), MASK));
            }
        }
        text
    }

    pub(crate) fn json(&self, value: Json) -> Json {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => match self.text(&text) {
                Cow::Borrowed(same) if same.len() == text.len() => Json::String(text),
                changed => Json::String(changed.into_owned()),
            },
            Json::Array(items) => Json::Array(items.into_iter().map(|item| self.json(item)).collect()),
            Json::Object(members) => Json::Object(
                members.into_iter().map(|(key, item)| (self.text(&key).into_owned(), self.json(item))).collect(),
            ),
            // A secret of digits may come back as a number.
            Json::Number(number) if self.forms.iter().any(|form| *form == number.to_string()) => Json::from(MASK),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_is_masked() {
        let redactor = Redactor::new(["s3cr/t\"", "12345", "ab"]);
        let seen = json!({"k s3cr/t\"": ["x s3cr%2Ft%22 y", r#"in s3cr/t\" json"#], "n": 12345, "b": "abc", "c": "ab"});
        let masked = json!({"k REDACTED": ["x REDACTED y", "in REDACTED json"], "n": MASK, "b": "abc", "c": MASK});
        assert_eq!(redactor.json(seen), masked);
        assert_eq!(Redactor::default().text("as it is"), "as it is");
    }
}
