//! Ranks documents with a few fields by a query that may be a keyword, a mistyped word or a whole sentence.
//!
//! Pure: texts in, ranks out. A word is worth more if it is rare, and by its field (a name counts more than a
//! description): BM25 over weighted fields. Words are compared by stem, in one spelling; a word that no document has is
//! split, completed or corrected ([`query`]); synonyms count for less than the word itself. A query word counts once
//! per document, by its best variant, so synonyms never outvote the words that were written. Plain BM25 is part of the
//! score as well, so that a rule that misjudges a query does not hide an obvious match.
//!
//! `bench/search/` holds a labelled set and prints the score.

mod index;
mod intent;
mod query;
mod shape;
mod stem;
mod synonyms;
mod typos;
mod words;

pub use index::{Index, IndexBuilder, Match};

/// The field of a document that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The document's own name.
    Name,
    /// What it belongs to.
    Pack,
    /// The first sentence about it.
    Summary,
    Description,
    ParameterName,
    ParameterText,
    /// A value that a parameter accepts.
    Value,
    /// Additional words to be found by.
    Extra,
    /// The description of its pack.
    PackText,
}

impl Field {
    const COUNT: usize = 9;
}

#[cfg(test)]
mod tests;
