//! The zygote on systems without one: only Linux has the walls that its children need. Each program starts its own
//! interpreter.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitStatus;

use super::child::Child;
use super::launch::LaunchOrder;

/// A zygote, which cannot be started here.
pub(super) struct Zygote(Infallible);

/// A forked child, which cannot exist here.
pub(super) struct Forked(Infallible);

impl Zygote {
    #[expect(clippy::unused_async, reason = "as where there is one")]
    pub(super) async fn start(_launcher: &Path, _order: &LaunchOrder, _more: usize) -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_alive(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn children(&self) -> usize {
        match self.0 {}
    }

    pub(super) async fn fork(&self, _setup: &[u8]) -> std::io::Result<Child> {
        match self.0 {}
    }
}

impl Forked {
    pub(super) fn kill(&self) {
        match self.0 {}
    }

    pub(super) fn is_alive(&self) -> bool {
        match self.0 {}
    }

    pub(super) async fn wait(&mut self) -> Option<ExitStatus> {
        match self.0 {}
    }
}
