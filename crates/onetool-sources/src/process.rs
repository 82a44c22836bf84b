//! The one place that starts child processes of tools.
//!
//! Every child leads its own process group, is killed with it, and gets a small environment: what a program needs to
//! run, and what the configuration gives it, nothing else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use process_wrap::tokio::{CommandWrap, KillOnDrop};

/// Variables that children inherit.
const INHERITED: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SYSTEMROOT",
    "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
];

/// What a child is started with.
#[derive(Debug, Clone)]
pub struct ChildCommand<'a> {
    pub program: &'a OsStr,
    pub args: Vec<&'a OsStr>,
    pub folder: Option<&'a Path>,
    /// On top of the inherited variables.
    pub environment: &'a BTreeMap<String, String>,
    /// More variables to inherit, by name prefix (`UV_`, `PIP_`, `npm_config_`).
    pub inherit_prefixes: &'a [&'a str],
}

/// A command in its own process group, killed when dropped. Standard streams are the caller's to set.
pub fn command(child: &ChildCommand<'_>) -> CommandWrap {
    let mut command = tokio::process::Command::new(child.program);
    command.args(&child.args).env_clear();
    for (name, value) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if INHERITED.contains(&text) || child.inherit_prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            command.env(&name, value);
        }
    }
    command.envs(child.environment);
    if let Some(folder) = child.folder {
        command.current_dir(folder);
    }
    let mut wrapped = CommandWrap::from(command);
    wrapped.wrap(KillOnDrop);
    #[cfg(unix)]
    wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
    wrapped
}
