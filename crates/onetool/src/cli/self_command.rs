//! `onetool self`: shows this program's version, location and origin.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::table::{OutputArgs, Page, Tone, print_json};

const EXAMPLES: &str = "\
Examples:
  onetool self version
  onetool self version --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SelfArgs {
    #[command(subcommand)]
    command: SelfCommand,
}

#[derive(Subcommand)]
enum SelfCommand {
    /// Show the version, and where this program came from
    #[command(after_help = EXAMPLES)]
    Version {
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub fn main(args: SelfArgs) -> anyhow::Result<ExitCode> {
    let SelfCommand::Version { output } = args.command;
    let executable = std::env::current_exe()?;
    // A package manager may link to the program; its origin is determined by the real location.
    let real = executable.canonicalize().unwrap_or_else(|_| executable.clone());
    let origin = Origin::of(&real);
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    if output.is_json() {
        print_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "platform": platform,
            "path": real,
            "installed_by": origin.name(),
            "update": origin.update(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Page::new();
    let mut line = |name: &str, value: &str| {
        page.put(Tone::Faint, &format!("{name:<13}")).put(Tone::Plain, value).end_line();
    };
    line("version", env!("CARGO_PKG_VERSION"));
    line("platform", &platform);
    line("path", &real.display().to_string());
    line("installed by", &origin.name());
    if let Some(command) = origin.update() {
        line("update", command);
    }
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

/// How the program was installed, as far as its surroundings show.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// A Python package; `installer` as the package's own record names it.
    Wheel {
        installer: String,
    },
    Npm,
    /// A bundle that a desktop client unpacked.
    McpBundle,
    /// Unpacked next to its documentation.
    Archive,
    Container,
    CargoInstall,
    /// Built in a checkout of the sources.
    Build,
    Unknown,
}

impl Origin {
    fn of(executable: &Path) -> Self {
        let has = |name: &str| executable.components().any(|part| part.as_os_str() == name);
        let folder = executable.parent().unwrap_or(executable);
        let above = folder.parent().unwrap_or(folder);
        if let Some(installer) = wheel_installer(folder) {
            return Self::Wheel { installer };
        }
        if has("node_modules") {
            return Self::Npm;
        }
        if above.join("manifest.json").is_file() && folder.ends_with("server") {
            return Self::McpBundle;
        }
        if above.join("share/doc/onetool/README.md").is_file() {
            return Self::Archive;
        }
        if std::env::var_os("ONETOOL_CONTAINER").is_some() {
            return Self::Container;
        }
        if folder.ends_with(".cargo/bin") {
            return Self::CargoInstall;
        }
        if has("target") && (has("debug") || has("release")) {
            return Self::Build;
        }
        Self::Unknown
    }

    fn name(&self) -> String {
        match self {
            Self::Wheel { installer } => format!("{installer} (Python package)"),
            Self::Npm => "npm".to_owned(),
            Self::McpBundle => "an MCP bundle".to_owned(),
            Self::Archive => "an archive".to_owned(),
            Self::Container => "a container image".to_owned(),
            Self::CargoInstall => "cargo install".to_owned(),
            Self::Build => "a build from source".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }

    /// The command that updates the program.
    fn update(&self) -> Option<&'static str> {
        match self {
            Self::Wheel { installer } if installer == "uv" => Some("uv tool upgrade onetool"),
            Self::Wheel { .. } => Some("pip install --upgrade onetool"),
            Self::Npm => Some("npm install --global onetool@latest"),
            Self::CargoInstall | Self::Build => Some("cargo install --path crates/onetool"),
            Self::McpBundle | Self::Archive | Self::Container | Self::Unknown => None,
        }
    }
}

/// The installer of the Python package that this scripts folder belongs to.
fn wheel_installer(scripts: &Path) -> Option<String> {
    let environment = scripts.parent()?;
    let libraries = environment.join("lib");
    let versions = std::fs::read_dir(&libraries).into_iter().flatten().flatten().map(|entry| entry.path());
    // Unix has lib/python3.x/site-packages, Windows Lib/site-packages.
    let places = versions.chain([libraries.clone()]).map(|folder| folder.join("site-packages"));
    let record = format!("onetool-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let record: PathBuf = places.map(|place| place.join(&record)).find(|record| record.is_dir())?;
    let installer = std::fs::read_to_string(record.join("INSTALLER")).unwrap_or_default();
    let installer = installer.trim();
    Some(if installer.is_empty() { "pip".to_owned() } else { installer.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(files: &[&str], executable: &str) -> Origin {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "uv\n").unwrap();
        }
        Origin::of(&folder.path().join(executable))
    }

    #[test]
    fn surroundings_tell_where_a_program_came_from() {
        let record =
            format!("v/lib/python3.12/site-packages/onetool-{}.dist-info/INSTALLER", env!("CARGO_PKG_VERSION"));
        let uv = Origin::Wheel { installer: "uv".to_owned() };
        assert_eq!((origin(&[&record], "v/bin/onetool"), uv.update()), (uv, Some("uv tool upgrade onetool")));
        assert_eq!(origin(&[], "node_modules/@onetool/linux-x64/bin/onetool"), Origin::Npm);
        assert_eq!(origin(&["manifest.json"], "server/onetool"), Origin::McpBundle);
        assert_eq!(origin(&["a/share/doc/onetool/README.md"], "a/bin/onetool"), Origin::Archive);
        assert_eq!(origin(&[], "target/release/onetool"), Origin::Build);
        assert_eq!(origin(&[], ".cargo/bin/onetool"), Origin::CargoInstall);
        assert_eq!(origin(&[], "somewhere/onetool"), Origin::Unknown);
    }
}
