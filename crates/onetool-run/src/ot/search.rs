//! Finds tools, packs, snippets and aliases: what is indexed, and which hits are worth showing.
//!
//! [`crate::search`] does the ranking. An index is built once per catalog and cached. Hits with equal scores are
//! ordered by how often this project called them, then by pack.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use chrono::Utc;
use onetool_sdk::{Pack, QualifiedName, ToolSpec};
use onetool_state::stats::{Assumptions, Period, Report};
use parking_lot::Mutex;

use crate::search::{Field, Index as WordIndex, IndexBuilder};
use crate::{Catalog, ToolboxState};

/// Minimum score of a hit, as a share of the best of its kind and of the best of all.
const SHARE_OF_KIND: f32 = 0.3;
const SHARE_OF_ALL: f32 = 0.2;
/// Scores that differ by less than this share are tied.
const TIE: f32 = 0.005;
/// Words of type annotations that carry no meaning.
const TYPE_WORDS: &[&str] = &[
    "Annotated",
    "Any",
    "Literal",
    "None",
    "Optional",
    "Union",
    "bool",
    "bytes",
    "dict",
    "float",
    "int",
    "list",
    "str",
];

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

/// A search hit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) kind: Kind,
    /// `pack.function`, a pack, a snippet or an alias.
    pub(super) name: String,
    pub(super) score: f32,
}

pub(super) struct Index {
    words: WordIndex,
    entries: Vec<(Kind, String)>,
}

impl Index {
    fn build(state: &ToolboxState) -> Self {
        let mut builder = Builder::default();
        for (pack, tool) in state.catalog.tools() {
            builder.tool(state, pack, tool);
        }
        for pack in state.catalog.packs() {
            builder.entry(Kind::Pack, &pack.name);
            builder.words.text(Field::Name, &pack.name);
            builder.words.text(Field::Summary, &pack.description);
            if let Some(instructions) = state.instructions.get(&pack.name) {
                builder.words.text(Field::Description, instructions);
            }
        }
        // Saved code is indexed as a function of its pack.
        for (name, snippet) in state.snippets.iter().filter(|(_, snippet)| !snippet.is_saved) {
            builder.entry(Kind::Snippet, name);
            builder.words.text(Field::Name, name);
            builder.words.text(Field::Summary, &snippet.description);
            for (name, parameter) in &snippet.parameters {
                builder.words.text(Field::ParameterName, name);
                builder.words.text(Field::ParameterText, parameter.description.as_deref().unwrap_or(""));
            }
        }
        for (name, target) in &state.aliases {
            builder.entry(Kind::Alias, name);
            builder.words.text(Field::Name, name);
            builder.words.text(Field::Summary, target);
        }
        Self { words: builder.words.build(), entries: builder.entries }
    }
}

#[derive(Default)]
struct Builder {
    words: IndexBuilder,
    entries: Vec<(Kind, String)>,
}

impl Builder {
    fn entry(&mut self, kind: Kind, name: &str) {
        self.words.document();
        self.entries.push((kind, name.to_owned()));
    }

    fn tool(&mut self, state: &ToolboxState, pack: &Pack, tool: &ToolSpec) {
        self.entry(Kind::Tool, &format!("{}.{}", pack.name, tool.name));
        let words = &mut self.words;
        words.text(Field::Name, &tool.name);
        words.text(Field::Pack, &pack.name);
        words.text(Field::PackText, &pack.description);
        if let Some(instructions) = state.instructions.get(&pack.name) {
            words.text(Field::PackText, super::first_line(instructions));
        }
        let description = tool.description.trim();
        let (summary, rest) = first_sentence(description);
        words.text(Field::Summary, summary);
        words.text(Field::Description, rest);
        let name = format!("{}.{}", pack.name, tool.name);
        for word in state.overrides.get(&name).into_iter().flat_map(|change| &change.words) {
            words.text(Field::Extra, word);
        }
        for parameter in &tool.signature.parameters {
            words.text(Field::ParameterName, &parameter.name);
            words.text(Field::ParameterText, parameter.description.as_deref().unwrap_or(""));
            for value in parameter.annotation.iter().flat_map(|annotation| annotation.split(is_no_word)) {
                if !TYPE_WORDS.contains(&value) {
                    words.text(Field::Value, value);
                }
            }
        }
    }
}

fn is_no_word(character: char) -> bool {
    !character.is_alphanumeric() && !matches!(character, '_' | '-')
}

fn first_sentence(text: &str) -> (&str, &str) {
    let end = [". ", ".\n", "\n\n"].iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    text.split_at(end)
}

/// The index of the latest catalog, built on first use, and how often the project called each tool.
#[derive(Default)]
pub struct SearchIndex {
    cached: Mutex<Option<Cached>>,
    /// Calls by tool; `None` until the statistics are read.
    uses: Mutex<Option<HashMap<String, u64>>>,
    /// Calls by pack as first read from the statistics. Not updated, so that an order based on them is stable.
    pack_uses: Mutex<HashMap<String, u64>>,
}

struct Cached {
    /// A weak reference keeps another catalog from getting the same address.
    catalog: Weak<Catalog>,
    names: u64,
    index: Arc<Index>,
}

impl SearchIndex {
    /// Builds the index ahead of the first search.
    pub(crate) fn prepare(&self, state: &ToolboxState) {
        let _ = self.get(state);
        self.read_uses(state);
    }

    /// Counts a call that succeeded.
    pub(crate) fn used(&self, name: &QualifiedName) {
        if let Some(uses) = &mut *self.uses.lock() {
            *uses.entry(name.to_string()).or_default() += 1;
        }
    }

    /// Earlier calls to the tools of a pack, if the statistics have been read.
    pub(super) fn uses_of_pack(&self, pack: &str) -> u64 {
        self.pack_uses.lock().get(pack).copied().unwrap_or(0)
    }

    /// Returns the hits for a query, best first. Reads files the first time.
    pub(super) fn search(&self, state: &ToolboxState, query: &str) -> Vec<Hit> {
        let index = self.get(state);
        self.read_uses(state);
        let mut hits: Vec<Hit> = index
            .words
            .search(query)
            .into_iter()
            .map(|found| {
                let (kind, name) = &index.entries[found.document];
                Hit { kind: *kind, name: name.clone(), score: found.score }
            })
            .collect();
        let best = hits.first().map_or(0.0, |hit| hit.score);
        let floors = Kind::ALL.map(|kind| {
            let best_of_kind = hits.iter().find(|hit| hit.kind == kind).map_or(0.0, |hit| hit.score);
            (best_of_kind * SHARE_OF_KIND).max(best * SHARE_OF_ALL)
        });
        hits.retain(|hit| hit.score >= floors[hit.kind as usize]);
        self.break_ties(&mut hits);
        hits
    }

    /// Orders tied hits by use; otherwise they stay in the order of their packs.
    fn break_ties(&self, hits: &mut [Hit]) {
        let uses = self.uses.lock();
        let Some(uses) = uses.as_ref().filter(|uses| !uses.is_empty()) else { return };
        let mut start = 0;
        while start < hits.len() {
            let least = hits[start].score * (1.0 - TIE);
            let length = hits[start..].iter().take_while(|hit| hit.score >= least).count();
            let tied = &mut hits[start..start + length];
            tied.sort_by_key(|hit| std::cmp::Reverse(uses.get(&hit.name).copied().unwrap_or(0)));
            start += length;
        }
    }

    fn read_uses(&self, state: &ToolboxState) {
        let mut uses = self.uses.lock();
        if uses.is_some() {
            return;
        }
        let assumptions = Assumptions {
            context_per_call: None,
            time_overhead_per_call_ms: None,
            input_cost: 0.0,
            output_cost: 0.0,
            chars_per_token: 1.0,
        };
        let trail = state.trail.as_deref();
        let report = trail.and_then(|trail| Report::read(Some(trail), Period::All, None, assumptions, Utc::now()).ok());
        let tools = report.into_iter().flat_map(|report| report.tools);
        let succeeded = tools.map(|tool| (tool.tool, tool.totals.calls.saturating_sub(tool.totals.errors)));
        let succeeded: HashMap<String, u64> = succeeded.filter(|(_, calls)| *calls > 0).collect();
        let mut pack_uses = self.pack_uses.lock();
        for (name, calls) in &succeeded {
            let pack = name.split('.').next().unwrap_or(name);
            *pack_uses.entry(pack.to_owned()).or_default() += calls;
        }
        *uses = Some(succeeded);
    }

    fn get(&self, state: &ToolboxState) -> Arc<Index> {
        let names = fingerprint(state);
        let mut cached = self.cached.lock();
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

/// A hash of everything that is indexed besides the catalog.
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
