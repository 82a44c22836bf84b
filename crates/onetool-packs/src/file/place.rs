//! Resolves a caller's path to a place inside a root.
//!
//! Every place is a directory handle and a path below it, and everything is opened through that handle: no symbolic
//! link, `..`, absolute path or concurrently replaced folder leads outside, because the kernel resolves the path
//! beneath the handle. The path is canonical, so that rules on paths apply to the real location.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata};
use onetool_sdk::ToolError;

use super::settings::{FileSettings, real};

/// Maximum number of names in a folder that are compared with a missing one.
const MAX_COMPARED_NAMES: usize = 5000;
const MAX_SUGGESTIONS: usize = 3;

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

/// A place inside a root.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: Dir,
    /// The root's own path, for display and for walking.
    pub(super) root: PathBuf,
    /// Canonical and below `dir`; `.` is the root itself.
    pub(super) relative: PathBuf,
    /// The path as the caller may use it: relative in the first root, absolute elsewhere.
    pub(super) shown: String,
}

impl Place {
    pub(super) fn is_root(&self) -> bool {
        self.relative == Path::new(".")
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.dir.symlink_metadata(&self.relative)
    }

    /// Refuses a folder, or a link to one, whose move would add or remove tool files at this place.
    pub(super) fn check_folder(&self, settings: &FileSettings) -> Result<(), ToolError> {
        if settings.is_fixed_folder(&real(&self.root), &self.relative) {
            let message = format!("{} is protected: tools are loaded from below it", self.shown);
            return Err(ToolError::denied(message).with_hint("ask the user to change it"));
        }
        Ok(())
    }

    /// Opens a regular file. A pipe or a device is refused without waiting for it.
    pub(super) fn open_file(&self) -> Result<File, ToolError> {
        let file = open_at(&self.dir, &self.relative).map_err(|error| io_error(&self.shown, &error))?;
        let metadata = file.metadata().map_err(|error| io_error(&self.shown, &error))?;
        if metadata.is_dir() {
            return Err(is_a_directory(&self.shown));
        }
        if !metadata.is_file() {
            return Err(ToolError::value_error(format!("{} is not a regular file", self.shown)));
        }
        Ok(file)
    }
}

/// Opens for reading, without waiting for the other end of a pipe.
///
/// The path is canonical, and links in it are not followed: a link that replaces a folder after the rules were checked
/// leads nowhere.
#[cfg(unix)]
pub(super) fn open_at(dir: &Dir, relative: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    let way = common | OFlags::DIRECTORY | OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let way = common | OFlags::DIRECTORY | OFlags::RDONLY;
    let goal = common | OFlags::RDONLY | OFlags::NONBLOCK;
    let mut parts = relative.components().peekable();
    let mut folder: Option<std::os::fd::OwnedFd> = None;
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => std::ffi::OsStr::new("."),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let flags = if parts.peek().is_some() { way } else { goal };
        folder = Some(match &folder {
            Some(folder) => openat(folder, name, flags, Mode::empty())?,
            None => openat(dir, name, flags, Mode::empty())?,
        });
    }
    let opened = folder.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(File::from_std(opened.into()))
}

#[cfg(not(unix))]
pub(super) fn open_at(dir: &Dir, relative: &Path) -> io::Result<File> {
    dir.open_with(relative, cap_std::fs::OpenOptions::new().read(true))
}

/// Resolves an existing path, following links.
pub(super) fn existing(settings: &FileSettings, path: &str, purpose: Purpose) -> Result<Place, ToolError> {
    let start = start(settings, path)?;
    start.dir.metadata(&start.given).map_err(|error| start.explain(settings, path, &error))?;
    let relative = start.canonicalize(&start.given).map_err(|error| start.explain(settings, path, &error))?;
    start.place(settings, relative, purpose)
}

/// Resolves a path that may not exist: links are followed as far as it exists.
pub(super) fn target(settings: &FileSettings, path: &str) -> Result<Place, ToolError> {
    if path.ends_with(['/', std::path::MAIN_SEPARATOR]) {
        return Err(ToolError::raised("IsADirectoryError", format!("{path} names a folder, not a file")));
    }
    let (start, relative) = reached(settings, path)?;
    start.place(settings, relative, Purpose::Write)
}

/// The absolute path of a file for a tool outside this pack, by the same rules. It may be missing, or be a folder in
/// which the tool reads or writes.
pub(super) fn elsewhere(settings: &FileSettings, path: &str, purpose: Purpose) -> Result<PathBuf, ToolError> {
    let (start, relative) = reached(settings, path)?;
    let (root, is_folder) = (real(&start.root), start.dir.metadata(&relative).is_ok_and(|metadata| metadata.is_dir()));
    let strictness = if is_folder { Purpose::Read } else { purpose };
    let place = start.place(settings, relative, strictness)?;
    if is_folder && purpose == Purpose::Write && settings.is_within_protected(&root, &place.relative) {
        return Err(protected(settings, &root.join(&place.relative), &place.shown));
    }
    Ok(if place.is_root() { root } else { root.join(&place.relative) })
}

/// Resolves a path below a root.
fn reached(settings: &FileSettings, path: &str) -> Result<(Start, PathBuf), ToolError> {
    let start = start(settings, path)?;
    let mut existing = start.given.clone();
    let mut missing: Vec<std::ffi::OsString> = Vec::new();
    loop {
        match start.dir.metadata(&existing) {
            Ok(metadata) if !missing.is_empty() && !metadata.is_dir() => {
                let shown = existing.display();
                return Err(ToolError::raised("NotADirectoryError", format!("{shown} is a file, not a folder")));
            }
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if start.dir.symlink_metadata(&existing).is_ok() {
                    return Err(ToolError::value_error(format!("{} is a link to nothing", existing.display())));
                }
                let Some(Component::Normal(name)) = existing.components().next_back() else {
                    return Err(start.explain(settings, path, &error));
                };
                missing.push(name.to_owned());
                existing.pop();
                if existing.as_os_str().is_empty() {
                    existing.push(".");
                }
            }
            Err(error) => return Err(start.explain(settings, path, &error)),
        }
    }
    let mut relative = start.canonicalize(&existing).map_err(|error| start.explain(settings, path, &error))?;
    relative.extend(missing.iter().rev());
    Ok((start, without_dots(&relative)))
}

/// Resolves the directory entry itself: a link is not followed.
pub(super) fn entry(settings: &FileSettings, path: &str, purpose: Purpose) -> Result<Place, ToolError> {
    let start = start(settings, path)?;
    start.dir.symlink_metadata(&start.given).map_err(|error| start.explain(settings, path, &error))?;
    let relative = match (start.given.parent(), start.given.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let parent = start.canonicalize(parent).map_err(|error| start.explain(settings, path, &error))?;
            parent.join(name)
        }
        _ => start.canonicalize(&start.given).map_err(|error| start.explain(settings, path, &error))?,
    };
    start.place(settings, without_dots(&relative), purpose)
}

/// A root and the unresolved path below it.
struct Start {
    dir: Dir,
    root: PathBuf,
    first: bool,
    given: PathBuf,
}

fn start(settings: &FileSettings, path: &str) -> Result<Start, ToolError> {
    if path.is_empty() {
        return Err(ToolError::value_error("the path is empty").with_hint("`.` is the first root"));
    }
    if path.contains('\0') {
        return Err(ToolError::value_error("the path contains a zero byte"));
    }
    let given = Path::new(path);
    if given.is_relative() {
        let root = settings.roots.first().ok_or_else(no_root)?;
        return open_root(root, true, given.to_owned());
    }
    for (index, root) in settings.roots.iter().enumerate() {
        // The caller may use the root's name from the settings or its real one.
        let real = std::fs::canonicalize(root).ok();
        let below =
            given.strip_prefix(root).ok().or_else(|| real.as_ref().and_then(|real| given.strip_prefix(real).ok()));
        if let Some(below) = below {
            return open_root(root, index == 0, below.to_owned());
        }
    }
    Err(outside(settings, path))
}

fn open_root(root: &Path, first: bool, given: PathBuf) -> Result<Start, ToolError> {
    let dir = Dir::open_ambient_dir(root, ambient_authority())
        .map_err(|error| ToolError::unavailable(format!("the root {} can't be opened: {error}", root.display())))?;
    let given = if given.as_os_str().is_empty() { PathBuf::from(".") } else { given };
    Ok(Start { dir, root: root.to_owned(), first, given })
}

impl Start {
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.dir.canonicalize(path).map(|path| without_dots(&path))
    }

    fn place(self, settings: &FileSettings, relative: PathBuf, purpose: Purpose) -> Result<Place, ToolError> {
        let shown = shown(&self.root, self.first, &relative);
        let real_root = real(&self.root);
        if settings.is_unreadable(&real_root, &relative) {
            return Err(ToolError::denied(format!("{shown} holds secrets; tools may not use it")));
        }
        if purpose == Purpose::Write && settings.is_protected(&real_root, &relative) {
            return Err(protected(settings, &real_root.join(&relative), &shown));
        }
        Ok(Place { dir: self.dir, root: self.root, relative, shown })
    }

    fn explain(&self, settings: &FileSettings, path: &str, error: &io::Error) -> ToolError {
        // The kernel's own errors have a number; the error for leaving the root has none.
        if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return outside(settings, path);
        }
        let explained = io_error(path, error);
        if error.kind() != io::ErrorKind::NotFound {
            return explained;
        }
        let near = self.near_names();
        match near.as_slice() {
            [] => explained
                .with_hint(format!("paths are relative to {}; see file.list or file.glob", self.root.display())),
            near => explained.with_hint(format!("did you mean {}?", near.join(", "))),
        }
    }

    /// Existing names that are similar to the first missing part of the path.
    fn near_names(&self) -> Vec<String> {
        let mut folder = PathBuf::from(".");
        for component in self.given.components() {
            let next = folder.join(component);
            if self.dir.symlink_metadata(&next).is_ok() {
                folder = next;
                continue;
            }
            let missing = component.as_os_str().to_string_lossy();
            let Ok(entries) = self.dir.read_dir(&folder) else { return Vec::new() };
            let mut names: Vec<String> = entries
                .flatten()
                .take(MAX_COMPARED_NAMES)
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort_unstable();
            return onetool_sdk::nearest_few(&missing, names.iter().map(String::as_str), MAX_SUGGESTIONS)
                .into_iter()
                .map(|name| shown(&self.root, self.first, &without_dots(&folder.join(name))))
                .collect();
        }
        Vec::new()
    }
}

/// The path as text, with `/` between its parts.
pub(super) fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

pub(super) fn shown(root: &Path, first: bool, relative: &Path) -> String {
    match (first, relative == Path::new(".")) {
        (true, _) => slashed(relative),
        (false, true) => root.display().to_string(),
        (false, false) => root.join(relative).display().to_string(),
    }
}

fn without_dots(path: &Path) -> PathBuf {
    let clean: PathBuf = path.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean }
}

fn protected(settings: &FileSettings, path: &Path, shown: &str) -> ToolError {
    if settings.guard.is_import(path) {
        return ToolError::denied(format!("{shown} is protected: a tool file in a folder above it may import it"))
            .with_hint(
                "ask the user to change it, or to move the tool file into a folder of its own and name that in tools_dir",
            );
    }
    ToolError::denied(format!("{shown} is protected: it governs what tools may do"))
        .with_hint("ask the user to change it")
}

/// The error if the program was started outside a project.
fn no_root() -> ToolError {
    ToolError::denied("no folder is open to file tools: onetool was started in the home folder, above it or in /").with_hint(
        "start it in the project's folder, or set tools.file.roots in ~/.onetool/onetool.yaml, e.g. [\"~/projects/app\"]",
    )
}

fn outside(settings: &FileSettings, path: &str) -> ToolError {
    if settings.roots.is_empty() {
        return no_root();
    }
    let roots: Vec<String> = settings.roots.iter().map(|root| root.display().to_string()).collect();
    ToolError::denied(format!("{path} is outside the folders that tools may use"))
        .with_hint(format!("allowed: {}", roots.join(", ")))
}

pub(super) fn is_a_directory(shown: &str) -> ToolError {
    ToolError::raised("IsADirectoryError", format!("{shown} is a folder, not a file"))
        .with_hint(format!("file.list({shown:?}) shows what is in it"))
}

/// Converts a file system error to Python's exception.
pub(super) fn io_error(shown: &str, error: &io::Error) -> ToolError {
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::raised("FileNotFoundError", format!("{shown} does not exist")),
        io::ErrorKind::PermissionDenied => ToolError::denied(format!("{shown}: permission denied")),
        io::ErrorKind::IsADirectory => is_a_directory(shown),
        io::ErrorKind::NotADirectory => {
            ToolError::raised("NotADirectoryError", format!("{shown}: a part of the path is a file, not a folder"))
        }
        io::ErrorKind::AlreadyExists => ToolError::raised("FileExistsError", format!("{shown} exists already")),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => {
            ToolError::value_error(format!("{shown} is not a valid path: {error}"))
        }
        _ => ToolError::raised("OSError", format!("{shown}: {error}")),
    }
}
