//! Text that may refer to secrets and environment variables: `Bearer ${TOKEN}`, `${HOST:-localhost}`.

use serde_json::Value as Json;

use crate::shape::Shape;
use crate::value::ConfigValue;

/// Text with `${NAME}` and `${NAME:-default}`. It may contain a literal secret, so `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Expandable(String);

impl std::fmt::Debug for Expandable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl Expandable {
    /// The unexpanded text.
    pub fn as_written(&self) -> &str {
        &self.0
    }

    /// Fills in all values; the error is the first name without a value.
    pub fn expand(&self, get: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        expand_with(&self.0, get)
    }
}

impl From<&str> for Expandable {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl ConfigValue for Expandable {
    const SHAPE: Shape = Shape::Text;

    fn read(value: Json) -> Option<Self> {
        String::read(value).map(Self)
    }

    fn write(&self) -> Json {
        self.0.as_str().into()
    }
}

/// Expands `${NAME}` and `${NAME:-default}`; the error is the name that has no value.
pub fn expand_with(text: &str, get: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        // An unclosed `${` is literal text.
        let Some(length) = rest.find('}') else { break };
        let inner = &rest[2..length];
        let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        match get(name).filter(|value| !value.is_empty()).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => return Err(name.to_owned()),
        }
        rest = &rest[length + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_once_and_the_missing_one_is_named() {
        let get = |name: &str| (name == "A").then(|| "${B}".to_owned());
        assert_eq!(expand_with("x${A}y${C:-d}", get), Ok("x${B}yd".to_owned()));
        assert_eq!(expand_with("${Z}", get), Err("Z".to_owned()));
        assert_eq!(expand_with("a${open", get), Ok("a${open".to_owned()));
    }
}
