//! Splits text into words: names taken apart, function words dropped, one spelling for British and American English.

use super::stem::stem;

/// Maximum length of a word; longer ones are cut, because nobody types them.
const MAX_WORD_BYTES: usize = 40;
/// Maximum number of parts in a brand name (`DuckDuckGo`).
const MAX_HUMPS: usize = 3;

/// Words that say nothing about the intended tool.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "actually",
    "after",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "anybody",
    "anyone",
    "anything",
    "are",
    "as",
    "asap",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "but",
    "by",
    "called",
    "can",
    "cannot",
    "could",
    "d",
    "did",
    "do",
    "does",
    "doing",
    "don",
    "done",
    "each",
    "eight",
    "either",
    "etc",
    "every",
    "everybody",
    "everyone",
    "everything",
    "five",
    "for",
    "four",
    "from",
    "going",
    "gonna",
    "got",
    "had",
    "has",
    "have",
    "having",
    "he",
    "hello",
    "help",
    "her",
    "hers",
    "hey",
    "hi",
    "him",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "kind",
    "let",
    "lets",
    "like",
    "ll",
    "looking",
    "m",
    "may",
    "maybe",
    "me",
    "might",
    "mine",
    "must",
    "my",
    "myself",
    "named",
    "need",
    "needs",
    "nine",
    "no",
    "not",
    "nothing",
    "of",
    "off",
    "ok",
    "okay",
    "on",
    "one",
    "onto",
    "or",
    "our",
    "ours",
    "out",
    "over",
    "please",
    "quickly",
    "re",
    "really",
    "s",
    "seven",
    "shall",
    "she",
    "should",
    "six",
    "so",
    "some",
    "somebody",
    "someone",
    "something",
    "somewhere",
    "still",
    "such",
    "sure",
    "t",
    "tell",
    "ten",
    "than",
    "thank",
    "thanks",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "this",
    "those",
    "three",
    "through",
    "titled",
    "to",
    "too",
    "tool",
    "tools",
    "try",
    "two",
    "up",
    "upon",
    "us",
    "use",
    "used",
    "uses",
    "using",
    "ve",
    "very",
    "via",
    "wanna",
    "want",
    "wants",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whole",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "you",
    "your",
    "yours",
];

/// British spellings, by the beginning of a word, and their American counterparts.
const SPELLINGS: &[(&str, &str)] = &[
    ("aeroplane", "airplane"),
    ("aluminium", "aluminum"),
    ("analogue", "analog"),
    ("armour", "armor"),
    ("artefact", "artifact"),
    ("behaviour", "behavior"),
    ("calibre", "caliber"),
    ("catalogue", "catalog"),
    ("centimetre", "centimeter"),
    ("centre", "center"),
    ("cheque", "check"),
    ("colour", "color"),
    ("defence", "defense"),
    ("dialogue", "dialog"),
    ("enrol", "enroll"),
    ("favour", "favor"),
    ("fibre", "fiber"),
    ("flavour", "flavor"),
    ("fulfil", "fulfill"),
    ("grey", "gray"),
    ("harbour", "harbor"),
    ("honour", "honor"),
    ("humour", "humor"),
    ("jewellery", "jewelry"),
    ("kilometre", "kilometer"),
    ("labour", "labor"),
    ("licence", "license"),
    ("litre", "liter"),
    ("metre", "meter"),
    ("millimetre", "millimeter"),
    ("neighbour", "neighbor"),
    ("offence", "offense"),
    ("organisation", "organization"),
    ("practise", "practice"),
    ("programme", "program"),
    ("rumour", "rumor"),
    ("sceptic", "skeptic"),
    ("storey", "story"),
    ("theatre", "theater"),
    ("tyre", "tire"),
    ("vapour", "vapor"),
];

/// Irregular forms that no rule covers.
const IRREGULAR: &[(&str, &str)] = &[
    ("analyses", "analyse"),
    ("bought", "buy"),
    ("built", "build"),
    ("children", "child"),
    ("chose", "choose"),
    ("chosen", "choose"),
    ("criteria", "criterion"),
    ("drawn", "draw"),
    ("drew", "draw"),
    ("found", "find"),
    ("gave", "give"),
    ("given", "give"),
    ("indices", "index"),
    ("kept", "keep"),
    ("made", "make"),
    ("matrices", "matrix"),
    ("men", "man"),
    ("met", "meet"),
    ("mice", "mouse"),
    ("paid", "pay"),
    ("people", "person"),
    ("ran", "run"),
    ("running", "run"),
    ("said", "say"),
    ("saw", "see"),
    ("sent", "send"),
    ("sold", "sell"),
    ("spent", "spend"),
    ("spoken", "speak"),
    ("taken", "take"),
    ("took", "take"),
    ("vertices", "vertex"),
    ("went", "go"),
    ("women", "woman"),
    ("written", "write"),
    ("wrote", "write"),
];

/// A word as written and as compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower case.
    pub(super) raw: String,
    pub(super) stem: String,
    /// Begins with a capital letter.
    pub(super) capital: bool,
}

impl From<Written<'_>> for Word {
    fn from(written: Written<'_>) -> Self {
        let raw = written.raw();
        Self { stem: stemmed(&raw), raw, capital: written.0.starts_with(char::is_uppercase) }
    }
}

/// A word in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a>(&'a str);

impl Written<'_> {
    /// The word in lower case.
    pub(super) fn raw(self) -> String {
        let mut end = self.0.len().min(MAX_WORD_BYTES);
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        self.0[..end].to_lowercase()
    }
}

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The words of a text, stop words included, in order.
pub(super) fn words(text: &str) -> impl Iterator<Item = Written<'_>> {
    pieces(text).map(Written)
}

/// The words of a name: `getUserByID`, `get_user_by_id` and `get-user-by-id` have the same. A word that is split at its
/// capitals is also included as a whole (`GitHub`, `DuckDuckGo`).
pub(super) fn name_words(name: &str) -> Vec<Written<'_>> {
    let mut all = Vec::new();
    for piece in pieces(name) {
        let parts = humps(piece);
        if parts.len() > 1 {
            all.extend(parts.iter().copied().map(Written));
            // With more humps it is a sentence, not a brand.
            let is_brand = parts.len() <= MAX_HUMPS && piece.starts_with(char::is_uppercase);
            if parts.len() > 2 && !is_brand {
                continue;
            }
        }
        all.push(Written(piece));
    }
    all
}

/// The stem of a word in its American spelling.
pub(super) fn stemmed(raw: &str) -> String {
    if let Ok(at) = IRREGULAR.binary_search_by_key(&raw, |(form, _)| form) {
        return stem(&spelled(IRREGULAR[at].1));
    }
    stem(&spelled(raw))
}

fn spelled(raw: &str) -> String {
    let mut text = raw.to_owned();
    for (british, american) in SPELLINGS {
        if let Some(rest) = text.strip_prefix(british)
            && !(american.starts_with(british) && text.starts_with(american))
        {
            text = format!("{american}{rest}");
            break;
        }
    }
    // "-ize" and "-ise" are both correct: reduce them to one.
    for (from, to) in [
        ("isation", "ization"),
        ("ising", "izing"),
        ("ised", "ized"),
        ("iser", "izer"),
        ("ises", "izes"),
        ("ise", "ize"),
    ] {
        if let Some(at) = text.find(from)
            && at >= 3
        {
            text.replace_range(at..at + from.len(), to);
            break;
        }
    }
    if text.len() > 5 && text.contains("lys") {
        for (from, to) in [("lyse", "lyze"), ("lysing", "lyzing")] {
            text = text.replace(from, to);
        }
    }
    text
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|piece| !piece.is_empty())
}

/// `HTMLParser` → `HTML`, `Parser`; `getUser` → `get`, `User`.
fn humps(piece: &str) -> Vec<&str> {
    let characters: Vec<(usize, char)> = piece.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for index in 1..characters.len() {
        let (at, character) = characters[index];
        let before = characters[index - 1].1;
        let next_is_lower = characters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
        let rises = character.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        let word_after_capitals = character.is_uppercase() && before.is_uppercase() && next_is_lower;
        if rises || word_after_capitals {
            parts.push(&piece[start..at]);
            start = at;
        }
    }
    parts.push(&piece[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(IRREGULAR.is_sorted());
        assert!(SPELLINGS.is_sorted());
    }

    #[test]
    fn names_are_taken_apart() {
        let of = |name: &str| name_words(name).into_iter().map(Written::raw).collect::<Vec<_>>();
        assert_eq!(of("get_user-by.id"), ["get", "user", "by", "id"]);
        assert_eq!(of("getUserByID"), ["get", "user", "by", "id"]);
        assert_eq!(of("parseHTMLPage"), ["parse", "html", "page"]);
        assert_eq!(of("GitHub_search"), ["git", "hub", "github", "search"]);
        assert_eq!(of("DuckDuckGo"), ["duck", "duck", "go", "duckduckgo"]);
        assert_eq!(of("s3-upload"), ["s3", "upload"]);
        assert_eq!(of("größeÄndern"), ["größe", "ändern", "größeändern"]);
    }

    #[test]
    fn spellings_meet() {
        for (one, other) in [
            ("colour", "color"),
            ("organise", "organize"),
            ("organisation", "organization"),
            ("summarising", "summarize"),
            ("analyse", "analyze"),
            ("analysing", "analyzing"),
            ("catalogues", "catalog"),
            ("centre", "center"),
            ("cancelled", "canceled"),
            ("people", "person"),
            ("sent", "send"),
            ("licence", "license"),
            ("kilometres", "kilometers"),
        ] {
            assert_eq!(stemmed(one), stemmed(other), "{one} {other}");
        }
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let long = "ä".repeat(100);
        assert_eq!(words(&long).next().unwrap().raw(), "ä".repeat(20));
    }
}
