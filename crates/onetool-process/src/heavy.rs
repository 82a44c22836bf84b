//! Work that blocks for a while within an asynchronous task.

/// Data with more bytes than this is processed as blocking work.
pub const LARGE: usize = 256 << 10;

/// Runs blocking work; other tasks of this thread move to another thread meanwhile.
fn heavy<T>(work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // No other thread can take over the tasks.
        _ => work(),
    }
}

/// Runs work on this many bytes; above [`LARGE`] as [`heavy`] work.
pub fn heavy_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE { heavy(work) } else { work() }
}
