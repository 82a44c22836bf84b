//! `secrets.yaml`: names and values. Values may refer to environment variables. Nothing here is ever printed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use onetool_sdk::{HealthNote, Severity};
use serde_json::Value as Json;

use super::files::{ConfigPlaces, parse};

/// Secrets by name. `Debug` shows names alone.
#[derive(Clone, Default)]
pub struct Secrets {
    values: BTreeMap<String, String>,
    /// The files that count.
    pub(super) files: Vec<PathBuf>,
    /// Those of them that could not be understood at all.
    pub(super) unreadable: Vec<PathBuf>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Secrets {
    /// Reads the project's file over the global one; `OT_SECRETS_FILE` stands for both.
    pub fn load(places: &ConfigPlaces, notes: &mut Vec<HealthNote>) -> Self {
        let mut secrets = Self::default();
        let files = match std::env::var_os("OT_SECRETS_FILE") {
            Some(path) => vec![PathBuf::from(path)],
            None => [places.global.clone(), Some(places.own())]
                .into_iter()
                .flatten()
                .flat_map(|folder| [folder.join("config/secrets.yaml"), folder.join("secrets.yaml")])
                .filter(|path| path.is_file())
                .collect(),
        };
        secrets.files.clone_from(&files);
        for path in files {
            let mut note = |message: String| {
                notes.push(HealthNote { severity: Severity::Error, subject: path.display().to_string(), message });
            };
            // Parser messages may quote the file, so none of them is passed on.
            let content = match std::fs::read_to_string(&path) {
                Ok(text) => parse(&text),
                Err(error) => {
                    note(format!("cannot be read: {error}"));
                    secrets.unreadable.push(path);
                    continue;
                }
            };
            let Ok(content) = content else {
                note("no valid YAML; expected lines of NAME: value".to_owned());
                secrets.unreadable.push(path);
                continue;
            };
            for (name, value) in content {
                match value {
                    Json::String(text) => match expand(&text) {
                        Ok(value) => {
                            secrets.values.insert(name, value);
                        }
                        Err(variable) => note(format!("{name}: the environment variable {variable} is not set")),
                    },
                    Json::Number(number) => {
                        secrets.values.insert(name, number.to_string());
                    }
                    Json::Null => {}
                    _ => note(format!("{name}: expected text")),
                }
            }
        }
        secrets
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Every secret's value, for redaction.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.values().map(String::as_str)
    }

    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.values
    }
}

/// `${VAR}` and `${VAR:-default}` from the environment.
fn expand(text: &str) -> Result<String, String> {
    expand_with(text, |name| std::env::var(name).ok())
}

/// Expands `${NAME}` and `${NAME:-default}`; the error is the name that has no value.
pub(super) fn expand_with(text: &str, get: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let Some(length) = rest[start..].find('}') else { break };
        let inner = &rest[start + 2..start + length];
        let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        match get(name).filter(|value| !value.is_empty()).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => return Err(name.to_owned()),
        }
        rest = &rest[start + length + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_once_and_name_what_is_missing() {
        let get = |name: &str| (name == "A").then(|| "${B}".to_owned());
        assert_eq!(expand_with("x${A}y${C:-d}", get), Ok("x${B}yd".to_owned()));
        assert_eq!(expand_with("${Z}", get), Err("Z".to_owned()));
        assert_eq!(expand_with("${open", get), Ok("${open".to_owned()));
    }
}
