//! Infers the kinds of expressions, where they are certain.
//!
//! Certain are literals, text, displays, builtins whose result has one type whatever their arguments, the results of
//! operators on those, the declared results of tools, and names whose bindings all agree. What comes from a container,
//! an attribute or a function of the program is not: it may change where the source does not show it. Neither is an
//! integer that may exceed 64 bits, because it becomes text when passed to a tool.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{CmpOp, Expr, ExprCall, ModModule, Number, Operator, UnaryOp};

use super::Kind;
use super::bindings::{Binding, Bindings};
use crate::code::Facts;

/// Builtins whose result has one kind, whatever their arguments.
#[rustfmt::skip]
const BUILTINS: &[(&str, Kind)] = &[
    ("all", Kind::Truth), ("any", Kind::Truth), ("bool", Kind::Truth), ("chr", Kind::Text), ("dict", Kind::Dict),
    ("float", Kind::Float), ("frozenset", Kind::List), ("hash", Kind::Integer), ("id", Kind::Integer),
    ("isinstance", Kind::Truth), ("len", Kind::Integer), ("list", Kind::List), ("ord", Kind::Integer),
    ("repr", Kind::Text), ("set", Kind::List), ("sorted", Kind::List), ("str", Kind::Text), ("tuple", Kind::List),
];

/// Methods of text whose result has one kind.
#[rustfmt::skip]
const TEXT_METHODS: &[(&str, Kind)] = &[
    ("capitalize", Kind::Text), ("count", Kind::Integer), ("endswith", Kind::Truth), ("find", Kind::Integer),
    ("format", Kind::Text), ("isdigit", Kind::Truth), ("join", Kind::Text), ("lower", Kind::Text),
    ("lstrip", Kind::Text), ("replace", Kind::Text), ("rfind", Kind::Integer), ("rsplit", Kind::List),
    ("rstrip", Kind::Text), ("split", Kind::List), ("splitlines", Kind::List), ("startswith", Kind::Truth),
    ("strip", Kind::Text), ("title", Kind::Text), ("upper", Kind::Text), ("zfill", Kind::Text),
];

/// Maximum depth of an expression, or of a chain of names.
const MAX_DEPTH: usize = 32;
/// Maximum number of expressions examined: names defined by other names may form very long chains.
const MAX_STEPS: usize = 50_000;

/// What is known about an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inferred {
    Kind(Kind),
    /// The result of a tool: `pack.function`, or an alias.
    ResultOf {
        pack: String,
        function: Option<String>,
    },
    Unknown,
}

/// Infers kinds in one program.
pub struct Inference<'a> {
    pub(super) bindings: Bindings<'a>,
    /// Names whose kind is being inferred, with the kind assumed meanwhile: none, or that of their other bindings.
    assumed: RefCell<HashMap<&'a str, Option<Kind>>>,
    steps: Cell<usize>,
}

impl<'a> Inference<'a> {
    pub fn of(module: &'a ModModule, facts: &'a Facts, is_pack: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        Self { bindings: Bindings::of(module, facts, is_pack), assumed: RefCell::default(), steps: Cell::new(0) }
    }

    /// What is certain about an argument, if its call is reached under these tests: each with the outcome that leads to
    /// the call, if only one does.
    pub fn argument(&self, value: &'a Expr, tests: &[(&'a Expr, Option<bool>)]) -> Inferred {
        if self.bindings.is_opaque || !tests.iter().all(|(test, outcome)| self.lets_pass(test, *outcome, value)) {
            return Inferred::Unknown;
        }
        self.kind(value, 0)
    }

    /// Whether a test does not rule out this value in the call: its outcome is known to match, or it uses unrelated
    /// names.
    fn lets_pass(&self, test: &'a Expr, outcome: Option<bool>, value: &'a Expr) -> bool {
        match (self.constant(test, 0), outcome) {
            (Some(constant), Some(outcome)) => constant.is_true() == outcome,
            _ => self.names_behind(test).is_disjoint(&self.names_behind(value)),
        }
    }

    /// All names that an expression depends on, directly or through other names.
    fn names_behind(&self, expr: &'a Expr) -> HashSet<&'a str> {
        let mut found = HashSet::new();
        let mut rest = self.names_in(expr);
        while let Some(name) = rest.pop() {
            if self.step(0) && found.insert(name) {
                for binding in self.bindings.get(name) {
                    if let Binding::Value(value) | Binding::Augmented(_, value) = binding {
                        rest.extend(self.names_in(value));
                    }
                }
            }
        }
        found
    }

    fn names_in(&self, expr: &'a Expr) -> Vec<&'a str> {
        let mut names = Names { found: Vec::new(), steps: 0 };
        if self.step(0) {
            names.visit_expr(expr);
        }
        self.steps.set(self.steps.get() + names.steps);
        names.found
    }

    /// Counts an expression; `false` if the limit is exceeded.
    pub(super) fn step(&self, depth: usize) -> bool {
        self.steps.set(self.steps.get() + 1);
        depth <= MAX_DEPTH && self.steps.get() <= MAX_STEPS
    }

    pub(super) fn kind(&self, expr: &'a Expr, depth: usize) -> Inferred {
        if !self.step(depth) {
            return Inferred::Unknown;
        }
        let below = |expr: &'a Expr| self.kind(expr, depth + 1);
        let kind = match expr {
            Expr::StringLiteral(_) | Expr::FString(_) => Some(Kind::Text),
            Expr::BooleanLiteral(_) => Some(Kind::Truth),
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) => int.as_i64().map(|_| Kind::Integer),
                Number::Float(_) => Some(Kind::Float),
                Number::Complex { .. } => None,
            },
            Expr::List(_) | Expr::Tuple(_) | Expr::Set(_) | Expr::ListComp(_) | Expr::SetComp(_) => Some(Kind::List),
            Expr::Dict(_) | Expr::DictComp(_) => Some(Kind::Dict),
            Expr::UnaryOp(unary) => match (unary.op, below(&unary.operand)) {
                (UnaryOp::Not, _) => Some(Kind::Truth),
                (UnaryOp::USub | UnaryOp::UAdd, Inferred::Kind(kind @ (Kind::Integer | Kind::Float))) => Some(kind),
                _ => None,
            },
            Expr::BinOp(binary) => match (below(&binary.left), below(&binary.right)) {
                (Inferred::Kind(left), Inferred::Kind(right)) => {
                    let is_bounded = || self.is_bounded(binary.op, &binary.left, &binary.right, depth);
                    combined(binary.op, left, right, is_bounded)
                }
                _ => None,
            },
            Expr::BoolOp(choice) => return common(choice.values.iter().map(below)),
            Expr::If(choice) => return common([below(&choice.body), below(&choice.orelse)]),
            Expr::Compare(compare) => {
                let is_truth = |op: &CmpOp| matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn);
                let is_known = |expr: &'a Expr| matches!(below(expr), Inferred::Kind(_));
                let certain = compare.ops.iter().all(is_truth)
                    || (is_known(&compare.left) && compare.comparators.iter().all(is_known));
                certain.then_some(Kind::Truth)
            }
            Expr::Call(call) => return self.call(call, depth),
            Expr::Await(awaited) => return below(&awaited.value),
            Expr::Named(named) => return below(&named.value),
            Expr::Name(name) => return self.name(&name.id, depth),
            _ => None,
        };
        kind.map_or(Inferred::Unknown, Inferred::Kind)
    }

    fn call(&self, call: &'a ExprCall, depth: usize) -> Inferred {
        let fixed = |table: &[(&str, Kind)], name: &str| {
            let found = table.iter().find(|(known, _)| *known == name);
            found.map_or(Inferred::Unknown, |(_, kind)| Inferred::Kind(*kind))
        };
        match &*call.func {
            Expr::Name(name) if self.bindings.is_pack(&name.id) => {
                Inferred::ResultOf { pack: name.id.to_string(), function: None }
            }
            Expr::Name(name) if self.bindings.is_builtin(&name.id) => fixed(BUILTINS, &name.id),
            Expr::Attribute(attribute) => match &*attribute.value {
                Expr::Name(name) if self.bindings.is_pack(&name.id) => {
                    Inferred::ResultOf { pack: name.id.to_string(), function: Some(attribute.attr.to_string()) }
                }
                text if self.kind(text, depth + 1) == Inferred::Kind(Kind::Text) => {
                    fixed(TEXT_METHODS, &attribute.attr)
                }
                _ => Inferred::Unknown,
            },
            _ => Inferred::Unknown,
        }
    }

    /// Infers the kind of a name: the one that all its bindings share. A binding that refers to the name itself (`n +=
    /// 1`) is checked with the kind of the other bindings, and must preserve it.
    fn name(&self, name: &'a str, depth: usize) -> Inferred {
        if let Some(assumed) = self.assumed.borrow().get(name) {
            return assumed.map_or(Inferred::Unknown, Inferred::Kind);
        }
        let bindings = self.bindings.get(name);
        let is_about_itself = |binding: &&Binding<'a>| match binding {
            Binding::Augmented(..) => true,
            Binding::Value(value) => self.names_behind(value).contains(name),
            Binding::Number | Binding::Unknown => false,
        };
        let (about_itself, plain): (Vec<_>, Vec<_>) = bindings.iter().partition(is_about_itself);
        let found = common(plain.into_iter().map(|binding| match binding {
            Binding::Value(value) => self.kind(value, depth + 1),
            Binding::Number => Inferred::Kind(Kind::Integer),
            Binding::Augmented(..) | Binding::Unknown => Inferred::Unknown,
        }));
        let (Inferred::Kind(kind), false) = (&found, about_itself.is_empty()) else { return found };
        let kind = *kind;
        self.assumed.borrow_mut().insert(name, Some(kind));
        let stays = about_itself.into_iter().all(|binding| {
            let next = match binding {
                Binding::Value(value) => self.kind(value, depth + 1),
                Binding::Augmented(op, value) => match self.kind(value, depth + 1) {
                    Inferred::Kind(other) => {
                        let is_sum = matches!(op, Operator::Add | Operator::Sub);
                        let is_bounded = || is_sum && self.constant(value, depth + 1).is_some();
                        combined(op, kind, other, is_bounded).map_or(Inferred::Unknown, Inferred::Kind)
                    }
                    _ => Inferred::Unknown,
                },
                Binding::Number | Binding::Unknown => Inferred::Unknown,
            };
            next == Inferred::Kind(kind)
        });
        self.assumed.borrow_mut().remove(name);
        if stays { Inferred::Kind(kind) } else { Inferred::Unknown }
    }

    /// Whether an operation on integers stays below 64 bits in practice: sums with a constant do, products only if both
    /// factors are known.
    fn is_bounded(&self, op: Operator, left: &'a Expr, right: &'a Expr, depth: usize) -> bool {
        let is_constant = |expr: &'a Expr| self.constant(expr, depth + 1).is_some();
        match op {
            Operator::Add | Operator::Sub => is_constant(left) || is_constant(right),
            _ => is_constant(left) && is_constant(right),
        }
    }
}

/// Returns the kind that all share.
fn common(all: impl IntoIterator<Item = Inferred>) -> Inferred {
    let mut all = all.into_iter();
    let Some(first) = all.next() else { return Inferred::Unknown };
    if all.all(|other| other == first) { first } else { Inferred::Unknown }
}

/// The kind that an operator produces from two values.
fn combined(op: Operator, left: Kind, right: Kind, is_bounded: impl FnOnce() -> bool) -> Option<Kind> {
    let is_integer = |kind| matches!(kind, Kind::Integer | Kind::Truth);
    let is_number = |kind| is_integer(kind) || kind == Kind::Float;
    match (op, left, right) {
        (Operator::Add, Kind::Text, Kind::Text) | (Operator::Mod, Kind::Text, _) => Some(Kind::Text),
        (Operator::Mult, Kind::Text, other) | (Operator::Mult, other, Kind::Text) if is_integer(other) => {
            Some(Kind::Text)
        }
        (Operator::Add, Kind::List, Kind::List) => Some(Kind::List),
        (Operator::Mult, Kind::List, other) | (Operator::Mult, other, Kind::List) if is_integer(other) => {
            Some(Kind::List)
        }
        (Operator::BitOr, Kind::Dict, Kind::Dict) => Some(Kind::Dict),
        (Operator::Div, left, right) if is_number(left) && is_number(right) => Some(Kind::Float),
        (Operator::Add | Operator::Sub | Operator::Mult | Operator::FloorDiv | Operator::Mod, left, right) => {
            let whole = is_integer(left) && is_integer(right);
            match op {
                _ if whole && matches!(op, Operator::FloorDiv | Operator::Mod) => Some(Kind::Integer),
                _ if whole => is_bounded().then_some(Kind::Integer),
                _ => (is_number(left) && is_number(right)).then_some(Kind::Float),
            }
        }
        _ => None,
    }
}

/// The names in an expression.
struct Names<'a> {
    found: Vec<&'a str>,
    steps: usize,
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        self.steps += 1;
        if let Expr::Name(name) = expr {
            self.found.push(&name.id);
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use ruff_python_ast::Stmt;

    use super::*;

    /// What is inferred about the code's last expression.
    fn inferred(code: &str) -> Inferred {
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        let facts = Facts::of(parsed.syntax(), code);
        let is_pack = |name: &str| name == "pack" || name == "hash";
        let inference = Inference::of(parsed.syntax(), &facts, &is_pack);
        let Some(Stmt::Expr(last)) = parsed.syntax().body.last() else { panic!("{code}") };
        inference.argument(&last.value, &[])
    }

    #[test]
    fn what_the_text_tells_is_certain() {
        for (code, kind) in [
            ("f'{x}'", Kind::Text),
            ("[pack.f()]", Kind::List),
            ("{'a': b}", Kind::Dict),
            ("len(pack.f())", Kind::Integer),
            ("n = len(x)\nn + 1", Kind::Integer),
            ("n = 0\nn += 1\nn = n + 1\nn", Kind::Integer),
            ("n = 3 * 2\nn", Kind::Integer),
            ("', '.join(x).split(',')", Kind::List),
            ("for i in range(x):\n    pass\ni + 2", Kind::Integer),
            ("x in y", Kind::Truth),
            ("not x", Kind::Truth),
            ("a = b = 'x'\nb if x else a", Kind::Text),
            ("(x := 5)\nx", Kind::Integer),
            ("4 / 2", Kind::Float),
            ("s = ''\nfor x in y:\n    s += str(x)\ns", Kind::Text),
            ("items = [1] + [2]\nitems", Kind::List),
        ] {
            assert_eq!(inferred(code), Inferred::Kind(kind), "{code}");
        }
        let result = Inferred::ResultOf { pack: "pack".to_owned(), function: Some("f".to_owned()) };
        assert_eq!(inferred("x = pack.f()\nx"), result);
        assert_eq!(inferred("x = await pack.f()\nx"), result);
    }

    #[test]
    fn what_may_change_unseen_is_not() {
        for code in [
            "x",
            "d = {'a': 1}\nd['a']",
            "box.attribute",
            "x: int = 5\nx",
            "for x in [1]:\n    pass\nx",
            "x = 5\nfor x in pack.f():\n    pass\nx",
            "x = 5\ndef f():\n    global x\n    x = ''\nf()\nx",
            "x = 5\nglobals()['x'] = ''\nx",
            "x = 5\nx, y = pack.f()\nx",
            "x = 5\nimport x\nx",
            "x = 5\nmatch y:\n    case [x]: pass\nx",
            "def f():\n    return 5\nf()",
            "len = pack.f\nlen(1)",
            "hash = pack.f\nhash(1)",
            "range = pack.f\nfor i in range(3):\n    pass\ni",
            "max([1])",
            "x.split()",
            "x < y",
            "import sys as s\nx = 5\nx",
            "from m import *\nx = 5\nx",
            "10 ** 30",
            "x = 1\nx <<= 99\nx",
            "n = len(x)\nn * n",
            "n = 1\nfor i in x:\n    n += n\nn",
            "n = 1\nfor i in x:\n    n *= 2\nn",
            "int(x)",
            "n = True\nn += 1\nn",
            "n = 0\nn += 0.5\nn",
            "x = pack.f()\nx = 5\nx",
            "x = x\nx",
            "x = y\ny = x\nx",
        ] {
            assert_eq!(inferred(code), Inferred::Unknown, "{code}");
        }
    }

    #[test]
    fn long_chains_end() {
        let chain = (0..1000).map(|n| format!("x{} = x{n}\n", n + 1)).collect::<Vec<_>>().concat();
        assert_eq!(inferred(&format!("x0 = 5\n{chain}x1000")), Inferred::Unknown);
        assert_eq!(inferred(&format!("{}1", "1 + ".repeat(5))), Inferred::Kind(Kind::Integer));
        let line = |n: usize| format!("x{} = {}0\n", n + 1, format!("x{n} or ").repeat(500));
        let wide = (0..10).map(line).collect::<Vec<_>>().concat();
        assert_eq!(inferred(&format!("x0 = 5\n{wide}x10")), Inferred::Unknown);
    }
}
