//! Expressions whose inferred types hold when the code runs.
//!
//! A type checker believes annotations, and follows values only as far as it sees them: not into a function that changes
//! a list it was given, not through an attribute that somebody else sets. So its word counts only for what is grounded:
//! literals, text, displays, functions whose result has one type whatever they are given, and names that are bound to
//! nothing else. What comes out of a container, an attribute or another function is left to the run.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{CmpOp, Comprehension, Expr, ExprCall, ExprContext, ModModule, Operator, Stmt, UnaryOp};

use super::Facts;

/// Functions whose result has one type, whatever they are given.
#[rustfmt::skip]
const FIXED_FUNCTIONS: &[&str] = &[
    "all", "any", "bool", "chr", "dict", "float", "frozenset", "hash", "id", "int", "isinstance", "len", "list", "ord",
    "repr", "set", "sorted", "str", "tuple",
];

/// Methods of text whose result has one type.
#[rustfmt::skip]
const TEXT_METHODS: &[&str] = &[
    "capitalize", "count", "endswith", "find", "format", "isdigit", "join", "lower", "lstrip", "replace", "rfind",
    "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper", "zfill",
];

/// Names behind whose back no other is safe, or of which checkers have a view of their own.
const OPAQUE_NAMES: &[&str] =
    &["setattr", "delattr", "exec", "eval", "globals", "locals", "vars", "__import__", "TYPE_CHECKING"];

/// Modules by which checkers decide that a branch is never taken, on a platform that is not the sandbox.
const OPAQUE_MODULES: &[&str] = &["sys", "os", "platform", "typing"];

/// How deep an expression, or a chain of names, is followed.
const MAX_DEPTH: usize = 32;
/// How many expressions are looked at in all: names that are made of names that are made of names may be without end.
const MAX_STEPS: usize = 10_000;

/// What a name is bound to at one place.
enum Binding<'a> {
    Value(&'a Expr),
    /// The numbers of a `range`.
    Numbers,
    Other,
}

/// What the code's names are bound to.
pub(super) struct Grounds<'a> {
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    bindings: HashMap<&'a str, Vec<Binding<'a>>>,
    /// Names may change where their bindings do not show it.
    is_opaque: bool,
    /// Names that are being followed: a name that is made of itself is as grounded as the rest of it.
    followed: RefCell<HashSet<&'a str>>,
    steps: Cell<usize>,
}

impl<'a> Grounds<'a> {
    pub(super) fn of(module: &'a ModModule, facts: &'a Facts, is_pack: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        let is_opaque = OPAQUE_NAMES.iter().any(|name| facts.used.contains_key(*name) || facts.bound.contains(*name));
        let followed = RefCell::new(HashSet::new());
        let mut grounds = Self { facts, is_pack, bindings: HashMap::new(), is_opaque, followed, steps: Cell::new(0) };
        grounds.visit_body(&module.body);
        grounds
    }

    /// Whether a checker's word on this expression counts.
    pub(super) fn holds(&self, expr: &'a Expr) -> bool {
        !self.is_opaque && self.is_grounded(expr, 0)
    }

    fn is_grounded(&self, expr: &'a Expr, depth: usize) -> bool {
        self.steps.set(self.steps.get() + 1);
        if depth > MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return false;
        }
        let below = |expr: &'a Expr| self.is_grounded(expr, depth + 1);
        match expr {
            Expr::StringLiteral(_)
            | Expr::FString(_)
            | Expr::BooleanLiteral(_)
            | Expr::NoneLiteral(_)
            | Expr::NumberLiteral(_)
            | Expr::List(_)
            | Expr::Tuple(_)
            | Expr::Set(_)
            | Expr::Dict(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_) => true,
            Expr::UnaryOp(unary) => unary.op == UnaryOp::Not || below(&unary.operand),
            // Numbers of more than 64 bits become text on their way to a tool.
            Expr::BinOp(binary) => {
                !matches!(binary.op, Operator::Pow | Operator::LShift) && below(&binary.left) && below(&binary.right)
            }
            Expr::BoolOp(choice) => choice.values.iter().all(below),
            Expr::If(choice) => below(&choice.body) && below(&choice.orelse),
            Expr::Compare(compare) => {
                let is_truth = |op: &CmpOp| matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn);
                compare.ops.iter().all(is_truth) || (below(&compare.left) && compare.comparators.iter().all(below))
            }
            Expr::Call(call) => match &*call.func {
                Expr::Name(name) => self.is_builtin(&name.id) && FIXED_FUNCTIONS.contains(&name.id.as_str()),
                Expr::Attribute(attribute) => {
                    TEXT_METHODS.contains(&attribute.attr.as_str()) && below(&attribute.value)
                }
                _ => false,
            },
            Expr::Name(name) => self.is_grounded_name(&name.id, depth),
            _ => false,
        }
    }

    fn is_grounded_name(&self, name: &'a str, depth: usize) -> bool {
        let Some(bindings) = self.bindings.get(name) else { return false };
        if !self.followed.borrow_mut().insert(name) {
            return true;
        }
        let is_grounded = bindings.iter().all(|binding| match binding {
            Binding::Value(value) => self.is_grounded(value, depth + 1),
            Binding::Numbers => true,
            Binding::Other => false,
        });
        self.followed.borrow_mut().remove(name);
        is_grounded
    }

    fn is_builtin(&self, name: &str) -> bool {
        !self.facts.bound.contains(name) && !(self.is_pack)(name)
    }

    fn bind(&mut self, name: &'a str, binding: Binding<'a>) {
        self.bindings.entry(name).or_default().push(binding);
    }

    fn import(&mut self, module: &str) {
        self.is_opaque |= OPAQUE_MODULES.contains(&module.split('.').next().unwrap_or(module));
    }

    /// What a loop binds.
    fn bind_loop(&mut self, target: &'a Expr, iterable: &'a Expr) {
        let is_range =
            |call: &ExprCall| matches!(&*call.func, Expr::Name(name) if name.id == "range" && self.is_builtin("range"));
        match (target, iterable) {
            (Expr::Name(name), Expr::Call(call)) if is_range(call) => self.bind(&name.id, Binding::Numbers),
            _ => self.visit_expr(target),
        }
    }

    fn bind_value(&mut self, target: &'a Expr, value: &'a Expr) {
        match target {
            Expr::Name(name) => self.bind(&name.id, Binding::Value(value)),
            _ => self.visit_expr(target),
        }
    }
}

impl<'a> Visitor<'a> for Grounds<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Global(_) | Stmt::Nonlocal(_) => self.is_opaque = true,
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.bind_value(target, &assign.value);
                }
                self.visit_expr(&assign.value);
            }
            Stmt::AugAssign(assign) => {
                match assign.op {
                    Operator::Pow | Operator::LShift => self.visit_expr(&assign.target),
                    _ => self.bind_value(&assign.target, &assign.value),
                }
                self.visit_expr(&assign.value);
            }
            Stmt::For(each) => {
                self.bind_loop(&each.target, &each.iter);
                self.visit_expr(&each.iter);
                self.visit_body(&each.body);
                self.visit_body(&each.orelse);
            }
            Stmt::FunctionDef(function) => {
                self.bind(&function.name, Binding::Other);
                visitor::walk_stmt(self, stmt);
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name, Binding::Other);
                visitor::walk_stmt(self, stmt);
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(&alias.name);
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    self.bind(name.split('.').next().unwrap_or(name), Binding::Other);
                }
            }
            Stmt::ImportFrom(import) => {
                self.import(import.module.as_ref().map_or("", |module| module.as_str()));
                self.is_opaque |= import.names.iter().any(|alias| &alias.name == "*");
                for alias in &import.names {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str(), Binding::Other);
                }
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr
            && name.ctx != ExprContext::Load
        {
            self.bind(&name.id, Binding::Other);
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.bind_loop(&comprehension.target, &comprehension.iter);
        self.visit_expr(&comprehension.iter);
        for condition in &comprehension.ifs {
            self.visit_expr(condition);
        }
    }

    fn visit_parameter(&mut self, parameter: &'a ruff_python_ast::Parameter) {
        self.bind(&parameter.name, Binding::Other);
        visitor::walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ruff_python_ast::ExceptHandler) {
        let ruff_python_ast::ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bind(name, Binding::Other);
        }
        visitor::walk_except_handler(self, handler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last expression of the code is grounded.
    fn holds(code: &str) -> bool {
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        let facts = Facts::of(parsed.syntax(), code);
        let is_pack = |name: &str| name == "pack" || name == "hash";
        let grounds = Grounds::of(parsed.syntax(), &facts, &is_pack);
        let Some(Stmt::Expr(last)) = parsed.syntax().body.last() else { panic!("{code}") };
        grounds.holds(&last.value)
    }

    #[test]
    fn what_the_text_tells_is_grounded() {
        for code in [
            "f'{x}'",
            "[pack.f()]",
            "{'a': b}",
            "len(pack.f())",
            "n = len(x)\nn + 1",
            "n = 0\nn += 1\nn = n + 1\nn",
            "', '.join(x).split(',')",
            "for i in range(x):\n    pass\ni * 2",
            "x in y",
            "not x",
            "a = b = 'x'\nb if x else a",
        ] {
            assert!(holds(code), "{code}");
        }
    }

    #[test]
    fn what_may_change_unseen_is_not() {
        for code in [
            "pack.f()",
            "x",
            "x = pack.f()\nx",
            "d = {'a': 1}\nd['a']",
            "box.attribute",
            "x: int = 5\nx",
            "for x in [1]:\n    pass\nx",
            "x = 5\nfor x in pack.f():\n    pass\nx",
            "x = 5\ndef f():\n    global x\n    x = ''\nf()\nx",
            "x = 5\nglobals()['x'] = ''\nx",
            "x = 5\nx, y = pack.f()\nx",
            "x = 5\nimport x\nx",
            "def f():\n    return 5\nf()",
            "len = pack.f\nlen(1)",
            "hash(1)",
            "range = pack.f\nfor i in range(3):\n    pass\ni",
            "(x := 5)\nx",
            "max([1])",
            "x.split()",
            "x < y",
            "import sys as s\nx = 5\nif s.platform != 'linux':\n    x = ''\nx",
            "from typing import TYPE_CHECKING as T\nx = 5\nx",
            "TYPE_CHECKING = False\nx = 5\nx",
            "from m import *\nx = 5\nx",
            "10 ** 30",
            "x = 1\nx <<= 99\nx",
            "await pack.f()",
        ] {
            assert!(!holds(code), "{code}");
        }
    }

    #[test]
    fn long_chains_end() {
        let chain = (0..1000).map(|n| format!("x{} = x{n}\n", n + 1)).collect::<Vec<_>>().concat();
        assert!(!holds(&format!("x0 = 5\n{chain}x1000")));
        assert!(holds(&format!("{}1", "1 + ".repeat(5))));
        let line = |n: usize| format!("x{} = {}0\n", n + 1, format!("x{n} or ").repeat(500));
        let wide = (0..10).map(line).collect::<Vec<_>>().concat();
        assert!(!holds(&format!("x0 = 5\n{wide}x10")));
    }
}
