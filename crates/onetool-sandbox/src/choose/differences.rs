//! Things that Monty runs but answers differently, found by running thousands of expressions in both engines.
//!
//! There are three families. Iterators that are lazy in Python are lists in Monty, which shows when one is kept, read
//! twice, or stops early while its items have effects. Sets keep insertion order, which shows where a set is printed or
//! listed. And a missing feature is an ordinary exception, which shows where the program catches it; if uncaught, the
//! run is retried in full Python. The rest is a handful of functions that round, split or match differently.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    CmpOp, Comprehension, Decorator, Expr, ExprCall, InterpolatedStringElement, ModModule, Number, Operator, Stmt,
    StmtTry, UnaryOp,
};

use super::caught;
use super::effects::{has_effects, is_plain_body, mutates};
use super::integers::Integers;
use super::table;

/// How the surrounding code reads an iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// To its end, at once.
    Whole,
    /// Item by item, and perhaps not to the end.
    Piecewise,
}

/// Maximum number of operators between an expression and a set in it: chains may be long, and each part is checked.
const MAX_OPERATORS: usize = 8;

const KEPT: &str = "an iterator that is kept";
const EFFECTS: &str = "an iterator whose items have effects";
const VIEW: &str = "a view or a range that is kept";
const MICROSECONDS: &str = "the microseconds of dates";
const ORDER: &str = "the order of a set";

pub(super) struct Differences<'a> {
    module: &'a ModModule,
    /// Computed at the first power or floor division.
    integers: OnceCell<Integers<'a>>,
    reason: Option<&'static str>,
    bound: HashSet<&'a str>,
    /// Iterators, by address, that something reads.
    read: HashMap<*const Expr, Reading>,
    /// Expressions, by address, whose order is not observable.
    sheltered: HashSet<*const Expr>,
    /// Powers, by address, that are an error where they would differ.
    fails_alike: HashSet<*const Expr>,
    /// Names that hold sets, and names whose values were computed from other names.
    sets: HashSet<&'a str>,
    derived: Vec<(&'a str, &'a str)>,
    /// Names that are read where their order is observable.
    exposed: Vec<&'a str>,
    /// Whether the program reads a value of the host, as `pack.value`, and whether it asks for a type.
    reads_host: bool,
    asks_type: bool,
    /// The callee of the call being visited.
    callee: Option<*const Expr>,
}

impl<'a> Differences<'a> {
    /// Returns the first thing whose result may differ.
    pub(super) fn of(module: &'a ModModule) -> Option<&'static str> {
        let mut differences = Self {
            module,
            integers: OnceCell::new(),
            reason: None,
            bound: bound_names(module),
            read: HashMap::new(),
            sheltered: HashSet::new(),
            fails_alike: HashSet::new(),
            sets: HashSet::new(),
            derived: Vec::new(),
            exposed: Vec::new(),
            reads_host: false,
            asks_type: false,
            callee: None,
        };
        if let Some(Stmt::Expr(last)) = module.body.last() {
            // Sets in results are sorted.
            differences.shelter_set(&last.value);
        }
        differences.visit_body(&module.body);
        differences.finish()
    }

    fn finish(mut self) -> Option<&'static str> {
        let mut into: HashMap<&str, Vec<&'a str>> = HashMap::new();
        for (name, source) in &self.derived {
            into.entry(source).or_default().push(name);
        }
        let mut waiting: Vec<&str> = self.sets.iter().copied().collect();
        while let Some(source) = waiting.pop() {
            for name in into.remove(source).unwrap_or_default() {
                if self.sets.insert(name) {
                    waiting.push(name);
                }
            }
        }
        if self.reads_host && self.asks_type {
            // A project's path has a type of its own only in Python.
            self.differs("the type of a value");
        }
        self.reason.or_else(|| self.exposed.iter().any(|name| self.sets.contains(name)).then_some(ORDER))
    }

    fn differs(&mut self, reason: &'static str) {
        self.reason.get_or_insert(reason);
    }

    fn reads(&mut self, iterated: &'a Expr, reading: Reading) {
        self.read.entry(std::ptr::from_ref(iterated)).or_insert(reading);
    }

    fn integers(&self) -> &Integers<'a> {
        self.integers.get_or_init(|| Integers::of(self.module))
    }

    /// Checks an operation on two numbers.
    fn operation(&mut self, left: &Expr, operator: Operator, right: &Expr) {
        match operator {
            Operator::Pow if !self.integers().power_is_exact(left, right) => self.differs("powers of floats"),
            Operator::FloorDiv if !self.integers().floor_is_exact(left, right) => {
                self.differs("floor division of floats");
            }
            _ => {}
        }
    }

    fn shelter(&mut self, expression: &'a Expr) {
        self.sheltered.insert(std::ptr::from_ref(expression));
    }

    /// Like [`Self::shelter`], but only for a set itself, not for a list made from one.
    fn shelter_set(&mut self, expression: &'a Expr) {
        if !matches!(expression, Expr::ListComp(_) | Expr::Generator(_)) {
            self.shelter(expression);
        }
    }

    fn is_sheltered(&self, expression: &Expr) -> bool {
        self.sheltered.contains(&std::ptr::from_ref(expression))
    }

    /// Whether a name refers to a builtin in this program.
    fn is_builtin(&self, name: &str) -> bool {
        !self.bound.contains(name)
    }

    fn builtin_of<'e>(&self, call: &'e ExprCall) -> Option<&'e str> {
        match &*call.func {
            Expr::Name(name) if self.is_builtin(&name.id) => Some(name.id.as_str()),
            _ => None,
        }
    }

    fn is_lazy(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Generator(_) => true,
            Expr::Call(call) => {
                matches!(self.builtin_of(call), Some("map" | "filter" | "zip" | "enumerate" | "reversed"))
            }
            _ => false,
        }
    }

    /// Whether the value is converted to a list when it leaves Python, but to text when it leaves Monty.
    fn is_view(&self, expression: &Expr) -> bool {
        let Expr::Call(call) = expression else { return false };
        self.builtin_of(call) == Some("range")
            || call.arguments.is_empty()
                && matches!(&*call.func, Expr::Attribute(method)
                    if matches!(method.attr.as_str(), "keys" | "values" | "items"))
    }

    fn is_set(&self, expression: &Expr) -> bool {
        self.is_set_within(expression, MAX_OPERATORS)
    }

    fn is_set_within(&self, expression: &Expr, operators: usize) -> bool {
        match expression {
            Expr::Set(_) | Expr::SetComp(_) => true,
            Expr::BinOp(binary) => {
                operators > 0
                    && is_set_operator(binary.op)
                    && [&binary.left, &binary.right].into_iter().any(|side| self.is_set_within(side, operators - 1))
            }
            Expr::Call(call) => {
                matches!(self.builtin_of(call), Some("set" | "frozenset"))
                    || matches!(&*call.func, Expr::Attribute(method)
                        if matches!(method.attr.as_str(), "union" | "intersection" | "difference" | "symmetric_difference"))
            }
            _ => false,
        }
    }

    fn assigned(&mut self, target: &'a Expr, value: &'a Expr) {
        match target {
            Expr::Name(name) => {
                if self.is_set(value) {
                    self.sets.insert(name.id.as_str());
                }
                self.derive(name.id.as_str(), value);
                self.shelter_set(value);
            }
            // Unpacking reads the whole iterator.
            Expr::Tuple(_) | Expr::List(_) => self.reads(value, Reading::Whole),
            _ => {}
        }
    }

    fn derive(&mut self, target: &'a str, value: &'a Expr) {
        match value {
            Expr::Name(name) => self.derived.push((target, name.id.as_str())),
            Expr::BinOp(binary) if is_set_operator(binary.op) => {
                self.derive(target, &binary.left);
                self.derive(target, &binary.right);
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &'a ExprCall, itself: &'a Expr) {
        let arguments = &call.arguments;
        if let Some(name) = self.builtin_of(call) {
            match name {
                "round" if arguments.len() > 1 => self.differs("round() to digits"),
                "getattr" if arguments.len() > 2 => self.differs("attributes that may be missing"),
                "hasattr" => self.differs("attributes that may be missing"),
                "sum" if arguments.args.first().is_some_and(holds_truth) => self.differs("a sum of truth values"),
                "divmod" => self.differs("divmod()"),
                "hash" => self.differs("hash()"),
                "pow" => {
                    if let [base, exponent] = &*arguments.args {
                        self.operation(base, Operator::Pow, exponent);
                    }
                }
                // The root of a negative number is `nan` in Monty, of which there is no integer.
                "int" => {
                    if let Some(root @ Expr::BinOp(binary)) = arguments.args.first()
                        && binary.op == Operator::Pow
                        && is_half(&binary.right)
                    {
                        self.fails_alike.insert(std::ptr::from_ref(root));
                    }
                }
                "list" | "tuple" | "dict" => self.reads_all(call, Reading::Whole),
                "len" | "sorted" | "sum" | "min" | "max" | "set" | "frozenset" => {
                    self.reads_all(call, Reading::Whole);
                    arguments.args.iter().for_each(|argument| self.shelter(argument));
                }
                "any" | "all" => {
                    self.reads_all(call, Reading::Piecewise);
                    arguments.args.iter().for_each(|argument| self.shelter(argument));
                }
                "bool" | "isinstance" | "type" => arguments.args.iter().for_each(|argument| self.shelter_set(argument)),
                "map" | "filter" | "zip" | "enumerate" | "reversed" | "iter" => {
                    self.reads_all(call, Reading::Piecewise);
                    if self.is_sheltered(itself) {
                        arguments.args.iter().for_each(|argument| self.shelter(argument));
                    }
                }
                _ => {}
            }
            return;
        }
        match &*call.func {
            Expr::Attribute(method) => {
                if method.attr.as_str() != "pop" {
                    self.shelter_set(&method.value);
                }
                match method.attr.as_str() {
                    "center" | "casefold" | "title" | "capitalize" | "splitlines" => self.differs("rare characters"),
                    "strftime" if !arguments.args.iter().all(Expr::is_string_literal_expr) => {
                        self.differs(MICROSECONDS);
                    }
                    "strptime" if arguments.args.get(1).is_some_and(has_offset) => {
                        self.differs("strptime() of offsets");
                    }
                    "join" | "extend" | "deque" | "reduce" => self.reads_all(call, Reading::Whole),
                    "update"
                    | "union"
                    | "intersection"
                    | "difference"
                    | "symmetric_difference"
                    | "issubset"
                    | "issuperset"
                    | "isdisjoint"
                    | "Counter" => {
                        self.reads_all(call, Reading::Whole);
                        arguments.args.iter().for_each(|argument| self.shelter(argument));
                    }
                    _ => self.reads_all(call, Reading::Piecewise),
                }
            }
            // A name imported from a module, or defined by the program.
            Expr::Name(name) if matches!(name.id.as_str(), "Counter" | "deque" | "reduce" | "OrderedDict") => {
                self.reads_all(call, Reading::Whole);
            }
            Expr::Name(name) if table::is_of_itertools(&name.id) => self.reads_all(call, Reading::Piecewise),
            _ => {}
        }
    }

    fn reads_all(&mut self, call: &'a ExprCall, reading: Reading) {
        call.arguments.args.iter().for_each(|argument| self.reads(argument, reading));
    }

    /// Checks an iterator: whether something reads it, and whether reading it piecewise makes a difference.
    fn lazy(&mut self, expression: &'a Expr) {
        let piecewise = match self.read.get(&std::ptr::from_ref(expression)) {
            None => return self.differs(KEPT),
            Some(reading) => *reading == Reading::Piecewise,
        };
        let effects = match expression {
            Expr::Generator(generator) => {
                has_effects(&generator.elt, &self.bound)
                    || generator.generators.iter().any(|one| one.ifs.iter().any(|test| has_effects(test, &self.bound)))
            }
            Expr::Call(call) if matches!(self.builtin_of(call), Some("map" | "filter")) => {
                match call.arguments.args.first() {
                    Some(Expr::Lambda(lambda)) => has_effects(&lambda.body, &self.bound),
                    Some(Expr::Name(name)) => !self.is_builtin(&name.id) || name.id == "print",
                    Some(Expr::NoneLiteral(_)) => false,
                    _ => true,
                }
            }
            _ => false,
        };
        if piecewise && effects {
            self.differs(EFFECTS);
        }
    }

    fn attempt(&mut self, attempt: &StmtTry) {
        let is_plain = is_plain_body(&attempt.body, &self.bound);
        if caught::is_broad(attempt) && !is_plain {
            self.differs("exceptions that are caught");
        }
        if caught::looks_different(attempt, is_plain) {
            self.differs("what a caught exception says");
        }
    }

    /// Marks the iterables of comprehensions whose own order is not observable.
    fn hides(&mut self, comprehensions: &'a [Comprehension]) {
        for comprehension in comprehensions {
            self.shelter(&comprehension.iter);
        }
    }

    /// Checks text that may format a date.
    fn text(&mut self, text: &str) {
        if text.contains("%f") {
            self.differs(MICROSECONDS);
        }
    }

    fn imported(&mut self, module: &str) {
        if module == "re" {
            self.differs("regular expressions");
        }
    }
}

impl<'a> Visitor<'a> for Differences<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(assign) => assign.targets.iter().for_each(|target| self.assigned(target, &assign.value)),
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assigned(&assign.target, value);
                }
            }
            Stmt::AugAssign(assign) => {
                self.shelter_set(&assign.value);
                self.operation(&assign.target, assign.op, &assign.value);
            }
            Stmt::For(each) => {
                self.reads(&each.iter, Reading::Piecewise);
                if self.is_lazy(&each.iter) && mutates(&each.body, &each.iter) {
                    self.differs("a list that changes while it is read");
                }
            }
            Stmt::ClassDef(class) => {
                let is_text = |statement: &Stmt| matches!(statement, Stmt::FunctionDef(method) if matches!(method.name.as_str(), "__str__" | "__repr__" | "__next__"));
                if class.body.iter().any(is_text) {
                    self.differs("objects that are shown by their text or their items");
                }
            }
            Stmt::If(branch) => self.shelter(&branch.test),
            Stmt::While(repeated) => self.shelter(&repeated.test),
            Stmt::Try(attempt) => self.attempt(attempt),
            Stmt::Import(import) => import.names.iter().for_each(|name| self.imported(&name.name)),
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                self.imported(module);
                if module == "sys" && import.names.iter().any(|name| table::tells_engine(&name.name)) {
                    self.differs("what the interpreter says of itself");
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                self.callee = Some(std::ptr::from_ref(&*call.func));
                self.asks_type |= matches!(self.builtin_of(call), Some("type" | "repr" | "isinstance"));
                self.call(call, expression);
            }
            Expr::StringLiteral(text) => self.text(text.value.to_str()),
            Expr::Starred(starred) => self.reads(&starred.value, Reading::Whole),
            Expr::Named(named) => self.assigned(&named.target, &named.value),
            Expr::Compare(compare) => {
                let ordered = |operator: &CmpOp| matches!(operator, CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE);
                if compare.ops.iter().any(ordered) {
                    for side in std::iter::once(&*compare.left).chain(&compare.comparators) {
                        if self.is_set(side) {
                            self.differs(ORDER);
                        }
                        if let Expr::Name(name) = side {
                            self.exposed.push(name.id.as_str());
                        }
                    }
                }
                for side in std::iter::once(&*compare.left).chain(&compare.comparators) {
                    self.shelter_set(side);
                    self.reads(side, Reading::Piecewise);
                }
            }
            Expr::If(choice) => self.shelter(&choice.test),
            Expr::Dict(dict) => {
                let has = |is: fn(&Expr) -> bool| dict.iter_keys().flatten().any(is);
                if has(Expr::is_boolean_literal_expr) && has(Expr::is_number_literal_expr) {
                    self.differs("keys that are equal and not the same");
                }
            }
            Expr::BinOp(binary) => {
                if is_set_operator(binary.op) && (self.is_sheltered(expression) || self.is_set(expression)) {
                    self.shelter(&binary.left);
                    self.shelter(&binary.right);
                }
                if !self.fails_alike.contains(&std::ptr::from_ref(expression)) {
                    self.operation(&binary.left, binary.op, &binary.right);
                }
            }
            Expr::Attribute(attribute)
                if table::tells_engine(&attribute.attr)
                    && matches!(&*attribute.value, Expr::Name(name) if name.id == "sys") =>
            {
                self.differs("what the interpreter says of itself");
            }
            Expr::Attribute(attribute) if self.callee != Some(std::ptr::from_ref(expression)) => {
                self.reads_host |= matches!(&*attribute.value, Expr::Name(name) if self.is_builtin(&name.id));
            }
            Expr::SetComp(comprehension) => self.hides(&comprehension.generators),
            Expr::ListComp(comprehension) if self.is_sheltered(expression) => self.hides(&comprehension.generators),
            Expr::Generator(generator) if self.is_sheltered(expression) => self.hides(&generator.generators),
            Expr::Name(name) if name.ctx.is_load() && !self.is_sheltered(expression) => {
                self.exposed.push(name.id.as_str());
            }
            _ => {}
        }
        if self.is_lazy(expression) {
            self.lazy(expression);
        }
        if self.is_view(expression) && !self.read.contains_key(&std::ptr::from_ref(expression)) {
            self.differs(VIEW);
        }
        if self.is_set(expression) && !self.is_sheltered(expression) {
            self.differs(ORDER);
        }
        visitor::walk_expr(self, expression);
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_decorator(&mut self, decorator: &'a Decorator) {
        self.visit_expr(&decorator.expression);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        if let InterpolatedStringElement::Literal(literal) = element {
            self.text(&literal.value);
        }
        visitor::walk_interpolated_string_element(self, element);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.reads(&comprehension.iter, Reading::Piecewise);
        visitor::walk_comprehension(self, comprehension);
    }
}

fn bound_names(module: &ModModule) -> HashSet<&str> {
    #[derive(Default)]
    struct Bound<'a>(HashSet<&'a str>);
    impl<'a> Visitor<'a> for Bound<'a> {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            match statement {
                Stmt::FunctionDef(function) => {
                    self.0.insert(function.name.as_str());
                }
                Stmt::ClassDef(class) => {
                    self.0.insert(class.name.as_str());
                }
                Stmt::Import(import) => {
                    self.0.extend(import.names.iter().map(|name| name.asname.as_ref().unwrap_or(&name.name).as_str()));
                }
                Stmt::ImportFrom(import) => {
                    self.0.extend(import.names.iter().map(|name| name.asname.as_ref().unwrap_or(&name.name).as_str()));
                }
                _ => {}
            }
            visitor::walk_stmt(self, statement);
        }

        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Name(name) = expression
                && !name.ctx.is_load()
            {
                self.0.insert(name.id.as_str());
            }
            visitor::walk_expr(self, expression);
        }

        fn visit_parameter(&mut self, parameter: &'a ruff_python_ast::Parameter) {
            self.0.insert(parameter.name.as_str());
            visitor::walk_parameter(self, parameter);
        }
    }
    let mut bound = Bound::default();
    bound.visit_body(&module.body);
    bound.0
}

/// Whether an expression holds booleans that are summed.
fn holds_truth(summed: &Expr) -> bool {
    let is_truth = |item: &Expr| match item {
        Expr::Compare(_) | Expr::BooleanLiteral(_) => true,
        Expr::UnaryOp(unary) => unary.op == UnaryOp::Not,
        _ => false,
    };
    match summed {
        Expr::Generator(generator) => is_truth(&generator.elt),
        Expr::ListComp(comprehension) => is_truth(&comprehension.elt),
        Expr::List(list) => list.elts.iter().any(is_truth),
        Expr::Tuple(tuple) => tuple.elts.iter().any(is_truth),
        _ => false,
    }
}

fn is_half(exponent: &Expr) -> bool {
    matches!(exponent, Expr::NumberLiteral(number) if matches!(number.value, Number::Float(half) if half == 0.5))
}

fn is_set_operator(operator: Operator) -> bool {
    matches!(operator, Operator::BitOr | Operator::BitAnd | Operator::BitXor | Operator::Sub)
}

fn has_offset(format: &Expr) -> bool {
    !matches!(format, Expr::StringLiteral(text) if !text.value.to_str().contains("%z") && !text.value.to_str().contains("%Z"))
}
