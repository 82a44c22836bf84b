//! Tests through the real binary, over real MCP. One module per topic.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

mod abuse;
mod attacks;
mod authors;
mod background;
mod bad_upstream;
mod browser;
mod cases;
mod client;
mod command_line;
mod commands;
mod drain;
mod durable;
mod experience;
mod fuzz;
mod interrupted;
mod logging;
mod mcp_http;
mod mcp_offers;
mod metrics;
mod nodes;
mod ot_pack;
mod packs;
mod people;
mod python;
mod reload;
mod rest;
mod run_packages;
mod run_scenarios;
mod server;
mod sessions;
mod setup;
mod shared_state;
mod sign_in;
mod team;
mod telemetry;
mod terminal;
mod tls;
mod trust;
mod trust_question;
mod upstream;
mod wire;
