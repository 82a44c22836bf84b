//! Names: slugs of tools, arguments, secrets.

use std::collections::HashSet;

use onetool_state::bundles::{Slug, Version};

const LONGEST: usize = 64;

/// Converts names such as `listReposForUser`, `repos/list-for-user` and `List repos` to slugs.
pub(super) fn slug(text: &str) -> Option<Slug> {
    let mut made = String::new();
    let mut previous = ' ';
    let mut count = 0;
    for c in text.chars() {
        let separate = !c.is_alphanumeric() || (c.is_uppercase() && (previous.is_lowercase() || previous.is_numeric()));
        if separate && !made.is_empty() && !made.ends_with('-') {
            made.push('-');
            count += 1;
        }
        if c.is_alphanumeric() {
            for lower in c.to_lowercase() {
                // Only characters that a slug allows: letters and decimal digits.
                if lower.to_string().parse::<Slug>().is_ok() {
                    made.push(lower);
                    count += 1;
                }
            }
        }
        previous = c;
        if count >= LONGEST {
            break;
        }
    }
    let cut: String = made.chars().take(LONGEST).collect();
    cut.trim_matches('-').parse().ok()
}

/// Makes slugs unique.
#[derive(Debug, Default)]
pub(super) struct Slugs(HashSet<Slug>);

impl Slugs {
    pub(super) fn unique(&mut self, text: &str) -> Option<Slug> {
        let wanted = slug(text)?;
        if self.0.insert(wanted.clone()) {
            return Some(wanted);
        }
        (2..10_000).find_map(|number| {
            let suffix = format!("-{number}");
            let kept: String = wanted.as_str().chars().take(LONGEST - suffix.len()).collect();
            let other: Slug = format!("{kept}{suffix}").parse().ok()?;
            self.0.insert(other.clone()).then_some(other)
        })
    }
}

/// The version of a document's tools, with a default.
pub(super) fn version(wanted: Option<&Version>) -> Result<Version, String> {
    match wanted {
        Some(version) => Ok(version.clone()),
        None => "v1".parse().map_err(|error| format!("{error}")),
    }
}

/// Converts text to a name that templates accept: letters, digits and `_`.
pub(super) fn argument(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    let name = name.trim_matches('_');
    match name.chars().next() {
        None => "value".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name.to_owned(),
    }
}

/// `MY_API_TOKEN` for the bundle `my-api` and the word `token`.
pub(super) fn secret(bundle: &str, word: &str) -> String {
    let text = format!("{bundle}_{word}");
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    if name.is_empty() { "API_KEY".to_owned() } else { name.to_owned() }
}

/// Whether the value under this name is probably a secret.
pub(super) fn is_secret(name: &str) -> bool {
    const PARTS: &[&str] = &[
        "apikey",
        "token",
        "secret",
        "password",
        "passwd",
        "credential",
        "signature",
        "accesskey",
        "privatekey",
        "sessionid",
    ];
    const WHOLE: &[&str] =
        &["key", "auth", "authorization", "cookie", "setcookie", "xapikey", "appid", "apisecret", "pwd", "sig", "jwt"];
    let plain: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    PARTS.iter().any(|part| plain.contains(part)) || WHOLE.contains(&plain.as_str())
}

/// Whether a header's value is probably a secret. A word such as `key` in a header's name counts too, as it denotes a
/// secret more often than in a field's name.
pub(super) fn is_secret_header(name: &str) -> bool {
    const WORDS: &[&str] = &["key", "auth", "session", "cookie", "sig", "jwt", "pass", "pwd"];
    let lower = name.to_ascii_lowercase();
    is_secret(name) || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// Truncates text to its limit and removes control characters.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    let text = text.trim();
    if text.len() <= chars && text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return text.to_owned();
    }
    let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n').take(chars + 1).collect();
    if clean.chars().count() <= chars {
        return clean;
    }
    let cut: String = clean.chars().take(chars.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// Whether a text matches a pattern with `*`, ignoring case.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return text == pattern };
    if !text.starts_with(first) || text.len() < first.len() + last.len() || !text.ends_with(last) {
        return false;
    }
    let mut rest = &text[first.len()..text.len() - last.len()];
    middle.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made() {
        for (text, made) in [
            ("listReposForUser", "list-repos-for-user"),
            ("repos/list-for-user", "repos-list-for-user"),
            ("GET /pets/{id}", "get-pets-id"),
            ("getV2Things", "get-v2-things"),
            ("Größe²", "größe"),
            ("__x__", "x"),
        ] {
            assert_eq!(slug(text).unwrap().as_str(), made);
        }
        assert!(slug("/{}").is_none());
        assert_eq!(slug(&"a".repeat(100)).unwrap().as_str().len(), 64);
        let mut slugs = Slugs::default();
        let made: Vec<String> = (0..3).map(|_| slugs.unique("a b").unwrap().to_string()).collect();
        assert_eq!(made, ["a-b", "a-b-2", "a-b-3"]);
        assert_eq!(argument("filter[name]"), "filter_name");
        assert_eq!(argument("2nd"), "_2nd");
        assert_eq!(secret("my-api", "token"), "MY_API_TOKEN");
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in ["X-Api-Key", "access_token", "Authorization", "client_secret", "key", "PASSWORD", "appid"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["X-Key", "Ocp-Apim-Subscription-Key", "X-Session", "Cookie"] {
            assert!(is_secret_header(name), "{name}");
        }
        assert!(!is_secret_header("Accept-Language") && !is_secret_header("X-Keyword"));
        for name in ["monkey", "page", "keyword", "q", "Accept", "author"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn patterns_fit() {
        for (pattern, text) in [("repos*", "repos/list"), ("*/list", "repos/list"), ("r*l*t", "repos/list"), ("a", "A")]
        {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("repos", "repos/list"), ("a*a", "a"), ("*x*", "abc")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
