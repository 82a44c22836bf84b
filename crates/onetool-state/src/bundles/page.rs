//! Pages and the opaque tokens between them.
//!
//! A token holds the position where the last page ended, and a digest of the filters it belongs to: a token that is
//! altered or used with other filters is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::BundleError;

const DIGEST_BYTES: usize = 12;

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The token for the next page, if there is one.
    pub next: Option<PageToken>,
}

/// The start of the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(String);

impl PageToken {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Seals a position for a query; `filters` is any text that distinguishes queries.
    pub(crate) fn seal(position: &[u8], filters: &str) -> Self {
        let mut bytes = position.to_vec();
        bytes.extend_from_slice(&digest(position, filters));
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Returns the position inside `token`, if it was sealed for the same filters.
    pub(crate) fn open<const N: usize>(token: &str, filters: &str) -> Result<[u8; N], BundleError> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| BundleError::PageToken)?;
        let (position, seal) = bytes.split_at_checked(N).ok_or(BundleError::PageToken)?;
        if seal != digest(position, filters) {
            return Err(BundleError::PageToken);
        }
        position.try_into().map_err(|_| BundleError::PageToken)
    }
}

fn digest(position: &[u8], filters: &str) -> [u8; DIGEST_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key("onetool page token 1");
    hasher.update(filters.as_bytes());
    hasher.update(&[0]);
    hasher.update(position);
    let mut seal = [0; DIGEST_BYTES];
    hasher.finalize_xof().fill(&mut seal);
    seal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_its_filters() {
        let token = PageToken::seal(&[7; 16], "q=a");
        assert_eq!(PageToken::open::<16>(token.as_str(), "q=a").unwrap(), [7; 16]);
        assert!(PageToken::open::<16>(token.as_str(), "q=b").is_err());
        assert!(PageToken::open::<17>(token.as_str(), "q=a").is_err());
        for bad in ["", "x", "AAAA", "not base64!"] {
            assert!(PageToken::open::<16>(bad, "q=a").is_err(), "{bad}");
        }
    }
}
