//! `onetool serve`: MCP on standard input and output, or over HTTP if requested.
//!
//! A client that starts us uses our standard input and output, whatever the configuration says; only `--http` changes
//! that.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Args;
use onetool_http::{Audience, DEFAULT_ADDRESS, mcp, parse_address};
use serde_json::json;

use super::Location;
use crate::assemble::App;
use crate::watch;

const EXAMPLES: &str = "\
Examples:
  onetool serve                        MCP on standard input and output, as clients start it
  onetool serve --http                 the admin page, REST and MCP at server.bind, else at
                                       127.0.0.1:8765
  onetool serve --http 127.0.0.1:9000  the same, elsewhere";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Serve over HTTP instead: the admin page at /, MCP at /mcp, the REST API below /tools and /api, its description at
    /// /docs. Without an address, at `server.bind` of the configuration, else at 127.0.0.1:8765
    #[expect(clippy::option_option, reason = "absent, without an address, and with one are three things")]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    http: Option<Option<String>>,
}

pub async fn main(args: ServeArgs, at: Location) -> anyhow::Result<ExitCode> {
    let given = args.http.map(|address| address.as_deref().map(parse_address).transpose()).transpose()?;
    let places = at.places()?;
    if given.is_some() {
        super::trust::offer(&places)?;
    }
    let app = App::start(places)?;
    let _watch = watch::start(&app);
    match given {
        Some(address) => {
            let address = address.or(app.settings().server.bind).unwrap_or(DEFAULT_ADDRESS);
            onetool_http::serve(app, address, Audience::Everyone).await?;
        }
        None => {
            let greeted = app.clone();
            let ready = move || {
                if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
                    greet(&greeted);
                }
            };
            mcp::serve_stdio(app, ready).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains to a user in a terminal what the command waits for.
fn greet(app: &App) {
    let folder = app.settings().folder.display().to_string();
    let mut words = super::import::program().unwrap_or_else(|_| vec!["onetool".to_owned()]);
    words.extend(["--project".to_owned(), folder.clone(), "serve".to_owned()]);
    let entry = json!({"command": words[0], "args": words[1..]});
    let typed: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    eprintln!(
        "onetool {version} serves MCP on standard input and output, for {folder}. A client starts it like this:
  settings of a client   {entry}
  Claude Code            claude mcp add onetool -- {typed}
  over HTTP              onetool serve --http
  in a browser           onetool ui
  write it for a client  onetool import --client CLIENT
Waiting for messages; Ctrl-C ends it.",
        version = env!("CARGO_PKG_VERSION"),
        typed = typed.join(" "),
    );
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
