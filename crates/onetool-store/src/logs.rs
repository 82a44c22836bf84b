//! Log files of bounded size: when one is full it becomes `.1`, the one before `.2`, and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A log file's size before it is rotated.
const MAX_BYTES: u64 = 5 << 20;
/// Rotated files that are kept.
const KEPT: usize = 4;

/// A file that rotates by itself. Opened at the first write, so that a run without a word leaves nothing behind.
pub struct RotatingFile {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl RotatingFile {
    pub fn open(folder: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { path: folder.join(name), file: None, size: 0 })
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.size > MAX_BYTES {
            self.rotate();
        }
        if self.file.is_none() {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut options = OpenOptions::new();
            options.create(true).append(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&self.path)?;
            self.size = file.metadata()?.len();
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("no log file"))
    }

    fn rotate(&mut self) {
        self.file = None;
        self.size = 0;
        let numbered = |number: usize| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..KEPT).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        let _ = fs::rename(&self.path, numbered(1));
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_rotated_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(folder.path(), "x.log").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let line = vec![b'x'; 1 << 20];
        for _ in 0..60 {
            file.write_all(&line).unwrap();
        }
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 1 + KEPT, "{names:?}");
        assert!(fs::metadata(folder.path().join("x.log")).unwrap().len() <= MAX_BYTES + (1 << 20));
    }
}
