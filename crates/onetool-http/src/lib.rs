//! The external interfaces: the REST API, MCP over HTTP, MCP on standard input and output, and their access control.
//!
//! They serve a [`Service`]: the program implements it, and everything here depends on that trait alone. Each REST
//! route is declared once, in its file below `rest/`, with its scope, parameters and documentation.

mod access;
mod address;
mod background;
mod browser;
mod connections;
mod drain;
mod ending;
mod error;
pub mod keys;
pub mod mcp;
pub mod metrics;
mod oauth;
mod outdated;
mod probes;
mod proxies;
mod quiet;
mod relay;
pub mod rest;
mod service;
mod sign_in;
mod site;
mod task;
mod tls;
mod trace;
mod unread;

pub use access::{AccessError, AccessPolicy, AccessToken, Identity, Principal, Scope};
pub use address::{DEFAULT_ADDRESS, InvalidAddress, parse_address};
pub use connections::{PeerAddress, serve_connections};
pub use error::ApiError;
pub use oauth::OAuthSettings;
pub use proxies::TrustedProxies;
pub use service::{
    ApiSettings, BackgroundSettings, Bundles, LogMessage, McpSettings, MetricsSettings, Served, ServerSettings, Service,
};
pub use sign_in::CALLBACK_PATH;
pub use site::{Audience, ServeError, router, serve};
pub use tls::{TlsError, TlsSettings};
