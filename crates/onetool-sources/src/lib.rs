//! Where tools come from: a folder a kind.

pub mod http;
pub mod native;
pub mod process;
pub mod proxy;
pub mod worker;
