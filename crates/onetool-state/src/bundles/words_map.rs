//! Maps words to the tools that contain them, in a plain map: used by the search without SQLite.

use std::collections::{BTreeMap, BTreeSet};

use super::search::Expansion;

#[derive(Debug, Default)]
pub(crate) struct Words {
    holders: BTreeMap<String, BTreeSet<i64>>,
}

impl Words {
    #[expect(clippy::unused_self, reason = "the same face as the SQLite index")]
    pub(crate) fn begin(&mut self) {}

    #[expect(clippy::unused_self, reason = "the same face as the SQLite index")]
    pub(crate) fn commit(&mut self) {}

    pub(crate) fn insert(&mut self, slot: i64, words: &[String]) {
        for word in words {
            self.holders.entry(word.clone()).or_default().insert(slot);
        }
    }

    pub(crate) fn remove(&mut self, slot: i64, words: &[String]) {
        for word in words {
            if let Some(slots) = self.holders.get_mut(word) {
                slots.remove(&slot);
                if slots.is_empty() {
                    self.holders.remove(word);
                }
            }
        }
    }

    /// Every word, in order.
    pub(crate) fn vocabulary(&self, visit: &mut dyn FnMut(&str)) {
        for word in self.holders.keys() {
            visit(word);
        }
    }

    /// The slots that contain at least one word of every expansion.
    #[expect(clippy::unnecessary_wraps, reason = "the same face as the SQLite index, which may fail")]
    pub(crate) fn find(&self, expansions: &[Expansion]) -> Option<Vec<i64>> {
        let mut found: Option<BTreeSet<i64>> = None;
        for expansion in expansions {
            let begun = self
                .holders
                .range(expansion.prefix.clone()..)
                .take_while(|(word, _)| word.starts_with(&expansion.prefix))
                .map(|(_, slots)| slots);
            let near = expansion.near.iter().filter_map(|word| self.holders.get(word));
            let slots: BTreeSet<i64> = begun.chain(near).flatten().copied().collect();
            found = Some(match found {
                Some(found) => found.intersection(&slots).copied().collect(),
                None => slots,
            });
        }
        Some(found.unwrap_or_default().into_iter().collect())
    }
}
