//! Watches the configuration, secrets and tool files, and reloads them when they change.
//!
//! Folders are watched, not files, because editors replace files. A burst of changes is read once, when it is over. Of
//! the folders below `.onetool`, only those that people write to are watched.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::assemble::App;

/// A burst is over when nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(300);
/// A longer burst is read anyway.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// Watches until dropped.
pub struct Watch {
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts watching. If that is impossible, `ot.reload()` still works.
pub fn start(app: &Arc<App>) -> Option<Watch> {
    let changed = Arc::new(Notify::new());
    let signal = changed.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error may mean that events were lost.
        if event.is_ok_and(|event| !matters(&event)) {
            return;
        }
        signal.notify_one();
    });
    let watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "changes to the configuration are not noticed; call ot.reload() after a change");
            return None;
        }
    };
    let mut folders = Folders { watcher, watched: HashSet::new() };
    folders.follow(app);
    Some(Watch { task: tokio::spawn(follow(Arc::downgrade(app), folders, changed)) })
}

async fn follow(app: Weak<App>, mut folders: Folders, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        let at_the_latest = Instant::now() + MAX_DELAY;
        while Instant::now() < at_the_latest && tokio::time::timeout(QUIET, changed.notified()).await.is_ok() {}
        let Some(app) = app.upgrade() else { return };
        let reloaded = tokio::task::spawn_blocking(move || {
            app.reload_now();
            let has_more = folders.follow(&app);
            (folders, has_more)
        });
        match reloaded.await {
            Ok((same, has_more)) => {
                folders = same;
                // Picks up changes made there after the reload and before the watch.
                if has_more {
                    changed.notify_one();
                }
            }
            Err(error) => {
                tracing::error!(%error, "the reload panicked; changes are not noticed any more");
                return;
            }
        }
        tracing::info!(span = "reload", "configuration reloaded");
    }
}

/// The watched folders.
struct Folders {
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
}

impl Folders {
    /// Updates the watched folders. Returns whether there are new ones.
    fn follow(&mut self, app: &App) -> bool {
        let mut has_more = false;
        for (folder, mode) in wanted(app) {
            // A folder that was removed and created again must be watched anew.
            if !folder.is_dir() {
                self.watched.remove(&folder);
                continue;
            }
            if self.watched.contains(&folder) {
                continue;
            }
            match self.watcher.watch(&folder, mode) {
                Ok(()) => {
                    self.watched.insert(folder);
                    has_more = true;
                }
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "this folder cannot be watched"),
            }
        }
        has_more
    }
}

fn wanted(app: &App) -> Vec<(PathBuf, RecursiveMode)> {
    let places = app.places();
    let settings = app.settings();
    let mut wanted = Vec::new();
    for folder in [Some(places.own()), places.global.clone()].into_iter().flatten() {
        if !folder.is_dir() {
            wanted.extend(folder.parent().map(|parent| (parent.to_owned(), RecursiveMode::NonRecursive)));
        }
        wanted.push((folder.join("config"), RecursiveMode::NonRecursive));
        wanted.push((folder.join("tools"), RecursiveMode::Recursive));
        wanted.push((folder, RecursiveMode::NonRecursive));
    }
    let elsewhere = settings.files.iter().chain(&places.explicit).filter_map(|file| file.parent());
    wanted.extend(elsewhere.map(|folder| (folder.to_owned(), RecursiveMode::NonRecursive)));
    wanted
}

/// Whether an event may require a reload. Our own reads do not.
fn matters(event: &Event) -> bool {
    let is_change = match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    is_change && (event.need_rescan() || event.paths.iter().any(|path| is_ours(path)))
}

fn is_ours(path: &Path) -> bool {
    let is_source = path.extension().is_some_and(|ending| ["yaml", "yml", "py"].iter().any(|ours| ending == *ours));
    let is_folder =
        path.file_name().is_some_and(|name| [".onetool", "config", "tools"].iter().any(|folder| name == *folder))
            || (path.ancestors().any(|above| above.file_name().is_some_and(|name| name == "tools")) && path.is_dir());
    is_source || is_folder
}
