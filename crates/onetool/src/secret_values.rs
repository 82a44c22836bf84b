//! Finds literal secrets in the settings of a server, and replaces them with `${NAME}`.

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
/// Last words of names whose values describe where a secret is, or its kind.
const HARMLESS_ENDINGS: &[&str] = &[
    "file", "path", "dir", "folder", "url", "uri", "endpoint", "host", "id", "name", "type", "mode", "method", "header",
];
/// Prefixes of values that are secrets under any name.
const SECRET_PREFIXES: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "ya29.",
    "eyJ",
    "hf_",
    "r8_",
    "gsk_",
    "npm_",
    "pypi-",
    "tvly-",
    "fc-",
    "ntn_",
    "secret_",
    "lin_api_",
    "figd_",
    "shpat_",
    "dop_v1_",
    "glsa_",
    "sbp_",
    "dckr_pat_",
];

/// Names that do not identify the owner of a secret.
const GENERIC: &[&str] = &[
    "API_KEY",
    "API_TOKEN",
    "ACCESS_TOKEN",
    "ACCESS_KEY",
    "AUTH_TOKEN",
    "SECRET_KEY",
    "PRIVATE_KEY",
    "CLIENT_SECRET",
    "X_API_KEY",
];

/// The secrets that were found, by their new names.
pub type Moved = BTreeMap<String, String>;

/// Replaces the literal secrets of a server with references. `taken` returns the existing value of a name.
pub fn take(server: &str, settings: &mut Map<String, Json>, taken: &dyn Fn(&str) -> Option<String>) -> Moved {
    let mut taker = Taker { server, taken, moved: Moved::new(), takes_paths: true };
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

/// Everything in the settings of servers that looks like a secret and must not be shown.
pub fn find(value: &Json) -> Vec<String> {
    find_in(value, true)
}

/// The same in other settings, where a random part of an address is more likely the name of a page than a secret.
pub fn find_named(value: &Json) -> Vec<String> {
    find_in(value, false)
}

fn find_in(value: &Json, takes_paths: bool) -> Vec<String> {
    let mut taker = Taker { server: "", taken: &|_| None, moved: Moved::new(), takes_paths };
    taker.look_at("", value);
    taker.moved.into_values().collect()
}

struct Taker<'a> {
    server: &'a str,
    taken: &'a dyn Fn(&str) -> Option<String>,
    moved: Moved,
    /// Whether random parts of an address's path are secrets.
    takes_paths: bool,
}

impl Taker<'_> {
    fn look_at(&mut self, name: &str, value: &Json) {
        match value {
            Json::String(text) => self.named(name, &mut text.clone()),
            Json::Array(items) => {
                self.arguments(&mut items.clone());
                items.iter().for_each(|item| self.look_at(name, item));
            }
            Json::Object(entries) => entries.iter().for_each(|(name, value)| self.look_at(name, value)),
            _ => {}
        }
    }

    fn entry(&mut self, name: &str, value: &mut Json) {
        let Json::String(text) = value else { return };
        self.named(name, text);
    }

    /// Handles the value of a variable, a header or an option.
    fn named(&mut self, name: &str, text: &mut String) {
        if !is_literal(text) {
            return;
        }
        if !(is_secret_name(name) && may_be_secret(name, text) || has_secret_prefix(text)) {
            return self.url(text);
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

    /// Handles `--api-key abc`, `--api-key=abc`, `-e API_KEY=abc`, `--header "Authorization: Bearer abc"`,
    /// `postgresql://me:abc@host/db`.
    fn arguments(&mut self, arguments: &mut [Json]) {
        let mut option: Option<String> = None;
        for argument in arguments {
            let Json::String(text) = argument else { continue };
            let before = option.take();
            if let Some(name) = before.filter(|_| !text.starts_with('-')) {
                self.named(&name, text);
            } else if let Some((name, value)) = text.clone().split_once('=').filter(|(name, _)| is_word(name)) {
                let mut value = value.to_owned();
                self.named(name.trim_start_matches('-'), &mut value);
                *text = format!("{name}={value}");
            } else if let Some((name, value)) = text.clone().split_once(':').filter(|(name, value)| {
                is_word(name) && !name.starts_with('-') && !value.starts_with("//") && is_secret_name(name)
            }) {
                let gap = &value[..value.len() - value.trim_start().len()];
                let mut value = value.trim_start().to_owned();
                self.named(name, &mut value);
                *text = format!("{name}:{gap}{value}");
            } else if text.starts_with("--") && is_secret_name(text) {
                option = Some(text.trim_start_matches('-').to_owned());
            } else if text.starts_with("Bearer ") {
                self.named("authorization", text);
            } else if is_literal(text) && has_secret_prefix(text) {
                *text = self.reference("token", text.clone());
            } else {
                self.url(text);
            }
        }
    }

    /// Handles `?api_key=abc`, `/s/<random>/mcp`, and what `password` finds.
    fn url(&mut self, url: &mut String) {
        self.password(url);
        let Some(start) = url.find("://").filter(|at| is_word(&url[..*at])).map(|at| at + "://".len()) else { return };
        let path = url[start..].find('/').map_or(url.len(), |at| start + at);
        let end = url[path..].find(['?', '#']).map_or(url.len(), |at| path + at);
        let random: Vec<String> =
            url[path..end].split('/').filter(|part| self.takes_paths && is_random(part)).map(str::to_owned).collect();
        for part in random {
            let reference = self.reference("token", part.clone());
            *url = url.replacen(&part, &reference, 1);
        }
        let Some((base, query)) = url.split_once('?').map(|(base, query)| (base.to_owned(), query.to_owned())) else {
            return;
        };
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, value)) if is_secret_name(name) && is_literal(value) && may_be_secret(name, value) => {
                    format!("{name}={}", self.reference(name, value.to_owned()))
                }
                _ => parameter.to_owned(),
            })
            .collect();
        *url = format!("{base}?{}", parameters.join("&"));
    }

    /// Handles the password of `scheme://user:password@host`.
    fn password(&mut self, url: &mut String) {
        let Some((scheme, rest)) = url.split_once("://") else { return };
        if !is_word(scheme) {
            return;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let Some((user, secret)) = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')) else {
            return;
        };
        if !is_literal(secret) {
            return;
        }
        let start = scheme.len() + "://".len() + user.len() + 1;
        let (before, after) = (url[..start].to_owned(), url[start + secret.len()..].to_owned());
        let reference = self.reference("password", secret.to_owned());
        *url = format!("{before}{reference}{after}");
    }

    /// Returns a reference to a secret under its own name, prefixed with the server's if another value has that name.
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

/// Whether a text contains no references.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains("${")
}

/// Whether a part of a path is random: such an address grants access to anyone who knows it.
fn is_random(part: &str) -> bool {
    let has = |kind: fn(&char) -> bool| part.chars().filter(kind).count();
    part.len() >= 24
        && is_literal(part)
        && !part.contains(char::is_whitespace)
        && has(char::is_ascii_digit) >= 3
        && has(char::is_ascii_alphabetic) >= 3
        && !part.contains('.')
}

/// Whether this is the name of an option, a variable or a header.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let words: Vec<&str> = name.split(['_', '-', '.', ' ']).collect();
    if words.len() > 1 && words.last().is_some_and(|last| HARMLESS_ENDINGS.contains(last)) {
        return false;
    }
    SECRET_WORDS.iter().any(|word| words.contains(word) || (word.len() > 4 && name.contains(word)))
}

/// Switches, small numbers and files are not secrets, whatever their names: `MAX_TOKENS=4096`, `AUTH=true`. This
/// matters because secret values are redacted in every reply.
fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if ["password", "passwd", "secret"].iter().any(|word| name.contains(word)) {
        return true;
    }
    let is_switch = ["true", "false", "yes", "no", "on", "off", "none", "null", "auto", "oauth", "basic", "bearer"]
        .contains(&value.to_ascii_lowercase().as_str());
    let is_small = value.len() <= 8 && value.parse::<f64>().is_ok();
    let is_file = (value.starts_with('/') || value.starts_with('~')) && std::path::Path::new(value).exists();
    !(is_switch || is_small || is_file)
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
    fn secrets_are_found_where_servers_are_told_them() {
        let mut settings = json!({
            "command": "docker",
            "args": [
                "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=abc", "-e", "GITHUB_HOST", "--header", "Authorization: Bearer t1",
                "--header", "X-Api-Key:t2", "postgresql://me:hunter2@db.example.org:5432/app?sslmode=require",
                "https://h/s/0a1b2c3d4e5f6a7b8c9d0e1f/mcp?api_key=t3", "--max-tokens", "4096", "-v", "/a:/b:ro", "8080:80",
            ],
            "env": {
                "MAX_TOKENS": "4096", "TOKENIZERS_PARALLELISM": "false", "AUTH_METHOD": "oauth", "KEY_FILE": "/k.pem",
                "DATABASE_URL": "mysql://root:${PW}@h/x", "REDIS_URL": "redis://:pw@h:6379/0", "CLIENT_ID": "me",
            },
        });
        let moved = take("s", settings.as_object_mut().unwrap(), &|_| None);
        assert_eq!(
            settings,
            json!({
                "command": "docker",
                "args": [
                    "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=${GITHUB_PERSONAL_ACCESS_TOKEN}", "-e", "GITHUB_HOST",
                    "--header", "Authorization: Bearer ${S_AUTHORIZATION}", "--header", "X-Api-Key:${S_X_API_KEY}",
                    "postgresql://me:${S_PASSWORD_2}@db.example.org:5432/app?sslmode=require",
                    "https://h/s/${S_TOKEN}/mcp?api_key=${S_API_KEY}", "--max-tokens", "4096", "-v", "/a:/b:ro", "8080:80",
                ],
                "env": {
                    "MAX_TOKENS": "4096", "TOKENIZERS_PARALLELISM": "false", "AUTH_METHOD": "oauth", "KEY_FILE": "/k.pem",
                    "DATABASE_URL": "mysql://root:${PW}@h/x", "REDIS_URL": "redis://:${S_PASSWORD}@h:6379/0", "CLIENT_ID": "me",
                },
            })
        );
        assert_eq!((moved["S_PASSWORD"].as_str(), moved["S_PASSWORD_2"].as_str()), ("pw", "hunter2"));
    }

    #[test]
    fn a_random_address_is_a_secret_of_servers_alone() {
        let settings = json!({"url": "https://h/s/0a1b2c3d4e5f6a7b8c9d0e1f/page?key=abcdefgh", "token": "ijklmnop"});
        let found = |mut values: Vec<String>| {
            values.sort_unstable();
            values
        };
        assert_eq!(found(find_named(&settings)), ["abcdefgh", "ijklmnop"]);
        assert_eq!(found(find(&settings)), ["0a1b2c3d4e5f6a7b8c9d0e1f", "abcdefgh", "ijklmnop"]);
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
