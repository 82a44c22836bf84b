//! `onetool ui`: the admin page for one browser, on this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::Args;
use onetool_http::Audience;

use super::Location;
use crate::assemble::App;
use crate::watch;

const EXAMPLES: &str = "\
Examples:
  onetool ui              open the admin page in a browser, on a free port
  onetool ui --port 9000  the same, on a port of your choice

BROWSER names another browser; BROWSER=none only prints the address.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct UiArgs {
    /// Listen on this port of 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub async fn main(args: UiArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    super::trust::offer(&places)?;
    let app = App::start(places)?;
    let _watch = watch::start(&app);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), args.port);
    onetool_http::serve(app, address, Audience::Browser).await?;
    Ok(ExitCode::SUCCESS)
}
