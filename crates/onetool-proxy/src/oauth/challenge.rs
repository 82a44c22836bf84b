//! The `WWW-Authenticate` header with which a server refuses a request.

/// The parameters of a `Bearer` challenge that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

/// Maximum length of a header that is parsed.
const HEADER_BYTES: usize = 8 * 1024;

impl Challenge {
    /// Parses a header that may contain several challenges.
    pub(crate) fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = &header[..header.floor_char_boundary(HEADER_BYTES)];
        let mut is_bearer = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return challenge;
            }
            let end = rest.find(['=', ' ', '\t', ',']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let after = after.trim_start();
            let Some(value) = after.strip_prefix('=') else {
                // A single word names a scheme.
                is_bearer = word.eq_ignore_ascii_case("bearer");
                rest = after;
                continue;
            };
            let (value, after) = value_of(value.trim_start());
            rest = after;
            if is_bearer {
                match word.to_ascii_lowercase().as_str() {
                    "resource_metadata" => challenge.resource_metadata = Some(value),
                    "scope" => challenge.scope = Some(value),
                    "error" => challenge.error = Some(value),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn wants_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    pub(crate) fn scopes(&self) -> Vec<String> {
        self.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect()
    }
}

/// Parses a value, quoted or not, and returns it with the remaining text.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_challenge_is_found_among_others() {
        let challenge = Challenge::parse(
            r#"Basic realm="a, b", Bearer error="insufficient_scope", scope="read \"x\" write" , resource_metadata=https://x.org/m?a=b"#,
        );
        assert!(challenge.wants_more_scope());
        assert_eq!(challenge.scopes(), ["read", "\"x\"", "write"]);
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://x.org/m?a=b"));
        assert_eq!(Challenge::parse("Basic scope=x"), Challenge::default());
        assert_eq!(Challenge::parse("Bearer"), Challenge::default());
        assert_eq!(Challenge::parse("bearer scope=\"never ends").scopes(), ["never", "ends"]);
    }
}
