//! Tests through the real binary, over real MCP. A module a topic.

mod abuse;
mod cases;
mod client;
mod command_line;
mod rest;
mod server;
