//! Converts annotations and defaults in a syntax tree to self-contained Python text, and to JSON Schema.
//!
//! An unknown type gives a schema that accepts everything and is marked inexact: the tool then checks its arguments
//! itself.

use onetool_sdk::Value;
use ruff_python_ast::{Expr, Number, Operator, UnaryOp};
use ruff_text_size::Ranged as _;
use serde_json::{Map, Value as Json, json};

use super::classes::Classes;

/// Maximum nesting of types.
pub(super) const MAX_DEPTH: usize = 12;

/// A parsed type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypeReading {
    /// Python source.
    pub(super) python: String,
    pub(super) schema: Json,
    /// Whether `python` and `schema` are complete, so that a call can be checked before it runs.
    pub(super) exact: bool,
    /// From `Annotated[T, "text"]` or `Annotated[T, Field(description="text")]`.
    pub(super) description: Option<String>,
}

impl TypeReading {
    pub(super) fn exact(python: impl Into<String>, schema: Json) -> Self {
        Self { python: python.into(), schema, exact: true, description: None }
    }

    pub(super) fn inexact(python: impl Into<String>, schema: Json) -> Self {
        Self { exact: false, ..Self::exact(python, schema) }
    }
}

/// Reads an annotation, which may name classes of its file.
pub(super) fn read(annotation: &Expr, source: &str, classes: &Classes<'_>) -> TypeReading {
    read_type(annotation, &Place { source, classes }, 0)
}

/// The context of an annotation.
pub(super) struct Place<'a> {
    pub(super) source: &'a str,
    pub(super) classes: &'a Classes<'a>,
}

pub(super) fn read_type(annotation: &Expr, place: &Place<'_>, depth: usize) -> TypeReading {
    let unknown = || TypeReading::inexact(text_of(annotation, place.source), json!({}));
    if depth > MAX_DEPTH {
        return TypeReading::inexact("Any", json!({}));
    }
    match annotation {
        Expr::NoneLiteral(_) => TypeReading::exact("None", json!({"type": "null"})),
        Expr::Name(_) | Expr::Attribute(_) => {
            let name = last_name(annotation);
            let known = name.and_then(|name| plain_type(name, depth).or_else(|| place.classes.read(name, depth)));
            known.unwrap_or_else(unknown)
        }
        // A quoted annotation.
        Expr::StringLiteral(literal) => {
            let inner = literal.value.to_str().to_owned();
            match ruff_python_parser::parse_expression(&inner) {
                Ok(parsed) => read_type(parsed.expr(), &Place { source: &inner, classes: place.classes }, depth + 1),
                Err(_) => unknown(),
            }
        }
        Expr::BinOp(union) if union.op == Operator::BitOr => {
            let mut members = Vec::new();
            union_members(annotation, &mut members, 0);
            union_of(members.into_iter().map(|member| read_type(member, place, depth + 1)))
        }
        Expr::Subscript(subscript) => {
            let arguments: Vec<&Expr> = match &*subscript.slice {
                Expr::Tuple(tuple) => tuple.elts.iter().collect(),
                single => vec![single],
            };
            last_name(&subscript.value)
                .and_then(|name| generic_type(name, &arguments, place, depth))
                .unwrap_or_else(unknown)
        }
        _ => unknown(),
    }
}

fn union_members<'a>(expression: &'a Expr, members: &mut Vec<&'a Expr>, depth: usize) {
    match expression {
        Expr::BinOp(union) if union.op == Operator::BitOr && depth < 64 => {
            union_members(&union.left, members, depth + 1);
            union_members(&union.right, members, depth + 1);
        }
        other => members.push(other),
    }
}

/// Returns `str` for `builtins.str`.
pub(super) fn last_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}

fn plain_type(name: &str, depth: usize) -> Option<TypeReading> {
    let array = || json!({"type": "array"});
    let text = |format: &str| json!({"type": "string", "format": format});
    Some(match name {
        "str" | "int" | "float" | "bool" | "bytes" => TypeReading::exact(name, scalar_schema(name)),
        "list" | "List" => TypeReading::exact("list", array()),
        "dict" | "Dict" => TypeReading::exact("dict", json!({"type": "object"})),
        "tuple" | "Tuple" => TypeReading::exact("tuple", array()),
        "set" | "Set" => TypeReading::exact("set", array()),
        "frozenset" | "FrozenSet" => TypeReading::exact("frozenset", array()),
        "Any" | "object" => TypeReading::exact("Any", json!({})),
        "None" | "NoneType" => TypeReading::exact("None", json!({"type": "null"})),
        "Sequence" | "Iterable" | "Collection" => TypeReading::inexact(name, array()),
        "Mapping" | "MutableMapping" => TypeReading::inexact(name, json!({"type": "object"})),
        "Path" | "PurePath" if depth <= MAX_DEPTH => TypeReading::inexact("Path", json!({"type": "string"})),
        "datetime" => TypeReading::inexact("datetime", text("date-time")),
        "date" => TypeReading::inexact("date", text("date")),
        _ => return None,
    })
}

fn scalar_schema(name: &str) -> Json {
    match name {
        "int" => json!({"type": "integer"}),
        "float" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        _ => json!({"type": "string"}),
    }
}

fn generic_type(name: &str, arguments: &[&Expr], place: &Place<'_>, depth: usize) -> Option<TypeReading> {
    let inner = |index: usize| arguments.get(index).map(|argument| read_type(argument, place, depth + 1));
    Some(match name {
        "Optional" => union_of([inner(0)?, TypeReading::exact("None", json!({"type": "null"}))].into_iter()),
        "Union" => union_of(arguments.iter().map(|argument| read_type(argument, place, depth + 1))),
        "list" | "List" | "set" | "Set" | "frozenset" | "FrozenSet" => {
            sequence_of(&name.to_lowercase(), &inner(0)?, TypeReading::exact)
        }
        "Sequence" | "Iterable" | "Collection" => sequence_of(name, &inner(0)?, TypeReading::inexact),
        "tuple" | "Tuple" => {
            let members: Vec<TypeReading> = arguments
                .iter()
                .filter(|argument| !matches!(argument, Expr::EllipsisLiteral(_)))
                .map(|argument| read_type(argument, place, depth + 1))
                .collect();
            let repeated = members.len() < arguments.len();
            let mut names: Vec<&str> = members.iter().map(|member| member.python.as_str()).collect();
            if repeated {
                names.push("...");
            }
            let python = format!("tuple[{}]", names.join(", "));
            let schema = match members.as_slice() {
                [only] if repeated => json!({"type": "array", "items": only.schema}),
                _ => json!({"type": "array", "minItems": members.len(), "maxItems": members.len()}),
            };
            TypeReading { exact: members.iter().all(|member| member.exact), ..TypeReading::exact(python, schema) }
        }
        "dict" | "Dict" | "Mapping" | "MutableMapping" => {
            let (key, value) = (inner(0)?, inner(1)?);
            let is_dict = matches!(name, "dict" | "Dict");
            let python = format!("{}[{}, {}]", if is_dict { "dict" } else { name }, key.python, value.python);
            let schema = json!({"type": "object", "additionalProperties": value.schema});
            TypeReading { exact: is_dict && key.exact && value.exact, ..TypeReading::exact(python, schema) }
        }
        "Literal" => {
            let values: Option<Vec<Value>> = arguments.iter().map(|argument| literal(argument)).collect();
            let values = values?;
            let python = values.iter().map(Value::repr).collect::<Vec<_>>().join(", ");
            let schema = json!({"enum": values.iter().map(Value::to_json).collect::<Vec<_>>()});
            TypeReading::exact(format!("Literal[{python}]"), schema)
        }
        "Annotated" => {
            let description = arguments.iter().skip(1).find_map(|argument| match argument {
                Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
                Expr::Call(call) => call.arguments.keywords.iter().find_map(|keyword| {
                    let named = keyword.arg.as_ref().is_some_and(|name| name.as_str() == "description");
                    match &keyword.value {
                        Expr::StringLiteral(text) if named => Some(text.value.to_str().to_owned()),
                        _ => None,
                    }
                }),
                _ => None,
            });
            TypeReading { description, ..inner(0)? }
        }
        "Required" | "NotRequired" | "Final" | "ClassVar" => inner(0)?,
        _ => return None,
    })
}

fn sequence_of(name: &str, item: &TypeReading, make: fn(String, Json) -> TypeReading) -> TypeReading {
    let reading = make(format!("{name}[{}]", item.python), json!({"type": "array", "items": item.schema}));
    TypeReading { exact: reading.exact && item.exact, ..reading }
}

fn union_of(members: impl Iterator<Item = TypeReading>) -> TypeReading {
    let mut names: Vec<String> = Vec::new();
    let mut schemas: Vec<Json> = Vec::new();
    let mut exact = true;
    for member in members {
        exact &= member.exact;
        if !names.contains(&member.python) {
            names.push(member.python);
            schemas.push(member.schema);
        }
    }
    // One schema that accepts everything makes the union accept everything.
    let schema = if schemas.iter().any(|schema| schema.as_object().is_some_and(Map::is_empty)) {
        json!({})
    } else {
        json!({ "anyOf": schemas })
    };
    TypeReading { exact, ..TypeReading::exact(names.join(" | "), schema) }
}

/// Evaluates a literal: numbers, text, booleans, `None`, and lists, tuples and dicts of them.
pub(super) fn literal(expression: &Expr) -> Option<Value> {
    literal_at(expression, 0)
}

fn literal_at(expression: &Expr, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let items = |items: &[Expr]| items.iter().map(|item| literal_at(item, depth + 1)).collect::<Option<Vec<_>>>();
    Some(match expression {
        Expr::NoneLiteral(_) => Value::None,
        Expr::BooleanLiteral(literal) => Value::Bool(literal.value),
        Expr::StringLiteral(literal) => Value::Str(literal.value.to_str().to_owned()),
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(int) => Value::Int(int.as_i64()?),
            Number::Float(float) => Value::Float(*float),
            Number::Complex { .. } => return None,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => match literal_at(&unary.operand, depth + 1)? {
            Value::Int(int) => Value::Int(int.checked_neg()?),
            Value::Float(float) => Value::Float(-float),
            _ => return None,
        },
        Expr::List(list) => Value::List(items(&list.elts)?),
        Expr::Tuple(tuple) => Value::Tuple(items(&tuple.elts)?),
        Expr::Dict(dict) => Value::Dict(
            dict.items
                .iter()
                .map(|item| Some((literal_at(item.key.as_ref()?, depth + 1)?, literal_at(&item.value, depth + 1)?)))
                .collect::<Option<Vec<_>>>()?,
        ),
        _ => return None,
    })
}

/// Returns the source of an expression, on one line.
pub(super) fn text_of(expression: &Expr, source: &str) -> String {
    let range = expression.range();
    let text = source.get(range.start().to_usize()..range.end().to_usize()).unwrap_or("...");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(source: &str) -> TypeReading {
        let parsed = ruff_python_parser::parse_expression(source).unwrap();
        read(parsed.expr(), source, &Classes::default())
    }

    #[test]
    fn types_become_plain_python_and_schema() {
        for (source, python, schema) in [
            ("str", "str", json!({"type": "string"})),
            ("typing.Optional[int]", "int | None", json!({"anyOf": [{"type": "integer"}, {"type": "null"}]})),
            ("List['str']", "list[str]", json!({"type": "array", "items": {"type": "string"}})),
            ("Dict[str, Any]", "dict[str, Any]", json!({"type": "object", "additionalProperties": {}})),
            ("Literal['a', -1, None]", "Literal['a', -1, None]", json!({"enum": ["a", -1, null]})),
            ("tuple[int, ...]", "tuple[int, ...]", json!({"type": "array", "items": {"type": "integer"}})),
            ("int | str | int", "int | str", json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})),
        ] {
            assert_eq!(reading(source), TypeReading::exact(python, schema), "{source}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_exact() {
        for source in ["Foo", "list[Foo]", "Callable[[int], str]", "Path", "Foo | None", "f(1)", "'not a type ['"] {
            assert!(!reading(source).exact, "{source}");
        }
        assert_eq!(reading("Foo | None").schema, json!({}));
    }

    #[test]
    fn descriptions_stand_in_annotations_too() {
        assert_eq!(reading("Annotated[str, 'the name']").description.as_deref(), Some("the name"));
        assert_eq!(reading("Annotated[int, Field(ge=1, description='n')]").description.as_deref(), Some("n"));
    }
}
