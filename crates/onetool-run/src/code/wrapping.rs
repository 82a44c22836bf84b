//! Wraps code with a `return` outside any function in a function.

use ruff_python_ast::ModModule;
use ruff_python_parser::Parsed;
use ruff_text_size::TextRange;

use super::{Edit, Facts, apply, facts, lines_inside_strings};

/// The global that the function sets when the code reaches its end without a `return`.
pub const END_REACHED: &str = "__end_reached__";

/// Returns the wrapped text and the number of lines inserted before the user's first line.
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
            // Inserted before other edits at the same position: indentation comes first.
            edits.insert(0, Edit { range: TextRange::empty(position), text: " ".to_owned() });
        }
        at += line.len();
    }
    let body = apply(source, edits);
    let magic = facts::MAGIC.iter().copied().filter(|name| facts.bound.contains(*name));
    let globals = magic.chain([END_REACHED]).collect::<Vec<_>>().join(", ");
    let (definition, call) = if facts.awaits_at_top { ("async def", "await ") } else { ("def", "") };
    let text = format!("{definition} __main__():\n global {globals}\n{body}\n {END_REACHED} = True\n{call}__main__()");
    (text, 2)
}
