//! Upstream MCP servers as packs, with real servers: a child process and an HTTP server in Python (`server.py`).

mod bench;
mod calls;
mod discovery;
mod faults;
mod fixture;
mod http;
mod tasks;
mod trust;
