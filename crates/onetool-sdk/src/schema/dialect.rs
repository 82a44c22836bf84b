//! What each provider's function calling understands of JSON Schema.

/// Who reads the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI with `strict: true`: every key required, every object closed.
    OpenAi,
    /// Anthropic with `strict: true`: every object closed, few constraints, optional keys stay optional.
    Anthropic,
    /// Gemini's function declarations: a subset of OpenAPI 3.0, no references.
    Gemini,
    /// Whoever takes JSON Schema as it is.
    Plain,
}

/// What becomes of a reference to a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    Keep,
    /// Kept, but a definition that contains itself cannot be said in strict mode.
    KeepAcyclic,
    Inline,
}

/// What becomes of an argument that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optional {
    /// It must be sent, and may be `null`.
    Nullable,
    Keep,
}

/// How a provider wants to hear of `null`, constants and closed objects.
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
    /// Constraints that are passed on; all others are told in the description.
    pub(super) constraints: &'static [&'static str],
    pub(super) formats: &'static [&'static str],
}

impl Provider {
    /// `None` where the schema is passed on as it is.
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
