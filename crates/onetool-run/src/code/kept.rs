//! A run's code as `ot.save` keeps it: without the call that saves it, and without the values of its parameters.

use indexmap::IndexMap;
use onetool_sdk::Value;
use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use super::single::display;

/// Maximum nesting depth of parameter literals.
const MAX_DEPTH: usize = 16;

/// Code to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptCode {
    pub text: String,
    /// The values that the code assigned to its parameters.
    pub defaults: IndexMap<String, Value>,
}

/// Removes `ot.save(…)` from the code, and the first assignment of a literal to each parameter. The error says what the
/// code lacks.
pub fn keep(code: &str, parameters: &[String]) -> Result<KeptCode, String> {
    let (source, parsed) = super::parse_leniently(code).map_err(|problem| problem.message)?;
    let body = &parsed.syntax().body;
    let mut removed = Vec::new();
    let mut defaults = IndexMap::new();
    for statement in body {
        if is_save(statement) {
            removed.push(statement.range());
        } else if let Some((name, value)) = assigned(statement)
            && parameters.contains(&name)
            && !defaults.contains_key(&name)
        {
            removed.push(statement.range());
            defaults.insert(name, value);
        }
    }
    if let Some(missing) = parameters.iter().find(|name| !defaults.contains_key(*name)) {
        return Err(format!(
            "the code assigns no literal to the parameter '{missing}'; write `{missing} = ...` with an example value at \
             its top level"
        ));
    }
    if removed.len() == body.len() {
        return Err("there is no code to keep beside ot.save; call it in the run whose code is to be kept".to_owned());
    }
    let text = without(&source, &removed);
    if text.contains("ot.save(") {
        return Err("call ot.save once, as a statement of its own at the top level of the code".to_owned());
    }
    // In the requested order.
    let defaults = parameters.iter().filter_map(|name| Some((name.clone(), defaults.get(name)?.clone()))).collect();
    Ok(KeptCode { text, defaults })
}

fn is_save(statement: &Stmt) -> bool {
    let value = match statement {
        Stmt::Expr(statement) => &statement.value,
        Stmt::Assign(statement) => &statement.value,
        _ => return false,
    };
    let Expr::Call(call) = &**value else { return false };
    let Expr::Attribute(function) = &*call.func else { return false };
    function.attr.as_str() == "save" && matches!(&*function.value, Expr::Name(pack) if pack.id.as_str() == "ot")
}

fn assigned(statement: &Stmt) -> Option<(String, Value)> {
    let (target, value) = match statement {
        Stmt::Assign(assign) if assign.targets.len() == 1 => (assign.targets.first()?, &*assign.value),
        Stmt::AnnAssign(assign) => (&*assign.target, &**assign.value.as_ref()?),
        _ => return None,
    };
    let Expr::Name(name) = target else { return None };
    Some((name.id.to_string(), display(value, MAX_DEPTH)?))
}

/// Removes these statements from the text, with their lines where nothing else is on them.
fn without(source: &str, removed: &[TextRange]) -> String {
    let mut text = source.to_owned();
    for range in removed.iter().rev() {
        let (start, end) = (range.start().to_usize(), range.end().to_usize());
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        let rest = text[end..line_end].trim();
        let is_alone = text[line_start..start].trim().is_empty() && (rest.is_empty() || rest.starts_with('#'));
        if is_alone {
            text.replace_range(line_start..line_end, "");
        } else {
            text.replace_range(start..end, "pass");
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(code: &str, parameters: &[&str]) -> Result<(String, Vec<(String, String)>), String> {
        let parameters: Vec<String> = parameters.iter().map(|name| (*name).to_owned()).collect();
        let kept = keep(code, &parameters)?;
        Ok((kept.text, kept.defaults.into_iter().map(|(name, value)| (name, value.repr())).collect()))
    }

    #[test]
    fn the_call_and_the_values_of_parameters_are_left_out() {
        let code = "# issues\nrepo = 'a/b'  # example\nn: int = 5\nfound = gh.list(repo)\not.save(\"x\", \"y\",\n  parameters=['n', 'repo'])\nfound[:n]\n";
        let (text, defaults) = kept(code, &["n", "repo"]).unwrap();
        assert_eq!(text, "# issues\nfound = gh.list(repo)\nfound[:n]");
        assert_eq!(defaults, [("n".to_owned(), "5".to_owned()), ("repo".to_owned(), "'a/b'".to_owned())]);
        assert_eq!(kept("a = 1; ot.save('x', 'y'); a + 1", &[]).unwrap().0, "a = 1; pass; a + 1");
        assert_eq!(kept("1 + 1\nsaved = ot.save('x', 'y')", &[]).unwrap().0, "1 + 1");
    }

    #[test]
    fn what_cannot_be_kept_is_told() {
        for (code, parameters, told) in [
            ("ot.save('x', 'y')", vec![], "no code to keep"),
            ("n = 1\not.save('x', 'y')", vec!["n"], "no code to keep"),
            ("n = f()\nn\not.save('x', 'y')", vec!["n"], "assigns no literal to the parameter 'n'"),
            ("if 1:\n    ot.save('x', 'y')\n2", vec![], "at the top level"),
        ] {
            let error = kept(code, &parameters).unwrap_err();
            assert!(error.contains(told), "{code}: {error}");
        }
    }
}
