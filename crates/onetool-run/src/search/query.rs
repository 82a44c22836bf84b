//! A query's words, each with everything in the index that may stand for it.

use super::index::Index;
use super::synonyms::{Likeness, PHRASES, SHORT_FORMS};
use super::words::{Word, is_stop_word, name_words, stemmed};
use super::{shape, typos};

/// Of a query, so many words are used.
const MAX_WORDS: usize = 64;
/// Of a query, so many bytes are read.
const MAX_BYTES: usize = 2_000;
/// A query of at most so many words may end in the middle of a word.
const SHORT_QUERY: usize = 3;
/// A word may be completed or corrected to so many others.
const MAX_GUESSES: usize = 12;
/// The shortest half of a compound.
const SHORTEST_HALF: usize = 3;
const SHORTEST_COMPOUND: usize = 7;

/// What something that stands for a word is worth beside the word itself.
const SYNONYM: f32 = 0.4;
const COMPOUND: f32 = 0.6;
const COMPLETED: f32 = 0.6;
const CORRECTED: f32 = 0.7;
const PHRASE: f32 = 0.9;
const SAME: f32 = 0.9;
/// How much of a word's own rarity counts where others mean the same.
const OWN: f32 = 0.5;
const SHAPE: f32 = 0.35;

/// One word of a query: terms that stand for it, with what they are worth. The best of them counts.
pub(super) struct QueryWord {
    pub(super) variants: Vec<(u32, f32)>,
}

/// The words of a query that lead somewhere.
pub(super) fn words_of(index: &Index, query: &str) -> Vec<QueryWord> {
    let query = clipped(query);
    let mut written: Vec<Word> = Vec::new();
    let mut found: Vec<QueryWord> = Vec::new();
    let mut hinted: Vec<String> = Vec::new();
    for piece in query.split_whitespace() {
        let hints = shape::hints(piece);
        hinted.extend(hints.iter().map(|hint| stemmed(hint)));
        // The words of an address say what it leads to, not what is wanted.
        if hints.is_empty() || hints.contains(&"file") {
            written.extend(name_words(piece));
        }
    }
    written.truncate(MAX_WORDS);
    let mut seen: Vec<String> = Vec::new();
    for meant in phrases(&mut written) {
        for stem in meant.split(' ').map(stemmed) {
            if !seen.contains(&stem) {
                found.extend(looked_up(index, &stem, PHRASE));
                seen.push(stem);
            }
        }
    }
    // One word alone is meant, whatever it is.
    if written.len() > 1 {
        written.retain(|word| !is_stop_word(&word.raw));
    }
    let is_short = written.len() <= SHORT_QUERY;
    for (at, word) in written.iter().enumerate() {
        if seen.contains(&word.stem) {
            continue;
        }
        seen.push(word.stem.clone());
        let known = looked_up(index, &word.stem, 1.0);
        if let Some(mut known) = known {
            if is_short {
                complete(index, &word.raw, COMPLETED * 0.5, &mut known.variants);
            }
            found.push(known);
        } else if is_short || !word.capital || at == 0 {
            found.extend(guessed(index, &word.raw));
        }
    }
    for stem in hinted {
        if !seen.contains(&stem) {
            found.extend(plain(index, &stem, SHAPE));
            seen.push(stem);
        }
    }
    // "web fetch" is also "webfetch".
    for pair in written.windows(2) {
        let joined = stemmed(&format!("{}{}", pair[0].raw, pair[1].raw));
        if !seen.contains(&joined) {
            found.extend(plain(index, &joined, 1.0));
        }
    }
    found
}

/// Takes phrases and short forms out of the words and gives what they mean.
fn phrases(words: &mut Vec<Word>) -> Vec<&'static str> {
    let mut meant = Vec::new();
    for (short, long) in SHORT_FORMS {
        if words.iter().any(|word| word.raw == *short) {
            meant.push(*long);
        }
    }
    for (phrase, meaning) in PHRASES {
        let parts: Vec<&str> = phrase.split(' ').collect();
        if let Some(at) = words.windows(parts.len()).position(|window| window.iter().map(|word| &word.raw).eq(&parts)) {
            words.drain(at..at + parts.len());
            meant.push(*meaning);
        }
    }
    meant
}

fn plain(index: &Index, stem: &str, weight: f32) -> Option<QueryWord> {
    let term = *index.terms.get(stem)?;
    Some(QueryWord { variants: vec![(term, weight * index.rarity(index.frequency(term)))] })
}

/// The word itself with its synonyms and compounds.
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
            _ => (term, weight * SYNONYM * if documents > 0 { rarity.min(shared) } else { rarity }),
        });
    }
    for term in own.and_then(|term| index.compounds.get(&term)).into_iter().flatten() {
        variants.push((*term, weight * COMPOUND * index.rarity(index.frequency(*term)).min(shared)));
    }
    Some(QueryWord { variants })
}

/// What a word may be that no document has.
fn guessed(index: &Index, raw: &str) -> Vec<QueryWord> {
    let letters = raw.bytes().filter(u8::is_ascii_lowercase).count();
    if letters < SHORTEST_HALF || !raw.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Vec::new();
    }
    for (first, second) in halves(raw) {
        let both: Vec<QueryWord> =
            [first, second].iter().filter_map(|half| plain(index, &stemmed(half), COMPOUND)).collect();
        if both.len() == 2 {
            return both;
        }
    }
    let mut variants = Vec::new();
    complete(index, raw, COMPLETED, &mut variants);
    if variants.is_empty() {
        correct(index, raw, &mut variants);
    }
    if variants.is_empty() { Vec::new() } else { vec![QueryWord { variants }] }
}

/// Words that begin so.
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

/// Words that are written almost so.
fn correct(index: &Index, raw: &str, variants: &mut Vec<(u32, f32)>) {
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
        let likeness = CORRECTED / (1.0 + 0.3 * distance.saturating_sub(1) as f32);
        variants.push((term, likeness * index.rarity(index.frequency(term))));
    }
}

/// Every way to take a compound apart.
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
