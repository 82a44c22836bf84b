//! Text from a server that goes to a model: stripped of invisible characters, cut to a limit, free of the secrets that
//! the server was given.

use super::settings::{ServerKind, ServerSettings};

/// Shorter values are too common to be redacted.
const SECRET_CHARS: usize = 6;

/// Removes characters that hide or reorder text, and cuts it to at most `limit` characters.
pub(super) fn clean(text: &str, limit: usize) -> String {
    let mut kept = String::with_capacity(text.len().min(limit * 4));
    for (count, c) in text.chars().filter(|c| is_visible(*c)).enumerate() {
        if count == limit {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// Whether a character may be shown: no controls except newline and tab, no zero-width characters, no direction marks,
/// no tags or variation selectors (which can hide text), no private use.
fn is_visible(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{10ffff}' => false,
        c => !c.is_control(),
    }
}

/// Cleans every text in a JSON value except property names, which must reach the server unchanged.
pub(super) fn clean_json(json: &mut serde_json::Value, limit: usize) {
    match json {
        serde_json::Value::String(text) => *text = clean(text, limit),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| clean_json(item, limit)),
        serde_json::Value::Object(object) => object.values_mut().for_each(|value| clean_json(value, limit)),
        _ => {}
    }
}

/// Redacts the secrets of one server in displayed text.
#[derive(Clone, Default)]
pub(super) struct Redactor(onetool_sdk::Redactor);

impl Redactor {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        let mut secrets: Vec<&str> = Vec::new();
        match &settings.kind {
            ServerKind::Stdio { env, .. } => secrets.extend(env.values().map(String::as_str)),
            ServerKind::Http { url, headers } => {
                for value in headers.values() {
                    secrets.push(value);
                    // `Bearer …`: the token may also appear alone.
                    secrets.extend(value.split_whitespace().skip(1));
                }
                if let Some((_, query)) = url.split_once('?') {
                    secrets.push(query);
                }
                if let Some((user, _)) = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')) {
                    secrets.push(user);
                }
            }
        }
        // Short values, such as `1` or `true`, are not secrets.
        secrets.retain(|value| value.chars().count() >= SECRET_CHARS);
        Self(onetool_sdk::Redactor::new(secrets))
    }

    /// Cleans and redacts text, and cuts it to at most `limit` characters.
    pub(super) fn show(&self, text: &str, limit: usize) -> String {
        clean(self.0.text(text).trim(), limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_go_and_ordinary_ones_stay() {
        let hidden = "a\u{200b}b\u{202e}c\u{7}d\u{e0041}e\u{feff}f\u{2066}g\r\x1b[31mh";
        assert_eq!(clean(hidden, 100), "abcdefg[31mh");
        assert_eq!(clean("Größe 日本 🙂\n\tx", 100), "Größe 日本 🙂\n\tx");
    }

    proptest::proptest! {
        #[test]
        fn cleaning_twice_changes_nothing_more(text in "\\PC{0,40}|.{0,40}", limit in 1_usize..50) {
            let once = clean(&text, limit);
            proptest::prop_assert!(once.chars().all(is_visible));
            proptest::prop_assert!(once.chars().count() <= limit + 1);
            proptest::prop_assert_eq!(clean(&once, limit + 1), once);
        }
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(clean("äöü", 2), "äö…");
        assert_eq!(clean("äö", 2), "äö");
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = ServerSettings::http("a", "https://user:pass99@host/mcp?key=topsecret");
        if let ServerKind::Http { headers, .. } = &mut settings.kind {
            headers.insert("Authorization".into(), "Bearer abcdef123".into());
        }
        let redactor = Redactor::new(&settings);
        let shown = redactor.show("failed for https://user:pass99@host/mcp?key=topsecret with abcdef123", 200);
        assert_eq!(shown, "failed for https://[REDACTED]@host/mcp?[REDACTED] with [REDACTED]");
    }
}
