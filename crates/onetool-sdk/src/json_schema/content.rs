//! Content encodings (RFC 4648), which drafts 6 and 7 assert.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Base16,
    Base32,
    Base32Hex,
    Base64,
    Base64Url,
}

impl Encoding {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "base16" => Self::Base16,
            "base32" => Self::Base32,
            "base32hex" => Self::Base32Hex,
            "base64" => Self::Base64,
            "base64url" => Self::Base64Url,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Base16 => "base16",
            Self::Base32 => "base32",
            Self::Base32Hex => "base32hex",
            Self::Base64 => "base64",
            Self::Base64Url => "base64url",
        }
    }

    /// Returns the bits per character and the characters per block.
    fn sizes(self) -> (u32, usize) {
        match self {
            Self::Base16 => (4, 2),
            Self::Base32 | Self::Base32Hex => (5, 8),
            Self::Base64 | Self::Base64Url => (6, 4),
        }
    }

    fn value(self, byte: u8) -> Option<u8> {
        Some(match (self, byte) {
            (Self::Base16 | Self::Base32Hex | Self::Base64 | Self::Base64Url, b'0'..=b'9') => match self {
                Self::Base64 | Self::Base64Url => byte - b'0' + 52,
                _ => byte - b'0',
            },
            (Self::Base16, b'A'..=b'F') => byte - b'A' + 10,
            (Self::Base16, b'a'..=b'f') => byte - b'a' + 10,
            (Self::Base32Hex, b'A'..=b'V') => byte - b'A' + 10,
            (Self::Base32, b'2'..=b'7') => byte - b'2' + 26,
            (Self::Base32 | Self::Base64 | Self::Base64Url, b'A'..=b'Z') => byte - b'A',
            (Self::Base64 | Self::Base64Url, b'a'..=b'z') => byte - b'a' + 26,
            (Self::Base64, b'+') | (Self::Base64Url, b'-') => 62,
            (Self::Base64, b'/') | (Self::Base64Url, b'_') => 63,
            _ => return None,
        })
    }

    /// Decodes `text`. Padding is required, and leftover bits must be zero.
    pub(super) fn decode(self, text: &str) -> Option<Vec<u8>> {
        let (bits, block) = self.sizes();
        let digits = text.trim_end_matches('=');
        let padding = text.len() - digits.len();
        if !text.len().is_multiple_of(block) || padding > 0 && (self == Self::Base16 || padding >= block) {
            return None;
        }
        let mut decoded = Vec::with_capacity(digits.len() * bits as usize / 8);
        let (mut held, mut count) = (0_u32, 0);
        for byte in digits.bytes() {
            held = held << bits | u32::from(self.value(byte)?);
            count += bits;
            if count >= 8 {
                count -= 8;
                decoded.push((held >> count) as u8);
                held &= (1 << count) - 1;
            }
        }
        // Leftover bits of a full digit or more mean a superfluous digit.
        (held == 0 && count < bits).then_some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_strict() {
        for (encoding, text) in [
            (Encoding::Base16, "666F6f626172"),
            (Encoding::Base32, "MZXW6YTBOI======"),
            (Encoding::Base32Hex, "CPNMUOJ1E8======"),
            (Encoding::Base64, "Zm9vYmFy"),
            (Encoding::Base64Url, "Zm9vYmFy"),
        ] {
            assert_eq!(encoding.decode(text).as_deref(), Some(&b"foobar"[..]), "{text}");
        }
        for bad in ["Zm9v====", "Zm9", "Zg", "Zh==", "Z===", "=", "Zm9v+Y-y"] {
            assert_eq!(Encoding::Base64.decode(bad), None, "{bad}");
        }
    }
}
