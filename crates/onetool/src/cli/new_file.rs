//! Creates new files without overwriting existing ones.

use std::path::Path;

use onetool_state::atomic;

use super::table::{Page, Tone};

/// Writes a new file and its parent folders, and prints its path.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        anyhow::bail!("{} exists already; it was left as it is\nhint: edit it, or move it away first", path.display());
    }
    atomic::create(path, text.as_bytes())?;
    let mut page = Page::new();
    page.put(Tone::Good, "wrote").put(Tone::Plain, &format!(" {}", path.display())).end_line();
    page.print()
}
