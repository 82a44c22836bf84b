//! Ranks documents of a few fields by a query that may be a keyword, a mistyped word or a whole sentence.
//!
//! Pure: texts in, ranks out. A word is worth more where it is rare and where it stands (a name more than a description):
//! BM25 over weighted fields. Words are compared by stem, in one spelling; a word that no document has is taken apart,
//! completed or corrected ([`query`]); synonyms count for less than the word itself. A query word counts once for a
//! document, by its best variant, so synonyms never outvote the words that were written. Plain BM25 has a say as well, so
//! that a rule which is wrong about a query does not cost what everybody would find.
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

/// Where a text stands in a document.
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
    /// A value that a parameter may have.
    Value,
    /// Words that somebody added for searches.
    Extra,
    /// What its pack is about.
    PackText,
}

impl Field {
    const COUNT: usize = 9;
}

#[cfg(test)]
mod tests;
