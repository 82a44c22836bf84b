//! Reads sections by their shapes, and notes what is wrong with them: file, line, key, what was found, what was expected.

use std::collections::BTreeSet;
use std::path::PathBuf;

use onetool_sdk::{HealthNote, Severity};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::document::{Lines, at};
use super::shape::{self, FlawKind, Shape};

/// Reads the merged configuration; knows which file says what, and gathers what is wrong.
pub(super) struct Reader {
    /// The files that were read, the strongest first.
    files: Vec<(PathBuf, Lines)>,
    pub(super) notes: Vec<HealthNote>,
    /// Problems that were too many to tell.
    untold: usize,
    /// Keys whose values could not be used.
    wrong: BTreeSet<Vec<String>>,
}

/// Problems that are told; a broken file need not be told a thousand times.
const MAX_NOTES: usize = 100;

impl Reader {
    pub(super) fn new(files: Vec<(PathBuf, Lines)>, notes: Vec<HealthNote>) -> Self {
        Self { files, notes, untold: 0, wrong: BTreeSet::new() }
    }

    /// Notes a problem with the key at `path`, in the file that says it.
    pub(super) fn problem(&mut self, path: &[&str], message: &str) {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        self.note(&path, message);
    }

    /// Everything that was noted.
    pub(super) fn into_notes(mut self) -> Vec<HealthNote> {
        if self.untold > 0 {
            self.notes.push(HealthNote {
                severity: Severity::Error,
                subject: "configuration".to_owned(),
                message: format!("{} more problems", self.untold),
            });
        }
        self.notes
    }

    fn note(&mut self, path: &[String], message: &str) {
        if self.notes.len() >= MAX_NOTES {
            self.untold += 1;
            return;
        }
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
                self.wrong.insert(path);
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

    /// A program that we start. One without a folder is looked for where programs are.
    pub(super) fn program(&mut self, path: &[&str], program: PathBuf) -> PathBuf {
        if program.components().count() > 1 && !program.is_file() {
            self.problem(path, &format!("found no file {}, expected a program", program.display()));
        }
        program
    }

    /// A folder that we write to. It need not be there, but nothing else may stand in its way.
    pub(super) fn folder(&mut self, path: &[&str], folder: PathBuf) -> PathBuf {
        let obstacle = folder.ancestors().find(|above| above.exists()).filter(|above| !above.is_dir());
        if let Some(obstacle) = obstacle {
            let message = format!("expected a folder, but {} is a file; nothing can be kept there", obstacle.display());
            self.problem(path, &message);
        }
        folder
    }

    /// Whether a value at this path, within it or around it could not be used.
    pub(super) fn is_wrong(&self, path: &[&str]) -> bool {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        let is_around = (0..path.len()).any(|depth| self.wrong.contains(&path[..depth]));
        is_around || self.wrong.range(path.clone()..).next().is_some_and(|wrong| wrong.starts_with(&path))
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
