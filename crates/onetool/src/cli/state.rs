//! `onetool state`: moves shared state.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::state::{Bucket, is_address, open};

const EXAMPLES: &str = "\
Examples:
  onetool state copy .onetool postgres://onetool@db.example.com/onetool
  onetool state copy postgres://onetool@db.example.com/onetool backup
  onetool state copy backup postgres://onetool@db.example.com/new --blobs s3://results/new";

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

    /// Bucket that holds, or is to hold, the stored results of the database: s3://bucket/prefix. Its keys are taken from
    /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long, value_name = "S3")]
    blobs: Option<String>,
}

pub async fn main(args: StateArgs) -> anyhow::Result<ExitCode> {
    let StateCommand::Copy(CopyArgs { from, to, blobs }) = args.command;
    if !is_address(&from) && !Path::new(&from).is_dir() {
        anyhow::bail!("{from} is not a folder\nhint: name a .onetool folder or postgres://user@host/database");
    }
    let bucket = blobs.map(|address| Bucket::new(address, |name| std::env::var(name).ok()));
    if bucket.is_some() && !is_address(&from) && !is_address(&to) {
        anyhow::bail!("--blobs goes with the address of a database\nhint: files keep stored results themselves");
    }
    if !is_address(&to) {
        // Counts of calls are stored only below an existing folder.
        std::fs::create_dir_all(&to).with_context(|| format!("cannot make the folder {to}"))?;
    }
    let (from, to) = (open(&from, bucket.as_ref())?, open(&to, bucket.as_ref())?);
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
