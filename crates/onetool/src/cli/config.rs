//! `onetool config`: lists the configuration files, or prints the available keys.

use std::process::ExitCode;

use clap::Args;
use onetool_sdk::Severity;

use super::Location;
use super::table::print;
use crate::config;

const EXAMPLES: &str = "\
Examples:
  onetool config                          list the files that are read, and their problems
  onetool config --schema > schema.json   write a JSON Schema for an editor
  onetool config --example                print a file with every key";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    /// Print a JSON Schema of the configuration
    #[arg(long, group = "output")]
    schema: bool,

    /// Print a configuration with every key, its default and what it is for
    #[arg(long, group = "output")]
    example: bool,

    /// Print the reference of all keys, as Markdown
    #[arg(long, group = "output")]
    reference: bool,
}

pub fn main(args: ConfigArgs, at: Location) -> anyhow::Result<ExitCode> {
    if args.schema {
        print(&format!("{:#}\n", config::schema()))?;
    } else if args.example {
        print(&config::example())?;
    } else if args.reference {
        print(&config::reference())?;
    } else {
        return files(at);
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the files that are read. Fails if there is a problem with them.
fn files(at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    places.require_explicit()?;
    let settings = config::resolve(&places, config::load(&places));
    for file in &settings.files {
        print(&format!("{}\n", file.display()))?;
    }
    if settings.files.is_empty() {
        eprintln!("no configuration file; the defaults are in effect\nhint: `onetool init` writes one");
    }
    for note in &settings.notes {
        let severity = if note.severity == Severity::Error { "error" } else { "warning" };
        eprintln!("{severity}: {}: {}", note.subject, note.message);
    }
    let has_error = settings.notes.iter().any(|note| note.severity == Severity::Error);
    Ok(if has_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
