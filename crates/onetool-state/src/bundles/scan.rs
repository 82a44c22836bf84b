//! Finding out what changed on disk.
//!
//! A shallow scan looks at the folders' times and lists only folders that changed; within them a file counts as changed
//! when its inode did, which every atomic replacement brings about. A deep scan looks at every file, and so also sees
//! edits made in place.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::builtin::Switches;
use super::files::{FolderStamp, Layout, LoadError, Stamp, listed_inode, load};
use super::limits::{Limits, SWITCHES_BYTES, TEMPORARY_AGE};
use super::model::{Bundle, Tool};
use super::names::{BundleId, ToolId};
use super::state::ToolEntry;

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Folders,
    Files,
}

/// One difference between disk and memory.
#[derive(Debug)]
pub(crate) enum Change {
    Bundle {
        bundle: Box<Bundle>,
        text: String,
    },
    BundleGone(BundleId),
    Tool(Arc<ToolEntry>),
    ToolGone(ToolId),
    Switches(Switches),
    Problem {
        path: PathBuf,
        message: String,
    },
    /// A problem of this file is over.
    Fine(PathBuf),
}

/// What the last scans saw.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    root: Option<FolderStamp>,
    switches: Option<Stamp>,
    folders: HashMap<BundleId, Folder>,
}

#[derive(Debug, Default)]
struct Folder {
    seen: Option<FolderStamp>,
    bundle: Option<Stamp>,
    tools: HashMap<ToolId, Stamp>,
}

impl Memory {
    /// Makes the next scan read this tool again.
    pub(crate) fn forget_tool(&mut self, bundle: BundleId, tool: ToolId) {
        if let Some(folder) = self.folders.get_mut(&bundle) {
            folder.tools.remove(&tool);
        }
    }

    /// Makes the next scan list this bundle's folder, whatever its time says.
    pub(crate) fn distrust(&mut self, bundle: BundleId) {
        self.root = None;
        if let Some(folder) = self.folders.get_mut(&bundle) {
            folder.seen = None;
        }
    }

    /// Whether a tool's file is as it was when it was read.
    pub(crate) fn is_current(&self, layout: &Layout, bundle: BundleId, tool: ToolId) -> bool {
        let known = self.folders.get(&bundle).and_then(|folder| folder.tools.get(&tool));
        known.is_some_and(|known| Stamp::read(&layout.tool(bundle, tool)) == Some(*known))
    }

    pub(crate) fn scan(&mut self, layout: &Layout, limits: &Limits, depth: Depth) -> Vec<Change> {
        let mut changes = Vec::new();
        self.scan_root(layout, depth, &mut changes);
        for (&id, folder) in &mut self.folders {
            folder.scan(id, layout, limits, depth, &mut changes);
        }
        changes
    }

    fn scan_root(&mut self, layout: &Layout, depth: Depth, changes: &mut Vec<Change>) {
        let now = FolderStamp::read(&layout.root);
        let unchanged = matches!((self.root, now), (Some(seen), Some(now)) if seen.still(now));
        if unchanged && depth == Depth::Folders {
            return;
        }
        self.root = now;
        let mut present = HashSet::new();
        for entry in fs::read_dir(&layout.root).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<BundleId>().ok())
            {
                present.insert(id);
                self.folders.entry(id).or_default();
            }
        }
        self.folders.retain(|id, _| {
            let stays = present.contains(id);
            if !stays {
                changes.push(Change::BundleGone(*id));
            }
            stays
        });
        self.scan_switches(layout, changes);
    }

    fn scan_switches(&mut self, layout: &Layout, changes: &mut Vec<Change>) {
        let path = layout.switches();
        let now = Stamp::read(&path);
        if now == self.switches {
            return;
        }
        self.switches = now;
        if now.is_none() {
            changes.push(Change::Switches(Switches::default()));
            return;
        }
        match load::<Switches>(&path, SWITCHES_BYTES) {
            Ok((switches, _, _)) => {
                changes.push(Change::Switches(switches));
                changes.push(Change::Fine(path));
            }
            Err(error) => {
                self.switches = None;
                changes.push(problem(layout, path, error));
            }
        }
    }
}

impl Folder {
    fn scan(&mut self, id: BundleId, layout: &Layout, limits: &Limits, depth: Depth, changes: &mut Vec<Change>) {
        let path = layout.folder(id);
        let now = FolderStamp::read(&path);
        let unchanged = matches!((self.seen, now), (Some(seen), Some(now)) if seen.still(now));
        if unchanged && depth == Depth::Folders {
            return;
        }
        self.seen = now;
        let mut present: HashMap<ToolId, u64> = HashMap::new();
        let mut bundle_inode = None;
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name == "bundle.json" {
                bundle_inode = Some(listed_inode(&entry));
            } else if name.starts_with(".tmp-") {
                remove_if_old(&entry.path());
            } else if let Some(tool) = name.strip_suffix(".json").and_then(|stem| stem.parse::<ToolId>().ok()) {
                present.insert(tool, listed_inode(&entry));
            } else {
                changes.push(Change::Problem {
                    path: entry.path(),
                    message: "its name is not a tool id and .json; it is left alone".to_owned(),
                });
            }
        }
        if !self.scan_bundle(id, bundle_inode, layout, limits, depth, changes) {
            return;
        }
        let gone: Vec<ToolId> = self.tools.keys().filter(|tool| !present.contains_key(tool)).copied().collect();
        for tool in gone {
            self.tools.remove(&tool);
            changes.push(Change::ToolGone(tool));
        }
        for (tool, inode) in present {
            let file = layout.tool(id, tool);
            if is_known(self.tools.get(&tool), inode, &file, depth) {
                continue;
            }
            match load_tool(&file, id, tool, limits) {
                Ok((entry, stamp)) => {
                    self.tools.insert(tool, stamp);
                    changes.push(Change::Tool(Arc::new(entry)));
                    changes.push(Change::Fine(file));
                }
                Err(error) => {
                    if self.tools.remove(&tool).is_some() {
                        changes.push(Change::ToolGone(tool));
                    }
                    changes.push(problem(layout, file, error));
                }
            }
        }
    }

    /// Whether the folder holds a readable bundle. Without one its tools do not count.
    fn scan_bundle(
        &mut self,
        id: BundleId,
        inode: Option<u64>,
        layout: &Layout,
        limits: &Limits,
        depth: Depth,
        changes: &mut Vec<Change>,
    ) -> bool {
        let file = layout.bundle(id);
        if let Some(inode) = inode {
            if is_known(self.bundle.as_ref(), inode, &file, depth) {
                return true;
            }
            let loaded = load::<Bundle>(&file, limits.file_bytes).and_then(|(bundle, text, stamp)| {
                if bundle.id == id {
                    Ok((bundle, text, stamp))
                } else {
                    Err(LoadError::Broken(format!("its bundleID {} is not its folder's name", bundle.id)))
                }
            });
            match loaded {
                Ok((mut bundle, text, stamp)) => {
                    bundle.is_built_in = false;
                    self.bundle = Some(stamp);
                    changes.push(Change::Bundle { bundle: Box::new(bundle), text });
                    changes.push(Change::Fine(file));
                    return true;
                }
                Err(error) => changes.push(problem(layout, file, error)),
            }
        }
        if self.bundle.take().is_some() {
            self.tools.clear();
            changes.push(Change::BundleGone(id));
        }
        false
    }
}

fn is_known(known: Option<&Stamp>, inode: u64, file: &Path, depth: Depth) -> bool {
    known.is_some_and(|known| match depth {
        Depth::Folders => known.inode == inode,
        Depth::Files => Stamp::read(file) == Some(*known),
    })
}

fn load_tool(file: &Path, bundle: BundleId, id: ToolId, limits: &Limits) -> Result<(ToolEntry, Stamp), LoadError> {
    let (mut tool, text, stamp) = load::<Tool>(file, limits.file_bytes)?;
    if tool.id != id || tool.bundle_id != bundle {
        return Err(LoadError::Broken("its toolID or bundleID is not what its path says".to_owned()));
    }
    tool.is_built_in = false;
    Ok((ToolEntry::new(&tool, text, None), stamp))
}

fn problem(layout: &Layout, path: PathBuf, error: LoadError) -> Change {
    let message = match error {
        LoadError::Gone(reason) | LoadError::Skipped(reason) => reason,
        LoadError::Broken(reason) => match layout.set_aside(&path) {
            Some(target) => format!("{reason}; set aside as {}", target.display()),
            None => reason,
        },
    };
    tracing::warn!(file = %path.display(), %message, "a bundle file does not count");
    Change::Problem { path, message }
}

/// What a killed process left half-written.
fn remove_if_old(path: &Path) {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age > TEMPORARY_AGE) {
        let _ = fs::remove_file(path);
    }
}
