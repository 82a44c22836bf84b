//! Where tool files may be: the project's folder, the configured patterns, the user's folder, in that order.
//! The order is the precedence: of two files that offer the same pack, the one found first wins.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

use super::settings::WorkerSettings;
use super::tool_file::FileProblem;

/// How many folder entries one search looks at, so that a pattern such as `/**/*.py` ends.
const MAX_ENTRIES: usize = 50_000;

/// A file that may offer tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// The pack's name unless the file says otherwise.
    pub(super) default_pack: String,
}

/// All candidates in order of precedence, and what is wrong with the places themselves.
pub(super) fn candidates(settings: &WorkerSettings) -> (Vec<Candidate>, Vec<(String, FileProblem)>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    if let Some(folder) = &settings.project_tools {
        in_folder(folder, &mut found, &mut problems);
    }
    for pattern in &settings.tools_dir {
        if let Err(problem) = by_pattern(&settings.folder, pattern, &mut found) {
            problems.push((pattern.clone(), problem));
        }
    }
    if let Some(folder) = &settings.global_tools {
        in_folder(folder, &mut found, &mut problems);
    }
    let mut seen = HashSet::new();
    found.retain(|candidate: &Candidate| seen.insert(candidate.path.clone()));
    (found, problems)
}

/// `<pack>/<pack>_tools.py` below a folder.
fn in_folder(folder: &Path, found: &mut Vec<Candidate>, problems: &mut Vec<(String, FileProblem)>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            problems.push((folder.display().to_string(), FileProblem::new(format!("can't be read: {error}"))));
            return;
        }
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(['.', '_']))
        .take(MAX_ENTRIES)
        .collect();
    names.sort();
    for name in names {
        let path = folder.join(&name).join(format!("{name}_tools.py"));
        if path.is_file() {
            found.push(Candidate { path, default_pack: onetool_sdk::to_python_identifier(&name) });
        }
    }
}

fn by_pattern(base: &Path, pattern: &str, found: &mut Vec<Candidate>) -> Result<(), FileProblem> {
    let full = base.join(pattern);
    // The part before the first wildcard is a plain folder.
    let is_wild = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let root: PathBuf = full.components().take_while(|part| !is_wild(part)).collect();
    if root == full {
        if full.is_dir() {
            return by_pattern(base, &format!("{}/*.py", pattern.trim_end_matches('/')), found);
        }
        push_file(full, found);
        return Ok(());
    }
    let matcher = GlobBuilder::new(&full.to_string_lossy())
        .literal_separator(true)
        .build()
        .map_err(|error| FileProblem::new(format!("is not a valid pattern: {error}")))?
        .compile_matcher();
    let depth = if pattern.contains("**") { usize::MAX } else { full.components().count() - root.components().count() };
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut folders = vec![(root, 1_usize)];
    let mut looked_at = 0;
    while let Some((folder, level)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            looked_at += 1;
            if looked_at > MAX_ENTRIES {
                return Err(FileProblem::new(format!(
                    "matches more than {MAX_ENTRIES} entries; use a narrower pattern"
                )));
            }
            let path = entry.path();
            // Links to folders are not followed: they may lead back.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if level < depth {
                    folders.push((path, level + 1));
                }
            } else if matcher.is_match(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    for path in paths {
        push_file(path, found);
    }
    Ok(())
}

fn push_file(path: PathBuf, found: &mut Vec<Candidate>) {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    if !is_python || stem.starts_with(['_', '.']) || !path.is_file() {
        return;
    }
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = match (stem.strip_suffix("_tools"), folder) {
        (Some(pack), Some(folder)) if pack == folder => pack.to_owned(),
        _ => stem,
    };
    found.push(Candidate { path, default_pack: onetool_sdk::to_python_identifier(&name) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "def a(): ...\n").unwrap();
    }

    #[test]
    fn places_are_searched_in_order_of_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [
            "p/a/a_tools.py",
            "p/b/other.py",
            "p/c.py",
            "p/_d.py",
            "p/deep/er/e.py",
            "g/a/a_tools.py",
            "g/z/z_tools.py",
        ] {
            put(root, name);
        }
        let settings = WorkerSettings {
            project_tools: Some(root.join("p")),
            global_tools: Some(root.join("g")),
            tools_dir: vec!["p/*.py".into(), "p/*/*.py".into(), "p/[".into(), "missing/*.py".into()],
            folder: root.to_owned(),
            ..WorkerSettings::default()
        };
        let (found, problems) = candidates(&settings);
        let found: Vec<(String, &str)> = found
            .iter()
            .map(|c| (c.path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), c.default_pack.as_str()))
            .collect();
        let expected = [
            ("p/a/a_tools.py", "a"),
            ("p/c.py", "c"),
            ("p/b/other.py", "other"),
            ("g/a/a_tools.py", "a"),
            ("g/z/z_tools.py", "z"),
        ];
        assert_eq!(found, expected.map(|(path, pack)| (path.to_owned(), pack)));
        assert_eq!(problems.iter().map(|(pattern, _)| pattern.as_str()).collect::<Vec<_>>(), ["p/["]);
    }
}
