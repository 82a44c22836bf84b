//! Names whose values are secrets, by convention.

/// Parts of such names, in lower case and with underscores.
const PARTS: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "authorization",
    "credential",
    "private_key",
];

/// Whether an argument, a variable, a header or an option of this name usually holds a secret: `X-Api-Key`,
/// `GITHUB_TOKEN`, `clientSecret`. Masks too much rather than too little: `max_tokens` counts too.
pub fn names_a_secret(name: &str) -> bool {
    let lower = name.to_lowercase().replace(['-', ' ', '.'], "_");
    PARTS.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_in_every_spelling() {
        for name in ["Password", "X-Api-Key", "GITHUB_TOKEN", "clientSecret", "aws.access-key", "--private-key"] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["key", "path", "query", "author", "id"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}
