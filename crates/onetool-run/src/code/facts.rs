//! What the other modules need to know about the code: how it ends, which names it binds, and its magic variables.

use std::collections::HashSet;

use indexmap::{IndexMap, IndexSet};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, ModModule, Stmt};
use ruff_text_size::Ranged as _;

/// The value of a magic variable.
#[derive(Debug, Clone, PartialEq)]
pub enum MagicValue {
    /// A literal assigned at the top level: known without running anything.
    Text(String),
    Truth(bool),
    /// Known only at run time.
    Computed,
}

/// Variables through which code sets options.
pub const MAGIC: &[&str] = &["__format__", "__sanitize__", "__check__"];

/// The variable that names the code's session.
pub const SESSION: &str = "__session__";

/// What the code requests about its session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionRequest {
    /// Nothing.
    #[default]
    None,
    /// `__session__ = "name"`.
    Named { name: String, ends: bool },
    /// `__session__ = None` alone: ends the session that was used last.
    End,
    /// Not known before the code runs.
    Unclear,
}

/// What is known about the code.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The last statement is an expression: its value is the run's.
    pub ends_with_expression: bool,
    /// The last expression or returned value, if it is a single call of this name (`ot.tools`, `ws`) and nothing else.
    pub last_call: Option<String>,
    /// There is a `return` outside any function.
    pub returns_at_top: bool,
    /// `await`, `async` or `asyncio` occur.
    pub uses_async: bool,
    /// There is an `await` outside any function.
    pub awaits_at_top: bool,
    /// Every name that the code binds anywhere.
    pub bound: HashSet<String>,
    /// The names among them that it binds outside functions and classes.
    pub top_level: IndexSet<String>,
    pub session: SessionRequest,
    /// Names that the code reads and may not have bound, each with its first use.
    pub used: IndexMap<String, Use>,
    pub magic: IndexMap<&'static str, MagicValue>,
    /// Nothing but comments.
    pub is_empty: bool,
}

/// How a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Called,
    Attribute,
    Read,
}

impl Facts {
    pub(crate) fn of(module: &ModModule, source: &str) -> Self {
        let mut collector = Collector { facts: Self::default(), function_depth: 0, class_depth: 0 };
        collector.visit_body(&module.body);
        let mut facts = collector.facts;
        facts.is_empty = module.body.is_empty();
        facts.uses_async |= source.contains("asyncio");
        facts.ends_with_expression = matches!(module.body.last(), Some(Stmt::Expr(_)));
        let last = match module.body.last() {
            Some(Stmt::Expr(last)) => Some(&last.value),
            Some(Stmt::Return(last)) => last.value.as_ref(),
            _ => None,
        };
        facts.last_call = last.and_then(|value| facts.name_called(value));
        for statement in &module.body {
            if let Stmt::Assign(assign) = statement
                && let [Expr::Name(target)] = assign.targets.as_slice()
                && let Some(name) = MAGIC.iter().find(|name| **name == target.id)
            {
                facts.magic.insert(name, magic_value(&assign.value));
            }
        }
        facts.session = session_wish(module, &facts);
        for name in MAGIC {
            // Bound elsewhere too: which binding counts is known only at run time.
            if facts.bound.contains(*name) && !facts.magic.contains_key(name) {
                facts.magic.insert(name, MagicValue::Computed);
            }
        }
        facts
    }

    /// The name of the tool or alias that `value` calls, if it is a call and nothing else.
    fn name_called(&self, value: &Expr) -> Option<String> {
        let value = match value {
            Expr::Await(awaited) => &*awaited.value,
            other => other,
        };
        let Expr::Call(call) = value else { return None };
        let free = |name: &str| !self.bound.contains(name);
        match &*call.func {
            Expr::Name(name) if free(&name.id) => Some(name.id.to_string()),
            Expr::Attribute(attribute) => match &*attribute.value {
                Expr::Name(pack) if free(&pack.id) => Some(format!("{}.{}", pack.id, attribute.attr)),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn magic(&self, name: &str) -> Option<&MagicValue> {
        self.magic.get(name)
    }

    /// Magic variables whose value is known only at run time.
    pub fn computed_magic(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.magic.iter().filter(|(_, value)| **value == MagicValue::Computed).map(|(name, _)| *name)
    }
}

fn session_wish(module: &ModModule, facts: &Facts) -> SessionRequest {
    let mut wish = SessionRequest::None;
    for statement in &module.body {
        let Stmt::Assign(assign) = statement else { continue };
        let [Expr::Name(target)] = assign.targets.as_slice() else { continue };
        if target.id != SESSION {
            continue;
        }
        wish = match (&*assign.value, wish) {
            (Expr::StringLiteral(text), SessionRequest::None | SessionRequest::End) => {
                SessionRequest::Named { name: text.value.to_str().to_owned(), ends: false }
            }
            (Expr::StringLiteral(text), SessionRequest::Named { name, .. }) if text.value.to_str() == name => {
                SessionRequest::Named { name, ends: false }
            }
            (Expr::NoneLiteral(_), SessionRequest::Named { name, .. }) => SessionRequest::Named { name, ends: true },
            (Expr::NoneLiteral(_), SessionRequest::None | SessionRequest::End) => SessionRequest::End,
            _ => return SessionRequest::Unclear,
        };
    }
    if wish == SessionRequest::None && facts.bound.contains(SESSION) { SessionRequest::Unclear } else { wish }
}

pub(super) fn magic_value(value: &Expr) -> MagicValue {
    match value {
        Expr::StringLiteral(text) => MagicValue::Text(text.value.to_str().to_owned()),
        Expr::BooleanLiteral(truth) => MagicValue::Truth(truth.value),
        _ => MagicValue::Computed,
    }
}

struct Collector {
    facts: Facts,
    function_depth: usize,
    class_depth: usize,
}

impl Collector {
    fn used(&mut self, name: &str, how: Use) {
        if !self.facts.used.contains_key(name) {
            self.facts.used.insert(name.to_owned(), how);
        }
    }

    fn bind(&mut self, name: &str) {
        if !self.facts.bound.contains(name) {
            self.facts.bound.insert(name.to_owned());
        }
        if self.function_depth + self.class_depth == 0 && !self.facts.top_level.contains(name) {
            self.facts.top_level.insert(name.to_owned());
        }
    }
}

impl<'a> Visitor<'a> for Collector {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                self.bind(&function.name);
                self.facts.uses_async |= function.is_async;
                self.function_depth += 1;
                visitor::walk_stmt(self, stmt);
                self.function_depth -= 1;
                return;
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name);
                self.class_depth += 1;
                visitor::walk_stmt(self, stmt);
                self.class_depth -= 1;
                return;
            }
            Stmt::Return(_) if self.function_depth == 0 => self.facts.returns_at_top = true,
            Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.bind(name.split('.').next().unwrap_or(name));
                }
            }
            Stmt::ImportFrom(import) => {
                for alias in &import.names {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name));
                }
            }
            Stmt::With(with) if with.is_async => self.facts.uses_async = true,
            Stmt::For(each) if each.is_async => self.facts.uses_async = true,
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => match name.ctx {
                ExprContext::Load => self.used(&name.id, Use::Read),
                _ => self.bind(&name.id),
            },
            Expr::Call(call) => {
                if let Expr::Name(name) = &*call.func {
                    self.used(&name.id, Use::Called);
                }
            }
            Expr::Attribute(attribute) => {
                if let Expr::Name(name) = &*attribute.value {
                    self.used(&name.id, Use::Attribute);
                }
            }
            Expr::Await(_) => {
                self.facts.uses_async = true;
                self.facts.awaits_at_top |= self.function_depth == 0;
            }
            // Their targets are in a scope of their own.
            Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) | Expr::Generator(_) => {
                self.class_depth += 1;
                visitor::walk_expr(self, expr);
                self.class_depth -= 1;
                return;
            }
            Expr::Lambda(_) => {
                self.function_depth += 1;
                visitor::walk_expr(self, expr);
                self.function_depth -= 1;
                return;
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_parameter(&mut self, parameter: &'a ruff_python_ast::Parameter) {
        self.bind(&parameter.name);
        visitor::walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ruff_python_ast::ExceptHandler) {
        let ruff_python_ast::ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bind(name);
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a ruff_python_ast::Pattern) {
        use ruff_python_ast::Pattern;
        match pattern {
            Pattern::MatchAs(inner) => {
                if let Some(name) = &inner.name {
                    self.bind(name);
                }
            }
            Pattern::MatchStar(inner) => {
                if let Some(name) = &inner.name {
                    self.bind(name);
                }
            }
            _ => {}
        }
        visitor::walk_pattern(self, pattern);
    }
}

/// Where the last expression statement begins.
pub(super) fn last_expression_start(module: &ModModule) -> Option<ruff_text_size::TextSize> {
    match module.body.last() {
        Some(Stmt::Expr(last)) => Some(last.start()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(code: &str) -> Facts {
        Facts::of(ruff_python_parser::parse_module(code).unwrap().syntax(), code)
    }

    #[test]
    fn a_session_is_named_ended_or_unclear() {
        let named = |name: &str, ends| SessionRequest::Named { name: name.to_owned(), ends };
        for (code, wish) in [
            ("1", SessionRequest::None),
            ("__session__ = 'a'\nx = 1", named("a", false)),
            ("x = 1\n__session__ = 'a'\n__session__ = None", named("a", true)),
            ("__session__ = None", SessionRequest::End),
            ("__session__ = 'a' + 'b'", SessionRequest::Unclear),
            ("__session__ = 'a'\n__session__ = 'b'", SessionRequest::Unclear),
            ("if 1:\n    __session__ = 'a'", SessionRequest::Unclear),
        ] {
            assert_eq!(facts(code).session, wish, "{code}");
        }
    }

    #[test]
    fn only_names_of_the_top_level_last() {
        let code =
            "import os.path as p\nfor i in x:\n    y = 1\ndef f(a):\n    b = 1\nclass C:\n    d = 2\n[z for z in x]";
        let found: Vec<String> = facts(code).top_level.into_iter().collect();
        assert_eq!(found, ["p", "i", "y", "f", "C"]);
    }
}
