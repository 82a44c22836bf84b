//! Releases memory that a process no longer needs.
//!
//! The executable is large, and a page once touched stays mapped, with its neighbours, in the server and in each child.
//! When a process is ready, it releases all those pages: the ones it still needs come back from the page cache, one by
//! one, without a read from disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Releases the pages of the executable and its libraries. Where that is not possible, they stay.
pub fn give_back_code() {
    #[cfg(target_os = "linux")]
    if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
        maps.lines().filter_map(code_of).for_each(forget);
    }
}

/// Releases memory that the allocator has kept for reuse, as it does after many small allocations.
pub fn give_back_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    trim();
}

/// Makes the allocator return large blocks as soon as they are freed. By default it starts keeping them once some were
/// freed, and later allocations end up between them.
pub fn return_large_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    map_large_pieces();
}

/// Calls [`give_back_heap`] if this process has grown a lot since the last time; otherwise it costs one system call.
pub fn give_back_grown_heap() {
    static METER: OnceLock<Meter> = OnceLock::new();
    static SETTLED: AtomicUsize = AtomicUsize::new(0);
    let meter = METER.get_or_init(Meter::new);
    let resident = meter.bytes();
    let settled = SETTLED.fetch_min(resident, Ordering::Relaxed);
    if resident > settled.saturating_add(MUCH_GROWTH) {
        give_back_heap();
        SETTLED.store(meter.bytes(), Ordering::Relaxed);
    }
}

/// Allocations of at least this size are returned as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_PIECE: libc::c_int = 1 << 20;
/// Growth in bytes after which a process tries to release memory.
const MUCH_GROWTH: usize = 64 << 20;

/// Measures the resident memory of this process with one system call.
pub(crate) struct Meter {
    #[cfg(target_os = "linux")]
    sizes: Option<std::fs::File>,
    /// Read early, because the confined process may be unable to ask later.
    #[cfg(target_os = "linux")]
    page_size: usize,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            sizes: std::fs::File::open("/proc/self/statm").ok(),
            #[cfg(target_os = "linux")]
            page_size: rustix::param::page_size(),
        }
    }

    /// Returns the resident bytes, or 0 if unknown.
    #[cfg(target_os = "linux")]
    pub(crate) fn bytes(&self) -> usize {
        use std::os::unix::fs::FileExt as _;
        let mut line = [0; 128];
        let read = self.sizes.as_ref().and_then(|sizes| sizes.read_at(&mut line, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&line[..read]).unwrap_or_default();
        let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
        pages.unwrap_or(0) * self.page_size
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn bytes(&self) -> usize {
        0
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the system's allocator is asked by its own function")]
fn trim() {
    // SAFETY: the function may be called at any time, from any thread; it only releases unused pages.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the system's allocator is set by its own function")]
fn map_large_pieces() {
    // SAFETY: the function may be called at any time; it only changes where later allocations come from.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_PIECE) };
}

/// Parses a line of `/proc/self/maps` and returns the addresses if the mapping holds only a file's own bytes.
///
/// Such mappings are code, and the first part of a file with its tables and constants. Other read-only parts may hold
/// data that the loader wrote, which no file contains.
#[cfg(target_os = "linux")]
fn code_of(line: &str) -> Option<std::ops::Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (addresses, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let (_device, _inode, path) = (fields.next()?, fields.next()?, fields.next()?);
    let untouched = rights == "r-xp" || rights == "r--p" && offset.bytes().all(|digit| digit == b'0');
    if !untouched || !path.starts_with('/') {
        return None;
    }
    let (from, to) = addresses.split_once('-')?;
    Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the kernel is told by address which pages are not needed now")]
fn forget(addresses: std::ops::Range<usize>) {
    use rustix::mm::{Advice, madvise};
    let start = std::ptr::with_exposed_provenance_mut(addresses.start);
    // SAFETY: the pages are private, unmodified and backed by a file: the next access reads the same bytes.
    let _ = unsafe { madvise(start, addresses.len(), Advice::LinuxDontNeed) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_file_can_give_back_is_given_up() {
        let code = "55d0c0000000-55d0c2000000 r-xp 00a00000 fe:00 1234   /usr/bin/onetool";
        assert_eq!(code_of(code), Some(0x55d0_c000_0000..0x55d0_c200_0000));
        let tables = "55d0bf000000-55d0c0000000 r--p 00000000 fe:00 1234   /usr/bin/onetool";
        assert_eq!(code_of(tables), Some(0x55d0_bf00_0000..0x55d0_c000_0000));
        for other in [
            "55d0c3000000-55d0c3200000 r--p 03a00000 fe:00 1234   /usr/bin/onetool",
            "55d0c3200000-55d0c3300000 rw-p 03c00000 fe:00 1234   /usr/bin/onetool",
            "7ffd1c5f2000-7ffd1c5f4000 r-xp 00000000 00:00 0      [vdso]",
            "7f0000000000-7f0000021000 r--p 00000000 00:00 0",
            "rubbish",
            "",
        ] {
            assert_eq!(code_of(other), None, "{other}");
        }
    }

    #[test]
    fn memory_of_many_small_pieces_is_given_back() {
        let pieces: Vec<Box<[u8]>> = (0..200_000_u32).map(|_| vec![1; 300].into_boxed_slice()).collect();
        let meter = Meter::new();
        let full = meter.bytes();
        // Scattered allocations that stay alive keep the allocator from releasing anything by itself.
        let kept: Vec<Box<[u8]>> =
            pieces.into_iter().enumerate().filter(|(n, _)| n % 1000 == 0).map(|(_, piece)| piece).collect();
        give_back_heap();
        let left = meter.bytes();
        assert!(kept.len() == 200 && full > 50 << 20, "{full}");
        assert!(left < full - (30 << 20), "{full} {left}");
    }

    /// The process still works, with its constants and code.
    #[test]
    fn a_process_goes_on_without_its_pages() {
        give_back_code();
        let text = format!("{:?}", ["a", "b"].map(str::to_uppercase));
        assert_eq!(text, r#"["A", "B"]"#);
    }
}
