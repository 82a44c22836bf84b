//! Formats: what `format` asserts of a text, in the drafts in which it is an assertion (4, 6 and 7).
//!
//! A format that is unknown here, or not part of the draft, asserts nothing.

use super::pattern::Pattern;
use super::{Draft, uri};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Date,
    DateTime,
    Email,
    Hostname,
    /// Up to draft 6, a label with two hyphens has no special meaning.
    PlainHostname,
    Ipv4,
    Ipv6,
    Iri,
    IriReference,
    JsonPointer,
    Regex,
    RelativeJsonPointer,
    Time,
    Uri,
    UriReference,
    UriTemplate,
}

impl Format {
    /// Returns the format that `draft` asserts by this name.
    pub(super) fn named(name: &str, draft: Draft) -> Option<Self> {
        let (format, since) = match name {
            "date" => (Self::Date, Draft::Draft4),
            "date-time" => (Self::DateTime, Draft::Draft4),
            "email" => (Self::Email, Draft::Draft4),
            "hostname" if draft < Draft::Draft7 => (Self::PlainHostname, Draft::Draft4),
            "hostname" => (Self::Hostname, Draft::Draft7),
            "ipv4" => (Self::Ipv4, Draft::Draft4),
            "ipv6" => (Self::Ipv6, Draft::Draft4),
            "iri" => (Self::Iri, Draft::Draft7),
            "iri-reference" => (Self::IriReference, Draft::Draft7),
            "json-pointer" => (Self::JsonPointer, Draft::Draft6),
            "regex" => (Self::Regex, Draft::Draft4),
            "relative-json-pointer" => (Self::RelativeJsonPointer, Draft::Draft7),
            "time" => (Self::Time, Draft::Draft4),
            "uri" => (Self::Uri, Draft::Draft4),
            "uri-reference" => (Self::UriReference, Draft::Draft6),
            "uri-template" => (Self::UriTemplate, Draft::Draft6),
            _ => return None,
        };
        (draft >= since && draft.is_classic()).then_some(format)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Email => "email",
            Self::Hostname | Self::PlainHostname => "hostname",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Iri => "iri",
            Self::IriReference => "iri-reference",
            Self::JsonPointer => "json-pointer",
            Self::Regex => "regex",
            Self::RelativeJsonPointer => "relative-json-pointer",
            Self::Time => "time",
            Self::Uri => "uri",
            Self::UriReference => "uri-reference",
            Self::UriTemplate => "uri-template",
        }
    }

    pub(super) fn is_valid(self, text: &str) -> bool {
        match self {
            Self::Date => is_date(text),
            Self::DateTime => text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time)),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text, has_no_foreign_prefix),
            Self::PlainHostname => is_hostname(text, |_| true),
            Self::Ipv4 => uri::is_ipv4(text),
            Self::Ipv6 => uri::is_ipv6(text),
            Self::Iri => uri::is_valid(text, uri::Kind::Iri),
            Self::IriReference => uri::is_valid(text, uri::Kind::IriReference),
            Self::JsonPointer => text.is_empty() || text.starts_with('/') && is_escaped(text),
            Self::Regex => Pattern::new(text).is_some(),
            Self::RelativeJsonPointer => is_relative_pointer(text),
            Self::Time => is_time(text),
            Self::Uri => uri::is_valid(text, uri::Kind::Uri),
            Self::UriReference => uri::is_valid(text, uri::Kind::Reference),
            Self::UriTemplate => is_uri_template(text.as_bytes()),
        }
    }
}

/// Minutes per day.
const DAY: u32 = 24 * 60;

/// Parses two leading digits.
fn two_digits(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', ..] => Some(u32::from(a - b'0') * 10 + u32::from(b - b'0')),
        _ => None,
    }
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [_, _, _, _, b'-', _, _, b'-', _, _] = bytes else { return false };
    let numbers = (two_digits(bytes), two_digits(&bytes[2..]), two_digits(&bytes[5..]), two_digits(&bytes[8..]));
    let (Some(century), Some(year), Some(month), Some(day)) = numbers else { return false };
    let year = century * 100 + year;
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [_, _, b':', _, _, b':', _, _, rest @ ..] = bytes else { return false };
    let numbers = (two_digits(bytes), two_digits(&bytes[3..]), two_digits(&bytes[6..]));
    let (Some(hour), Some(minute), Some(second)) = numbers else { return false };
    if hour > 23 || minute > 59 || second > 60 {
        return false;
    }
    let zone = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => rest,
    };
    let offset = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => match (two_digits(&zone[1..]), two_digits(&zone[4..])) {
            (Some(hours @ 0..=23), Some(minutes @ 0..=59)) if *sign == b'+' => hours * 60 + minutes,
            (Some(hours @ 0..=23), Some(minutes @ 0..=59)) => DAY - (hours * 60 + minutes),
            _ => return false,
        },
        _ => return false,
    };
    // A leap second is the last one of a day in UTC.
    second < 60 || (hour * 60 + minute + DAY - offset) % DAY == DAY - 1
}

fn is_hostname(text: &str, is_label: fn(&str) -> bool) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && is_label(label)
        })
}

/// Hyphens in the third and fourth position mark an encoding, and `xn` is the only one.
fn has_no_foreign_prefix(label: &str) -> bool {
    label.get(2..4) != Some("--") || label.starts_with("xn--") && label.len() > 4
}

fn is_email(text: &str) -> bool {
    // A display name may precede an address in angle brackets.
    let address = match text.rsplit_once(" <") {
        Some((_, address)) => match address.trim().strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_local = match local.strip_prefix('"').and_then(|local| local.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atom_byte)),
    };
    let is_domain = match domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']')) {
        Some(address) => match address.get(..5) {
            Some(tag) if tag.eq_ignore_ascii_case("IPv6:") => uri::is_ipv6(&address[5..]),
            _ => uri::is_ipv4(address),
        },
        None => is_hostname(domain, has_no_foreign_prefix),
    };
    local.len() <= 64 && is_local && is_domain
}

fn is_atom_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_quoted(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'\\' => bytes.next().is_some_and(|escaped| escaped.is_ascii_graphic()),
            b'"' => false,
            _ => byte.is_ascii_graphic() || byte == b' ' || byte == b'\t',
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether every `~` is the beginning of `~0` or `~1`.
fn is_escaped(pointer: &str) -> bool {
    pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

fn is_relative_pointer(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let is_number = digits == "0" || !digits.is_empty() && !digits.starts_with('0');
    is_number && (rest.is_empty() || rest == "#" || rest.starts_with('/') && is_escaped(rest))
}

/// RFC 6570, including its reserved operators.
fn is_uri_template(mut rest: &[u8]) -> bool {
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'{' => {
                let Some(end) = after.iter().position(|byte| *byte == b'}') else { return false };
                let expression = match &after[..end] {
                    [b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&' | b'=' | b',' | b'!' | b'@' | b'|', rest @ ..] => {
                        rest
                    }
                    whole => whole,
                };
                if !expression.split(|byte| *byte == b',').all(is_variable) {
                    return false;
                }
                &after[end + 1..]
            }
            b'%' => match after {
                [a, b, after @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
                _ => return false,
            },
            0..=0x20 | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'|' | b'}' | 0x7f => return false,
            _ => after,
        };
    }
    true
}

/// Whether `text` is a name, optionally followed by `*` or a maximum length.
fn is_variable(text: &[u8]) -> bool {
    let name = match text.iter().position(|byte| *byte == b':') {
        Some(at) => match &text[at + 1..] {
            [b'1'..=b'9', digits @ ..] if digits.len() < 4 && digits.iter().all(u8::is_ascii_digit) => &text[..at],
            _ => return false,
        },
        None => text.strip_suffix(b"*").unwrap_or(text),
    };
    name.split(|byte| *byte == b'.').all(|mut part| {
        if part.is_empty() {
            return false;
        }
        while let Some((byte, after)) = part.split_first() {
            part = match (byte, after) {
                (b'%', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
                _ if byte.is_ascii_alphanumeric() || *byte == b'_' => after,
                _ => return false,
            };
        }
        true
    })
}
