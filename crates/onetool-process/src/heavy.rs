//! Work that takes a while, in the middle of something asynchronous.

/// What has more bytes than this is read and written where nobody else waits for it.
pub const LARGE: usize = 256 << 10;

/// Does work that may take a while, so that what else this thread has to do goes on elsewhere meanwhile.
fn heavy<T>(work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to go on.
        _ => work(),
    }
}

/// Does work on so many bytes; on many of them as [`heavy`] work.
pub fn heavy_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE { heavy(work) } else { work() }
}
