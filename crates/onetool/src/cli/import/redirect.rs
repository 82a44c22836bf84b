//! Points a client at OneTool instead of its servers, and back.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value as Json, json};

use super::clients::{Client, ClientFile, Layout};
use super::jsonc;
use super::read::{path_of, text_of};
use crate::cli::config_file::{BACKUP, write_backup, write_over};

/// A client's file, before and after.
pub struct Redirect {
    pub path: PathBuf,
    /// `None` where there is no file yet.
    old: Option<String>,
    new: String,
}

impl Redirect {
    /// All these files with OneTool in place of the servers that can be imported. A file that is not there yet is made.
    pub fn to_onetool(files: &[ClientFile], project: &Path) -> anyhow::Result<Vec<Self>> {
        let program = std::env::current_exe().context("cannot tell where onetool is")?.display().to_string();
        Self::of(files, |file, text| {
            // A file of the user's is used in any folder, so it must say which project is meant.
            let arguments = if file.is_project {
                vec!["serve".to_owned()]
            } else {
                vec!["--project".to_owned(), project.display().to_string(), "serve".to_owned()]
            };
            match file.layout {
                Layout::Toml => {
                    let (program, arguments) = (Json::String(program.clone()), json!(arguments));
                    Ok(Some(toml_with(
                        text,
                        &format!("[mcp_servers.onetool]\ncommand = {program}\nargs = {arguments}\n"),
                    )))
                }
                layout => {
                    let mut servers = entry(file.client, &program, &arguments);
                    // What only the client itself can start stays with it.
                    servers.extend(entries(servers_of(file, text, project)).filter(|(_, server)| !can_move(server)));
                    with_servers(file, text, &path_of(layout, project), &Json::Object(servers))
                }
            }
        })
    }

    /// All these files with the servers that they had before.
    pub fn back(files: &[ClientFile], project: &Path) -> anyhow::Result<Vec<Self>> {
        Self::of(files, |file, text| {
            let Some(before) = newest_backup(file, project)? else {
                // It had none: it is left without OneTool.
                let now: Map<String, Json> = entries(servers_of(file, text, project)).collect();
                let left: Map<String, Json> = now.clone().into_iter().filter(|(name, _)| name != "onetool").collect();
                return match file.layout {
                    _ if left.len() == now.len() => Ok(None),
                    Layout::Toml if left.is_empty() => Ok(Some(toml_with(text, ""))),
                    Layout::Toml => Ok(None),
                    layout => with_servers(file, text, &path_of(layout, project), &Json::Object(left)),
                };
            };
            match file.layout {
                Layout::Toml => Ok(Some(toml_with(text, &toml_blocks(&before).concat()))),
                layout => {
                    let servers = servers_of(file, &before, project).unwrap_or_else(|| json!({}));
                    with_servers(file, text, &path_of(layout, project), &servers)
                }
            }
        })
    }

    /// One change per file, though a file may have servers in two places.
    fn of(
        files: &[ClientFile],
        change: impl Fn(&ClientFile, &str) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<Vec<Self>> {
        let mut redirects: Vec<Self> = Vec::new();
        for file in files {
            let index = match redirects.iter().position(|known| known.path == file.path) {
                Some(index) => index,
                None => {
                    let old = text_of(&file.path)?;
                    redirects.push(Self { path: file.path.clone(), new: old.clone().unwrap_or_default(), old });
                    redirects.len() - 1
                }
            };
            if let Some(new) = change(file, &redirects[index].new)? {
                redirects[index].new = new;
            }
        }
        redirects.retain(|redirect| redirect.old.as_deref().unwrap_or_default() != redirect.new);
        Ok(redirects)
    }

    /// Writes it, and returns the copy of what was there before.
    pub fn save(&self) -> anyhow::Result<Option<PathBuf>> {
        let copy = self.old.as_ref().map(|old| write_backup(&self.path, old)).transpose()?;
        write_over(&self.path, &self.new)?;
        Ok(copy)
    }
}

/// The file with other servers; `None` where it has no place for them.
fn with_servers(file: &ClientFile, text: &str, path: &[String], servers: &Json) -> anyhow::Result<Option<String>> {
    let Some(changed) = jsonc::set(text, path, servers) else { return Ok(None) };
    let parsed = jsonc::parse(&changed).with_context(|| format!("{} cannot be changed safely", file.path.display()))?;
    let written = path.iter().try_fold(&parsed, |value, step| value.get(step));
    anyhow::ensure!(written == Some(servers), "{} cannot be changed safely", file.path.display());
    Ok(Some(changed))
}

fn entries(servers: Option<Json>) -> impl Iterator<Item = (String, Json)> {
    let servers = match servers {
        Some(Json::Object(servers)) => servers,
        _ => Map::new(),
    };
    servers.into_iter()
}

/// Whether a server says how it is reached, so that OneTool can do so in the client's place.
fn can_move(server: &Json) -> bool {
    ["command", "url", "serverUrl", "httpUrl"].iter().any(|key| server.get(key).is_some())
}

fn servers_of(file: &ClientFile, text: &str, project: &Path) -> Option<Json> {
    let root: Json = match file.layout {
        Layout::Toml => toml::from_str(text).ok()?,
        _ => jsonc::parse(text).ok()?,
    };
    path_of(file.layout, project).iter().try_fold(&root, |value, step| value.get(step)).cloned()
}

fn entry(client: Client, program: &str, arguments: &[String]) -> Map<String, Json> {
    let server = match client {
        Client::Vscode => json!({"type": "stdio", "command": program, "args": arguments}),
        Client::Opencode => {
            let words: Vec<&str> = std::iter::once(program).chain(arguments.iter().map(String::as_str)).collect();
            json!({"type": "local", "command": words, "enabled": true})
        }
        Client::Zed => json!({"source": "custom", "command": program, "args": arguments, "env": {}}),
        _ => json!({"command": program, "args": arguments}),
    };
    Map::from_iter([("onetool".to_owned(), server)])
}

/// The text without its `[mcp_servers…]` tables, and with `block` at its end.
fn toml_with(text: &str, block: &str) -> String {
    let mut kept = String::new();
    let mut is_ours = false;
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            is_ours = is_server_table(line);
        }
        if !is_ours {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let gap = if kept.trim().is_empty() { "" } else { "\n" };
    format!("{}{}{gap}{block}", kept.trim_end(), if kept.trim().is_empty() { "" } else { "\n" })
}

fn toml_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut is_ours = false;
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            is_ours = is_server_table(line);
        }
        if is_ours {
            blocks.push(format!("{line}\n"));
        }
    }
    blocks
}

fn is_server_table(line: &str) -> bool {
    let name = line.trim_start().trim_start_matches('[').trim_start();
    name.strip_prefix("mcp_servers").is_some_and(|rest| rest.starts_with(['.', ']', ' ']))
}

/// The newest copy that has servers besides OneTool.
fn newest_backup(file: &ClientFile, project: &Path) -> anyhow::Result<Option<String>> {
    let folder = file.path.parent().unwrap_or(Path::new("."));
    let prefix = format!("{}{BACKUP}", file.path.file_name().unwrap_or_default().to_string_lossy());
    let Ok(files) = std::fs::read_dir(folder) else { return Ok(None) };
    let mut copies: Vec<PathBuf> = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|copy| copy.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .collect();
    copies.sort();
    for copy in copies.into_iter().rev() {
        let text = text_of(&copy)?.unwrap_or_default();
        let servers = servers_of(file, &text, project);
        if entries(servers).any(|(name, server)| name != "onetool" && can_move(&server)) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_servers_are_replaced_and_the_rest_stays() {
        let text = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"a\"\n[mcp_servers.a.env]\nK = \"v\"\n\n[other]\ny = 1\n";
        let changed = toml_with(text, "[mcp_servers.onetool]\ncommand = \"onetool\"\n");
        assert_eq!(changed, "model = \"x\" # mine\n\n[other]\ny = 1\n\n[mcp_servers.onetool]\ncommand = \"onetool\"\n");
        let back = toml_with(&changed, &toml_blocks(text).join(""));
        assert_eq!(toml::from_str::<Json>(&back).unwrap(), toml::from_str::<Json>(text).unwrap());
    }
}
