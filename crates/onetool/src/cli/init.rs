//! `onetool init`: a configuration to begin with.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::new_file;
use crate::config::ConfigPlaces;

const EXAMPLES: &str = "\
Examples:
  onetool init
  onetool --config ~/.onetool/onetool.yaml init";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {}

/// Explains in `# ` comments; what can be switched on stands behind a bare `#`.
const TEMPLATE: &str = include_str!("init.yaml");

pub fn main(_args: InitArgs, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let places = ConfigPlaces::from_environment(config)?;
    let file = places.explicit.clone().unwrap_or_else(|| places.own().join("onetool.yaml"));
    new_file::write(&file, TEMPLATE)?;
    eprintln!("next: onetool health");
    Ok(ExitCode::SUCCESS)
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
