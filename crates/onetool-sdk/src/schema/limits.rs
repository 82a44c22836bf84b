//! Limits of the providers, checked before a request is sent.

use serde_json::Value as Json;

use super::compile::CompiledSchema;
use super::dialect::Provider;

/// OpenAI, strict: per schema.
const OPEN_AI_PROPERTIES: usize = 5000;
const OPEN_AI_NESTING: usize = 10;
const OPEN_AI_ENUM_VALUES: usize = 1000;
const OPEN_AI_TEXT: usize = 120_000;
const OPEN_AI_LARGE_ENUM: usize = 250;
const OPEN_AI_LARGE_ENUM_TEXT: usize = 15_000;
/// OpenAI: per request.
const OPEN_AI_TOOLS: usize = 128;
/// Anthropic, strict: all strict tools of a request together.
const ANTHROPIC_STRICT_TOOLS: usize = 20;
const ANTHROPIC_OPTIONAL: usize = 24;
const ANTHROPIC_UNIONS: usize = 16;
/// Gemini: per request.
const GEMINI_TOOLS: usize = 128;

/// The quantities of a schema that providers limit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Counts {
    properties: usize,
    optional: usize,
    unions: usize,
    nesting: usize,
    enum_values: usize,
    text: usize,
    /// The text of the largest enum with more than [`OPEN_AI_LARGE_ENUM`] values.
    large_enum_text: usize,
}

impl Counts {
    fn of(schema: &Json) -> Self {
        let mut counts = Self::default();
        counts.visit(schema, 0);
        counts
    }

    fn visit(&mut self, schema: &Json, level: usize) {
        let Some(object) = schema.as_object() else { return };
        self.nesting = self.nesting.max(level);
        self.unions += usize::from(object.contains_key("anyOf") || object.get("type").is_some_and(Json::is_array));
        if let Some(values) = object.get("enum").and_then(Json::as_array) {
            let text = values.iter().map(text_length).sum();
            self.enum_values += values.len();
            self.text += text;
            if values.len() > OPEN_AI_LARGE_ENUM {
                self.large_enum_text = self.large_enum_text.max(text);
            }
        }
        if let Some(properties) = object.get("properties").and_then(Json::as_object) {
            let required = object.get("required").and_then(Json::as_array).map_or(0, Vec::len);
            self.properties += properties.len();
            self.optional += properties.len().saturating_sub(required);
            for (name, property) in properties {
                self.text += name.len();
                self.visit(property, level + 1);
            }
        }
        if let Some(items) = object.get("items") {
            self.visit(items, level + 1);
        }
        for branch in object.get("anyOf").and_then(Json::as_array).into_iter().flatten() {
            self.visit(branch, level);
        }
        for (name, definition) in object.get("$defs").and_then(Json::as_object).into_iter().flatten() {
            self.text += name.len();
            self.visit(definition, level);
        }
    }
}

fn text_length(value: &Json) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), str::len)
}

/// Returns why a provider would reject this compiled schema in strict mode.
pub(super) fn breaches(schema: &Json, provider: Provider) -> Vec<String> {
    let counts = Counts::of(schema);
    let checks: &[(usize, usize, &str)] = match provider {
        Provider::OpenAi => &[
            (counts.properties, OPEN_AI_PROPERTIES, "properties"),
            (counts.nesting, OPEN_AI_NESTING, "levels of nesting"),
            (counts.enum_values, OPEN_AI_ENUM_VALUES, "enum values"),
            (counts.text, OPEN_AI_TEXT, "characters of names and enum values"),
            (counts.large_enum_text, OPEN_AI_LARGE_ENUM_TEXT, "characters in one large enum"),
        ],
        Provider::Anthropic => &[
            (counts.optional, ANTHROPIC_OPTIONAL, "optional arguments"),
            (counts.unions, ANTHROPIC_UNIONS, "arguments of several types"),
        ],
        Provider::Gemini | Provider::Plain => &[],
    };
    over(checks, "strict mode")
}

/// Returns why a provider would reject a request that offers all these tools at once.
pub fn lint_request(provider: Provider, schemas: &[&CompiledSchema]) -> Vec<String> {
    let strict: Vec<Counts> = schemas
        .iter()
        .filter(|schema| schema.strict)
        .filter_map(|schema| schema.parameters.as_ref().map(Counts::of))
        .collect();
    let sum = |count: fn(&Counts) -> usize| strict.iter().map(count).sum::<usize>();
    let checks: &[(usize, usize, &str)] = match provider {
        Provider::OpenAi => &[(schemas.len(), OPEN_AI_TOOLS, "tools")],
        Provider::Gemini => &[(schemas.len(), GEMINI_TOOLS, "tools")],
        Provider::Anthropic => &[
            (strict.len(), ANTHROPIC_STRICT_TOOLS, "strict tools"),
            (sum(|counts| counts.optional), ANTHROPIC_OPTIONAL, "optional arguments in strict tools"),
            (sum(|counts| counts.unions), ANTHROPIC_UNIONS, "arguments of several types in strict tools"),
        ],
        Provider::Plain => &[],
    };
    over(checks, "one request")
}

fn over(checks: &[(usize, usize, &str)], place: &str) -> Vec<String> {
    let breaches = checks.iter().filter(|(count, limit, _)| count > limit);
    breaches.map(|(count, limit, what)| format!("{count} {what}: {place} takes at most {limit}")).collect()
}
