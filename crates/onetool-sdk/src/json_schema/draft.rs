//! The drafts of JSON Schema.

/// Newer drafts are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    #[default]
    Draft202012,
}

impl Draft {
    /// Returns the draft that a `$schema` names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#');
        let rest = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        match rest.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Some(Self::Draft4),
            "draft-06/schema" => Some(Self::Draft6),
            "draft-07/schema" => Some(Self::Draft7),
            "draft/2019-09/schema" => Some(Self::Draft201909),
            // The address without a version means the current draft.
            "draft/2020-12/schema" | "schema" => Some(Self::Draft202012),
            _ => None,
        }
    }

    /// Up to draft 7, formats are assertions, `$ref` hides its siblings, and `$id` may hold an anchor.
    pub(crate) fn is_classic(self) -> bool {
        self <= Self::Draft7
    }

    pub(crate) fn id_keyword(self) -> &'static str {
        if self == Self::Draft4 { "id" } else { "$id" }
    }
}
