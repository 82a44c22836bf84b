//! Search over all tools: first names that begin with the query, then whole words, then similar words; within each, the
//! most recently modified first.
//!
//! The word index is `words` (SQLite's full-text index, or a plain map without it); this module decides the order, so
//! that it is the same with both. The index is derived data: if in doubt, it is rebuilt.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fuzzy;

use super::Words;
use super::error::BundleError;
use super::limits::{EXPANSIONS, QUERY_CHARS, QUERY_TERMS};
use super::names::ToolId;
use super::state::ToolEntry;

/// How well a tool matches. Smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Fit {
    Prefix,
    WholeWord,
    Fuzzy,
}

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    text: String,
    terms: Vec<String>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, BundleError> {
        if text.chars().count() > QUERY_CHARS {
            return Err(BundleError::Invalid(format!("a query has at most {QUERY_CHARS} characters")));
        }
        let mut terms = split(text);
        terms.dedup();
        terms.truncate(QUERY_TERMS);
        if text.is_empty() {
            return Err(BundleError::Invalid("a query must not be empty".to_owned()));
        }
        Ok(Self { text: text.trim().to_lowercase(), terms })
    }
}

/// A term, and the words of the vocabulary that it may match.
#[derive(Debug)]
pub(crate) struct Expansion {
    /// Matches every word that begins with this.
    pub(crate) prefix: String,
    /// Other words that are similar enough.
    pub(crate) near: Vec<String>,
}

#[derive(Debug)]
struct Document {
    entry: Arc<ToolEntry>,
    names: [String; 2],
    words: Vec<String>,
}

#[derive(Default)]
pub(crate) struct SearchIndex {
    /// The slot of each tool's document.
    slots: HashMap<ToolId, i64>,
    /// Indexed by slot for speed: a common word occurs in very many documents.
    documents: Vec<Option<Document>>,
    free: Vec<i64>,
    words: Words,
}

impl SearchIndex {
    /// Updates a tool to its current state; `None` removes it.
    pub(crate) fn update(&mut self, id: ToolId, entry: Option<&Arc<ToolEntry>>) {
        if let Some(slot) = self.slots.remove(&id)
            && let Some(old) = self.documents.get_mut(slot as usize).and_then(Option::take)
        {
            self.words.remove(slot, &old.words);
            self.free.push(slot);
        }
        let Some(entry) = entry else { return };
        let mut words = split(entry.slug.as_str());
        words.extend(split(&entry.display_name));
        words.extend(split(&entry.description));
        words.extend(split(&entry.remarks));
        for tag in &entry.tags {
            words.extend(split(tag));
        }
        words.sort();
        words.dedup();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.documents.push(None);
            self.documents.len() as i64 - 1
        });
        self.words.insert(slot, &words);
        self.slots.insert(id, slot);
        let names = [entry.slug.as_str().to_lowercase(), entry.display_name.to_lowercase()];
        if let Some(place) = self.documents.get_mut(slot as usize) {
            *place = Some(Document { entry: entry.clone(), names, words });
        }
    }

    /// Applies many updates at once.
    pub(crate) fn batch(&mut self, change: impl FnOnce(&mut Self)) {
        self.words.begin();
        change(self);
        self.words.commit();
    }

    /// Returns every matching tool, in no particular order.
    pub(crate) fn find(&self, query: &Query) -> Vec<(&Arc<ToolEntry>, Fit)> {
        // Punctuation alone occurs in no name.
        if query.terms.is_empty() {
            return Vec::new();
        }
        let expansions: Vec<Expansion> = query.terms.iter().map(|term| self.expand(term)).collect();
        let Some(slots) = self.words.find(&expansions) else {
            // The word index failed: check every document, for the same result.
            let all = self.documents.iter().flatten();
            return all.filter_map(|document| Some((&document.entry, document.fit(query)?))).collect();
        };
        slots
            .into_iter()
            .filter_map(|slot| {
                let document = self.documents.get(usize::try_from(slot).ok()?)?.as_ref()?;
                Some((&document.entry, document.exact_fit(query).unwrap_or(Fit::Fuzzy)))
            })
            .collect()
    }

    fn expand(&self, term: &str) -> Expansion {
        let mut near = Vec::new();
        self.words.vocabulary(&mut |word| {
            if near.len() < EXPANSIONS && !word.starts_with(term) && is_near(term, word) {
                near.push(word.to_owned());
            }
        });
        Expansion { prefix: term.to_owned(), near }
    }
}

impl Document {
    fn exact_fit(&self, query: &Query) -> Option<Fit> {
        if self.names.iter().any(|name| name.starts_with(&query.text)) {
            Some(Fit::Prefix)
        } else if query.terms.iter().all(|term| self.words.binary_search(term).is_ok()) {
            Some(Fit::WholeWord)
        } else {
            None
        }
    }

    fn fit(&self, query: &Query) -> Option<Fit> {
        self.exact_fit(query).or_else(|| {
            let fits = |term: &String| self.words.iter().any(|word| word.starts_with(term) || is_near(term, word));
            query.terms.iter().all(fits).then_some(Fit::Fuzzy)
        })
    }
}

/// Lower-case words of letters and digits.
fn split(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a term may match a word that does not begin with it: the word contains the term, or differs by few letters.
fn is_near(term: &str, word: &str) -> bool {
    if term.chars().count() >= 3 && word.len() > term.len() && word.contains(term) {
        return true;
    }
    fuzzy::typo_similarity(term, word) > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_part_or_a_slip() {
        for (term, word) in [("wether", "weather"), ("eathe", "weather"), ("waether", "weather"), ("serch", "search")] {
            assert!(is_near(term, word), "{term} {word}");
        }
        for (term, word) in [("cat", "bat"), ("we", "owe"), ("storm", "weather")] {
            assert!(!is_near(term, word), "{term} {word}");
        }
    }

    #[test]
    fn a_query_needs_something_to_look_for() {
        assert!(Query::parse("").is_err());
        assert!(SearchIndex::default().find(&Query::parse(" - ").unwrap()).is_empty());
        assert!(Query::parse(&"x".repeat(201)).is_err());
        assert_eq!(Query::parse("Web-Search").unwrap().terms, ["web", "search"]);
    }
}
