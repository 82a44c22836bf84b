//! Any MCP server as a pack.
//!
//! Each configured server is a pack named after it, each of its tools a function. Connections are made and kept in the
//! background, one task per server; whatever a server does, or fails to do, affects only its own calls.
//!
//! Reading order: `settings` (the configuration), `source` (the [`ToolSource`](onetool_sdk::ToolSource)), `server` and
//! `phase` (one server's life), `opening` and `era` (how a connection begins), `connection`, `transport` and the
//! transports `child`, `http` and `sse` (one connection's life), `listing`, `pins` and `pack` (from what a server says
//! to what a model sees), `requests`, `questions`, `tasks` and `result` (one call).
//!
//! **Invariant:** what a server says about itself and its tools reaches models only through `text::clean` and the pins.

mod bounded;
mod calls;
mod child;
mod connection;
mod contact;
mod era;
mod handler;
mod http;
pub mod keys;
mod listing;
mod messages;
mod oauth;
mod opening;
mod pack;
mod phase;
mod pins;
mod questions;
mod requests;
mod result;
mod server;
mod settings;
mod sign_in;
mod source;
mod sse;
mod tasks;
mod text;
mod transport;
mod watching;

pub use era::{Era, EraChoice};
pub use oauth::{AuthSettings, AuthState, AuthStatus, CREDENTIALS, DEFAULT_LOGIN_TIMEOUT, ResourceIndicator};
pub use pins::PinError;
pub use settings::{
    DEFAULT_MESSAGE_BYTES, DEFAULT_PROBE, DEFAULT_RETRY_AFTER, DEFAULT_RETRY_MAX, DEFAULT_TIMEOUT, Enabled, Offers,
    PinMode, ProxySettings, ServerKind, ServerSettings,
};
pub use source::{AcceptError, ChangedTool, ProxySource, ServerState, ServerStatus, SignInError, Wait};
