//! `onetool init`: writes a first configuration.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use onetool_config::ConfigPlaces;

use super::config_file::{Scope, ignore_private_files, main_path};
use super::{Location, import, new_file};

const EXAMPLES: &str = "\
Examples:
  onetool init                            write .onetool/onetool.yaml; on a terminal, ask what else
  onetool init --global                   write ~/.onetool/onetool.yaml, for all projects
  onetool init --import                   import the servers of other clients too";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Write the configuration of the user, for all projects
    #[arg(long)]
    global: bool,

    /// Import the MCP servers of other clients without asking
    #[arg(long)]
    import: bool,
}

/// Explanations are comments with `# `; optional keys are commented out with a bare `#`.
const TEMPLATE: &str = include_str!("init.yaml");

pub fn main(args: InitArgs, at: Location) -> anyhow::Result<ExitCode> {
    // A new project is created in the current folder, not in a parent.
    let project = match &at.project {
        Some(project) => Some(project.clone()),
        None if at.config.is_none() => Some(std::env::current_dir()?),
        None => None,
    };
    let places = Location { project, ..at }.places()?;
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let is_open = places.explicit.is_none() && !args.global && !args.import;
    let scope = match (args.global, is_asked && is_open) {
        (true, _) => Scope::User,
        (false, true) if !ask("Configure this project alone? (no: all projects of yours)")? => Scope::User,
        _ => Scope::Project,
    };
    let path = main_path(&places, scope)?;
    // An import also works with an existing configuration.
    if args.import && path.is_file() {
        eprintln!("{} exists already; it keeps what it says", path.display());
    } else {
        new_file::write(&path, TEMPLATE)?;
    }
    if scope == Scope::Project && places.explicit.is_none() {
        ignore_private_files(&places.own())?;
    }
    let is_imported = places.explicit.is_none() && offer_import(&args, &places, scope, is_asked)?;
    eprintln!("next: {}", if is_imported { "onetool servers test" } else { "onetool health" });
    Ok(ExitCode::SUCCESS)
}

/// Returns whether servers were imported.
fn offer_import(args: &InitArgs, places: &ConfigPlaces, scope: Scope, is_asked: bool) -> anyhow::Result<bool> {
    if !args.import && !is_asked {
        return Ok(false);
    }
    let import = import::ImportOfAll::new(places, scope)?;
    let what = match import.count() {
        0 => return Ok(false),
        1 => "1 MCP server".to_owned(),
        count => format!("{count} MCP servers"),
    };
    let is_wanted = args.import || ask(&format!("Import {what} from other clients?"))?;
    if is_wanted {
        import.show_and_write()?;
    }
    Ok(is_wanted)
}

/// Asks a question whose default answer is yes.
fn ask(question: &str) -> anyhow::Result<bool> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [Y/n] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(!answer.trim().to_ascii_lowercase().starts_with('n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn notes(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
        std::fs::create_dir_all(places.own()).unwrap();
        std::fs::write(places.own().join("onetool.yaml"), text).unwrap();
        let settings = config::resolve(&places, config::load(&places));
        settings.notes.into_iter().map(|note| note.message).collect()
    }

    #[test]
    fn the_template_is_valid_as_it_is_and_with_everything_switched_on() {
        assert_eq!(notes(TEMPLATE), Vec::<String>::new());
        let is_option = |line: &str| line.starts_with('#') && (!line.starts_with("# ") || line.starts_with("#  "));
        let all: Vec<&str> = TEMPLATE.lines().map(|line| if is_option(line) { &line[1..] } else { line }).collect();
        assert!(all.iter().filter(|line| !line.starts_with('#')).count() > 20);
        assert_eq!(notes(&all.join("\n")), Vec::<String>::new());
    }
}
