//! Finds literal secrets in the settings of a server, and moves them out: the settings keep `${NAME}`.

use std::collections::BTreeMap;

use onetool_sdk::to_python_identifier;
use serde_json::{Map, Value as Json};

/// Words in the names of variables, headers, options and parameters whose values are secrets.
const SECRET_WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "credential",
    "private_key",
    "private-key",
    "authorization",
    "auth",
    "pat",
    "key",
];
/// Beginnings of values that are secrets whatever they are called.
const SECRET_PREFIXES: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "pk_",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
];

/// Names that say nothing of whose secret it is.
const GENERIC: &[&str] =
    &["API_KEY", "API_TOKEN", "ACCESS_TOKEN", "ACCESS_KEY", "AUTH_TOKEN", "SECRET_KEY", "PRIVATE_KEY", "CLIENT_SECRET"];

/// Secrets that were found, by the name that stands for them now.
pub type Moved = BTreeMap<String, String>;

/// Replaces the literal secrets of a server by references. `taken` says which value a name has already.
pub fn take(server: &str, settings: &mut Map<String, Json>, taken: &dyn Fn(&str) -> Option<String>) -> Moved {
    let mut taker = Taker { server, taken, moved: Moved::new() };
    for section in ["env", "headers", "auth"] {
        if let Some(Json::Object(entries)) = settings.get_mut(section) {
            for (name, value) in entries {
                taker.entry(name, value);
            }
        }
    }
    if let Some(Json::Array(arguments)) = settings.get_mut("args") {
        taker.arguments(arguments);
    }
    if let Some(Json::String(url)) = settings.get_mut("url") {
        taker.url(url);
    }
    taker.moved
}

struct Taker<'a> {
    server: &'a str,
    taken: &'a dyn Fn(&str) -> Option<String>,
    moved: Moved,
}

impl Taker<'_> {
    fn entry(&mut self, name: &str, value: &mut Json) {
        let Json::String(text) = value else { return };
        if !is_literal(text) || !(is_secret_name(name) || has_secret_prefix(text)) {
            return;
        }
        // `Bearer abc`: the scheme is not secret.
        let (scheme, secret) = match text.split_once(' ') {
            Some((scheme, rest)) if ["bearer", "basic", "token"].contains(&scheme.to_ascii_lowercase().as_str()) => {
                (format!("{scheme} "), rest.to_owned())
            }
            _ => (String::new(), text.clone()),
        };
        let reference = self.reference(name, secret);
        *text = format!("{scheme}{reference}");
    }

    /// `--api-key abc` and `--api-key=abc`.
    fn arguments(&mut self, arguments: &mut [Json]) {
        let mut option: Option<String> = None;
        for argument in arguments {
            let Json::String(text) = argument else { continue };
            let name = option.take();
            if let (Some(name), true) = (&name, is_literal(text) && !text.starts_with('-')) {
                *text = self.reference(name, text.clone());
            } else if let Some((flag, value)) = text.clone().split_once('=') {
                let name = flag.trim_start_matches('-');
                if flag.starts_with('-') && is_secret_name(name) && is_literal(value) {
                    *text = format!("{flag}={}", self.reference(name, value.to_owned()));
                }
            } else if text.starts_with("--") && is_secret_name(text) {
                option = Some(text.trim_start_matches('-').to_owned());
            } else if has_secret_prefix(text) {
                *text = self.reference("token", text.clone());
            }
        }
    }

    /// `?api_key=abc`
    fn url(&mut self, url: &mut String) {
        let Some((base, query)) = url.split_once('?').map(|(base, query)| (base.to_owned(), query.to_owned())) else {
            return;
        };
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, value)) if is_secret_name(name) && is_literal(value) => {
                    format!("{name}={}", self.reference(name, value.to_owned()))
                }
                _ => parameter.to_owned(),
            })
            .collect();
        *url = format!("{base}?{}", parameters.join("&"));
    }

    /// A name for a secret: its own, or with the server's name before it where that is taken by another value.
    fn reference(&mut self, name: &str, secret: String) -> String {
        let plain = to_python_identifier(name).trim_matches('_').to_ascii_uppercase();
        let server = to_python_identifier(self.server).trim_matches('_').to_ascii_uppercase();
        let is_telling = plain.contains('_') && !GENERIC.contains(&plain.as_str());
        let own = format!("{server}_{plain}");
        let numbered = (2..).map(|number| format!("{own}_{number}"));
        let candidates = is_telling.then(|| plain.clone()).into_iter().chain([own.clone()]).chain(numbered);
        for candidate in candidates {
            let known = self.moved.get(&candidate).cloned().or_else(|| (self.taken)(&candidate));
            if known.is_none_or(|known| known == secret) {
                self.moved.insert(candidate.clone(), secret);
                return format!("${{{candidate}}}");
            }
        }
        secret
    }
}

/// Text that refers to nothing.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains("${")
}

fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let words: Vec<&str> = name.split(['_', '-', '.', ' ']).collect();
    SECRET_WORDS.iter().any(|word| words.contains(word) || (word.len() > 4 && name.contains(word)))
}

fn has_secret_prefix(text: &str) -> bool {
    text.len() >= 16
        && SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_moved_and_everything_else_stays() {
        let mut settings = json!({
            "command": "npx",
            "args": ["-y", "server", "--api-key", "abc123", "--token=def456", "--port", "80"],
            "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef", "LOG_LEVEL": "debug", "FROM": "${HERE_KEY}"},
            "headers": {"Authorization": "Bearer xyz", "Accept": "text/html"},
            "url": "https://example.org/mcp?api_key=q&x=1",
        });
        let moved = take("my-gh", settings.as_object_mut().unwrap(), &|_| None);
        assert_eq!(
            settings,
            json!({
                "command": "npx",
                "args": ["-y", "server", "--api-key", "${MY_GH_API_KEY}", "--token=${MY_GH_TOKEN}", "--port", "80"],
                "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG_LEVEL": "debug", "FROM": "${HERE_KEY}"},
                "headers": {"Authorization": "Bearer ${MY_GH_AUTHORIZATION}", "Accept": "text/html"},
                "url": "https://example.org/mcp?api_key=${MY_GH_API_KEY_2}&x=1",
            })
        );
        assert_eq!(moved["GITHUB_TOKEN"], "ghp_0123456789abcdef");
        assert_eq!(moved["MY_GH_API_KEY"], "abc123");
        assert_eq!(moved["MY_GH_API_KEY_2"], "q");
    }

    #[test]
    fn a_name_that_has_another_value_is_not_overwritten() {
        let mut settings = json!({"env": {"GITHUB_TOKEN": "new"}});
        let taken = |name: &str| (name == "GITHUB_TOKEN").then(|| "old".to_owned());
        let moved = take("gh", settings.as_object_mut().unwrap(), &taken);
        assert_eq!(settings["env"]["GITHUB_TOKEN"], "${GH_GITHUB_TOKEN}");
        assert_eq!(moved["GH_GITHUB_TOKEN"], "new");
    }
}
