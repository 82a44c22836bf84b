//! The host program that an interpreter runs, and its code as an interpreter like it has compiled it before.
//!
//! Compiling it takes longer than everything else in the start of an interpreter. So a process that does nothing else, behind
//! the first wall like all of them, compiles it once, and the server keeps the code in a file. The launcher opens that file
//! before it confines itself, and its interpreter reads it behind the wall.
//!
//! **Invariant:** code comes only from a file that nobody else could have written, which says that it was made of this source
//! for this interpreter and is whole. Any other file is not used but made again; without one, an interpreter compiles the
//! source.

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

/// Becomes the host program.
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
    include_str!("project_modules.py"),
    "\n",
    include_str!("again.py"),
    "\n",
    include_str!("engine_host.py")
);

/// How long an interpreter may take to compile it.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(30);
/// A file of more bytes is not ours.
const MAX_BYTES: u64 = 8 << 20;
/// Of a folder: others may not write to it. Of a file: others may do nothing with it.
const FOLDER_MODE: u32 = 0o022;
const FILE_MODE: u32 = 0o077;

/// The file with the code for an interpreter, made now if there is none that can be used. `None` if it cannot be made.
pub(super) async fn compiled(folder: &Path, launcher: &Path, order: &LaunchOrder) -> Option<PathBuf> {
    let file = folder.join(file_name(&order.executable));
    if open(&file, &order.executable).is_some() {
        return Some(file);
    }
    // Of the interpreter that is there now: if another takes its place meanwhile, the file does not fit and is not used.
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

/// The code in a file, to be read from where it begins; `None` unless the file can be used.
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

/// Whether this user alone can write to what was found; `others` is what others may not do with it.
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

/// Says what the code was made of, and for which interpreter.
fn key(executable: &Path) -> Option<u64> {
    let found = executable.metadata().ok()?;
    Some(hash(&(START, HOST, executable, found.len(), found.mtime(), found.mtime_nsec())))
}

fn header(key: u64, code: &[u8]) -> String {
    format!("onetool {key:016x} {:016x}\n", hash(code))
}

/// Stable from process to process: the hasher has fixed keys.
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

/// The code, from a process that is confined and has nothing but the source.
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

    /// A place for a file, an executable, and that file with the code for it.
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
