//! Atomic file replacement, and locks between processes.
//!
//! A write goes to a temporary file in the same folder, is flushed to disk, and is then renamed. Files are readable by
//! their owner only. A lock is a separate file that is never replaced, so that two processes always lock the same file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of bytes read from a lock file about its holder.
const HOLDER_BYTES: u64 = 100;
/// Maximum pause between attempts to take a lock.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Why a file could not be written or locked. Carries the path.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} exists already")]
    Exists { path: PathBuf },
    #[error("{path} is locked by {holder}; waited {waited:?}")]
    Locked { path: PathBuf, holder: String, waited: Duration },
}

impl StoreError {
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

/// Replaces the content of `path`, durably. Creates the folder.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = fill_temporary(path, content)?;
    temporary.persist(path).map_err(|error| StoreError::io(path, error.error))?;
    sync_folder(path);
    Ok(())
}

/// Like [`write()`] for one of many files: the caller syncs all of them to disk at once.
pub(crate) fn write_unsynced(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = new_temporary(path, content)?;
    temporary.persist(path).map_err(|error| StoreError::io(path, error.error))?;
    Ok(())
}

/// Creates `path` with `content`, durably; fails if it already exists.
pub fn create(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = fill_temporary(path, content)?;
    temporary.persist_noclobber(path).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.to_owned() },
        _ => StoreError::io(path, error.error),
    })?;
    sync_folder(path);
    Ok(())
}

/// Removes `path`, durably.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(|error| StoreError::io(path, error))?;
    sync_folder(path);
    Ok(())
}

/// Checks that files, or the missing folder itself, can be created in `folder`. Tries it, and leaves nothing behind.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    let nearest = folder.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(folder);
    let probe = tempfile::Builder::new().prefix(".tmp-").tempfile_in(nearest);
    // The probe's file name would only be confusing.
    probe.map(drop).map_err(|error| io::Error::from(error.kind()))
}

fn fill_temporary(path: &Path, content: &[u8]) -> Result<tempfile::NamedTempFile, StoreError> {
    let temporary = new_temporary(path, content)?;
    temporary.as_file().sync_all().map_err(|error| StoreError::io(path, error))?;
    Ok(temporary)
}

fn new_temporary(path: &Path, content: &[u8]) -> Result<tempfile::NamedTempFile, StoreError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))?;
    let mut temporary =
        tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder).map_err(|error| StoreError::io(folder, error))?;
    temporary.write_all(content).map_err(|error| StoreError::io(path, error))?;
    Ok(temporary)
}

/// The new name must survive a crash too. File systems that cannot do this are ignored.
fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent()
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

/// An exclusive lock between processes, held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, waiting at most `timeout`. Blocks: call it where blocking is allowed.
    pub fn take(path: &Path, timeout: Duration) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| StoreError::io(path, error))?;
        lock_within(&file, path, timeout, || {
            let mut holder = String::new();
            let _ = (&file).take(HOLDER_BYTES).read_to_string(&mut holder);
            if holder.is_empty() { "another process".to_owned() } else { holder }
        })?;
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = write!(file, "process {}", std::process::id());
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Locks an open file, waiting at most `timeout`; on a timeout, `holder` names who has it. Blocks.
pub(crate) fn lock_within(
    file: &File,
    path: &Path,
    timeout: Duration,
    holder: impl FnOnce() -> String,
) -> Result<(), StoreError> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < timeout => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: path.to_owned(), holder: holder(), waited: started.elapsed() });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_never_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        create(&path, b"1").unwrap();
        assert!(matches!(create(&path, b"2"), Err(StoreError::Exists { .. })));
        write(&path, b"3").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"3");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_tried_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        check_writable(folder.path()).unwrap();
        check_writable(&folder.path().join("not/yet/there")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(check_writable(&folder.path().join("file/below")).is_err());
        std::os::unix::fs::symlink("/no/such/folder", folder.path().join("nowhere")).unwrap();
        assert!(check_writable(&folder.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_held_lock_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path, Duration::from_secs(1)).unwrap();
        let error = Lock::take(&path, Duration::from_millis(5)).unwrap_err();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(held);
        Lock::take(&path, Duration::from_secs(1)).unwrap();
    }
}
