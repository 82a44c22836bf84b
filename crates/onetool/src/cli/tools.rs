//! `onetool tools [pattern]`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assemble::App;

#[derive(Args)]
pub struct ToolsArgs {
    /// Only tools whose name contains this
    pattern: Option<String>,
}

pub fn main(args: ToolsArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let app = App::start(config)?;
    let shared = app.runner.toolbox().now();
    let pattern = args.pattern.unwrap_or_default().to_lowercase();
    let mut out = std::io::stdout().lock();
    for (pack, tool) in shared.catalog().tools() {
        let name = format!("{}.{}", pack.name, tool.name);
        if name.to_lowercase().contains(&pattern) {
            writeln!(out, "{name:<32} {}", tool.summary())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
