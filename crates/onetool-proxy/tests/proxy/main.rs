//! Upstream MCP servers as packs, with real servers: a child process and an HTTP server in Python (`server.py`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod breaker;
mod calls;
mod discovery;
mod eras;
mod faults;
mod fixture;
mod http;
mod news;
mod oauth;
mod tasks;
mod trust;
