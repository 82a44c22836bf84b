//! A pack of the gallery in a folder of tools: what is there, and how it changes.
//!
//! `<pack>/<pack>_tools.py` is the user's; `<pack>/.original.py` beside it is what came from the gallery, so that edits can be
//! told from an older version. No edit is ever lost: it is kept as `<pack>_tools.py.bak` first.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use onetool_state::atomic;

use crate::gallery::GalleryPack;

/// A tool file is never larger; what is larger is not read.
const MAX_BYTES: u64 = 512 << 10;
/// How many backups of one file are kept before the user has to look at them.
const MAX_BACKUPS: usize = 100;

/// What is in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Missing,
    /// As the gallery has it.
    Current,
    /// As an older gallery had it.
    Outdated,
    /// Changed by the user; the gallery has nothing newer.
    Edited,
    /// Changed by the user, and the gallery has something newer.
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

/// One pack in one folder of tools.
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

    /// The user's file as it is, if there is one.
    pub fn text(&self) -> anyhow::Result<Option<String>> {
        read(&self.file())
    }

    /// What came from the gallery.
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
            // An edit that makes it what the gallery has by now.
            (false, false) if text == self.pack.source => State::Current,
            (false, true) => State::Edited,
            (false, false) => State::EditedOutdated,
        })
    }

    /// Writes what the gallery has. The original comes first: without the tool file it means nothing.
    pub fn write(&self) -> anyhow::Result<()> {
        atomic::write(&self.original(), self.pack.source.as_bytes())?;
        atomic::write(&self.file(), self.pack.source.as_bytes())?;
        Ok(())
    }

    /// Keeps the user's file under a name that is free, and says which.
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

    /// Deletes what came from the gallery; whatever else is in the folder stays, and so does the folder then.
    pub fn remove(&self) -> anyhow::Result<()> {
        atomic::remove(&self.file())?;
        if self.original().symlink_metadata().is_ok() {
            atomic::remove(&self.original())?;
        }
        let _ = std::fs::remove_dir_all(self.folder.join("__pycache__"));
        // Fails where something is left, which is right.
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
