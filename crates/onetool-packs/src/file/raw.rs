//! Raw bytes: used by `open` in the sandbox, and for files that are not text.
//!
//! Replacing a file is atomic; appending writes to its end. Folders are not created, as in Python.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use cap_std::fs::OpenOptions;
use onetool_sdk::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Files;
use super::content::too_large;
use super::place::{self, Place, io_error, is_a_directory};

/// Maximum number of bytes per read.
const MAX_READ_BYTES: u64 = 4 << 20;

/// What happens to a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WriteMode {
    Replace,
    Append,
    Create,
}

/// Reads at most `limit` bytes from `offset`.
pub(super) fn read(place: &Place, offset: u64, limit: u64) -> Result<Vec<u8>, ToolError> {
    let mut file = place.open_file()?;
    let fail = |error: io::Error| io_error(&place.shown, &error);
    file.seek(SeekFrom::Start(offset)).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(limit.min(MAX_READ_BYTES)).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

/// Writes bytes; returns the place and whether the file is new.
pub(super) fn write(files: &Files, path: &str, bytes: &[u8], mode: WriteMode) -> Result<(Place, bool), ToolError> {
    let _writing = files.writing()?;
    let settings = &files.settings;
    if bytes.len() > settings.max_write_bytes {
        return Err(too_large("the content", settings.max_write_bytes));
    }
    let place = place::target(settings, path)?;
    let fail = |error: io::Error| io_error(&place.shown, &error);
    let before = match place.metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(is_a_directory(&place.shown)),
        Ok(metadata) if metadata.permissions().readonly() => {
            return Err(ToolError::denied(format!("{} is read-only", place.shown)));
        }
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(fail(error)),
    };
    match mode {
        WriteMode::Create => {
            let mut file =
                place.dir.open_with(&place.relative, OpenOptions::new().write(true).create_new(true)).map_err(fail)?;
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        }
        WriteMode::Append => {
            let mut file =
                place.dir.open_with(&place.relative, OpenOptions::new().append(true).create(true)).map_err(fail)?;
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        }
        WriteMode::Replace => {
            let name = place.relative.file_name().ok_or_else(|| is_a_directory(&place.shown))?;
            let folder = place.relative.parent().filter(|folder| !folder.as_os_str().is_empty());
            let parent = place.dir.open_dir(folder.unwrap_or(Path::new("."))).map_err(fail)?;
            let temporary = format!(".onetool-{}.tmp", uuid::Uuid::new_v4().simple());
            let written = (|| {
                let mut file = parent.open_with(&temporary, OpenOptions::new().write(true).create_new(true))?;
                if let Some(before) = &before {
                    file.set_permissions(before.permissions())?;
                }
                file.write_all(bytes)?;
                file.sync_all()?;
                parent.rename(&temporary, &parent, name)
            })();
            if let Err(error) = written {
                let _ = parent.remove_file(&temporary);
                return Err(fail(error));
            }
        }
    }
    Ok((place, before.is_none()))
}
