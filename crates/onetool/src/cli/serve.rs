//! `onetool serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assemble::App;
use crate::{server, watch};

#[derive(Args)]
pub struct ServeArgs {
    /// Serve over HTTP at this address: MCP at /mcp, the REST API below /tools, its description at /docs
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:8765")]
    http: Option<String>,
}

pub async fn main(args: ServeArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let app = App::start(config)?;
    let _watch = watch::start(&app);
    let address = args.http.or_else(|| app.settings().server.bind.clone());
    match address {
        Some(address) => server::http::serve(app, &address).await?,
        None => server::stdio::serve(app).await?,
    }
    Ok(ExitCode::SUCCESS)
}
