//! Templates over the parts of a request: `${method}\n${path}\n${body|sha256|hex}`.
//!
//! A name is a part of the request (see [`Part`]) or a secret; filters after `|` transform its bytes. There is no
//! escape: a `$` that does not begin `${` is a literal `$`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest;

use crate::template::percent_encode;

/// A parsed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignText {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value { part: Part, filters: Vec<Filter> },
}

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Method,
    Scheme,
    /// With the port, unless it is the scheme's default.
    Host,
    Path,
    Url,
    RawQuery,
    SortedQuery,
    Body,
    Header(String),
    Timestamp,
    Nonce,
    Signature,
    KeyId,
    /// The signing secret itself, for plain digests.
    OwnSecret,
    Token,
    Secret(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Sha1,
    Sha256,
    Sha512,
    Hex,
    Base64,
    Base64Url,
    Lower,
    Upper,
    UrlEncode,
}

impl SignText {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            literal.push_str(&rest[..at]);
            let after = &rest[at + 2..];
            let end = after.find('}').ok_or_else(|| format!("'{rest}' has no closing brace"))?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            let mut words = after[..end].split('|').map(str::trim);
            let part = part(words.next().unwrap_or_default())?;
            let filters = words.map(filter).collect::<Result<_, _>>()?;
            pieces.push(Piece::Value { part, filters });
            rest = &after[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces })
    }

    /// Returns the bytes of the text, with every part looked up.
    pub(crate) fn fill<E>(&self, mut look_up: impl FnMut(&Part) -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Value { part, filters } => {
                    let value = look_up(part)?;
                    out.extend(filters.iter().fold(value, |value, filter| filter.apply(&value)));
                }
            }
        }
        Ok(out)
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value { part, .. } => Some(part),
            Piece::Text(_) => None,
        })
    }

    pub(crate) fn uses(&self, wanted: &Part) -> bool {
        self.parts().any(|part| part == wanted)
    }

    /// Renders the text for people, with every part shown by name.
    pub(crate) fn shown(&self, name: impl Fn(&Part) -> String) -> String {
        let show = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value { part, .. } => name(part),
        };
        self.pieces.iter().map(show).collect()
    }
}

fn part(name: &str) -> Result<Part, String> {
    Ok(match name {
        "method" => Part::Method,
        "scheme" => Part::Scheme,
        "host" => Part::Host,
        "path" => Part::Path,
        "url" => Part::Url,
        "query" | "query.raw" => Part::RawQuery,
        "query.sorted" => Part::SortedQuery,
        "body" => Part::Body,
        "timestamp" => Part::Timestamp,
        "nonce" => Part::Nonce,
        "signature" => Part::Signature,
        "keyId" => Part::KeyId,
        "secret" => Part::OwnSecret,
        "token" => Part::Token,
        other => match other.strip_prefix("header.") {
            Some(header) => Part::Header(header.to_ascii_lowercase()),
            None if is_secret_name(other) => Part::Secret(other.to_owned()),
            None => {
                return Err(format!(
                    "'{other}' is not a part of a request; there are method, scheme, host, path, url, query.raw, \
                     query.sorted, body, header.NAME, timestamp, nonce, signature, keyId and secrets by name"
                ));
            }
        },
    })
}

/// Secrets are named like `API_KEY`, so that a misspelt part is not mistaken for one.
fn is_secret_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn filter(name: &str) -> Result<Filter, String> {
    Ok(match name {
        "sha1" => Filter::Sha1,
        "sha256" => Filter::Sha256,
        "sha512" => Filter::Sha512,
        "hex" => Filter::Hex,
        "base64" => Filter::Base64,
        "base64url" => Filter::Base64Url,
        "lower" => Filter::Lower,
        "upper" => Filter::Upper,
        "urlencode" => Filter::UrlEncode,
        other => {
            return Err(format!(
                "'{other}' is not a filter; there are sha1, sha256, sha512, hex, base64, base64url, lower, upper and \
                 urlencode"
            ));
        }
    })
}

impl Filter {
    fn apply(self, bytes: &[u8]) -> Vec<u8> {
        let text = || String::from_utf8_lossy(bytes);
        match self {
            Self::Sha1 => digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec(),
            Self::Sha256 => digest::digest(&digest::SHA256, bytes).as_ref().to_vec(),
            Self::Sha512 => digest::digest(&digest::SHA512, bytes).as_ref().to_vec(),
            Self::Hex => hex(bytes).into_bytes(),
            Self::Base64 => STANDARD.encode(bytes).into_bytes(),
            Self::Base64Url => URL_SAFE_NO_PAD.encode(bytes).into_bytes(),
            Self::Lower => text().to_lowercase().into_bytes(),
            Self::Upper => text().to_uppercase().into_bytes(),
            Self::UrlEncode => percent_encode(&text()).into_bytes(),
        }
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Decodes hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let bytes = SignText::parse(text).unwrap().fill(|part| match part {
            Part::Method => Ok::<_, ()>(b"post".to_vec()),
            Part::Body => Ok(b"{}".to_vec()),
            Part::Header(name) => Ok(format!("<{name}>").into_bytes()),
            Part::Secret(name) => Ok(name.clone().into_bytes()),
            other => panic!("{other:?}"),
        });
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    #[test]
    fn parts_filters_and_dollars() {
        assert_eq!(filled("$1$${method|upper}\n${header.X-Date} $"), "$1$POST\n<x-date> $");
        assert_eq!(filled("${body|sha256|hex}"), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_eq!(filled("${body|base64}+${KEY_2|lower}"), "e30=+key_2");
        for bad in ["${method", "${metod}", "${body|md5}", "${}", "${a-b}"] {
            assert!(SignText::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hexadecimal_digits_come_back() {
        assert_eq!(from_hex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        for bad in ["0", "0g", "é0"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
