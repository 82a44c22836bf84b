//! Parses docstrings in Google, NumPy and reST style, distinguished by their section markers.
//!
//! Text that is not understood stays in the description, so nothing that an author wrote is lost.

use std::collections::HashMap;

/// A parsed docstring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Docstring {
    /// Everything that is not in a section of its own.
    pub(super) description: String,
    pub(super) parameters: HashMap<String, String>,
    pub(super) returns: Option<String>,
    pub(super) example: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Parameters,
    Returns,
    Example,
    /// Known, but not one of our fields (`Raises`): kept in the description.
    Other,
}

/// How a section is marked: `Args:` and indentation, or a line of dashes below its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Google,
    Numpy,
}

/// Parses the text of a docstring.
pub(super) fn parse(raw: &str) -> Docstring {
    let lines = clean(raw);
    let mut result = Docstring::default();
    let mut description: Vec<&str> = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let line = lines[index].as_str();
        let next = lines.get(index + 1).map(String::as_str);
        if let Some((section, style)) = heading(line, next) {
            let start = index + if style == Style::Numpy { 2 } else { 1 };
            let end = section_end(&lines, start, indent(line), style);
            let body = dedent(&lines[start..end]);
            match section {
                Section::Parameters => parameters(&body, style, &mut result.parameters),
                Section::Returns => set(&mut result.returns, returns(&body, style)),
                Section::Example => set(&mut result.example, example(&body)),
                Section::Other => description.extend(lines[index..end].iter().map(String::as_str)),
            }
            index = end;
        } else if let Some((field, rest)) = rest_field(line) {
            let end = (index + 1..lines.len())
                .find(|&at| lines[at].trim().is_empty() || indent(&lines[at]) <= indent(line))
                .unwrap_or(lines.len());
            let text = one_paragraph(std::iter::once(rest).chain(lines[index + 1..end].iter().map(String::as_str)));
            let mut words = field.split_whitespace();
            match (words.next(), words.last()) {
                (Some("param" | "parameter" | "arg" | "argument" | "keyword" | "key"), Some(name)) => {
                    result.parameters.insert(name.trim_start_matches('*').to_owned(), text);
                }
                (Some("return" | "returns"), None) => set(&mut result.returns, text),
                (Some("type" | "rtype"), _) => {}
                _ => description.extend(lines[index..end].iter().map(String::as_str)),
            }
            index = end;
        } else {
            description.push(line);
            index += 1;
        }
    }
    description.join("\n").trim().clone_into(&mut result.description);
    while let Some(at) = result.description.find("\n\n\n") {
        result.description.remove(at);
    }
    result
}

fn set(field: &mut Option<String>, text: String) {
    if !text.is_empty() {
        field.get_or_insert(text);
    }
}

fn heading(line: &str, next: Option<&str>) -> Option<(Section, Style)> {
    let trimmed = line.trim();
    let underlined = next.is_some_and(|next| {
        let next = next.trim();
        next.len() >= 3 && next.chars().all(|c| c == '-')
    });
    let name = if underlined { trimmed } else { trimmed.strip_suffix(':')? };
    let section =
        match name.to_ascii_lowercase().as_str() {
            "args" | "arguments" | "parameters" | "params" | "keyword args" | "keyword arguments"
            | "other parameters" => Section::Parameters,
            "returns" | "return" | "yields" | "yield" => Section::Returns,
            "example" | "examples" => Section::Example,
            "raises" | "note" | "notes" | "warning" | "warnings" | "see also" | "references" | "attributes"
            | "todo" => Section::Other,
            _ => return None,
        };
    Some((section, if underlined { Style::Numpy } else { Style::Google }))
}

fn section_end(lines: &[String], start: usize, level: usize, style: Style) -> usize {
    for at in start..lines.len() {
        let line = &lines[at];
        if line.trim().is_empty() {
            continue;
        }
        let next = lines.get(at + 1).map(String::as_str);
        let is_next = || heading(line, next).is_some_and(|(_, style)| style == Style::Numpy);
        if indent(line) <= level && (style == Style::Google || is_next()) {
            return at;
        }
    }
    lines.len()
}

/// Parses `name (type): text` in Google style; `name : type` and indented text in NumPy style.
fn parameters(body: &[String], style: Style, found: &mut HashMap<String, String>) {
    let mut index = 0;
    while index < body.len() {
        let line = &body[index];
        if line.trim().is_empty() || indent(line) > 0 {
            index += 1;
            continue;
        }
        let end = (index + 1..body.len())
            .find(|&at| !body[at].trim().is_empty() && indent(&body[at]) == 0)
            .unwrap_or(body.len());
        let more = body[index + 1..end].iter().map(String::as_str);
        let (names, text) = if style == Style::Numpy {
            (line.split(" :").next().unwrap_or(line), one_paragraph(more))
        } else {
            let colon = colon_outside_brackets(line);
            let (head, rest) = colon.map_or((line.as_str(), ""), |at| (&line[..at], &line[at + 1..]));
            (head.split(" (").next().unwrap_or(head), one_paragraph(std::iter::once(rest).chain(more)))
        };
        for name in names.split(',') {
            let name = name.trim().trim_matches('`').trim_start_matches('*');
            if onetool_sdk::is_python_identifier(name) && !text.is_empty() {
                found.insert(name.to_owned(), text.clone());
            }
        }
        index = end;
    }
}

fn colon_outside_brackets(line: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in line.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn returns(body: &[String], style: Style) -> String {
    if style == Style::Numpy && body.iter().any(|line| indent(line) > 0 && !line.trim().is_empty()) {
        // The first line is the type.
        return one_paragraph(body.iter().map(String::as_str).filter(|line| indent(line) > 0));
    }
    one_paragraph(body.iter().map(String::as_str))
}

/// Returns the example unchanged, except for fences and prompts.
fn example(body: &[String]) -> String {
    let lines: Vec<String> = body
        .iter()
        .map(String::as_str)
        .filter(|line| !line.trim_start().starts_with("```") && line.trim() != "::")
        .map(|line| line.strip_prefix(">>> ").or_else(|| line.strip_prefix("... ")).unwrap_or(line))
        .map(str::to_owned)
        .collect();
    dedent(&lines).join("\n").trim().to_owned()
}

/// Parses `:field name: text`.
fn rest_field(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix(':')?;
    let (field, text) = rest.split_once(':')?;
    let known = field.split_whitespace().next().is_some_and(|word| {
        matches!(
            word,
            "param" | "parameter" | "arg" | "argument" | "keyword" | "key" | "type" | "return" | "returns" | "rtype"
        )
    });
    known.then_some((field, text))
}

fn one_paragraph<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Like Python's `inspect.cleandoc`: trims the first line, and dedents the others by their common indentation.
fn clean(text: &str) -> Vec<String> {
    let expanded = text.replace('\t', "        ");
    let mut lines = expanded.lines();
    let first = lines.next().unwrap_or("").trim().to_owned();
    let others: Vec<String> = lines.map(str::to_owned).collect();
    std::iter::once(first).chain(dedent(&others)).collect()
}

fn dedent(lines: &[String]) -> Vec<String> {
    let margin = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(margin..).unwrap_or("").trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters_of(docstring: &Docstring) -> Vec<String> {
        let mut all: Vec<String> = docstring.parameters.iter().map(|(name, text)| format!("{name}={text}")).collect();
        all.sort();
        all
    }

    #[test]
    fn google_style() {
        let parsed = parse(
            "Search the web.\n\n    More about it:\n    two lines.\n\n    Args:\n        query (str): What to look for,\n            on two lines.\n        *rest: Others\n        count: How many (default: 10)\n\n    Returns:\n        list: The hits.\n\n    Raises:\n        ValueError: if empty\n\n    Example:\n        >>> brave.search(query=\"x\")\n",
        );
        assert_eq!(
            parameters_of(&parsed),
            ["count=How many (default: 10)", "query=What to look for, on two lines.", "rest=Others"]
        );
        assert_eq!(parsed.returns.as_deref(), Some("list: The hits."));
        assert_eq!(parsed.example.as_deref(), Some("brave.search(query=\"x\")"));
        assert_eq!(
            parsed.description,
            "Search the web.\n\nMore about it:\ntwo lines.\n\nRaises:\n    ValueError: if empty"
        );
    }

    #[test]
    fn numpy_style() {
        let parsed = parse(
            "Add.\n\n    Parameters\n    ----------\n    a, b : int\n        The numbers.\n    c : str, optional\n        A name.\n\n    Returns\n    -------\n    int\n        The sum.\n\n    Examples\n    --------\n    >>> add(1, 2)\n",
        );
        assert_eq!(parameters_of(&parsed), ["a=The numbers.", "b=The numbers.", "c=A name."]);
        assert_eq!(parsed.returns.as_deref(), Some("The sum."));
        assert_eq!(parsed.example.as_deref(), Some("add(1, 2)"));
        assert_eq!(parsed.description, "Add.");
    }

    #[test]
    fn rest_style() {
        let parsed = parse(
            "Add.\n\n    :param int a: The first\n        number.\n    :param b: The second.\n    :type b: int\n    :returns: The sum.\n    :rtype: int\n",
        );
        assert_eq!(parameters_of(&parsed), ["a=The first number.", "b=The second."]);
        assert_eq!(parsed.returns.as_deref(), Some("The sum."));
        assert_eq!(parsed.description, "Add.");
    }

    #[test]
    fn plain_text_is_all_description() {
        assert_eq!(parse("Just: this\nand that").description, "Just: this\nand that");
        assert_eq!(parse(""), Docstring::default());
    }
}
