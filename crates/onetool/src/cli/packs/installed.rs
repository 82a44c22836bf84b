//! A pack of the gallery in a tools folder: its state, and how it changes.
//!
//! `<pack>/<pack>_tools.py` belongs to the user; `<pack>/.original.py` next to it is the copy from the gallery, which
//! distinguishes edits from an older version. No edit is ever lost: it is saved as `<pack>_tools.py.bak` first.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use onetool_state::atomic;

use crate::gallery::GalleryPack;

/// Maximum size of a tool file; larger ones are not read.
const MAX_BYTES: u64 = 512 << 10;
/// Maximum number of backups of one file.
const MAX_BACKUPS: usize = 100;

/// The state of a pack in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Missing,
    /// Same as in the gallery.
    Current,
    /// Same as in an older gallery.
    Outdated,
    /// Changed by the user, based on the current version.
    Edited,
    /// Changed by the user, based on an older version.
    EditedOutdated,
    /// A pack of this name that did not come from the gallery.
    Foreign,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "-",
            Self::Current => "added",
            Self::Outdated => "update available",
            Self::Edited => "edited",
            Self::EditedOutdated => "edited, update available",
            Self::Foreign => "your own",
        }
    }

    pub fn is_edited(self) -> bool {
        matches!(self, Self::Edited | Self::EditedOutdated | Self::Foreign)
    }
}

/// One pack in a tools folder.
pub struct Installed {
    pub pack: &'static GalleryPack,
    folder: PathBuf,
}

impl Installed {
    pub fn new(tools: &Path, pack: &'static GalleryPack) -> Self {
        Self { pack, folder: tools.join(pack.name) }
    }

    /// The tool file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("{}_tools.py", self.pack.name))
    }

    fn original(&self) -> PathBuf {
        self.folder.join(".original.py")
    }

    /// The content of the user's file, if there is one.
    pub fn text(&self) -> anyhow::Result<Option<String>> {
        read(&self.file())
    }

    /// The copy from the gallery.
    pub fn original_text(&self) -> anyhow::Result<Option<String>> {
        read(&self.original())
    }

    pub fn state(&self) -> anyhow::Result<State> {
        let Some(text) = self.text()? else { return Ok(State::Missing) };
        let Some(original) = self.original_text()? else {
            return Ok(if text == self.pack.source { State::Current } else { State::Foreign });
        };
        Ok(match (text == original, original == self.pack.source) {
            (true, true) => State::Current,
            (true, false) => State::Outdated,
            // An edit that matches the current gallery.
            (false, false) if text == self.pack.source => State::Current,
            (false, true) => State::Edited,
            (false, false) => State::EditedOutdated,
        })
    }

    /// Writes the pack. The original comes first: without the tool file it has no effect.
    pub fn write(&self) -> anyhow::Result<()> {
        atomic::write(&self.original(), self.pack.source.as_bytes())?;
        atomic::write(&self.file(), self.pack.source.as_bytes())?;
        Ok(())
    }

    /// Saves the user's file under a free name, and returns that.
    pub fn back_up(&self) -> anyhow::Result<PathBuf> {
        let text = self.text()?.with_context(|| format!("{} is gone", self.file().display()))?;
        for number in 1..=MAX_BACKUPS {
            let end = if number == 1 { String::new() } else { number.to_string() };
            let path = self.folder.join(format!("{}_tools.py.bak{end}", self.pack.name));
            if path.symlink_metadata().is_err() {
                atomic::create(&path, text.as_bytes())?;
                return Ok(path);
            }
        }
        anyhow::bail!("{} has {MAX_BACKUPS} backups; delete some first", self.folder.display())
    }

    /// Deletes the pack's files; the folder stays if it contains others.
    pub fn remove(&self) -> anyhow::Result<()> {
        atomic::remove(&self.file())?;
        if self.original().symlink_metadata().is_ok() {
            atomic::remove(&self.original())?;
        }
        let _ = std::fs::remove_dir_all(self.folder.join("__pycache__"));
        // Fails if other files are left, which is intended.
        let _ = std::fs::remove_dir(&self.folder);
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        Ok(metadata) if !metadata.is_file() => anyhow::bail!("{} is not a regular file", path.display()),
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            anyhow::bail!("{} is larger than {} KiB", path.display(), MAX_BYTES >> 10)
        }
        Ok(_) => {}
    }
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}
