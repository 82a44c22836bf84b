//! A validation error and its message.

use std::fmt::{Display, Formatter, Result};

use serde_json::Value as Json;

use super::node::Keyword;

/// Maximum number of `enum` options that a message lists.
const MAX_OPTIONS: usize = 3;

#[derive(Debug)]
pub(crate) struct Error<'a> {
    /// The location of the value, as a JSON pointer.
    pub(crate) pointer: String,
    pub(crate) value: &'a Json,
    /// The keyword that failed.
    pub(crate) keyword: &'a Keyword,
    pub(crate) detail: Detail<'a>,
}

/// Details that the keyword alone does not give.
#[derive(Debug)]
pub(crate) enum Detail<'a> {
    None,
    /// The key that is required.
    Missing(&'a str),
    /// The keys that are not allowed, and those that the schema lists.
    Unexpected {
        names: Vec<&'a str>,
        known: Vec<&'a str>,
    },
    /// The items that are not allowed.
    Items(Vec<&'a Json>),
    /// The key with an invalid name, the reason, and the names that would be valid.
    PropertyName {
        name: &'a str,
        message: String,
        options: Vec<String>,
    },
    /// The errors of each branch of a union, if none matches.
    Branches(Vec<Vec<Error<'a>>>),
    /// More than one branch matches.
    Several,
}

impl Error<'_> {
    /// Returns the message without the value, which may be long or secret.
    pub(crate) fn masked(&self) -> String {
        Sentence { error: self, value: &"value", is_masked: true }.to_string()
    }

    /// Returns the location of the error: the value itself, or its missing or unexpected member.
    pub(crate) fn place(&self) -> String {
        let member = match (&self.detail, self.keyword) {
            (Detail::Missing(name), _) => Some(*name),
            (Detail::Unexpected { names, .. }, Keyword::Properties(_)) => names.first().copied(),
            _ => None,
        };
        match member {
            Some(member) => format!("{}/{}", self.pointer, crate::validation::escape(member)),
            None => self.pointer.clone(),
        }
    }
}

impl Display for Error<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Sentence { error: self, value: self.value, is_masked: false }.fmt(f)
    }
}

struct Sentence<'a> {
    error: &'a Error<'a>,
    /// The text shown for the value.
    value: &'a dyn Display,
    is_masked: bool,
}

impl Display for Sentence<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let value = self.value;
        match self.error.keyword {
            Keyword::False => write!(f, "False schema does not allow {value}"),
            Keyword::Type(types) => {
                let names: Vec<&str> = types.names().collect();
                let plural = if names.len() == 1 { "" } else { "s" };
                write!(f, r#"{value} is not of type{plural} "{}""#, names.join(r#"", ""#))
            }
            Keyword::Const(expected, _) => write!(f, "{expected} was expected"),
            Keyword::Enum(options, _) => self.options(f, options),
            Keyword::Minimum(limit) => write!(f, "{value} is less than the minimum of {limit}"),
            Keyword::Maximum(limit) => write!(f, "{value} is greater than the maximum of {limit}"),
            Keyword::ExclusiveMinimum(limit) => write!(f, "{value} is less than or equal to the minimum of {limit}"),
            Keyword::ExclusiveMaximum(limit) => {
                write!(f, "{value} is greater than or equal to the maximum of {limit}")
            }
            Keyword::MultipleOf(divisor) => write!(f, "{value} is not a multiple of {divisor}"),
            Keyword::MinLength(limit) => write!(f, "{value} is shorter than {limit} character{}", plural(*limit)),
            Keyword::MaxLength(limit) => write!(f, "{value} is longer than {limit} character{}", plural(*limit)),
            Keyword::MinItems(limit) => write!(f, "{value} has less than {limit} item{}", plural(*limit)),
            Keyword::MaxItems(limit) => write!(f, "{value} has more than {limit} item{}", plural(*limit)),
            Keyword::MinProperties(limit) => write!(f, "{value} has less than {limit} propert{}", plural_y(*limit)),
            Keyword::MaxProperties(limit) => write!(f, "{value} has more than {limit} propert{}", plural_y(*limit)),
            Keyword::Pattern(pattern) => write!(f, r#"{value} does not match "{}""#, pattern.source()),
            Keyword::Format(format) => write!(f, r#"{value} is not a "{}""#, format.name()),
            Keyword::ContentEncoding(encoding) => not_encoded(f, value, encoding.name()),
            Keyword::ContentJson(encoding) => match (encoding, self.error.value) {
                (Some(encoding), Json::String(text)) if encoding.decode(text).is_none() => {
                    not_encoded(f, value, encoding.name())
                }
                _ => write!(f, r#"{value} is not compliant with "application/json" media type"#),
            },
            Keyword::UniqueItems => write!(f, "{value} has non-unique elements"),
            Keyword::NoItemsAfter(limit) => self.no_items_after(f, *limit),
            Keyword::Contains(_) => write!(f, "None of {value} are valid under the given schema"),
            Keyword::AnyOf(_) => not_any(f, value, "anyOf"),
            Keyword::OneOf(_) if matches!(self.error.detail, Detail::Several) => {
                write!(f, "{value} is valid under more than one of the schemas listed in the 'oneOf' keyword")
            }
            Keyword::OneOf(_) => not_any(f, value, "oneOf"),
            Keyword::Not(_, schema) => write!(f, "{schema} is not allowed for {value}"),
            Keyword::MetaSchema(_) => write!(f, "{value} is not a valid JSON Schema"),
            Keyword::Required(_)
            | Keyword::DependentRequired(_)
            | Keyword::Properties(_)
            | Keyword::PropertyNames(_)
            | Keyword::UnevaluatedProperties(_)
            | Keyword::UnevaluatedItems(_)
            | Keyword::Prefix(_)
            | Keyword::Rest(..)
            | Keyword::DependentSchemas(_)
            | Keyword::Dependencies(_)
            | Keyword::AllOf(_)
            | Keyword::If(_)
            | Keyword::Ref(_)
            | Keyword::DynamicRef(_)
            | Keyword::RecursiveRef(_) => self.detail(f),
        }
    }
}

impl Sentence<'_> {
    fn detail(&self, f: &mut Formatter<'_>) -> Result {
        match &self.error.detail {
            Detail::Missing(name) => write!(f, "{} is a required property", Json::from(*name)),
            Detail::Unexpected { names, .. } => {
                let kind = match self.error.keyword {
                    Keyword::UnevaluatedProperties(_) => "Unevaluated",
                    _ => "Additional",
                };
                write!(
                    f,
                    "{kind} properties are not allowed ('{}' {} unexpected)",
                    names.join("', '"),
                    were(names.len())
                )
            }
            Detail::Items(items) if self.is_masked => {
                write!(f, "Unevaluated items are not allowed ({} item{})", items.len(), plural(items.len() as u64))
            }
            Detail::Items(items) => {
                let shown: Vec<String> = items.iter().map(|item| format!("'{item}'")).collect();
                write!(f, "Unevaluated items are not allowed ({} {} unexpected)", shown.join(", "), were(items.len()))
            }
            Detail::PropertyName { message, .. } => f.write_str(message),
            Detail::None | Detail::Branches(_) | Detail::Several => write!(f, "{} does not fit", self.value),
        }
    }

    fn options(&self, f: &mut Formatter<'_>, options: &[Json]) -> Result {
        write!(f, "{} is not one of ", self.value)?;
        let shown = if options.len() <= MAX_OPTIONS { options.len() } else { MAX_OPTIONS - 1 };
        for (at, option) in options[..shown].iter().enumerate() {
            let separator = match at {
                0 => "",
                _ if at + 1 == options.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}{option}")?;
        }
        match options.len() - shown {
            0 => Ok(()),
            more => write!(f, " or {more} other candidates"),
        }
    }

    fn no_items_after(&self, f: &mut Formatter<'_>, limit: usize) -> Result {
        let items = self.error.value.as_array().map(Vec::as_slice).unwrap_or_default();
        let more = items.get(limit..).unwrap_or_default();
        if self.is_masked {
            return write!(f, "Additional items are not allowed ({} item{})", more.len(), plural(more.len() as u64));
        }
        let shown: Vec<String> = more.iter().map(Json::to_string).collect();
        write!(f, "Additional items are not allowed ({} {} unexpected)", shown.join(", "), were(more.len()))
    }
}

fn not_any(f: &mut Formatter<'_>, value: &dyn Display, keyword: &str) -> Result {
    write!(f, "{value} is not valid under any of the schemas listed in the '{keyword}' keyword")
}

fn not_encoded(f: &mut Formatter<'_>, value: &dyn Display, encoding: &str) -> Result {
    write!(f, r#"{value} is not compliant with "{encoding}" content encoding"#)
}

fn were(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn plural_y(count: u64) -> &'static str {
    if count == 1 { "y" } else { "ies" }
}
