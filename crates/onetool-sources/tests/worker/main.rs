//! Workers through their public face: real files, real `uv`, real processes.

mod abuse;
mod calls;
mod discovery;
mod examples;
mod life;
mod services;
mod toolbox;
