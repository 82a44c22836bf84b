//! Word similarity for searches that tolerate typos. Both words are expected in lower case.

/// Words with more characters are compared by prefix only.
const COMPARED_CHARS: usize = 64;

/// Number of typos allowed in a word of this many characters.
pub fn allowed_typos(characters: usize) -> usize {
    match characters {
        0..=3 => 0,
        4..=5 => 1,
        6..=9 => 2,
        _ => 3,
    }
}

/// From 1 (equal) through "begins with" and "contains" down to 0 (nothing in common).
pub fn containment(query: &str, word: &str) -> f32 {
    if query.is_empty() || word.is_empty() {
        return 0.0;
    }
    let share = |part: &str, whole: &str| part.len() as f32 / whole.len() as f32;
    if query == word {
        1.0
    } else if query.len() >= 2 && word.starts_with(query) {
        0.75 + 0.2 * share(query, word)
    } else if query.len() >= 3 && word.contains(query) {
        0.6 + 0.2 * share(query, word)
    } else if word.len() >= 4 && query.starts_with(word) {
        0.5 + 0.25 * share(word, query)
    } else {
        0.0
    }
}

/// Similarity of two words that differ by typos: inserted, missing, changed and swapped characters.
pub fn typo_similarity(query: &str, word: &str) -> f32 {
    // The byte lengths rule out most words before characters are counted.
    if query.len().abs_diff(word.len()) > 4 * allowed_typos(query.len()) {
        return 0.0;
    }
    let (wanted, found) = (query.chars().count(), word.chars().count());
    let allowed = allowed_typos(wanted);
    if allowed == 0 || wanted.abs_diff(found) > allowed || wanted.max(found) > COMPARED_CHARS {
        return 0.0;
    }
    // A typo changes at most two of the occurring characters; this rules out most words.
    if (character_mask(query) ^ character_mask(word)).count_ones() as usize > 2 * allowed {
        return 0.0;
    }
    let distance = strsim::osa_distance(query, word);
    if distance > allowed { 0.0 } else { 0.85 * (1.0 - distance as f32 / wanted.max(found) as f32) }
}

/// The occurring characters as bits; different characters may share one.
pub fn character_mask(text: &str) -> u64 {
    text.chars().fold(0, |mask, c| mask | 1 << (c as u32 % 64))
}

/// The better of [`containment`] and [`typo_similarity`].
pub fn similarity(query: &str, word: &str) -> f32 {
    let contained = containment(query, word);
    if contained > 0.0 { contained } else { typo_similarity(query, word) }
}

/// The words of a text: runs of letters and digits.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_words_score_higher() {
        assert!(similarity("config", "config") > similarity("config", "configuration"));
        assert!(similarity("config", "configuration") > similarity("config", "reconfigured"));
        assert!(similarity("config", "confgi") > 0.5);
        assert!(similarity("frirecrawl", "firecrawl") > 0.7);
        assert!(similarity("scaffoldl", "scaffold") > 0.7);
        assert!(similarity("config", "banana") == 0.0);
        assert!(similarity("cat", "cut") == 0.0);
    }

    #[test]
    fn bytes_inside_characters_are_no_trouble() {
        assert!(similarity("größe", "grölße") > 0.0);
        assert_eq!(words("a.b_c, über!").collect::<Vec<_>>(), ["a", "b", "c", "über"]);
    }
}
