//! `import brave`, where `brave` is a pack: packs need no import, but models often write one.
//!
//! Such an import is replaced by its meaning, on the same line: nothing for `import brave`, `b = brave` for `import
//! brave as b`, `search = brave.search` for `from brave import search`. A standard library module takes precedence over
//! a pack of the same name.

use onetool_sandbox::is_standard_module;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Alias, Identifier, ModModule, Stmt};
use ruff_text_size::Ranged as _;

use super::{Edit, apply};

/// Code with the imports of packs replaced.
pub(super) struct Replaced {
    pub(super) text: String,
    /// Whether a pack or function has another name in the code.
    pub(super) renames: bool,
}

/// Replaces the imports of packs in the code; `None` if it has none.
pub(super) fn without_packs(
    source: &str,
    module: &ModModule,
    is_pack: &(dyn Fn(&str) -> bool + Sync),
) -> Option<Replaced> {
    if !source.contains("import") {
        return None;
    }
    let is_pack = |name: &str| is_pack(name) && !is_standard_module(name);
    let mut finder = Finder { source, is_pack: &is_pack, edits: Vec::new(), renames: false };
    finder.visit_body(&module.body);
    let Finder { edits, renames, .. } = finder;
    (!edits.is_empty()).then(|| Replaced { text: apply(source, edits), renames })
}

struct Finder<'a> {
    source: &'a str,
    is_pack: &'a dyn Fn(&str) -> bool,
    edits: Vec<Edit>,
    renames: bool,
}

impl<'a> Visitor<'a> for Finder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        let replaced = match statement {
            Stmt::Import(import) => self.plain(&import.names),
            Stmt::ImportFrom(import) if import.level == 0 => match &import.module {
                Some(module) if (self.is_pack)(module) => self.members(module, &import.names),
                _ => None,
            },
            _ => None,
        };
        match replaced {
            Some(statements) => {
                let range = statement.range();
                let lines = self.source[range.start().to_usize()..range.end().to_usize()].matches('\n').count();
                self.edits.push(Edit { range, text: in_lines(statements, lines) });
            }
            None => visitor::walk_stmt(self, statement),
        }
    }
}

impl Finder<'_> {
    fn plain(&mut self, names: &[Alias]) -> Option<Vec<String>> {
        if !names.iter().any(|name| (self.is_pack)(&name.name)) {
            return None;
        }
        let mut statements = Vec::new();
        for name in names {
            let module = name.name.as_str();
            let local = name.asname.as_ref().map(Identifier::as_str);
            match local {
                Some(local) if (self.is_pack)(module) && local != module => {
                    self.renames = true;
                    statements.push(format!("{local} = {module}"));
                }
                _ if (self.is_pack)(module) => {}
                Some(local) => statements.push(format!("import {module} as {local}")),
                None => statements.push(format!("import {module}")),
            }
        }
        Some(statements)
    }

    /// Returns `None` for `*`, because the names are not known.
    fn members(&mut self, pack: &str, names: &[Alias]) -> Option<Vec<String>> {
        if names.iter().any(|name| &name.name == "*") {
            return None;
        }
        self.renames = true;
        let bind = |name: &Alias| format!("{} = {pack}.{}", name.asname.as_ref().unwrap_or(&name.name), name.name);
        Some(names.iter().map(bind).collect())
    }
}

/// Joins statements into one logical line that spans as many lines as before.
fn in_lines(mut statements: Vec<String>, lines: usize) -> String {
    if statements.is_empty() {
        statements.push("pass".to_owned());
    }
    let text = statements.join("; ");
    if lines == 0 {
        return text;
    }
    // Only an expression in parentheses may span lines.
    format!("{text}; ({})", "\n".repeat(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(source: &str) -> Option<String> {
        let parsed = ruff_python_parser::parse_module(source).unwrap();
        without_packs(source, parsed.syntax(), &|name| name == "brave" || name == "json").map(|replaced| replaced.text)
    }

    #[test]
    fn imports_of_packs_become_what_they_mean() {
        for (source, expected) in [
            ("import brave", "pass"),
            ("import brave as b", "b = brave"),
            ("import os, brave, re as r", "import os; import re as r"),
            ("from brave import search", "search = brave.search"),
            ("from brave import search as s, two", "s = brave.search; two = brave.two"),
            ("from brave import (\n    search,\n)\nx", "search = brave.search; (\n\n)\nx"),
            ("def f():\n    import brave\n    return 1", "def f():\n    pass\n    return 1"),
        ] {
            assert_eq!(replaced(source).as_deref(), Some(expected), "{source}");
        }
        for source in ["import json", "import os", "from brave import *", "from .brave import x", "x = 'import brave'"]
        {
            assert_eq!(replaced(source), None, "{source}");
        }
    }
}
