//! "Did you mean …?"

/// The candidate nearest to `name`, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lowered = name.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let other = candidate.to_lowercase();
        let mut score = strsim::jaro_winkler(&lowered, &other);
        if other.contains(&lowered) || lowered.contains(&other) {
            score = score.max(0.9);
        }
        if best.is_none_or(|(top, _)| score > top) {
            best = Some((score, candidate));
        }
    }
    best.filter(|(score, _)| *score >= 0.8).map(|(_, candidate)| candidate)
}

/// As many names as fit a reader, and how many more there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 60;
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(", … and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "(none)".to_owned() } else { text }
}
