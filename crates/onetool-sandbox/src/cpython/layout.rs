//! Describes an interpreter from the location of its files, without starting it.
//!
//! Most interpreters are where `make install` puts them: `bin/python3.N` beside `lib/python3.N`, with every shared
//! object that they load in the system's own folder or in `lib`. Those need not be started to be described, which saves
//! the first program tens of milliseconds. Any other layout is left to [`super::interpreter`], which starts the
//! interpreter and asks it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::interpreter::{Description, SHARED_MODULES};

/// Maximum number of bytes read from a table in an object file.
const MAX_TABLE: u64 = 1 << 20;
/// The system's library folders.
const SYSTEM: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// Describes a CPython whose files are in the usual places.
pub(super) fn describe(candidate: &Path) -> Option<Description> {
    let executable = candidate.canonicalize().ok()?;
    let minor = executable.file_name()?.to_str()?.strip_prefix("python3.")?.parse().ok()?;
    let folder = executable.parent().filter(|folder| folder.ends_with("bin"))?;
    let libraries = folder.parent()?.join("lib");
    let library = libraries.join(format!("python3.{minor}"));
    let modules = library.join("lib-dynload");
    if !library.join("os.py").is_file() || !modules.is_dir() {
        return None;
    }
    let object = Object::read(&executable)?;
    let loader = object.loader.as_ref()?.canonicalize().ok()?;
    // Other C libraries search for objects elsewhere.
    if !loader.file_name()?.to_str()?.starts_with("ld-linux") {
        return None;
    }
    let system = loader.parent().filter(|folder| SYSTEM.iter().any(|known| folder.starts_with(known)))?.to_owned();
    let known = [system, libraries.canonicalize().ok()?];
    let mut objects = vec![loader];
    objects.extend(object.loads(&known)?);
    for entry in modules.read_dir().ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let is_asked_for = name.to_str()?.split_once('.').is_some_and(|(name, _)| SHARED_MODULES.contains(&name));
        if is_asked_for {
            objects.extend(Object::read(&entry.path())?.loads(&known)?);
            objects.push(entry.path());
        }
    }
    Some(Description {
        executable,
        version: (3, minor),
        implementation: "cpython".to_owned(),
        library: vec![library, modules],
        objects,
    })
}

/// The dependencies declared in an object file.
struct Object {
    /// The folder that contains it.
    origin: PathBuf,
    loader: Option<PathBuf>,
    needed: Vec<String>,
    /// The folders it wants searched first.
    folders: Vec<String>,
}

impl Object {
    /// Reads a 64-bit object file in the byte order of this machine; `None` for any other file.
    fn read(path: &Path) -> Option<Self> {
        const LOADED: u32 = 1;
        const DYNAMIC: u32 = 2;
        const LOADER: u32 = 3;
        let file = File::open(path).ok()?;
        let header = bytes(&file, 0, 64)?;
        let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if header[..6] != [0x7f, b'E', b'L', b'F', 2, own_order] {
            return None;
        }
        let (size, count) = (half(&header, 54)?, half(&header, 56)?);
        let segments = bytes(&file, word(&header, 32)?, u64::from(size) * u64::from(count))?;
        let (mut loader, mut dynamic, mut loaded) = (None, Vec::new(), Vec::new());
        for segment in segments.chunks_exact(usize::from(size.max(1))) {
            let kind = u32::from_ne_bytes(segment.get(..4)?.try_into().ok()?);
            let (offset, address, length) = (word(segment, 8)?, word(segment, 16)?, word(segment, 32)?);
            match kind {
                LOADED => loaded.push((address, offset, length)),
                DYNAMIC => dynamic = bytes(&file, offset, length)?,
                LOADER => loader = Some(PathBuf::from(text(&bytes(&file, offset, length)?, 0)?)),
                _ => {}
            }
        }
        let entries: Vec<(u64, u64)> =
            dynamic.chunks_exact(16).filter_map(|entry| Some((word(entry, 0)?, word(entry, 8)?))).collect();
        let value = |tag| entries.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
        let (address, length) = (value(5)?, value(10)?);
        let (start, offset, _) = loaded
            .into_iter()
            .find(|(start, _, length)| address.checked_sub(*start).is_some_and(|distance| distance < *length))?;
        let strings = bytes(&file, offset + (address - start), length)?;
        let all = |tags: &[u64]| -> Option<Vec<String>> {
            let wanted = entries.iter().filter(|entry| tags.contains(&entry.0));
            wanted.map(|entry| text(&strings, usize::try_from(entry.1).ok()?)).collect()
        };
        Some(Self { origin: path.parent()?.to_owned(), loader, needed: all(&[1])?, folders: all(&[15, 29])? })
    }

    /// Returns the possible paths of the objects it needs; `None` unless all of them are only in these folders.
    fn loads(&self, known: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let wanted = self.folders.iter().flat_map(|folders| folders.split(':'));
        for folder in wanted {
            let folder = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", self.origin.to_str()?);
            let is_known = |folder: PathBuf| known.contains(&folder);
            if folder.contains('$') || Path::new(&folder).canonicalize().is_ok_and(|folder| !is_known(folder)) {
                return None;
            }
        }
        let mut found = Vec::new();
        for name in &self.needed {
            // All matches count, because it is not known which one the loader takes.
            let before = found.len();
            found.extend(known.iter().map(|folder| folder.join(name)).filter(|path| path.is_file()));
            if found.len() == before {
                return None;
            }
        }
        Some(found)
    }
}

fn bytes(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|length| *length as u64 <= MAX_TABLE)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads a zero-terminated text.
fn text(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::interpreter::{ask, resolve};
    use super::*;

    fn on_path() -> PathBuf {
        let folders = std::env::var_os("PATH").unwrap();
        let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join("python3"));
        candidates.find(|path| path.is_file()).unwrap()
    }

    /// The description read from the files equals the interpreter's own.
    #[tokio::test]
    async fn an_interpreter_in_its_usual_place_needs_no_questions() {
        let asked = ask(&on_path()).await.unwrap();
        for candidate in [asked.executable.clone(), PathBuf::from("/usr/bin/python3")] {
            let Some(read) = describe(&candidate) else { continue };
            let mut asked = resolve(ask(&candidate).await.unwrap());
            let mut read = resolve(read);
            for interpreter in [&mut asked, &mut read] {
                interpreter.read.retain(|path| path.exists());
                interpreter.execute.sort();
            }
            assert_eq!(read, asked);
        }
    }

    #[test]
    fn what_looks_different_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let executable = root.join("bin/python3.12");
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("lib/python3.12/lib-dynload")).unwrap();
        std::fs::write(root.join("lib/python3.12/os.py"), "").unwrap();
        for content in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0x7f, b'E', b'L', b'F', 2, 1, 0xff, 0xff]] {
            std::fs::write(&executable, content).unwrap();
            assert!(describe(&executable).is_none());
        }
        let mut header = vec![0xff; 4096];
        header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        std::fs::write(&executable, header).unwrap();
        assert!(describe(&executable).is_none());
        // A program that is not an interpreter but has the name of one.
        std::fs::copy("/bin/cat", &executable).unwrap();
        std::fs::remove_file(root.join("lib/python3.12/os.py")).unwrap();
        assert!(describe(&executable).is_none());
    }
}
