//! Classes of a tool file that describe data: dataclasses, typed dicts, models, named tuples and enumerations,
//! converted to the types that a caller writes: `{path: str, line?: int}`, `Literal['red', 'blue']`.

use std::collections::HashMap;

use onetool_sdk::Value;
use ruff_python_ast::{Expr, Stmt, StmtClassDef};
use serde_json::{Map, json};

use super::annotation::{MAX_DEPTH, Place, TypeReading, last_name, literal, read_type};

/// A type whose text would be longer is shown only by its kind.
const MAX_TEXT: usize = 400;
/// Maximum number of fields read from a class.
const MAX_FIELDS: usize = 64;
/// Maximum depth of inheritance.
const MAX_BASES: usize = 8;

/// The classes of a file, by name.
#[derive(Default)]
pub(super) struct Classes<'a> {
    source: &'a str,
    by_name: HashMap<&'a str, &'a StmtClassDef>,
}

/// The kind of data that a class describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Enumeration,
    /// A dict with fields; `total` if all of them are required unless they say otherwise.
    Fields {
        total: bool,
    },
}

struct Field {
    name: String,
    required: bool,
    reading: TypeReading,
}

impl<'a> Classes<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        Self { source, by_name: HashMap::new() }
    }

    pub(super) fn insert(&mut self, class: &'a StmtClassDef) {
        self.by_name.insert(class.name.as_str(), class);
    }

    /// Returns the type that a class represents, if it describes data.
    pub(super) fn read(&self, name: &str, depth: usize) -> Option<TypeReading> {
        let class = self.by_name.get(name)?;
        // A quoted annotation may lead here, but the names it uses are those of the file itself.
        let place = &Place { source: self.source, classes: self };
        if depth >= MAX_DEPTH {
            return None;
        }
        match self.kind(class, 0)? {
            Kind::Enumeration => enumeration(class),
            Kind::Fields { total } => {
                let mut fields = Vec::new();
                let renamed = self.fields(class, place, depth, total, &mut fields, 0);
                Some(object(fields, renamed))
            }
        }
    }

    /// Returns the value of a member of an enumeration.
    pub(super) fn member(&self, name: &str, member: &str) -> Option<Value> {
        let class = self.by_name.get(name)?;
        if !matches!(self.kind(class, 0)?, Kind::Enumeration) {
            return None;
        }
        class.body.iter().find_map(|statement| match statement {
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [Expr::Name(target)] if target.id.as_str() == member => literal(&assign.value),
                _ => None,
            },
            _ => None,
        })
    }

    fn kind(&self, class: &StmtClassDef, bases: usize) -> Option<Kind> {
        let decorated =
            class.decorator_list.iter().any(|decorator| called_name(&decorator.expression) == Some("dataclass"));
        if decorated {
            return Some(Kind::Fields { total: true });
        }
        let arguments = class.arguments.as_ref()?;
        let partial = arguments.keywords.iter().any(|keyword| {
            keyword.arg.as_ref().is_some_and(|name| name.as_str() == "total")
                && matches!(&keyword.value, Expr::BooleanLiteral(literal) if !literal.value)
        });
        arguments.args.iter().find_map(|base| match last_name(base)? {
            "Enum" | "StrEnum" | "IntEnum" => Some(Kind::Enumeration),
            "TypedDict" => Some(Kind::Fields { total: !partial }),
            "BaseModel" | "NamedTuple" => Some(Kind::Fields { total: true }),
            other if bases < MAX_BASES => self.kind(self.by_name.get(other)?, bases + 1),
            _ => None,
        })
    }

    /// Collects the fields, those of base classes first. Returns whether some have an alias.
    fn fields(
        &self,
        class: &StmtClassDef,
        place: &Place<'_>,
        depth: usize,
        total: bool,
        fields: &mut Vec<Field>,
        bases: usize,
    ) -> bool {
        let mut renamed = false;
        let parents = class.arguments.iter().flat_map(|arguments| &arguments.args).filter_map(last_name);
        for parent in parents.filter_map(|name| self.by_name.get(name)).take(MAX_BASES) {
            if bases < MAX_BASES {
                renamed |= self.fields(parent, place, depth, total, fields, bases + 1);
            }
        }
        for statement in &class.body {
            let Stmt::AnnAssign(field) = statement else { continue };
            let Expr::Name(name) = &*field.target else { continue };
            let wrapper = match &*field.annotation {
                Expr::Subscript(subscript) => last_name(&subscript.value),
                other => last_name(other),
            };
            if name.id.starts_with('_') || wrapper == Some("ClassVar") || fields.len() >= MAX_FIELDS {
                continue;
            }
            let default = field.value.as_deref();
            renamed |= default.is_some_and(|default| keyword(default, "alias").is_some());
            let required = match wrapper {
                Some("NotRequired") => false,
                Some("Required") => true,
                _ => total && !has_default(default),
            };
            let reading = read_type(&field.annotation, place, depth + 1);
            let read = Field { name: name.id.to_string(), required, reading };
            match fields.iter_mut().find(|known| known.name == read.name) {
                Some(known) => *known = read,
                None => fields.push(read),
            }
        }
        renamed
    }
}

/// Whether a field has a default. `Field(...)` and `field()` without a default have none.
fn has_default(value: Option<&Expr>) -> bool {
    match value {
        None => false,
        Some(Expr::Call(call)) if matches!(last_name(&call.func), Some("Field" | "field")) => {
            let first = call.arguments.args.first();
            let positional = first.is_some_and(|first| !matches!(first, Expr::EllipsisLiteral(_)));
            positional
                || ["default", "default_factory"].iter().any(|name| {
                    call.arguments
                        .keywords
                        .iter()
                        .any(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str() == *name))
                })
        }
        Some(_) => true,
    }
}

fn keyword<'a>(value: &'a Expr, name: &str) -> Option<&'a Expr> {
    let Expr::Call(call) = value else { return None };
    let found =
        call.arguments.keywords.iter().find(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str() == name));
    found.map(|keyword| &keyword.value)
}

fn called_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Call(call) => last_name(&call.func),
        other => last_name(other),
    }
}

/// Returns the values of an enumeration, or `None` if some are known only at run time.
fn enumeration(class: &StmtClassDef) -> Option<TypeReading> {
    let mut values: Vec<Value> = Vec::new();
    for statement in &class.body {
        let Stmt::Assign(assign) = statement else { continue };
        let [Expr::Name(name)] = assign.targets.as_slice() else { continue };
        if name.id.starts_with('_') {
            continue;
        }
        // `auto()` is not a literal: in a `StrEnum` it is the name in lower case, in others an arbitrary number.
        match literal(&assign.value)? {
            value @ (Value::Str(_) | Value::Int(_)) => values.push(value),
            _ => return None,
        }
    }
    if values.is_empty() {
        return None;
    }
    let python = format!("Literal[{}]", values.iter().map(Value::repr).collect::<Vec<_>>().join(", "));
    let schema = json!({"enum": values.iter().map(Value::to_json).collect::<Vec<_>>()});
    Some(TypeReading::exact(if python.len() > MAX_TEXT { "str".to_owned() } else { python }, schema))
}

fn object(fields: Vec<Field>, renamed: bool) -> TypeReading {
    let exact = !renamed && fields.iter().all(|field| field.reading.exact);
    let texts = fields.iter().map(|field| {
        let optional = if field.required { "" } else { "?" };
        format!("{}{optional}: {}", field.name, field.reading.python)
    });
    let python = format!("{{{}}}", texts.collect::<Vec<_>>().join(", "));
    let python = if python.len() > MAX_TEXT { "dict".to_owned() } else { python };
    if renamed {
        return TypeReading::inexact(python, json!({"type": "object"}));
    }
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    let mut schema = json!({"type": "object", "required": required});
    let properties: Map<String, serde_json::Value> =
        fields.iter().map(|field| (field.name.clone(), field.reading.schema.clone())).collect();
    schema["properties"] = properties.into();
    TypeReading { exact, ..TypeReading::exact(python, schema) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation;

    fn python(source: &str, annotation: &str) -> String {
        let module = ruff_python_parser::parse_module(source).unwrap();
        let mut classes = Classes::of(source);
        for statement in &module.syntax().body {
            if let Stmt::ClassDef(class) = statement {
                classes.insert(class);
            }
        }
        let parsed = ruff_python_parser::parse_expression(annotation).unwrap();
        annotation::read(parsed.expr(), annotation, &classes).python
    }

    #[test]
    fn classes_of_data_are_spelled_out() {
        for (source, annotation, expected) in [
            (
                "@dataclass(frozen=True)\nclass Comment:\n    path: str\n    line: int = 1\n    tags: list[str] = field(default_factory=list)\n",
                "list[Comment]",
                "list[{path: str, line?: int, tags?: list[str]}]",
            ),
            (
                "class A(TypedDict):\n    a: int\nclass B(A):\n    b: NotRequired[str]\n",
                "B | None",
                "{a: int, b?: str} | None",
            ),
            ("class C(TypedDict, total=False):\n    c: int\n    d: Required[str]\n", "C", "{c?: int, d: str}"),
            (
                "class M(pydantic.BaseModel):\n    name: str = Field(description='x')\n    n: int = Field(5)\n    k: ClassVar[int] = 1\n",
                "M",
                "{name: str, n?: int}",
            ),
            ("class Color(str, Enum):\n    RED = 'red'\n    BLUE = 'blue'\n", "Color", "Literal['red', 'blue']"),
            (
                "class P(NamedTuple):\n    x: float\n    c: 'Color'\nclass Color(Enum):\n    R = 1\n",
                "P",
                "{x: float, c: Literal[1]}",
            ),
            ("class Plain:\n    x: int\n", "Plain", "Plain"),
            ("class Odd(Enum):\n    A = auto()\n", "Odd", "Odd"),
        ] {
            assert_eq!(python(source, annotation), expected, "{source}");
        }
    }

    #[test]
    fn classes_that_hold_themselves_end() {
        let source = "@dataclass\nclass Node:\n    name: str\n    children: list['Node']\nclass L(L):\n    x: int\n";
        assert!(python(source, "Node").len() <= 4 * MAX_TEXT);
        assert_eq!(python(source, "L"), "L");
    }
}
