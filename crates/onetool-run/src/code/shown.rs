//! `file.read` returns the text itself to code, but the numbered view where the call is all that the run shows.

use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::Edit;
use super::facts::Facts;

pub(super) const LINE_NUMBERS: &str = "line_numbers";

/// Requests the numbered view where `file.read(…)` is the last expression and does not choose a view itself.
pub(super) fn numbered_read(module: &ModModule, source: &str, facts: &Facts) -> Option<Edit> {
    let Some(Stmt::Expr(last)) = module.body.last() else { return None };
    let Expr::Call(call) = &*last.value else { return None };
    if facts.last_call.as_deref() != Some("file.read") {
        return None;
    }
    // A shortened name or `**kwargs` may choose it too. `l` is short for both names and means `limit`.
    let is_plain = call.arguments.keywords.iter().all(|keyword| {
        keyword.arg.as_ref().is_some_and(|name| {
            let name = name.as_str();
            "limit".starts_with(name) || (!LINE_NUMBERS.starts_with(name) && !name.starts_with('b'))
        })
    });
    if !is_plain || call.arguments.is_empty() || call.arguments.args.iter().any(Expr::is_starred_expr) {
        return None;
    }
    let end = call.end().to_usize().checked_sub(1)?;
    let inside = source.get(..end)?.trim_end();
    let comma = if inside.ends_with(',') { "" } else { ", " };
    let at = TextSize::try_from(inside.len()).ok()?;
    // A comment at the end of the arguments would swallow the addition.
    if inside.rsplit('\n').next().is_some_and(|line| line.contains('#')) {
        return None;
    }
    Some(Edit { range: TextRange::empty(at), text: format!("{comma}{LINE_NUMBERS}=True") })
}

#[cfg(test)]
mod tests {
    use onetool_sandbox::Engine;

    use super::super::{Surroundings, prepare};

    #[test]
    fn only_a_read_that_is_shown_is_numbered() {
        let text = |code: &str| {
            let surroundings = Surroundings {
                is_pack: &|name| name == "file",
                engine: Engine::CPython,
                collect_called: false,
                keeps_names: false,
            };
            prepare(code, surroundings).unwrap().text
        };
        assert_eq!(text("file.read('a')"), "file.read('a', line_numbers=True)");
        assert_eq!(text("x = 1\nfile.read(path='a',)"), "x = 1\nfile.read(path='a',line_numbers=True)");
        assert_eq!(text("file.read(p='a', li=1)"), "file.read(p='a', li=1, line_numbers=True)");
        for same in
            ["x = file.read('a')\nx", "file.read('a', line_numbers=False)", "len(file.read('a'))", "file.read(**x)"]
        {
            assert_eq!(text(same), same);
        }
    }
}
