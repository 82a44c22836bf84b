//! Finds tools, packs, snippets and aliases by what people remember of them.
//!
//! An index of words is built once a catalog and kept; a query looks each of its words up (exact, begins with, contains,
//! typo) and ranks what they point to. Order of words does not matter; a hit in a name counts more than one in a
//! description or an argument.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use onetool_sdk::{Pack, ToolSpec};
use onetool_state::fuzzy::{allowed_typos, character_mask, containment, typo_similarity, words};
use parking_lot::Mutex;

use crate::{Catalog, ToolboxState};

/// Of a description, so much is searched.
const INDEXED_CHARS: usize = 2_000;
/// Of a query, so many words are used.
const QUERY_WORDS: usize = 12;
/// Words that carry no meaning in a query.
const FILLERS: &[&str] = &[
    "a", "an", "and", "do", "for", "from", "how", "i", "in", "is", "it", "of", "on", "or", "the", "to", "tool",
    "tools", "use", "what", "which", "with",
];
/// A hit must be at least so good, and so good compared with the best one of its kind.
const SCORE_FLOOR: f32 = 0.12;
const SCORE_SHARE: f32 = 0.35;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tool,
    Pack,
    Snippet,
    Alias,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Tool, Self::Pack, Self::Snippet, Self::Alias];
}

/// What was found, best first within a search.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) kind: Kind,
    /// `pack.function`, a pack, a snippet or an alias.
    pub(super) name: String,
    pub(super) score: f32,
}

/// Where a word was seen counts: these are the shares of a full hit.
mod weight {
    pub(super) const NAME: f32 = 1.0;
    pub(super) const PACK_OF_TOOL: f32 = 0.8;
    pub(super) const SUMMARY: f32 = 0.6;
    pub(super) const DESCRIPTION: f32 = 0.4;
    pub(super) const ARGUMENT: f32 = 0.4;
    pub(super) const INSTRUCTIONS: f32 = 0.25;
}

struct Entry {
    kind: Kind,
    name: String,
    lower: String,
}

struct Term {
    text: String,
    /// Which characters occur, so that most words are ruled out without comparing.
    mask: u64,
    /// Entry and weight.
    postings: Vec<(u32, f32)>,
}

pub(super) struct Index {
    entries: Vec<Entry>,
    terms: Vec<Term>,
}

impl Index {
    pub(super) fn build(state: &ToolboxState) -> Self {
        let mut builder = Builder::default();
        for (pack, tool) in state.catalog.tools() {
            builder.tool(pack, tool);
        }
        for pack in state.catalog.packs() {
            let entry = builder.entry(Kind::Pack, pack.name.clone());
            builder.name(entry, &pack.name, weight::NAME);
            builder.text(entry, &pack.description, weight::SUMMARY);
            if let Some(instructions) = state.instructions.get(&pack.name) {
                builder.text(entry, instructions, weight::INSTRUCTIONS);
            }
        }
        for (name, snippet) in &state.snippets {
            let entry = builder.entry(Kind::Snippet, name.clone());
            builder.name(entry, name, weight::NAME);
            builder.text(entry, &snippet.description, weight::SUMMARY);
            for (name, parameter) in &snippet.parameters {
                builder.text(entry, name, weight::ARGUMENT);
                builder.text(entry, parameter.description.as_deref().unwrap_or(""), weight::ARGUMENT);
            }
        }
        for (name, target) in &state.aliases {
            let entry = builder.entry(Kind::Alias, name.clone());
            builder.name(entry, name, weight::NAME);
            builder.name(entry, target, weight::PACK_OF_TOOL);
        }
        Self { entries: builder.entries, terms: builder.terms }
    }

    /// What fits the query, best first.
    pub(super) fn search(&self, query: &str) -> Vec<Hit> {
        let tokens = query_words(query);
        if tokens.is_empty() {
            return Vec::new();
        }
        let mut totals = vec![0.0_f32; self.entries.len()];
        let mut matched = vec![0_u16; self.entries.len()];
        let mut best = vec![0.0_f32; self.entries.len()];
        for token in &tokens {
            best.fill(0.0);
            self.look_up(token, &mut best);
            for (entry, &score) in best.iter().enumerate() {
                if score > 0.0 {
                    totals[entry] += score;
                    matched[entry] += 1;
                }
            }
        }
        // "webfetch" and "web fetch" mean the same, whichever of the two a name has.
        let joined = (tokens.len() > 1).then(|| tokens.concat());
        if let Some(joined) = &joined {
            best.fill(0.0);
            self.look_up(joined, &mut best);
        } else {
            best.fill(0.0);
        }
        let phrase = query.trim().to_lowercase();
        let mut hits: Vec<Hit> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(index, _)| matched[*index] > 0 || best[*index] > 0.0)
            .map(|(index, entry)| {
                let coverage = f32::from(matched[index]) / tokens.len() as f32;
                let mut score = totals[index] / tokens.len() as f32 * coverage + 0.5 * best[index];
                if entry.lower.contains(&phrase) {
                    score += 0.5 * phrase.len() as f32 / entry.lower.len() as f32;
                }
                Hit { kind: entry.kind, name: entry.name.clone(), score }
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
        let floors = Kind::ALL.map(|kind| {
            let best = hits.iter().find(|hit| hit.kind == kind).map_or(0.0, |best| best.score);
            (best * SCORE_SHARE).max(SCORE_FLOOR)
        });
        hits.retain(|hit| hit.score >= floors[hit.kind as usize]);
        hits
    }

    /// The best score that one word gives each entry.
    fn look_up(&self, token: &str, best: &mut [f32]) {
        let mut near = false;
        for term in &self.terms {
            let likeness = containment(token, &term.text);
            if likeness > 0.0 {
                near |= likeness >= 0.75;
                self.credit(term, likeness, best);
            }
        }
        if near {
            return;
        }
        let allowed = allowed_typos(token.chars().count()) as u32;
        let mask = character_mask(token);
        for term in &self.terms {
            if (mask ^ term.mask).count_ones() <= 2 * allowed {
                let likeness = typo_similarity(token, &term.text);
                if likeness > 0.0 {
                    self.credit(term, likeness, best);
                }
            }
        }
    }

    /// Rare words say more than common ones.
    fn credit(&self, term: &Term, likeness: f32, best: &mut [f32]) {
        let share = term.postings.len() as f32 / self.entries.len() as f32;
        let rarity = 1.0 - 0.5 * share.sqrt();
        for &(entry, weight) in &term.postings {
            let slot = &mut best[entry as usize];
            *slot = slot.max(likeness * weight * rarity);
        }
    }
}

fn query_words(query: &str) -> Vec<String> {
    let lower = query.to_lowercase();
    let all: Vec<&str> = words(&lower).take(QUERY_WORDS).collect();
    let meaningful: Vec<&str> = all.iter().copied().filter(|word| !FILLERS.contains(word)).collect();
    let chosen = if meaningful.is_empty() { all } else { meaningful };
    chosen.into_iter().map(str::to_owned).collect()
}

#[derive(Default)]
struct Builder {
    entries: Vec<Entry>,
    terms: Vec<Term>,
    known: HashMap<String, u32>,
    /// The word at hand, in lower case.
    lower: String,
}

impl Builder {
    fn entry(&mut self, kind: Kind, name: String) -> u32 {
        let lower = name.to_lowercase();
        self.entries.push(Entry { kind, name, lower });
        (self.entries.len() - 1) as u32
    }

    fn tool(&mut self, pack: &Pack, tool: &ToolSpec) {
        let entry = self.entry(Kind::Tool, format!("{}.{}", pack.name, tool.name));
        self.name(entry, &tool.name, weight::NAME);
        self.name(entry, &pack.name, weight::PACK_OF_TOOL);
        let joined: String = words(&format!("{} {}", pack.name, tool.name)).collect();
        self.word(entry, &joined, weight::NAME);
        let summary = tool.summary();
        self.text(entry, summary, weight::SUMMARY);
        if summary.len() < tool.description.trim().len() {
            self.text(entry, &tool.description, weight::DESCRIPTION);
        }
        for parameter in &tool.signature.parameters {
            self.text(entry, &parameter.name, weight::ARGUMENT);
            self.text(entry, parameter.description.as_deref().unwrap_or(""), weight::ARGUMENT);
        }
    }

    /// A name's words, and all of them in one.
    fn name(&mut self, entry: u32, name: &str, weight: f32) {
        self.text(entry, name, weight);
        let joined: String = words(name).collect();
        self.word(entry, &joined, weight);
    }

    fn text(&mut self, entry: u32, text: &str, weight: f32) {
        let end = text.char_indices().nth(INDEXED_CHARS).map_or(text.len(), |(at, _)| at);
        for word in words(&text[..end]) {
            self.word(entry, word, weight);
        }
    }

    fn word(&mut self, entry: u32, word: &str, weight: f32) {
        // Most words are plain and known already: no memory is taken for them.
        self.lower.clear();
        if word.is_ascii() {
            self.lower.push_str(word);
            self.lower.make_ascii_lowercase();
        } else {
            self.lower.push_str(&word.to_lowercase());
        }
        let index = if let Some(&index) = self.known.get(&self.lower) {
            index
        } else {
            let index = self.terms.len() as u32;
            let text = self.lower.clone();
            self.terms.push(Term { mask: character_mask(&text), text: text.clone(), postings: Vec::new() });
            self.known.insert(text, index);
            index
        };
        let postings = &mut self.terms[index as usize].postings;
        match postings.last_mut() {
            Some((last, kept)) if *last == entry => *kept = kept.max(weight),
            _ => postings.push((entry, weight)),
        }
    }
}

/// The index of the latest catalog, made when it is first needed.
#[derive(Default)]
pub struct SearchIndex(Mutex<Option<Cached>>);

struct Cached {
    /// Held weakly, which is enough to keep another catalog from getting the same address.
    catalog: Weak<Catalog>,
    names: u64,
    index: Arc<Index>,
}

impl SearchIndex {
    /// Makes the index now, for those who ask later.
    pub(crate) fn prepare(&self, state: &ToolboxState) {
        let _ = self.get(state);
    }

    pub(super) fn get(&self, state: &ToolboxState) -> Arc<Index> {
        let names = fingerprint(state);
        let mut cached = self.0.lock();
        match &*cached {
            Some(cached)
                if cached.names == names && std::ptr::eq(cached.catalog.as_ptr(), Arc::as_ptr(&state.catalog)) =>
            {
                cached.index.clone()
            }
            _ => {
                let index = Arc::new(Index::build(state));
                *cached = Some(Cached { catalog: Arc::downgrade(&state.catalog), names, index: index.clone() });
                index
            }
        }
    }
}

/// Changes with anything that is indexed beside the catalog.
fn fingerprint(state: &ToolboxState) -> u64 {
    let mut hasher = DefaultHasher::new();
    for pair in &state.aliases {
        pair.hash(&mut hasher);
    }
    for (name, snippet) in &state.snippets {
        (name, &snippet.description).hash(&mut hasher);
        for (name, parameter) in &snippet.parameters {
            (name, &parameter.description).hash(&mut hasher);
        }
    }
    for pair in &state.instructions {
        pair.hash(&mut hasher);
    }
    hasher.finish()
}
