//! HTML character references: numeric ones, and the names that pages use.

use onetool_outbound::WINDOWS_1252;

/// Names and their characters. Other names of HTML are left as written.
const NAMES: &[(&str, &str)] = &[
    ("AElig", "Æ"),
    ("Aacute", "Á"),
    ("Agrave", "À"),
    ("Aring", "Å"),
    ("Auml", "Ä"),
    ("Ccedil", "Ç"),
    ("Eacute", "É"),
    ("Egrave", "È"),
    ("Ntilde", "Ñ"),
    ("Oslash", "Ø"),
    ("Ouml", "Ö"),
    ("Prime", "″"),
    ("Uuml", "Ü"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("acute", "´"),
    ("aelig", "æ"),
    ("agrave", "à"),
    ("alpha", "α"),
    ("amp", "&"),
    ("apos", "'"),
    ("aring", "å"),
    ("asymp", "≈"),
    ("atilde", "ã"),
    ("auml", "ä"),
    ("beta", "β"),
    ("bull", "•"),
    ("ccedil", "ç"),
    ("cent", "¢"),
    ("check", "✓"),
    ("copy", "©"),
    ("darr", "↓"),
    ("deg", "°"),
    ("delta", "δ"),
    ("divide", "÷"),
    ("eacute", "é"),
    ("ecirc", "ê"),
    ("egrave", "è"),
    ("emsp", "\u{2003}"),
    ("ensp", "\u{2002}"),
    ("equals", "="),
    ("euml", "ë"),
    ("euro", "€"),
    ("frac12", "½"),
    ("frac14", "¼"),
    ("frac34", "¾"),
    ("ge", "≥"),
    ("gt", ">"),
    ("harr", "↔"),
    ("hellip", "…"),
    ("iacute", "í"),
    ("icirc", "î"),
    ("iexcl", "¡"),
    ("infin", "∞"),
    ("iquest", "¿"),
    ("iuml", "ï"),
    ("lambda", "λ"),
    ("laquo", "«"),
    ("larr", "←"),
    ("lbrace", "{"),
    ("lbrack", "["),
    ("ldquo", "“"),
    ("le", "≤"),
    ("lpar", "("),
    ("lsaquo", "‹"),
    ("lsquo", "‘"),
    ("lt", "<"),
    ("mdash", "—"),
    ("micro", "µ"),
    ("middot", "·"),
    ("minus", "−"),
    ("mu", "μ"),
    ("nbsp", "\u{a0}"),
    ("ndash", "–"),
    ("ne", "≠"),
    ("newline", "\n"),
    ("ntilde", "ñ"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("oelig", "œ"),
    ("omega", "ω"),
    ("ordf", "ª"),
    ("ordm", "º"),
    ("oslash", "ø"),
    ("otilde", "õ"),
    ("ouml", "ö"),
    ("para", "¶"),
    ("permil", "‰"),
    ("pi", "π"),
    ("plus", "+"),
    ("plusmn", "±"),
    ("pound", "£"),
    ("prime", "′"),
    ("quot", "\""),
    ("raquo", "»"),
    ("rarr", "→"),
    ("rbrace", "}"),
    ("rbrack", "]"),
    ("rdquo", "”"),
    ("reg", "®"),
    ("rpar", ")"),
    ("rsaquo", "›"),
    ("rsquo", "’"),
    ("scaron", "š"),
    ("sect", "§"),
    ("shy", ""),
    ("sigma", "σ"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("szlig", "ß"),
    ("tau", "τ"),
    ("thinsp", "\u{2009}"),
    ("times", "×"),
    ("trade", "™"),
    ("uacute", "ú"),
    ("uarr", "↑"),
    ("ucirc", "û"),
    ("uuml", "ü"),
    ("yen", "¥"),
    ("zwj", ""),
    ("zwnj", ""),
];

/// At least as long as the longest name and any valid number.
const MAX_NAME: usize = 12;

/// Decodes the references in a text.
pub(super) fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match reference(&rest[1..]) {
            Some((replacement, length)) => {
                out.push_str(&replacement);
                rest = &rest[1 + length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Decodes the reference after `&`; returns its length, including the semicolon, too.
fn reference(text: &str) -> Option<(String, usize)> {
    let end = text.bytes().take(MAX_NAME).position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'#'))?;
    if text.as_bytes()[end] != b';' {
        return None;
    }
    let name = &text[..end];
    let replacement = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            let character = match code {
                128..=159 => WINDOWS_1252[usize::try_from(code - 128).ok()?],
                0 => '\u{fffd}',
                code => char::from_u32(code).unwrap_or('\u{fffd}'),
            };
            character.to_string()
        }
        None => {
            let at = NAMES.binary_search_by_key(&name, |(known, _)| known).ok()?;
            NAMES[at].1.to_owned()
        }
    };
    Some((replacement, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_other_ampersands_stay() {
        assert_eq!(decode("a &amp; b &lt;c&gt; &#8364; &#x20AC; &#128; &eacute;&nbsp;x"), "a & b <c> € € € é\u{a0}x");
        for text in ["AT&T", "?a=1&b=2", "&unknown;", "&;", "&", "&#;", "&#xZZ;", "&amp", "a&é;"] {
            assert_eq!(decode(text), text);
        }
        assert_eq!(decode("&#0;&#x110000;"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn names_are_in_order() {
        assert!(NAMES.is_sorted_by_key(|(name, _)| name));
    }
}
