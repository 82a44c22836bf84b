//! The subset of JSON Schema that each provider's function calling supports.

/// The provider that reads the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI with `strict: true`: every key required, every object closed.
    OpenAi,
    /// Anthropic with `strict: true`: every object closed, few constraints, optional keys stay optional.
    Anthropic,
    /// Gemini's function declarations: a subset of OpenAPI 3.0, no references.
    Gemini,
    /// Any provider that accepts JSON Schema unchanged.
    Plain,
}

/// How a reference to a definition is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    Keep,
    /// Kept, but strict mode cannot express a definition that contains itself.
    KeepAcyclic,
    Inline,
}

/// How an optional argument is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optional {
    /// It must be sent, and may be `null`.
    Nullable,
    Keep,
}

/// How a provider expresses `null`, constants and closed objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    JsonSchema,
    /// `nullable: true`, text enums only, no `additionalProperties`.
    OpenApi,
}

/// The rules of one provider.
#[derive(Debug)]
pub(super) struct Dialect {
    pub(super) references: References,
    pub(super) optional: Optional,
    pub(super) spelling: Spelling,
    pub(super) can_be_strict: bool,
    pub(super) keeps_defaults: bool,
    /// Constraints that are passed on; all others are described in words.
    pub(super) constraints: &'static [&'static str],
    pub(super) formats: &'static [&'static str],
}

impl Provider {
    /// `None` if the schema is passed on unchanged.
    pub(super) fn dialect(self) -> Option<&'static Dialect> {
        match self {
            Self::OpenAi => Some(&OPEN_AI),
            Self::Anthropic => Some(&ANTHROPIC),
            Self::Gemini => Some(&GEMINI),
            Self::Plain => None,
        }
    }
}

static OPEN_AI: Dialect = Dialect {
    references: References::Keep,
    optional: Optional::Nullable,
    spelling: Spelling::JsonSchema,
    can_be_strict: true,
    keeps_defaults: false,
    constraints: &[
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
};

static ANTHROPIC: Dialect = Dialect {
    references: References::KeepAcyclic,
    optional: Optional::Keep,
    spelling: Spelling::JsonSchema,
    can_be_strict: true,
    keeps_defaults: true,
    constraints: &["pattern", "minItems"],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
};

static GEMINI: Dialect = Dialect {
    references: References::Inline,
    optional: Optional::Keep,
    spelling: Spelling::OpenApi,
    can_be_strict: false,
    keeps_defaults: false,
    constraints: &[
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ],
    formats: &["float", "double", "int32", "int64", "date-time"],
};
