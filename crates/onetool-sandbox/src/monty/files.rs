//! Files as Monty's programs see them: each operation is a call to the `file` pack, as in full Python.
//!
//! Paths outside the pack's roots raise `PermissionError` and never look absent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onetool_sdk::{Arguments, ToolError, Value};

use crate::{CallTarget, FileAccess, Host};

/// Bytes read in one call.
const CHUNK: usize = 1 << 20;
const NO_FILES: &str =
    "code may not use files (run.files: off); call a tool of the file pack instead, e.g. file.read(path)";
const NO_HOME: &str =
    "the home folder is not known in the sandbox; give the path in full, or start it at the working folder with ./";
const READ_ONLY: &str = "code may read files, not change them (run.files: read)";
/// Maximum number of entries listed per folder.
const MAX_ENTRIES: i64 = 100_000;

/// A program's access to files.
pub(super) struct Files<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) access: FileAccess,
    /// The folder that relative paths start at.
    pub(super) folder: &'a str,
    /// Maximum size of a file that is read whole.
    pub(super) max_bytes: usize,
}

type Answer = Result<Value, ToolError>;

impl Files<'_> {
    /// Answers a call; `None` if it is not about files.
    pub(super) async fn answer(&self, function: &str, arguments: &[Value]) -> Option<Answer> {
        let changes = matches!(
            function,
            "Path.write_text"
                | "Path.append_text"
                | "Path.write_bytes"
                | "Path.append_bytes"
                | "Path.mkdir"
                | "Path.unlink"
                | "Path.rmdir"
                | "Path.rename"
        );
        if !(changes || function == "open" || function.starts_with("Path.")) {
            return None;
        }
        let path = text(arguments.first()?)?;
        let mode = arguments.get(1).and_then(text).unwrap_or("r");
        let changes = changes || (function == "open" && mode.starts_with(['w', 'a']));
        match self.access {
            FileAccess::Off => return Some(Err(refused(NO_FILES, path))),
            FileAccess::Read if changes => return Some(Err(refused(READ_ONLY, path))),
            FileAccess::Read | FileAccess::Full => {}
        }
        if path == "~" || path.starts_with("~/") {
            return Some(Err(refused(NO_HOME, path)));
        }
        Some(match function {
            "Path.exists" => self.is(path, |_| true).await,
            "Path.is_file" => self.is(path, |kind| kind == "file").await,
            "Path.is_dir" => self.is(path, |kind| kind == "folder").await,
            "Path.is_symlink" => match self.info(path, false).await {
                Ok(found) => Ok(Value::Bool(field(&found, "type").and_then(text) == Some("link"))),
                Err(error) => absent_is_false(error),
            },
            "Path.read_text" => self.read(path).await.and_then(|bytes| decoded(bytes, path)),
            "Path.read_bytes" => self.read(path).await.map(Value::Bytes),
            "Path.stat" => self.info(path, true).await.map(|found| status(&found)),
            "Path.iterdir" => self.entries(path).await,
            "Path.resolve" | "Path.absolute" => Ok(Value::Path(self.absolute(path))),
            "Path.write_text" | "Path.write_bytes" => match self.check_parent(path).await {
                Ok(()) => self.write(path, arguments.get(1), "replace").await,
                Err(error) => Err(error),
            },
            "Path.append_text" | "Path.append_bytes" => self.write(path, arguments.get(1), "append").await,
            "Path.mkdir" => self.make_folder(path, arguments.get(1), arguments.get(2)).await,
            "Path.unlink" => match self.info(path, false).await {
                Ok(found) if field(&found, "type").and_then(text) == Some("folder") => {
                    Err(ToolError::raised("IsADirectoryError", format!("[Errno 21] Is a directory: '{path}'")))
                }
                Ok(_) => self.call("delete", path, Vec::new()).await.map(|_| Value::None),
                Err(error) => Err(error),
            },
            "Path.rmdir" => match self.entries(path).await {
                Ok(Value::List(entries)) if !entries.is_empty() => {
                    Err(ToolError::raised("OSError", format!("[Errno 39] Directory not empty: '{path}'")))
                }
                Ok(_) => self.call("delete", path, Vec::new()).await.map(|_| Value::None),
                Err(error) => Err(error),
            },
            "Path.rename" => {
                let target = arguments.get(1).and_then(text).unwrap_or_default();
                self.call("move", path, vec![("target", Value::from(target))]).await.map(|_| Value::None)
            }
            "open" => self.open(path, mode).await,
            _ => return None,
        })
    }

    /// Does what opening itself requires; the file's content is requested later.
    async fn open(&self, path: &str, mode: &str) -> Answer {
        let found = self.info(path, true).await;
        let is_there = match &found {
            Ok(found) if field(found, "type").and_then(text) == Some("folder") => {
                return Err(ToolError::raised("IsADirectoryError", format!("[Errno 21] Is a directory: '{path}'")));
            }
            Ok(_) => true,
            Err(error) if is_absent(error) && mode.starts_with(['w', 'a']) => false,
            Err(error) => return Err(error.clone()),
        };
        if !is_there {
            self.check_parent(path).await?;
        }
        if mode.starts_with('w') || (mode.starts_with('a') && !is_there) {
            self.write(path, Some(&Value::Bytes(Vec::new())), "replace").await?;
        }
        Ok(Value::None)
    }

    async fn is(&self, path: &str, test: impl Fn(&str) -> bool) -> Answer {
        match self.info(path, true).await {
            Ok(found) => Ok(Value::Bool(field(&found, "type").and_then(text).is_some_and(test))),
            Err(error) => absent_is_false(error),
        }
    }

    async fn info(&self, path: &str, follow: bool) -> Answer {
        self.call("info", path, vec![("content", Value::Bool(false)), ("follow", Value::Bool(follow))]).await
    }

    async fn read(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        let mut bytes = Vec::new();
        loop {
            let place = [("byte_offset", bytes.len()), ("byte_limit", CHUNK)];
            let place = place.map(|(name, number)| (name, Value::Int(i64::try_from(number).unwrap_or(i64::MAX))));
            let Value::Bytes(piece) = self.call("read", path, place.to_vec()).await? else { return Ok(bytes) };
            let is_last = piece.len() < CHUNK;
            bytes.extend(piece);
            if bytes.len() > self.max_bytes {
                return Err(ToolError::raised(
                    "MemoryError",
                    format!("'{path}' has more than {} bytes", self.max_bytes),
                ));
            }
            if is_last {
                return Ok(bytes);
            }
        }
    }

    async fn write(&self, path: &str, data: Option<&Value>, mode: &str) -> Answer {
        let (bytes, count): (&[u8], usize) = match data {
            Some(Value::Str(text)) => (text.as_bytes(), text.chars().count()),
            Some(Value::Bytes(bytes)) => (bytes, bytes.len()),
            _ => (&[], 0),
        };
        let arguments = vec![
            ("content", Value::from(STANDARD.encode(bytes))),
            ("encoding", Value::from("base64")),
            ("mode", Value::from(mode)),
        ];
        self.call("write", path, arguments).await?;
        Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    async fn entries(&self, path: &str) -> Answer {
        let arguments = vec![("details", Value::Bool(true)), ("limit", Value::Int(MAX_ENTRIES))];
        let listed = self.call("list", path, arguments).await?;
        let Some(Value::List(entries)) = field(&listed, "entries") else { return Ok(Value::List(Vec::new())) };
        let names = entries.iter().filter_map(|entry| text(field(entry, "path")?)?.rsplit('/').next());
        let base = if path == "." { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
        Ok(Value::List(names.map(|name| Value::Path(format!("{base}{name}"))).collect()))
    }

    async fn make_folder(&self, path: &str, parents: Option<&Value>, exist_ok: Option<&Value>) -> Answer {
        let is_set = |flag: Option<&Value>| matches!(flag, Some(Value::Bool(true)));
        match self.info(path, true).await {
            Ok(found) => {
                let is_folder = field(&found, "type").and_then(text) == Some("folder");
                if is_folder && is_set(exist_ok) {
                    return Ok(Value::None);
                }
                return Err(ToolError::raised("FileExistsError", format!("[Errno 17] File exists: '{path}'")));
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        if !is_set(parents) {
            self.check_parent(path).await?;
        }
        self.call("make_folder", path, Vec::new()).await.map(|_| Value::None)
    }

    /// Fails if the folder that a path is in does not exist: the tools would create it.
    async fn check_parent(&self, path: &str) -> Result<(), ToolError> {
        let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        if parent.is_empty() {
            return Ok(());
        }
        match self.info(parent, true).await {
            Err(error) if is_absent(&error) => {
                Err(ToolError::raised("FileNotFoundError", format!("[Errno 2] No such file or directory: '{path}'")))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    fn absolute(&self, path: &str) -> String {
        let joined = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.folder) };
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        format!("/{}", parts.join("/"))
    }

    async fn call(&self, function: &str, path: &str, named: Vec<(&str, Value)>) -> Answer {
        let target = CallTarget::Method { pack: "file".to_owned(), function: function.to_owned() };
        let named = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let answer = self.host.call(target, Arguments { positional: vec![Value::from(path)], named }).await;
        answer.map_err(|error| as_python_says(error, path))
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Str(text) | Value::Path(text) => Some(text),
        _ => None,
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Dict(pairs) = value else { return None };
    pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn refused(reason: &str, path: &str) -> ToolError {
    ToolError::raised("PermissionError", format!("[Errno 13] {reason}: '{path}'"))
}

/// Gives an exception of a tool the text that Python's own functions give it.
fn as_python_says(error: ToolError, path: &str) -> ToolError {
    let text = match error.exception() {
        "FileNotFoundError" => "[Errno 2] No such file or directory",
        "FileExistsError" => "[Errno 17] File exists",
        "NotADirectoryError" => "[Errno 20] Not a directory",
        "IsADirectoryError" => "[Errno 21] Is a directory",
        _ => return error,
    };
    ToolError::raised(error.exception(), format!("{text}: '{path}'"))
}

fn is_absent(error: &ToolError) -> bool {
    matches!(error.exception(), "FileNotFoundError" | "NotADirectoryError")
}

fn absent_is_false(error: ToolError) -> Answer {
    if is_absent(&error) { Ok(Value::Bool(false)) } else { Err(error) }
}

/// Decodes text as Python reads it: all line endings become `\n`.
fn decoded(bytes: Vec<u8>, path: &str) -> Answer {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::raised("UnicodeDecodeError", format!("'{path}' is not UTF-8 text (byte {at})"))
    })?;
    Ok(Value::Str(if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }))
}

fn status(found: &Value) -> Value {
    let number = |name: &str| field(found, name).cloned().unwrap_or(Value::Int(0));
    let bits = field(found, "mode").and_then(text).and_then(|mode| i64::from_str_radix(mode, 8).ok()).unwrap_or(0o644);
    let kind = if field(found, "type").and_then(text) == Some("folder") { 0o040_000 } else { 0o100_000 };
    let time = || match field(found, "mtime") {
        Some(Value::Int(seconds)) => Value::Float(*seconds as f64),
        Some(value) => value.clone(),
        None => Value::Float(0.0),
    };
    let fields = [
        ("st_mode", Value::Int(kind | bits)),
        ("st_ino", Value::Int(0)),
        ("st_dev", Value::Int(0)),
        ("st_nlink", Value::Int(1)),
        ("st_uid", Value::Int(0)),
        ("st_gid", Value::Int(0)),
        ("st_size", number("size")),
        ("st_atime", time()),
        ("st_mtime", time()),
        ("st_ctime", time()),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Record { type_name: "StatResult".to_owned(), fields }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::Lookup;

    struct Nothing;

    #[async_trait]
    impl Host for Nothing {
        fn lookup(&self, _: &str) -> Result<Lookup, ToolError> {
            Ok(Lookup::Undefined)
        }

        fn attribute(&self, _: &str, _: &str) -> Result<Lookup, ToolError> {
            Ok(Lookup::Undefined)
        }

        async fn call(&self, _: CallTarget, _: Arguments) -> Result<Value, ToolError> {
            Err(ToolError::raised("FileNotFoundError", "no"))
        }
    }

    fn files(access: FileAccess) -> Files<'static> {
        Files { host: &Nothing, access, folder: "/project", max_bytes: 100 }
    }

    #[tokio::test]
    async fn what_is_not_allowed_says_so_and_what_is_absent_is_false() {
        let path = [Value::from("a"), Value::from("w")];
        for (access, function) in [(FileAccess::Off, "Path.exists"), (FileAccess::Read, "open")] {
            let error = files(access).answer(function, &path).await.unwrap().unwrap_err();
            assert!(error.exception() == "PermissionError" && error.text().contains("run.files"), "{error}");
        }
        assert_eq!(files(FileAccess::Full).answer("Path.exists", &path).await, Some(Ok(Value::Bool(false))));
        assert!(files(FileAccess::Full).answer("date.today", &[]).await.is_none());
    }

    #[test]
    fn paths_become_absolute() {
        let files = files(FileAccess::Full);
        for (path, absolute) in [("a", "/project/a"), ("./b/../c", "/project/c"), ("/x/", "/x"), ("../../..", "/")] {
            assert_eq!(files.absolute(path), absolute);
        }
    }
}
