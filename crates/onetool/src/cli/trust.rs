//! `onetool trust`: shows what a folder would run, and trusts it.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use onetool_config::{FileTrust, TrustRecord, TrustedBy};

use super::Location;
use crate::config;

const EXAMPLES: &str = "\
Examples:
  onetool trust                           show what came with the repository, ask, and trust this folder
  onetool trust --yes                     trust it without a question
  onetool trust --remove                  no longer trust it
  onetool trust --list                    list the folders that are trusted

ONETOOL_TRUST=1 in the environment trusts the folder for one process.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TrustArgs {
    /// Trust without a question
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
    let trust = FileTrust::decide(&places);
    if trust.is_full() {
        // Also where nothing came with a repository yet: the user has said so.
        record.add(&places.project, TrustedBy::User)?;
        println!("{folder} is trusted");
        return Ok(ExitCode::SUCCESS);
    }
    let settings = config::resolve(&places, config::load(&places));
    println!("Not in force until {folder} is trusted:");
    for note in settings.notes.iter().filter(|note| note.message.contains(onetool_config::UNTRUSTED)) {
        println!("  {}: {}", note.subject, note.message.replace(&format!(": {}", onetool_config::UNTRUSTED), ""));
    }
    for file in onetool_worker::untrusted_files(&settings.workers) {
        println!("  {}: Python, runs outside the sandbox", file.display());
    }
    if !args.yes && !confirmed()? {
        println!("not trusted");
        return Ok(ExitCode::FAILURE);
    }
    record.add(&places.project, TrustedBy::User)?;
    println!("{folder} is trusted");
    Ok(ExitCode::SUCCESS)
}

/// Anything but a clear yes is a no.
#[expect(clippy::print_stdout, reason = "the question stands where its answer is typed")]
fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!("hint: `onetool trust --yes` trusts it without a question");
        return Ok(false);
    }
    print!("Trust this folder? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
