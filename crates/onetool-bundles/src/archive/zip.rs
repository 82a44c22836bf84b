//! The subset of the ZIP format that bundle archives need: plain files, stored or deflated.

use std::collections::HashSet;
use std::io::Read as _;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// Size limits of an archive.
pub(super) struct Limits {
    pub(super) bytes: usize,
    pub(super) unpacked: usize,
    pub(super) entries: usize,
}

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// 1980-01-01, the earliest date that the format can express.
const EPOCH: u16 = 0x0021;
/// A regular file with mode 0644.
const REGULAR: u32 = 0o100_644 << 16;

pub(super) fn write(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let too_large = |_| "the archive would be too large".to_owned();
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = u32::try_from(bytes.len()).map_err(too_large)?;
        let size = u32::try_from(entry.content.len()).map_err(too_large)?;
        let name = u16::try_from(entry.name.len()).map_err(too_large)?;
        let mut common = Vec::new();
        for number in [20, UTF8, 0, 0, EPOCH] {
            common.extend_from_slice(&u16::to_le_bytes(number));
        }
        for number in [crc(&entry.content), size, size] {
            common.extend_from_slice(&number.to_le_bytes());
        }
        common.extend_from_slice(&name.to_le_bytes());
        common.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&LOCAL.to_le_bytes());
        bytes.extend_from_slice(&common);
        bytes.extend_from_slice(entry.name.as_bytes());
        bytes.extend_from_slice(&entry.content);
        directory.extend_from_slice(&CENTRAL.to_le_bytes());
        directory.extend_from_slice(&(20_u16 | 3 << 8).to_le_bytes());
        directory.extend_from_slice(&common);
        // Comment length, disk number and internal attributes.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&REGULAR.to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(entry.name.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(too_large)?;
    let offset = u32::try_from(bytes.len()).map_err(too_large)?;
    let size = u32::try_from(directory.len()).map_err(too_large)?;
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(&END.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    Ok(bytes)
}

fn crc(content: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(content);
    crc.sum()
}

/// The directory entry of one file.
struct Listed {
    name: String,
    method: u16,
    crc: u32,
    packed: usize,
    size: usize,
    offset: usize,
}

/// Reads and checks every file.
pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Vec<Entry>, String> {
    if bytes.len() > limits.bytes {
        return Err(format!(
            "the archive has {} bytes; at most {} are allowed (imports.max_archive_mb)",
            bytes.len(),
            limits.bytes
        ));
    }
    let listed = directory(bytes, limits)?;
    let total: usize = listed.iter().map(|one| one.size).fold(0, usize::saturating_add);
    if total > limits.unpacked {
        return Err(format!(
            "the archive unpacks to {total} bytes; at most {} are allowed (imports.max_unpacked_mb)",
            limits.unpacked
        ));
    }
    let mut ranges = Vec::with_capacity(listed.len());
    let mut entries = Vec::with_capacity(listed.len());
    for one in &listed {
        let start = data(bytes, one)?;
        let end = start.checked_add(one.packed).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(|| format!("{}: its content ends outside of the archive", one.name))?;
        ranges.push((one.offset, end));
        let packed = &bytes[start..end];
        let content = match one.method {
            0 if one.packed == one.size => packed.to_vec(),
            8 => inflated(packed, one)?,
            _ => return Err(format!("{}: it is compressed in a way that is not supported", one.name)),
        };
        if crc(&content) != one.crc {
            return Err(format!("{}: its content is damaged", one.name));
        }
        entries.push(Entry { name: one.name.clone(), content });
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("files of the archive overlap".to_owned());
    }
    Ok(entries)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn directory(bytes: &[u8], limits: &Limits) -> Result<Vec<Listed>, String> {
    const COMMENT: usize = 65_535;
    let cut = || "it is not a ZIP archive, or is cut short".to_owned();
    let last = bytes.len().checked_sub(END_BYTES).ok_or_else(cut)?;
    let end = (last.saturating_sub(COMMENT)..=last).rev().find(|&at| {
        u32_at(bytes, at) == Some(END)
            && u16_at(bytes, at + 20).is_some_and(|comment| at + END_BYTES + usize::from(comment) == bytes.len())
    });
    let end = end.ok_or_else(cut)?;
    let count = usize::from(u16_at(bytes, end + 10).ok_or_else(cut)?);
    if u16_at(bytes, end + 8) != u16_at(bytes, end + 10) || u32_at(bytes, end + 4) != Some(0) {
        return Err("archives in several parts are not supported".to_owned());
    }
    if count > limits.entries || count == usize::from(u16::MAX) {
        return Err(format!(
            "the archive has {count} files; at most {} are allowed (imports.max_tools)",
            limits.entries
        ));
    }
    let mut at = u32_at(bytes, end + 16).ok_or_else(cut)? as usize;
    let mut seen = HashSet::new();
    let mut listed = Vec::with_capacity(count);
    for _ in 0..count {
        if at + CENTRAL_BYTES > end || u32_at(bytes, at) != Some(CENTRAL) {
            return Err("the archive's directory is damaged".to_owned());
        }
        let short = |offset: usize| u16_at(bytes, at + offset).ok_or_else(cut);
        let long = |offset: usize| u32_at(bytes, at + offset).ok_or_else(cut);
        let (name_bytes, extra, comment) = (usize::from(short(28)?), usize::from(short(30)?), usize::from(short(32)?));
        let name = bytes.get(at + CENTRAL_BYTES..at + CENTRAL_BYTES + name_bytes).ok_or_else(cut)?;
        let name = std::str::from_utf8(name).map_err(|_| "a file's name is not UTF-8".to_owned())?;
        let shown = name.chars().filter(|c| !c.is_control()).take(100).collect::<String>();
        let mode = long(38)? >> 16;
        let (packed, size, offset) = (long(20)?, long(24)?, long(42)?);
        check_name(name).map_err(|reason| format!("'{shown}': {reason}"))?;
        if short(8)? & 1 != 0 {
            return Err(format!("'{shown}': it is encrypted"));
        }
        if [packed, size, offset].contains(&u32::MAX) {
            return Err(format!("'{shown}': it is too large"));
        }
        let kind = mode & 0o170_000;
        let is_folder = name.ends_with('/');
        if kind != 0 && kind != 0o100_000 && !(is_folder && kind == 0o040_000) {
            return Err(format!("'{shown}': it is not a plain file (a link or a device)"));
        }
        if !seen.insert(name.trim_end_matches('/').to_lowercase()) {
            return Err(format!("'{shown}': it is in the archive twice"));
        }
        if !is_folder {
            listed.push(Listed {
                name: name.to_owned(),
                method: short(10)?,
                crc: long(16)?,
                packed: packed as usize,
                size: size as usize,
                offset: offset as usize,
            });
        }
        at += CENTRAL_BYTES + name_bytes + extra + comment;
    }
    Ok(listed)
}

/// Refuses names that would be unsafe as paths.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > 512 || name.contains(['\\', ':', '\0']) || name.contains(char::is_control) {
        return Err("its name is not allowed");
    }
    let parts: Vec<&str> = name.trim_end_matches('/').split('/').collect();
    if name.starts_with('/') || parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return Err("its name leads out of the archive");
    }
    Ok(())
}

/// Returns where a file's content begins. Its local header must agree with the directory.
fn data(bytes: &[u8], one: &Listed) -> Result<usize, String> {
    let damaged = || format!("{}: its header is damaged", one.name);
    let at = one.offset;
    if u32_at(bytes, at) != Some(LOCAL) {
        return Err(damaged());
    }
    let name = usize::from(u16_at(bytes, at + 26).ok_or_else(damaged)?);
    let extra = usize::from(u16_at(bytes, at + 28).ok_or_else(damaged)?);
    let start = at + LOCAL_BYTES;
    if bytes.get(start..start + name) != Some(one.name.as_bytes()) || u16_at(bytes, at + 8) != Some(one.method) {
        return Err(damaged());
    }
    Ok(start + name + extra)
}

fn inflated(packed: &[u8], one: &Listed) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let mut reader = DeflateDecoder::new(packed).take(one.size as u64 + 1);
    reader.read_to_end(&mut content).map_err(|_| format!("{}: its content is damaged", one.name))?;
    if content.len() != one.size {
        return Err(format!("{}: it does not have the size that the directory says", one.name));
    }
    Ok(content)
}
