//! Releases the variable that holds the run's value when the value is returned.
//!
//! The interpreter keeps its variables until the run has ended. A large value would otherwise be held twice in the
//! child, in the variable and as the result, while the server allocates memory for it as well.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_text_size::Ranged as _;

use super::Edit;

/// Replaces a final `x` by `[x, x := None][0]`, where `x` is a variable that may be large.
pub(super) fn edit(module: &ModModule) -> Option<Edit> {
    let (last, before) = module.body.split_last()?;
    let Stmt::Expr(last) = last else { return None };
    let Expr::Name(name) = &*last.value else { return None };
    let name = name.id.as_str();
    // Presentation options are read after the run.
    if name.starts_with("__") {
        return None;
    }
    let mut bindings = Bindings { name, is_computed: false };
    bindings.visit_body(before);
    bindings.is_computed.then(|| Edit { range: last.value.range(), text: format!("[{name}, {name} := None][0]") })
}

/// Finds out whether a variable is assigned anything but a literal.
struct Bindings<'a> {
    name: &'a str,
    is_computed: bool,
}

impl Bindings<'_> {
    fn is_it(&self, target: &Expr) -> bool {
        matches!(target, Expr::Name(name) if name.id.as_str() == self.name)
    }
}

impl<'a> Visitor<'a> for Bindings<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            // They have their own scope.
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            Stmt::Assign(assign) => {
                self.is_computed |=
                    !assign.value.is_literal_expr() && assign.targets.iter().any(|target| self.is_it(target));
            }
            Stmt::AugAssign(assign) => self.is_computed |= self.is_it(&assign.target),
            _ => visitor::walk_stmt(self, statement),
        }
    }

    // No relevant expression binds a name, and walking long chains takes stack.
    fn visit_expr(&mut self, _: &'a Expr) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::apply;

    fn edited(code: &str) -> String {
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        apply(code, edit(parsed.syntax()).into_iter().collect())
    }

    #[test]
    fn a_computed_variable_is_let_go_of() {
        assert_eq!(edited("x = f()\nx"), "x = f()\n[x, x := None][0]");
        assert_eq!(
            edited("s = ''\nfor i in y:\n    s += i\ns  # all"),
            "s = ''\nfor i in y:\n    s += i\n[s, s := None][0]  # all"
        );
    }

    #[test]
    fn nothing_else_is_touched() {
        for code in
            ["x", "x = 1\nx", "x = f()\nx.y", "x = f()\ny", "def g():\n    x = f()\nx", "x = f()\nif x:\n    x", ""]
        {
            assert_eq!(edited(code), code);
        }
    }
}
