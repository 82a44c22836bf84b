//! A tool file that is read but not run: its pack, its functions and their documentation.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::{
    InputSchema, Origin, Pack, PackDocs, Parameter, ParameterKind, Signature, ToolSpec, Value, is_python_identifier,
};
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged as _;
use serde_json::json;

use super::annotation::{self, TypeReading};
use super::classes::Classes;
use super::declared::Declared;
use super::docstring::{self, Docstring};
use super::metadata::{self, Header, Metadata};

/// Maximum size of a tool file. The limit also keeps the parser's stack use within [`READER_STACK`].
pub(super) const MAX_FILE_BYTES: u64 = 512 << 10;
/// Long chains of operators make deep syntax trees, and those are dropped recursively.
pub(super) const READER_STACK: usize = 256 << 20;

/// A file that offers tools.
#[derive(Debug)]
pub(super) struct ToolFile {
    pub(super) path: PathBuf,
    pub(super) hash: blake3::Hash,
    pub(super) pack: Arc<Pack>,
    /// Functions declared with `async def`.
    pub(super) asynchronous: HashSet<String>,
    pub(super) metadata: Option<Metadata>,
    /// Problems that a user should know about although the file works.
    pub(super) warnings: Vec<FileProblem>,
}

/// A problem with a file, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileProblem {
    pub(super) line: Option<usize>,
    pub(super) reason: String,
}

impl FileProblem {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { line: None, reason: reason.into() }
    }

    fn at(source: &str, offset: usize, reason: impl Into<String>) -> Self {
        let line = source.get(..offset).unwrap_or(source).matches('\n').count() + 1;
        Self { line: Some(line), reason: reason.into() }
    }
}

/// Parses a file's content. `default_pack` is the pack's name if the file gives none.
pub(super) fn read(path: &Path, default_pack: &str, content: &[u8]) -> Result<ToolFile, FileProblem> {
    let source = std::str::from_utf8(content).map_err(|error| {
        let valid = String::from_utf8_lossy(&content[..error.valid_up_to()]);
        FileProblem::at(&valid, valid.len(), "is not UTF-8 text")
    })?;
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut warnings = Vec::new();
    let metadata = match metadata::read(source) {
        Header::None => None,
        Header::Script(metadata) => {
            let remarks = metadata.remarks.iter().cloned();
            warnings.extend(remarks.map(|(line, reason)| FileProblem { line: Some(line), reason }));
            Some(metadata)
        }
        Header::Malformed { line, reason } => {
            let reason = format!("the script metadata is ignored, because it is not valid: {reason}");
            warnings.push(FileProblem { line: Some(line), reason });
            None
        }
        Header::Twice { line } => {
            let reason = "has a second '# /// script' block; only one is allowed".to_owned();
            return Err(FileProblem { line: Some(line), reason });
        }
    };
    let parsed = ruff_python_parser::parse_module(source)
        .map_err(|error| FileProblem::at(source, error.location.start().to_usize(), error.error.to_string()))?;
    let module = Module::read(&parsed.syntax().body, source);
    let name = module.pack.as_ref().map_or(default_pack, |(name, _)| name);
    if !is_python_identifier(name) {
        let offset = module.pack.as_ref().map_or(0, |(_, offset)| *offset);
        return Err(FileProblem::at(
            source,
            offset,
            format!("'{name}' can't be a pack's name: it is not a Python name"),
        ));
    }
    if let Some(offset) = module.odd_docs {
        warnings.push(FileProblem::at(source, offset, "`docs` is ignored: it must be a web address or \"off\""));
    }
    let exported = module.exported(source, &mut warnings);
    if exported.is_empty() {
        return Err(FileProblem::new("has no public function"));
    }
    let asynchronous =
        exported.iter().filter(|function| function.is_async).map(|function| function.name.to_string()).collect();
    for function in &exported {
        if let Err((offset, reason)) = module.declared.effect(function) {
            warnings.push(FileProblem::at(source, offset, reason));
        }
    }
    let tools: IndexMap<String, Arc<ToolSpec>> = exported
        .iter()
        .map(|function| (function.name.to_string(), Arc::new(spec(function, &module, source))))
        .collect();
    let pack = Pack {
        name: name.to_owned(),
        description: module.description.unwrap_or_default(),
        origin: Origin::Worker { file: path.to_owned() },
        tools,
        note: None,
        docs: module.docs.unwrap_or_default(),
    };
    let hash = blake3::hash(content);
    Ok(ToolFile { path: path.to_owned(), hash, pack: Arc::new(pack), asynchronous, metadata, warnings })
}

/// The top level of a file.
#[derive(Default)]
struct Module<'a> {
    description: Option<String>,
    pack: Option<(String, usize)>,
    docs: Option<PackDocs>,
    /// The position of an invalid `docs`.
    odd_docs: Option<usize>,
    all: Option<Vec<(String, usize)>>,
    functions: IndexMap<String, &'a StmtFunctionDef>,
    constants: HashMap<String, Value>,
    classes: Classes<'a>,
    declared: Declared,
}

impl<'a> Module<'a> {
    fn read(body: &'a [Stmt], source: &'a str) -> Self {
        let description = docstring_of(body).map(|text| docstring::parse(&text).description);
        let mut module = Self { description, classes: Classes::of(source), ..Self::default() };
        module.read_block(body, source, 0);
        module
    }

    fn read_block(&mut self, body: &'a [Stmt], source: &str, depth: usize) {
        if depth > 8 {
            return;
        }
        for statement in body {
            match statement {
                Stmt::FunctionDef(function) => {
                    let overload = function
                        .decorator_list
                        .iter()
                        .any(|decorator| annotation::last_name(&decorator.expression) == Some("overload"));
                    if !overload {
                        self.functions.insert(function.name.to_string(), function);
                    }
                }
                Stmt::ClassDef(class) => self.classes.insert(class),
                Stmt::Import(import) => self.declared.import(import),
                Stmt::ImportFrom(import) => self.declared.import_from(import),
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        self.read_assignment(target, &assign.value);
                    }
                }
                Stmt::AnnAssign(assign) => {
                    if let Some(value) = &assign.value {
                        self.read_assignment(&assign.target, value);
                    }
                }
                Stmt::AugAssign(assign) if annotation::last_name(&assign.target) == Some("__all__") => {
                    if let Some(names) = names_in(&assign.value) {
                        self.all.get_or_insert_default().extend(names);
                    }
                }
                Stmt::If(branch) => {
                    let test = annotation::text_of(&branch.test, source);
                    if !test.contains("__name__") && !test.contains("TYPE_CHECKING") {
                        self.read_block(&branch.body, source, depth + 1);
                    }
                    for clause in &branch.elif_else_clauses {
                        self.read_block(&clause.body, source, depth + 1);
                    }
                }
                Stmt::Try(attempt) => {
                    self.read_block(&attempt.body, source, depth + 1);
                    self.read_block(&attempt.orelse, source, depth + 1);
                }
                Stmt::With(with) => self.read_block(&with.body, source, depth + 1),
                _ => {}
            }
        }
    }

    fn read_assignment(&mut self, target: &Expr, value: &Expr) {
        let Expr::Name(name) = target else { return };
        match (name.id.as_str(), value) {
            ("pack", Expr::StringLiteral(text)) => {
                self.pack = Some((text.value.to_str().to_owned(), text.range().start().to_usize()));
            }
            ("docs", Expr::StringLiteral(text)) => {
                let offset = text.range().start().to_usize();
                match PackDocs::read(text.value.to_str()) {
                    Some(docs) => self.docs = Some(docs),
                    // Text with spaces is the file's own constant.
                    None if text.value.to_str().contains(char::is_whitespace) => {}
                    None => self.odd_docs = Some(offset),
                }
            }
            ("docs", Expr::BooleanLiteral(flag)) if !flag.value => self.docs = Some(PackDocs::Off),
            ("__all__", names) => self.all = names_in(names),
            (name, value) => {
                if let Some(value) = annotation::literal(value) {
                    self.constants.insert(name.to_owned(), value);
                }
            }
        }
    }

    /// Returns the functions named in `__all__`; without it, those whose names do not start with an underscore.
    fn exported(&self, source: &str, warnings: &mut Vec<FileProblem>) -> Vec<&'a StmtFunctionDef> {
        let Some(all) = &self.all else {
            return self.functions.values().filter(|function| !function.name.starts_with('_')).copied().collect();
        };
        let mut exported = Vec::new();
        for (name, offset) in all {
            if let Some(function) = self.functions.get(name) {
                exported.push(*function);
            } else {
                let reason = format!("__all__ names '{name}', but the file defines no function of that name");
                warnings.push(FileProblem::at(source, *offset, reason));
            }
        }
        exported
    }
}

fn names_in(expression: &Expr) -> Option<Vec<(String, usize)>> {
    let items = match expression {
        Expr::List(list) => &list.elts,
        Expr::Tuple(tuple) => &tuple.elts,
        _ => return None,
    };
    let names = items.iter().filter_map(|item| match item {
        Expr::StringLiteral(text) => Some((text.value.to_str().to_owned(), text.range().start().to_usize())),
        _ => None,
    });
    Some(names.collect())
}

fn docstring_of(body: &[Stmt]) -> Option<String> {
    match body.first()? {
        Stmt::Expr(statement) => match &*statement.value {
            Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
            _ => None,
        },
        _ => None,
    }
}

fn spec(function: &StmtFunctionDef, module: &Module<'_>, source: &str) -> ToolSpec {
    let documentation = docstring_of(&function.body).map(|text| docstring::parse(&text)).unwrap_or_default();
    let mut reader = SignatureReader::new(&documentation, module, source);
    let parameters = &function.parameters;
    for (group, kind) in [
        (&parameters.posonlyargs, ParameterKind::PositionalOnly),
        (&parameters.args, ParameterKind::PositionalOrKeyword),
    ] {
        for parameter in group {
            reader.add(&parameter.parameter, kind, parameter.default.as_deref());
        }
    }
    if let Some(rest) = &parameters.vararg {
        reader.add(rest, ParameterKind::VarPositional, None);
    }
    for parameter in &parameters.kwonlyargs {
        reader.add(&parameter.parameter, ParameterKind::KeywordOnly, parameter.default.as_deref());
    }
    if let Some(rest) = &parameters.kwarg {
        reader.add(rest, ParameterKind::VarKeyword, None);
    }
    let open = parameters.kwarg.is_some();
    let returns = function.returns.as_deref().map(|returns| annotation::read(returns, source, &module.classes));
    ToolSpec {
        name: function.name.to_string(),
        description: documentation.description.clone(),
        input_schema: reader.schema(open),
        checkable: reader.exact && !open,
        signature: Signature { parameters: reader.parameters, returns: returns.map(|returns| returns.python) },
        output_schema: None,
        returns: documentation.returns.clone(),
        example: documentation.example.clone(),
        // An invalid declaration is ignored.
        effect: module.declared.effect(function).unwrap_or_default(),
    }
}

struct SignatureReader<'a> {
    documentation: &'a Docstring,
    constants: &'a HashMap<String, Value>,
    classes: &'a Classes<'a>,
    source: &'a str,
    parameters: Vec<Parameter>,
    /// Members of the schema's `properties` and elements of its `required`, as JSON.
    properties: String,
    required: String,
    exact: bool,
}

impl<'a> SignatureReader<'a> {
    fn new(documentation: &'a Docstring, module: &'a Module<'a>, source: &'a str) -> Self {
        Self {
            documentation,
            constants: &module.constants,
            classes: &module.classes,
            source,
            parameters: Vec::new(),
            properties: String::new(),
            required: String::new(),
            exact: true,
        }
    }

    fn add(&mut self, parameter: &ruff_python_ast::Parameter, kind: ParameterKind, default: Option<&Expr>) {
        let name = parameter.name.to_string();
        let reading: Option<TypeReading> =
            parameter.annotation.as_deref().map(|annotation| annotation::read(annotation, self.source, self.classes));
        self.exact &= reading.as_ref().is_some_and(|reading| reading.exact);
        let value = default.and_then(|default| self.value_of(default));
        self.exact &= default.is_none() || value.is_some();
        let variadic = matches!(kind, ParameterKind::VarPositional | ParameterKind::VarKeyword);
        let description = self
            .documentation
            .parameters
            .get(&name)
            .cloned()
            .or_else(|| reading.as_ref().and_then(|reading| reading.description.clone()));
        if !variadic {
            let mut property = reading.as_ref().map_or_else(|| json!({}), |reading| reading.schema.clone());
            if let Some(text) = &description {
                property["description"] = text.clone().into();
            }
            match &value {
                Some(value) => property["default"] = value.to_json(),
                None if default.is_none() => append(&mut self.required, format_args!("\"{name}\"")),
                None => {}
            }
            append(&mut self.properties, format_args!("\"{name}\":{property}"));
        }
        self.parameters.push(Parameter {
            name,
            kind,
            annotation: reading.map(|reading| reading.python),
            default: default
                .map(|default| value.map_or_else(|| annotation::text_of(default, self.source), |value| value.repr())),
            required: default.is_none() && !variadic,
            description,
        });
    }

    /// Returns the schema of all arguments; `open` allows unnamed ones too. Parameter names need no escaping.
    fn schema(&self, open: bool) -> InputSchema {
        let Self { properties, required, .. } = self;
        let required = if required.is_empty() { String::new() } else { format!(r#","required":[{required}]"#) };
        InputSchema::from_text(format!(
            r#"{{"type":"object","properties":{{{properties}}},"additionalProperties":{open}{required}}}"#
        ))
    }

    /// Evaluates a literal, a constant of the file, or a member of one of its enumerations.
    fn value_of(&self, default: &Expr) -> Option<Value> {
        match default {
            Expr::Name(name) => self.constants.get(name.id.as_str()).cloned(),
            Expr::Attribute(member) => {
                self.classes.member(member.value.as_name_expr()?.id.as_str(), member.attr.as_str())
            }
            other => annotation::literal(other),
        }
    }
}

fn append(list: &mut String, item: std::fmt::Arguments<'_>) {
    if !list.is_empty() {
        list.push(',');
    }
    // Writing into a string cannot fail.
    let _ = list.write_fmt(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(source: &str) -> ToolFile {
        read(Path::new("t.py"), "t", source.as_bytes()).unwrap()
    }

    fn problem(source: &str) -> FileProblem {
        read(Path::new("t.py"), "t", source.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_default_of_an_enumeration_is_shown_as_what_a_caller_writes() {
        let source = "from enum import Enum\nclass State(Enum):\n    OPEN = 'open'\n    PAID = 'paid'\n\ndef f(s: State = State.PAID, t: State = State.GONE): pass\n";
        let tool = &file(source).pack.tools[0];
        let defaults: Vec<_> = tool.signature.parameters.iter().map(|one| one.default.as_deref().unwrap()).collect();
        assert_eq!(defaults, ["'paid'", "State.GONE"]);
        assert_eq!(tool.input_schema["properties"]["s"], json!({"enum": ["open", "paid"], "default": "paid"}));
    }

    #[test]
    fn signatures_types_defaults_and_docs_are_read() {
        let file = file(
            "'''Web search.'''\npack = 'brave'\nCOUNT = 10\ndef search(query: str, /, count: int = COUNT, *, tags: list[str] | None = None, flag=True, **more) -> dict:\n    '''Search.\n\n    Args:\n        query: What.\n    '''\n",
        );
        assert_eq!((file.pack.name.as_str(), file.pack.description.as_str()), ("brave", "Web search."));
        let tool = &file.pack.tools["search"];
        assert_eq!(
            tool.signature.render("brave.search"),
            "brave.search(query: str, /, count: int = 10, *, tags: list[str] | None = None, flag=True, **more) -> dict"
        );
        assert_eq!(tool.signature.described_parameters(), ["query: What."]);
        assert_eq!(tool.input_schema["required"], json!(["query"]));
        assert_eq!(tool.input_schema["properties"]["count"], json!({"type": "integer", "default": 10}));
        assert_eq!(tool.input_schema["additionalProperties"], json!(true));
        assert!(!tool.checkable);
    }

    #[test]
    fn all_names_the_tools_and_private_functions_are_not_tools() {
        let names = |source: &str| file(source).pack.tools.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names("__all__ = ['b']\n__all__ += ['_c']\ndef a(): ...\ndef b(): ...\ndef _c(): ..."), ["b", "_c"]);
        assert_eq!(names("import os\ndef a(): ...\nclass B:\n    def m(self): ...\ndef _c(): ..."), ["a"]);
        assert_eq!(
            names(
                "try:\n    import x\nexcept ImportError:\n    x = None\nif x:\n    def a(): ...\nelse:\n    def b(): ...\nif __name__ == '__main__':\n    def c(): ..."
            ),
            ["a", "b"]
        );
    }

    #[test]
    fn a_tool_with_plain_types_can_be_checked() {
        assert!(file("def a(x: int, y: str = 'z') -> str: ...").pack.tools["a"].checkable);
        assert!(!file("def a(x): ...").pack.tools["a"].checkable);
        assert!(!file("def a(x: Foo): ...").pack.tools["a"].checkable);
    }

    #[test]
    fn problems_have_their_line() {
        assert_eq!(problem("x = 1\ndef a(:\n").line, Some(2));
        assert_eq!(problem("x = 1\npack = 'not a name'\ndef a(): ...").line, Some(2));
        assert_eq!(problem("x = 1").reason, "has no public function");
        let block = "# /// script\n# dependencies = []\n# ///\n";
        assert_eq!(problem(&format!("{block}\n{block}\ndef a(): ...")).line, Some(5));
        let warned = file("__all__ = ['a', 'b']\ndef a(): ...");
        assert_eq!(warned.warnings.len(), 1);
    }
}
