//! Requests that leave this machine: the one HTTP client, its TLS provider, and the rules of where it may go;
//! the events that come back in a stream, and the text of a reply.
//!
//! Every crate that speaks HTTP to somebody else builds its client with [`client_builder`]. Whatever sends a request on
//! behalf of a model checks it against [`AllowedHosts`], before and after names are resolved ([`CheckedResolver`]).

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
