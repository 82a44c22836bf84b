//! `${variable}`, `${variable:-default}` and `$${` in a text.

use std::collections::HashMap;

use indexmap::IndexMap;
use onetool_sdk::{ToolError, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The meaning of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    RequiredArgument,
    OptionalArgument,
    Secret,
    /// The tool's own version.
    Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) default: Option<String>,
    pub(crate) meaning: Meaning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Variable(Variable),
}

/// A text with variables.
pub(crate) type Template = Vec<Piece>;

/// Determines the meaning of a name; an error means that the name is unknown.
pub(crate) type Scope<'a> = dyn Fn(&str) -> Result<Meaning, String> + 'a;

pub(crate) fn parse(text: &str, scope: &Scope<'_>) -> Result<Template, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$${") {
            literal.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let end = after.find('}').ok_or_else(|| format!("'{}' has no closing brace", excerpt(rest)))?;
            let (name, default) = match after[..end].split_once(":-") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (&after[..end], None),
            };
            if !is_name(name) {
                return Err(format!("'{}' is not a variable's name", excerpt(name)));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            let meaning = scope(name)?;
            pieces.push(Piece::Variable(Variable { name: name.to_owned(), default, meaning }));
            rest = &after[end + 1..];
        } else {
            literal.push('$');
            rest = &rest[1..];
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(pieces)
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

pub(crate) fn variables(template: &[Piece]) -> impl Iterator<Item = &Variable> {
    template.iter().filter_map(|piece| match piece {
        Piece::Variable(variable) => Some(variable),
        Piece::Text(_) => None,
    })
}

pub(crate) fn holds_secret(template: &[Piece]) -> bool {
    variables(template).any(|variable| variable.meaning == Meaning::Secret)
}

/// The values of the variables of one call.
pub(crate) struct Bindings<'a> {
    pub(crate) arguments: &'a IndexMap<String, Value>,
    pub(crate) secrets: &'a HashMap<String, String>,
    pub(crate) version: &'a str,
}

/// A variable's value: a typed argument, or plain text.
pub(crate) enum Bound<'a> {
    Argument(&'a Value),
    Text(&'a str),
    Default(&'a str),
    /// An explicit null, which counts as a value where null is allowed.
    Null,
    Missing,
}

impl<'a> Bindings<'a> {
    pub(crate) fn look_up(&self, variable: &'a Variable) -> Result<Bound<'a>, ToolError>
    where
        Self: 'a,
    {
        match variable.meaning {
            Meaning::Version => Ok(Bound::Text(self.version)),
            Meaning::Secret => match (self.secrets.get(&variable.name), &variable.default) {
                (Some(value), _) => Ok(Bound::Text(value)),
                (None, Some(default)) => Ok(Bound::Default(default)),
                (None, None) => Err(ToolError::unavailable(format!("the secret {} is not set", variable.name))
                    .with_hint(format!("add {} to secrets.yaml", variable.name))),
            },
            Meaning::RequiredArgument | Meaning::OptionalArgument => {
                match (self.arguments.get(&variable.name), &variable.default) {
                    (Some(value), _) if *value != Value::None => Ok(Bound::Argument(value)),
                    (_, Some(default)) => Ok(Bound::Default(default)),
                    (Some(_), None) => Ok(Bound::Null),
                    (_, None) if variable.meaning == Meaning::OptionalArgument => Ok(Bound::Missing),
                    _ => Err(ToolError::arguments(format!("the argument '{}' is missing", variable.name))
                        .at(format!("/{}", variable.name))),
                }
            }
        }
    }

    /// A secret by name.
    pub(crate) fn secret(&self, name: &str) -> Result<&'a str, ToolError> {
        self.secrets.get(name).map(String::as_str).ok_or_else(|| {
            ToolError::unavailable(format!("the secret {name} is not set"))
                .with_hint(format!("add {name} to secrets.yaml"))
        })
    }

    /// A variable as text; `None` when it is missing.
    pub(crate) fn text(&self, variable: &'a Variable) -> Result<Option<String>, ToolError> {
        Ok(match self.look_up(variable)? {
            Bound::Argument(value) => Some(plain_text(value).ok_or_else(|| {
                ToolError::arguments(format!(
                    "the argument '{}' must be text or a number here, not {}",
                    variable.name,
                    value.type_name()
                ))
            })?),
            Bound::Text(text) | Bound::Default(text) => Some(text.to_owned()),
            Bound::Null if variable.meaning == Meaning::RequiredArgument => {
                return Err(ToolError::arguments(format!("the argument '{}' must not be null here", variable.name))
                    .at(format!("/{}", variable.name)));
            }
            Bound::Null | Bound::Missing => None,
        })
    }

    /// Fills a template, escaping each variable with `escape`; `None` if one is missing.
    pub(crate) fn fill(&self, template: &'a [Piece], escape: fn(&str) -> String) -> Result<Option<String>, ToolError> {
        let mut filled = String::new();
        for piece in template {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable(variable) => match self.text(variable)? {
                    Some(text) => filled.push_str(&escape(&text)),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(filled))
    }
}

/// Formats a scalar for an address or a header. Numbers keep all digits and have no exponent.
pub(crate) fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Float(value) if value.is_finite() => Some(value.to_string()),
        Value::Int(_) | Value::BigInt(_) | Value::Str(_) | Value::Date(_) | Value::Time(_) | Value::Path(_) => {
            Some(value.str())
        }
        Value::DateTime(at) => Some(at.iso()),
        _ => None,
    }
}

/// What percent-encoding leaves as it is, apart from letters and digits.
pub(crate) const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes everything except letters, digits, `-`, `.`, `_` and `~`.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_defaults_and_literals() {
        let any = |_: &str| Ok(Meaning::OptionalArgument);
        let variable = |name: &str, default: Option<&str>| {
            Piece::Variable(Variable {
                name: name.to_owned(),
                default: default.map(str::to_owned),
                meaning: Meaning::OptionalArgument,
            })
        };
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(parse("a${b}c", &any).unwrap(), [text("a"), variable("b", None), text("c")]);
        assert_eq!(parse("${b:-1-2}", &any).unwrap(), [variable("b", Some("1-2"))]);
        assert_eq!(parse("$${b} $5 $", &any).unwrap(), [text("${b} $5 $")]);
        for bad in ["${", "${}", "${a b}", "${1}"] {
            assert!(parse(bad, &any).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(plain_text(&Value::Int(1_234_567)).unwrap(), "1234567");
        assert_eq!(plain_text(&Value::Float(1_234_567.0)).unwrap(), "1234567");
        assert_eq!(plain_text(&Value::Float(0.000_001)).unwrap(), "0.000001");
        assert_eq!(plain_text(&Value::Float(f64::NAN)), None);
    }

    #[test]
    fn encoding_leaves_nothing_special() {
        assert_eq!(percent_encode("a/b?c=d&é%\r\n@"), "a%2Fb%3Fc%3Dd%26%C3%A9%25%0D%0A%40");
    }
}
