//! Idempotency keys: what a client sends so that a repeated request means the same run.

/// Header that contains the key.
pub(crate) const HEADER: &str = "idempotency-key";
/// Maximum length of a key.
const MAX_KEY: usize = 256;

/// Checks a key.
pub(crate) fn checked(key: &str) -> Result<String, String> {
    if (1..=MAX_KEY).contains(&key.len()) && !key.chars().any(char::is_control) {
        Ok(key.to_owned())
    } else {
        Err(format!("an idempotency key has 1 to {MAX_KEY} bytes and no control characters"))
    }
}
