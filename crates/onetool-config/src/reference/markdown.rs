//! The reference, one table per section.

use super::{flow, is_empty};
use crate::section::AnySection;
use crate::shape::{Effect, Key, Shape};

/// The tables of all sections.
pub fn markdown(sections: &[&dyn AnySection]) -> String {
    let mut text = String::from("| key | what it is for |\n|---|---|\n");
    for section in sections {
        let anchor: String = section.path().chars().filter(|c| *c != '.').collect();
        text.push_str(&format!("| [`{}`](#{anchor}) | {} |\n", section.path(), cell(section.doc())));
    }
    for section in sections {
        text.push_str(&format!("\n## {}\n\n{}\n", section.path(), section.doc()));
        let mut rows = Vec::new();
        below(&mut rows, "", section.shape());
        if rows.is_empty() {
            let default = section.default_json();
            text.push_str(&format!("\n- Value: {}\n", section.shape().describe()));
            if !is_empty(&default) {
                text.push_str(&format!("- Default: `{}`\n", flow(&default)));
            }
            text.push_str(&format!("- A change takes effect: {}\n", when(section.effect())));
        } else {
            text.push_str("\n| key | value | default | takes effect | |\n|---|---|---|---|---|\n");
            for row in rows {
                text.push_str(&row);
            }
        }
        if section.example().contains('\n') {
            let name = section.path().rsplit('.').next().unwrap_or(section.path());
            let lines: Vec<String> =
                section.example().trim_matches('\n').lines().map(|line| format!("  {line}")).collect();
            text.push_str(&format!("\n```yaml\n{name}:\n{}\n```\n", lines.join("\n")));
        }
    }
    text
}

/// Adds the rows of all keys below a shape.
fn below(rows: &mut Vec<String>, path: &str, shape: Shape) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match shape {
        Shape::Keys(keys) => {
            for key in keys {
                row(rows, &join(key.name), key);
            }
        }
        Shape::Names(inner) => below(rows, &join("<name>"), *inner),
        Shape::List(inner) | Shape::OneOrMore(inner) => below(rows, &format!("{path}[]"), *inner),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| below(rows, path, *shape)),
        _ => {}
    }
}

fn row(rows: &mut Vec<String>, path: &str, key: &Key) {
    let default = (key.default)();
    let is_group = matches!(key.shape, Shape::Keys(_));
    let default = if is_empty(&default) || is_group { String::new() } else { format!("`{}`", flow(&default)) };
    let value = if is_group { "a mapping".to_owned() } else { key.shape.describe() };
    let doc = match key.example {
        "" => key.doc.trim().to_owned(),
        example => format!("{} Example: `{example}`", key.doc.trim()),
    };
    rows.push(format!(
        "| `{path}` | {} | {} | {} | {} |\n",
        cell(&value),
        cell(&default),
        when(key.effect),
        cell(&doc)
    ));
    below(rows, path, key.shape);
}

fn when(effect: Effect) -> &'static str {
    match effect {
        Effect::Live => "at once",
        Effect::Restart => "at the next start",
        Effect::Ignored => "never",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
