//! Where the code calls tools, and with what, as far as its text tells.

use onetool_sdk::Value;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule, Number, Stmt, UnaryOp};
use ruff_source_file::{LineColumn, LineIndex, OneIndexed};
use ruff_text_size::{Ranged as _, TextSize};

use super::Facts;
use super::grounds::Grounds;

/// A call of a pack's function or of an alias.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSite {
    /// `pack` and `function`, or an alias alone.
    pub pack: String,
    pub function: Option<String>,
    /// Arguments; `None` where only the run knows the value.
    pub positional: Vec<Option<Value>>,
    pub named: Vec<(String, Option<Value>)>,
    pub line: u32,
    /// Where the arguments stand whose types a checker can be asked for: the positional ones, then the named ones. Not
    /// those of a call inside a function, which may be called where a failure is meant.
    pub places: Vec<Option<Place>>,
}

/// A place in the text, as Python's tools count: lines and characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    fn at(at: LineColumn) -> Self {
        let number = |number: OneIndexed| u32::try_from(number.get()).unwrap_or(u32::MAX);
        Self { line: number(at.line), column: number(at.column) }
    }
}

/// All calls that are sure to fail if their arguments do not fit. A call with `*args` or `**kwargs` tells too little;
/// one inside `try` or `with` may be meant to fail.
pub(super) fn call_sites<'a>(
    module: &'a ModModule,
    source: &'a str,
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
) -> Vec<CallSite> {
    let mut finder =
        Finder { source, facts, is_pack, sites: Vec::new(), arguments: Vec::new(), guarded: 0, functions: 0 };
    finder.visit_body(&module.body);
    let Finder { mut sites, arguments, .. } = finder;
    // The types of a single call's arguments are asked by nobody.
    if sites.len() > 1 {
        let grounds = Grounds::of(module, facts, is_pack);
        let lines = LineIndex::from_source_text(source);
        for (site, arguments) in sites.iter_mut().zip(arguments) {
            let place = |(start, value): (TextSize, &'a Expr)| {
                grounds.holds(value).then(|| Place::at(lines.line_column(start, source)))
            };
            site.places = arguments.into_iter().map(place).collect();
        }
    }
    sites
}

struct Finder<'a> {
    source: &'a str,
    facts: &'a Facts,
    is_pack: &'a (dyn Fn(&str) -> bool + Sync),
    sites: Vec<CallSite>,
    /// The arguments of each site, and where they begin.
    arguments: Vec<Vec<(TextSize, &'a Expr)>>,
    guarded: usize,
    /// How many functions are around.
    functions: usize,
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
        let before = &self.source[..call.start().to_usize()];
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
            line: before.matches('\n').count() as u32 + 1,
            places: Vec::new(),
        });
        let positional = call.arguments.args.iter().map(|value| (value.start(), value));
        let named = call.arguments.keywords.iter().map(|keyword| (keyword.start(), &keyword.value));
        let at_top = self.functions == 0;
        self.arguments.push(positional.chain(named).filter(|_| at_top).collect());
    }
}

impl<'a> Visitor<'a> for Finder<'a> {
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
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && self.guarded == 0
        {
            self.note(call);
        }
        let functions = usize::from(expr.is_lambda_expr());
        self.functions += functions;
        visitor::walk_expr(self, expr);
        self.functions -= functions;
    }
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
