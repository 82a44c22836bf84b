//! A brief list of the packs, for the description of `run`: what a model sees before it has asked for anything.

use onetool_sdk::{Origin, Pack};

use super::first_line;
use crate::ToolboxState;

/// Maximum characters of a pack's description; shorter limits are tried to make room for more packs.
const ABOUT_CHARS: [usize; 3] = [48, 36, 24];
/// Separates two packs.
const SEPARATOR: &str = " | ";
const AND: &str = "and ";
/// Number of tools named if nothing else describes a pack.
const NAMED_TOOLS: usize = 3;

/// `file: Files of the project | github: Issues, pull requests | and 12 more: ot.packs()`, in at most `budget` bytes of
/// JSON. The most used packs come first, then the largest.
pub fn pack_overview(state: &ToolboxState, budget: usize) -> String {
    let mut packs: Vec<(&Pack, u64)> = state
        .catalog
        .packs()
        .map(AsRef::as_ref)
        .filter(|pack: &&Pack| pack.name != "ot" && !pack.tools.is_empty())
        .map(|pack| (pack, state.search.uses_of_pack(&pack.name)))
        .collect();
    packs.sort_by(|(a, used_a), (b, used_b)| {
        used_b.cmp(used_a).then(b.tools.len().cmp(&a.tools.len())).then(a.name.cmp(&b.name))
    });
    // The longest descriptions that leave room for every pack, or else the shortest ones.
    let mut shortened = String::new();
    for about in ABOUT_CHARS {
        let entries: Vec<String> = packs.iter().map(|(pack, _)| entry(state, pack, about)).collect();
        let (text, is_whole) = joined(&entries, budget);
        if is_whole {
            return text;
        }
        shortened = text;
    }
    shortened
}

/// Joins all entries, or as many as fit and the number of the others; also returns whether all of them fit.
fn joined(entries: &[String], budget: usize) -> (String, bool) {
    let whole = entries.join(SEPARATOR);
    if json_length(&whole) <= budget {
        return (whole, true);
    }
    let mut text = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let left = more(entries.len() - at);
        let separator = if at == 0 { "" } else { SEPARATOR };
        if json_length(&text) + json_length(entry) + separator.len() + SEPARATOR.len() + AND.len() + left.len() > budget
        {
            text = if at == 0 { left } else { format!("{text}{SEPARATOR}{AND}{left}") };
            break;
        }
        text = format!("{text}{separator}{entry}");
    }
    (text, false)
}

fn more(left: usize) -> String {
    format!("{left} more: ot.packs()")
}

fn entry(state: &ToolboxState, pack: &Pack, characters: usize) -> String {
    match about(state, pack, characters) {
        about if about.is_empty() => pack.name.clone(),
        about => format!("{}: {about}", pack.name),
    }
}

/// The configured description of the pack, else that of its server or its own text, else some of its tools.
fn about(state: &ToolboxState, pack: &Pack, characters: usize) -> String {
    let configured = state.instructions.get(&pack.name).map(|text| first_line(text));
    let told = match &pack.origin {
        // The first line of a server's pack only repeats its name.
        Origin::Proxy { .. } => first_line(pack.description.split_once('\n').map_or("", |(_, rest)| rest)),
        _ => first_line(&pack.description),
    };
    let told = configured.unwrap_or(told);
    let text = if told.is_empty() {
        pack.tools.keys().take(NAMED_TOOLS).map(String::as_str).collect::<Vec<_>>().join(", ")
    } else {
        first_sentence(told).to_owned()
    };
    // Entries share one line.
    let text: String = text.chars().map(|c| if c.is_control() || c == '|' { ' ' } else { c }).collect();
    match text.char_indices().nth(characters) {
        Some((at, _)) => {
            let cut = text[..at].rfind(' ').unwrap_or(at);
            format!("{}...", text[..cut].trim_end_matches([',', ' ']))
        }
        None => text,
    }
}

/// The text up to the first full stop that does not end an abbreviation.
fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ").map(|(at, _)| at);
    let is_end = |at: &usize| !["e.g", "i.e", " etc", " vs"].iter().any(|short| text[..*at].ends_with(short));
    let end = ends.find(is_end);
    text[..end.unwrap_or(text.len())].trim_end_matches('.')
}

/// Length of the text in JSON, in bytes, if the writer escapes all non-ASCII characters.
fn json_length(text: &str) -> usize {
    let escaped = |c: char| if c.is_ascii() { 0 } else { c.len_utf16() * "\\u0000".len() - c.len_utf8() };
    serde_json::Value::from(text).to_string().len() - 2 + text.chars().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::{first_sentence, joined, json_length};

    #[test]
    fn bytes_are_counted_as_the_longest_json_has_them() {
        assert_eq!(json_length("a\"b"), 4);
        assert_eq!(json_length("é…"), 12);
        assert_eq!(json_length("😀"), 12);
    }

    #[test]
    fn a_sentence_does_not_end_with_an_abbreviation() {
        assert_eq!(first_sentence("Folders, e.g. proj.site. More of it."), "Folders, e.g. proj.site");
        assert_eq!(first_sentence("Files."), "Files");
        assert_eq!(first_sentence("Mail"), "Mail");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let entries = ["a: first of all", "b: second of all", "c: third of all"].map(str::to_owned);
        assert_eq!(joined(&entries, 52), (entries.join(" | "), true));
        assert_eq!(joined(&entries, 45), ("a: first of all | and 2 more: ot.packs()".to_owned(), false));
        assert_eq!(joined(&entries, 20), ("3 more: ot.packs()".to_owned(), false));
    }
}
