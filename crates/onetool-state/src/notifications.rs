//! Messages by topic: the first matching pattern names the file, and the message is appended to it as a YAML document.
//! Any number of processes may write to one file at once: a document is appended in one piece, under a lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::GlobBuilder;

use crate::atomic::{self, StoreError};

/// Maximum size of a message.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// A file larger than this accepts no more messages.
pub const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// How long to wait for another writer.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The file for messages whose topic matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// A glob over the whole topic; `*` also matches `/` and `:`.
    pub pattern: String,
    pub file: PathBuf,
}

/// Returns the file of the first matching pattern.
pub fn route<'a>(routes: &'a [Route], topic: &str) -> Option<&'a Path> {
    routes.iter().find(|route| matches(&route.pattern, topic)).map(|route| route.file.as_path())
}

/// A pattern that is not a valid glob matches only itself.
fn matches(pattern: &str, topic: &str) -> bool {
    GlobBuilder::new(pattern)
        .literal_separator(false)
        .build()
        .map_or_else(|_| pattern == topic, |glob| glob.compile_matcher().is_match(topic))
}

/// Appends a YAML document. Creates the file and its folder. Blocks while another process writes.
pub fn append(file: &Path, document: &str) -> Result<(), StoreError> {
    let error = |source| StoreError::io(file, source);
    if document.len() > MESSAGE_BYTES {
        let reason = format!("the message has {} bytes, {MESSAGE_BYTES} are allowed", document.len());
        return Err(error(io::Error::new(io::ErrorKind::FileTooLarge, reason)));
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|source| StoreError::io(folder, source))?;
    }
    let mut open = open_private(file).map_err(error)?;
    // The file itself is the lock: we never replace it.
    atomic::lock_within(&open, file, LOCK_WAIT, || "another writer".to_owned())?;
    let length = open.seek(SeekFrom::End(0)).map_err(error)?;
    if length + document.len() as u64 > FILE_BYTES {
        let reason = format!("the file has {length} bytes, {FILE_BYTES} are allowed; move it away");
        return Err(error(io::Error::new(io::ErrorKind::FileTooLarge, reason)));
    }
    let mut text = String::with_capacity(document.len() + 8);
    if length > 0 && last_byte(&mut open).map_err(error)? != b'\n' {
        text.push('\n');
    }
    text.push_str("---\n");
    text.push_str(document.trim_end_matches('\n'));
    text.push('\n');
    open.write_all(text.as_bytes()).map_err(error)?;
    let _ = open.unlock();
    Ok(())
}

/// Opens for appending; a new file is readable by its owner only.
pub(crate) fn open_private(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

pub(crate) fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0_u8];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(folder: &Path) -> Vec<Route> {
        [("notes", "notes.yaml"), ("status:*", "status.yaml"), ("[bad", "bad.yaml"), ("*", "rest.yaml")]
            .map(|(pattern, file)| Route { pattern: pattern.to_owned(), file: folder.join(file) })
            .to_vec()
    }

    #[test]
    fn the_first_pattern_that_matches_wins() {
        let folder = Path::new("/f");
        let all = routes(folder);
        assert_eq!(route(&all, "notes"), Some(&*folder.join("notes.yaml")));
        assert_eq!(route(&all, "status:build/x"), Some(&*folder.join("status.yaml")));
        assert_eq!(route(&all, "[bad"), Some(&*folder.join("bad.yaml")));
        assert_eq!(route(&all, "other"), Some(&*folder.join("rest.yaml")));
        assert_eq!(route(&all[..2], "unknown:topic"), None);
    }

    #[test]
    fn many_writers_lose_nothing_and_mix_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/notes.yaml");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for number in 0..25 {
                        append(file, &format!("message: {writer}-{number}\ntopic: notes\n")).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&file).unwrap();
        let documents: Vec<&str> = text.split("---\n").skip(1).collect();
        assert_eq!(documents.len(), 200);
        assert!(
            documents.iter().all(|document| document.ends_with("\ntopic: notes\n") && document.lines().count() == 2)
        );
    }

    #[test]
    fn a_file_that_lacks_its_last_line_break_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.yaml");
        fs::write(&file, "mine: 1").unwrap();
        append(&file, "message: x").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine: 1\n---\nmessage: x\n");
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = append(&folder.path().join("n"), &"x".repeat(MESSAGE_BYTES + 1)).unwrap_err();
        assert!(error.to_string().contains("are allowed"), "{error}");
    }
}
