//! `onetool scaffold <pack>`: creates a new tool file.

use std::process::ExitCode;

use clap::Args;
use onetool_sdk::to_python_identifier;
use onetool_worker as worker;

use super::Location;
use super::new_file;

const EXAMPLES: &str = "\
Examples:
  onetool scaffold weather";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ScaffoldArgs {
    /// The pack's name
    pack: String,
}

/// Packs that cannot be replaced.
const TAKEN: &[&str] = &["ot", "std", "file", "proj"];

pub fn main(args: ScaffoldArgs, at: Location) -> anyhow::Result<ExitCode> {
    let pack = to_python_identifier(&args.pack);
    if !args.pack.chars().any(char::is_alphanumeric) {
        anyhow::bail!("'{}' is not a name for a pack; use letters, digits and underscores", args.pack);
    }
    if TAKEN.contains(&pack.as_str()) {
        anyhow::bail!("the pack '{pack}' is built in and cannot be replaced; choose another name");
    }
    let places = at.places()?;
    places.require_explicit()?;
    let file = places.own().join("tools").join(&pack).join(format!("{pack}_tools.py"));
    new_file::write(&file, &worker::scaffold(&pack))?;
    eprintln!("try it: onetool tools {pack} --full");
    Ok(ExitCode::SUCCESS)
}
