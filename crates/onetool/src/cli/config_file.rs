//! Edits a OneTool configuration file in place: shows a diff first, keeps a backup, preserves comments.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use onetool_config::{ConfigPlaces, edit};
use onetool_state::atomic;
use serde_json::Value as Json;

/// A file with unsaved changes.
pub struct ConfigFile {
    pub path: PathBuf,
    /// The content on disk; `None` if there is no file.
    old: Option<String>,
    new: String,
}

/// Which configuration is edited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Project,
    User,
}

impl ConfigFile {
    pub fn open(path: PathBuf) -> anyhow::Result<Self> {
        let old = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Self { path, new: old.clone().unwrap_or_default(), old })
    }

    /// The main file of the project or of the user, whether it exists or not.
    pub fn main(places: &ConfigPlaces, scope: Scope) -> anyhow::Result<Self> {
        Self::open(main_path(places, scope)?)
    }

    /// The one of `files` that configures this server.
    pub fn of_server(files: &[PathBuf], name: &str) -> anyhow::Result<Option<Self>> {
        for path in files {
            let file = Self::open(path.clone())?;
            if file.value(&["servers", name])?.is_some() {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// The value at this path, including unsaved changes.
    pub fn value(&self, path: &[&str]) -> anyhow::Result<Option<Json>> {
        edit::get(&self.new, path).with_context(|| self.path.display().to_string())
    }

    pub fn set(&mut self, path: &[&str], value: &Json) -> anyhow::Result<()> {
        self.new = edit::set(&self.new, path, value).with_context(|| self.path.display().to_string())?;
        Ok(())
    }

    /// The same, before all other keys of its mapping.
    pub fn set_first(&mut self, path: &[&str], value: &Json) -> anyhow::Result<()> {
        self.new = edit::set_first(&self.new, path, value).with_context(|| self.path.display().to_string())?;
        Ok(())
    }

    pub fn remove(&mut self, path: &[&str]) -> anyhow::Result<()> {
        self.new = edit::remove(&self.new, path).with_context(|| self.path.display().to_string())?;
        Ok(())
    }

    pub fn is_changed(&self) -> bool {
        self.old.as_deref().unwrap_or_default() != self.new
    }

    pub fn diff(&self) -> String {
        diff(&self.path, self.old.as_deref().unwrap_or_default(), &self.new)
    }

    /// Writes the changes. An existing file is copied first; returns the path of the copy.
    pub fn save(&self, backup: Backup) -> anyhow::Result<Option<PathBuf>> {
        let copy = match (&self.old, backup) {
            (Some(old), Backup::Keep) => Some(write_backup(&self.path, old)?),
            _ => None,
        };
        write_over(&self.path, &self.new)?;
        Ok(copy)
    }

    /// Restores the previous content.
    pub fn restore(&self) -> anyhow::Result<()> {
        match &self.old {
            Some(old) => write_over(&self.path, old),
            None => std::fs::remove_file(&self.path).with_context(|| self.path.display().to_string()),
        }
    }

    /// Writes a file with secrets: readable only by its owner, and without a copy.
    pub fn save_private(&self) -> anyhow::Result<()> {
        atomic::write(&real(&self.path), self.new.as_bytes())?;
        Ok(())
    }
}

/// Replaces a user's file. It keeps its permissions, and a link stays a link.
pub fn write_over(path: &Path, content: &str) -> anyhow::Result<()> {
    let target = real(path);
    let permissions = std::fs::metadata(&target).ok().map(|meta| meta.permissions());
    atomic::write(&target, content.as_bytes())?;
    if let Some(permissions) = permissions {
        std::fs::set_permissions(&target, permissions).with_context(|| target.display().to_string())?;
    }
    Ok(())
}

/// The path with links resolved.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Whether to keep a copy of the old file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    Keep,
    /// The change is small and easily undone.
    Skip,
}

pub fn main_path(places: &ConfigPlaces, scope: Scope) -> anyhow::Result<PathBuf> {
    let folder = match (scope, &places.explicit, &places.global) {
        (Scope::Project, Some(explicit), _) => return Ok(explicit.clone()),
        (Scope::Project, None, _) => places.own(),
        (Scope::User, _, Some(global)) => global.clone(),
        (Scope::User, _, None) => anyhow::bail!("there is no home folder\nhint: name a file with --config"),
    };
    let below = folder.join("config/onetool.yaml");
    Ok(if below.is_file() { below } else { folder.join("onetool.yaml") })
}

/// `secrets.yaml` next to the main file.
pub fn secrets_path(main: &Path) -> PathBuf {
    main.with_file_name("secrets.yaml")
}

pub fn diff(path: &Path, old: &str, new: &str) -> String {
    let name = path.display().to_string();
    onetool_packs::diff::unified((&name, &name), old, new)
}

/// Writes a copy next to the file, named by time. Never overwrites a file.
pub fn write_backup(path: &Path, content: &str) -> anyhow::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let now = chrono::Local::now().format("%Y%m%d-%H%M%S");
    for count in 0..100 {
        let number = if count == 0 { String::new() } else { format!("-{count}") };
        let copy = path.with_file_name(format!("{name}{BACKUP}{now}{number}"));
        match atomic::create(&copy, content.as_bytes()) {
            Ok(()) => return Ok(copy),
            Err(atomic::StoreError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("cannot write a backup beside {}", path.display())
}

/// Infix between a file's name and the time of its copy.
pub const BACKUP: &str = ".onetool-backup-";

/// Files below `.onetool` that are specific to one machine.
const IGNORED: &[&str] =
    &["secrets.yaml", "logs/", "tmp/", "stats/", "state/", "runs/", "audit/", "cache/", "trash/", "*.onetool-backup-*"];

/// Keeps secrets, logs and results out of version control: adds missing entries to `.onetool/.gitignore`.
pub fn ignore_private_files(own: &Path) -> anyhow::Result<()> {
    let path = own.join(".gitignore");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let missing: Vec<&str> = IGNORED.iter().filter(|line| !old.lines().any(|known| known == **line)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    atomic::write(&path, format!("{old}{gap}{}\n", missing.join("\n")).as_bytes())?;
    Ok(())
}
