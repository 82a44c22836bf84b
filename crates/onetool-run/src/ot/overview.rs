//! The packs in a few words, for the description of `run`: what a model sees before it has asked for anything.

use onetool_sdk::{Origin, Pack};

use super::first_line;
use crate::ToolboxState;

/// Of what a pack is about, so many characters are told.
const ABOUT_CHARS: usize = 48;
/// Tools named where nothing else says what a pack is about.
const NAMED_TOOLS: usize = 3;

/// `file: Files of the project | github: Issues, pull requests | and 12 more: ot.packs()`, in at most so many bytes of
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
    let mut text = String::new();
    for (at, (pack, _)) in packs.iter().enumerate() {
        let separator = if at == 0 { "" } else { " | " };
        let left = packs.len() - at;
        let entry = format!("{separator}{}", entry(state, pack));
        let rest = if left == 1 { 0 } else { more(left).len() };
        if json_length(&text) + json_length(&entry) + rest > budget {
            text.push_str(&if at == 0 { more(left).trim_start_matches(" | and ").to_owned() } else { more(left) });
            return text;
        }
        text.push_str(&entry);
    }
    text
}

fn more(left: usize) -> String {
    format!(" | and {left} more: ot.packs()")
}

fn entry(state: &ToolboxState, pack: &Pack) -> String {
    match about(state, pack) {
        about if about.is_empty() => pack.name.clone(),
        about => format!("{}: {about}", pack.name),
    }
}

/// What the configuration says of the pack, else what its server or its own text says, else some of its tools.
fn about(state: &ToolboxState, pack: &Pack) -> String {
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
        let sentence = told.split_once(". ").map_or(told, |(first, _)| first);
        sentence.trim_end_matches('.').to_owned()
    };
    // It stands in one line with others.
    let text: String = text.chars().map(|c| if c.is_control() || c == '|' { ' ' } else { c }).collect();
    match text.char_indices().nth(ABOUT_CHARS) {
        Some((at, _)) => {
            let cut = text[..at].rfind(' ').unwrap_or(at);
            format!("{}…", text[..cut].trim_end_matches([',', ' ']))
        }
        None => text,
    }
}

fn json_length(text: &str) -> usize {
    serde_json::Value::from(text).to_string().len() - 2
}
