//! `$name key=value`: code templates, expanded before anything is parsed.
//!
//! Values are data. A template that inserts a value into code as a literal uses the filter `literal`, which quotes it;
//! without the filter the text is inserted unchanged, because templates may also take code.

use indexmap::IndexMap;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};

use crate::settings::Snippet;

/// Maximum number of expansions of snippets that expand to snippets.
const MAX_DEPTH: usize = 8;

/// Maximum size of an expanded template.
const MAX_EXPANDED: usize = 1 << 20;

/// Maximum amount of work that a template may do.
const TEMPLATE_FUEL: u64 = 200_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnippetError {
    #[error("unknown snippet '${name}'{}", suggestion(.nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String> },
    #[error("snippet '${name}': {problem}\nusage: {usage}")]
    Usage { name: String, problem: String, usage: String },
    #[error("snippet '${name}': {message}")]
    Template { name: String, message: String },
    #[error("snippet '${name}' expands to snippets without end (more than {MAX_DEPTH} times)")]
    Endless { name: String },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; ot.snippets() lists what there is".to_owned(),
        |name| format!("; did you mean '${name}'? ot.snippets() lists what there is"),
    )
}

/// Whether a command calls a snippet.
pub fn is_snippet(command: &str) -> bool {
    let mut chars = command.trim_start().chars();
    chars.next() == Some('$') && chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Expands a command to code, repeatedly where a snippet calls a snippet.
pub fn expand(command: &str, snippets: &IndexMap<String, Snippet>) -> Result<String, SnippetError> {
    let mut text = command.trim().to_owned();
    for _ in 0..MAX_DEPTH {
        if !is_snippet(&text) {
            return Ok(text);
        }
        let expanded = expand_once(&text, snippets)?;
        expanded.trim().clone_into(&mut text);
    }
    if is_snippet(&text) { Err(SnippetError::Endless { name: call_name(&text).to_owned() }) } else { Ok(text) }
}

fn call_name(text: &str) -> &str {
    let rest = text.trim_start().strip_prefix('$').unwrap_or(text);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    &rest[..end]
}

fn expand_once(text: &str, snippets: &IndexMap<String, Snippet>) -> Result<String, SnippetError> {
    let name = call_name(text);
    let snippet = find(name, snippets)?;
    let rest = &text.trim_start()[1 + name.len()..];
    let usage =
        |problem: String| SnippetError::Usage { name: name.to_owned(), problem, usage: usage_of(name, snippet) };
    let (positional, given) = parse_arguments(rest, snippet);
    let mut values: IndexMap<String, serde_json::Value> = IndexMap::new();
    if !positional.is_empty() {
        let target = snippet
            .parameters
            .keys()
            .find(|parameter| !given.contains_key(*parameter))
            .ok_or_else(|| usage(format!("takes no parameter for '{positional}'")))?;
        values.insert(target.clone(), positional.into());
    }
    fill(name, snippet, values, given)
}

/// Expands a snippet with these values, whatever they contain. The result may be a snippet in turn.
pub fn expand_snippet(
    name: &str,
    given: IndexMap<String, String>,
    snippets: &IndexMap<String, Snippet>,
) -> Result<String, SnippetError> {
    let snippet = find(name, snippets)?;
    expand(&fill(name, snippet, IndexMap::new(), given)?, snippets)
}

fn find<'s>(name: &str, snippets: &'s IndexMap<String, Snippet>) -> Result<&'s Snippet, SnippetError> {
    snippets.get(name).ok_or_else(|| SnippetError::Unknown {
        name: name.to_owned(),
        nearest: crate::nearest::nearest(name, snippets.keys().map(String::as_str)).map(str::to_owned),
    })
}

fn fill(
    name: &str,
    snippet: &Snippet,
    mut values: IndexMap<String, serde_json::Value>,
    given: IndexMap<String, String>,
) -> Result<String, SnippetError> {
    let usage =
        |problem: String| SnippetError::Usage { name: name.to_owned(), problem, usage: usage_of(name, snippet) };
    for (key, value) in given {
        if !snippet.parameters.is_empty() && !snippet.parameters.contains_key(&key) {
            return Err(usage(format!("unknown parameter '{key}'")));
        }
        values.insert(key, value.into());
    }
    for (key, parameter) in &snippet.parameters {
        if values.contains_key(key) {
            continue;
        }
        match &parameter.default {
            Some(default) => {
                values.insert(key.clone(), default.clone());
            }
            None if parameter.required => return Err(usage(format!("missing parameter '{key}'"))),
            None => {
                values.insert(key.clone(), serde_json::Value::Null);
            }
        }
    }
    render(&snippet.body, &values)
        .map_err(|error| SnippetError::Template { name: name.to_owned(), message: error_text(&error) })
}

/// Checks that a template compiles, without values. The error says what is wrong with it.
pub fn check_template(body: &str) -> Result<(), String> {
    environment().template_from_str(body).map(|_| ()).map_err(|error| error_text(&error))
}

fn error_text(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!(" (template line {line})")).unwrap_or_default();
    format!("{}{line}", error.detail().map_or_else(|| error.kind().to_string(), str::to_owned))
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    for filter in ["literal", "repr"] {
        environment.add_filter(filter, |value: minijinja::Value| {
            serde_json::to_value(&value)
                .map_or_else(|_| "None".to_owned(), |json| onetool_sdk::Value::from_json(json).repr())
        });
    }
    // Text that is JSON becomes the value it represents.
    environment.add_filter("data", |value: minijinja::Value| {
        let json = match value.as_str() {
            Some(text) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            None => serde_json::to_value(&value).unwrap_or_default(),
        };
        onetool_sdk::Value::from_json(json).repr()
    });
    environment
}

fn render(body: &str, values: &IndexMap<String, serde_json::Value>) -> Result<String, minijinja::Error> {
    let text = environment().render_str(body, minijinja::value::Serde(values))?;
    if text.len() > MAX_EXPANDED {
        return Err(minijinja::Error::new(
            minijinja::ErrorKind::InvalidOperation,
            format!("expands to {} bytes; at most {MAX_EXPANDED} are allowed", text.len()),
        ));
    }
    Ok(text)
}

/// `$name topic=<required> count=5`
pub fn usage_of(name: &str, snippet: &Snippet) -> String {
    let mut text = format!("${name}");
    for (key, parameter) in &snippet.parameters {
        let value = match &parameter.default {
            Some(serde_json::Value::String(text)) if !text.contains(' ') => text.clone(),
            Some(default) => default.to_string(),
            None => "...".to_owned(),
        };
        text.push_str(&format!(" {key}={value}"));
    }
    text
}

/// Splits off free text before the first `key=`, and parses the pairs.
fn parse_arguments(rest: &str, snippet: &Snippet) -> (String, IndexMap<String, String>) {
    let body = rest.trim_matches([' ', '\t', '\r', '\n']);
    let first_line_only = !rest.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
    if !first_line_only || looks_like_lines(body, snippet) {
        return (String::new(), parse_lines(body));
    }
    parse_pairs(body)
}

fn looks_like_lines(body: &str, snippet: &Snippet) -> bool {
    let line = body.lines().next().unwrap_or("");
    line.split_once(':').is_some_and(|(key, _)| snippet.parameters.contains_key(key.trim())) && !line.contains('=')
}

/// Parses `key: value` lines; a line that starts no pair continues the previous one.
fn parse_lines(body: &str) -> IndexMap<String, String> {
    let mut pairs: IndexMap<String, String> = IndexMap::new();
    for line in body.lines() {
        let pair = line.split_once(':').filter(|(key, _)| is_key(key.trim()) && !line.starts_with([' ', '\t']));
        match pair {
            Some((key, value)) => {
                pairs.insert(key.trim().to_owned(), unquote(value.trim()).to_owned());
            }
            None => {
                if let Some((_, last)) = pairs.last_mut() {
                    last.push('\n');
                    last.push_str(line.trim());
                }
            }
        }
    }
    pairs
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// `a=1 b="x y" c=the rest`: a value extends to the next ` word=`; outer quotes are removed; `\=` is a literal `=`.
fn parse_pairs(body: &str) -> (String, IndexMap<String, String>) {
    let starts = pair_starts(body);
    let head_end = starts.first().map_or(body.len(), |&(start, _)| start);
    let positional = unquote(body[..head_end].trim()).replace("\\=", "=");
    let mut pairs = IndexMap::new();
    for (index, &(start, equals)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(body.len(), |&(next, _)| next);
        let value = unquote(body[equals + 1..end].trim()).replace("\\=", "=");
        pairs.insert(body[start..equals].to_owned(), value);
    }
    (positional, pairs)
}

/// The positions of each `word=` outside quotes, and of its `=`.
fn pair_starts(body: &str) -> Vec<(usize, usize)> {
    let mut starts = Vec::new();
    let mut quote: Option<char> = None;
    let mut word: Option<usize> = None;
    let mut previous = ' ';
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
            word = None;
        } else if let Some(open) = quote {
            if c == open {
                quote = None;
            }
        } else if (c == '"' || c == '\'') && (previous == '=' || previous.is_whitespace()) && body[at + 1..].contains(c)
        {
            quote = Some(c);
            word = None;
        } else if c == '=' {
            if let Some(start) = word.take()
                && is_key(&body[start..at])
                && !body[at + 1..].starts_with('=')
            {
                starts.push((start, at));
            }
        } else if c.is_alphanumeric() || c == '_' {
            if previous.is_whitespace() {
                word = Some(at);
            }
        } else {
            word = None;
        }
        previous = c;
    }
    starts
}

fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote))
            && text.len() >= 2
        {
            return inner;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SnippetParameter;

    fn snippets() -> IndexMap<String, Snippet> {
        let required = SnippetParameter { required: true, ..Default::default() };
        let with_default = |value: serde_json::Value| SnippetParameter { default: Some(value), ..Default::default() };
        let mut all = IndexMap::new();
        let mut add = |name: &str, body: &str, parameters: Vec<(&str, SnippetParameter)>| {
            let parameters = parameters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            all.insert(name.to_owned(), Snippet { parameters, body: body.to_owned(), ..Snippet::default() });
        };
        add(
            "wsq",
            "f({{ q1|literal }}, {{ q2|literal }}, {{ p }})",
            vec![("q1", required.clone()), ("q2", required.clone()), ("p", with_default(5.into()))],
        );
        add("again", "$wsq q1={{ x }} q2=2", vec![("x", required.clone())]);
        add("loop", "$loop", vec![]);
        all
    }

    fn eq(command: &str, code: &str) {
        assert_eq!(expand(command, &snippets()).unwrap(), code, "{command}");
    }

    #[test]
    fn values_run_to_the_next_key() {
        eq("$wsq q1=AI news q2=ML p=Compare", "f('AI news', 'ML', Compare)");
        eq("$wsq q1=\"a q2=b\" q2='c d'", "f('a q2=b', 'c d', 5)");
        eq("$wsq q1=a\\=b q2=x==y", "f('a=b', 'x==y', 5)");
        eq("$wsq\nq1: one two\nq2: it's", "f('one two', \"it's\", 5)");
        eq("$wsq free text q2=2", "f('free text', '2', 5)");
    }

    #[test]
    fn a_value_cannot_become_code_through_the_filter() {
        eq("$wsq q1=a') + evil(' q2=2", "f(\"a') + evil('\", '2', 5)");
    }

    #[test]
    fn what_does_not_fit_shows_the_usage() {
        let error = expand("$wsq q1=1", &snippets()).unwrap_err().to_string();
        assert_eq!(error, "snippet '$wsq': missing parameter 'q2'\nusage: $wsq q1=... q2=... p=5");
        assert!(expand("$wsq q1=1 q2=2 zz=3", &snippets()).unwrap_err().to_string().contains("unknown parameter 'zz'"));
        assert!(expand("$wsp q1=1", &snippets()).unwrap_err().to_string().contains("did you mean '$wsq'"));
    }

    #[test]
    fn snippets_may_call_snippets_but_not_without_end() {
        eq("$again x=1", "f('1', '2', 5)");
        assert!(matches!(expand("$loop", &snippets()), Err(SnippetError::Endless { .. })));
    }
}
