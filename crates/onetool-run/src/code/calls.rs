//! Finds the tool calls in the code and their arguments, as far as the source shows them.

use onetool_sdk::Value;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{BoolOp, Comprehension, Expr, ExprCall, ModModule, Number, Stmt, UnaryOp};
use ruff_text_size::{Ranged as _, TextSize};

use super::Facts;
use crate::type_check::{Inference, Inferred};

/// A call to a pack's function or to an alias.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSite {
    /// `pack` and `function`, or an alias alone.
    pub pack: String,
    pub function: Option<String>,
    /// Arguments; `None` where the value is known only at run time.
    pub positional: Vec<Option<Value>>,
    pub named: Vec<(String, Option<Value>)>,
    pub line: u32,
    /// Inferred argument types, positional ones first, then named ones. Empty for a call inside a function, which may
    /// be called where a failure is expected.
    pub inferred: Vec<InferredArgument>,
}

/// What is known about an argument without running anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredArgument {
    pub line: u32,
    pub inferred: Inferred,
}

/// All calls that are certain to fail if their arguments do not fit. Calls with `*args` or `**kwargs` are left out
/// because their arguments are unknown, and those inside `try` or `with` because they may be expected to fail.
pub(super) fn call_sites<'a>(
    module: &'a ModModule,
    source: &'a str,
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
) -> Vec<CallSite> {
    let mut finder = Finder {
        source,
        facts,
        is_pack,
        sites: Vec::new(),
        arguments: Vec::new(),
        tests: Vec::new(),
        guarded: 0,
        functions: 0,
        unreachable: false,
    };
    finder.visit_body(&module.body);
    let Finder { mut sites, arguments, .. } = finder;
    // The call itself checks the argument types of a single call.
    if sites.len() > 1 {
        let inference = Inference::of(module, facts, is_pack);
        for (site, Arguments { values, tests }) in sites.iter_mut().zip(arguments) {
            let inferred = |(start, value): (TextSize, &'a Expr)| InferredArgument {
                line: line_of(source, start),
                inferred: inference.argument(value, &tests),
            };
            site.inferred = values.into_iter().map(inferred).collect();
        }
    }
    sites
}

fn line_of(source: &str, at: TextSize) -> u32 {
    source.as_bytes()[..at.to_usize()].iter().filter(|byte| **byte == b'\n').count() as u32 + 1
}

/// The arguments of a call, and the tests that decide whether it is reached.
struct Arguments<'a> {
    /// Each value with its start offset.
    values: Vec<(TextSize, &'a Expr)>,
    tests: Vec<Test<'a>>,
}

/// A test and the outcome that leads to the call; `None` where both outcomes may.
type Test<'a> = (&'a Expr, Option<bool>);

struct Finder<'a> {
    source: &'a str,
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    sites: Vec<CallSite>,
    /// Arguments of each site, in the same order.
    arguments: Vec<Arguments<'a>>,
    /// The enclosing tests.
    tests: Vec<Test<'a>>,
    guarded: usize,
    /// Number of enclosing functions.
    functions: usize,
    /// After a `return`, `break` or similar statement.
    unreachable: bool,
}

impl<'a> Finder<'a> {
    fn note(&mut self, call: &'a ExprCall) {
        let (pack, function) = match &*call.func {
            Expr::Attribute(attribute) => match &*attribute.value {
                Expr::Name(name) => (name.id.as_str(), Some(attribute.attr.to_string())),
                _ => return,
            },
            Expr::Name(name) => (name.id.as_str(), None),
            _ => return,
        };
        let spreads = call.arguments.args.iter().any(Expr::is_starred_expr)
            || call.arguments.keywords.iter().any(|keyword| keyword.arg.is_none());
        if spreads || self.facts.bound.contains(pack) || !(self.is_pack)(pack) {
            return;
        }
        self.sites.push(CallSite {
            pack: pack.to_owned(),
            function,
            positional: call.arguments.args.iter().map(literal).collect(),
            named: call
                .arguments
                .keywords
                .iter()
                .filter_map(|keyword| Some((keyword.arg.as_ref()?.to_string(), literal(&keyword.value))))
                .collect(),
            line: line_of(self.source, call.start()),
            inferred: Vec::new(),
        });
        let positional = call.arguments.args.iter().map(|value| (value.start(), value));
        let named = call.arguments.keywords.iter().map(|keyword| (keyword.start(), &keyword.value));
        let is_certain = self.functions == 0 && !self.unreachable;
        self.arguments.push(Arguments {
            values: positional.chain(named).filter(|_| is_certain).collect(),
            tests: self.tests.clone(),
        });
    }

    /// Visits code that is reached only if the test has this outcome.
    fn under(&mut self, test: Test<'a>, visit: impl FnOnce(&mut Self)) {
        self.tests.push(test);
        visit(self);
        self.tests.pop();
    }
}

impl<'a> Visitor<'a> for Finder<'a> {
    /// Code after a `return`, `break` or similar statement is reached only if that statement was not.
    fn visit_body(&mut self, body: &'a [Stmt]) {
        let (tests, unreachable) = (self.tests.len(), self.unreachable);
        for stmt in body {
            self.visit_stmt(stmt);
            match stmt {
                Stmt::Return(_) | Stmt::Raise(_) | Stmt::Break(_) | Stmt::Continue(_) => self.unreachable = true,
                Stmt::If(choice) if leaves(stmt) => {
                    self.tests.push((&choice.test, None));
                    let others = choice.elif_else_clauses.iter().filter_map(|clause| clause.test.as_ref());
                    self.tests.extend(others.map(|test| (test, None)));
                }
                Stmt::Match(choice) if leaves(stmt) => self.tests.push((&choice.subject, None)),
                Stmt::Assert(claim) => self.tests.push((&claim.test, None)),
                _ => {}
            }
        }
        self.tests.truncate(tests);
        self.unreachable = unreachable;
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Try(attempt) => {
                self.guarded += 1;
                self.visit_body(&attempt.body);
                self.guarded -= 1;
                for handler in &attempt.handlers {
                    self.visit_except_handler(handler);
                }
                self.visit_body(&attempt.orelse);
                self.visit_body(&attempt.finalbody);
            }
            Stmt::With(_) => {
                self.guarded += 1;
                visitor::walk_stmt(self, stmt);
                self.guarded -= 1;
            }
            Stmt::FunctionDef(_) => {
                self.functions += 1;
                visitor::walk_stmt(self, stmt);
                self.functions -= 1;
            }
            Stmt::If(choice) => {
                self.visit_expr(&choice.test);
                self.under((&choice.test, Some(true)), |inner| inner.visit_body(&choice.body));
                let before = self.tests.len();
                self.tests.push((&choice.test, Some(false)));
                for clause in &choice.elif_else_clauses {
                    let Some(test) = &clause.test else {
                        self.visit_body(&clause.body);
                        continue;
                    };
                    self.visit_expr(test);
                    self.under((test, Some(true)), |inner| inner.visit_body(&clause.body));
                    self.tests.push((test, Some(false)));
                }
                self.tests.truncate(before);
            }
            Stmt::While(repeat) => {
                self.visit_expr(&repeat.test);
                self.under((&repeat.test, Some(true)), |inner| inner.visit_body(&repeat.body));
                self.visit_body(&repeat.orelse);
            }
            Stmt::Match(choice) => {
                self.visit_expr(&choice.subject);
                self.under((&choice.subject, None), |inner| {
                    for case in &choice.cases {
                        inner.visit_match_case(case);
                    }
                });
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && self.guarded == 0
        {
            self.note(call);
        }
        match expr {
            Expr::Lambda(_) => {
                self.functions += 1;
                visitor::walk_expr(self, expr);
                self.functions -= 1;
            }
            Expr::If(choice) => {
                self.visit_expr(&choice.test);
                self.under((&choice.test, Some(true)), |inner| inner.visit_expr(&choice.body));
                self.under((&choice.test, Some(false)), |inner| inner.visit_expr(&choice.orelse));
            }
            Expr::BoolOp(choice) => {
                let before = self.tests.len();
                for value in &choice.values {
                    self.visit_expr(value);
                    self.tests.push((value, Some(choice.op == BoolOp::And)));
                }
                self.tests.truncate(before);
            }
            Expr::ListComp(inner) => self.visit_filtered(&inner.generators, &[&inner.elt]),
            Expr::SetComp(inner) => self.visit_filtered(&inner.generators, &[&inner.elt]),
            Expr::DictComp(inner) => {
                let values: Vec<&'a Expr> = inner.key.as_deref().into_iter().chain([&*inner.value]).collect();
                self.visit_filtered(&inner.generators, &values);
            }
            Expr::Generator(inner) => self.visit_filtered(&inner.generators, &[&inner.elt]),
            _ => visitor::walk_expr(self, expr),
        }
    }
}

impl<'a> Finder<'a> {
    fn visit_filtered(&mut self, generators: &'a [Comprehension], values: &[&'a Expr]) {
        let before = self.tests.len();
        for generator in generators {
            self.visit_comprehension(generator);
            self.tests.extend(generator.ifs.iter().map(|test| (test, Some(true))));
        }
        for value in values {
            self.visit_expr(value);
        }
        self.tests.truncate(before);
    }
}

/// Whether a statement may leave the enclosing block.
fn leaves(stmt: &Stmt) -> bool {
    struct Leaves(bool);
    impl<'a> Visitor<'a> for Leaves {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            match stmt {
                Stmt::Return(_) | Stmt::Raise(_) | Stmt::Break(_) | Stmt::Continue(_) => self.0 = true,
                Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
                _ => visitor::walk_stmt(self, stmt),
            }
        }

        fn visit_expr(&mut self, expr: &'a Expr) {
            // `exit()` and `quit()` leave by raising an exception.
            self.0 |= matches!(expr, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id == "exit" || name.id == "quit"));
            visitor::walk_expr(self, expr);
        }
    }
    let mut leaves = Leaves(false);
    leaves.visit_stmt(stmt);
    leaves.0
}

/// The value of a literal.
pub(super) fn literal(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::StringLiteral(text) => Some(Value::Str(text.value.to_str().to_owned())),
        Expr::BooleanLiteral(truth) => Some(Value::Bool(truth.value)),
        Expr::NoneLiteral(_) => Some(Value::None),
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(int) => int.as_i64().map(Value::Int),
            Number::Float(float) => Some(Value::Float(*float)),
            Number::Complex { .. } => None,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => match literal(&unary.operand)? {
            Value::Int(int) => int.checked_neg().map(Value::Int),
            Value::Float(float) => Some(Value::Float(-float)),
            _ => None,
        },
        _ => None,
    }
}
