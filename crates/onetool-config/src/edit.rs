//! Edits a YAML file line by line, so that unrelated comments and layout are preserved.
//!
//! The parser provides the line of a key; its block ends where the indentation does. A mapping in flow style (`{a: 1}`)
//! that must change is rewritten. Every edit is parsed again and compared with the intended result: an edit with a
//! different result is refused, never written.

use serde_json::{Map, Value as Json};

use crate::document::{self, Lines};
use crate::reference::flow;

/// Why a file was not edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EditError {
    #[error("the file is not valid YAML: {0}")]
    Invalid(String),
    #[error("{0} cannot be edited without changing more than that\nhint: edit the file by hand")]
    Unsure(String),
}

/// Sets the value at `path`, creating missing keys on the way.
pub fn set(text: &str, path: &[&str], value: &Json) -> Result<String, EditError> {
    change(text, path, Some(value))
}

/// Sets the value at `path` before all other keys of its mapping, for mappings where order matters.
pub fn set_first(text: &str, path: &[&str], value: &Json) -> Result<String, EditError> {
    let unsure = || EditError::Unsure(path.join("."));
    let (name, parent) = path.split_last().ok_or_else(unsure)?;
    let siblings = lookup(&parse(text)?.root, parent).and_then(Json::as_object).cloned().unwrap_or_default();
    let text = match siblings.keys().position(|key| key == name) {
        Some(0) => return set(text, path, value),
        Some(_) => remove(text, path)?,
        None => text.to_owned(),
    };
    let document = parse(&text)?;
    let mut meant = document.root.clone();
    apply(&mut meant, path, Some(value));
    move_first(&mut meant, path);
    let place = Place { lines: text.lines().collect(), at: &document.lines };
    let outwards = (1..=path.len()).rev().map(|depth| place.edit(&path[..depth], lookup(&meant, &path[..depth])));
    let meant = Json::Object(meant.clone()).to_string();
    // Compared as text, because maps are equal in any order.
    let is_meant = |edited: &String| parse(edited).is_ok_and(|now| Json::Object(now.root).to_string() == meant);
    std::iter::once(place.added_first(path, value)).chain(outwards).flatten().find(is_meant).ok_or_else(unsure)
}

fn move_first(root: &mut Map<String, Json>, path: &[&str]) {
    match path {
        [] => {}
        [name] => {
            if let Some(value) = root.shift_remove(*name) {
                root.shift_insert(0, (*name).to_owned(), value);
            }
        }
        [first, rest @ ..] => {
            if let Some(Json::Object(inner)) = root.get_mut(*first) {
                move_first(inner, rest);
            }
        }
    }
}

/// Removes the key at `path`. A mapping that becomes empty is kept.
pub fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    change(text, path, None)
}

/// Returns the value at `path`, if there is one.
pub fn get(text: &str, path: &[&str]) -> Result<Option<Json>, EditError> {
    Ok(lookup(&parse(text)?.root, path).cloned())
}

fn change(text: &str, path: &[&str], value: Option<&Json>) -> Result<String, EditError> {
    let document = parse(text)?;
    let mut meant = document.root.clone();
    apply(&mut meant, path, value);
    if meant == document.root {
        return Ok(text.to_owned());
    }
    let place = Place { lines: text.lines().collect(), at: &document.lines };
    // The smallest edit first; if it fails, rewrite the enclosing mapping, and so on outwards.
    for depth in (1..=path.len()).rev() {
        let Some(edited) = place.edit(&path[..depth], lookup(&meant, &path[..depth])) else { continue };
        if parse(&edited).is_ok_and(|document| document.root == meant) {
            return Ok(edited);
        }
    }
    Err(EditError::Unsure(path.join(".")))
}

fn parse(text: &str) -> Result<document::Document, EditError> {
    let document = document::parse(text)
        .map_err(|mistake| EditError::Invalid(format!("{}{}", document::at(mistake.line), mistake.message)))?;
    match document.repeated {
        Some(repeated) => Err(EditError::Invalid(format!("{}{}", document::at(repeated.line), repeated.message))),
        None => Ok(document),
    }
}

fn lookup<'a>(root: &'a Map<String, Json>, path: &[&str]) -> Option<&'a Json> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(root.get(*first)?, |value, step| value.get(*step))
}

fn apply(root: &mut Map<String, Json>, path: &[&str], value: Option<&Json>) {
    let Some((first, rest)) = path.split_first() else { return };
    match (rest.is_empty(), value) {
        (true, Some(value)) => {
            root.insert((*first).to_owned(), value.clone());
        }
        (true, None) => {
            root.shift_remove(*first);
        }
        (false, _) => {
            if value.is_none() && !root.get(*first).is_some_and(Json::is_object) {
                return;
            }
            let inner = root.entry(*first).or_insert_with(|| Json::Object(Map::new()));
            if !inner.is_object() {
                *inner = Json::Object(Map::new());
            }
            if let Json::Object(inner) = inner {
                apply(inner, rest, value);
            }
        }
    }
}

/// A file's lines, and the positions of its keys.
struct Place<'a> {
    lines: Vec<&'a str>,
    at: &'a Lines,
}

impl Place<'_> {
    /// Replaces, adds or removes one key's block.
    fn edit(&self, path: &[&str], value: Option<&Json>) -> Option<String> {
        match (self.block(path), value) {
            (Some((start, end)), Some(value)) => {
                let indent = indent_of(self.lines[start]);
                Some(self.replaced(start, end, &rendered(path.last()?, value, indent)))
            }
            (Some((start, end)), None) => {
                let parent = &path[..path.len() - 1];
                // Removing the last key would lose the mapping itself.
                match self.block(parent) {
                    Some((above, below)) if above + 1 == start && self.is_only_child(start, end, below) => None,
                    _ => Some(self.replaced(start, end, &[])),
                }
            }
            (None, Some(value)) => self.added(path, value),
            (None, None) => None,
        }
    }

    /// The lines of a key that has a line of its own: up to the next key at its level or above.
    fn block(&self, path: &[&str]) -> Option<(usize, usize)> {
        let start = self.line(path)?;
        let parent = path.len().checked_sub(2).map(|last| &path[..=last]).filter(|parent| !parent.is_empty());
        if parent.is_some_and(|parent| self.line(parent) == Some(start)) {
            return None;
        }
        let line = self.lines.get(start)?;
        let key = line.trim_start().trim_start_matches(['"', '\'']);
        if !key.starts_with(path.last()?) {
            return None;
        }
        Some((start, self.end(start)))
    }

    fn line(&self, path: &[&str]) -> Option<usize> {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        let (depth, line) = self.at.find(&path)?;
        (depth == path.len()).then(|| line - 1)
    }

    /// The end of the block: after the last line that is indented deeper than `start`. Comments and blank lines behind
    /// it belong to what follows.
    fn end(&self, start: usize) -> usize {
        let indent = indent_of(self.lines[start]);
        let mut end = start + 1;
        for (index, line) in self.lines.iter().enumerate().skip(start + 1) {
            let is_item = line.trim_start().starts_with("- ") && indent_of(line) == indent;
            if is_blank(line) {
                continue;
            }
            if indent_of(line) <= indent && !is_item {
                break;
            }
            end = index + 1;
        }
        end
    }

    fn is_only_child(&self, start: usize, end: usize, parent_end: usize) -> bool {
        let indent = indent_of(self.lines[start]);
        !self.lines[end..parent_end].iter().any(|line| !is_blank(line) && indent_of(line) <= indent)
    }

    /// Adds a new key at the end of its mapping, or at the end of the file.
    fn added(&self, path: &[&str], value: &Json) -> Option<String> {
        let (name, parent) = path.split_last()?;
        if parent.is_empty() {
            let mut text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
            if !self.lines.last().is_none_or(|line| line.trim().is_empty()) && value.is_object() {
                text.push('\n');
            }
            text.extend(rendered(name, value, 0).iter().map(|line| format!("{line}\n")));
            return Some(text);
        }
        let (_, end) = self.block(parent)?;
        let indent = self.indent_within(parent)?;
        Some(self.replaced(end, end, &rendered(name, value, indent)))
    }

    /// Adds a new key at the beginning of its mapping.
    fn added_first(&self, path: &[&str], value: &Json) -> Option<String> {
        let (name, parent) = path.split_last()?;
        let (start, _) = self.block(parent)?;
        let indent = self.indent_within(parent)?;
        Some(self.replaced(start + 1, start + 1, &rendered(name, value, indent)))
    }

    /// The indentation of a mapping's keys, if each has a line of its own.
    fn indent_within(&self, parent: &[&str]) -> Option<usize> {
        let (start, end) = self.block(parent)?;
        let own = indent_of(self.lines[start]);
        let child = self.lines[start + 1..end].iter().find(|line| !is_blank(line)).map(|line| indent_of(line));
        let is_open = self.lines[start].split(" #").next().is_some_and(|line| line.trim_end().ends_with(':'));
        is_open.then(|| child.filter(|indent| *indent > own).unwrap_or(own + 2))
    }

    fn replaced(&self, start: usize, end: usize, lines: &[String]) -> String {
        let before = self.lines[..start].iter().map(|line| (*line).to_owned());
        let after = self.lines[end..].iter().map(|line| (*line).to_owned());
        before.chain(lines.iter().cloned()).chain(after).map(|line| line + "\n").collect()
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Maximum nesting of mappings in block style; deeper ones are written on one line.
const BLOCK_LEVELS: usize = 2;

/// Renders a key with its value: mappings as blocks, up to [`BLOCK_LEVELS`], everything else on one line.
fn rendered(name: &str, value: &Json, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    render(&mut lines, name, value, indent, BLOCK_LEVELS);
    lines
}

fn render(lines: &mut Vec<String>, name: &str, value: &Json, indent: usize, levels: usize) {
    let pad = " ".repeat(indent);
    let name = flow(&name.into());
    match value {
        Json::Object(entries) if levels > 0 && !entries.is_empty() => {
            lines.push(format!("{pad}{name}:"));
            for (key, value) in entries {
                render(lines, key, value, indent + 2, levels - 1);
            }
        }
        value => lines.push(format!("{pad}{name}: {}", flow(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "\
# Ours.
servers:
  # The first.
  github:
    command: npx   # by npm
    args: [-y, gh]

  # The second.
  fs:
    command: fs
# Below.
alias: {ls: file.list}
";

    #[test]
    fn entries_are_added_behind_the_others() {
        let edited = set(FILE, &["servers", "time"], &json!({"command": "uvx", "args": ["mcp-server-time"]})).unwrap();
        assert_eq!(
            edited,
            FILE.replace(
                "    command: fs\n",
                "    command: fs\n  time:\n    command: uvx\n    args: [mcp-server-time]\n"
            )
        );
    }

    #[test]
    fn one_value_changes_and_nothing_else() {
        let edited = set(FILE, &["servers", "github", "enabled"], &json!(false)).unwrap();
        assert_eq!(edited, FILE.replace("[-y, gh]\n", "[-y, gh]\n    enabled: false\n"));
        let edited = set(FILE, &["servers", "fs", "command"], &json!("other")).unwrap();
        assert_eq!(edited, FILE.replace("command: fs", "command: other"));
        assert_eq!(set(FILE, &["servers", "fs", "command"], &json!("fs")).unwrap(), FILE);
    }

    #[test]
    fn an_entry_goes_and_comments_of_others_stay() {
        let edited = remove(FILE, &["servers", "github"]).unwrap();
        assert_eq!(edited, FILE.replace("  github:\n    command: npx   # by npm\n    args: [-y, gh]\n", ""));
        let last = remove("servers:\n  a: {command: x}\nalias: {}\n", &["servers", "a"]).unwrap();
        assert_eq!(last, "servers: {}\nalias: {}\n");
    }

    #[test]
    fn what_stands_in_one_line_is_written_anew() {
        let edited = set(FILE, &["alias", "v"], &json!("ot.version")).unwrap();
        assert_eq!(edited, FILE.replace("alias: {ls: file.list}", "alias:\n  ls: file.list\n  v: ot.version"));
        let edited = set("security: {policy: {a.b: ask}}\n", &["security", "policy", "c.d"], &json!("allow")).unwrap();
        assert_eq!(edited, "security:\n  policy:\n    a.b: ask\n    c.d: allow\n");
    }

    #[test]
    fn missing_sections_are_made() {
        assert_eq!(set("", &["servers", "a"], &json!({"url": "u"})).unwrap(), "servers:\n  a:\n    url: u\n");
        assert_eq!(
            set("servers:   # none yet\n", &["servers", "a"], &json!({"url": "u"})).unwrap(),
            "servers:   # none yet\n  a:\n    url: u\n"
        );
        assert_eq!(set("A: x\n", &["B"], &json!("y: z")).unwrap(), "A: x\nB: \"y: z\"\n");
        assert_eq!(
            set("version: 1\n", &["security", "policy", "a.*"], &json!("ask")).unwrap(),
            "version: 1\n\nsecurity:\n  policy:\n    \"a.*\": ask\n"
        );
    }

    #[test]
    fn a_rule_that_must_win_comes_first() {
        let path = ["security", "policy", "a.b"];
        let first = |text: &str| set_first(text, &path, &json!("allow"));
        let file =
            "security:\n  policy:   # mine\n    # Dangerous.\n    \"a.*\": ask\n    a.b: ask # twice\n  blocked: []\n";
        assert_eq!(
            first(file).unwrap(),
            "security:\n  policy:   # mine\n    a.b: allow\n    # Dangerous.\n    \"a.*\": ask\n  blocked: []\n"
        );
        assert_eq!(first(&first(file).unwrap()), first(file));
        assert_eq!(
            first("security: {policy: {'a.*': ask}}\n").unwrap(),
            "security:\n  policy:\n    a.b: allow\n    \"a.*\": ask\n"
        );
        assert_eq!(first("").unwrap(), "security:\n  policy:\n    a.b: allow\n");
        assert_eq!(first("security:\n  policy:\n").unwrap(), "security:\n  policy:\n    a.b: allow\n");
        assert!(matches!(first("security: [\n"), Err(EditError::Invalid(_))));
    }

    #[test]
    fn a_broken_file_is_not_touched() {
        assert!(matches!(set("a: [\n", &["b"], &json!(1)), Err(EditError::Invalid(_))));
        assert!(matches!(set("a: 1\na: 2\n", &["b"], &json!(1)), Err(EditError::Invalid(_))));
    }
}
