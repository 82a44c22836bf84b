//! Log files of bounded size: a full file becomes `.1`, the previous one `.2`, and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Maximum size of a log file before it is rotated.
const MAX_BYTES: u64 = 5 << 20;
/// Number of rotated files kept.
const KEPT: usize = 4;

/// A file that rotates itself. Opened on the first write, so that a run without output leaves nothing behind.
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

/// Maximum number of bytes waiting to be written; lines beyond it are dropped and counted.
const QUEUE_BYTES: usize = 8 << 20;
/// How long lines are gathered before they are written, so that the thread wakes once for many of them.
const GATHER: Duration = Duration::from_millis(200);

/// Writes lines from its own thread: callers never wait for the disk, and wake the thread only for the first line of a
/// batch.
pub struct LogWriter {
    queue: Arc<Queue>,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: String,
    /// Notified once everything queued before them is written.
    flushes: Vec<SyncSender<()>>,
}

impl LogWriter {
    /// Starts the thread.
    pub fn start(folder: &Path, name: &str) -> io::Result<Self> {
        let mut file = RotatingFile::open(folder, name)?;
        let queue = Arc::new(Queue::default());
        let owned = queue.clone();
        std::thread::Builder::new().name("onetool-log".to_owned()).spawn(move || {
            loop {
                let batch = owned.next_batch();
                let _ = file.write_all(batch.text.as_bytes());
                for answer in batch.flushes {
                    let _ = answer.try_send(());
                }
            }
        })?;
        Ok(Self { queue, dropped: AtomicU64::new(0) })
    }

    /// Queues a line, which must end with a line break.
    pub fn line(&self, line: &str) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.text.len() + line.len() > QUEUE_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let is_first = waiting.text.is_empty();
        waiting.text.push_str(line);
        drop(waiting);
        if is_first {
            self.queue.wake.notify_one();
        }
    }

    /// Waits briefly until all queued lines are written.
    pub fn flush(&self) {
        let (answer, done) = std::sync::mpsc::sync_channel(1);
        self.queue.waiting.lock().flushes.push(answer);
        self.queue.wake.notify_one();
        let _ = done.recv_timeout(Duration::from_secs(1));
    }

    /// Number of lines lost because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Queue {
    /// Sleeps until a line arrives, gathers more for a moment, and takes all of them.
    fn next_batch(&self) -> Waiting {
        let mut waiting = self.waiting.lock();
        self.wake.wait_while(&mut waiting, |waiting| waiting.text.is_empty() && waiting.flushes.is_empty());
        self.wake.wait_while_for(&mut waiting, |waiting| waiting.flushes.is_empty(), GATHER);
        std::mem::take(&mut *waiting)
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

    #[test]
    fn what_is_handed_over_is_written_by_the_time_of_a_flush() {
        let folder = tempfile::tempdir().unwrap();
        let writer = LogWriter::start(folder.path(), "y.log").unwrap();
        for i in 0..1000 {
            writer.line(&format!("{i}\n"));
        }
        writer.flush();
        let text = fs::read_to_string(folder.path().join("y.log")).unwrap();
        assert_eq!((text.lines().count(), writer.dropped()), (1000, 0));
    }
}
