//! `secrets.yaml`: names and values. Values may refer to environment variables. Nothing here is ever printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onetool_sdk::{HealthNote, NoteFacts, Severity};
use serde_json::Value as Json;

use crate::document::{self, at};
use crate::expandable::expand_with;
use crate::files::ConfigPlaces;
use crate::trust::{FileTrust, UNTRUSTED};

/// Secrets by name. `Debug` shows only the names.
#[derive(Clone, Default)]
pub struct Secrets {
    values: BTreeMap<String, String>,
    /// The files that apply.
    pub(crate) files: Vec<PathBuf>,
    /// Files that could not be parsed.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Paths without a file.
    pub(crate) absent: Vec<PathBuf>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Secrets are equal if their values are, wherever they come from.
impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Secrets {
    /// Reads the project's file over the global one; `OT_SECRETS_FILE` replaces both. A file that came with a
    /// repository could replace the user's own values, so it is left out until it is trusted.
    pub fn load(places: &ConfigPlaces, trust: &FileTrust, notes: &mut Vec<HealthNote>) -> Self {
        let mut secrets = Self::default();
        let named = std::env::var_os("OT_SECRETS_FILE").filter(|name| !name.is_empty()).map(PathBuf::from);
        let is_named = |path: &Path| named.as_deref() == Some(path);
        let files = match &named {
            Some(path) => vec![path.clone()],
            None => {
                let mut files = Vec::new();
                let own = Some(places.own()).filter(|own| Some(own) != places.global.as_ref());
                for folder in [places.global.clone(), own].into_iter().flatten() {
                    let candidates = [folder.join("config/secrets.yaml"), folder.join("secrets.yaml")];
                    let known = files.len();
                    files.extend(candidates.iter().filter(|path| path.symlink_metadata().is_ok()).cloned());
                    if files.len() == known {
                        secrets.absent.extend(candidates);
                    }
                }
                files
            }
        };
        secrets.files.clone_from(&files);
        for path in files {
            let mut push = |message: String, facts: NoteFacts| {
                let subject = path.display().to_string();
                notes.push(HealthNote { severity: Severity::Error, subject, message, facts });
            };
            let mut note = |message: String| push(message, NoteFacts::default());
            if !is_named(&path) && !trust.covers(&path) {
                let facts = NoteFacts { untrusted: Some("its secrets".to_owned()), ..NoteFacts::default() };
                push(format!("its secrets are not in effect: {UNTRUSTED}"), facts);
                continue;
            }
            // Parser messages may quote the file, so only the line is passed on.
            let (text, content) = match document::read(&path).map(|text| (document::parse(&text), text)) {
                Ok((Ok(content), text)) => (text, content),
                Ok((Err(mistake), _)) => {
                    note(format!("{}invalid YAML; expected lines of NAME: value", at(mistake.line)));
                    secrets.unreadable.push(path);
                    continue;
                }
                Err(mistake) => {
                    note(format!("{}{}", at(mistake.line), mistake.message));
                    secrets.unreadable.push(path);
                    continue;
                }
            };
            if let Some(repeated) = content.repeated {
                note(format!("{}a name is given more than once; the last one counts", at(repeated.line)));
            }
            let lines = content.lines;
            for (name, value) in content.root {
                let line = lines.find(std::slice::from_ref(&name)).map(|(_, line)| line);
                let mut note = |message: String| note(format!("{}{}: {message}", at(line), crate::shape::short(&name)));
                match value {
                    Json::String(text) => match expand(&text) {
                        Ok(value) => {
                            secrets.values.insert(name, value);
                        }
                        Err(variable) => note(format!("the environment variable {variable} is not set")),
                    },
                    // Numbers like 007 and 1.10 would change their text.
                    Json::Number(number) if line.is_some_and(|line| is_written(&text, line, &number.to_string())) => {
                        secrets.values.insert(name, number.to_string());
                    }
                    Json::Null => {}
                    other => note(format!("found {}, expected text (put it in quotes)", crate::shape::kind(&other))),
                }
            }
        }
        secrets
    }

    /// The files that they were read from.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
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

/// The file that a new secret is written to.
pub fn secrets_file(places: &ConfigPlaces) -> PathBuf {
    if let Some(path) = std::env::var_os("OT_SECRETS_FILE").filter(|name| !name.is_empty()) {
        return PathBuf::from(path);
    }
    let own = places.own();
    let (beside, inside) = (own.join("secrets.yaml"), own.join("config/secrets.yaml"));
    if !beside.exists() && inside.exists() { inside } else { beside }
}

/// Whether `NAME: value` in this line has exactly this value.
fn is_written(text: &str, line: usize, value: &str) -> bool {
    let written = text.lines().nth(line - 1).and_then(|line| line.split_once(':')).map(|(_, written)| written);
    written.is_some_and(|written| written.split(" #").next().unwrap_or("").trim() == value)
}

/// `${VAR}` and `${VAR:-default}` from the environment.
fn expand(text: &str) -> Result<String, String> {
    expand_with(text, |name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_without_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
        std::fs::create_dir_all(places.own()).unwrap();
        let load = |text: &str| {
            std::fs::write(places.own().join("secrets.yaml"), text).unwrap();
            let mut notes = Vec::new();
            let secrets = Secrets::load(&places, &FileTrust::default(), &mut notes);
            (secrets.values, notes.into_iter().map(|note| note.message).collect::<Vec<_>>())
        };
        let (values, notes) = load("A: 123456 # x\nB: 0123\nC: [hidden]\nD: true\nE: 1.10\n");
        assert_eq!(values, BTreeMap::from([("A".to_owned(), "123456".to_owned())]));
        assert_eq!(
            notes,
            [
                "line 2: B: found a number, expected text (put it in quotes)",
                "line 3: C: found a list, expected text (put it in quotes)",
                "line 4: D: found true or false, expected text (put it in quotes)",
                "line 5: E: found a number, expected text (put it in quotes)",
            ]
        );
        let (_, notes) = load("A: 1\nhidden\n");
        assert!(notes.len() == 1 && notes[0].ends_with("invalid YAML; expected lines of NAME: value"), "{notes:?}");
        let (values, notes) = load("A: one\nA: two\n");
        assert_eq!(values["A"], "two");
        assert_eq!(notes, ["line 2: a name is given more than once; the last one counts"]);
    }
}
