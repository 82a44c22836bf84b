//! Finds expressions with side effects, and code too simple to fail in one engine only.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{CmpOp, Expr, ExprCall, Operator, Stmt};

/// Methods that mutate their object.
const CHANGING: &[&str] = &[
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

/// Builtins that do more than compute.
const ACTING: &[&str] = &["input", "next", "open", "print", "setattr"];

/// Builtins that fail the same way in both engines.
const PLAIN_CALLS: &[&str] = &[
    "abs",
    "bool",
    "dict",
    "float",
    "int",
    "isinstance",
    "len",
    "list",
    "print",
    "range",
    "repr",
    "sorted",
    "str",
    "tuple",
    "type",
];

/// Whether evaluating the expression has side effects: it calls a function of the program or a tool, mutates an object,
/// binds a name or prints. `bound` holds the names that the program binds.
pub(super) fn has_effects(expression: &Expr, bound: &HashSet<&str>) -> bool {
    struct Finder<'b> {
        bound: &'b HashSet<&'b str>,
        found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.found |= match expression {
                Expr::Named(_) | Expr::Await(_) | Expr::Yield(_) | Expr::YieldFrom(_) => true,
                Expr::Call(call) => match &*call.func {
                    Expr::Name(name) => {
                        let name = name.id.as_str();
                        self.bound.contains(name) || !super::table::is_builtin(name) || ACTING.contains(&name)
                    }
                    Expr::Attribute(method) => {
                        CHANGING.contains(&method.attr.as_str())
                            || root(&method.value).is_some_and(|name| !self.bound.contains(name))
                    }
                    _ => true,
                },
                _ => false,
            };
            if !self.found {
                visitor::walk_expr(self, expression);
            }
        }
    }
    let mut finder = Finder { bound, found: false };
    finder.visit_expr(expression);
    finder.found
}

/// Whether the statements mutate something that the iterated expression names.
pub(super) fn mutates(body: &[Stmt], iterated: &Expr) -> bool {
    #[derive(Default)]
    struct Names<'a>(HashSet<&'a str>);
    impl<'a> Visitor<'a> for Names<'a> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Name(name) = expression {
                self.0.insert(name.id.as_str());
            }
            visitor::walk_expr(self, expression);
        }
    }
    struct Finder<'n> {
        names: HashSet<&'n str>,
        found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Call(call) = expression
                && let Expr::Attribute(method) = &*call.func
                && CHANGING.contains(&method.attr.as_str())
            {
                self.found |= root(&method.value).is_some_and(|name| self.names.contains(name));
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut names = Names::default();
    names.visit_expr(iterated);
    let mut finder = Finder { names: names.0, found: false };
    finder.visit_body(body);
    finder.found
}

/// Whether statements only call tools and move values around: any exception they raise is raised in both engines.
pub(super) fn is_plain_body(body: &[Stmt], bound: &HashSet<&str>) -> bool {
    body.iter().all(|statement| match statement {
        Stmt::Expr(expression) => is_plain(&expression.value, bound),
        Stmt::Assign(assign) => {
            assign.targets.iter().all(|target| is_plain(target, bound)) && is_plain(&assign.value, bound)
        }
        Stmt::AnnAssign(assign) => assign.value.as_deref().is_none_or(|value| is_plain(value, bound)),
        Stmt::Return(leave) => leave.value.as_deref().is_none_or(|value| is_plain(value, bound)),
        Stmt::If(branch) => {
            is_plain(&branch.test, bound)
                && is_plain_body(&branch.body, bound)
                && branch.elif_else_clauses.iter().all(|clause| {
                    clause.test.as_ref().is_none_or(|test| is_plain(test, bound)) && is_plain_body(&clause.body, bound)
                })
        }
        Stmt::For(each) => {
            is_plain(&each.target, bound) && is_plain(&each.iter, bound) && is_plain_body(&each.body, bound)
        }
        Stmt::Pass(_) | Stmt::Break(_) | Stmt::Continue(_) => true,
        _ => false,
    })
}

fn is_plain(expression: &Expr, bound: &HashSet<&str>) -> bool {
    let plain = |one: &Expr| is_plain(one, bound);
    match expression {
        Expr::Name(_)
        | Expr::StringLiteral(_)
        | Expr::NumberLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_) => true,
        Expr::FString(text) => text.value.elements().all(|element| match element {
            ruff_python_ast::InterpolatedStringElement::Literal(_) => true,
            ruff_python_ast::InterpolatedStringElement::Interpolation(inner) => {
                inner.format_spec.is_none() && plain(&inner.expression)
            }
        }),
        Expr::Attribute(attribute) => plain(&attribute.value),
        Expr::Subscript(subscript) => plain(&subscript.value) && plain(&subscript.slice),
        Expr::List(list) => list.elts.iter().all(plain),
        Expr::Tuple(tuple) => tuple.elts.iter().all(plain),
        Expr::Dict(dict) => dict.items.iter().all(|item| item.key.as_ref().is_none_or(plain) && plain(&item.value)),
        Expr::Await(awaited) => plain(&awaited.value),
        Expr::UnaryOp(unary) => plain(&unary.operand),
        Expr::BoolOp(both) => both.values.iter().all(plain),
        Expr::BinOp(binary) => {
            matches!(binary.op, Operator::Add | Operator::Sub | Operator::Mult | Operator::Div)
                && plain(&binary.left)
                && plain(&binary.right)
        }
        Expr::Compare(compare) => {
            compare.ops.iter().all(|operator| {
                matches!(operator, CmpOp::Eq | CmpOp::NotEq | CmpOp::In | CmpOp::NotIn | CmpOp::Is | CmpOp::IsNot)
            }) && plain(&compare.left)
                && compare.comparators.iter().all(plain)
        }
        Expr::Call(call) => is_plain_call(call, bound),
        _ => false,
    }
}

fn is_plain_call(call: &ExprCall, bound: &HashSet<&str>) -> bool {
    let function = match &*call.func {
        Expr::Name(name) => {
            let name = name.id.as_str();
            !bound.contains(name) && (PLAIN_CALLS.contains(&name) || !super::table::is_builtin(name))
        }
        Expr::Attribute(method) => match &*method.value {
            // A function of a pack or a module, or one of the most common methods.
            Expr::Name(name) if !bound.contains(name.id.as_str()) => true,
            Expr::Name(name) if name.id == "json" => matches!(method.attr.as_str(), "loads" | "dumps"),
            value => {
                is_plain(value, bound)
                    && matches!(
                        method.attr.as_str(),
                        "append" | "get" | "items" | "keys" | "values" | "strip" | "split" | "lower" | "upper" | "join"
                    )
            }
        },
        _ => false,
    };
    function
        && call.arguments.args.iter().all(|argument| is_plain(argument, bound))
        && call.arguments.keywords.iter().all(|keyword| is_plain(&keyword.value, bound))
}

fn root(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => root(&attribute.value),
        Expr::Subscript(subscript) => root(&subscript.value),
        Expr::Call(call) => root(&call.func),
        _ => None,
    }
}
