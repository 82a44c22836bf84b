//! Validates JSON against a JSON Schema, with errors that a model can act on.
//!
//! A [`Validator`] is compiled once and used often. Each [`Issue`] says where (a JSON pointer), what was expected, what
//! was found, and the nearest valid name or value. **Invariant**: nothing is ever fetched: a `$ref` that leaves the
//! schema is a [`SchemaError`], as is every other fault of the schema itself.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::json_schema::{Detail, Draft, Error, Keyword, Outcome, Schema};
use crate::nearest::nearest;
use crate::{ErrorKind, ToolError};

/// Maximum number of issues per error; a model fixes the first ones first.
const MAX_ISSUES: usize = 8;
/// Maximum length of a value shown in an issue, in characters.
const MAX_SHOWN: usize = 60;
/// Maximum number of allowed values or keys listed in an issue.
const MAX_LISTED: usize = 20;
/// Maximum nesting depth of a schema or a value, so that walking it cannot exhaust the stack.
const MAX_DEPTH: usize = 200;
/// The expectation reported for a value that is too costly to check.
const TOO_COSTLY: &str = "a value that can be checked in a limited number of steps";

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the JSON Schema is not valid at '{pointer}': {reason}")]
    Invalid { pointer: String, reason: String },
    #[error("the JSON Schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the JSON Schema is too complex: its definitions refer to one another too often")]
    TooComplex,
}

impl From<SchemaError> for ToolError {
    fn from(error: SchemaError) -> Self {
        Self::internal(error.to_string())
            .with_hint("correct the schema; references must stay inside it, because none is fetched")
    }
}

/// One way in which a value does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Where, as a JSON pointer; empty for the whole value.
    pub pointer: String,
    pub expected: String,
    pub found: Found,
    /// The name or value that was probably meant.
    pub nearest: Option<String>,
}

/// What is there instead of what a schema expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A required key is missing.
    Missing,
    /// A key that the schema does not have; shortened.
    UnknownKey(String),
    /// A value that does not fit; described.
    Value(String),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("nothing"),
            Self::UnknownKey(key) => write!(f, "unknown key '{key}'"),
            Self::Value(text) => f.write_str(text),
        }
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.pointer.is_empty() { "(root)" } else { &self.pointer };
        write!(f, "{place}: expected {}, got {}", self.expected, self.found)?;
        match &self.nearest {
            Some(name) => write!(f, "; did you mean '{name}'?"),
            None => Ok(()),
        }
    }
}

/// The first error in a value, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON pointer: the value itself, or its missing or unexpected member.
    pub pointer: String,
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// A compiled schema.
#[derive(Debug, Clone)]
pub struct Validator {
    inner: Arc<Schema>,
    schema: Arc<Json>,
}

impl Validator {
    /// Compiles a schema of any draft: the one that `$schema` names, otherwise 2020-12, or draft-07 if only that fits.
    ///
    /// ```
    /// use onetool_sdk::Validator;
    /// use serde_json::json;
    ///
    /// let validator = Validator::new(&json!({"type": "object", "properties": {"count": {"type": "integer"}}})).unwrap();
    /// let issues = validator.issues(&json!({"count": "ten"}));
    /// assert_eq!(issues[0].to_string(), r#"/count: expected integer, got string "ten""#);
    /// ```
    pub fn new(schema: &Json) -> Result<Self, SchemaError> {
        match Self::exact(schema) {
            Err(error) if schema.get("$schema").is_none() => Self::draft07(schema).map_err(|_| error),
            outcome => outcome,
        }
    }

    /// Compiles a schema of the draft that `$schema` names, otherwise 2020-12; tries no other draft.
    pub fn exact(schema: &Json) -> Result<Self, SchemaError> {
        Self::compile(schema, None)
    }

    /// Compiles a draft-07 schema, the draft of tool definitions.
    pub fn draft07(schema: &Json) -> Result<Self, SchemaError> {
        Self::compile(schema, Some(Draft::Draft7))
    }

    fn compile(schema: &Json, draft: Option<Draft>) -> Result<Self, SchemaError> {
        if exceeds_depth(schema, MAX_DEPTH) {
            return Err(SchemaError::TooDeep);
        }
        if crate::schema_cost::is_excessive(schema) {
            return Err(SchemaError::TooComplex);
        }
        let inner = Schema::compile(schema, draft).map_err(|invalid| SchemaError::Invalid {
            pointer: invalid.pointer,
            reason: shorten(&invalid.reason, 200),
        })?;
        Ok(Self { inner: Arc::new(inner), schema: Arc::new(schema.clone()) })
    }

    /// The schema that was compiled.
    pub fn schema(&self) -> &Json {
        &self.schema
    }

    pub fn is_valid(&self, value: &Json) -> bool {
        !exceeds_depth(value, MAX_DEPTH) && self.inner.is_valid(value)
    }

    /// Returns what is wrong with `value`; empty if it is valid.
    pub fn issues(&self, value: &Json) -> Vec<Issue> {
        if exceeds_depth(value, MAX_DEPTH) {
            return vec![Issue {
                pointer: String::new(),
                expected: format!("at most {MAX_DEPTH} levels of nesting"),
                found: Found::Value("more".to_owned()),
                nearest: None,
            }];
        }
        let errors = match self.inner.check(value, MAX_ISSUES) {
            Outcome::Valid => return Vec::new(),
            Outcome::Invalid(errors) => errors,
            Outcome::GivenUp => {
                return vec![Issue {
                    pointer: String::new(),
                    expected: TOO_COSTLY.to_owned(),
                    found: Found::Value(describe(value)),
                    nearest: None,
                }];
            }
        };
        let mut issues = Vec::new();
        // A list of the allowed values says more than their type.
        let is_listed = |pointer: &str| {
            errors.iter().any(|error| matches!(error.keyword, Keyword::Enum(..)) && error.pointer == pointer)
        };
        for error in &errors {
            if !matches!(error.keyword, Keyword::Type(_)) || !is_listed(&error.pointer) {
                explain(error, &mut issues);
            }
        }
        issues.dedup();
        issues.truncate(MAX_ISSUES);
        issues
    }

    /// Fails with the first error in `value`.
    pub fn validate(&self, value: &Json) -> Result<(), Violation> {
        let (pointer, message) = if exceeds_depth(value, MAX_DEPTH) {
            (String::new(), format!("the value nests deeper than {MAX_DEPTH} levels"))
        } else {
            match self.inner.check(value, 1) {
                Outcome::Valid => return Ok(()),
                Outcome::Invalid(errors) => match errors.first() {
                    Some(error) => (error.place(), error.to_string()),
                    None => return Ok(()),
                },
                Outcome::GivenUp => (String::new(), format!("expected {TOO_COSTLY}")),
            }
        };
        Err(Violation { pointer, message })
    }

    /// Fails with [`ErrorKind::Arguments`] if `value` does not match the schema.
    pub fn check_arguments(&self, value: &Json) -> Result<(), ToolError> {
        self.check(value, ErrorKind::Arguments, "the arguments do not fit the schema")
    }

    /// Fails with [`ErrorKind::Output`] if `value`, the result of a tool, does not match the schema.
    pub fn check_output(&self, value: &Json) -> Result<(), ToolError> {
        self.check(value, ErrorKind::Output, "the result does not fit the tool's output schema")
    }

    fn check(&self, value: &Json, kind: ErrorKind, title: &str) -> Result<(), ToolError> {
        let issues = self.issues(value);
        if issues.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = issues.iter().map(Issue::to_string).collect();
        let message = match lines.as_slice() {
            [only] => format!("{title}: {only}"),
            _ => format!("{title}:\n- {}", lines.join("\n- ")),
        };
        Err(ToolError::new(kind, message))
    }
}

/// Checks one value against one schema. For more than one value, keep a [`Validator`].
///
/// ```
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"query": {}}, "additionalProperties": false});
/// let error = onetool_sdk::validate(&schema, &json!({"qury": 1})).unwrap_err();
/// assert!(error.message.contains("did you mean 'query'?"));
/// assert!(onetool_sdk::validate(&json!({"$ref": "https://example.com/s.json"}), &json!(1)).is_err());
/// ```
pub fn validate(schema: &Json, value: &Json) -> Result<(), ToolError> {
    Validator::new(schema)?.check_arguments(value)
}

fn explain(error: &Error<'_>, issues: &mut Vec<Issue>) {
    let got = describe(error.value);
    let issue = |expected: String| Issue {
        pointer: error.pointer.clone(),
        expected,
        found: Found::Value(got.clone()),
        nearest: None,
    };
    match &error.detail {
        Detail::Unexpected { names, known } => issues.extend(names.iter().map(|key| unknown_key(error, key, known))),
        Detail::PropertyName { name, options, .. } => {
            let known: Vec<&str> = options.iter().map(String::as_str).collect();
            issues.push(unknown_key(error, name, &known));
        }
        Detail::Missing(name) => issues.push(Issue {
            pointer: format!("{}/{}", error.pointer, escape(name)),
            expected: "a value, for it is required".to_owned(),
            found: Found::Missing,
            nearest: None,
        }),
        Detail::Branches(branches) => explain_union(error, &got, branches, issues),
        Detail::None | Detail::Items(_) | Detail::Several => {
            let nearest = match (error.keyword, error.value) {
                (Keyword::Enum(options, _), Json::String(text)) => {
                    nearest(text, options.iter().filter_map(Json::as_str)).map(str::to_owned)
                }
                _ => None,
            };
            issues.push(Issue { nearest, ..issue(expected(error)) });
        }
    }
}

fn unknown_key(error: &Error<'_>, key: &str, known: &[&str]) -> Issue {
    Issue {
        pointer: format!("{}/{}", error.pointer, escape(key)),
        expected: expected_keys(known),
        found: Found::UnknownKey(shorten(key, MAX_SHOWN)),
        nearest: nearest(key, known.iter().copied()).map(str::to_owned),
    }
}

/// A union fails in every branch. If all but one failed only by type, that one was meant: report its errors.
fn explain_union(union: &Error<'_>, got: &str, branches: &[Vec<Error<'_>>], issues: &mut Vec<Issue>) {
    let pointer = &union.pointer;
    let is_other = |branch: &[Error<'_>]| {
        branch.iter().any(|error| match error.keyword {
            Keyword::Type(_) => error.pointer == *pointer,
            // The tag of another branch.
            Keyword::Const(..) => true,
            _ => false,
        })
    };
    let mut meant = branches.iter().filter(|branch| !is_other(branch));
    if let (Some(branch), None) = (meant.next(), meant.next()) {
        for error in branch.iter().take(MAX_ISSUES) {
            explain(error, issues);
        }
        return;
    }
    let mut options: Vec<String> = Vec::new();
    for branch in branches.iter().take(MAX_LISTED) {
        let Some(error) = branch.first() else { continue };
        let inner = error.pointer.strip_prefix(pointer).unwrap_or(&error.pointer);
        let option = if inner.is_empty() { expected(error) } else { format!("{} at {inner}", expected(error)) };
        if !options.contains(&option) {
            options.push(option);
        }
    }
    issues.push(Issue {
        pointer: pointer.clone(),
        expected: options.join(" or "),
        found: Found::Value(got.to_owned()),
        nearest: None,
    });
}

fn expected(error: &Error<'_>) -> String {
    match error.keyword {
        Keyword::Type(types) => types.names().collect::<Vec<_>>().join(" or "),
        Keyword::Enum(options, _) => {
            let listed: Vec<String> =
                options.iter().take(MAX_LISTED).map(|option| shorten(&option.to_string(), MAX_SHOWN)).collect();
            let more = if options.len() > MAX_LISTED { ", …" } else { "" };
            format!("one of {}{more}", listed.join(", "))
        }
        Keyword::Const(value, _) => shorten(&value.to_string(), MAX_SHOWN),
        Keyword::Minimum(limit) => format!("at least {limit}"),
        Keyword::Maximum(limit) => format!("at most {limit}"),
        Keyword::ExclusiveMinimum(limit) => format!("more than {limit}"),
        Keyword::ExclusiveMaximum(limit) => format!("less than {limit}"),
        Keyword::MultipleOf(divisor) => format!("a multiple of {divisor}"),
        Keyword::MinLength(limit) => format!("at least {limit} characters"),
        Keyword::MaxLength(limit) => format!("at most {limit} characters"),
        Keyword::MinItems(limit) => format!("at least {limit} items"),
        Keyword::MaxItems(limit) => format!("at most {limit} items"),
        Keyword::NoItemsAfter(limit) => format!("at most {limit} items"),
        Keyword::MinProperties(limit) => format!("at least {limit} keys"),
        Keyword::MaxProperties(limit) => format!("at most {limit} keys"),
        Keyword::UniqueItems => "items that all differ".to_owned(),
        Keyword::Pattern(pattern) => format!("text that matches {}", shorten(pattern.source(), MAX_SHOWN)),
        Keyword::Format(format) => format!("text in the format '{}'", format.name()),
        Keyword::False => "nothing".to_owned(),
        Keyword::Properties(_) => "an object without further keys".to_owned(),
        Keyword::OneOf(_) if matches!(error.detail, Detail::Several) => "exactly one of the alternatives".to_owned(),
        Keyword::Not(..) => "a value that the 'not' schema excludes".to_owned(),
        _ => match error.detail {
            Detail::Missing(name) => format!("an object with the key {}", Json::from(name)),
            _ => shorten(&error.masked(), 2 * MAX_SHOWN),
        },
    }
}

fn expected_keys(known: &[&str]) -> String {
    if known.is_empty() {
        return "no such key".to_owned();
    }
    let listed: Vec<&str> = known.iter().take(MAX_LISTED).copied().collect();
    let more = if known.len() > MAX_LISTED { ", …" } else { "" };
    format!("one of the keys {}{more}", listed.join(", "))
}

/// Returns the type and the beginning of a value.
fn describe(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => format!("boolean {value}"),
        Json::Number(number) if number.is_f64() => format!("number {number}"),
        Json::Number(number) => format!("integer {number}"),
        // Shortened before it is quoted: the text may be megabytes long.
        Json::String(text) => format!("string {}", Json::String(shorten(text, MAX_SHOWN))),
        Json::Array(items) => format!("array of {} items", items.len()),
        Json::Object(object) => format!("object with {} keys", object.len()),
    }
}

pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether `value` nests deeper than `limit`. Looks no deeper than that.
pub(crate) fn exceeds_depth(value: &Json, limit: usize) -> bool {
    match value {
        Json::Array(items) => limit == 0 || items.iter().any(|item| exceeds_depth(item, limit - 1)),
        Json::Object(object) => limit == 0 || object.values().any(|item| exceeds_depth(item, limit - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: Json, value: Json) -> Vec<String> {
        Validator::draft07(&schema).unwrap().issues(&value).iter().map(Issue::to_string).collect()
    }

    #[test]
    fn an_issue_says_where_what_was_expected_what_came_and_what_was_meant() {
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 2},
                "sort": {"enum": ["stars", "forks"]},
                "inner": {"$ref": "#/definitions/Inner"}
            },
            "required": ["query"],
            "additionalProperties": false,
            "definitions": {"Inner": {"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1}},
                                      "additionalProperties": false}}
        });
        assert_eq!(
            told(schema.clone(), json!({"qurey": 1})),
            [
                "/qurey: expected one of the keys query, sort, inner, got unknown key 'qurey'; did you mean 'query'?",
                "/query: expected a value, for it is required, got nothing",
            ]
        );
        assert_eq!(
            told(schema.clone(), json!({"query": "x", "sort": "star", "inner": {"depht": 1, "depth": 0}})),
            [
                "/query: expected at least 2 characters, got string \"x\"",
                "/sort: expected one of \"stars\", \"forks\", got string \"star\"; did you mean 'stars'?",
                "/inner/depth: expected at least 1, got integer 0",
                "/inner/depht: expected one of the keys depth, got unknown key 'depht'; did you mean 'depth'?",
            ]
        );
        assert_eq!(told(schema, json!([])), ["(root): expected object, got array of 0 items"]);
        let level = json!({"properties": {"info": {"type": "string", "enum": ["list", "min"]}}});
        assert_eq!(
            told(level, json!({"info": null})),
            ["/info: expected one of \"list\", \"min\", got null"],
            "the type goes without saying"
        );
    }

    #[test]
    fn a_union_tells_the_branch_that_was_meant() {
        let optional = json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]});
        assert_eq!(told(optional.clone(), json!({})), ["/a: expected a value, for it is required, got nothing"]);
        assert_eq!(told(optional, json!(3)), ["(root): expected object or null, got integer 3"]);
        let tagged = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}
        ]});
        assert_eq!(told(tagged, json!({"kind": "a", "x": "1"})), ["/x: expected integer, got string \"1\""]);
    }

    #[test]
    fn a_bad_schema_is_an_error_value() {
        assert!(matches!(Validator::new(&json!({"type": "nonsense"})), Err(SchemaError::Invalid { .. })));
        assert!(matches!(Validator::new(&json!({"pattern": "("})), Err(SchemaError::Invalid { .. })));
        assert!(matches!(Validator::new(&json!({"$ref": "#/definitions/gone"})), Err(SchemaError::Invalid { .. })));
        for address in ["http://127.0.0.1:1/s.json", "file:///etc/hostname", "other.json"] {
            assert!(Validator::new(&json!({"$ref": address})).is_err(), "{address}");
        }
        let mut deep = json!({});
        for _ in 0..=MAX_DEPTH {
            deep = json!({ "items": deep });
        }
        assert_eq!(Validator::new(&deep).unwrap_err(), SchemaError::TooDeep);
    }

    #[test]
    fn deep_values_and_costly_patterns_are_refused_rather_than_followed() {
        let mut deep = json!(1);
        for _ in 0..=MAX_DEPTH {
            deep = json!([deep]);
        }
        let schema = json!({"type": "array", "items": {"$ref": "#"}});
        let error = Validator::new(&schema).unwrap().check_arguments(&deep).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Arguments);
        let costly = json!({"type": "string", "pattern": "^(?=(a+)+$)(a+)+$"});
        assert!(!Validator::new(&costly).unwrap().is_valid(&json!(format!("{}b", "a".repeat(40)))));
    }

    #[test]
    fn schemas_that_multiply_or_chain_without_end_are_refused() {
        use crate::schema_cost::tests::chain;
        for schema in [chain(40, 2, "allOf"), chain(1000, 1, "allOf")] {
            assert_eq!(Validator::draft07(&schema).unwrap_err(), SchemaError::TooComplex);
        }
        for schema in [chain(10, 2, "allOf"), chain(190, 1, "allOf"), json!({"$ref": "#"})] {
            assert!(Validator::draft07(&schema).unwrap().is_valid(&json!({})));
        }
    }

    #[test]
    fn drafts_are_told_apart() {
        let tuple = json!({"items": [{"type": "string"}], "additionalItems": false});
        assert!(Validator::new(&tuple).unwrap().is_valid(&json!(["a"])));
        assert!(!Validator::new(&tuple).unwrap().is_valid(&json!([1])));
        let modern = json!({"prefixItems": [{"type": "string"}], "items": false});
        assert!(!Validator::new(&modern).unwrap().is_valid(&json!(["a", "b"])));
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let [issue] = &told(json!({"type": "integer"}), json!("x".repeat(1_000_000)))[..] else { panic!() };
        assert!(issue.len() < 200, "{}", issue.len());
    }
}
