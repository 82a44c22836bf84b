//! Request bodies: JSON whose variables are values or parts of strings, a form, or plain text.

use onetool_sdk::{ToolError, Value};

use super::limits::BODY_DEPTH;
use super::template::{Bindings, Bound, Piece, Scope, Template, Variable, parse, variables};
use super::url::{Pair, fill_pairs, pair_variables, parse_pairs};

/// A parsed `bodyTemplate`.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    None,
    Json(Node),
    Form(Vec<Pair>),
    Text(Template),
}

/// A JSON node.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A number, `true`, `false` or `null`, as written.
    Literal(String),
    Text(Template),
    Value(Variable),
    Array(Vec<Node>),
    Object(Vec<(Template, Node)>),
}

impl Body {
    pub(crate) fn parse(text: &str, content_type: Option<&str>, scope: &Scope<'_>) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::None);
        }
        let content_type = content_type.map(str::to_ascii_lowercase);
        let is_json = match &content_type {
            Some(kind) => kind.contains("json"),
            None => text.trim_start().starts_with(['{', '[', '"']) || text.trim_start().starts_with("${"),
        };
        if is_json {
            return parse_json(text, scope).map(Self::Json).map_err(|error| format!("bodyTemplate: {error}"));
        }
        if content_type.is_some_and(|kind| kind.contains("x-www-form-urlencoded")) {
            return parse_pairs(text, scope).map(Self::Form);
        }
        parse(text, scope).map(Self::Text)
    }

    pub(crate) fn variables(&self) -> Vec<&Variable> {
        match self {
            Self::None => Vec::new(),
            Self::Json(node) => {
                let mut found = Vec::new();
                node.collect(&mut found);
                found
            }
            Self::Form(pairs) => pair_variables(pairs).collect(),
            Self::Text(template) => variables(template).collect(),
        }
    }

    pub(crate) fn fill(&self, bindings: &Bindings<'_>) -> Result<Option<String>, ToolError> {
        match self {
            Self::None => Ok(None),
            Self::Json(node) => {
                let mut text = String::new();
                if !node.write(bindings, &mut text)? {
                    text.push_str("null");
                }
                Ok(Some(text))
            }
            Self::Form(pairs) => fill_pairs(pairs, bindings).map(Some),
            Self::Text(template) => fill_lenient(template, bindings).map(Some),
        }
    }
}

/// Fills a template; a missing variable becomes empty text.
fn fill_lenient(template: &[Piece], bindings: &Bindings<'_>) -> Result<String, ToolError> {
    let mut filled = String::new();
    for piece in template {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Variable(variable) => filled.push_str(&bindings.text(variable)?.unwrap_or_default()),
        }
    }
    Ok(filled)
}

impl Node {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Variable>) {
        match self {
            Self::Literal(_) => {}
            Self::Text(template) => found.extend(variables(template)),
            Self::Value(variable) => found.push(variable),
            Self::Array(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Object(members) => {
                for (name, value) in members {
                    found.extend(variables(name));
                    value.collect(found);
                }
            }
        }
    }

    /// Returns whether anything was written: a missing variable omits its member or item.
    fn write(&self, bindings: &Bindings<'_>, out: &mut String) -> Result<bool, ToolError> {
        match self {
            Self::Literal(text) => out.push_str(text),
            Self::Text(template) => write_string(&fill_lenient(template, bindings)?, out),
            Self::Value(variable) => match bindings.look_up(variable)? {
                Bound::Argument(value) => write_value(value, out),
                Bound::Text(text) => write_string(text, out),
                Bound::Default(json) => out.push_str(json),
                Bound::Null => out.push_str("null"),
                Bound::Missing => return Ok(false),
            },
            Self::Array(items) => {
                out.push('[');
                let mut written = 0;
                for item in items {
                    let before = out.len();
                    if written > 0 {
                        out.push(',');
                    }
                    if item.write(bindings, out)? {
                        written += 1;
                    } else {
                        out.truncate(before);
                    }
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                let mut written = 0;
                for (name, value) in members {
                    let before = out.len();
                    if written > 0 {
                        out.push(',');
                    }
                    write_string(&fill_lenient(name, bindings)?, out);
                    out.push(':');
                    if value.write(bindings, out)? {
                        written += 1;
                    } else {
                        out.truncate(before);
                    }
                }
                out.push('}');
            }
        }
        Ok(true)
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Writes the value as JSON, with integers of any size as numbers.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::BigInt(number) => out.push_str(&number.to_string()),
        Value::List(items) | Value::Tuple(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Dict(pairs) => {
            out.push('{');
            for (index, (key, item)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(&key.key_text(), out);
                out.push(':');
                write_value(item, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_json().to_string()),
    }
}

enum Token {
    Char(char),
    Variable(Variable),
}

fn parse_json(text: &str, scope: &Scope<'_>) -> Result<Node, String> {
    let mut tokens = Vec::new();
    for piece in parse(text, scope)? {
        match piece {
            Piece::Text(text) => tokens.extend(text.chars().map(Token::Char)),
            Piece::Variable(variable) => tokens.push(Token::Variable(variable)),
        }
    }
    let mut parser = JsonParser { tokens, at: 0 };
    let node = parser.value(0)?;
    parser.skip_space();
    if parser.at < parser.tokens.len() { Err("there is something after the JSON value".to_owned()) } else { Ok(node) }
}

struct JsonParser {
    tokens: Vec<Token>,
    at: usize,
}

impl JsonParser {
    fn peek(&self) -> Option<char> {
        match self.tokens.get(self.at) {
            Some(Token::Char(c)) => Some(*c),
            _ => None,
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > BODY_DEPTH {
            return Err(format!("the JSON nests deeper than {BODY_DEPTH}"));
        }
        self.skip_space();
        if let Some(Token::Variable(variable)) = self.tokens.get(self.at) {
            let variable = variable.clone();
            self.at += 1;
            if let Some(default) = &variable.default
                && serde_json::from_str::<serde_json::Value>(default).is_err()
            {
                return Err(format!("the default of '{}' stands for a JSON value, but is none", variable.name));
            }
            return Ok(Node::Value(variable));
        }
        match self.peek() {
            Some('"') => self.string().map(Node::Text),
            Some('[') => {
                self.at += 1;
                let mut items = Vec::new();
                if self.take(']') {
                    return Ok(Node::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.take(']') {
                        return Ok(Node::Array(items));
                    }
                    if !self.take(',') {
                        return Err("an array needs ',' or ']' here".to_owned());
                    }
                }
            }
            Some('{') => {
                self.at += 1;
                let mut members = Vec::new();
                if self.take('}') {
                    return Ok(Node::Object(members));
                }
                loop {
                    self.skip_space();
                    let name = self.string()?;
                    if !self.take(':') {
                        return Err("an object needs ':' here".to_owned());
                    }
                    members.push((name, self.value(depth + 1)?));
                    if self.take('}') {
                        return Ok(Node::Object(members));
                    }
                    if !self.take(',') {
                        return Err("an object needs ',' or '}' here".to_owned());
                    }
                }
            }
            _ => self.literal(),
        }
    }

    fn literal(&mut self) -> Result<Node, String> {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| !matches!(c, ',' | ']' | '}' | ' ' | '\t' | '\n' | '\r')) {
            text.push(c);
            self.at += 1;
        }
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(serde_json::Value::Number(_) | serde_json::Value::Bool(_) | serde_json::Value::Null) => {
                Ok(Node::Literal(text))
            }
            _ => Err(format!("'{text}' is not a JSON value")),
        }
    }

    fn string(&mut self) -> Result<Template, String> {
        if self.peek() != Some('"') {
            return Err("a string is expected here".to_owned());
        }
        self.at += 1;
        let mut template = Vec::new();
        let mut raw = String::new();
        loop {
            let token = self.tokens.get(self.at).ok_or("a string does not end")?;
            self.at += 1;
            match token {
                Token::Char('"') => break,
                Token::Char('\\') => {
                    raw.push('\\');
                    raw.push(self.peek().ok_or("a string does not end")?);
                    self.at += 1;
                }
                Token::Char(c) => raw.push(*c),
                Token::Variable(variable) => {
                    let variable = variable.clone();
                    push_text(&mut template, &raw)?;
                    raw.clear();
                    template.push(Piece::Variable(variable));
                }
            }
        }
        push_text(&mut template, &raw)?;
        Ok(template)
    }
}

fn push_text(template: &mut Template, raw: &str) -> Result<(), String> {
    if !raw.is_empty() {
        let text = serde_json::from_str(&format!("\"{raw}\"")).map_err(|error| format!("in a string: {error}"))?;
        template.push(Piece::Text(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use indexmap::IndexMap;

    use super::super::template::Meaning;
    use super::*;

    fn filled(template: &str, arguments: &[(&str, Value)]) -> String {
        let body = Body::parse(template, None, &|_| Ok(Meaning::OptionalArgument)).unwrap();
        let arguments: IndexMap<String, Value> =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let secrets = HashMap::new();
        body.fill(&Bindings { arguments: &arguments, secrets: &secrets, version: "v1" }).unwrap().unwrap()
    }

    #[test]
    fn a_variable_is_a_value_or_a_part_of_a_string() {
        let big = Value::BigInt("123456789012345678901234567890".parse().unwrap());
        assert_eq!(
            filled(
                r#"{"q": "say ${q}\n", "n": ${n}, "big": [${big}], "x": 1.10, "none": ${none}, "d": ${d:-[1]}}"#,
                &[("q", Value::from("\"hi\"\n")), ("n", Value::Int(1_234_567)), ("big", big)]
            ),
            r#"{"q":"say \"hi\"\n\n","n":1234567,"big":[123456789012345678901234567890],"x":1.10,"d":[1]}"#
        );
        assert_eq!(filled("[${a},${b}]", &[("b", Value::Float(0.5))]), "[0.5]");
    }

    #[test]
    fn a_body_that_can_not_be_json_is_refused() {
        for bad in ["{", "{\"a\" 1}", "[1,]", "{\"a\": ${x:-nope}}", "[1] 2", "[tru]", "[\"\\q\"]"] {
            assert!(Body::parse(bad, None, &|_| Ok(Meaning::OptionalArgument)).is_err(), "{bad}");
        }
    }
}
