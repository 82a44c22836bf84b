//! `onetool state`: where shared state is, and moving it.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::state::{is_address, open};

const EXAMPLES: &str = "\
Examples:
  onetool state copy .onetool postgres://onetool@db.example.com/onetool
  onetool state copy postgres://onetool@db.example.com/onetool backup";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Subcommand)]
enum StateCommand {
    /// Copy bundles, pins, stored results and statistics from one place to another
    #[command(after_help = EXAMPLES)]
    Copy(CopyArgs),
}

#[derive(Args)]
struct CopyArgs {
    /// A `.onetool` folder, or the address of a database
    from: String,

    /// An empty folder, or the address of an empty database
    to: String,
}

pub async fn main(args: StateArgs) -> anyhow::Result<ExitCode> {
    let StateCommand::Copy(CopyArgs { from, to }) = args.command;
    if !is_address(&from) && !Path::new(&from).is_dir() {
        anyhow::bail!("{from} is not a folder\nhint: name a .onetool folder or postgres://user@host/database");
    }
    let (from, to) = (open(&from)?, open(&to)?);
    let copied = onetool_state::copy(&from, &to).await?;
    println!(
        "copied {} documents, {} stored results and {} lines from {} to {}",
        copied.documents,
        copied.blobs,
        copied.lines,
        from.place(),
        to.place()
    );
    Ok(ExitCode::SUCCESS)
}
