//! Work that takes a while, in the middle of something asynchronous.

/// Does work that may take a while, so that what else this thread has to do goes on elsewhere meanwhile.
pub fn heavy<T>(work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to go on.
        _ => work(),
    }
}
