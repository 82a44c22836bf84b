//! The name that was probably meant.

/// Minimum similarity (0 to 1) for a name to be suggested.
const LIKENESS: f64 = 0.72;
/// Longer names are not compared: the cost grows with the product of the lengths.
const MAX_COMPARED: usize = 200;

/// Returns the candidate most similar to `name`, if any is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_few(name, candidates, 1).into_iter().next()
}

/// Returns at most `count` candidates similar to `name`, the most similar first.
pub fn nearest_few<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    if name.len() > MAX_COMPARED {
        return Vec::new();
    }
    let folded = name.to_lowercase();
    let mut alike: Vec<(f64, &str)> = candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_COMPARED)
        .map(|candidate| (likeness(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    // Stable sort: among equals, the first candidate wins.
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

fn likeness(a: &str, b: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein(a, b).max(strsim::jaro_winkler(a, b) - 0.1);
    // Two swapped letters weigh too much in a short name.
    if have_same_letters(a, b) { likeness + 0.1 } else { likeness }
}

fn have_same_letters(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    a.len() == b.len() && sorted(a) == sorted(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let names = ["query", "count", "max_results"];
        assert_eq!(nearest("qurey", names), Some("query"));
        assert_eq!(nearest("maxResults", names), Some("max_results"));
        assert_eq!(nearest("COUNT", names), Some("count"));
        assert_eq!(nearest("scr", ["docs", "src"]), Some("src"));
        assert_eq!(nearest("get", ["set"]), None);
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest(&"q".repeat(1000), names), None);
    }
}
