//! The edit distance between words.

/// Number of typos allowed in a word of this length.
pub(super) fn allowed(characters: usize) -> usize {
    match characters {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

/// One bit per letter, so that most words are ruled out without comparing them.
pub(super) fn letters(word: &str) -> u32 {
    word.bytes().filter(u8::is_ascii_lowercase).fold(0, |mask, byte| mask | 1 << (byte - b'a'))
}

/// Insertions, deletions, replacements and swaps of adjacent letters between two words; `None` if more than `most`.
pub(super) fn distance(left: &str, right: &str, most: usize) -> Option<usize> {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len().abs_diff(right.len()) > most {
        return None;
    }
    let width = right.len() + 1;
    let mut before_last = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut row = vec![0; width];
    for (i, &a) in left.iter().enumerate() {
        row[0] = i + 1;
        let mut least = row[0];
        for (j, &b) in right.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row[j + 1] = cost;
            least = least.min(cost);
        }
        if least > most {
            return None;
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    (last[width - 1] <= most).then_some(last[width - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        for (left, right, most, expected) in [
            ("calendar", "calender", 2, Some(1)),
            ("recieve", "receive", 1, Some(1)),
            ("mesage", "message", 1, Some(1)),
            ("github", "gitlab", 1, None),
            ("", "ab", 2, Some(2)),
            ("same", "same", 0, Some(0)),
            ("wether", "weather", 1, Some(1)),
        ] {
            assert_eq!(distance(left, right, most), expected, "{left} {right}");
        }
    }
}
