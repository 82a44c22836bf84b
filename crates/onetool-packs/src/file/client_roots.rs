//! Folders that the client names as its roots, if the configuration allows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onetool_sdk::ToolContext;
use percent_encoding::percent_decode_str;

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

/// Percent-decodes a path. A malformed `%` is refused: what the client means is then unknown.
fn decoded(path: &str) -> Option<String> {
    let is_encoded =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !path.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    (!decoded.contains('\0')).then(|| decoded.into_owned())
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
        let not = [
            "file:///",
            "https://example.com/x",
            "file://elsewhere/tmp",
            "file:///no/such",
            "file:///%zz",
            "file:///tmp%",
            "file:///tm%+70",
            "/tmp",
        ];
        for uri in not.into_iter().map(str::to_owned).chain([format!("file://{}", home.display())]) {
            assert_eq!(folder(&uri), None, "{uri}");
        }
    }
}
