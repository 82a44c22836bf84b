//! Reads sections by their declarations, and collects problems: file, line, key, what was found, what was expected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use onetool_sdk::{HealthNote, NoteFacts, Severity};
use serde_json::{Map, Value as Json};

use crate::document::{Lines, at};
use crate::expandable::Expandable;
use crate::files::{ConfigPlaces, LoadedConfig, expand_home};
use crate::secrets::Secrets;
use crate::section::{AnySection, Section};
use crate::shape::{self, Effect, Shape, ShapeProblemKind};
use crate::trust::FileTrust;
use crate::value::ConfigValue;

/// Reads the merged configuration, tracks the file of each key, and collects problems.
pub struct Reader {
    places: ConfigPlaces,
    secrets: Secrets,
    root: Map<String, Json>,
    /// The files that were read, in order of precedence.
    files: Vec<(PathBuf, Lines)>,
    unreadable: Vec<PathBuf>,
    absent: Vec<PathBuf>,
    passed: Vec<PathBuf>,
    trust: FileTrust,
    state_home: PathBuf,
    user_security: Option<Json>,
    notes: Vec<HealthNote>,
    /// Number of problems beyond the limit.
    omitted: usize,
    /// Keys with invalid values.
    wrong: BTreeSet<Vec<String>>,
    restart: BTreeMap<String, Json>,
}

/// The result after every section was read.
pub struct Outcome {
    pub notes: Vec<HealthNote>,
    pub secrets: Secrets,
    /// Every file that was read, including secrets.
    pub files: Vec<PathBuf>,
    /// Files that could not be parsed. Each has a note.
    pub unreadable: Vec<PathBuf>,
    /// Paths without a file. A file that was there before has been removed.
    pub absent: Vec<PathBuf>,
    /// Paths where a new file would take precedence over one that was found.
    pub passed: Vec<PathBuf>,
    pub restart: RestartKeys,
}

/// The values of all keys that take effect at the next start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RestartKeys(BTreeMap<String, Json>);

impl RestartKeys {
    /// The keys that differ, e.g. `run.max_parallel`.
    pub fn changed(&self, new: &Self) -> Vec<String> {
        let keys: BTreeSet<&String> = self.0.keys().chain(new.0.keys()).collect();
        keys.into_iter().filter(|key| self.0.get(*key) != new.0.get(*key)).cloned().collect()
    }
}

/// Maximum number of listed problems; the rest is counted.
const MAX_NOTES: usize = 100;

impl Reader {
    /// Reads the secrets too, because sections refer to them.
    pub fn new(places: &ConfigPlaces, loaded: LoadedConfig) -> Self {
        let LoadedConfig { root, files, unreadable, absent, passed, mut notes, trust, user_security } = loaded;
        let secrets = Secrets::load(places, &trust, &mut notes);
        let state_home = trust.state_home(places);
        Self {
            places: places.clone(),
            secrets,
            root,
            files,
            unreadable,
            absent,
            passed,
            trust,
            state_home,
            user_security,
            notes,
            omitted: 0,
            wrong: BTreeSet::new(),
            restart: BTreeMap::new(),
        }
    }

    /// Reads a section. Invalid values are noted and left out; missing ones get their default.
    pub fn read<T: ConfigValue>(&mut self, section: &Section<T>) -> T {
        let path: Vec<&str> = section.path().split('.').collect();
        let written = path.split_first().and_then(|(first, rest)| {
            rest.iter().try_fold(self.root.get(*first)?, |value, step| value.get(*step)).cloned()
        });
        let fitting = written.and_then(|written| self.fit(&path, section.shape(), written));
        self.remember_restart_keys(section, fitting.as_ref());
        let Some(fitting) = fitting else { return section.default() };
        T::read(fitting).unwrap_or_else(|| {
            self.problem(&path, "this value cannot be used; the default is in effect");
            tracing::error!(section = section.path(), "the shape of a section and its type disagree");
            section.default()
        })
    }

    fn remember_restart_keys(&mut self, section: &dyn AnySection, value: Option<&Json>) {
        if section.effect() == Effect::Restart {
            let value = value.cloned().unwrap_or_else(|| section.default_json());
            self.restart.insert(section.path().to_owned(), value);
        }
        if let Shape::Keys(keys) = section.shape() {
            for key in keys.iter().filter(|key| key.effect == Effect::Restart) {
                let value = value.and_then(|value| value.get(key.name)).cloned().unwrap_or_else(key.default);
                self.restart.insert(format!("{}.{}", section.path(), key.name), value);
            }
        }
    }

    /// Returns the valid part of a value. Invalid parts are noted and left out.
    fn fit(&mut self, path: &[&str], shape: Shape, value: Json) -> Option<Json> {
        let mut flaws = Vec::new();
        let fitting = shape::fit(shape, value, &mut flaws);
        for flaw in flaws {
            let path: Vec<String> = path.iter().map(|&step| step.to_owned()).chain(flaw.path).collect();
            self.note(&path, &flaw.message);
            if flaw.kind == ShapeProblemKind::WrongValue {
                self.wrong.insert(path);
            }
        }
        fitting
    }

    /// Notes unknown top-level keys. Keys named `x-…` are reserved for YAML anchors.
    pub fn check_unknown(&mut self, sections: &[&dyn AnySection]) {
        let known = sections.iter().map(|section| section.path()).filter(|path| !path.contains('.'));
        let names: Vec<String> = self.root.keys().filter(|key| !key.starts_with("x-")).cloned().collect();
        for name in names.iter().filter(|name| !known.clone().any(|known| known == name.as_str())) {
            self.problem(&[name], &shape::unknown(name, known.clone()));
        }
    }

    /// Notes a problem with the key at `path`, in the file that sets it.
    pub fn problem(&mut self, path: &[&str], message: &str) {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        self.note(&path, message);
    }

    /// Notes that the key at `path` works, but perhaps not as expected.
    pub fn warning(&mut self, path: &[&str], message: &str) {
        let known = self.notes.len();
        self.problem(path, message);
        if let Some(note) = self.notes.get_mut(known) {
            note.severity = Severity::Warning;
        }
    }

    fn note(&mut self, path: &[String], message: &str) {
        if self.notes.len() >= MAX_NOTES {
            self.omitted += 1;
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
        let facts = NoteFacts { line, key: path.to_vec(), untrusted: None };
        self.notes.push(HealthNote { severity: Severity::Error, subject, message, facts });
    }

    /// Whether a value at this path, within it or around it is invalid.
    pub fn is_wrong(&self, path: &[&str]) -> bool {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        let is_around = (0..path.len()).any(|depth| self.wrong.contains(&path[..depth]));
        is_around || self.wrong.range(path.clone()..).next().is_some_and(|wrong| wrong.starts_with(&path))
    }

    /// Which files may run code.
    pub fn trust(&self) -> &FileTrust {
        &self.trust
    }

    /// The valid part of the section `security` of the user's own file. Problems are noted with the rest.
    pub fn user_security<T: ConfigValue>(&self, section: &Section<T>) -> Option<T> {
        let written = self.user_security.clone()?;
        shape::fit(section.shape(), written, &mut Vec::new()).and_then(T::read)
    }

    pub fn places(&self) -> &ConfigPlaces {
        &self.places
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Fills in secrets, then environment variables; the error is the first name without a value.
    pub fn expand(&self, text: &Expandable) -> Result<String, String> {
        text.expand(|name| self.secrets.get(name).map(str::to_owned).or_else(|| std::env::var(name).ok()))
    }

    /// The secrets that a text names and that are set.
    pub fn secrets_in(&self, text: &Expandable) -> Vec<String> {
        let found = std::cell::RefCell::new(Vec::new());
        // Names without a value get a placeholder: the resulting text is not used.
        let _ = text.expand(|name| {
            if self.secrets.get(name).is_some() {
                found.borrow_mut().push(name.to_owned());
            }
            Some("-".to_owned())
        });
        found.into_inner()
    }

    /// Checks a program to be started. One without a folder is searched in `PATH`.
    pub fn program(&mut self, path: &[&str], program: &str) -> PathBuf {
        let program = expand_home(program);
        if program.components().count() > 1 && !program.is_file() {
            self.problem(path, &format!("found no file {}, expected a program", program.display()));
        }
        program
    }

    /// Where OneTool keeps its own state: `.onetool`, unless what is there came with the repository.
    pub fn state_home(&self) -> &Path {
        &self.state_home
    }

    /// Checks a folder for OneTool's own state.
    pub fn state_folder(&mut self, path: &[&str], folder: &str) -> PathBuf {
        self.checked_folder(path, self.state_home.join(expand_home(folder)))
    }

    /// Checks a folder below `.onetool` that is written to. It need not exist, but nothing else may be in its place.
    pub fn folder(&mut self, path: &[&str], folder: &str) -> PathBuf {
        self.checked_folder(path, self.places.own().join(expand_home(folder)))
    }

    fn checked_folder(&mut self, path: &[&str], folder: PathBuf) -> PathBuf {
        if let Some(obstacle) = not_a_folder(&folder) {
            let message = format!("expected a folder, but {} is a file; nothing can be kept there", obstacle.display());
            self.problem(path, &message);
        }
        folder
    }

    /// Returns everything that was collected.
    pub fn finish(mut self) -> Outcome {
        if self.omitted > 0 {
            self.notes.push(HealthNote {
                severity: Severity::Error,
                subject: "configuration".to_owned(),
                message: format!("{} more problems", self.omitted),
                facts: NoteFacts::default(),
            });
        }
        Outcome {
            notes: self.notes,
            files: self.files.into_iter().map(|(path, _)| path).chain(self.secrets.files.iter().cloned()).collect(),
            unreadable: self.unreadable.into_iter().chain(self.secrets.unreadable.iter().cloned()).collect(),
            absent: self.absent.into_iter().chain(self.secrets.absent.iter().cloned()).collect(),
            passed: self.passed,
            secrets: self.secrets,
            restart: RestartKeys(self.restart),
        }
    }
}

fn not_a_folder(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.exists()).filter(|above| !above.is_dir())
}

/// `server.tokens[0].scopes`
pub(crate) fn dotted(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(&shape::short(step));
    }
    text
}
