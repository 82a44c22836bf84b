//! Code that is one literal, or one tool call with literal arguments, and nothing else: its effect is plain from its
//! text, so no interpreter is needed.
//!
//! **Invariant:** anything uncertain is not recognised; then the code runs in the sandbox like any other.

use std::collections::HashSet;

use onetool_sandbox::WrittenName;
use onetool_sdk::{Arguments, Value};
use ruff_python_ast::{Expr, ExprCall, ModModule, Stmt};
use ruff_text_size::Ranged as _;

use super::calls::literal;
use super::facts::{MAGIC, MagicValue, magic_value};

/// Literals nested deeper than this are left to the interpreter.
const MAX_DEPTH: usize = 16;

/// The only expression of such code.
#[derive(Debug, Clone, PartialEq)]
pub enum Single {
    Call(SingleCall),
    Literal(Value),
}

/// `pack.function(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleCall {
    /// A pack, or an alias of one.
    pub pack: String,
    pub function: String,
    pub arguments: Arguments,
    /// The line where the call begins, from 1.
    pub line: u32,
}

/// Returns the call or literal that makes up the code, if any. Literal assignments to magic variables may precede it.
pub(super) fn single(module: &ModModule, source: &str) -> Option<Single> {
    let (last, before) = module.body.split_last()?;
    let Stmt::Expr(last) = last else { return None };
    if !before.iter().all(is_plain_magic) {
        return None;
    }
    match &*last.value {
        Expr::Call(call) => single_call(call, source).map(Single::Call),
        other => display(other, MAX_DEPTH).map(Single::Literal),
    }
}

fn single_call(call: &ExprCall, source: &str) -> Option<SingleCall> {
    let Expr::Attribute(attribute) = &*call.func else { return None };
    let Expr::Name(pack) = &*attribute.value else { return None };
    let function = attribute.attr.as_str();
    if function.starts_with("__") || WrittenName::read(function).is_awaited {
        return None;
    }
    Some(SingleCall {
        pack: pack.id.to_string(),
        function: function.to_owned(),
        arguments: arguments(call)?,
        line: source.get(..call.start().to_usize())?.matches('\n').count() as u32 + 1,
    })
}

fn is_plain_magic(statement: &Stmt) -> bool {
    let Stmt::Assign(assign) = statement else { return false };
    matches!(assign.targets.as_slice(), [Expr::Name(name)] if MAGIC.contains(&name.id.as_str()))
        && magic_value(&assign.value) != MagicValue::Computed
}

fn arguments(call: &ExprCall) -> Option<Arguments> {
    let positional = call.arguments.args.iter().map(|value| display(value, MAX_DEPTH)).collect::<Option<Vec<_>>>()?;
    let named = call.arguments.keywords.iter().map(|keyword| {
        let name = keyword.arg.as_ref()?.to_string();
        Some((name, display(&keyword.value, MAX_DEPTH)?))
    });
    Some(Arguments { positional, named: named.collect::<Option<_>>()? })
}

/// The value of a literal, or of a list, tuple or dictionary of literals. Keys must be unique strings.
pub(super) fn display(expr: &Expr, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let all = |items: &[Expr]| items.iter().map(|item| display(item, depth)).collect::<Option<Vec<_>>>();
    match expr {
        Expr::List(list) => all(&list.elts).map(Value::List),
        Expr::Tuple(tuple) => all(&tuple.elts).map(Value::Tuple),
        Expr::Dict(dict) => {
            let mut keys = HashSet::new();
            let mut pairs = Vec::with_capacity(dict.items.len());
            for item in &dict.items {
                let Expr::StringLiteral(key) = item.key.as_ref()? else { return None };
                if !keys.insert(key.value.to_str()) {
                    return None;
                }
                pairs.push((Value::Str(key.value.to_str().to_owned()), display(&item.value, depth)?));
            }
            Some(Value::Dict(pairs))
        }
        other => literal(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> Option<Single> {
        single(ruff_python_parser::parse_module(code).unwrap().syntax(), code)
    }

    #[test]
    fn one_literal_is_its_value() {
        for (code, value) in [
            ("1", Value::Int(1)),
            ("__format__ = 'json'\n-2.5", Value::Float(-2.5)),
            ("'a' 'b'", Value::Str("ab".into())),
            ("(1, [None])", Value::Tuple(vec![Value::Int(1), Value::List(vec![Value::None])])),
        ] {
            assert_eq!(read(code), Some(Single::Literal(value)), "{code}");
        }
        for code in ["1 + 1", "x", "1; 2", "x = 1", "f'a'", "{1: 2}", "{1}", "1j", "10 ** 2", "9223372036854775808"] {
            assert_eq!(read(code), None, "{code}");
        }
    }

    #[test]
    fn one_call_with_literals_is_read() {
        let code = "__format__ = 'yml'\n# talk\np.f(1, -2.5, 'a' 'b', k=[None, True, (3,)], d={'x': {'y': 1}})";
        let Some(Single::Call(call)) = read(code) else { panic!("it is one call") };
        assert_eq!((call.pack.as_str(), call.function.as_str(), call.line), ("p", "f", 3));
        assert_eq!(call.arguments.positional, [Value::Int(1), Value::Float(-2.5), Value::Str("ab".into())]);
        let list = Value::List(vec![Value::None, Value::Bool(true), Value::Tuple(vec![Value::Int(3)])]);
        let inner = Value::Dict(vec![("y".into(), Value::Int(1))]);
        let expected = [("k".to_owned(), list), ("d".to_owned(), Value::Dict(vec![("x".into(), inner)]))];
        assert_eq!(call.arguments.named.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn anything_else_is_left_to_the_interpreter() {
        for code in [
            "p.f(x)",
            "p.f(1 + 1)",
            "p.f(f'a')",
            "p.f(*[1])",
            "p.f(**{'a': 1})",
            "p.f({'a': 1, 'a': 2})",
            "p.f({1: 2})",
            "p.f({**{}})",
            "p.f(99999999999999999999)",
            "p.f(1j)",
            "p.f()[0]",
            "p.f().g()",
            "p.q.f()",
            "f(1)",
            "p.f",
            "x = p.f()",
            "await p.f()",
            "p.awaited__f()",
            "p.__class__()",
            "x = 1\np.f(1)",
            "__format__ = 'j' + 'son'\np.f(1)",
            "p.f(1)\np.f(2)",
            "return p.f(1)",
            "",
        ] {
            assert_eq!(read(code), None, "{code}");
        }
        assert_eq!(read(&format!("p.f({}{})", "[".repeat(40), "]".repeat(40))), None);
    }
}
