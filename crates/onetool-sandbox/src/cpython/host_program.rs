//! The host program that an interpreter runs, and a cache of its compiled code.
//!
//! Compiling it takes longer than the rest of an interpreter's start. So a separate process, behind the first wall like
//! all others, compiles it once, and the server keeps the code in a file. The launcher opens that file before it
//! confines itself, and its interpreter reads it behind the wall.
//!
//! **Invariant:** code is loaded only from a file that nobody else could have written, that records that it was made
//! from this source for this interpreter, and that is complete. Any other file is ignored and made again; without one,
//! an interpreter compiles the source.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::io::AsyncReadExt as _;

use super::launch::{self, LaunchOrder, Role, Streams};

/// The script that loads and runs the host program.
pub(super) const START: &str = include_str!("start.py");

pub(super) const HOST: &str = concat!(
    include_str!("wire.py"),
    "\n",
    include_str!("package_values.py"),
    "\n",
    include_str!("rewrite.py"),
    "\n",
    include_str!("files.py"),
    "\n",
    include_str!("open_files.py"),
    "\n",
    include_str!("project_modules.py"),
    "\n",
    include_str!("again.py"),
    "\n",
    include_str!("newer.py"),
    "\n",
    include_str!("engine_host.py")
);

/// How long an interpreter may take to compile the host program.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(30);
/// A larger file is not ours.
const MAX_BYTES: u64 = 8 << 20;
/// Permission bits that must not be set: others may not write to a folder, and have no access to a file.
const FOLDER_MODE: u32 = 0o022;
const FILE_MODE: u32 = 0o077;

/// Returns the file with the code for an interpreter, creating it if no usable one exists. `None` if that fails.
pub(super) async fn compiled(folder: &Path, launcher: &Path, order: &LaunchOrder) -> Option<PathBuf> {
    let file = folder.join(file_name(&order.executable));
    if open(&file, &order.executable).is_some() {
        return Some(file);
    }
    // For the current interpreter: if another replaces it meanwhile, the file does not match and is not used.
    let key = key(&order.executable)?;
    let keeping = async {
        make_folder(folder)?;
        let code = compile(launcher, order).await?;
        store(&file, key, &code)
    };
    match keeping.await {
        Ok(()) => Some(file),
        Err(error) => {
            tracing::info!(file = %file.display(), %error, "the code of the host program is not kept");
            None
        }
    }
}

/// Opens a file at the start of its code; returns `None` unless the file is usable.
pub(super) fn open(file: &Path, executable: &Path) -> Option<File> {
    if !is_own_folder(file.parent()?) {
        return None;
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file).ok()?;
    let found = opened.metadata().ok()?;
    if !found.is_file() || !is_private(&found, FILE_MODE) || found.len() > MAX_BYTES {
        return None;
    }
    let mut content = Vec::with_capacity(usize::try_from(found.len()).ok()?);
    opened.read_to_end(&mut content).ok()?;
    let start = content.iter().position(|byte| *byte == b'\n')? + 1;
    let (head, code) = content.split_at(start);
    if head != header(key(executable)?, code).as_bytes() {
        return None;
    }
    opened.seek(SeekFrom::Start(start as u64)).ok()?;
    Some(opened)
}

/// Whether this user owns the file or folder and it has none of the permission bits `others`.
fn is_private(found: &Metadata, others: u32) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & others == 0
}

fn is_own_folder(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|found| found.is_dir() && is_private(&found, FOLDER_MODE))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_own_folder(folder) { Ok(()) } else { Err(io::Error::other("others can write to its folder")) }
}

fn file_name(executable: &Path) -> String {
    format!("host-{:016x}", hash(executable))
}

/// Identifies the source of the code and its interpreter.
fn key(executable: &Path) -> Option<u64> {
    let found = executable.metadata().ok()?;
    Some(hash(&(START, HOST, executable, found.len(), found.mtime(), found.mtime_nsec())))
}

fn header(key: u64, code: &[u8]) -> String {
    format!("onetool {key:016x} {:016x}\n", hash(code))
}

/// Stable across processes: the hasher has fixed keys.
fn hash(of: &(impl std::hash::Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn store(file: &Path, key: u64, code: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension(format!("{}", std::process::id()));
    let _ = std::fs::remove_file(&unfinished);
    let written = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        new.write_all(header(key, code).as_bytes())?;
        new.write_all(code)?;
        std::fs::rename(&unfinished, file)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// Compiles the code in a confined process that has nothing but the source.
async fn compile(launcher: &Path, order: &LaunchOrder) -> io::Result<Vec<u8>> {
    let order = LaunchOrder { role: Role::Compiler, code: None, library: None, preload: Vec::new(), ..order.clone() };
    let streams = Streams { input: Stdio::null(), output: Stdio::piped(), printed: Stdio::null() };
    let mut process = launch::start(launcher, &order, streams)?;
    let Some(output) = process.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let mut code = Vec::new();
    let reading = async {
        output.take(MAX_BYTES).read_to_end(&mut code).await?;
        process.wait().await
    };
    let status = tokio::time::timeout(COMPILE_TIMEOUT, reading).await.map_err(|_| io::ErrorKind::TimedOut)??;
    if status.success() && !code.is_empty() { Ok(code) } else { Err(io::Error::other("it does not compile")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn read(file: &Path, executable: &Path) -> Option<Vec<u8>> {
        let mut code = Vec::new();
        open(file, executable)?.read_to_end(&mut code).unwrap();
        Some(code)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A folder for the file, an executable, and the file with the executable's code.
    fn kept() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let executable = root.path().join("python3");
        std::fs::write(&executable, "an interpreter").unwrap();
        let file = root.path().join("made/below").join(file_name(&executable));
        make_folder(file.parent().unwrap()).unwrap();
        store(&file, key(&executable).unwrap(), b"code").unwrap();
        (root, executable, file)
    }

    #[test]
    fn code_is_kept_for_its_owner_alone() {
        let (_root, executable, file) = kept();
        assert_eq!(read(&file, &executable).unwrap(), b"code");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(file.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        let others: Vec<_> = file.parent().unwrap().read_dir().unwrap().collect();
        assert_eq!(others.len(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_file_that_others_could_have_written_is_not_used() {
        let (root, executable, file) = kept();
        for mode in [0o620, 0o602, 0o640, 0o644] {
            set_mode(&file, mode);
            assert_eq!(read(&file, &executable), None, "{mode:o}");
        }
        set_mode(&file, 0o600);
        for mode in [0o770, 0o707, 0o777] {
            set_mode(file.parent().unwrap(), mode);
            assert_eq!(read(&file, &executable), None, "{mode:o}");
        }
        set_mode(file.parent().unwrap(), 0o700);
        assert!(read(&file, &executable).is_some());
        let link = file.with_extension("link");
        symlink(&file, &link).unwrap();
        assert_eq!(read(&link, &executable), None, "a link");
        let folder = root.path().join("linked");
        symlink(file.parent().unwrap(), &folder).unwrap();
        assert_eq!(read(&folder.join(file.file_name().unwrap()), &executable), None, "a folder behind a link");
        if rustix::process::geteuid().is_root() {
            let somebody = Some(rustix::fs::Uid::from_raw(12345));
            rustix::fs::chown(&file, somebody, None).unwrap();
            assert_eq!(read(&file, &executable), None, "somebody else's");
        }
    }

    #[test]
    fn code_for_another_interpreter_or_with_other_content_is_not_used() {
        let (root, executable, file) = kept();
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&file, &changed).unwrap();
            assert_eq!(read(&file, &executable), None, "byte {at}");
            std::fs::write(&file, &whole[..at]).unwrap();
            assert_eq!(read(&file, &executable), None, "{at} bytes of it");
        }
        std::fs::write(&file, &whole).unwrap();
        assert!(read(&file, &executable).is_some());
        let other = root.path().join("python4");
        std::fs::copy(&executable, &other).unwrap();
        assert_eq!(read(&file, &other), None);
        std::fs::write(&executable, "another interpreter").unwrap();
        assert_eq!(read(&file, &executable), None);
    }
}
