//! Exceptions that a program catches and looks at: Monty raises some with other arguments or texts than Python.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{ExceptHandler, ExceptHandlerExceptHandler, Expr, ExprCall, StmtTry};

use super::table;

/// What a handler catches that may look different.
#[derive(Default)]
struct Caught {
    /// Whether it catches the exceptions that Monty raises for missing features.
    broad: bool,
    /// Exceptions of a missing key, and those of invalid JSON.
    keys: bool,
    json: bool,
}

impl Caught {
    fn by(handler: &ExceptHandlerExceptHandler) -> Self {
        let mut caught = Self::default();
        match handler.type_.as_deref() {
            None => caught.broad = true,
            Some(Expr::Tuple(tuple)) => tuple.elts.iter().for_each(|one| caught.note(one)),
            Some(one) => caught.note(one),
        }
        caught
    }

    fn note(&mut self, exception: &Expr) {
        let name = match exception {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => {
                self.broad = true;
                return;
            }
        };
        self.broad |= table::is_raised_for_lack(name);
        self.keys |= matches!(name, "KeyError" | "LookupError" | "Exception" | "BaseException");
        self.json |= matches!(name, "JSONDecodeError" | "ValueError" | "Exception" | "BaseException");
    }
}

/// Whether a handler catches the exceptions that Monty raises for missing features.
pub(super) fn is_broad(attempt: &StmtTry) -> bool {
    attempt.handlers.iter().any(|ExceptHandler::ExceptHandler(handler)| Caught::by(handler).broad)
}

/// Whether a handler looks at an exception that may have other arguments or another text. `is_plain` says whether the
/// body only calls tools and moves values around.
pub(super) fn looks_different(attempt: &StmtTry, is_plain: bool) -> bool {
    let shown = attempt.handlers.iter().filter_map(|ExceptHandler::ExceptHandler(handler)| {
        let name = handler.name.as_ref()?;
        reads(handler, name).then(|| Caught::by(handler))
    });
    let shown = shown.fold(Caught::default(), |all, one| Caught {
        broad: all.broad || one.broad,
        keys: all.keys || one.keys,
        json: all.json || one.json,
    });
    if !shown.keys && !shown.json {
        return false;
    }
    let mut body = Body::default();
    body.visit_body(&attempt.body);
    shown.keys && (body.looks_up || !is_plain) || shown.json && (body.reads_json || !is_plain)
}

/// Whether a handler reads the exception that it names.
fn reads(handler: &ExceptHandlerExceptHandler, name: &str) -> bool {
    struct Finder<'n>(&'n str, bool);
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.1 |= matches!(expression, Expr::Name(name) if name.id == self.0);
            visitor::walk_expr(self, expression);
        }
    }
    let mut finder = Finder(name, false);
    finder.visit_body(&handler.body);
    finder.1
}

/// What a guarded body does that may raise such an exception.
#[derive(Default)]
struct Body {
    /// It looks up a key that may not be text: Monty's exception holds every key as text.
    looks_up: bool,
    reads_json: bool,
}

impl Body {
    fn call(&mut self, call: &ExprCall) {
        let Expr::Attribute(method) = &*call.func else { return };
        let takes_key = |argument: &Expr| !argument.is_string_literal_expr();
        match method.attr.as_str() {
            "pop" | "remove" => self.looks_up |= call.arguments.args.first().is_some_and(takes_key),
            "loads" | "load" => self.reads_json = true,
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Body {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Subscript(subscript) => {
                // A number that is written down is nearly always the place of an item in a list.
                let is_place = subscript.slice.is_number_literal_expr() && !subscript.value.is_dict_expr();
                let is_text = matches!(&*subscript.slice, Expr::StringLiteral(_) | Expr::FString(_));
                self.looks_up |= !(is_text || is_place || subscript.slice.is_slice_expr());
            }
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }
}
