//! A JSON Schema validator: drafts 4, 6, 7, 2019-09 and 2020-12.
//!
//! A schema document is scanned once ([`scan`]: checks that its keywords are well-formed and collects the names it
//! defines), then every reachable schema becomes a [`node::Node`] of keywords ([`compile`]; references are resolved by
//! [`references`]). Values are checked by [`evaluate`], and errors are collected by [`explain`] as [`error::Error`]s.
//!
//! **Invariant**: schemas and values are hostile input. Nothing is fetched, no recursion is deeper than
//! [`evaluate::MAX_EVALUATION_DEPTH`], and a check ends after at most [`evaluate::MAX_STEPS`] steps. Callers limit the
//! nesting depth of a document before they compile it.

mod assertions;
mod compile;
mod content;
mod draft;
mod error;
mod evaluate;
mod explain;
mod format;
mod node;
mod number;
mod pattern;
mod references;
mod scan;
mod unevaluated;
mod uri;

#[cfg(test)]
mod tests;

use serde_json::Value as Json;

pub(crate) use draft::Draft;
pub(crate) use error::{Detail, Error};
pub(crate) use node::Keyword;

/// What is wrong with a schema, and where: a JSON pointer into it.
#[derive(Debug)]
pub(crate) struct Invalid {
    pub(crate) pointer: String,
    pub(crate) reason: String,
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    nodes: Vec<node::Node>,
    /// Whether a reference depends on the path evaluation took.
    has_dynamic_references: bool,
}

/// The outcome of a check.
pub(crate) enum Outcome<'a> {
    Valid,
    Invalid(Vec<Error<'a>>),
    /// The check took too many steps, or went too deep. Such a value does not count as valid.
    GivenUp,
}

impl Schema {
    /// Compiles a schema of `draft`, otherwise of the draft that its `$schema` names, otherwise of 2020-12.
    pub(crate) fn compile(schema: &Json, draft: Option<Draft>) -> Result<Self, Invalid> {
        let draft = match (draft, schema.get("$schema").and_then(Json::as_str)) {
            (Some(draft), _) => draft,
            (None, None) => Draft::default(),
            (None, Some(name)) => Draft::named(name).ok_or_else(|| Invalid {
                pointer: "/$schema".to_owned(),
                reason: format!("Unknown meta-schema: '{name}'"),
            })?,
        };
        compile::compile(schema, draft)
    }

    pub(crate) fn is_valid(&self, value: &Json) -> bool {
        evaluate::is_valid(self, value)
    }

    /// Returns up to `limit` errors. With a limit of one, only the first unknown key of an object is reported.
    pub(crate) fn check<'a>(&'a self, value: &'a Json, limit: usize) -> Outcome<'a> {
        explain::check(self, value, limit)
    }
}

#[cfg(test)]
impl Outcome<'_> {
    fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }
}
