//! `${…}` in the texts of a sequence: references to arguments and to results of steps.
//!
//! A text that is a single reference keeps the type of the value; in a longer text the value is converted to text.
//! After its root, a reference is an RFC 9535 path. Values are never scanned for references themselves.

use onetool_sdk::{ErrorKind, ToolError};
use serde_json::{Map, Value as Json};
use serde_json_path::JsonPath;

use crate::extract::is_definite;

/// The root of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Arguments,
    Step(usize, StepPart),
    Item,
    Index,
    RunId,
}

/// The part of a finished step that is referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepPart {
    Value,
    Ok,
    Error,
    Status,
    Milliseconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Json,
    Length,
}

#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) root: Root,
    path: Option<(JsonPath, bool)>,
    filter: Option<Filter>,
    /// The source text, for previews.
    text: String,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Reference(Reference),
}

/// JSON that contains references.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Json),
    Reference(Reference),
    Text(Vec<TextPiece>),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A part of a text.
#[derive(Debug, Clone)]
pub(super) struct TextPiece(Piece);

/// Which names a reference may use.
pub(super) struct Names<'a> {
    pub(super) steps: &'a [String],
    /// The allowed arguments, if the schema restricts them.
    pub(super) arguments: Option<&'a [String]>,
    /// The name of an item inside a `forEach`.
    pub(super) item: Option<&'a str>,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StepResult {
    pub(super) value: Json,
    pub(super) error: Option<String>,
    pub(super) status: &'static str,
    pub(super) milliseconds: f64,
}

/// The values that references resolve to.
pub(super) struct Scope<'a> {
    pub(super) arguments: &'a Json,
    pub(super) steps: &'a [Option<StepResult>],
    pub(super) item: Option<(usize, &'a Json)>,
    pub(super) run_id: &'a str,
}

impl Node {
    pub(super) fn parse(json: &Json, names: &Names<'_>) -> Result<Self, String> {
        Ok(match json {
            Json::String(text) => {
                let mut pieces = parse_text(text, names)?;
                match pieces.as_slice() {
                    [] => Self::Literal(Json::from("")),
                    [TextPiece(Piece::Text(_))] => match pieces.pop() {
                        Some(TextPiece(Piece::Text(text))) => Self::Literal(Json::from(text)),
                        _ => Self::Literal(Json::Null),
                    },
                    [TextPiece(Piece::Reference(only))] => Self::Reference(only.clone()),
                    _ => Self::Text(pieces),
                }
            }
            Json::Array(items) => {
                Self::Array(items.iter().map(|item| Self::parse(item, names)).collect::<Result<_, _>>()?)
            }
            Json::Object(members) => Self::object(members, names)?,
            scalar => Self::Literal(scalar.clone()),
        })
    }

    pub(super) fn object(members: &Map<String, Json>, names: &Names<'_>) -> Result<Self, String> {
        let parse = |(key, value): (&String, &Json)| Ok((key.clone(), Self::parse(value, names)?));
        Ok(Self::Object(members.iter().map(parse).collect::<Result<_, String>>()?))
    }

    /// Collects the roots of all references.
    pub(super) fn roots(&self, found: &mut Vec<Root>) {
        match self {
            Self::Literal(_) => {}
            Self::Reference(reference) => found.push(reference.root),
            Self::Text(pieces) => found.extend(pieces.iter().filter_map(|TextPiece(piece)| match piece {
                Piece::Reference(reference) => Some(reference.root),
                Piece::Text(_) => None,
            })),
            Self::Array(items) => items.iter().for_each(|item| item.roots(found)),
            Self::Object(members) => members.iter().for_each(|(_, value)| value.roots(found)),
        }
    }

    /// Resolves the value; `None` for a reference to nothing, which is left out of its object.
    pub(super) fn resolve(&self, scope: &Scope<'_>, budget: &mut Budget) -> Result<Option<Json>, ToolError> {
        Ok(match self {
            Self::Literal(json) => {
                budget.take(json)?;
                Some(json.clone())
            }
            Self::Reference(reference) => {
                let found = reference.look_up(scope);
                if let Some(found) = &found {
                    budget.take(found)?;
                }
                found
            }
            Self::Text(pieces) => {
                let mut text = String::new();
                for TextPiece(piece) in pieces {
                    let before = text.len();
                    match piece {
                        Piece::Text(literal) => text.push_str(literal),
                        Piece::Reference(reference) => text.push_str(&written(reference.look_up(scope))),
                    }
                    budget.take_bytes(text.len() - before)?;
                }
                Some(Json::from(text))
            }
            Self::Array(items) => {
                let resolve = |item: &Self| Ok(item.resolve(scope, budget)?.unwrap_or(Json::Null));
                Some(Json::Array(items.iter().map(resolve).collect::<Result<_, ToolError>>()?))
            }
            Self::Object(members) => {
                let mut object = Map::with_capacity(members.len());
                for (key, value) in members {
                    if let Some(value) = value.resolve(scope, budget)? {
                        object.insert(key.clone(), value);
                    }
                }
                Some(Json::Object(object))
            }
        })
    }

    /// Resolves what is known before any step has run; other references stay as written.
    pub(super) fn preview(&self, scope: &Scope<'_>) -> Json {
        match self {
            Self::Literal(json) => json.clone(),
            Self::Reference(reference) => reference.preview(scope),
            Self::Text(pieces) => {
                let text = pieces.iter().map(|TextPiece(piece)| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Reference(reference) => written(Some(reference.preview(scope))),
                });
                Json::from(text.collect::<String>())
            }
            Self::Array(items) => Json::Array(items.iter().map(|item| item.preview(scope)).collect()),
            Self::Object(members) => {
                Json::Object(members.iter().map(|(key, value)| (key.clone(), value.preview(scope))).collect())
            }
        }
    }
}

impl Reference {
    fn is_known(&self, scope: &Scope<'_>) -> bool {
        match self.root {
            Root::Arguments | Root::RunId => true,
            Root::Step(step, _) => scope.steps.get(step).is_some_and(Option::is_some),
            Root::Item | Root::Index => scope.item.is_some(),
        }
    }

    fn preview(&self, scope: &Scope<'_>) -> Json {
        if self.is_known(scope) { self.look_up(scope).unwrap_or(Json::Null) } else { Json::from(self.text.clone()) }
    }

    fn look_up(&self, scope: &Scope<'_>) -> Option<Json> {
        let made;
        let start: &Json = match self.root {
            Root::Arguments => scope.arguments,
            Root::Item => scope.item?.1,
            Root::Index => {
                made = Json::from(scope.item?.0);
                &made
            }
            Root::RunId => {
                made = Json::from(scope.run_id);
                &made
            }
            Root::Step(step, part) => {
                let result = scope.steps.get(step)?.as_ref()?;
                match part {
                    StepPart::Value => &result.value,
                    StepPart::Ok => {
                        made = Json::from(result.error.is_none() && result.status != SKIPPED);
                        &made
                    }
                    StepPart::Error => {
                        made = result.error.clone().map_or(Json::Null, Json::from);
                        &made
                    }
                    StepPart::Status => {
                        made = Json::from(result.status);
                        &made
                    }
                    StepPart::Milliseconds => {
                        made = Json::from(result.milliseconds);
                        &made
                    }
                }
            }
        };
        let found = match &self.path {
            None => Some(start.clone()),
            Some((path, true)) => path.query(start).first().cloned(),
            Some((path, false)) => Some(path.query(start).iter().map(|node| (*node).clone()).collect()),
        };
        match self.filter {
            None => found,
            Some(Filter::Json) => Some(Json::from(found.unwrap_or(Json::Null).to_string())),
            Some(Filter::Length) => Some(Json::from(match found.unwrap_or(Json::Null) {
                Json::Array(items) => items.len(),
                Json::Object(members) => members.len(),
                Json::String(text) => text.chars().count(),
                Json::Null => 0,
                _ => 1,
            })),
        }
    }
}

/// The status of a step whose condition did not hold.
pub(super) const SKIPPED: &str = "skipped";

/// Converts a value to text inside a longer text.
fn written(value: Option<Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text,
        Some(other) => other.to_string(),
    }
}

/// Python's truth value.
pub(super) fn is_true(value: Option<&Json>) -> bool {
    match value {
        None | Some(Json::Null | Json::Bool(false)) => false,
        Some(Json::Bool(true)) => true,
        Some(Json::Number(number)) => number.as_f64() != Some(0.0),
        Some(Json::String(text)) => !text.is_empty(),
        Some(Json::Array(items)) => !items.is_empty(),
        Some(Json::Object(members)) => !members.is_empty(),
    }
}

/// Remaining memory budget.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    left: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    pub(super) fn take(&mut self, value: &Json) -> Result<(), ToolError> {
        self.take_bytes(size(value))
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), ToolError> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(ToolError::new(
                ErrorKind::TooLarge,
                format!("the values of the steps have more than {} MB together", self.limit >> 20),
            )
            .with_hint("ask the tools for less, or raise sequences.max_result_mb")),
        }
    }
}

/// Approximate size of a value in bytes.
fn size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 8,
        Json::String(text) => text.len() + 8,
        Json::Array(items) => 8 + items.iter().map(size).sum::<usize>(),
        Json::Object(members) => 8 + members.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>(),
    }
}

fn parse_text(text: &str, names: &Names<'_>) -> Result<Vec<TextPiece>, String> {
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
            let end = closing(after).ok_or_else(|| format!("'{}' has no closing brace", excerpt(rest)))?;
            if !literal.is_empty() {
                pieces.push(TextPiece(Piece::Text(std::mem::take(&mut literal))));
            }
            pieces.push(TextPiece(Piece::Reference(parse_reference(&after[..end], names)?)));
            rest = &after[end + 1..];
        } else {
            literal.push('$');
            rest = &rest[1..];
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(TextPiece(Piece::Text(literal)));
    }
    Ok(pieces)
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Characters outside quotes, each with its bracket depth.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let (mut quote, mut escaped, mut depth) = (None, false, 0_usize);
    text.char_indices().filter_map(move |(at, c)| {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            return None;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, c, depth))
    })
}

fn closing(text: &str) -> Option<usize> {
    unquoted(text).find(|(_, c, _)| *c == '}').map(|(at, _, _)| at)
}

fn parse_reference(inner: &str, names: &Names<'_>) -> Result<Reference, String> {
    let wrong = |why: String| format!("'${{{}}}': {why}", excerpt(inner));
    let bar = unquoted(inner).filter(|(_, c, depth)| *c == '|' && *depth == 0).map(|(at, _, _)| at).last();
    let (path, filter) = match bar {
        None => (inner.trim(), None),
        Some(at) => {
            let filter = match inner[at + 1..].trim() {
                "json" => Filter::Json,
                "length" => Filter::Length,
                other => return Err(wrong(format!("there is no filter '{}'; use json or length", excerpt(other)))),
            };
            (inner[..at].trim(), Some(filter))
        }
    };
    let (root, rest) = word(path);
    let (root, rest) = match root {
        "args" => {
            let (name, _) = word(rest.strip_prefix('.').unwrap_or_default());
            if let Some(known) =
                names.arguments.filter(|known| !name.is_empty() && !known.iter().any(|one| one == name))
            {
                return Err(wrong(format!("argSchema has no '{}'; it has {}", excerpt(name), known.join(", "))));
            }
            (Root::Arguments, rest)
        }
        "index" if names.item.is_some() => (Root::Index, rest),
        "run" if rest == ".id" => (Root::RunId, ""),
        "steps" => {
            let (id, rest) = word(rest.strip_prefix('.').unwrap_or_default());
            let step = names.steps.iter().position(|step| step == id).ok_or_else(|| {
                wrong(format!("there is no step '{}'; there are {}", excerpt(id), names.steps.join(", ")))
            })?;
            let (part, rest) = word(rest.strip_prefix('.').unwrap_or_default());
            let part = match part {
                "value" => StepPart::Value,
                "ok" => StepPart::Ok,
                "error" => StepPart::Error,
                "status" => StepPart::Status,
                "ms" => StepPart::Milliseconds,
                _ => return Err(wrong(format!("after steps.{id} comes value, ok, error, status or ms"))),
            };
            (Root::Step(step, part), rest)
        }
        name if names.item == Some(name) => (Root::Item, rest),
        _ => {
            let item = names.item.map(|item| format!(", {item}, index")).unwrap_or_default();
            return Err(wrong(format!("a reference starts with args, steps.ID{item} or is run.id")));
        }
    };
    let path = match rest {
        "" => None,
        rest => {
            let text = format!("${rest}");
            let path = JsonPath::parse(&text).map_err(|error| wrong(format!("not a path: {error}")))?;
            Some((path, is_definite(&text)))
        }
    };
    Ok(Reference { root, path, filter, text: format!("${{{inner}}}") })
}

/// Splits off a leading name.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(template: Json) -> Result<Option<Json>, String> {
        let steps = ["a".to_owned(), "b-2".to_owned()];
        let node = Node::parse(&template, &Names { steps: &steps, arguments: None, item: Some("one") })?;
        let done = |value: Json| Some(StepResult { value, error: None, status: "done", milliseconds: 1.5 });
        let results = [done(json!({"list": [{"n": 1}, {"n": 2}], "text": "x}y"})), None];
        let (arguments, item) = (json!({"n": 3, "name": "Oslo", "none": null}), json!({"k|": true}));
        let scope = Scope { arguments: &arguments, steps: &results, item: Some((4, &item)), run_id: "r" };
        node.resolve(&scope, &mut Budget::new(1000)).map_err(|error| error.message)
    }

    #[test]
    fn a_reference_alone_keeps_its_type() {
        for (template, expected) in [
            (json!("${args.n}"), json!(3)),
            (json!("${args}"), json!({"n": 3, "name": "Oslo", "none": null})),
            (json!("${args.none}"), json!(null)),
            (json!("${steps.a.value.list[*].n}"), json!([1, 2])),
            (json!("${steps.a.value.list[?@.n > 1 || @.n < 0]}"), json!([{"n": 2}])),
            (json!("${steps.a.value.list | length}"), json!(2)),
            (json!("${steps.a.value.list[0]|json}"), json!("{\"n\":1}")),
            (json!("${steps.a.ok}"), json!(true)),
            (json!("${one['k|']}"), json!(true)),
            (json!("${index}"), json!(4)),
            (json!("n=${args.n} ${steps.a.value.list} ${args.gone}."), json!("n=3 [{\"n\":1},{\"n\":2}] .")),
            (json!("$${args.n} $5"), json!("${args.n} $5")),
            (json!({"a": "${args.gone}", "b": ["${args.gone}"], "c": null}), json!({"b": [null], "c": null})),
        ] {
            assert_eq!(resolved(template.clone()), Ok(Some(expected)), "{template}");
        }
        assert_eq!(resolved(json!("${args.gone}")), Ok(None));
        assert_eq!(resolved(json!("${steps.b-2.value}")), Ok(None));
    }

    #[test]
    fn what_a_reference_cannot_mean_is_refused() {
        for (template, part) in [
            ("${secrets.KEY}", "starts with args"),
            ("${steps.c.value}", "no step 'c'"),
            ("${steps.a}", "comes value, ok"),
            ("${args.n", "closing brace"),
            ("${args.n|upper}", "no filter 'upper'"),
            ("${args..}", "not a path"),
            ("${run.secret}", "starts with args"),
        ] {
            let error = resolved(json!(template)).unwrap_err();
            assert!(error.contains(part), "{template}: {error}");
        }
        let large = json!(["${args.name}".repeat(300)]);
        assert!(resolved(large).unwrap_err().contains("more than"));
    }
}
