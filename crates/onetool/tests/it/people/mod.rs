//! Permissions and auditing: tokens, groups, and isolation.

mod audit;
mod groups;
mod matrix;
mod oauth;
mod quotas;
mod tokens;

use serde_json::Value as Json;

use crate::client::Project;

/// Creates a token through the command line.
pub async fn token(project: &Project, arguments: &[&str]) -> &'static str {
    let made = command(project, &[&["tokens", "create"], arguments, &["--json"]].concat()).await;
    made["token"].as_str().unwrap().to_owned().leak()
}

/// A command's output, parsed as JSON.
pub async fn command(project: &Project, arguments: &[&str]) -> Json {
    let output = project.command(arguments).output().await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
