//! Names that every provider accepts: `[A-Za-z0-9_-]`, at most 64 characters, no leading digit or dash.
//!
//! **Invariants**: distinct names stay distinct, every name can be mapped back, and a name's spelling depends only on
//! the set of names, not on their order.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum length of a name that every provider accepts.
pub const MAX_PROVIDER_NAME: usize = 64;
/// Number of hexadecimal digits that distinguish names that would otherwise be equal.
const DIGITS: usize = 8;

/// The names of a set of tools, as providers accept them.
///
/// ```
/// use onetool_sdk::ProviderNames;
///
/// let names = ProviderNames::new(["github.search", "wiki.search"]);
/// assert_eq!(names.to_provider("github.search"), Some("github_search"));
/// assert_eq!(names.to_tool("wiki_search"), Some("wiki.search"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ProviderNames {
    forward: HashMap<String, String>,
    back: HashMap<String, String>,
}

impl ProviderNames {
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names: HashSet<String> = names.into_iter().map(Into::into).collect();
        let mut groups: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for name in names.iter().filter(|name| !is_accepted(name)) {
            groups.entry(respelled(name)).or_default().push(name);
        }
        // A name that is already valid keeps its spelling; the others yield.
        let mut taken: HashSet<String> = names.iter().filter(|name| is_accepted(name)).cloned().collect();
        let mut back: HashMap<String, String> = taken.iter().map(|name| (name.clone(), name.clone())).collect();
        let mut crowded: Vec<&String> = Vec::new();
        for (spelling, members) in groups {
            match members.as_slice() {
                [only] if spelling.len() <= MAX_PROVIDER_NAME && !taken.contains(&spelling) => {
                    taken.insert(spelling.clone());
                    back.insert(spelling, (*only).clone());
                }
                _ => crowded.extend(members),
            }
        }
        crowded.sort();
        for name in crowded {
            let mut round = 0_u32;
            let spelling = loop {
                let candidate = with_digits(name, round);
                if taken.insert(candidate.clone()) {
                    break candidate;
                }
                round += 1;
            };
            back.insert(spelling, name.clone());
        }
        let forward = back.iter().map(|(spelling, name)| (name.clone(), spelling.clone())).collect();
        Self { forward, back }
    }

    /// Returns the provider's name for the tool `name`.
    pub fn to_provider(&self, name: &str) -> Option<&str> {
        self.forward.get(name).map(String::as_str)
    }

    /// Returns the tool that a provider calls `name`.
    pub fn to_tool(&self, name: &str) -> Option<&str> {
        self.back.get(name).map(String::as_str)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_accepted(name: &str) -> bool {
    name.len() <= MAX_PROVIDER_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_plain)
}

fn respelled(name: &str) -> String {
    let mut spelling: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if !spelling.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        spelling.insert(0, '_');
    }
    spelling
}

fn with_digits(name: &str, round: u32) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&round.to_le_bytes());
    hasher.update(name.as_bytes());
    let digits = hasher.finalize().to_hex();
    let mut spelling = respelled(name);
    spelling.truncate(MAX_PROVIDER_NAME - DIGITS - 1);
    format!("{spelling}_{}", &digits.as_str()[..DIGITS])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_would_clash_are_told_apart() {
        let names = ProviderNames::new(["a.b", "a_b", "a/b", "2nd", "", "é"]);
        assert_eq!(names.to_provider("a_b"), Some("a_b"));
        let (dot, slash) = (names.to_provider("a.b").unwrap(), names.to_provider("a/b").unwrap());
        assert!(dot.starts_with("a_b_") && slash.starts_with("a_b_") && dot != slash);
        assert_eq!(names.to_provider("2nd"), Some("_2nd"));
        assert_eq!(names.to_provider("gone"), None);
    }

    proptest! {
        #[test]
        fn names_are_accepted_distinct_reversible_and_independent_of_order(
            names in prop::collection::hash_set("[a-c._/é-]{0,4}|[a-z.]{60,80}|\\PC{0,70}", 0..20)
        ) {
            let mapped = ProviderNames::new(names.iter().cloned());
            let mut backwards: Vec<String> = names.iter().cloned().collect();
            backwards.sort();
            backwards.reverse();
            let again = ProviderNames::new(backwards);
            let mut seen = HashSet::new();
            for name in &names {
                let spelling = mapped.to_provider(name).unwrap();
                prop_assert!(is_accepted(spelling), "{spelling}");
                prop_assert!(seen.insert(spelling.to_owned()));
                prop_assert_eq!(mapped.to_tool(spelling), Some(name.as_str()));
                prop_assert_eq!(again.to_provider(name), Some(spelling));
            }
        }
    }
}
