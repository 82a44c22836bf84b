//! The stem of an English word, by the rules of Porter's second stemmer (Snowball `english`).
//!
//! Words other than lower-case ASCII letters are left unchanged. A stem is not a word; it is only compared.

const DOUBLES: [&str; 9] = ["bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"];

/// Words that the rules get wrong, and words of tools whose meaning differs from others with the same stem.
fn exception(word: &str) -> Option<&'static str> {
    Some(match word {
        "customer" | "customers" => "customer",
        "docs" | "documentation" => "documentation",
        "rating" | "ratings" => "rating",
        "recording" | "recordings" => "recording",
        "setting" | "settings" => "setting",
        "training" | "trainings" => "training",
        "experiment" | "experiments" => "experiment",
        "important" => "important",
        "production" => "production",
        "productivity" => "productivity",
        "several" => "several",
        "skis" => "ski",
        "skies" => "sky",
        "dying" => "die",
        "lying" => "lie",
        "tying" => "tie",
        "idly" => "idl",
        "gently" => "gentl",
        "ugly" => "ugli",
        "early" => "earli",
        "only" => "onli",
        "singly" => "singl",
        "sky" => "sky",
        "news" => "news",
        "howe" => "howe",
        "atlas" => "atlas",
        "cosmos" => "cosmos",
        "bias" => "bias",
        "andes" => "andes",
        _ => return None,
    })
}

/// Returns the stem that all forms of a word share.
pub(super) fn stem(word: &str) -> String {
    if word.len() <= 2 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    if let Some(known) = exception(word) {
        return known.to_owned();
    }
    let mut word = Word::new(word);
    word.plurals();
    if matches!(word.text(), "inning" | "outing" | "canning" | "herring" | "earring" | "proceed" | "exceed" | "succeed")
    {
        return word.finish();
    }
    word.past_and_gerund();
    word.final_y();
    word.long_suffixes();
    word.adjectives();
    word.last_suffixes();
    word.final_e_and_l();
    word.finish()
}

struct Word {
    /// ASCII; a consonant `y` is upper case.
    letters: Vec<u8>,
    /// Where the two regions begin in which suffixes may be removed.
    first: usize,
    second: usize,
}

impl Word {
    fn new(word: &str) -> Self {
        let mut letters = word.as_bytes().to_vec();
        for at in 0..letters.len() {
            if letters[at] == b'y' && (at == 0 || is_vowel(letters[at - 1])) {
                letters[at] = b'Y';
            }
        }
        let after_prefix = ["gener", "commun", "arsen"].iter().find(|prefix| word.starts_with(**prefix));
        let first = after_prefix.map_or_else(|| region(&letters, 0), |prefix| prefix.len());
        let second = region(&letters, first);
        Self { letters, first, second }
    }

    /// The letters as text; they are always ASCII.
    fn text(&self) -> &str {
        std::str::from_utf8(&self.letters).unwrap_or("")
    }

    fn finish(self) -> String {
        self.text().to_ascii_lowercase()
    }

    fn ends(&self, suffix: &str) -> bool {
        self.letters.ends_with(suffix.as_bytes())
    }

    fn cut(&mut self, bytes: usize) {
        self.letters.truncate(self.letters.len() - bytes);
    }

    fn replace(&mut self, suffix: &str, with: &str) {
        self.cut(suffix.len());
        self.letters.extend_from_slice(with.as_bytes());
    }

    fn in_first(&self, suffix: &str) -> bool {
        self.letters.len() - suffix.len() >= self.first
    }

    fn in_second(&self, suffix: &str) -> bool {
        self.letters.len() - suffix.len() >= self.second
    }

    fn has_vowel_before(&self, end: usize) -> bool {
        self.letters[..end].iter().any(|letter| is_vowel(*letter))
    }

    fn plurals(&mut self) {
        if self.ends("sses") {
            self.cut(2);
        } else if self.ends("ied") || self.ends("ies") {
            self.cut(if self.letters.len() > 4 { 2 } else { 1 });
        } else if self.ends("us") || self.ends("ss") {
        } else if self.ends("s") && self.letters.len() > 2 && self.has_vowel_before(self.letters.len() - 2) {
            self.cut(1);
        }
    }

    fn past_and_gerund(&mut self) {
        for suffix in ["eedly", "eed"] {
            if self.ends(suffix) {
                if self.in_first(suffix) {
                    self.replace(suffix, "ee");
                }
                return;
            }
        }
        for suffix in ["ingly", "edly", "ing", "ed"] {
            if !self.ends(suffix) {
                continue;
            }
            if self.has_vowel_before(self.letters.len() - suffix.len()) {
                self.cut(suffix.len());
                if self.ends("at") || self.ends("bl") || self.ends("iz") {
                    self.letters.push(b'e');
                } else if DOUBLES.iter().any(|double| self.ends(double)) {
                    self.cut(1);
                } else if self.first >= self.letters.len() && ends_in_short_syllable(&self.letters) {
                    self.letters.push(b'e');
                }
            }
            return;
        }
    }

    fn final_y(&mut self) {
        let length = self.letters.len();
        if length > 2 && matches!(self.letters[length - 1], b'y' | b'Y') && !is_vowel(self.letters[length - 2]) {
            self.letters[length - 1] = b'i';
        }
    }

    fn long_suffixes(&mut self) {
        const SUFFIXES: [(&str, &str); 22] = [
            ("ational", "ate"),
            ("fulness", "ful"),
            ("iveness", "ive"),
            ("ization", "ize"),
            ("ousness", "ous"),
            ("biliti", "ble"),
            ("lessli", "less"),
            ("tional", "tion"),
            ("alism", "al"),
            ("aliti", "al"),
            ("ation", "ate"),
            ("entli", "ent"),
            ("fulli", "ful"),
            ("iviti", "ive"),
            ("ousli", "ous"),
            ("abli", "able"),
            ("alli", "al"),
            ("anci", "ance"),
            ("ator", "ate"),
            ("enci", "ence"),
            ("izer", "ize"),
            ("bli", "ble"),
        ];
        if let Some((suffix, with)) = SUFFIXES.iter().find(|(suffix, _)| self.ends(suffix)) {
            if self.in_first(suffix) {
                self.replace(suffix, with);
            }
        } else if self.ends("ogi") {
            if self.in_first("ogi") && self.letters.len() > 3 && self.letters[self.letters.len() - 4] == b'l' {
                self.cut(1);
            }
        } else if self.ends("li") && self.in_first("li") && self.letters.len() > 2 {
            let before = self.letters[self.letters.len() - 3];
            if b"cdeghkmnrt".contains(&before) {
                self.cut(2);
            }
        }
    }

    fn adjectives(&mut self) {
        const SUFFIXES: [(&str, &str); 8] = [
            ("ational", "ate"),
            ("tional", "tion"),
            ("alize", "al"),
            ("icate", "ic"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ness", ""),
            ("ful", ""),
        ];
        if let Some((suffix, with)) = SUFFIXES.iter().find(|(suffix, _)| self.ends(suffix)) {
            if self.in_first(suffix) {
                self.replace(suffix, with);
            }
        } else if self.ends("ative") && self.in_second("ative") {
            self.cut(5);
        }
    }

    fn last_suffixes(&mut self) {
        const SUFFIXES: [&str; 17] = [
            "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
            "al", "er", "ic",
        ];
        if let Some(suffix) = SUFFIXES.iter().find(|suffix| self.ends(suffix)) {
            if self.in_second(suffix) {
                self.cut(suffix.len());
            }
        } else if self.ends("ion") && self.in_second("ion") {
            let before = self.letters.len().checked_sub(4).map(|at| self.letters[at]);
            if matches!(before, Some(b's' | b't')) {
                self.cut(3);
            }
        }
    }

    fn final_e_and_l(&mut self) {
        let length = self.letters.len();
        if self.ends("e") {
            if self.in_second("e") || (self.in_first("e") && !ends_in_short_syllable(&self.letters[..length - 1])) {
                self.cut(1);
            }
        } else if self.ends("ll") && self.in_second("l") {
            self.cut(1);
        }
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// The position after the first consonant that follows a vowel.
fn region(letters: &[u8], from: usize) -> usize {
    for at in from + 1..letters.len() {
        if is_vowel(letters[at - 1]) && !is_vowel(letters[at]) {
            return at + 1;
        }
    }
    letters.len()
}

fn ends_in_short_syllable(letters: &[u8]) -> bool {
    match letters {
        [.., before, vowel, last] => {
            !is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !matches!(last, b'w' | b'x' | b'Y')
        }
        [vowel, last] => is_vowel(*vowel) && !is_vowel(*last),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn forms_of_a_word_share_a_stem() {
        for (word, expected) in [
            ("consign", "consign"),
            ("consigned", "consign"),
            ("consistency", "consist"),
            ("consolation", "consol"),
            ("knitting", "knit"),
            ("knocks", "knock"),
            ("hopping", "hop"),
            ("hoping", "hope"),
            ("generate", "generat"),
            ("generous", "generous"),
            ("communication", "communic"),
            ("relational", "relat"),
            ("cancelled", "cancel"),
            ("labelling", "label"),
            ("files", "file"),
            ("queries", "queri"),
            ("query", "queri"),
            ("notification", "notif"),
            ("scheduled", "schedul"),
            ("schedule", "schedul"),
            ("news", "news"),
            ("use", "use"),
            ("as", "as"),
            ("s3", "s3"),
            ("größe", "größe"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    #[test]
    fn every_short_word_has_a_stem() {
        let letters = b"abeiglsyt";
        for a in letters {
            for b in letters {
                for c in letters {
                    for d in letters {
                        let word = String::from_utf8(vec![*a, *b, *c, *d, *a, *b]).unwrap();
                        for end in 1..=word.len() {
                            assert!(!stem(&word[..end]).is_empty(), "{word}");
                        }
                    }
                }
            }
        }
    }
}
