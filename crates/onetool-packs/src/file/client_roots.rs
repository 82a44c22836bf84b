//! Folders that the client names as its roots, if the configuration allows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onetool_sdk::ToolContext;

use super::Files;

/// Maximum number of roots of one client.
const MAX_ROOTS: usize = 32;

impl Files {
    /// Adds the roots of the calling client.
    pub(super) async fn of(&self, ctx: &ToolContext) -> Self {
        let Some(client) = ctx.call.client.as_ref().filter(|_| self.settings.client_roots) else { return self.clone() };
        // A client that does not answer has no roots: its paths are then outside, and the error lists the others.
        let named = client.roots().await.unwrap_or_default();
        let mut roots = self.settings.roots.clone();
        for root in named.iter().take(MAX_ROOTS).filter_map(|uri| folder(uri)) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let mut settings = (*self.settings).clone();
        settings.roots = roots;
        Self { settings: Arc::new(settings), writing: self.writing.clone() }
    }
}

/// The folder of a local `file:` URI. The root folder, the home folder and folders above it are not accepted as projects.
fn folder(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = PathBuf::from(decoded(path)?);
    let real = std::fs::canonicalize(&path).ok().filter(|real| real.is_dir())?;
    let is_too_large = real == Path::new("/") || onetool_config::contains_home(&real);
    (path.is_absolute() && !is_too_large).then_some(path)
}

/// Percent-decodes a path.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_this_machine_that_are_not_all_of_it_count() {
        let parent = tempfile::tempdir().unwrap();
        let inner = parent.path().join("with space");
        std::fs::create_dir(&inner).unwrap();
        let uri = format!("file://{}/with%20space", parent.path().display());
        assert_eq!(folder(&uri), Some(inner.clone()));
        assert_eq!(folder(&format!("file://localhost{}", parent.path().display())), Some(parent.path().to_owned()));
        let home = std::env::home_dir().unwrap();
        let not =
            ["file:///", "https://example.com/x", "file://elsewhere/tmp", "file:///no/such", "file:///%zz", "/tmp"];
        for uri in not.into_iter().map(str::to_owned).chain([format!("file://{}", home.display())]) {
            assert_eq!(folder(&uri), None, "{uri}");
        }
    }
}
