//! Protects what tool files can import, outside the sandbox: the folder of a tool file is on Python's search path.
//!
//! A folder of its own is protected as a whole. A folder that is (or contains) a file root, where people also keep other
//! work, stays usable: there, only the modules that the tool files import are protected, directly or through each other,
//! and whatever would be a new module or package. The folder comes last on the search path, so a new one can't take the
//! place of an installed package or of Python's own modules, but an installed package may look for one that is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use onetool_packs::file::Guard;
use onetool_sandbox::is_standard_module;

/// Files that Python imports, as a pattern.
const IMPORTABLE: &str = "*.{py,pyc,pyd,so,pth}";
/// Modules that workers provide themselves.
const PROVIDED: &[&str] = &["onetool", "ot_sdk"];
/// Names in the source of a file whose imports can't be known from its import statements.
const DYNAMIC: &[&str] =
    &["import_module", "__import__", "sys.path", "runpy", "addsitedir", "spec_from_file_location", "exec("];
/// Maximum number of files that are searched for imports, for one tool file.
const MAX_FILES: usize = 500;
/// Maximum number of entries of folders that are looked at, for one tool file.
const MAX_ENTRIES: usize = 20_000;
/// Maximum size of a file that is searched for imports.
const MAX_FILE: u64 = 1 << 20;

/// Protects what this tool file can import.
pub(super) fn protect(guard: &mut Guard, file: &Path, roots: &[PathBuf]) {
    let real = fs::canonicalize(file).ok();
    let folders: BTreeSet<&Path> =
        [Some(file), real.as_deref()].into_iter().flatten().filter_map(Path::parent).collect();
    for folder in folders {
        protect_folder(guard, folder, roots);
        if contains_root(folder, roots) {
            protect_modules(guard, folder, file);
        }
    }
}

/// Protects a folder that tools import from. If it is or contains a root, only the modules in it are protected.
pub(super) fn protect_folder(guard: &mut Guard, folder: &Path, roots: &[PathBuf]) {
    if contains_root(folder, roots) {
        guard.protect_imports(folder, IMPORTABLE);
        guard.protect_imports(folder, "__pycache__/*");
    } else {
        guard.protect(folder);
    }
}

/// The same for the folders that match a pattern.
pub(super) fn protect_folders(guard: &mut Guard, base: &Path, pattern: &str) {
    guard.protect_imports(base, &format!("{pattern}/{IMPORTABLE}"));
    guard.protect_imports(base, &format!("{pattern}/__pycache__/*"));
}

fn contains_root(folder: &Path, roots: &[PathBuf]) -> bool {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    roots.iter().any(|root| fs::canonicalize(root).unwrap_or_else(|_| root.clone()).starts_with(&folder))
}

fn protect_modules(guard: &mut Guard, folder: &Path, file: &Path) {
    let mut search = Search { folder, names: BTreeSet::new(), files: vec![file.to_owned()], seen: 0, entries: 0 };
    if search.run().is_none() {
        guard.protect_imports(folder, &format!("**/{IMPORTABLE}"));
        return;
    }
    for name in &search.names {
        guard.protect_imports(folder, &format!("{name}/**/{IMPORTABLE}"));
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let others: Vec<PathBuf> = entries
        .filter(|entry| !search.names.contains(entry.file_name().to_string_lossy().as_ref()))
        .map(|entry| entry.path())
        .filter(|path| path.join("__init__.py").is_file())
        .collect();
    guard.protect_new_packages(folder, "*/__init__.*", &others);
}

/// Follows the imports of a tool file within its folder.
struct Search<'a> {
    folder: &'a Path,
    /// The imported modules that are not Python's own, whether they exist in the folder or not.
    names: BTreeSet<String>,
    /// The files still to be searched.
    files: Vec<PathBuf>,
    seen: usize,
    entries: usize,
}

impl Search<'_> {
    /// Returns nothing if the imports can't be known.
    fn run(&mut self) -> Option<()> {
        while let Some(file) = self.files.pop() {
            self.seen += 1;
            let is_small = fs::metadata(&file).ok()?.len() <= MAX_FILE;
            let source = fs::read(&file).ok().filter(|_| is_small && self.seen <= MAX_FILES)?;
            let source = String::from_utf8_lossy(&source);
            if DYNAMIC.iter().any(|name| source.contains(name)) {
                return None;
            }
            for name in imported(&source) {
                if self.names.insert(name.clone()) {
                    let module = self.folder.join(format!("{name}.py"));
                    self.files.extend(module.is_file().then_some(module));
                    self.add_folder(&self.folder.join(&name))?;
                }
            }
        }
        Some(())
    }

    /// Adds the files of a package.
    fn add_folder(&mut self, package: &Path) -> Option<()> {
        let mut folders = vec![package.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries > MAX_ENTRIES {
                    return None;
                }
                let (path, kind) = (entry.path(), entry.file_type().ok()?);
                if kind.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "py") {
                    self.files.push(path);
                }
            }
        }
        Some(())
    }
}

/// The modules that import statements name, without Python's own and relative ones. What looks like a statement in a
/// string counts too.
fn imported(source: &str) -> BTreeSet<String> {
    let source = source.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut names = BTreeSet::new();
    for statement in source.split(['\n', '\r', ';', ':']) {
        let statement = statement.trim_start();
        let rest = |word: &str| statement.strip_prefix(word).filter(|rest| rest.starts_with(char::is_whitespace));
        let modules: Vec<&str> = match (rest("import"), rest("from")) {
            (Some(modules), _) => modules.split(',').collect(),
            (None, Some(module)) => vec![module],
            (None, None) => continue,
        };
        names.extend(modules.into_iter().filter_map(|module| {
            let name = module.trim().split(|c: char| c != '_' && !c.is_alphanumeric()).next()?;
            let counts = !name.is_empty() && !is_standard_module(name) && !PROVIDED.contains(&name);
            counts.then(|| name.to_owned())
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_wherever_they_are_written() {
        let source = "import os, lib.sub as l\nfrom . import near\nfrom more.x import (\n    a,\n)\ntry: import fast\nexcept: \
                      pass\nif 1:\n    import one; import two\nimport \\\n    three\nimportant = 1\nfrom onetool import log\n";
        let found: Vec<String> = imported(source).into_iter().collect();
        assert_eq!(found, ["fast", "lib", "more", "one", "three", "two"]);
    }
}
