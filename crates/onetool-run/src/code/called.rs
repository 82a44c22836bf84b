//! The full dotted names that the code calls, with imports and their aliases resolved: `from os import system as s;
//! s()` calls `os.system`.

use std::collections::HashMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_text_size::Ranged as _;

/// Every dotted name that is called, and every module that is imported, with its line.
pub fn called_names(module: &ModModule, source: &str) -> Vec<(String, u32)> {
    let mut imports = Imports { names: HashMap::new() };
    imports.visit_body(&module.body);
    let mut calls = Calls { source, imports: imports.names, found: Vec::new() };
    calls.visit_body(&module.body);
    calls.found
}

struct Imports {
    names: HashMap<String, String>,
}

impl<'a> Visitor<'a> for Imports {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    if let Some(name) = &alias.asname {
                        self.names.insert(name.to_string(), alias.name.to_string());
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let from = import.module.as_ref().map(ToString::to_string).unwrap_or_default();
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.names.insert(name.to_string(), format!("{from}.{}", alias.name));
                }
            }
            // `f = os.system` is an alias for it.
            Stmt::Assign(assign) => {
                if let ([Expr::Name(name)], Some(target)) = (assign.targets.as_slice(), dotted(&assign.value)) {
                    self.names.insert(name.id.to_string(), resolve(&target, &self.names));
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }
}

struct Calls<'a> {
    source: &'a str,
    imports: HashMap<String, String>,
    found: Vec<(String, u32)>,
}

impl Calls<'_> {
    fn line(&self, at: ruff_text_size::TextSize) -> u32 {
        self.source[..at.to_usize()].matches('\n').count() as u32 + 1
    }
}

impl<'a> Visitor<'a> for Calls<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.found.push((alias.name.to_string(), self.line(stmt.start())));
                }
            }
            Stmt::ImportFrom(import) => {
                if let Some(module) = &import.module {
                    self.found.push((module.to_string(), self.line(stmt.start())));
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && let Some(name) = dotted(&call.func)
        {
            self.found.push((resolve(&name, &self.imports), self.line(call.start())));
        }
        visitor::walk_expr(self, expr);
    }
}

fn dotted(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(format!("{}.{}", dotted(&attribute.value)?, attribute.attr)),
        _ => None,
    }
}

fn resolve(name: &str, imports: &HashMap<String, String>) -> String {
    let (head, rest) = name.split_once('.').map_or((name, ""), |(head, rest)| (head, rest));
    match imports.get(head) {
        Some(full) if rest.is_empty() => full.clone(),
        Some(full) => format!("{full}.{rest}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_for_a_thing_are_seen_through() {
        let code = "from os import system as s\nimport subprocess as sp\ns('x')\nsp.run('y')\nf = eval\nf('1')";
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        let names: Vec<String> = called_names(parsed.syntax(), code).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["os", "subprocess", "os.system", "subprocess.run", "eval"]);
    }
}
