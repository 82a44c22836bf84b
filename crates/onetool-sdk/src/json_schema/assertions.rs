//! Keywords that are compiled without looking at other schemas.

use serde_json::{Map, Value as Json};

use super::node::{Keyword, Names, Types};
use super::{Draft, number};

/// A schema with its keywords by name.
type Object<'s> = &'s Map<String, Json>;

/// A rough set of the keywords that a schema has: most have few, and lookups of the others can be skipped.
#[derive(Clone, Copy)]
pub(super) struct Groups(u8);

impl Groups {
    pub(super) const ASSERTIONS: Self = Self(1);
    pub(super) const TEXTS: Self = Self(1 << 1);
    pub(super) const PROPERTIES: Self = Self(1 << 2);
    pub(super) const ITEMS: Self = Self(1 << 3);
    pub(super) const COMBINATIONS: Self = Self(1 << 4);
    pub(super) const REFERENCES: Self = Self(1 << 5);
    const NONE: Self = Self(0);

    pub(super) fn of(object: Object<'_>) -> Self {
        object.keys().fold(Self::NONE, |groups, keyword| Self(groups.0 | Self::of_keyword(keyword).0))
    }

    fn of_keyword(keyword: &str) -> Self {
        match keyword {
            "title" | "description" | "default" | "examples" => Self::NONE,
            "pattern" | "format" | "contentEncoding" | "contentMediaType" | "uniqueItems" => Self::TEXTS,
            "properties" | "patternProperties" | "additionalProperties" | "propertyNames" => Self::PROPERTIES,
            "items" | "prefixItems" | "additionalItems" | "contains" => Self::ITEMS,
            "dependencies"
            | "dependentRequired"
            | "dependentSchemas"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "unevaluatedProperties"
            | "unevaluatedItems" => Self::COMBINATIONS,
            "$ref" | "$dynamicRef" | "$recursiveRef" => Self::REFERENCES,
            _ => Self::ASSERTIONS,
        }
    }

    pub(super) fn has(self, group: Self) -> bool {
        self.0 & group.0 != 0
    }
}

/// Compiles assertions that do not depend on other schemas, except `required`.
pub(super) fn assertions(object: Object<'_>, draft: Draft, out: &mut Vec<Keyword>) {
    // Each has a rank: `type` is checked first.
    let mut found: Vec<(u8, Keyword)> = Vec::new();
    for (keyword, value) in object {
        found.extend(assertion(keyword, value, object, draft));
    }
    found.sort_by_key(|(rank, _)| *rank);
    out.extend(found.into_iter().map(|(_, keyword)| keyword));
}

fn assertion(keyword: &str, value: &Json, object: Object<'_>, draft: Draft) -> Option<(u8, Keyword)> {
    let limit = || match value {
        Json::Number(number) => Some(number.clone()),
        _ => None,
    };
    let is_exclusive = |keyword: &str| draft == Draft::Draft4 && object.get(keyword) == Some(&Json::Bool(true));
    Some(match keyword {
        "type" => {
            let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let add = |types: Types, name: &Json| name.as_str().and_then(|name| types.with(name)).unwrap_or(types);
            (0, Keyword::Type(names.iter().fold(Types::none(draft), add)))
        }
        "const" if draft >= Draft::Draft6 => (1, Keyword::Const(value.clone(), number::weight(value))),
        "enum" => (2, Keyword::Enum(value.as_array()?.clone().into(), number::weight(value))),
        "minimum" if is_exclusive("exclusiveMinimum") => (3, Keyword::ExclusiveMinimum(limit()?)),
        "minimum" => (3, Keyword::Minimum(limit()?)),
        "maximum" if is_exclusive("exclusiveMaximum") => (4, Keyword::ExclusiveMaximum(limit()?)),
        "maximum" => (4, Keyword::Maximum(limit()?)),
        "exclusiveMinimum" if draft >= Draft::Draft6 => (5, Keyword::ExclusiveMinimum(limit()?)),
        "exclusiveMaximum" if draft >= Draft::Draft6 => (6, Keyword::ExclusiveMaximum(limit()?)),
        "multipleOf" => (7, Keyword::MultipleOf(value.as_f64()?)),
        "minLength" => (8, Keyword::MinLength(count(value)?)),
        "maxLength" => (9, Keyword::MaxLength(count(value)?)),
        "minItems" => (10, Keyword::MinItems(count(value)?)),
        "maxItems" => (11, Keyword::MaxItems(count(value)?)),
        "minProperties" => (12, Keyword::MinProperties(count(value)?)),
        "maxProperties" => (13, Keyword::MaxProperties(count(value)?)),
        _ => return None,
    })
}

/// A number too large for a count becomes the largest count.
pub(super) fn count(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64))
}

pub(super) fn required(object: Object<'_>) -> Option<Keyword> {
    let names = names(object.get("required")?);
    (!names.is_empty()).then(|| Keyword::Required(names))
}

pub(super) fn names(list: &Json) -> Names {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(Into::into).collect()
}

/// Whether a missing key is reported after unknown keys: if one key is required of an object that allows no others, it
/// was probably misspelled.
pub(super) fn is_required_last(object: Object<'_>) -> bool {
    let is_one = object.get("required").and_then(Json::as_array).is_some_and(|names| names.len() == 1);
    is_one
        && object.get("additionalProperties") == Some(&Json::Bool(false))
        && object.contains_key("properties")
        && !object.contains_key("patternProperties")
}
