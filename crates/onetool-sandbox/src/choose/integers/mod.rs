//! Which values are certainly integers, by the text of the program alone.
//!
//! Monty rounds powers and floor divisions of floats differently from Python, and those of integers alike. A name is an
//! integer if everything that the program ever binds to it is one, wherever that happens: scopes and the order of
//! statements are ignored. Lists, ranges and other collections are followed for their items, as long as the program
//! stores nothing else in them. **Invariant:** what is not known to be an integer is `Unknown`.

mod kind;

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprBinOp, ExprCall, ExprLambda, ExprSubscript, ModModule, Operator,
    Parameters, Stmt, UnaryOp,
};

use kind::{Kind, combined, integer, is_float, negated};

/// Rounds until the kinds of all names must be settled; each round costs a walk through all bindings.
const MAX_ROUNDS: usize = 24;

/// Functions of the library that store an argument in a list.
const STORING: &[&str] =
    &["heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right", "setattr", "setitem"];

/// Builtins that read a collection and keep no reference to it.
const READING: &[&str] = &[
    "all",
    "any",
    "bool",
    "dict",
    "enumerate",
    "filter",
    "float",
    "int",
    "isinstance",
    "len",
    "list",
    "map",
    "max",
    "min",
    "print",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
    "zip",
];

/// Where a name gets a value from.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Value(&'a Expr),
    /// An item of a collection.
    Item(&'a Expr),
    /// A value that is stored in the collection.
    Stored(&'a Expr),
    /// An operation on the name itself.
    Changed(Operator, &'a Expr),
    /// What `+=` adds to the collection of this name, if it is one.
    Extended(&'a str, &'a Expr),
    Kind(Kind),
}

#[derive(Debug, Clone, Copy)]
struct Function<'a> {
    parameters: &'a Parameters,
}

#[derive(Default)]
pub(super) struct Integers<'a> {
    sources: Vec<(&'a str, Source<'a>)>,
    /// Functions of the program, by name.
    functions: HashMap<&'a str, Vec<Function<'a>>>,
    results: Vec<(&'a str, &'a Expr)>,
    calls: Vec<(&'a str, &'a ExprCall)>,
    /// Lambdas whose parameters are items of a collection.
    fed: HashSet<*const ExprLambda>,
    /// Names that are read where another name may come to mean the same object.
    aliased: HashSet<&'a str>,
    /// Names that are read other than to call them.
    referenced: HashSet<&'a str>,
    callees: HashSet<*const Expr>,
    /// Names, by address, that are only read.
    read: HashSet<*const Expr>,
    /// Everything that the program stores in any collection.
    stored: Vec<Source<'a>>,
    inside: Vec<&'a str>,
    kinds: HashMap<&'a str, Kind>,
    returned: HashMap<&'a str, Kind>,
    imports_math: bool,
}

impl<'a> Integers<'a> {
    pub(super) fn of(module: &'a ModModule) -> Self {
        let mut found = Self::default();
        found.visit_body(&module.body);
        found.pass_arguments();
        found.settle();
        found
    }

    /// Whether `left ** right` is computed alike in both engines.
    pub(super) fn power_is_exact(&self, left: &Expr, right: &Expr) -> bool {
        if matches!(integer(right), Some(0 | 1)) {
            return true;
        }
        let (base, exponent) = (self.kind(left), self.kind(right));
        if base.is_integer() && exponent.is_natural() || base.is_natural() && is_float(right) {
            return true;
        }
        match (integer(left), negated(right)) {
            // Their reciprocals are exact as long as the power is.
            (Some(base), Some(exponent)) => {
                let power = u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent));
                power.is_some_and(|power| 0 < power && power < 1 << 53)
            }
            (Some(base), None) => base > 0 && base.is_power_of_two(),
            (None, _) => matches!(left, Expr::NumberLiteral(_)) && is_float(right),
        }
    }

    /// Whether `left // right` is computed alike in both engines.
    pub(super) fn floor_is_exact(&self, left: &Expr, right: &Expr) -> bool {
        let both = self.kind(left).is_integer() && self.kind(right).is_integer();
        // A float divided by a small integer is rounded alike, up to 2 ** 53.
        both || integer(right).is_some_and(|divisor| divisor != 0) && !is_float(left)
    }

    fn settle(&mut self) {
        // A program that gives them another meaning is not followed.
        if !READING.iter().any(|name| self.is_bound(name)) {
            for _ in 0..MAX_ROUNDS {
                if !self.round() {
                    return;
                }
            }
        }
        self.kinds.values_mut().chain(self.returned.values_mut()).for_each(|kind| *kind = Kind::Unknown);
    }

    /// Computes all kinds anew from the present ones; returns whether any changed.
    fn round(&mut self) -> bool {
        let stored = self.stored.iter().fold(Kind::Nothing, |kind, source| kind.or(self.kind_from("", *source)));
        let mut changed = false;
        for index in 0..self.sources.len() {
            let (name, source) = self.sources[index];
            // What is stored in a value of the host does not make it known.
            let Some(before) = self.kinds.get(name).copied() else { continue };
            let mut after = before.or(self.kind_from(name, source));
            if matches!(after, Kind::Naturals | Kind::Integers) && self.aliased.contains(name) {
                after = after.or(stored);
            }
            changed |= before != after;
            self.kinds.insert(name, after);
        }
        for index in 0..self.results.len() {
            let (name, value) = self.results[index];
            let before = self.returned.get(name).copied().unwrap_or_default();
            let after = before.or(self.kind(value));
            changed |= before != after;
            self.returned.insert(name, after);
        }
        changed
    }

    fn kind_from(&self, name: &str, source: Source<'a>) -> Kind {
        match source {
            Source::Value(value) => self.kind(value),
            Source::Item(collection) => self.kind(collection).item(),
            Source::Stored(value) => self.kind(value).collection(),
            Source::Changed(operator, value) => {
                combined(self.kinds.get(name).copied().unwrap_or_default(), operator, self.kind(value))
            }
            Source::Extended(name, value) => {
                let value = self.kind(value);
                match self.kinds.get(name) {
                    Some(Kind::Naturals | Kind::Integers | Kind::Unknown) if !value.is_integer() => value,
                    _ => Kind::Nothing,
                }
            }
            Source::Kind(kind) => kind,
        }
    }

    fn kind(&self, value: &Expr) -> Kind {
        match value {
            Expr::NumberLiteral(number) if number.value.is_int() => Kind::Natural,
            Expr::BooleanLiteral(_) | Expr::Compare(_) => Kind::Natural,
            Expr::Name(name) => self.kinds.get(name.id.as_str()).copied().unwrap_or(Kind::Unknown),
            Expr::UnaryOp(unary) => match (unary.op, self.kind(&unary.operand)) {
                (UnaryOp::Not, _) => Kind::Natural,
                (_, Kind::Nothing) => Kind::Nothing,
                (UnaryOp::UAdd, kind) if kind.is_integer() => kind,
                (_, kind) if kind.is_integer() => Kind::Integer,
                _ => Kind::Unknown,
            },
            Expr::BinOp(ExprBinOp { left, op, right, .. }) => combined(self.kind(left), *op, self.kind(right)),
            Expr::BoolOp(both) => both.values.iter().fold(Kind::Nothing, |kind, one| kind.or(self.kind(one))),
            Expr::If(choice) => self.kind(&choice.body).or(self.kind(&choice.orelse)),
            Expr::Named(named) => self.kind(&named.value),
            Expr::Subscript(ExprSubscript { value, slice, .. }) => match (self.kind(value), &**slice) {
                (kind @ (Kind::Naturals | Kind::Integers), Expr::Slice(_)) => kind,
                (kind, _) => kind.item(),
            },
            Expr::List(list) => self.display(&list.elts),
            Expr::Tuple(tuple) => self.display(&tuple.elts),
            Expr::Set(set) => self.display(&set.elts),
            Expr::ListComp(comprehension) => self.kind(&comprehension.elt).collection(),
            Expr::SetComp(comprehension) => self.kind(&comprehension.elt).collection(),
            Expr::Generator(generator) => self.kind(&generator.elt).collection(),
            Expr::Call(call) => self.kind_of_call(call),
            _ => Kind::Unknown,
        }
    }

    fn display(&self, items: &[Expr]) -> Kind {
        items.iter().fold(Kind::Naturals, |kind, item| match item {
            Expr::Starred(starred) => kind.or(self.kind(&starred.value)),
            item => kind.or(self.kind(item).collection()),
        })
    }

    fn kind_of_call(&self, call: &ExprCall) -> Kind {
        let arguments = &*call.arguments.args;
        let first = || arguments.first().map_or(Kind::Unknown, |first| self.kind(first));
        match &*call.func {
            Expr::Name(name) if self.functions.contains_key(name.id.as_str()) => {
                if self.is_one_function(&name.id) {
                    self.returned.get(name.id.as_str()).copied().unwrap_or_default()
                } else {
                    Kind::Unknown
                }
            }
            Expr::Name(name) if !self.is_bound(&name.id) => match name.id.as_str() {
                "len" | "ord" | "bool" | "isinstance" => Kind::Natural,
                "int" => Kind::Integer,
                "round" if call.arguments.len() == 1 => Kind::Integer,
                "abs" => match first() {
                    Kind::Nothing => Kind::Nothing,
                    kind if kind.is_integer() => Kind::Natural,
                    _ => Kind::Unknown,
                },
                "sum" => match (first(), arguments.get(1).map_or(Kind::Natural, |start| self.kind(start))) {
                    (items, start) if call.arguments.keywords.is_empty() => items.item().or(start),
                    _ => Kind::Unknown,
                },
                "min" | "max" => {
                    let default = call.arguments.keywords.iter().find(|one| one.arg.as_deref() == Some("default"));
                    let default = default.map_or(Kind::Nothing, |default| self.kind(&default.value));
                    match arguments {
                        [Expr::Starred(_)] | [] => Kind::Unknown,
                        [items] => self.kind(items).item().or(default),
                        several => several.iter().fold(default, |kind, one| kind.or(self.kind(one))),
                    }
                }
                // Anything but an integer is a TypeError.
                "range" => match arguments {
                    [_] => Kind::Naturals,
                    [start, _] if self.kind(start).is_natural() => Kind::Naturals,
                    _ => Kind::Integers,
                },
                "list" | "tuple" | "set" | "frozenset" | "sorted" | "reversed" | "iter" => {
                    if arguments.is_empty() {
                        Kind::Naturals
                    } else {
                        first()
                    }
                }
                "filter" => arguments.get(1).map_or(Kind::Unknown, |items| self.kind(items)),
                "map" => match arguments.first() {
                    Some(Expr::Name(name)) if name.id == "int" && !self.is_bound("int") => Kind::Integers,
                    Some(Expr::Name(name)) if name.id == "len" && !self.is_bound("len") => Kind::Naturals,
                    Some(Expr::Lambda(lambda)) => self.kind(&lambda.body).collection(),
                    _ => Kind::Unknown,
                },
                "pow" => match arguments {
                    [base, exponent] => combined(self.kind(base), Operator::Pow, self.kind(exponent)),
                    _ => Kind::Unknown,
                },
                _ => Kind::Unknown,
            },
            Expr::Attribute(method) => match (&*method.value, method.attr.as_str()) {
                (Expr::Name(module), "floor" | "ceil" | "trunc") if self.is_math(&module.id) => Kind::Integer,
                (Expr::Name(module), "gcd" | "factorial" | "comb" | "perm" | "isqrt") if self.is_math(&module.id) => {
                    Kind::Natural
                }
                (collection, "pop") => self.kind(collection).item(),
                (collection, "copy") => match self.kind(collection) {
                    kind @ (Kind::Nothing | Kind::Naturals | Kind::Integers) => kind,
                    _ => Kind::Unknown,
                },
                (_, "bit_length") => Kind::Natural,
                _ => Kind::Unknown,
            },
            _ => Kind::Unknown,
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.kinds.contains_key(name) || self.functions.contains_key(name)
    }

    fn is_math(&self, name: &str) -> bool {
        name == "math" && self.imports_math && !self.is_bound("math")
    }

    /// Whether a name means one function of the program, and is used only to call it.
    fn is_one_function(&self, name: &str) -> bool {
        self.functions.get(name).is_some_and(|all| all.len() == 1)
            && !self.kinds.contains_key(name)
            && !self.referenced.contains(name)
    }

    fn bind(&mut self, name: &'a str, source: Source<'a>) {
        self.sources.push((name, source));
        self.kinds.entry(name).or_default();
    }

    fn assign(&mut self, target: &'a Expr, value: &'a Expr) {
        match (target, value) {
            (Expr::Name(name), Expr::Lambda(lambda)) => {
                self.functions
                    .entry(name.id.as_str())
                    .or_default()
                    .extend(lambda.parameters.as_deref().map(|parameters| Function { parameters }));
                self.results.push((name.id.as_str(), &lambda.body));
                self.fed.insert(std::ptr::from_ref(lambda));
            }
            (Expr::Name(name), value) => self.bind(name.id.as_str(), Source::Value(value)),
            (Expr::Tuple(_) | Expr::List(_), Expr::Tuple(_) | Expr::List(_)) => {
                let (targets, values) = (items_of(target), items_of(value));
                if targets.len() == values.len() && !targets.iter().chain(values).any(Expr::is_starred_expr) {
                    targets.iter().zip(values).for_each(|(target, value)| self.assign(target, value));
                } else {
                    self.unknown(target);
                }
            }
            (Expr::Tuple(_) | Expr::List(_), collection) => self.unpack(target, collection),
            (Expr::Subscript(subscript), value) => {
                // A text is a key of a dict.
                if !matches!(&*subscript.slice, Expr::StringLiteral(_) | Expr::FString(_)) {
                    self.store(&subscript.value, Source::Stored(value));
                }
            }
            (target, _) => self.unknown(target),
        }
    }

    /// Binds each target to an item of the collection.
    fn unpack(&mut self, targets: &'a Expr, collection: &'a Expr) {
        for target in items_of(targets) {
            match target {
                Expr::Name(name) => self.bind(name.id.as_str(), Source::Item(collection)),
                other => self.unknown(other),
            }
        }
    }

    fn unknown(&mut self, target: &'a Expr) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), Source::Kind(Kind::Unknown)),
            Expr::Tuple(_) | Expr::List(_) => items_of(target).iter().for_each(|target| self.unknown(target)),
            Expr::Starred(starred) => self.unknown(&starred.value),
            Expr::Subscript(subscript) => self.store(&subscript.value, Source::Kind(Kind::Unknown)),
            _ => {}
        }
    }

    fn store(&mut self, collection: &'a Expr, source: Source<'a>) {
        self.stored.push(source);
        if let Expr::Name(name) = collection {
            self.sources.push((name.id.as_str(), source));
        }
    }

    /// Binds the target of a loop or a comprehension.
    fn iterate(&mut self, target: &'a Expr, iterated: &'a Expr) {
        let sources = match (iterated, target) {
            (Expr::Call(call), Expr::Tuple(tuple)) => match (&*call.func, &*call.arguments.args, &*tuple.elts) {
                (Expr::Name(name), [items, ..], [index, item]) if name.id == "enumerate" => {
                    let named = call.arguments.keywords.first().map(|keyword| &keyword.value);
                    let start = call.arguments.args.get(1).or(named);
                    let counted = start.map_or(Source::Kind(Kind::Natural), Source::Value);
                    vec![(index, counted), (item, Source::Item(items))]
                }
                (Expr::Name(name), collections, targets) if name.id == "zip" && collections.len() == targets.len() => {
                    targets.iter().zip(collections).map(|(target, items)| (target, Source::Item(items))).collect()
                }
                _ => Vec::new(),
            },
            (iterated, target @ Expr::Name(_)) => vec![(target, Source::Item(iterated))],
            _ => Vec::new(),
        };
        if sources.is_empty() {
            return self.unknown(target);
        }
        for (target, source) in sources {
            match target {
                Expr::Name(name) => self.bind(name.id.as_str(), source),
                other => self.unknown(other),
            }
        }
    }

    /// Binds the parameters of each function to the arguments of its calls.
    fn pass_arguments(&mut self) {
        let functions: Vec<(&'a str, Function<'a>)> =
            self.functions.iter().flat_map(|(name, all)| all.iter().map(|one| (*name, *one))).collect();
        for (name, function) in functions {
            let parameters = function.parameters;
            for other in parameters.vararg.iter().chain(&parameters.kwarg) {
                self.bind(other.name.as_str(), Source::Kind(Kind::Unknown));
            }
            let known = self.is_one_function(name);
            let positional = parameters.posonlyargs.iter().chain(&parameters.args);
            let all = positional.map(Some).enumerate().map(|(at, one)| (Some(at), one));
            let all: Vec<_> = all.chain(parameters.kwonlyargs.iter().map(|one| (None, Some(one)))).collect();
            for (at, parameter) in all.into_iter().filter_map(|(at, one)| Some((at, one?))) {
                let own = parameter.parameter.name.as_str();
                if !known {
                    self.bind(own, Source::Kind(Kind::Unknown));
                    continue;
                }
                self.kinds.entry(own).or_default();
                let calls: Vec<&ExprCall> =
                    self.calls.iter().filter(|(called, _)| *called == name).map(|(_, call)| *call).collect();
                for call in calls {
                    let arguments = &call.arguments;
                    let spread = arguments.args.iter().any(Expr::is_starred_expr)
                        || arguments.keywords.iter().any(|one| one.arg.is_none());
                    let named = arguments.keywords.iter().find(|one| one.arg.as_deref() == Some(own));
                    let given = named.map(|one| &one.value).or_else(|| arguments.args.get(at?));
                    let source = match given.or(parameter.default.as_deref()) {
                        Some(value) if !spread => Source::Value(value),
                        _ => Source::Kind(Kind::Unknown),
                    };
                    self.bind(own, source);
                }
            }
        }
    }

    fn parameters_are_unknown(&mut self, parameters: &'a Parameters) {
        for parameter in parameters.iter() {
            self.bind(parameter.name().as_str(), Source::Kind(Kind::Unknown));
        }
    }

    /// Notes a lambda whose only parameter is each item of a collection.
    fn feed(&mut self, function: Option<&'a Expr>, collection: Option<&'a Expr>) {
        if let (Some(Expr::Lambda(lambda)), Some(collection)) = (function, collection)
            && let Some(parameters) = &lambda.parameters
            && let [one] = &*parameters.args
            && parameters.len() == 1
        {
            self.fed.insert(std::ptr::from_ref(lambda));
            self.bind(one.parameter.name.as_str(), Source::Item(collection));
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        let arguments = &call.arguments;
        let mut is_reading = false;
        match &*call.func {
            Expr::Name(name) => {
                self.callees.insert(std::ptr::from_ref(&*call.func));
                self.calls.push((name.id.as_str(), call));
                is_reading = READING.contains(&name.id.as_str());
                let key = arguments.keywords.iter().find(|one| one.arg.as_deref() == Some("key"));
                match name.id.as_str() {
                    "map" if arguments.args.len() == 2 => self.feed(arguments.args.first(), arguments.args.get(1)),
                    "filter" => self.feed(arguments.args.first(), arguments.args.get(1)),
                    "sorted" => self.feed(key.map(|one| &one.value), arguments.args.first()),
                    "min" | "max" if arguments.args.len() == 1 => {
                        self.feed(key.map(|one| &one.value), arguments.args.first());
                    }
                    name if STORING.contains(&name) => self.stored.push(Source::Kind(Kind::Unknown)),
                    _ => {}
                }
            }
            Expr::Attribute(method) => {
                self.read.insert(std::ptr::from_ref(&*method.value));
                match (method.attr.as_str(), &*arguments.args) {
                    ("append" | "add" | "appendleft", [item]) => self.store(&method.value, Source::Stored(item)),
                    ("insert", [_, item]) => self.store(&method.value, Source::Stored(item)),
                    ("extend" | "update" | "extendleft", [items]) => self.store(&method.value, Source::Value(items)),
                    ("append" | "add" | "appendleft" | "insert" | "extend" | "update" | "extendleft", _)
                    | ("setdefault" | "__setitem__" | "__setattr__", _) => {
                        self.store(&method.value, Source::Kind(Kind::Unknown));
                    }
                    (name, _) if STORING.contains(&name) => self.stored.push(Source::Kind(Kind::Unknown)),
                    _ => {}
                }
            }
            _ => {}
        }
        if is_reading {
            self.read.extend(arguments.args.iter().map(std::ptr::from_ref));
        }
    }
}

impl<'a> Visitor<'a> for Integers<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(assign) => assign.targets.iter().for_each(|target| self.assign(target, &assign.value)),
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assign(&assign.target, value);
                }
            }
            Stmt::AugAssign(assign) => match &*assign.target {
                Expr::Name(name) => {
                    self.bind(name.id.as_str(), Source::Changed(assign.op, &assign.value));
                    self.stored.push(Source::Extended(name.id.as_str(), &assign.value));
                }
                Expr::Subscript(subscript) => {
                    let source = match assign.op {
                        Operator::Div | Operator::Pow => Source::Kind(Kind::Unknown),
                        _ => Source::Stored(&assign.value),
                    };
                    self.store(&subscript.value, source);
                    if !matches!(assign.op, Operator::Add | Operator::Mult) {
                        self.store(&subscript.value, Source::Kind(Kind::Integers));
                    }
                }
                target => self.unknown(target),
            },
            Stmt::For(each) => {
                self.read.insert(std::ptr::from_ref(&*each.iter));
                self.iterate(&each.target, &each.iter);
            }
            Stmt::With(with) => {
                for target in with.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                    self.unknown(target);
                }
            }
            Stmt::FunctionDef(function) => {
                let name = function.name.as_str();
                if function.decorator_list.is_empty() && !function.is_async {
                    self.functions.entry(name).or_default().push(Function { parameters: &function.parameters });
                } else {
                    self.bind(name, Source::Kind(Kind::Unknown));
                    self.parameters_are_unknown(&function.parameters);
                }
                self.inside.push(name);
                visitor::walk_stmt(self, statement);
                self.inside.pop();
                return;
            }
            Stmt::Return(leave) => {
                if let (Some(value), Some(function)) = (&leave.value, self.inside.last()) {
                    self.results.push((function, value));
                }
            }
            Stmt::ClassDef(class) => {
                self.bind(class.name.as_str(), Source::Kind(Kind::Unknown));
                for method in &class.body {
                    if let Stmt::FunctionDef(method) = method {
                        // Objects call them in ways that a name does not show.
                        self.bind(method.name.as_str(), Source::Kind(Kind::Unknown));
                    }
                }
            }
            Stmt::Import(import) => {
                for name in &import.names {
                    if name.asname.is_none() && name.name.as_str() == "math" {
                        self.imports_math = true;
                    } else {
                        let local = name.asname.as_ref().unwrap_or(&name.name);
                        self.bind(local.as_str(), Source::Kind(Kind::Unknown));
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                for name in &import.names {
                    let local = name.asname.as_ref().unwrap_or(&name.name);
                    self.bind(local.as_str(), Source::Kind(Kind::Unknown));
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) if name.ctx.is_load() => {
                let address = std::ptr::from_ref(expression);
                if !self.callees.contains(&address) {
                    self.referenced.insert(name.id.as_str());
                    if !self.read.contains(&address) {
                        self.aliased.insert(name.id.as_str());
                    }
                }
            }
            Expr::Named(named) => self.assign(&named.target, &named.value),
            Expr::Call(call) => self.call(call),
            Expr::Subscript(subscript) => {
                self.read.insert(std::ptr::from_ref(&*subscript.value));
            }
            Expr::BinOp(binary) => {
                self.read.extend([&*binary.left, &*binary.right].map(std::ptr::from_ref));
            }
            Expr::Compare(compare) => {
                self.read.insert(std::ptr::from_ref(&*compare.left));
                self.read.extend(compare.comparators.iter().map(std::ptr::from_ref));
            }
            Expr::Lambda(lambda) if !self.fed.contains(&std::ptr::from_ref(lambda)) => {
                if let Some(parameters) = &lambda.parameters {
                    self.parameters_are_unknown(parameters);
                }
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                if let Some(function) = self.inside.last() {
                    self.bind(function, Source::Kind(Kind::Unknown));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.read.insert(std::ptr::from_ref(&comprehension.iter));
        self.iterate(&comprehension.target, &comprehension.iter);
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bind(name.as_str(), Source::Kind(Kind::Unknown));
        }
        visitor::walk_except_handler(self, handler);
    }
}

fn items_of(display: &Expr) -> &[Expr] {
    match display {
        Expr::Tuple(tuple) => &tuple.elts,
        Expr::List(list) => &list.elts,
        _ => &[],
    }
}
