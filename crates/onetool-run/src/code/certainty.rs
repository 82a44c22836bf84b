//! Whether types that are inferred from the text hold when it runs.
//!
//! A type checker believes annotations, and follows values only as far as it sees them: not into a function that changes
//! a list it was given, not through an attribute that somebody else sets. Code that does such things is not judged by its
//! types. Better to let a wrong call run into its own error than to refuse a right one.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, ModModule, Parameters, Stmt};

use super::Facts;

/// Methods that change nothing; what others do inside a function is not followed.
const HARMLESS_METHODS: &[&str] = &[
    "copy", "count", "decode", "encode", "endswith", "find", "format", "get", "index", "isdigit", "isoformat", "items",
    "join", "keys", "lower", "lstrip", "partition", "replace", "rstrip", "split", "splitlines", "startswith", "strip",
    "title", "upper", "values",
];

/// Functions behind whose back no type is safe.
const OPAQUE_FUNCTIONS: &[&str] = &["setattr", "delattr", "exec", "eval", "globals", "locals", "vars", "__import__"];

/// Whether the types that a checker infers can be relied upon.
pub(super) fn types_hold(module: &ModModule, facts: &Facts, is_pack: &(dyn Fn(&str) -> bool + Sync)) -> bool {
    if OPAQUE_FUNCTIONS.iter().any(|name| facts.used.contains_key(*name)) {
        return false;
    }
    let mut functions = HashSet::new();
    for statement in &module.body {
        if let Stmt::FunctionDef(function) = statement {
            functions.insert(function.name.as_str());
        }
    }
    let mut doubts = Doubts { facts, is_pack, functions, depth: 0, found: false };
    doubts.visit_body(&module.body);
    !doubts.found
}

struct Doubts<'a> {
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    /// Functions that the code defines at its top.
    functions: HashSet<&'a str>,
    /// How many functions are around.
    depth: usize,
    found: bool,
}

impl Doubts<'_> {
    fn is_pack(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Name(name) if (self.is_pack)(&name.id) && !self.facts.bound.contains(name.id.as_str()))
    }

    fn inside(&mut self, walk: impl FnOnce(&mut Self)) {
        self.depth += 1;
        walk(self);
        self.depth -= 1;
    }

    /// A name that may stand for anything at all, called where its effect is not seen.
    fn is_unknown_function(&self, name: &str) -> bool {
        self.facts.bound.contains(name) && !self.functions.contains(name)
    }
}

impl<'a> Visitor<'a> for Doubts<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Global(_) | Stmt::Nonlocal(_) | Stmt::AnnAssign(_) | Stmt::ClassDef(_) | Stmt::With(_) => {
                self.found = true;
            }
            Stmt::AugAssign(_) if self.depth > 0 => self.found = true,
            Stmt::FunctionDef(function) => {
                self.found |= function.returns.is_some()
                    || !function.decorator_list.is_empty()
                    || is_annotated(&function.parameters);
                self.inside(|inner| visitor::walk_stmt(inner, stmt));
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(_) => return self.inside(|inner| visitor::walk_expr(inner, expr)),
            Expr::Attribute(attribute) => {
                self.found |= attribute.ctx != ExprContext::Load
                    || (self.depth > 0
                        && !self.is_pack(&attribute.value)
                        && !HARMLESS_METHODS.contains(&attribute.attr.as_str()));
            }
            Expr::Subscript(subscript) if subscript.ctx == ExprContext::Store => {
                // What stands under a key that is written down is taken for what was last put there.
                let is_written_down = subscript.slice.is_literal_expr() || subscript.slice.is_unary_op_expr();
                self.found |= self.depth > 0 || is_written_down;
            }
            Expr::Call(call) if self.depth > 0 => {
                if let Expr::Name(name) = &*call.func {
                    self.found |= self.is_unknown_function(&name.id);
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

fn is_annotated(parameters: &Parameters) -> bool {
    parameters.iter().any(|parameter| parameter.annotation().is_some())
}
