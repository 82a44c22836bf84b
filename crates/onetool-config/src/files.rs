//! Finds the configuration files and merges them.

use std::path::{Path, PathBuf};

use onetool_sdk::{HealthNote, NoteFacts, Severity};
use serde_json::{Map, Value as Json};

use crate::document::{self, Document, Lines, at};
use crate::home::{contains_home, home_folder, is_home};
use crate::reader::dotted;
use crate::section::{AnySection as _, Section};
use crate::shape::{self, Effect, MAX_COUNT, Shape};
use crate::trust::{FileTrust, UNTRUSTED, take_risky};

/// Accepted for older files.
pub const VERSION: Section<Json> = Section::new_or("version", || Json::from(1))
    .with_doc("Version of the format.")
    .with_shape(Shape::Either(&[Shape::Count(0, MAX_COUNT), Shape::Text]))
    .with_effect(Effect::Ignored);

/// Files that are merged below this one.
pub const INCLUDE: Section<Vec<String>> = Section::new("include")
    .with_doc("Files to merge below this one, looked for beside it, in .onetool and in ~/.onetool. Maps merge, lists and scalars replace.")
    .with_shape(Shape::OneOrMore(&Shape::Text))
    .with_example("[more.yaml]");

/// Whether the user's own configuration applies.
pub const INHERIT: Section<String> = Section::new_or("inherit", || "global".to_owned())
    .with_doc(
        "What is below this file: ~/.onetool/onetool.yaml (global), or the built-in defaults alone (bundled, none).",
    )
    .with_shape(Shape::Choice(&["global", "bundled", "none"]));

/// Where configuration files are searched for.
#[derive(Debug, Clone)]
pub struct ConfigPlaces {
    /// The project's folder; its `.onetool` contains our files.
    pub project: PathBuf,
    /// `~/.onetool`
    pub global: Option<PathBuf>,
    /// An explicit configuration file, which replaces the search.
    pub explicit: Option<PathBuf>,
}

/// An explicitly named configuration file or project does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}\nhint: --config and ONETOOL_CONFIG name a configuration file, --project and ONETOOL_PROJECT a folder; `onetool init` writes a configuration", path.display())]
pub struct MissingConfig {
    path: PathBuf,
    problem: String,
}

impl ConfigPlaces {
    /// Determines the places from the working directory and the environment. `explicit` is a configuration file,
    /// `project` a project's folder; by default the project is the nearest ancestor with a `.onetool`, or else the
    /// working directory.
    pub fn from_environment(explicit: Option<PathBuf>, project: Option<PathBuf>) -> Result<Self, MissingConfig> {
        let folder = std::env::current_dir().map_err(|error| MissingConfig {
            path: PathBuf::from("."),
            problem: format!("the working directory cannot be used: {error}"),
        })?;
        let home = home_folder();
        let global = home.as_ref().map(|home| home.join(".onetool"));
        let project = project.filter(|project| !project.as_os_str().is_empty());
        let project = project.map(|project| folder.join(expand_home(&project.to_string_lossy())));
        if let Some(missing) = project.as_ref().filter(|project| !project.is_dir()) {
            let problem = "this folder does not exist (--project or ONETOOL_PROJECT)".to_owned();
            return Err(MissingConfig { path: missing.clone(), problem });
        }
        let named = || std::env::var_os("ONETOOL_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
        let explicit = explicit.or_else(named).map(|path| folder.join(path));
        // A configuration inside a project's `.onetool` belongs to that project.
        let owner = explicit
            .as_deref()
            .and_then(|path| path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".onetool")));
        let project = match (project, owner.and_then(Path::parent), &global) {
            (Some(project), ..) => project,
            (None, Some(project), global) if global.as_deref() != owner => project.to_owned(),
            _ => nearest_project(&folder, home.as_deref()).unwrap_or(folder),
        };
        Ok(Self { project, global, explicit })
    }

    /// The project's `.onetool`, or the user's own if the folder is too large to be a project.
    pub fn own(&self) -> PathBuf {
        match &self.global {
            Some(global) if self.is_too_large() => global.clone(),
            _ => self.project.join(".onetool"),
        }
    }

    /// Whether the folder is the root of the file system, the user's home or the parent of all homes: not a project, but
    /// where a client happened to start us.
    pub fn is_too_large(&self) -> bool {
        let folder = real(&self.project);
        folder.parent().is_none() || is_home(&folder) || HOMES.iter().any(|homes| Path::new(homes) == folder)
    }

    /// The same for the files that tools may use: they do not get a home folder with everything around it either. Some
    /// give programs a home inside a project; then the project has a configuration.
    pub fn is_too_large_for_tools(&self) -> bool {
        let own = self.project.join(".onetool");
        let has_configuration = || candidates(&own).iter().any(|file| file.is_file());
        self.is_too_large() || (contains_home(&self.project) && !(is_own_folder(&own) && has_configuration()))
    }

    /// Checks that an explicitly named file can be read. Its content is checked later.
    pub fn require_explicit(&self) -> Result<(), MissingConfig> {
        match self.explicit.as_deref().map(|path| (path, document::read(path))) {
            Some((path, Err(mistake))) => Err(MissingConfig {
                path: path.to_owned(),
                problem: format!("{}{}", at(mistake.line), mistake.message),
            }),
            _ => Ok(()),
        }
    }
}

/// The nearest ancestor of `folder` with a `.onetool` of our own. The search ends at the home folder, whose `.onetool`
/// is the user's, and at the root. A `.onetool` of another owner is ignored: somebody with write access to a folder
/// above must not decide what we run.
fn nearest_project(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    folder
        .ancestors()
        .take_while(|above| Some(*above) != home && above.parent().is_some())
        .find(|above| (*above == folder && above.join(".onetool").is_dir()) || is_own_folder(&above.join(".onetool")))
        .map(Path::to_owned)
}

#[cfg(unix)]
fn is_own_folder(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    folder.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn is_own_folder(folder: &Path) -> bool {
    folder.is_dir()
}

/// The configuration files of a folder like `.onetool`.
fn candidates(folder: &Path) -> [PathBuf; 2] {
    [folder.join("onetool.yaml"), folder.join("config/onetool.yaml")]
}

/// The usual parents of home folders.
const HOMES: &[&str] = &["/home", "/Users", "/var/home", "C:\\Users"];

/// The merged configuration.
#[derive(Debug, Clone, Default)]
pub struct LoadedConfig {
    pub(crate) root: Map<String, Json>,
    /// The files that were read, in order of precedence.
    pub(crate) files: Vec<(PathBuf, Lines)>,
    /// Existing files that could not be parsed. Each has a note.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Paths without a file. A file that was there before has been removed.
    pub(crate) absent: Vec<PathBuf>,
    /// Paths where a new file would take precedence over one that was found.
    pub(crate) passed: Vec<PathBuf>,
    pub(crate) notes: Vec<HealthNote>,
    /// Which files may run code and loosen rules.
    pub(crate) trust: FileTrust,
    /// The security settings of the user's own file: a project may be stricter, but not less strict.
    pub(crate) user_security: Option<Json>,
}

/// Maximum depth of nested includes.
const MAX_INCLUDE_DEPTH: usize = 8;
/// Maximum number of files.
const MAX_FILES: usize = 64;

/// Reads and merges all configuration files.
pub fn load(places: &ConfigPlaces) -> LoadedConfig {
    load_with(places, FileTrust::decide(places))
}

/// The configuration as if the folder were trusted: for display, not for running it.
pub fn load_trusted(places: &ConfigPlaces) -> LoadedConfig {
    load_with(places, FileTrust::default())
}

fn load_with(places: &ConfigPlaces, trust: FileTrust) -> LoadedConfig {
    let mut loaded = LoadedConfig { trust, ..LoadedConfig::default() };
    let own = places.own();
    if let Some(lock) = loaded.trust.lock().map(Path::to_owned) {
        loaded.note(
            &lock,
            None,
            "git is at work here, or was interrupted; until this file is gone, all files count as having come with the \
             repository; call ot.reload() afterwards",
        );
    }
    if own.is_file() {
        loaded.note(&own, None, "expected a folder, found a file; it holds the configuration, logs and results");
    }
    let mut find = |folder: &Path| loaded.find_one(candidates(folder));
    let project_file = places.explicit.clone().or_else(|| find(&places.own()));
    let global_file = places.global.as_deref().and_then(find).filter(|global| Some(global) != project_file.as_ref());
    let mut project = project_file.as_deref().map(|path| loaded.read(path, places)).unwrap_or_default();
    let inherit = loaded.fit(project_file.as_deref(), "inherit", INHERIT.shape(), project.remove("inherit"));
    let inherits = matches!(inherit.as_ref().and_then(Json::as_str), None | Some("global"));
    let mut root = match global_file {
        Some(path) => loaded.read(&path, places),
        None => Map::new(),
    };
    loaded.user_security = root.get("security").cloned();
    if !inherits {
        root.retain(|key, _| key == "security");
    }
    root.remove("inherit");
    merge(&mut root, project);
    for (file, key) in [("prompts.yaml", "prompts"), ("snippets.yaml", "snippets")] {
        for folder in [Some(places.own()), places.global.clone().filter(|_| inherits)].into_iter().flatten() {
            loaded.read_section(&folder, file, key, places, &mut root);
        }
    }
    loaded.root = root;
    loaded
}

impl LoadedConfig {
    /// Returns the first candidate that exists; if none does, all are absent. Any kind of entry counts, so that a
    /// folder or a broken link is reported, not skipped.
    fn find_one<const N: usize>(&mut self, candidates: [PathBuf; N]) -> Option<PathBuf> {
        let found = candidates.iter().position(|path| path.symlink_metadata().is_ok());
        match found {
            Some(index) => {
                self.passed.extend(candidates[..index].iter().cloned());
                candidates.into_iter().nth(index)
            }
            None => {
                self.absent.extend(candidates);
                None
            }
        }
    }

    fn note(&mut self, path: &Path, line: Option<usize>, message: &str) {
        self.push(path, message, NoteFacts { line, ..NoteFacts::default() });
    }

    fn push(&mut self, path: &Path, message: &str, facts: NoteFacts) {
        self.notes.push(HealthNote {
            severity: Severity::Error,
            subject: path.display().to_string(),
            message: format!("{}{message}", at(facts.line)),
            facts,
        });
    }

    /// Checks the value of a key that controls which files are read; invalid parts are noted and left out.
    fn fit(&mut self, file: Option<&Path>, key: &str, shape: Shape, value: Option<Json>) -> Option<Json> {
        let mut flaws = Vec::new();
        let fitting = shape::fit(shape, value?, &mut flaws);
        for flaw in flaws {
            let path: Vec<String> = std::iter::once(key.to_owned()).chain(flaw.path).collect();
            let file = file.unwrap_or(Path::new("configuration"));
            let line = self.line(file, &path);
            self.note(file, line, &format!("{}: {}", dotted(&path), flaw.message));
        }
        fitting
    }

    fn line(&self, file: &Path, path: &[String]) -> Option<usize> {
        let (_, lines) = self.files.iter().rev().find(|(path, _)| path == file)?;
        lines.find(path).map(|(_, line)| line)
    }

    /// Reads `prompts.yaml` and similar files: the section alone, or a file with the section's name at the top.
    /// Existing values take precedence.
    fn read_section(
        &mut self,
        folder: &Path,
        file: &str,
        key: &str,
        places: &ConfigPlaces,
        root: &mut Map<String, Json>,
    ) {
        let files = [folder.join(file), folder.join("config").join(file)];
        let Some(path) = self.find_one(files) else { return };
        let mut content = self.read(&path, places);
        let section = match content.remove(key) {
            Some(section) => section,
            None => {
                if let Some((_, lines)) = self.files.iter_mut().rev().find(|(read, _)| *read == path) {
                    *lines = std::mem::take(lines).below(key);
                }
                Json::Object(content)
            }
        };
        let mut below = Map::new();
        below.insert(key.to_owned(), section);
        merge(&mut below, std::mem::take(root));
        *root = below;
    }

    /// Reads a file and its includes.
    fn read(&mut self, path: &Path, places: &ConfigPlaces) -> Map<String, Json> {
        self.read_within(path, places, &mut Vec::new())
    }

    /// `around` lists the files that include this one.
    fn read_within(&mut self, path: &Path, places: &ConfigPlaces, around: &mut Vec<PathBuf>) -> Map<String, Json> {
        let Document { root: mut own, lines, repeated } =
            match document::read(path).and_then(|text| document::parse(&text)) {
                Ok(document) => document,
                Err(mistake) => {
                    self.note(path, mistake.line, &mistake.message);
                    self.unreadable.push(path.to_owned());
                    self.files.push((path.to_owned(), Lines::default()));
                    return Map::new();
                }
            };
        if let Some(repeated) = repeated {
            self.note(path, repeated.line, &repeated.message);
        }
        self.files.push((path.to_owned(), lines));
        // A file that an untrusted file includes is untrusted too, wherever it is.
        let is_below_untrusted = !self.trust.is_own(path) && around.iter().any(|file| !self.trust.covers(file));
        if is_below_untrusted || !self.trust.covers(path) {
            let taken = take_risky(&mut own);
            if !taken.is_empty() {
                let line = self.line(path, &taken[..1]);
                let keys = taken.join(", ");
                let verb = if taken.len() == 1 { "is" } else { "are" };
                let message = format!("{keys} {verb} not in effect: {UNTRUSTED}");
                self.push(path, &message, NoteFacts { line, untrusted: Some(keys), ..NoteFacts::default() });
            }
        }
        let includes = self.fit(Some(path), "include", INCLUDE.shape(), own.remove("include"));
        let names = includes.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut merged = Map::new();
        around.push(real(path));
        for name in names.iter().filter_map(Json::as_str) {
            let refusal = match self.find_one(include_candidates(name, path, places)) {
                None => format!("found no file '{}' beside this one, in .onetool or in ~/.onetool", shape::short(name)),
                Some(found) if around.contains(&real(&found)) => {
                    format!("'{}' includes this file; files cannot include each other", shape::short(name))
                }
                Some(_) if around.len() > MAX_INCLUDE_DEPTH => {
                    format!(
                        "'{}' is not read: files include each other more than {MAX_INCLUDE_DEPTH} deep",
                        shape::short(name)
                    )
                }
                Some(_) if self.files.len() >= MAX_FILES => {
                    format!("'{}' is not read: more than {MAX_FILES} files are included", shape::short(name))
                }
                Some(found) => {
                    let included = self.read_within(&found, places, around);
                    merge(&mut merged, included);
                    continue;
                }
            };
            let line = self.line(path, &["include".to_owned()]);
            self.note(path, line, &format!("include: {refusal}"));
        }
        around.pop();
        merge(&mut merged, own);
        merged
    }
}

/// Formats `servers, tools_dir are`.
/// The path with links resolved, to recognise a file.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn include_candidates(name: &str, from: &Path, places: &ConfigPlaces) -> [PathBuf; 3] {
    let name = expand_home(name);
    let own = places.own();
    let beside = from.parent().unwrap_or(&own);
    let global = places.global.as_ref().unwrap_or(&own);
    [beside.join(&name), own.join(&name), global.join(&name)]
}

/// Expands `~/x` to a path in the home folder.
pub fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), path, home_folder()) {
        (Some(rest), _, Some(home)) => home.join(rest),
        (_, "~", Some(home)) => home,
        _ => PathBuf::from(path),
    }
}

/// The folder or file of a requirement that is not an index package: `./lib`, `name @ file:///lib`.
pub fn local_package(requirement: &str) -> Option<String> {
    let text = requirement.split_once('@').map_or(requirement, |(_, place)| place).split(" ;").next()?.trim();
    let place = text.trim_start_matches("git+").strip_prefix("file:").map(|path| path.trim_start_matches("//"));
    let path = place.or_else(|| text.starts_with(['.', '/', '~']).then_some(text))?;
    // Extras, a branch or a fragment may follow the path.
    let path = path.split(['[', '#', '@']).next()?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    (!path.is_empty()).then(|| expand_home(path).to_string_lossy().into_owned())
}

/// Merges maps deeply; lists and scalars are replaced.
fn merge(base: &mut Map<String, Json>, over: Map<String, Json>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Json::Object(below)), Json::Object(above)) => merge(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path) -> ConfigPlaces {
        ConfigPlaces { project: folder.join("p"), global: Some(folder.join("home/.onetool")), explicit: None }
    }

    fn write(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_project_wins_over_includes_over_the_global_file() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        write(
            places.global.clone().unwrap().join("onetool.yaml"),
            "alias: {a: g.a, b: g.b}\noutput: {preview_lines: 1}\n",
        );
        write(places.own().join("more.yaml"), "alias: {b: i.b, c: i.c}\n");
        write(places.own().join("onetool.yaml"), "include: [more.yaml]\nalias: {c: p.c}\n");
        let loaded = load(&places);
        assert_eq!(
            Json::Object(loaded.root),
            serde_json::json!({"alias": {"a": "g.a", "b": "i.b", "c": "p.c"}, "output": {"preview_lines": 1}})
        );
        assert!(loaded.notes.is_empty());
    }

    #[test]
    fn inherit_none_leaves_the_global_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        write(places.global.clone().unwrap().join("onetool.yaml"), "alias: {a: g.a}\n");
        write(places.own().join("config/onetool.yaml"), "inherit: none\n");
        assert!(load(&places).root.is_empty());
    }

    #[test]
    fn broken_files_are_noted_not_fatal() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        write(places.own().join("onetool.yaml"), "include: [gone.yaml]\nalias: [\n");
        let loaded = load(&places);
        assert_eq!(loaded.notes.len(), 1, "{:?}", loaded.notes);
    }

    #[test]
    fn the_project_is_found_from_a_folder_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let deep = home.join("work/app/src/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(home.join(".onetool")).unwrap();
        assert_eq!(nearest_project(&deep, Some(&home)), None);
        std::fs::create_dir_all(home.join("work/app/.onetool")).unwrap();
        assert_eq!(nearest_project(&deep, Some(&home)), Some(home.join("work/app")));
        std::fs::create_dir_all(deep.join(".onetool")).unwrap();
        assert_eq!(nearest_project(&deep, Some(&home)), Some(deep));
        assert_eq!(nearest_project(&home, Some(&home)), None);
    }

    #[test]
    fn requirements_that_are_of_this_machine_are_told_from_others() {
        for (requirement, path) in [
            ("pandas", None),
            ("numpy==2.*; python_version > '3.8'", None),
            ("x @ https://example.org/x.whl", None),
            ("x @ git+https://example.org/x@main", None),
            ("./lib", Some("./lib")),
            ("../lib[fast]", Some("../lib")),
            ("/srv/lib", Some("/srv/lib")),
            ("x @ file:///srv/lib ; python_version > '3.8'", Some("/srv/lib")),
            ("x @ file://localhost/srv/lib", Some("/srv/lib")),
            ("x @ git+file:///srv/lib@main", Some("/srv/lib")),
        ] {
            assert_eq!(local_package(requirement).as_deref(), path, "{requirement}");
        }
    }

    #[test]
    fn where_a_file_would_count_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let places = ConfigPlaces { explicit: Some(folder.path().join("p/conf/a.yaml")), ..places(folder.path()) };
        write(places.explicit.clone().unwrap(), "include: [gone.yaml, shared.yaml]\n");
        write(places.own().join("shared.yaml"), "alias: {a: x.a}\n");
        let loaded = load(&places);
        assert!(loaded.absent.contains(&folder.path().join("p/conf/gone.yaml")), "{:?}", loaded.absent);
        assert_eq!(loaded.passed, [folder.path().join("p/conf/shared.yaml")]);
    }

    fn messages(places: &ConfigPlaces) -> Vec<String> {
        load(places).notes.into_iter().map(|note| note.message).collect()
    }

    #[test]
    fn what_cannot_be_included_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let file = places.own().join("onetool.yaml");
        let said = |text: &str| {
            write(file.clone(), text);
            messages(&places)
        };
        assert_eq!(
            said("# x\ninclude: [gone.yaml]\n"),
            ["line 2: include: found no file 'gone.yaml' beside this one, in .onetool or in ~/.onetool"]
        );
        assert_eq!(said("include: [5]\n"), ["line 1: include[0]: found a number, expected text (put it in quotes)"]);
        assert_eq!(said("include: {a: b}\n"), ["line 1: include: found a mapping, expected text, or a list of such"]);
        assert_eq!(
            said("include: onetool.yaml\n"),
            ["line 1: include: 'onetool.yaml' includes this file; files cannot include each other"]
        );
        write(places.own().join("a.yaml"), "include: b.yaml\nalias: {a: x.a}\n");
        write(places.own().join("b.yaml"), "include: a.yaml\nalias: {b: x.b}\n");
        assert_eq!(
            said("include: [a.yaml, b.yaml]\n"),
            [
                "line 1: include: 'a.yaml' includes this file; files cannot include each other",
                "line 1: include: 'b.yaml' includes this file; files cannot include each other"
            ]
        );
        std::fs::create_dir(places.own().join("folder.yaml")).unwrap();
        assert_eq!(said("include: folder.yaml\n"), ["expected a file, found a folder"]);
        assert_eq!(said("inherit: [global]\n"), ["line 1: inherit: found a list, expected global, bundled or none"]);
    }

    #[test]
    fn whatever_has_the_files_name_is_told_if_it_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        std::fs::create_dir_all(places.own().join("onetool.yaml")).unwrap();
        assert_eq!(messages(&places), ["expected a file, found a folder"]);
        std::fs::remove_dir(places.own().join("onetool.yaml")).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", places.own().join("onetool.yaml")).unwrap();
            assert_eq!(messages(&places), ["this file does not exist"]);
        }
    }
}
