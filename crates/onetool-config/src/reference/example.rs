//! The commented example: every key with its default, or with a commented-out example.

use serde_json::Value as Json;

use super::{flow, is_empty};
use crate::section::AnySection;
use crate::shape::{Effect, Key, Shape};

/// Column of comments, if the value leaves room.
const COMMENT_COLUMN: usize = 37;
/// Longer lines put their comment above.
const MAX_LINE: usize = 120;

/// A file with every key of every section.
pub fn example(sections: &[&dyn AnySection]) -> String {
    let mut text = String::from(
        "# Every key of .onetool/onetool.yaml, with its default, or an example behind a #. All of it is optional.\n\
         # Keys that begin with x- are yours, for parts that YAML aliases (*name) share.\n",
    );
    for section in sections.iter().filter(|section| !section.path().contains('.')) {
        text.push('\n');
        section_lines(&mut text, *section, 0);
        let prefix = format!("{}.", section.path());
        for inner in sections.iter().filter(|inner| inner.path().starts_with(&prefix)) {
            section_lines(&mut text, *inner, 2);
        }
    }
    text
}

fn section_lines(text: &mut String, section: &dyn AnySection, indent: usize) {
    let name = section.path().rsplit('.').next().unwrap_or(section.path());
    let pad = " ".repeat(indent);
    match section.shape() {
        Shape::Keys(keys) => {
            comment(text, indent, section.doc());
            text.push_str(&format!("{pad}{name}:\n"));
            key_lines(text, keys, indent + 2);
        }
        _ if section.example().contains('\n') => {
            comment(text, indent, section.doc());
            text.push_str(&format!("{pad}{name}:\n"));
            for line in section.example().lines().filter(|line| !line.is_empty()) {
                text.push_str(&format!("{pad}  {line}\n"));
            }
        }
        _ => value_line(text, indent, name, &section.default_json(), section.example(), section.doc()),
    }
}

fn key_lines(text: &mut String, keys: &[Key], indent: usize) {
    let pad = " ".repeat(indent);
    for key in keys {
        let doc = key.doc.trim();
        match (key.shape, key.effect) {
            (_, Effect::Ignored) => text.push_str(&format!("{pad}# {}: {doc}\n", key.name)),
            (Shape::Keys(inner), _) => {
                comment(text, indent, doc);
                text.push_str(&format!("{pad}{}:\n", key.name));
                key_lines(text, inner, indent + 2);
            }
            _ => value_line(text, indent, key.name, &(key.default)(), key.example, doc),
        }
    }
}

fn value_line(text: &mut String, indent: usize, name: &str, default: &Json, example: &str, doc: &str) {
    let pad = " ".repeat(indent);
    let line = if is_empty(default) && !example.is_empty() {
        format!("{pad}# {name}: {example}")
    } else {
        format!("{pad}{name}: {}", flow(default))
    };
    let with_comment = format!("{line:<COMMENT_COLUMN$}# {doc}");
    if doc.is_empty() {
        text.push_str(&line);
    } else if line.len() < COMMENT_COLUMN && with_comment.chars().count() <= MAX_LINE {
        text.push_str(&with_comment);
    } else {
        comment(text, indent, doc);
        text.push_str(&line);
    }
    text.push('\n');
}

/// A comment on lines of its own, wrapped.
fn comment(text: &mut String, indent: usize, doc: &str) {
    let pad = " ".repeat(indent);
    let mut line = format!("{pad}#");
    for word in doc.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > MAX_LINE {
            text.push_str(&line);
            text.push('\n');
            line = format!("{pad}#");
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.trim() != "#" {
        text.push_str(&line);
        text.push('\n');
    }
}
