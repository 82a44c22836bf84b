//! Code that needs full Python for reasons other than its syntax: standard modules used without an import, files,
//! packages, and a coroutine as its value.

use onetool_sandbox::{Need, is_standard_module};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Stmt};

use super::facts::{Facts, Use};

/// Modules that give access to files. In full Python they call the `file` pack.
const FILE_MODULES: &[&str] = &["os", "pathlib", "glob", "shutil", "tempfile", "io", "fileinput"];

/// Why the code needs full Python, if it does.
pub(super) fn need(module: &ModModule, facts: &Facts, is_pack: &dyn Fn(&str) -> bool) -> Option<Need> {
    let is_free = |name: &str| !facts.bound.contains(name) && !is_pack(name);
    for (name, usage) in &facts.used {
        if *usage == Use::Attribute && is_free(name) && is_standard_module(name) {
            return Some(Need::Lacks(format!("the module {name} without an import")));
        }
    }
    if facts.used.contains_key("open") && is_free("open") {
        return Some(Need::Lacks("files".to_owned()));
    }
    let mut imports = Imports { needs: None, is_pack };
    imports.visit_body(&module.body);
    if let Some(need) = imports.needs {
        return Some(Need::Lacks(need));
    }
    if ends_with_coroutine(module) {
        return Some(Need::Lacks("a coroutine as the value".to_owned()));
    }
    ends_with_iterator(module, facts).then(|| Need::Lacks("an iterator as the value".to_owned()))
}

/// Whether the last expression is `iter(…)` or `itertools.…(…)`.
fn ends_with_iterator(module: &ModModule, facts: &Facts) -> bool {
    let Some(Stmt::Expr(last)) = module.body.last() else { return false };
    let Expr::Call(call) = &*last.value else { return false };
    match &*call.func {
        Expr::Name(name) => name.id.as_str() == "iter" && !facts.bound.contains("iter"),
        Expr::Attribute(attribute) => matches!(&*attribute.value, Expr::Name(name) if name.id.as_str() == "itertools"),
        _ => false,
    }
}

/// Finds imports that need full Python.
struct Imports<'a> {
    needs: Option<String>,
    is_pack: &'a dyn Fn(&str) -> bool,
}

impl Imports<'_> {
    fn look_at(&mut self, module: &str) {
        let name = module.split('.').next().unwrap_or(module);
        if FILE_MODULES.contains(&name) {
            self.needs = Some("files".to_owned());
        } else if !is_standard_module(name) && !(self.is_pack)(name) {
            self.needs = Some(format!("the package {name}"));
        }
    }
}

impl<'a> Visitor<'a> for Imports<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => import.names.iter().for_each(|alias| self.look_at(alias.name.as_str())),
            Stmt::ImportFrom(import) => {
                if let Some(module) = &import.module {
                    self.look_at(module.as_str());
                }
            }
            _ => visitor::walk_stmt(self, statement),
        }
    }

    /// Expressions contain no statements.
    fn visit_expr(&mut self, _: &'a Expr) {}
}

/// Whether the last expression calls a function that the code defines with `async def`, without awaiting it.
fn ends_with_coroutine(module: &ModModule) -> bool {
    let Some(Stmt::Expr(last)) = module.body.last() else { return false };
    let Expr::Call(call) = &*last.value else { return false };
    let Expr::Name(name) = &*call.func else { return false };
    module.body.iter().any(|statement| {
        matches!(statement, Stmt::FunctionDef(function) if function.is_async && function.name.as_str() == name.id.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(code: &str) -> Option<String> {
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        let facts = Facts::of(parsed.syntax(), code);
        need(parsed.syntax(), &facts, &|name| name == "time").map(|need| need.to_string())
    }

    #[test]
    fn what_stands_around_code_decides() {
        for code in [
            "json.dumps(1)",
            "open('a.txt').read()",
            "import os\nos.path.exists('a')",
            "def f():\n    from pathlib import Path\n    return Path('a').read_text()",
            "async def main():\n    return 1\nmain()",
            "iter([1, 2])",
            "import pandas as pd\npd.DataFrame()",
            "try:\n    from yaml import safe_load\nexcept ImportError:\n    pass",
            "import itertools\nitertools.count()",
        ] {
            assert!(lacks(code).is_some(), "{code}");
        }
        for code in ["1 + 1", "time.now()", "import json\njson.dumps(1)", "json = {}\njson.keys()", "open = 1\nopen"] {
            assert_eq!(lacks(code), None, "{code}");
        }
    }
}
