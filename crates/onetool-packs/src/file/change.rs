//! Changes files, all or nothing.
//!
//! New content is first written to a temporary file next to its target and flushed. Then each target is checked to be
//! still the file that the change was computed from. Only then are the files renamed; if one rename fails, the earlier
//! ones are undone. A replacement keeps the mode bits and the owner of the old file.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata, OpenOptions};
use onetool_sdk::{ErrorKind, ToolError};

use super::content::Content;
use super::place::{Place, io_error, is_a_directory};
use super::settings::FileSettings;
use super::trash;

/// A file before a change.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) content: Content,
    metadata: Metadata,
}

/// One file's change: `after` is its new content, or `None` to remove it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) place: Place,
    pub(super) before: Option<Before>,
    pub(super) after: Option<Vec<u8>>,
    /// New mode bits; `None` keeps the current ones.
    pub(super) mode: Option<u32>,
}

impl Before {
    /// The mode bits, if the system has them.
    #[cfg(unix)]
    #[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
    pub(super) fn mode(&self) -> Option<u32> {
        use cap_std::fs::MetadataExt as _;
        Some(self.metadata.mode() & 0o7777)
    }

    /// The mode bits, if the system has them.
    #[cfg(not(unix))]
    pub(super) fn mode(&self) -> Option<u32> {
        None
    }
}

/// Reads the file at `place` before a change; `None` if there is none.
pub(super) fn before(settings: &FileSettings, place: &Place) -> Result<Option<Before>, ToolError> {
    let metadata = match place.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&place.shown, &error)),
    };
    if metadata.is_dir() {
        return Err(is_a_directory(&place.shown));
    }
    if metadata.permissions().readonly() {
        return Err(ToolError::denied(format!("{} is read-only", place.shown)));
    }
    let content = Content::load(place, settings.max_write_bytes)?;
    Ok(Some(Before { content, metadata }))
}

/// Applies all changes, or none.
pub(super) fn apply(settings: &FileSettings, changes: &[Change]) -> Result<(), ToolError> {
    let mut staged = Vec::with_capacity(changes.len());
    for change in changes {
        staged.push(match &change.after {
            Some(bytes) => Some(Staged::write(change, bytes, change.mode)?),
            None => None,
        });
    }
    for change in changes {
        check_unchanged(settings, change)?;
    }
    let mut done: Vec<Done> = Vec::with_capacity(changes.len());
    for (change, staged) in changes.iter().zip(staged) {
        let outcome = match staged {
            Some(staged) => staged.commit(change).map(|()| Done::Written(change)),
            None => trash::discard(settings, &change.place).map(|at| Done::Discarded(change, at)),
        };
        match outcome {
            Ok(step) => done.push(step),
            Err(error) => return Err(undo(done, error)),
        }
    }
    Ok(())
}

/// Fails if the file was modified after the change was computed.
fn check_unchanged(settings: &FileSettings, change: &Change) -> Result<(), ToolError> {
    let now = match before(settings, &change.place) {
        Ok(now) => now.map(|now| now.content.hash),
        Err(error) => return Err(error),
    };
    if now.as_deref() == change.before.as_ref().map(|before| before.content.hash.as_str()) {
        return Ok(());
    }
    Err(ToolError::new(ErrorKind::Conflict, format!("{} was changed by someone else meanwhile", change.place.shown))
        .with_hint("nothing was written; read the file again and repeat the change"))
}

enum Done<'a> {
    Written(&'a Change),
    Discarded(&'a Change, PathBuf),
}

/// Undoes the steps in reverse order; the error lists files that could not be restored.
fn undo(done: Vec<Done<'_>>, cause: ToolError) -> ToolError {
    let mut lost = Vec::new();
    for step in done.into_iter().rev() {
        let (place, outcome) = match step {
            Done::Discarded(change, at) => {
                let place = &change.place;
                (
                    place,
                    place.dir.rename(&at, &place.dir, &place.relative).map_err(|error| io_error(&place.shown, &error)),
                )
            }
            Done::Written(change) => (&change.place, put_back(change)),
        };
        if outcome.is_err() {
            lost.push(place.shown.clone());
        }
    }
    if lost.is_empty() {
        return cause;
    }
    let text = format!("{}; and these could not be put back: {}", cause.message, lost.join(", "));
    ToolError { message: text, ..cause }
}

fn put_back(change: &Change) -> Result<(), ToolError> {
    let place = &change.place;
    let Some(before) = &change.before else {
        return place.dir.remove_file(&place.relative).map_err(|error| io_error(&place.shown, &error));
    };
    let bytes = before.content.full_text().into_bytes();
    Staged::write(change, &bytes, None).and_then(|staged| staged.commit(change))
}

/// A temporary file with the new content, next to its target. Removed unless committed.
struct Staged {
    parent: Dir,
    temporary: String,
    name: OsString,
    /// Folders created for it, deepest first, removed with it.
    made: Vec<PathBuf>,
    root: Dir,
    committed: bool,
}

impl Staged {
    #[cfg_attr(not(unix), expect(unused_variables, reason = "there are no mode bits"))]
    fn write(change: &Change, bytes: &[u8], mode: Option<u32>) -> Result<Self, ToolError> {
        let place = &change.place;
        let fail = |error: io::Error| io_error(&place.shown, &error);
        let name = place.relative.file_name().ok_or_else(|| is_a_directory(&place.shown))?.to_owned();
        let folder = place.relative.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !place.dir.exists(folder))
            .map(Path::to_owned)
            .collect();
        place.dir.create_dir_all(folder).map_err(fail)?;
        let staged = Self {
            parent: place.dir.open_dir(folder).map_err(fail)?,
            temporary: format!(".onetool-{}.tmp", uuid::Uuid::new_v4().simple()),
            name,
            made,
            root: place.dir.try_clone().map_err(fail)?,
            committed: false,
        };
        let mut file = staged
            .parent
            .open_with(&staged.temporary, OpenOptions::new().write(true).create_new(true))
            .map_err(fail)?;
        if let Some(before) = &change.before {
            #[cfg(unix)]
            keep_owner(&file, &before.metadata);
            file.set_permissions(before.metadata.permissions()).map_err(fail)?;
        }
        #[cfg(unix)]
        if let Some(mode) = mode {
            use cap_std::fs::PermissionsExt as _;
            file.set_permissions(cap_std::fs::Permissions::from_mode(mode)).map_err(fail)?;
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        Ok(staged)
    }

    fn commit(mut self, change: &Change) -> Result<(), ToolError> {
        let outcome = if change.before.is_some() {
            self.parent.rename(&self.temporary, &self.parent, &self.name)
        } else {
            self.create()
        };
        outcome.map_err(|error| io_error(&change.place.shown, &error))?;
        self.committed = true;
        // Some file systems cannot flush a folder, which is not an error.
        if let Ok(folder) = self.parent.open(".") {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Creates the file through a hard link, which fails if the name exists meanwhile.
    fn create(&self) -> io::Result<()> {
        match self.parent.hard_link(&self.temporary, &self.parent, &self.name) {
            Ok(()) => self.parent.remove_file(&self.temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems do not support hard links.
            Err(_) => self.parent.rename(&self.temporary, &self.parent, &self.name),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let _ = self.parent.remove_file(&self.temporary);
        for folder in &self.made {
            let _ = self.root.remove_dir(folder);
        }
    }
}

/// Restores the owner. Only the superuser can change it; for other users it is already right.
#[cfg(unix)]
fn keep_owner(file: &cap_std::fs::File, before: &Metadata) {
    use cap_std::fs::MetadataExt as _;
    let owner = rustix::fs::Uid::from_raw(before.uid());
    let group = rustix::fs::Gid::from_raw(before.gid());
    let _ = rustix::fs::fchown(file, Some(owner), Some(group));
}
