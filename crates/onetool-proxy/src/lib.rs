//! Any MCP server as a pack.
//!
//! Each configured server is a pack named after it, each of its tools a function. Connections are made and kept in the
//! background, one task a server; nothing that a server does, or fails to do, reaches beyond its own calls.
//!
//! Reading order: `settings` (what is configured), `source` (the [`ToolSource`](onetool_sdk::ToolSource)), `server`
//! (one server's life), `connection`, `transport` and the transports `child`, `http` and `sse` (one connection's life), `listing`, `pins` and `pack` (from what a
//! server says to what a model sees), `requests` and `result` (one call).
//!
//! **Invariant:** what a server says of itself and its tools reaches a model only through `text::clean` and the pins.

mod bounded;
mod calls;
mod child;
mod connection;
mod handler;
mod http;
pub mod keys;
mod listing;
mod messages;
mod pack;
mod pins;
mod requests;
mod result;
mod server;
mod settings;
mod source;
mod sse;
mod tasks;
mod text;
mod transport;

pub use pins::PinError;
pub use settings::{
    DEFAULT_MESSAGE_BYTES, DEFAULT_TIMEOUT, Enabled, Offers, PinMode, ProxySettings, ServerKind, ServerSettings,
};
pub use source::{AcceptError, ProxySource, ServerState, ServerStatus};
