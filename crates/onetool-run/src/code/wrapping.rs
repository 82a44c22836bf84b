//! Code with a `return` outside any function becomes the body of one.

use ruff_python_ast::ModModule;
use ruff_python_parser::Parsed;
use ruff_text_size::TextRange;

use super::{Edit, Facts, apply, facts, lines_inside_strings};

/// What the function returns when the code ran to its end without a value.
pub const NO_VALUE: &str = "\u{1}no value\u{1}";

/// The wrapped text, and how many lines it puts before the user's own.
pub(super) fn as_function(
    source: &str,
    parsed: &Parsed<ModModule>,
    facts: &Facts,
    mut edits: Vec<Edit>,
) -> (String, u32) {
    let inside = lines_inside_strings(source, parsed);
    if let Some(start) = facts::last_expression_start(parsed.syntax()) {
        edits.push(Edit { range: TextRange::empty(start), text: "return ".to_owned() });
    }
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        if !inside.contains(&at) && !line.trim().is_empty() {
            let position = ruff_text_size::TextSize::new(at as u32);
            // Before any other edit at the same place: indentation comes first.
            edits.insert(0, Edit { range: TextRange::empty(position), text: " ".to_owned() });
        }
        at += line.len();
    }
    let body = apply(source, edits);
    let magic: Vec<&str> = facts::MAGIC.iter().copied().filter(|name| facts.bound.contains(*name)).collect();
    let globals = if magic.is_empty() { " pass".to_owned() } else { format!(" global {}", magic.join(", ")) };
    let (definition, call) = if facts.awaits_at_top { ("async def", "await ") } else { ("def", "") };
    let text = format!("{definition} __main__():\n{globals}\n{body}\n return {NO_VALUE:?}\n{call}__main__()");
    (text, 2)
}
