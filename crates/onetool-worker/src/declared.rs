//! The effects that functions declare: `@tool(read_only=True)`, `@tool(idempotent=True)`, with `tool` from `onetool`.

use std::collections::HashSet;

use onetool_sdk::Effect;
use ruff_python_ast::{Expr, StmtFunctionDef, StmtImport, StmtImportFrom};
use ruff_text_size::Ranged as _;

/// The names of the module that tools import.
const MODULES: [&str; 2] = ["onetool", "ot_sdk"];
const DECORATOR: &str = "tool";

/// The names under which a file imports the decorator. Another decorator of the same name has no meaning here.
#[derive(Debug, Default)]
pub(super) struct Declared {
    decorators: HashSet<String>,
    modules: HashSet<String>,
}

impl Declared {
    /// `import onetool`, `import onetool as ot`.
    pub(super) fn import(&mut self, import: &StmtImport) {
        for alias in import.names.iter().filter(|alias| MODULES.contains(&alias.name.as_str())) {
            self.modules.insert(alias.asname.as_ref().unwrap_or(&alias.name).to_string());
        }
    }

    /// `from onetool import tool`, `from onetool import tool as declared`.
    pub(super) fn import_from(&mut self, import: &StmtImportFrom) {
        let is_ours = import.module.as_ref().is_some_and(|module| MODULES.contains(&module.as_str()));
        for alias in import.names.iter().filter(|alias| is_ours && alias.name.as_str() == DECORATOR) {
            self.decorators.insert(alias.asname.as_ref().unwrap_or(&alias.name).to_string());
        }
    }

    fn is_decorator(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Name(name) => self.decorators.contains(name.id.as_str()),
            Expr::Attribute(attribute) => {
                let of_module =
                    matches!(&*attribute.value, Expr::Name(name) if self.modules.contains(name.id.as_str()));
                of_module && attribute.attr.as_str() == DECORATOR
            }
            _ => false,
        }
    }

    /// Returns the effect that a function declares, or the position and text of an invalid declaration.
    pub(super) fn effect(&self, function: &StmtFunctionDef) -> Result<Effect, (usize, String)> {
        let (mut is_read_only, mut is_idempotent) = (false, false);
        for decorator in &function.decorator_list {
            let Expr::Call(call) = &decorator.expression else { continue };
            if !self.is_decorator(&call.func) {
                continue;
            }
            for keyword in &call.arguments.keywords {
                let offset = keyword.range().start().to_usize();
                let flag = match keyword.arg.as_ref().map(ruff_python_ast::Identifier::as_str) {
                    Some("read_only") => &mut is_read_only,
                    Some("idempotent") => &mut is_idempotent,
                    _ => {
                        return Err((
                            offset,
                            "@tool takes read_only and idempotent; what it says is ignored".to_owned(),
                        ));
                    }
                };
                let Expr::BooleanLiteral(value) = &keyword.value else {
                    let reason = "@tool takes True or False as they are written; what it says is ignored";
                    return Err((offset, reason.to_owned()));
                };
                *flag = value.value;
            }
        }
        Ok(match (is_read_only, is_idempotent) {
            (true, _) => Effect::ReadOnly,
            (false, true) => Effect::Idempotent,
            (false, false) => Effect::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tool_file;
    use super::*;

    #[test]
    fn functions_say_what_their_calls_do() {
        let source = "\
import onetool as ot
from onetool import tool, log
from elsewhere import tool as other

@tool(read_only=True)
def look(): ...

@ot.tool(idempotent=True)
def put(): ...

@tool(read_only=True, idempotent=True)
async def both(): ...

@tool
def bare(): ...

@tool(read_only=False)
def send(): ...

@other(read_only=True)
def foreign(): ...

@tool(read_only=CAREFUL)
def computed(): ...

@tool(readonly=True)
def misspelt(): ...

def plain(): ...
";
        let file = tool_file::read(Path::new("x_tools.py"), "x", source.as_bytes()).unwrap();
        let said: Vec<(&str, Effect)> =
            file.pack.tools.values().map(|tool| (tool.name.as_str(), tool.effect)).collect();
        let unknown = Effect::default();
        assert_eq!(
            said,
            [
                ("look", Effect::ReadOnly),
                ("put", Effect::Idempotent),
                ("both", Effect::ReadOnly),
                ("bare", unknown),
                ("send", unknown),
                ("foreign", unknown),
                ("computed", unknown),
                ("misspelt", unknown),
                ("plain", unknown),
            ]
        );
        let told: Vec<(Option<usize>, bool)> =
            file.warnings.iter().map(|problem| (problem.line, problem.reason.contains("is ignored"))).collect();
        assert_eq!(told, [(Some(23), true), (Some(26), true)], "{:?}", file.warnings);
    }
}
