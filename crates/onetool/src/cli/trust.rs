//! `onetool trust`: shows what a folder would run, and trusts it.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use onetool_config::{ConfigPlaces, TrustRecord};

use super::Location;
use crate::untrusted::Untrusted;

const EXAMPLES: &str = "\
Examples:
  onetool trust                           show what came with the repository, ask, and trust this folder
  onetool trust --yes                     trust it without asking
  onetool trust --remove                  no longer trust it
  onetool trust --list                    list the folders that are trusted

Other commands ask the same question in a terminal; MCP clients that can ask their user do so before the
first run. ONETOOL_TRUST=1 in the environment trusts the folder for one process; ONETOOL_TRUST=0 asks nobody.";

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: u64 = 1024;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TrustArgs {
    /// Trust the folder without asking
    #[arg(long, conflicts_with_all = ["remove", "list"])]
    yes: bool,

    /// No longer trust this folder
    #[arg(long, conflicts_with = "list")]
    remove: bool,

    /// List the folders that are trusted
    #[arg(long)]
    list: bool,
}

#[expect(clippy::print_stdout, reason = "what a command prints is its result")]
pub fn main(args: TrustArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    let record = TrustRecord::in_folder(places.global.as_deref());
    let folder = places.project.display();
    if args.list {
        for folder in record.folders() {
            println!("{}", folder.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.remove {
        let was_trusted = record.remove(&places.project)?;
        println!("{folder} {}", if was_trusted { "is no longer trusted" } else { "was not trusted" });
        return Ok(ExitCode::SUCCESS);
    }
    // Also if nothing came with a repository yet: the user decides.
    if let Some(untrusted) = Untrusted::of(&places) {
        println!(
            "These parts of {folder} came with its repository, or from another user. They are off until you trust it:"
        );
        for part in untrusted.parts() {
            println!("  {part}");
        }
        if !args.yes && !std::io::stdin().is_terminal() {
            eprintln!("hint: `onetool trust --yes` trusts it without a question");
            println!("not trusted");
            return Ok(ExitCode::FAILURE);
        }
        if !args.yes && !confirmed()? {
            println!("not trusted");
            return Ok(ExitCode::FAILURE);
        }
    }
    record.add(&places.project)?;
    println!("{folder} is trusted");
    Ok(ExitCode::SUCCESS)
}

/// Before another command: if parts of the project are disabled and a person is at the terminal, shows them and asks.
pub(super) fn offer(places: &ConfigPlaces) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() || onetool_config::is_trust_decided() {
        return Ok(());
    }
    let Some(untrusted) = Untrusted::of(places) else { return Ok(()) };
    eprintln!("{}", untrusted.text());
    if confirmed()? {
        untrusted.trust()?;
    }
    Ok(())
}

/// Anything but a clear yes counts as no. The question is not data, so it goes to standard error.
fn confirmed() -> anyhow::Result<bool> {
    eprint!("Trust this folder? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
