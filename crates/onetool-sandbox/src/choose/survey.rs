//! Walks a program once, looking for features that Monty lacks.
//!
//! Some findings depend on names bound elsewhere in the program: those are kept until the walk is over. If the text
//! alone is inconclusive, the answer is full Python, which is slower but never wrong.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Alias, Arguments, Comprehension, Decorator, ExceptHandler, Expr, ExprCall, ModModule, Number, Operator, Parameter,
    Stmt, StmtClassDef, StmtFunctionDef,
};

use super::table::{self, Callback};

/// What is known about the value of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Text,
    Dict,
    /// An iterator in Python, a list in Monty.
    Lazy,
    Function,
}

#[derive(Default)]
pub(super) struct Survey<'a> {
    reason: Option<String>,
    bound: HashSet<&'a str>,
    kinds: HashSet<(&'a str, Kind)>,
    /// Local name → module.
    modules: HashMap<&'a str, &'a str>,
    /// Function name → roots of its calls.
    calls: HashMap<&'a str, Vec<&'a str>>,
    /// The functions enclosing the current position.
    inside: Vec<&'a str>,
    /// Builtins that Monty lacks, unless the program binds the name.
    lacking: Vec<&'a str>,
    /// Reasons that apply if the name is of that kind.
    if_kind: Vec<(&'a str, Kind, &'static str)>,
    /// Names used as callbacks: unsupported if they reach the host.
    called_back: Vec<&'a str>,
    /// The callee of the call being visited.
    callee: Option<&'a Expr>,
}

impl<'a> Survey<'a> {
    /// Returns the first reason why Monty cannot run the program.
    pub(super) fn of(module: &'a ModModule) -> Option<String> {
        let mut survey = Survey::default();
        survey.visit_body(&module.body);
        survey.finish()
    }

    fn finish(mut self) -> Option<String> {
        if self.reason.is_some() {
            return self.reason;
        }
        if let Some(name) = self.lacking.iter().find(|name| !self.bound.contains(*name)) {
            return Some(format!("the builtin '{name}'"));
        }
        if let Some((.., reason)) = self.if_kind.iter().find(|(name, kind, _)| self.kinds.contains(&(*name, *kind))) {
            return Some((*reason).to_owned());
        }
        let mut seen = HashSet::new();
        let mut waiting = std::mem::take(&mut self.called_back);
        while let Some(name) = waiting.pop() {
            if !seen.insert(name) {
                continue;
            }
            if !self.bound.contains(name) && !table::is_builtin(name) {
                return Some(format!("'{name}' is called back from within a builtin"));
            }
            waiting.extend(self.calls.get(name).into_iter().flatten());
        }
        None
    }

    fn lacks(&mut self, reason: impl Into<String>) {
        if self.reason.is_none() {
            self.reason = Some(reason.into());
        }
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        self.bound.insert(class.name.as_str());
        if class.arguments.as_ref().is_some_and(|given| !given.args.is_empty() || !given.keywords.is_empty()) {
            self.lacks("class inheritance");
        }
        for statement in &class.body {
            match statement {
                Stmt::FunctionDef(method) => {
                    let name = method.name.as_str();
                    if !method.decorator_list.is_empty() {
                        self.lacks("method decorators");
                    }
                    if !table::honours_method(name) {
                        self.lacks(format!("the method {name}"));
                    }
                    if table::is_special_callback(name) {
                        self.called_back.push(name);
                    }
                }
                Stmt::Assign(assign) => {
                    if !matches!(assign.targets.as_slice(), [Expr::Name(_)]) {
                        self.lacks("class variables that are not simple names");
                    }
                    if holds_named(&assign.value) {
                        self.lacks("':=' in a class");
                    }
                }
                Stmt::AnnAssign(_) | Stmt::Pass(_) => {}
                Stmt::Expr(expression) if is_text_or_dots(&expression.value) => {}
                _ => self.lacks("statements in a class"),
            }
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        let name = function.name.as_str();
        self.bound.insert(name);
        self.kinds.insert((name, Kind::Function));
        for decorator in &function.decorator_list {
            self.visit_decorator(decorator);
        }
        self.visit_parameters(&function.parameters);
        self.inside.push(name);
        self.visit_body(&function.body);
        self.inside.pop();
    }

    fn import(&mut self, name: &'a Alias) {
        let module = name.name.as_str();
        if table::lacks_module(module) {
            self.lacks(format!("the module '{module}'"));
        }
        let local = name.asname.as_ref().map_or(module, |local| local.as_str());
        self.bound.insert(local);
        self.modules.insert(local, module);
    }

    fn import_from(&mut self, module: &'a str, names: &'a [Alias]) {
        if table::lacks_module(module) {
            self.lacks(format!("the module '{module}'"));
        }
        for name in names {
            let member = name.name.as_str();
            if member == "*" {
                self.lacks("imports of '*'");
            }
            if table::members(module).is_some_and(|members| !members.contains(&member)) {
                self.lacks(format!("'{member}' of the module '{module}'"));
            }
            self.bound.insert(name.asname.as_ref().map_or(member, |local| local.as_str()));
        }
    }

    fn assigned(&mut self, target: &'a Expr, value: Option<&'a Expr>) {
        match target {
            Expr::Name(name) => {
                let name = name.id.as_str();
                self.bound.insert(name);
                if table::is_reserved(name) && self.inside.is_empty() {
                    self.lacks(format!("assigning {name}"));
                }
                if let Some(kind) = value.and_then(kind_of) {
                    self.kinds.insert((name, kind));
                }
            }
            Expr::Subscript(subscript) => {
                if matches!(&*subscript.slice, Expr::Slice(_)) {
                    self.lacks("assigning a slice");
                }
                self.visit_expr(target);
            }
            Expr::Tuple(tuple) => self.unpacked(&tuple.elts),
            Expr::List(list) => self.unpacked(&list.elts),
            Expr::Starred(starred) => self.assigned(&starred.value, None),
            _ => self.visit_expr(target),
        }
    }

    fn unpacked(&mut self, targets: &'a [Expr]) {
        for target in targets {
            if !matches!(target, Expr::Name(_) | Expr::Tuple(_) | Expr::List(_) | Expr::Starred(_)) {
                self.lacks("unpacking into items or attributes");
            }
            self.assigned(target, None);
        }
    }

    fn binary(&mut self, left: &'a Expr, operator: Operator, right: &'a Expr) {
        match operator {
            Operator::MatMult => self.lacks("the operator '@'"),
            Operator::Mod => {
                const REASON: &str = "'%' on text";
                if is_text(left) || matches!(right, Expr::Tuple(_) | Expr::Dict(_)) {
                    self.lacks(REASON);
                } else if let Expr::Name(name) = left {
                    self.if_kind.push((name.id.as_str(), Kind::Text, REASON));
                }
            }
            Operator::BitOr => {
                for side in [left, right] {
                    const REASON: &str = "'|' on dicts";
                    match side {
                        Expr::Name(name) if table::is_type(&name.id) => self.lacks("'|' on types"),
                        Expr::NoneLiteral(_) => self.lacks("'|' on types"),
                        Expr::Name(name) => self.if_kind.push((name.id.as_str(), Kind::Dict, REASON)),
                        side if kind_of(side) == Some(Kind::Dict) => self.lacks(REASON),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        if let Some(root) = root_of(&call.func) {
            for function in &self.inside {
                self.calls.entry(function).or_default().push(root);
            }
        }
        let Some(name) = last_name(&call.func) else { return };
        let arguments = &call.arguments;
        for keyword in arguments.keywords.iter().filter_map(|keyword| keyword.arg.as_ref()) {
            if table::lacks_keyword(name, keyword) {
                self.lacks(format!("the argument '{keyword}' of {name}()"));
            }
        }
        let first = arguments.args.first();
        match table::callback_of(name) {
            Some(Callback::First) => self.calls_back(first),
            Some(Callback::Second) => self.calls_back(arguments.args.get(1)),
            Some(Callback::Key) => self.calls_back(keyword(arguments, "key")),
            None => {}
        }
        match name {
            "next" => self.advances(first),
            "sub" => self.replaces(arguments),
            "strptime" if !arguments.args.get(1).is_some_and(is_whole_date) => {
                self.lacks("strptime() of partial dates");
            }
            "encode" | "decode" if first.is_some_and(is_rare_encoding) => self.lacks("encodings other than UTF-8"),
            "bytes" if matches!(first, Some(Expr::List(_) | Expr::ListComp(_))) => self.lacks("bytes() of a list"),
            "SystemExit" => self.lacks("SystemExit"),
            "object" if matches!(&*call.func, Expr::Name(_)) => self.lacks("object()"),
            _ => {}
        }
    }

    /// Checks a function that a builtin calls.
    fn calls_back(&mut self, function: Option<&'a Expr>) {
        match function {
            Some(Expr::Lambda(lambda)) => {
                let mut roots = Roots::default();
                roots.visit_expr(&lambda.body);
                let own: HashSet<&str> = lambda
                    .parameters
                    .iter()
                    .flat_map(|parameters| parameters.iter())
                    .map(|one| one.name().as_str())
                    .collect();
                self.called_back.extend(roots.0.into_iter().filter(|root| !own.contains(root)));
            }
            Some(expression @ (Expr::Name(_) | Expr::Attribute(_))) => self.called_back.extend(root_of(expression)),
            _ => {}
        }
    }

    fn advances(&mut self, iterator: Option<&'a Expr>) {
        const REASON: &str = "next() of a lazy iterator";
        match iterator {
            Some(Expr::Name(name)) => self.if_kind.push((name.id.as_str(), Kind::Lazy, REASON)),
            Some(expression) if kind_of(expression) == Some(Kind::Lazy) => self.lacks(REASON),
            _ => {}
        }
    }

    /// The replacement may be the first argument (of a pattern's method) or the second (of `re.sub`).
    fn replaces(&mut self, arguments: &'a Arguments) {
        const REASON: &str = "re.sub() with a function";
        let named = keyword(arguments, "repl");
        for replacement in arguments.args.iter().take(2).chain(named) {
            match replacement {
                Expr::Lambda(_) => self.lacks(REASON),
                Expr::Name(name) => self.if_kind.push((name.id.as_str(), Kind::Function, REASON)),
                _ => {}
            }
        }
    }

    fn attribute(&mut self, expression: &'a Expr, value: &'a Expr, name: &'a str) {
        if let Expr::Name(base) = value
            && let Some(module) = self.modules.get(base.id.as_str())
            && table::members(module).is_some_and(|members| !members.contains(&name))
        {
            self.lacks(format!("'{name}' of the module '{module}'"));
        }
        if table::lacks_attribute(name) {
            self.lacks(format!("the attribute '{name}'"));
        }
        if table::lacks_on_dates(name) && matches!(last_name(value), Some("datetime" | "date" | "time" | "timedelta")) {
            self.lacks(format!("'{name}' of dates"));
        }
        if table::is_special(name) {
            match (name, value) {
                ("__name__", Expr::Name(base)) => {
                    self.if_kind.push((base.id.as_str(), Kind::Function, "the name of a function"));
                }
                ("__name__", _) => {}
                _ => self.lacks(format!("the attribute {name}")),
            }
        }
        let is_called = self.callee.is_some_and(|callee| std::ptr::eq(callee, expression));
        let of_type = matches!(value, Expr::Name(base) if table::is_type(&base.id));
        if !is_called && (of_type || is_text(value) || table::is_method(name) && !self.may_be_host(value)) {
            self.lacks("methods of builtin types as values");
        }
    }

    /// Whether an expression may be a pack: a plain name that nothing has bound yet.
    fn may_be_host(&self, value: &Expr) -> bool {
        matches!(value, Expr::Name(name) if !self.bound.contains(name.id.as_str()))
    }
}

impl<'a> Visitor<'a> for Survey<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Delete(_) => self.lacks("'del'"),
            Stmt::Raise(raise) if matches!(raise.exc.as_deref(), Some(Expr::Name(name)) if name.id == "SystemExit") => {
                self.lacks("SystemExit");
            }
            Stmt::TypeAlias(_) => self.lacks("type aliases"),
            Stmt::Match(_) => self.lacks("'match'"),
            Stmt::With(with) if with.is_async => self.lacks("'async with'"),
            Stmt::Try(attempt) if attempt.is_star => self.lacks("'except*'"),
            Stmt::For(each) => {
                if each.is_async {
                    self.lacks("'async for'");
                }
                self.assigned(&each.target, None);
                self.visit_expr(&each.iter);
                self.visit_body(&each.body);
                self.visit_body(&each.orelse);
                return;
            }
            Stmt::ClassDef(class) => self.class(class),
            Stmt::FunctionDef(function) => return self.function(function),
            Stmt::Import(import) => import.names.iter().for_each(|name| self.import(name)),
            Stmt::ImportFrom(import) => {
                self.import_from(import.module.as_ref().map_or("", |module| module.as_str()), &import.names);
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.assigned(target, Some(&assign.value));
                }
                self.visit_expr(&assign.value);
                return;
            }
            Stmt::AnnAssign(assign) => {
                self.assigned(&assign.target, assign.value.as_deref());
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                }
                return;
            }
            Stmt::AugAssign(assign) => {
                self.binary(&assign.target, assign.op, &assign.value);
                self.assigned(&assign.target, None);
                self.visit_expr(&assign.value);
                return;
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Yield(_) | Expr::YieldFrom(_) => self.lacks("'yield'"),
            Expr::TString(_) => self.lacks("template strings"),
            Expr::NumberLiteral(number) if matches!(number.value, Number::Complex { .. }) => {
                self.lacks("complex numbers");
            }
            Expr::Name(name) => {
                let name = name.id.as_str();
                if expression_is_bound(expression) {
                    self.bound.insert(name);
                } else if table::lacks_builtin(name) {
                    self.lacking.push(name);
                }
            }
            Expr::Named(named) => self.assigned(&named.target, Some(&named.value)),
            Expr::BinOp(binary) => self.binary(&binary.left, binary.op, &binary.right),
            Expr::Attribute(attribute) => self.attribute(expression, &attribute.value, attribute.attr.as_str()),
            Expr::Generator(generator) => {
                let endless = |one: &Comprehension| matches!(&one.iter, Expr::Call(call) if matches!(last_name(&call.func), Some("count" | "cycle" | "repeat")));
                if generator.generators.iter().any(endless) {
                    self.lacks("a generator over an endless iterator");
                }
            }
            Expr::Call(call) => {
                self.call(call);
                self.callee = Some(&call.func);
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }

    // Monty never evaluates annotations.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_decorator(&mut self, decorator: &'a Decorator) {
        // A decorator is called, not passed as a value.
        self.callee = Some(&decorator.expression);
        self.visit_expr(&decorator.expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if comprehension.is_async {
            self.lacks("asynchronous comprehensions");
        }
        self.assigned(&comprehension.target, None);
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bound.insert(name.as_str());
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.as_str());
    }
}

/// The roots of all calls in an expression.
#[derive(Default)]
struct Roots<'a>(Vec<&'a str>);

impl<'a> Visitor<'a> for Roots<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression {
            self.0.extend(root_of(&call.func));
        }
        visitor::walk_expr(self, expression);
    }
}

fn expression_is_bound(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(name) if !name.ctx.is_load())
}

/// `a` of `a`, `a.b.c`.
fn root_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => root_of(&attribute.value),
        _ => None,
    }
}

/// `c` of `c`, `a.b.c`.
fn last_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}

fn keyword<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Expr> {
    arguments.keywords.iter().find(|one| one.arg.as_ref().is_some_and(|arg| arg == name)).map(|one| &one.value)
}

fn kind_of(value: &Expr) -> Option<Kind> {
    match value {
        Expr::StringLiteral(_) | Expr::BytesLiteral(_) | Expr::FString(_) => Some(Kind::Text),
        Expr::Dict(_) | Expr::DictComp(_) => Some(Kind::Dict),
        Expr::Generator(_) => Some(Kind::Lazy),
        Expr::Lambda(_) => Some(Kind::Function),
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => match name.id.as_str() {
                "dict" => Some(Kind::Dict),
                "map" | "filter" | "zip" | "enumerate" | "reversed" => Some(Kind::Lazy),
                "str" => Some(Kind::Text),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn is_text(expression: &Expr) -> bool {
    kind_of(expression) == Some(Kind::Text)
}

fn is_text_or_dots(expression: &Expr) -> bool {
    matches!(expression, Expr::StringLiteral(_) | Expr::EllipsisLiteral(_))
}

fn is_whole_date(format: &Expr) -> bool {
    matches!(format, Expr::StringLiteral(text) if ["%Y", "%m", "%d"].iter().all(|part| text.value.to_str().contains(part)))
}

fn is_rare_encoding(name: &Expr) -> bool {
    matches!(name, Expr::StringLiteral(text)
        if !["utf-8", "utf8", "utf_8", "ascii"].contains(&text.value.to_str().to_ascii_lowercase().as_str()))
}

fn holds_named(expression: &Expr) -> bool {
    struct Finder(bool);
    impl<'a> Visitor<'a> for Finder {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.0 |= matches!(expression, Expr::Named(_));
            visitor::walk_expr(self, expression);
        }
    }
    let mut finder = Finder(false);
    finder.visit_expr(expression);
    finder.0
}
