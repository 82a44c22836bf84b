//! "Did you mean …?"

pub use onetool_sdk::nearest;

/// Lists the first names, and how many more there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 60;
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(", … and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "(none)".to_owned() } else { text }
}
