//! `onetool serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assemble::App;
use crate::server;

#[derive(Args)]
pub struct ServeArgs {}

pub async fn main(_args: ServeArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let app = App::start(config)?;
    server::stdio::serve(app).await?;
    Ok(ExitCode::SUCCESS)
}
