//! Which files count, and how they merge.

use std::path::{Path, PathBuf};

use onetool_sdk::{HealthNote, Severity};
use serde_json::{Map, Value as Json};

use super::locate;

/// Where configuration is looked for.
#[derive(Debug, Clone)]
pub struct ConfigPlaces {
    /// The project's folder; `.onetool` below it holds what is ours.
    pub project: PathBuf,
    /// `~/.onetool`
    pub global: Option<PathBuf>,
    /// The file that overrides the search.
    pub explicit: Option<PathBuf>,
}

impl ConfigPlaces {
    /// From the working directory and the environment.
    pub fn from_environment(explicit: Option<PathBuf>) -> std::io::Result<Self> {
        let folder = std::env::current_dir()?;
        let global = std::env::home_dir().map(|home| home.join(".onetool"));
        let explicit = explicit.or_else(|| std::env::var_os("ONETOOL_CONFIG").map(PathBuf::from));
        let explicit = explicit.map(|path| folder.join(path));
        // A configuration that lies in some project's `.onetool` speaks for that project.
        let owner = explicit
            .as_deref()
            .and_then(|path| path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".onetool")));
        let project = match (owner.and_then(Path::parent), &global) {
            (Some(project), global) if global.as_deref() != owner => project.to_owned(),
            _ => folder,
        };
        Ok(Self { project, global, explicit })
    }

    /// `.onetool` of the project.
    pub fn own(&self) -> PathBuf {
        self.project.join(".onetool")
    }
}

/// A configuration, merged.
#[derive(Debug, Clone, Default)]
pub struct LoadedConfig {
    pub root: Map<String, Json>,
    /// The files that were read, the strongest first, with their text.
    pub files: Vec<(PathBuf, String)>,
    /// Files that are there and could not be understood at all. Each has a note.
    pub unreadable: Vec<PathBuf>,
    pub notes: Vec<HealthNote>,
}

/// Files larger than this are not read.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Files that include files that include …: this deep at the most.
const MAX_INCLUDE_DEPTH: usize = 8;

/// Reads and merges all files that count.
pub fn load(places: &ConfigPlaces) -> LoadedConfig {
    let mut loaded = LoadedConfig::default();
    let candidates = |folder: &Path| [folder.join("onetool.yaml"), folder.join("config/onetool.yaml")];
    let project_file = match &places.explicit {
        Some(path) => {
            if !path.is_file() {
                loaded.note(Severity::Error, path, "this configuration file does not exist");
            }
            Some(path.clone())
        }
        None => candidates(&places.own()).into_iter().find(|path| path.is_file()),
    };
    let global_file =
        places.global.as_deref().and_then(|folder| candidates(folder).into_iter().find(|path| path.is_file()));
    let mut project = project_file.map(|path| loaded.read(&path, places, 0)).unwrap_or_default();
    let inherit = project.remove("inherit").and_then(|value| value.as_str().map(str::to_owned));
    let inherits = match inherit.as_deref() {
        None | Some("global") => true,
        Some("bundled" | "none") => false,
        Some(other) => {
            let subject = places.own().join("onetool.yaml");
            loaded.note(
                Severity::Error,
                &subject,
                &format!("inherit: '{other}' is not known; expected global, bundled or none"),
            );
            true
        }
    };
    let mut root = match global_file {
        Some(path) if inherits => loaded.read(&path, places, 0),
        _ => Map::new(),
    };
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
    fn note(&mut self, severity: Severity, path: &Path, message: &str) {
        self.notes.push(HealthNote { severity, subject: path.display().to_string(), message: message.to_owned() });
    }

    fn refuse(&mut self, path: &Path, message: &str) {
        self.note(Severity::Error, path, message);
        self.unreadable.push(path.to_owned());
    }

    /// `prompts.yaml` and its like: the section alone, or a file with the section's name on top. Weaker than what is
    /// there already.
    fn read_section(
        &mut self,
        folder: &Path,
        file: &str,
        key: &str,
        places: &ConfigPlaces,
        root: &mut Map<String, Json>,
    ) {
        let Some(path) = [folder.join(file), folder.join("config").join(file)].into_iter().find(|path| path.is_file())
        else {
            return;
        };
        let mut content = self.read(&path, places, 0);
        let section = match content.remove(key) {
            Some(Json::Object(section)) => section,
            _ => content,
        };
        let mut below = Map::new();
        below.insert(key.to_owned(), Json::Object(section));
        merge(&mut below, std::mem::take(root));
        *root = below;
    }

    /// Reads a file with everything that it includes.
    fn read(&mut self, path: &Path, places: &ConfigPlaces, depth: usize) -> Map<String, Json> {
        if depth > MAX_INCLUDE_DEPTH {
            self.note(Severity::Error, path, "included more than 8 files deep; do files include each other?");
            return Map::new();
        }
        let too_large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_FILE_BYTES);
        if too_large {
            self.refuse(path, "larger than 4 MB; not read");
            return Map::new();
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.refuse(path, &format!("cannot be read: {error}"));
                return Map::new();
            }
        };
        let content = match parse(&text) {
            Ok(content) => content,
            Err(message) => {
                self.refuse(path, &message);
                Map::new()
            }
        };
        self.files.push((path.to_owned(), text));
        let mut own = content;
        let includes = own.remove("include");
        let mut merged = Map::new();
        for name in names(includes.as_ref()) {
            match find_include(&name, path, places) {
                Some(found) => {
                    let included = self.read(&found, places, depth + 1);
                    merge(&mut merged, included);
                }
                None => {
                    let line = locate::line(
                        &self.files.last().map(|(_, text)| text.clone()).unwrap_or_default(),
                        &["include"],
                    );
                    self.note(
                        Severity::Error,
                        path,
                        &format!("{}include: no file '{name}' beside it or in the global folder", locate::at(line)),
                    );
                }
            }
        }
        merge(&mut merged, own);
        merged
    }
}

fn names(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::String(name)) => vec![name.clone()],
        Some(Json::Array(items)) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

fn find_include(name: &str, from: &Path, places: &ConfigPlaces) -> Option<PathBuf> {
    let name = name.strip_prefix("~/").map_or_else(
        || PathBuf::from(name),
        |rest| std::env::home_dir().map_or_else(|| PathBuf::from(rest), |home| home.join(rest)),
    );
    let folders = [from.parent().map(Path::to_owned), Some(places.own()), places.global.clone()];
    folders.into_iter().flatten().map(|folder| folder.join(&name)).find(|path| path.is_file())
}

/// YAML to JSON. An empty file is an empty mapping.
pub(super) fn parse(text: &str) -> Result<Map<String, Json>, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str::<Json>(text) {
        Ok(Json::Object(map)) => Ok(map),
        Ok(Json::Null) => Ok(Map::new()),
        Ok(_) => Err("line 1: expected a mapping of keys at the top".to_owned()),
        Err(error) => Err(format!("no valid YAML: {}", error.to_string().lines().next().unwrap_or("unreadable"))),
    }
}

/// Maps merge deeply; lists and scalars replace.
pub(super) fn merge(base: &mut Map<String, Json>, over: Map<String, Json>) {
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
        write(places.own().join("onetool.yaml"), "# x\ninclude: [gone.yaml, onetool.yaml]\n");
        let loaded = load(&places);
        assert!(loaded.notes[0].message.contains("gone.yaml"), "{:?}", loaded.notes);
    }
}
