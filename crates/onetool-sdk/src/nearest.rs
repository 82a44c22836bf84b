//! The name that was probably meant.

/// Below this likeness (0 to 1) a name is not worth suggesting.
const LIKENESS: f64 = 0.72;
/// Longer names are not compared: the cost grows with the product of the lengths.
const MAX_COMPARED: usize = 200;

/// The candidate most like `name`, where one is like it at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    let folded = name.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        if candidate.len() > MAX_COMPARED {
            continue;
        }
        let other = candidate.to_lowercase();
        let likeness =
            strsim::normalized_damerau_levenshtein(&folded, &other).max(strsim::jaro_winkler(&folded, &other) - 0.1);
        if likeness >= LIKENESS && best.is_none_or(|(most, _)| likeness > most) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
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
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest(&"q".repeat(1000), names), None);
    }
}
