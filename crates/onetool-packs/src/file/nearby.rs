//! Decides when a small file can be read directly, without a blocking thread.
//!
//! Switching to a thread takes longer than reading a small file, which the system usually has in memory. Reading
//! directly is safe if no file can block its reader: on local disks, with nothing else mounted below the roots. A
//! thread checks that, because the check itself may block; the answer is cached for a short time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum size of a file that is read directly, in bytes.
pub(super) const SMALL: u64 = 64 << 10;
/// How long an answer is cached.
const HOLDS: Duration = Duration::from_secs(5);
/// Maximum number of cached answers.
const MAX_KEPT: usize = 64;

struct Known {
    roots: Vec<PathBuf>,
    is_nearby: bool,
    since: Instant,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Whether all roots are known to be on local disks.
pub(super) fn is_known(roots: &[PathBuf]) -> bool {
    let known = KNOWN.lock();
    known.iter().any(|known| known.roots == roots && known.is_nearby && known.since.elapsed() < HOLDS)
}

/// Checks the roots, unless the answer is cached. May block.
pub(super) fn find_out(roots: &[PathBuf]) {
    if KNOWN.lock().iter().any(|known| known.roots == roots && known.since.elapsed() < HOLDS) {
        return;
    }
    let is_nearby = !roots.is_empty() && are_nearby(roots);
    let mut known = KNOWN.lock();
    known.retain(|known| known.roots != roots && known.since.elapsed() < HOLDS);
    if known.len() < MAX_KEPT {
        known.push(Known { roots: roots.to_vec(), is_nearby, since: Instant::now() });
    }
}

#[cfg(target_os = "linux")]
fn are_nearby(roots: &[PathBuf]) -> bool {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    roots
        .iter()
        .all(|root| std::fs::canonicalize(root).is_ok_and(|root| is_on_a_disk(&root) && !has_mounts(&mounts, &root)))
}

#[cfg(not(target_os = "linux"))]
fn are_nearby(_: &[PathBuf]) -> bool {
    false
}

/// Ext, XFS, Btrfs, F2FS, ZFS, tmpfs and the overlay file system of containers.
#[cfg(target_os = "linux")]
const DISKS: &[u64] = &[0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994, 0x794C_7630];

#[cfg(target_os = "linux")]
fn is_on_a_disk(root: &Path) -> bool {
    rustix::fs::statfs(root).is_ok_and(|system| DISKS.contains(&(system.f_type as u64 & 0xFFFF_FFFF)))
}

/// Whether something is mounted below a folder, according to the kernel's list of mounts.
#[cfg(target_os = "linux")]
fn has_mounts(mounts: &str, folder: &Path) -> bool {
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| {
        // The kernel writes spaces in paths as octal escapes.
        let place = PathBuf::from(place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"));
        place != folder && place.starts_with(folder)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_disks_with_nothing_mounted_below_are_nearby() {
        let folder = tempfile::tempdir().unwrap();
        let roots = vec![folder.path().to_owned()];
        assert!(!is_known(&roots), "nobody has looked");
        find_out(&roots);
        assert!(is_known(&roots));
        for (roots, why) in [(vec![], "no root"), (vec!["/proc/self".into()], "no disk"), (vec!["/".into()], "mounts")]
        {
            find_out(&roots);
            assert!(!is_known(&roots), "{why}");
        }
        let mounts = "36 35 98:0 / /mnt/a\\040b/c rw - ext4 /dev/x rw\n";
        assert!(has_mounts(mounts, Path::new("/mnt/a b")) && has_mounts(mounts, Path::new("/mnt")));
        assert!(!has_mounts(mounts, Path::new("/mnt/a b/c")) && !has_mounts(mounts, Path::new("/mnt/a")));
    }
}
