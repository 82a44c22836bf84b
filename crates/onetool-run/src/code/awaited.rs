//! Marks the calls that the code awaits, so that they run at the same time.
//!
//! A call `pack.f()` returns its value at once, which is what most code expects. After `await`, inside `asyncio.gather`
//! and similar functions, and where it is assigned to a name that is gathered later, it must return an awaitable
//! instead: such calls get another name, which the sandbox recognises.

use std::collections::HashSet;

use onetool_sandbox::WrittenName;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use super::{Edit, Facts};

/// Functions whose arguments are awaited.
const GATHERING: &[&str] =
    &["gather", "wait", "wait_for", "create_task", "ensure_future", "shield", "as_completed", "run"];

pub(super) fn edits(module: &ModModule, facts: &Facts, is_pack: &(dyn Fn(&str) -> bool + Sync), edits: &mut Vec<Edit>) {
    let mut gathered = Gathered { names: HashSet::new() };
    gathered.visit_body(&module.body);
    let mut marker = Marker { facts, is_pack, gathered: gathered.names, edits };
    marker.visit_body(&module.body);
}

/// Names that are awaited or gathered directly: `await x`, `gather(*x)`.
struct Gathered {
    names: HashSet<String>,
}

impl Gathered {
    fn take(&mut self, expr: &Expr) {
        match expr {
            Expr::Name(name) => {
                self.names.insert(name.id.to_string());
            }
            Expr::Starred(starred) => self.take(&starred.value),
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Gathered {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Await(awaited) => self.take(&awaited.value),
            Expr::Call(call) if is_gathering(call) => {
                for argument in &call.arguments.args {
                    self.take(argument);
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

fn is_gathering(call: &ExprCall) -> bool {
    match &*call.func {
        Expr::Attribute(attribute) => GATHERING.contains(&attribute.attr.as_str()),
        Expr::Name(name) => GATHERING.contains(&name.id.as_str()),
        _ => false,
    }
}

struct Marker<'e, 'f> {
    facts: &'f Facts,
    is_pack: &'f (dyn Fn(&str) -> bool + Sync),
    gathered: HashSet<String>,
    edits: &'e mut Vec<Edit>,
}

impl Marker<'_, '_> {
    /// Marks the calls that make up this expression: the expression itself, or the elements of a display or
    /// comprehension. Calls in the arguments of a marked call are not marked.
    fn mark(&mut self, expr: &Expr) {
        match expr {
            Expr::Call(call) => self.mark_call(call),
            Expr::Starred(starred) => self.mark(&starred.value),
            Expr::List(list) => list.elts.iter().for_each(|item| self.mark(item)),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|item| self.mark(item)),
            Expr::Set(set) => set.elts.iter().for_each(|item| self.mark(item)),
            Expr::ListComp(comprehension) => self.mark(&comprehension.elt),
            Expr::SetComp(comprehension) => self.mark(&comprehension.elt),
            Expr::Generator(comprehension) => self.mark(&comprehension.elt),
            Expr::If(choice) => {
                self.mark(&choice.body);
                self.mark(&choice.orelse);
            }
            _ => {}
        }
    }

    fn mark_call(&mut self, call: &ExprCall) {
        let is_pack = |name: &str| (self.is_pack)(name) && !self.facts.bound.contains(name);
        let start = match &*call.func {
            Expr::Attribute(attribute) => match &*attribute.value {
                Expr::Name(name) if is_pack(&name.id) => attribute.attr.start(),
                _ => return,
            },
            Expr::Name(name) if is_pack(&name.id) => name.start(),
            _ => return,
        };
        let range = TextRange::empty(start);
        if !self.edits.iter().any(|edit| edit.range == range) {
            self.edits.push(Edit { range, text: WrittenName::AWAITED_MARK.to_owned() });
        }
    }

    fn is_gathered(&self, target: &Expr) -> bool {
        matches!(target, Expr::Name(name) if self.gathered.contains(name.id.as_str()))
    }
}

impl<'a> Visitor<'a> for Marker<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) if assign.targets.iter().any(|target| self.is_gathered(target)) => {
                self.mark(&assign.value);
            }
            Stmt::AnnAssign(assign) if self.is_gathered(&assign.target) => {
                if let Some(value) = &assign.value {
                    self.mark(value);
                }
            }
            Stmt::AugAssign(assign) if self.is_gathered(&assign.target) => self.mark(&assign.value),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Await(awaited) => self.mark(&awaited.value),
            Expr::Call(call) if is_gathering(call) => call.arguments.args.iter().for_each(|item| self.mark(item)),
            // `tasks.append(pack.f())`
            Expr::Call(call) => {
                if let Expr::Attribute(attribute) = &*call.func
                    && matches!(attribute.attr.as_str(), "append" | "extend" | "add")
                    && self.is_gathered(&attribute.value)
                {
                    call.arguments.args.iter().for_each(|item| self.mark(item));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}
