//! The bindings of a program's names, wherever they are.

use std::collections::HashMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprCall, ExprContext, ModModule, Operator, Parameter, Pattern, Stmt,
};

use crate::code::Facts;

/// Names through which other names can change unseen.
const OPAQUE_NAMES: &[&str] = &["setattr", "delattr", "exec", "eval", "globals", "locals", "vars", "__import__"];

/// Modules through which other names can change unseen.
const OPAQUE_MODULES: &[&str] = &["sys", "builtins", "inspect", "gc", "ctypes", "importlib"];

/// One binding of a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Binding<'a> {
    Value(&'a Expr),
    /// `name op= value`.
    Augmented(Operator, &'a Expr),
    /// A number from a `range`.
    Number,
    Unknown,
}

/// The bindings of a program, by name. Scopes are not distinguished: a name is certain only if all its bindings agree.
pub(super) struct Bindings<'a> {
    names: HashMap<&'a str, Vec<Binding<'a>>>,
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    /// Whether names may change where their bindings do not show it.
    pub(super) is_opaque: bool,
}

impl<'a> Bindings<'a> {
    pub(super) fn of(module: &'a ModModule, facts: &'a Facts, is_pack: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        let is_opaque = OPAQUE_NAMES.iter().any(|name| facts.used.contains_key(*name) || facts.bound.contains(*name));
        let mut bindings = Self { names: HashMap::new(), facts, is_pack, is_opaque };
        bindings.visit_body(&module.body);
        bindings
    }

    /// All bindings of a name; none for a builtin, a pack or an unknown name.
    pub(super) fn get(&self, name: &str) -> &[Binding<'a>] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a name refers to Python's builtin.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        !self.facts.bound.contains(name) && !(self.is_pack)(name)
    }

    /// Whether a name is a pack or an alias.
    pub(super) fn is_pack(&self, name: &str) -> bool {
        !self.facts.bound.contains(name) && (self.is_pack)(name)
    }

    fn bind(&mut self, name: &'a str, binding: Binding<'a>) {
        self.names.entry(name).or_default().push(binding);
    }

    fn bind_value(&mut self, target: &'a Expr, binding: Binding<'a>) {
        match target {
            Expr::Name(name) => self.bind(&name.id, binding),
            _ => self.visit_expr(target),
        }
    }

    fn bind_loop(&mut self, target: &'a Expr, iterable: &'a Expr) {
        let is_range =
            |call: &ExprCall| matches!(&*call.func, Expr::Name(name) if name.id == "range" && self.is_builtin("range"));
        match iterable {
            Expr::Call(call) if is_range(call) => self.bind_value(target, Binding::Number),
            _ => self.visit_expr(target),
        }
    }

    fn import(&mut self, module: &str) {
        self.is_opaque |= OPAQUE_MODULES.contains(&module.split('.').next().unwrap_or(module));
    }
}

impl<'a> Visitor<'a> for Bindings<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Global(_) | Stmt::Nonlocal(_) => self.is_opaque = true,
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.bind_value(target, Binding::Value(&assign.value));
                }
                self.visit_expr(&assign.value);
            }
            Stmt::AugAssign(assign) => {
                self.bind_value(&assign.target, Binding::Augmented(assign.op, &assign.value));
                self.visit_expr(&assign.value);
            }
            Stmt::For(each) => {
                self.bind_loop(&each.target, &each.iter);
                self.visit_expr(&each.iter);
                self.visit_body(&each.body);
                self.visit_body(&each.orelse);
            }
            Stmt::FunctionDef(function) => {
                self.bind(&function.name, Binding::Unknown);
                visitor::walk_stmt(self, stmt);
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name, Binding::Unknown);
                visitor::walk_stmt(self, stmt);
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(&alias.name);
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    self.bind(name.split('.').next().unwrap_or(name), Binding::Unknown);
                }
            }
            Stmt::ImportFrom(import) => {
                self.import(import.module.as_ref().map_or("", |module| module.as_str()));
                self.is_opaque |= import.names.iter().any(|alias| &alias.name == "*");
                for alias in &import.names {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str(), Binding::Unknown);
                }
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx != ExprContext::Load => self.bind(&name.id, Binding::Unknown),
            Expr::Named(named) => {
                self.bind_value(&named.target, Binding::Value(&named.value));
                self.visit_expr(&named.value);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.bind_loop(&comprehension.target, &comprehension.iter);
        self.visit_expr(&comprehension.iter);
        for condition in &comprehension.ifs {
            self.visit_expr(condition);
        }
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(&parameter.name, Binding::Unknown);
        visitor::walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bind(name, Binding::Unknown);
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(inner) => inner.name.as_ref(),
            Pattern::MatchStar(inner) => inner.name.as_ref(),
            Pattern::MatchMapping(inner) => inner.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name, Binding::Unknown);
        }
        visitor::walk_pattern(self, pattern);
    }
}
