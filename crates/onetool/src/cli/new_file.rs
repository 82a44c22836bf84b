//! Files that a command makes: never over one that is there.

use std::path::Path;

use onetool_state::atomic;

use super::table::{Page, Tone};

/// Writes a new file, with the folders above it, and says so.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        anyhow::bail!("{} exists already; it was left as it is\nhint: edit it, or move it away first", path.display());
    }
    atomic::create(path, text.as_bytes())?;
    let mut page = Page::new();
    page.put(Tone::Good, "wrote").put(Tone::Plain, &format!(" {}", path.display())).end_line();
    page.print()
}
