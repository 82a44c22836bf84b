//! Workers through their public interface: real files, real `uv`, real processes.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod abuse;
mod calls;
mod discovery;
mod examples;
mod life;
mod services;
mod threads;
mod toolbox;
