//! Which project and which configuration a command works with.

use std::path::PathBuf;

use clap::Args;
use onetool_config::ConfigPlaces;

/// What the command line says about it.
#[derive(Args, Clone, Default)]
pub struct Location {
    /// Use this configuration file instead of .onetool/onetool.yaml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Work in this project [default: the nearest folder upwards that has a .onetool, else the working directory]
    #[arg(long, global = true, value_name = "DIR", env = "ONETOOL_PROJECT", hide_env_values = true)]
    pub project: Option<PathBuf>,
}

impl Location {
    pub fn places(self) -> anyhow::Result<ConfigPlaces> {
        Ok(ConfigPlaces::from_environment(self.config, self.project)?)
    }
}
