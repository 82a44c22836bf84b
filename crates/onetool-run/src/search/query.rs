//! Parses a query into words, each with all index terms that may match it.

use super::index::Index;
use super::intent::{self, Intent};
use super::synonyms::{Likeness, PHRASES, SHORT_FORMS};
use super::words::{Word, is_stop_word, name_words, stemmed};
use super::{shape, typos};

/// Maximum number of words used from a query.
const MAX_WORDS: usize = 64;
/// Maximum bytes read of a query.
const MAX_BYTES: usize = 2_000;
/// The last word of a query with at most this many words may be incomplete.
const SHORT_QUERY: usize = 3;
/// Maximum number of completions or corrections of a word.
const MAX_GUESSES: usize = 12;
/// Minimum length of each half of a compound.
const SHORTEST_HALF: usize = 3;
const SHORTEST_COMPOUND: usize = 7;
/// Maximum number of words between those of a phrase: "take next friday off".
const MAX_GAP: usize = 3;

/// Weights of terms that match a word indirectly, relative to the word itself.
const SYNONYM: f32 = 0.45;
const COMPOUND: f32 = 0.5;
const COMPLETED: f32 = 0.6;
const CORRECTED: f32 = 0.7;
const PHRASE: f32 = 0.75;
const SAME: f32 = 0.95;
/// Weight of a word's own rarity if other words mean the same.
const OWN: f32 = 0.35;
const SHAPE: f32 = 0.6;
/// Weight of the first word of a request; most begin with the action.
const FIRST: f32 = 1.25;
/// Verbs are chosen more loosely than nouns.
const VERB: f32 = 0.8;
const LIGHT_VERB: f32 = 0.5;
/// A participle identifies an object rather than the action: "tickets created today".
const PARTICIPLE: f32 = 0.6;
/// Words about time and age rarely describe a tool.
const TIME: f32 = 0.55;
/// Text that is quoted or reported does not describe the tool: "post that ...", "an issue saying ...".
const CONTENT: f32 = 0.6;
/// A number suggests a single thing, identified by its id.
const NUMBER: f32 = 0.3;
/// Among known words, an unknown one is more likely from another topic than mistyped.
const GUESS_IN_SENTENCE: f32 = 0.6;
/// Proper names, quoted text and paths are arguments of a tool and do not describe it.
const NAME: f32 = 0.5;
const QUOTED: f32 = 0.35;
const PART_OF_PATH: f32 = 0.25;

/// Words about time.
const TIMES: &[&str] = &[
    "current",
    "currently",
    "daily",
    "first",
    "last",
    "lately",
    "latest",
    "monthly",
    "new",
    "newest",
    "next",
    "now",
    "old",
    "oldest",
    "past",
    "previous",
    "recent",
    "recently",
    "today",
    "tomorrow",
    "tonight",
    "weekly",
    "yesterday",
];

/// Words that introduce reported text.
const SAYS: &[&str] = &["about", "called", "mentioning", "named", "regarding", "saying", "says", "that", "titled"];

/// One word of a query: the matching terms and their weights. The best of them counts.
pub(super) struct QueryWord {
    pub(super) variants: Vec<(u32, f32)>,
    /// The word's weight when the matched words of a document are counted.
    pub(super) share: f32,
}

/// A parsed query.
pub(super) struct Query {
    /// The words that match any term.
    pub(super) words: Vec<QueryWord>,
    pub(super) intent: Intent,
    /// Terms of the packs that it names.
    pub(super) brands: Vec<u32>,
    /// Whether packs are written as proper names, and so are certainly meant.
    pub(super) is_named: bool,
    /// Terms of its words as written, each once.
    pub(super) written: Vec<u32>,
}

/// A word of a query, with a weight for how much it says about the intended tool.
struct Written {
    word: Word,
    weight: f32,
    /// Whether it begins a sentence other than the first.
    begins_sentence: bool,
    /// Whether it is written as a proper name: with a capital letter inside a sentence.
    is_name: bool,
}

pub(super) fn read(index: &Index, query: &str) -> Query {
    let query = clipped(query);
    let plain_terms = terms(index, query);
    let (mut written, hinted) = written(index, query);
    let mut said = Vec::new();
    for written in written.iter().filter(|written| written.weight >= 1.0) {
        // The first word of a sentence may be the action: "It failed. Open an issue."
        said.extend(written.begins_sentence.then_some("then"));
        said.push(written.word.raw.as_str());
    }
    let intent = Intent::of(meant(said).into_iter());
    written.truncate(MAX_WORDS);
    let mut found: Vec<QueryWord> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for meant in phrases(&mut written) {
        for word in meant.split(' ') {
            let stem = stemmed(word);
            if !seen.contains(&stem) {
                let weight = if TIMES.contains(&word) { PHRASE * TIME } else { PHRASE };
                found.extend(looked_up(index, &stem, weight));
                seen.push(stem);
            }
        }
    }
    // A single word is always used, even a stop word.
    if written.len() > 1 {
        written.retain(|written| !is_stop_word(&written.word.raw));
    }
    let is_short = written.len() <= SHORT_QUERY;
    for (at, Written { word, weight, .. }) in written.iter().enumerate() {
        if seen.contains(&word.stem) {
            continue;
        }
        seen.push(word.stem.clone());
        let mut weight = *weight;
        if at == 0 {
            weight *= FIRST;
        }
        if intent::is_verb(&word.raw) {
            weight *= VERB;
        }
        if written.len() > 2 && intent::is_light(&word.raw) {
            weight *= LIGHT_VERB;
        }
        if at > 0 && intent::is_participle(&word.raw) {
            weight *= PARTICIPLE;
        }
        if written.len() > 2 && TIMES.contains(&word.raw.as_str()) {
            weight *= TIME;
        }
        let known = looked_up(index, &word.stem, weight);
        if let Some(mut known) = known {
            if is_short {
                complete(index, &word.raw, COMPLETED * 0.5, &mut known.variants);
            }
            found.push(known);
        } else if is_short || !word.capital || at == 0 {
            found.extend(guessed(index, &word.raw, if is_short { weight } else { weight * GUESS_IN_SENTENCE }));
        }
    }
    for (stem, weight) in hinted {
        if !seen.contains(&stem) {
            found.extend(plain(index, &stem, weight));
            seen.push(stem);
        }
    }
    // "web fetch" is also "webfetch".
    for pair in written.windows(2) {
        let joined = stemmed(&format!("{}{}", pair[0].word.raw, pair[1].word.raw));
        if !seen.contains(&joined) {
            found.extend(plain(index, &joined, pair[0].weight.min(pair[1].weight)));
        }
    }
    let said = || written.iter().filter(|written| written.weight >= 1.0);
    let of = |written: &Written| brands(index, &written.word.stem);
    let named: Vec<u32> = said().filter(|written| written.is_name).flat_map(of).collect();
    let is_named = !named.is_empty();
    let brands = if is_named { named } else { said().flat_map(of).collect() };
    Query { words: found, intent, brands, is_named, written: plain_terms }
}

/// The terms of a query's words as written, each once.
pub(super) fn terms(index: &Index, query: &str) -> Vec<u32> {
    let said = name_words(query).into_iter().map(Word::from).filter(|word| !is_stop_word(&word.raw)).take(MAX_WORDS);
    let mut terms: Vec<u32> = said.filter_map(|word| index.terms.get(&word.stem).copied()).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// The packs that a word names: "mongo" means MongoDB.
fn brands(index: &Index, stem: &str) -> Vec<u32> {
    let same = index.synonyms.get(stem).into_iter().flatten().filter(|(_, likeness)| *likeness == Likeness::Same);
    let stems = std::iter::once(stem).chain(same.map(|(stem, _)| stem.as_str()));
    stems.filter_map(|stem| index.terms.get(stem).copied()).filter(|term| index.brands.contains(term)).collect()
}

/// The words of a query with their weights, and hints from the form of its parts.
fn written(index: &Index, query: &str) -> (Vec<Written>, Vec<(String, f32)>) {
    let mut written: Vec<Written> = Vec::new();
    let mut hinted: Vec<(String, f32)> = Vec::new();
    // If every word is capitalised, capitals mean nothing.
    let has_lower = query.split_whitespace().skip(1).any(|piece| piece.starts_with(char::is_lowercase));
    let mut begins_sentence = true;
    let mut begun = false;
    let mut is_content = false;
    let mut last_piece = "";
    let mut quotes = Quotes::default();
    for piece in query.split_whitespace() {
        if shape::is_calculated(last_piece, piece) {
            hinted.push((stemmed("calculate"), 1.0));
            continue;
        }
        last_piece = piece;
        let is_quoted = quotes.holds(piece);
        let hints = shape::hints(piece);
        hinted.extend(hints.iter().map(|hint| (stemmed(hint), SHAPE)));
        // The words of an address describe its target, not what is wanted.
        if !hints.is_empty() && !hints.contains(&"file") && !hints.contains(&"repository") {
            begins_sentence = false;
            continue;
        }
        let names: Vec<Word> = name_words(piece).into_iter().map(Word::from).collect();
        let last = names.len().saturating_sub(1);
        for (at, word) in names.into_iter().enumerate() {
            // A number has no meaning, unless it is part of a name: `tool_4711`.
            let is_number = word.raw.bytes().all(|byte| byte.is_ascii_digit()) && !piece.contains('_');
            if is_number && last == 0 {
                hinted.push((stemmed("id"), NUMBER));
            }
            let is_name = word.capital && has_lower && !begins_sentence && !is_abbreviation(piece);
            let weight = if is_number {
                0.0
            } else if is_quoted {
                QUOTED
            } else if !hints.is_empty() {
                // In a file name, the extension says most.
                if at == last && hints.contains(&"file") && piece.contains('.') { 1.0 } else { PART_OF_PATH }
            } else if is_name && !index.terms.get(&word.stem).is_some_and(|term| index.brands.contains(term)) {
                NAME
            } else {
                1.0
            };
            let weight = if is_content { weight * CONTENT } else { weight };
            // A word at the beginning cannot introduce reported text.
            is_content |= SAYS.contains(&word.raw.as_str()) && written.len() > 1;
            written.push(Written { word, weight, begins_sentence: begun && begins_sentence && at == 0, is_name });
        }
        begun = true;
        is_content |= piece.ends_with(':') && !written.is_empty();
        begins_sentence = piece.ends_with(['.', '!', '?', ':']);
    }
    // If no word has full weight, all of them must be meant.
    if written.iter().all(|written| written.weight < 1.0) {
        for written in &mut written {
            written.weight = 1.0;
        }
    }
    written.retain(|written| written.weight > 0.0);
    (written, hinted)
}

/// `PDF`, `SQL`
fn is_abbreviation(piece: &str) -> bool {
    piece.chars().filter(|c| c.is_alphabetic()).all(char::is_uppercase)
}

/// Tracks which words are between quotation marks.
#[derive(Default)]
struct Quotes {
    until: Option<char>,
}

impl Quotes {
    fn holds(&mut self, piece: &str) -> bool {
        let inner = piece.trim_start_matches(['(', '[', ',', ':']);
        if self.until.is_none() {
            self.until = match inner.chars().next() {
                Some('"') => Some('"'),
                Some('\u{201c}') => Some('\u{201d}'),
                Some('\'') => Some('\''),
                Some('`') => Some('`'),
                _ => None,
            };
            let Some(until) = self.until else { return false };
            let rest = &inner[inner.chars().next().map_or(0, char::len_utf8)..];
            if ends_with(rest, until) {
                self.until = None;
            }
            return true;
        }
        if self.until.is_some_and(|until| ends_with(piece, until)) {
            self.until = None;
        }
        true
    }
}

fn ends_with(piece: &str, mark: char) -> bool {
    piece.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']']).ends_with(mark)
}

/// Removes phrases and short forms from the words and returns their meanings.
fn phrases(words: &mut Vec<Written>) -> Vec<&'static str> {
    let mut meant = Vec::new();
    for (short, long) in SHORT_FORMS {
        if words.iter().any(|written| written.word.raw == *short) {
            meant.push(*long);
        }
    }
    for (phrase, meaning) in PHRASES {
        // Most phrases are ruled out by their first word.
        if !phrase.split(' ').next().is_some_and(|first| words.iter().any(|written| written.word.raw == first)) {
            continue;
        }
        let raw: Vec<&str> = words.iter().map(|written| written.word.raw.as_str()).collect();
        if let Some(said) = said(&raw, phrase) {
            for at in said.into_iter().rev() {
                words.remove(at);
            }
            meant.push(*meaning);
        }
    }
    meant
}

/// Replaces phrases with their meanings.
fn meant(mut words: Vec<&str>) -> Vec<&str> {
    for (phrase, meaning) in PHRASES {
        if let Some(said) = said(&words, phrase) {
            let first = said[0];
            for at in said.into_iter().rev() {
                words.remove(at);
            }
            words.splice(first..first, meaning.split(' '));
        }
    }
    words
}

/// The positions of a phrase's words; at `*`, a few others may come between them: "turn the music down".
fn said(words: &[&str], phrase: &str) -> Option<Vec<usize>> {
    let first = phrase.split(' ').next()?;
    (0..words.len()).filter(|start| words[*start] == first).find_map(|start| {
        let (mut at, mut gap) = (start, 0);
        let mut places = Vec::new();
        for part in phrase.split(' ') {
            if part == "*" {
                gap = MAX_GAP;
                continue;
            }
            at += words.get(at..)?.iter().take(gap + 1).position(|word| *word == part)?;
            places.push(at);
            (at, gap) = (at + 1, 0);
        }
        Some(places)
    })
}

fn plain(index: &Index, stem: &str, weight: f32) -> Option<QueryWord> {
    let term = *index.terms.get(stem)?;
    Some(QueryWord { variants: vec![(term, weight * index.rarity(index.frequency(term)))], share: weight.min(1.0) })
}

/// Looks up a word with its synonyms and compounds.
fn looked_up(index: &Index, stem: &str, weight: f32) -> Option<QueryWord> {
    let own = index.terms.get(stem).copied();
    let synonyms = index.synonyms.get(stem).into_iter().flatten();
    let synonyms: Vec<(u32, Likeness)> =
        synonyms.filter_map(|(stem, likeness)| Some((*index.terms.get(stem)?, *likeness))).collect();
    if own.is_none() && synonyms.is_empty() {
        return None;
    }
    let same = synonyms.iter().filter(|(_, likeness)| *likeness == Likeness::Same).map(|(term, _)| *term);
    let documents: usize = own.into_iter().chain(same).map(|term| index.frequency(term)).sum();
    let shared = index.rarity(documents.max(1));
    let mut variants: Vec<(u32, f32)> = Vec::new();
    if let Some(term) = own {
        let rarity = index.rarity(index.frequency(term));
        variants.push((term, weight * (OWN * rarity + (1.0 - OWN) * shared)));
    }
    for (term, likeness) in synonyms {
        let rarity = index.rarity(index.frequency(term));
        variants.push(match likeness {
            Likeness::Same => (term, weight * SAME * shared),
            Likeness::Related => (term, weight * SYNONYM * if documents > 0 { rarity.min(shared) } else { rarity }),
        });
    }
    for term in own.and_then(|term| index.compounds.get(&term)).into_iter().flatten() {
        variants.push((*term, weight * COMPOUND * index.rarity(index.frequency(*term)).min(shared)));
    }
    Some(QueryWord { variants, share: weight.min(1.0) })
}

/// Guesses the meaning of a word that no document contains.
fn guessed(index: &Index, raw: &str, weight: f32) -> Vec<QueryWord> {
    let letters = raw.bytes().filter(u8::is_ascii_lowercase).count();
    if letters < SHORTEST_HALF || !raw.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Vec::new();
    }
    for (first, second) in halves(raw) {
        let both: Vec<QueryWord> =
            [first, second].iter().filter_map(|half| plain(index, &stemmed(half), weight * COMPOUND)).collect();
        if both.len() == 2 {
            return both;
        }
    }
    let mut variants = Vec::new();
    complete(index, raw, weight * COMPLETED, &mut variants);
    if variants.is_empty() {
        correct(index, raw, weight * CORRECTED, &mut variants);
    }
    if variants.is_empty() { Vec::new() } else { vec![QueryWord { variants, share: weight.min(1.0) }] }
}

/// Adds words that begin with `raw`.
fn complete(index: &Index, raw: &str, weight: f32, variants: &mut Vec<(u32, f32)>) {
    if raw.len() < 3 {
        return;
    }
    let from = index.vocabulary.partition_point(|spelling| spelling.raw.as_str() < raw);
    let begins = index.vocabulary[from..].iter().take_while(|spelling| spelling.raw.starts_with(raw));
    for spelling in begins.filter(|spelling| spelling.raw != raw).take(MAX_GUESSES) {
        let share = raw.len() as f32 / spelling.raw.len() as f32;
        let rarity = index.rarity(index.frequency(spelling.term));
        variants.push((spelling.term, weight * (0.5 + 0.5 * share) * rarity));
    }
}

/// Adds words that are spelled similarly.
fn correct(index: &Index, raw: &str, weight: f32, variants: &mut Vec<(u32, f32)>) {
    let most = typos::allowed(raw.len());
    if most == 0 {
        return;
    }
    let letters = typos::letters(raw);
    let mut near: Vec<(usize, u32)> = Vec::new();
    for spelling in &index.vocabulary {
        let differing = (letters ^ spelling.letters).count_ones() as usize;
        if spelling.raw.len() < 4 || differing > 2 * most || spelling.raw.len().abs_diff(raw.len()) > most {
            continue;
        }
        if let Some(distance) = typos::distance(raw, &spelling.raw, most) {
            // The first letter is rarely wrong.
            let first = usize::from(spelling.raw.as_bytes().first() != raw.as_bytes().first());
            if distance + first <= most {
                near.push((distance + first, spelling.term));
            }
        }
    }
    near.sort_unstable();
    near.dedup_by_key(|(_, term)| *term);
    let closest = near.first().map_or(0, |(distance, _)| *distance);
    for (distance, term) in near.into_iter().take(MAX_GUESSES).filter(|(distance, _)| *distance == closest) {
        let likeness = weight / (1.0 + 0.3 * distance.saturating_sub(1) as f32);
        variants.push((term, likeness * index.rarity(index.frequency(term))));
    }
}

/// Every way to split a compound.
pub(super) fn halves(raw: &str) -> impl Iterator<Item = (&str, &str)> {
    let splits = raw.is_ascii() && raw.len() >= SHORTEST_COMPOUND;
    let range = if splits { SHORTEST_HALF..raw.len() - SHORTEST_HALF + 1 } else { 0..0 };
    range.map(|at| raw.split_at(at))
}

fn clipped(query: &str) -> &str {
    let mut end = query.len().min(MAX_BYTES);
    while !query.is_char_boundary(end) {
        end -= 1;
    }
    &query[..end]
}
