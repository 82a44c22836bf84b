//! URI references (RFC 3986): validates them, and resolves them against a base.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Which texts are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Uri,
    Reference,
    Iri,
    IriReference,
}

impl Kind {
    fn is_absolute(self) -> bool {
        matches!(self, Self::Uri | Self::Iri)
    }

    fn is_international(self) -> bool {
        matches!(self, Self::Iri | Self::IriReference)
    }
}

/// A URI split into its parts, without delimiters.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

fn parts(text: &str) -> Parts<'_> {
    let (text, fragment) = split(text, '#');
    let (text, query) = split(text, '?');
    let scheme = text.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    let text = scheme.map_or(text, |scheme| &text[scheme.len() + 1..]);
    let (authority, path) = match text.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, text),
    };
    Parts { scheme, authority, path, query, fragment }
}

fn split(text: &str, delimiter: char) -> (&str, Option<&str>) {
    text.split_once(delimiter).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

pub(super) fn is_valid(text: &str, kind: Kind) -> bool {
    let parts = parts(text);
    if parts.scheme.is_none() {
        let first = parts.path.split('/').next().unwrap_or_default();
        if kind.is_absolute() || parts.authority.is_none() && first.contains(':') {
            return false;
        }
    }
    let has = |text: &str, more: &str| has_only(text, more, kind);
    parts.authority.is_none_or(|authority| is_authority(authority, kind))
        && has(parts.path, ":@/")
        && parts.query.is_none_or(|query| has_only_query(query, kind))
        && parts.fragment.is_none_or(|fragment| has(fragment, ":@/?"))
}

fn is_authority(authority: &str, kind: Kind) -> bool {
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if user.is_some_and(|user| !has_only(user, ":", kind)) {
        return false;
    }
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return is_address(address) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = host.split_once(':').map_or((host, ""), |(host, port)| (host, port));
    has_only(host, "", kind) && is_port(port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `text` is a valid IP literal, as found between brackets.
fn is_address(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['v', 'V']) else { return text.parse::<Ipv6Addr>().is_ok() };
    rest.split_once('.').is_some_and(|(version, address)| {
        !version.is_empty()
            && version.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !address.is_empty()
            && address.bytes().all(|byte| is_plain(byte) || byte == b':')
    })
}

/// unreserved / sub-delims
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn has_only(text: &str, more: &str, kind: Kind) -> bool {
    has_only_with(text, more, kind, is_international)
}

fn has_only_query(text: &str, kind: Kind) -> bool {
    has_only_with(text, ":@/?", kind, |c| is_international(c) || is_private(c))
}

fn has_only_with(text: &str, more: &str, kind: Kind, beyond_ascii: fn(char) -> bool) -> bool {
    let bytes = text.as_bytes();
    text.char_indices().all(|(at, c)| match c {
        '%' => bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)),
        _ if c.is_ascii() => is_plain(c as u8) || more.contains(c),
        _ => kind.is_international() && beyond_ascii(c),
    })
}

/// `ucschar` (RFC 3987).
fn is_international(c: char) -> bool {
    let c = u32::from(c);
    match c {
        0xa0..=0xd7ff | 0xf900..=0xfdcf | 0xfdf0..=0xffef => true,
        0x1_0000..=0xe_ffff => c & 0xffff <= 0xfffd && !(0xe_0000..0xe_1000).contains(&c),
        _ => false,
    }
}

/// `iprivate` (RFC 3987).
fn is_private(c: char) -> bool {
    let c = u32::from(c);
    (0xe000..=0xf8ff).contains(&c) || c >= 0xf_0000 && c & 0xffff <= 0xfffd
}

/// Resolves `reference` against `base`, without its fragment.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    let (base, reference) = (parts(base), parts(reference));
    let authority = reference.authority;
    let (scheme, authority, path, query) = if reference.scheme.is_some() {
        (reference.scheme, authority, without_dots(reference.path), reference.query)
    } else if authority.is_some() {
        (base.scheme, authority, without_dots(reference.path), reference.query)
    } else if reference.path.is_empty() {
        (base.scheme, base.authority, base.path.to_owned(), reference.query.or(base.query))
    } else if reference.path.starts_with('/') {
        (base.scheme, base.authority, without_dots(reference.path), reference.query)
    } else {
        let folder = match base.path.rfind('/') {
            Some(end) => &base.path[..=end],
            None if base.authority.is_some() => "/",
            None => "",
        };
        (base.scheme, base.authority, without_dots(&format!("{folder}{}", reference.path)), reference.query)
    };
    let mut uri = String::new();
    for (before, part, after) in
        [("", scheme, ":"), ("//", authority, ""), ("", Some(path.as_str()), ""), ("?", query, "")]
    {
        if let Some(part) = part {
            uri.push_str(before);
            uri.push_str(part);
            uri.push_str(after);
        }
    }
    uri
}

/// Removes `.` and `..` segments from a path.
fn without_dots(path: &str) -> String {
    if !path.contains("./") && !path.ends_with('.') {
        return path.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                // The first segment of an absolute path is empty and is kept.
                if kept.len() > 1 || kept.first().is_some_and(|first| !first.is_empty()) {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

pub(super) fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_the_rfc_does() {
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("g#s", "http://a/b/c/g"),
            ("urn:x:y", "urn:x:y"),
        ] {
            assert_eq!(resolve("http://a/b/c/d;p?q", reference), expected, "{reference}");
        }
        assert_eq!(resolve("json-schema:///", "item.json"), "json-schema:///item.json");
    }
}
