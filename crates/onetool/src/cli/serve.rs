//! `onetool serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assemble::App;
use crate::{server, watch};

#[derive(Args)]
pub struct ServeArgs {}

pub async fn main(_args: ServeArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let app = App::start(config)?;
    let _watch = watch::start(&app);
    server::stdio::serve(app).await?;
    Ok(ExitCode::SUCCESS)
}
