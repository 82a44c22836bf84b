//! Request addresses. Scheme, host and port are literal; variables are allowed in path segments and the query.

use onetool_sdk::{ToolError, Value};
use reqwest::Url;

use super::template::{Bindings, Bound, Piece, Scope, Template, parse, percent_encode, plain_text, variables};

/// A parsed `urlTemplate`.
#[derive(Debug, Clone)]
pub(crate) struct UrlTemplate {
    /// Scheme, host and port.
    pub(crate) origin: Url,
    segments: Vec<Template>,
    pub(crate) query: Vec<Pair>,
}

/// `name=value` of a query or a form; omitted if a variable is missing.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) name: Template,
    /// `None` for a name without `=`.
    pub(crate) value: Option<Template>,
}

impl UrlTemplate {
    pub(crate) fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String> {
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|scheme| text.starts_with(scheme))
            .ok_or("urlTemplate must start with http:// or https://")?;
        let authority_end = text[scheme.len()..].find(['/', '?', '#', '\\']).map_or(text.len(), |at| at + scheme.len());
        let (authority, rest) = text.split_at(authority_end);
        if authority.contains("${") {
            return Err("the host in urlTemplate must be written out, without variables".to_owned());
        }
        if authority.contains('@') {
            return Err("urlTemplate must not hold a user name; use auth".to_owned());
        }
        let origin = Url::parse(authority).map_err(|error| format!("urlTemplate: {error}"))?;
        if rest.contains(['#', '\\']) {
            return Err("urlTemplate must not hold '#' or '\\'".to_owned());
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let segments: Vec<Template> = path
            .strip_prefix('/')
            .unwrap_or(path)
            .split('/')
            .map(|segment| parse(segment, scope))
            .collect::<Result<_, _>>()?;
        let query = query.map(|query| parse_pairs(query, scope)).transpose()?.unwrap_or_default();
        Ok(Self { origin, segments, query })
    }

    pub(crate) fn fill(&self, bindings: &Bindings<'_>) -> Result<Url, ToolError> {
        let mut text = self.origin.origin().ascii_serialization();
        for segment in &self.segments {
            text.push('/');
            let filled = bindings.fill(segment, percent_encode)?.unwrap_or_default();
            if let Some(first) = variables(segment).next() {
                check_segment(&filled, &first.name)?;
            }
            text.push_str(&filled);
        }
        let query = fill_pairs(&self.query, bindings)?;
        if !query.is_empty() {
            text.push('?');
            text.push_str(&query);
        }
        let url =
            Url::parse(&text).map_err(|error| ToolError::arguments(format!("the address is not valid: {error}")))?;
        if url.origin() != self.origin.origin() {
            return Err(ToolError::denied("the address would leave its host"));
        }
        Ok(url)
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &super::template::Variable> {
        self.segments.iter().flat_map(|segment| variables(segment)).chain(pair_variables(&self.query))
    }
}

/// Refuses an argument that would move up the path or leave an empty segment.
fn check_segment(segment: &str, variable: &str) -> Result<(), ToolError> {
    let dots = segment.to_ascii_lowercase().replace("%2e", ".");
    if segment.is_empty() || dots == "." || dots == ".." {
        let message = format!("{variable}: '{segment}' can't be a part of the path");
        return Err(ToolError::arguments(message).at(format!("/{variable}")));
    }
    Ok(())
}

pub(crate) fn parse_pairs(text: &str, scope: &Scope<'_>) -> Result<Vec<Pair>, String> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            Ok(match pair.split_once('=') {
                // A default may contain '=': only one outside a variable is a separator.
                Some((name, value)) if name.matches("${").count() == name.matches('}').count() => {
                    Pair { name: parse(name, scope)?, value: Some(parse(value, scope)?) }
                }
                _ => Pair { name: parse(pair, scope)?, value: None },
            })
        })
        .collect()
}

pub(crate) fn pair_variables(pairs: &[Pair]) -> impl Iterator<Item = &super::template::Variable> {
    pairs.iter().flat_map(|pair| variables(&pair.name).chain(variables(pair.value.as_deref().unwrap_or_default())))
}

pub(crate) fn fill_pairs(pairs: &[Pair], bindings: &Bindings<'_>) -> Result<String, ToolError> {
    let mut filled = Vec::new();
    for pair in pairs {
        let Some(name) = bindings.fill(&pair.name, percent_encode)? else { continue };
        let Some(value) = &pair.value else {
            filled.push(name);
            continue;
        };
        // A list for `name=${variable}` repeats the name; objects are written as `name[key]=value`.
        if let [Piece::Variable(variable)] = value.as_slice()
            && let Bound::Argument(argument @ (Value::List(_) | Value::Tuple(_) | Value::Dict(_))) =
                bindings.look_up(variable)?
        {
            push_nested(&name, argument, Level::Top, &mut filled).map_err(|()| {
                ToolError::arguments(format!(
                    "the items of '{}' must be text, numbers, lists or objects",
                    variable.name
                ))
                .at(format!("/{}", variable.name))
            })?;
            continue;
        }
        if let Some(value) = bindings.fill(value, percent_encode)? {
            filled.push(format!("{name}={value}"));
        }
    }
    Ok(filled.join("&"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    Inner,
}

/// Appends the pairs of a nested value. `name` is already encoded.
fn push_nested(name: &str, value: &Value, level: Level, out: &mut Vec<String>) -> Result<(), ()> {
    match value {
        Value::Dict(members) => {
            for (key, value) in members {
                let name = format!("{name}%5B{}%5D", percent_encode(&key.key_text()));
                push_nested(&name, value, Level::Inner, out)?;
            }
        }
        Value::List(items) | Value::Tuple(items) => {
            let is_scalar = |item: &Value| *item == Value::None || plain_text(item).is_some();
            let repeats = level == Level::Top && items.iter().all(is_scalar);
            for (index, item) in items.iter().enumerate() {
                let name = if repeats { name.to_owned() } else { format!("{name}%5B{index}%5D") };
                push_nested(&name, item, Level::Inner, out)?;
            }
        }
        Value::None => out.push(format!("{name}=")),
        scalar => out.push(format!("{name}={}", percent_encode(&plain_text(scalar).ok_or(())?))),
    }
    Ok(())
}
