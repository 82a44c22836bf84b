//! Reads sections by their shapes, and notes what is wrong with them: file, line, key, what was found, what was expected.

use std::path::PathBuf;

use onetool_sdk::{HealthNote, Severity};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::document::{Lines, at};
use super::shape::{self, FlawKind, Shape};

/// A value with the path of keys that leads to it.
pub(super) struct Reader {
    /// The files that were read, the strongest first.
    files: Vec<(PathBuf, Lines)>,
    pub(super) notes: Vec<HealthNote>,
    /// Keys whose values could not be used.
    wrong: Vec<Vec<String>>,
}

impl Reader {
    pub(super) fn new(files: Vec<(PathBuf, Lines)>, notes: Vec<HealthNote>) -> Self {
        Self { files, notes, wrong: Vec::new() }
    }

    /// Notes a problem with the key at `path`, in the file that says it.
    pub(super) fn problem(&mut self, path: &[&str], message: &str) {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        self.note(&path, message);
    }

    fn note(&mut self, path: &[String], message: &str) {
        let mut place: Option<(usize, usize, &PathBuf)> = None;
        for (file, lines) in &self.files {
            if let Some((depth, line)) = lines.find(path)
                && place.is_none_or(|(deepest, ..)| depth > deepest)
            {
                place = Some((depth, line, file));
            }
        }
        let (subject, line) = match place {
            Some((_, line, file)) => (file.display().to_string(), Some(line)),
            None => ("configuration".to_owned(), None),
        };
        let message = format!("{}{}: {message}", at(line), dotted(path));
        self.notes.push(HealthNote { severity: Severity::Error, subject, message });
    }

    /// What of a value fits its shape. What does not is noted and left out.
    pub(super) fn fit(&mut self, path: &[&str], shape: Shape, value: Option<Json>) -> Option<Json> {
        let mut flaws = Vec::new();
        let fitting = shape::fit(shape, value?, &mut flaws);
        for flaw in flaws {
            let path: Vec<String> = path.iter().map(|&step| step.to_owned()).chain(flaw.path).collect();
            self.note(&path, &flaw.message);
            if flaw.kind == FlawKind::WrongValue {
                self.wrong.push(path);
            }
        }
        fitting
    }

    /// The same, as a type.
    pub(super) fn typed<T: DeserializeOwned + Default>(
        &mut self,
        path: &[&str],
        shape: Shape,
        value: Option<Json>,
    ) -> T {
        let Some(fitting) = self.fit(path, shape, value) else { return T::default() };
        match serde_json::from_value(fitting) {
            Ok(typed) => typed,
            Err(error) => {
                self.problem(path, "cannot be used; the defaults count");
                tracing::error!(%error, "a shape of the configuration and its type differ");
                T::default()
            }
        }
    }

    /// Whether a value at this path, within it or around it could not be used.
    pub(super) fn is_wrong(&self, path: &[&str]) -> bool {
        self.wrong.iter().any(|wrong| wrong.iter().zip(path).all(|(wrong, asked)| wrong == asked))
    }
}

/// `server.tokens[0].scopes`
pub(super) fn dotted(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(&shape::short(step));
    }
    text
}
