//! Outgoing requests: the one HTTP client, its TLS provider, and the rules for where requests may go; parsing of event
//! streams, and decoding of response text.
//!
//! Every crate that makes HTTP requests builds its client with [`client_builder`]. Code that sends a request on behalf
//! of a model checks it against [`AllowedHosts`], before and after names are resolved ([`CheckedResolver`]).

mod client;
mod events;
mod hosts;
mod network;
mod text;

pub use client::client_builder;
pub use events::{Event, EventReader, Framing};
pub use hosts::{AllowedHosts, CheckedResolver, ForbiddenAddress, HostRuleError};
pub use network::{InvalidNetwork, Network};
pub use text::{WINDOWS_1252, decode_text};
