//! The index: which documents contain which words in which fields, and the weight of each occurrence.

use std::collections::{HashMap, HashSet};

use super::intent::{self, Action};
use super::query::Query;
use super::synonyms::Likeness;
use super::words::{Written, is_stop_word, name_words, stemmed, words};
use super::{Field, query, synonyms, typos};

/// Maximum number of words indexed per text.
const MAX_WORDS: usize = 400;

/// Weight of a word in each [`Field`].
pub(super) const WEIGHTS: [f32; Field::COUNT] = [2.4, 1.1, 2.0, 0.4, 0.25, 0.2, 0.5, 2.0, 0.45];
/// How strongly a long field is penalised, by [`Field`].
pub(super) const LENGTHS: [f32; Field::COUNT] = [0.6, 0.2, 0.5, 0.75, 0.5, 0.6, 0.5, 0.2, 0.6];
/// How quickly repeated occurrences of a word stop adding to the score.
pub(super) const SATURATION: f32 = 1.4;
/// Weight of matching all words of a query rather than one.
const COVERAGE: f32 = 0.6;
/// Weight of a query that contains all words of a document's name rather than none.
const NAME_COVERAGE: f32 = 0.2;
/// Weight of a query that contains the objects of a document's name, not only its verb.
const OBJECT: f32 = 0.15;
/// A variant counts as a word of a name if it is worth at least this share of the word's best variant.
const NEARLY: f32 = 0.35;
/// Factor for documents of other packs if the query names a pack.
const OTHER_PACK: f32 = 0.8;
/// The same if the pack is written as a proper name: "in Linear".
const OTHER_NAME: f32 = 0.6;
/// Weight of plain BM25 in the final score: every word as written, in any field. It increases with the number of words.
const PLAIN: f32 = 0.3;
const FEW_WORDS: f32 = 2.0;
const PLAIN_SATURATION: f32 = 1.2;
const PLAIN_LENGTH: f32 = 0.75;

/// A matching document and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Match {
    /// The number that [`IndexBuilder::document`] returned.
    pub document: usize,
    pub score: f32,
}

/// Maps words to documents. Immutable; queries share it.
pub struct Index {
    pub(super) documents: usize,
    /// Terms by stem.
    pub(super) terms: HashMap<String, u32>,
    /// By term: the documents that contain it.
    pub(super) postings: Vec<Vec<Posting>>,
    /// Every spelling with its term, sorted, to complete and correct words.
    pub(super) vocabulary: Vec<Spelling>,
    /// By term: documents with it in their names, and its role there.
    named: Vec<Vec<(u32, Role)>>,
    /// By document: the number of words in its name, not counting those of its pack.
    name_lengths: Vec<NameLength>,
    /// By document: the terms of its pack.
    packs: Vec<Vec<u32>>,
    /// By document: the action that its name expresses.
    actions: Vec<Option<Action>>,
    /// Terms that name packs.
    pub(super) brands: HashSet<u32>,
    /// By term: compounds that contain it.
    pub(super) compounds: HashMap<u32, Vec<u32>>,
    /// Synonyms by stem, whether or not the stem is a term.
    pub(super) synonyms: &'static HashMap<String, Vec<(String, Likeness)>>,
}

/// A document that contains a term.
#[derive(Clone, Copy)]
pub(super) struct Posting {
    document: u32,
    /// Occurrences of the term, weighted by field.
    weighted: f32,
    /// The same for plain BM25, between 0 and 1.
    plain: f32,
}

pub(super) struct Spelling {
    pub(super) raw: String,
    pub(super) letters: u32,
    pub(super) term: u32,
}

impl Index {
    /// Returns every document that matches the query, best first; ties are in insertion order.
    pub fn search(&self, query: &str) -> Vec<Match> {
        let mut scores = vec![0.0_f32; self.documents];
        let mut best = vec![0.0_f32; self.documents];
        let mut touched: Vec<u32> = Vec::new();
        let mut matched = vec![0.0_f32; self.documents];
        let Query { words, intent, brands, is_named, written } = query::read(self, query);
        let mut named_by = vec![NamedBy::default(); self.documents];
        for (number, word) in words.iter().enumerate() {
            let most = word.variants.iter().map(|(_, value)| *value).fold(0.0, f32::max);
            for &(term, value) in &word.variants {
                if value >= most * NEARLY {
                    for &(document, role) in &self.named[term as usize] {
                        named_by[document as usize].add(number, role);
                    }
                }
                for &Posting { document, weighted, .. } in &self.postings[term as usize] {
                    let slot = &mut best[document as usize];
                    if *slot == 0.0 {
                        touched.push(document);
                    }
                    *slot = slot.max(value * weighted * (SATURATION + 1.0) / (SATURATION + weighted));
                }
            }
            for document in touched.drain(..) {
                matched[document as usize] += word.share;
                scores[document as usize] += std::mem::take(&mut best[document as usize]);
            }
        }
        let elsewhere = if is_named { OTHER_NAME } else { OTHER_PACK };
        let all: f32 = words.iter().map(|word| word.share).sum();
        let mut found: Vec<Match> = scores
            .into_iter()
            .enumerate()
            .filter(|(_, score)| *score > 0.0)
            .map(|(document, score)| {
                let share = matched[document] / all;
                let (named, length) = (&named_by[document], self.name_lengths[document]);
                let packs = &self.packs[document];
                let is_elsewhere =
                    !brands.is_empty() && !packs.is_empty() && !packs.iter().any(|term| brands.contains(term));
                let fit = intent.fit(self.actions[document])
                    * (1.0 - COVERAGE + COVERAGE * share)
                    * (1.0 - NAME_COVERAGE + NAME_COVERAGE * named.words.share_of(length.words))
                    * (1.0 - OBJECT + OBJECT * named.objects.share_of(length.objects))
                    * if is_elsewhere { elsewhere } else { 1.0 };
                Match { document, score: score * fit }
            })
            .collect();
        self.mix_in_plain(&written, &mut found);
        sort(&mut found);
        found
    }

    /// Searches with plain BM25 only, for comparison.
    pub fn search_plainly(&self, query: &str) -> Vec<Match> {
        let scores = self.plain_scores(&query::terms(self, query)).into_iter().enumerate();
        let mut found: Vec<Match> =
            scores.filter(|(_, score)| *score > 0.0).map(|(document, score)| Match { document, score }).collect();
        sort(&mut found);
        found
    }

    /// Adds a share of the plain BM25 score, which often finds what the rules misjudge.
    fn mix_in_plain(&self, written: &[u32], found: &mut [Match]) {
        let plain = self.plain_scores(written);
        let best = found.iter().map(|found| found.score).fold(f32::MIN_POSITIVE, f32::max);
        let best_plain = plain.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let share = PLAIN * written.len() as f32 / (written.len() as f32 + FEW_WORDS);
        for Match { document, score } in found {
            *score = *score / best + share * plain[*document] / best_plain;
        }
    }

    fn plain_scores(&self, terms: &[u32]) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.documents];
        for &term in terms {
            let rarity = self.rarity(self.frequency(term));
            for posting in &self.postings[term as usize] {
                scores[posting.document as usize] += rarity * posting.plain;
            }
        }
        scores
    }

    /// Inverse document frequency of a word that `with` documents contain: rare words count more.
    pub(super) fn rarity(&self, with: usize) -> f32 {
        let with = with.min(self.documents) as f32;
        (1.0 + (self.documents as f32 - with + 0.5) / (with + 0.5)).ln()
    }

    pub(super) fn frequency(&self, term: u32) -> usize {
        self.postings[term as usize].len()
    }
}

/// Sorts best first; ties stay in order.
fn sort(found: &mut [Match]) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.document.cmp(&b.document)));
}

/// The role of a word in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Verb,
    Object,
}

/// Number of words in a name.
#[derive(Clone, Copy, Default)]
struct NameLength {
    words: u16,
    objects: u16,
}

/// Number of query words in a document's name.
#[derive(Clone, Default)]
struct NamedBy {
    words: Counted,
    objects: Counted,
}

impl NamedBy {
    fn add(&mut self, word: usize, role: Role) {
        self.words.add(word);
        if role == Role::Object {
            self.objects.add(word);
        }
    }
}

/// Counts query words, each once regardless of its number of variants.
#[derive(Clone, Default)]
struct Counted {
    count: u16,
    last: Option<usize>,
}

impl Counted {
    fn add(&mut self, word: usize) {
        if self.last != Some(word) {
            self.count += 1;
            self.last = Some(word);
        }
    }

    /// The share of a length that was counted; 1 if the length is 0.
    fn share_of(&self, length: u16) -> f32 {
        if length == 0 { 1.0 } else { f32::from(self.count.min(length)) / f32::from(length) }
    }
}

/// Collects documents.
#[derive(Default)]
pub struct IndexBuilder {
    terms: HashMap<String, u32>,
    spellings: HashMap<String, u32>,
    /// By term: document, field and count.
    occurrences: Vec<Vec<(u32, u8, u16)>>,
    /// By document: number of words in each field.
    lengths: Vec<[u32; Field::COUNT]>,
    actions: Vec<Option<Action>>,
    brands: HashSet<u32>,
    /// Each document with the terms of its name.
    named: Vec<(u32, u32, Role)>,
    packs: Vec<Vec<u32>>,
}

impl IndexBuilder {
    /// Adds an empty document; documents are numbered from 0.
    pub fn document(&mut self) -> usize {
        self.lengths.push([0; Field::COUNT]);
        self.actions.push(None);
        self.packs.push(Vec::new());
        self.lengths.len() - 1
    }

    /// Adds a text to the latest document.
    pub fn text(&mut self, field: Field, text: &str) {
        if matches!(field, Field::Name | Field::Pack | Field::ParameterName) {
            let words: Vec<String> = name_words(text).into_iter().map(Written::raw).collect();
            if field == Field::Name
                && let Some(action) = self.actions.last_mut()
            {
                let said: Vec<&str> = words.iter().map(String::as_str).collect();
                *action = action.or(intent::of_name(&said));
            }
            for word in words.into_iter().take(MAX_WORDS) {
                self.word(field, word);
            }
        } else {
            for word in words(text).take(MAX_WORDS) {
                self.word(field, word.raw());
            }
        }
    }

    fn word(&mut self, field: Field, raw: String) {
        // In a name every word counts, even stop words: `turn_on` and `turn_off`.
        if field != Field::Name && is_stop_word(&raw) {
            return;
        }
        let Some(document) = self.lengths.len().checked_sub(1) else { return };
        self.lengths[document][field as usize] += 1;
        let is_verb = field == Field::Name && intent::is_verb(&raw);
        let term = self.term(raw);
        if field == Field::Pack {
            self.brands.insert(term);
            self.packs[document].push(term);
        }
        if field == Field::Name {
            let mut known = self.named.iter().rev().take_while(|(of, ..)| *of == document as u32);
            if !known.any(|(_, known, _)| *known == term) {
                let role = if is_verb { Role::Verb } else { Role::Object };
                self.named.push((document as u32, term, role));
            }
        }
        let seen = &mut self.occurrences[term as usize];
        let (document, field) = (document as u32, field as u8);
        match seen.iter_mut().rev().take_while(|(last, ..)| *last == document).find(|(_, known, _)| *known == field) {
            Some((_, _, count)) => *count = count.saturating_add(1),
            None => seen.push((document, field, 1)),
        }
    }

    /// Returns the term of a word. Words that were seen before are not stemmed again.
    fn term(&mut self, raw: String) -> u32 {
        if let Some(&term) = self.spellings.get(&raw) {
            return term;
        }
        let next = self.terms.len() as u32;
        let term = *self.terms.entry(stemmed(&raw)).or_insert(next);
        if term == next {
            self.occurrences.push(Vec::new());
        }
        self.spellings.insert(raw, term);
        term
    }

    pub fn build(self) -> Index {
        let documents = self.lengths.len();
        let mut averages = [0.0_f32; Field::COUNT];
        for (field, average) in averages.iter_mut().enumerate() {
            let lengths = self.lengths.iter().map(|lengths| lengths[field]).filter(|length| *length > 0);
            let (sum, count) = lengths.fold((0_u32, 0_u32), |(sum, count), length| (sum + length, count + 1));
            *average = sum as f32 / count.max(1) as f32;
        }
        let lengths = &self.lengths;
        let weighted = |(document, field, count): (u32, u8, u16)| {
            let field = usize::from(field);
            let long = lengths[document as usize][field] as f32 / averages[field].max(1.0);
            WEIGHTS[field] * f32::from(count) / (1.0 - LENGTHS[field] + LENGTHS[field] * long)
        };
        let long: Vec<f32> = lengths.iter().map(plain_length).collect();
        let average = long.iter().sum::<f32>() / documents.max(1) as f32;
        let saturated = |document: u32, count: f32| {
            let long = long[document as usize] / average.max(1.0);
            count / (count + PLAIN_SATURATION * (1.0 - PLAIN_LENGTH + PLAIN_LENGTH * long))
        };
        let postings: Vec<Vec<Posting>> = self
            .occurrences
            .into_iter()
            .map(|occurrences| {
                let mut postings: Vec<Posting> = Vec::new();
                for occurrence @ (document, field, count) in occurrences {
                    if postings.last().is_none_or(|last| last.document != document) {
                        postings.push(Posting { document, weighted: 0.0, plain: 0.0 });
                    }
                    if let Some(posting) = postings.last_mut() {
                        posting.weighted += weighted(occurrence);
                        posting.plain += if is_plain(field.into()) { f32::from(count) } else { 0.0 };
                    }
                }
                for posting in &mut postings {
                    posting.plain = saturated(posting.document, posting.plain);
                }
                postings
            })
            .collect();
        let compounds = compounds(&self.spellings);
        let mut vocabulary: Vec<Spelling> = self
            .spellings
            .into_iter()
            .map(|(raw, term)| Spelling { letters: typos::letters(&raw), raw, term })
            .collect();
        vocabulary.sort_by(|a, b| a.raw.cmp(&b.raw));
        let mut named = vec![Vec::new(); postings.len()];
        let mut name_lengths = vec![NameLength::default(); documents];
        for (document, term, role) in self.named {
            // A name that repeats its pack adds nothing.
            if !self.packs[document as usize].contains(&term) {
                named[term as usize].push((document, role));
                let length = &mut name_lengths[document as usize];
                length.words += 1;
                length.objects += u16::from(role == Role::Object);
            }
        }
        Index {
            documents,
            named,
            name_lengths,
            packs: self.packs,
            terms: self.terms,
            postings,
            vocabulary,
            actions: self.actions,
            brands: self.brands,
            compounds,
            synonyms: synonyms::table(),
        }
    }
}

/// Whether the text of this field belongs to the document itself, not to its whole pack.
fn is_plain(field: usize) -> bool {
    field != Field::PackText as usize
}

fn plain_length(lengths: &[u32; Field::COUNT]) -> f32 {
    lengths.iter().enumerate().filter(|(field, _)| is_plain(*field)).map(|(_, length)| *length as f32).sum()
}

/// Finds words composed of two others, by each of the two.
fn compounds(spellings: &HashMap<String, u32>) -> HashMap<u32, Vec<u32>> {
    let mut compounds: HashMap<u32, Vec<u32>> = HashMap::new();
    for (raw, &whole) in spellings {
        for (first, second) in query::halves(raw) {
            if let (Some(&first), Some(&second)) = (spellings.get(first), spellings.get(second)) {
                for half in [first, second] {
                    let known = compounds.entry(half).or_default();
                    if half != whole && !known.contains(&whole) {
                        known.push(whole);
                    }
                }
            }
        }
    }
    compounds
}
