//! Points a client at OneTool instead of its servers, and back.
//!
//! If the file was not changed meanwhile, going back restores it byte for byte. Otherwise the servers of the newest
//! earlier copy are restored as they were written, and servers added since stay.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value as Json, json};

use super::clients::{Client, ClientFile, Layout};
use super::jsonc;
use super::program::program;
use super::read::{path_of, text_of};
use super::toml_tables as tables;
use crate::cli::config_file::{BACKUP, diff, write_backup, write_over};

/// The name of OneTool in the files of clients.
const OURS: &str = "onetool";

/// A client's file, before and after.
pub struct Redirect {
    pub path: PathBuf,
    /// `None` if there is no file yet.
    old: Option<String>,
    /// `None` if the file is removed: it was created for OneTool.
    new: Option<String>,
}

impl Redirect {
    /// Replaces the importable servers in all these files with OneTool. Missing files are created.
    pub fn to_onetool(files: &[ClientFile], project: &Path) -> anyhow::Result<Vec<Self>> {
        let program = program()?;
        let mut redirects = Vec::new();
        for (path, files) in by_path(files) {
            let old = text_of(&path)?;
            let new = pointed(&files, old.as_deref().unwrap_or_default(), project, &|file| {
                let mut words = program.clone();
                // A user's file is used in any folder, so it must name the project.
                if !file.is_project {
                    words.extend(["--project".to_owned(), project.display().to_string()]);
                }
                words.push("serve".to_owned());
                Some(entry(file.client, &words))
            })?;
            redirects.push(Self { path, old, new: Some(new) });
        }
        redirects.retain(Self::is_change);
        Ok(redirects)
    }

    /// Restores the previous servers in all these files.
    pub fn back(files: &[ClientFile], project: &Path) -> anyhow::Result<Vec<Self>> {
        let mut redirects = Vec::new();
        for (path, files) in by_path(files) {
            let Some(old) = text_of(&path)? else { continue };
            let backups = backups(&path)?;
            let new = match unchanged_since(&files, &old, &backups, project)? {
                Some(before) => before,
                None => Some(restored(&files, &old, &backups, project)?),
            };
            redirects.push(Self { path, old: Some(old), new });
        }
        redirects.retain(Self::is_change);
        Ok(redirects)
    }

    fn is_change(&self) -> bool {
        self.old.as_deref().unwrap_or_default() != self.new.as_deref().unwrap_or_default()
    }

    pub fn diff(&self) -> String {
        diff(&self.path, self.old.as_deref().unwrap_or_default(), self.new.as_deref().unwrap_or_default())
    }

    /// The texts before and after.
    pub fn texts(&self) -> [&str; 2] {
        [self.old.as_deref().unwrap_or_default(), self.new.as_deref().unwrap_or_default()]
    }

    pub fn removes_file(&self) -> bool {
        self.new.is_none()
    }

    /// Writes the file, and returns the path of the copy of its old content.
    pub fn save(&self) -> anyhow::Result<Option<PathBuf>> {
        let copy = self.old.as_ref().map(|old| write_backup(&self.path, old)).transpose()?;
        match &self.new {
            Some(new) => write_over(&self.path, new)?,
            None => std::fs::remove_file(&self.path).with_context(|| self.path.display().to_string())?,
        }
        Ok(copy)
    }
}

/// Groups by path: a file may have servers in two places.
fn by_path(files: &[ClientFile]) -> Vec<(PathBuf, Vec<&ClientFile>)> {
    let mut groups: Vec<(PathBuf, Vec<&ClientFile>)> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|(path, _)| *path == file.path) {
            Some((_, group)) => group.push(file),
            None => groups.push((file.path.clone(), vec![file])),
        }
    }
    groups
}

/// Replaces the servers that can be moved with OneTool, in each file for which `entry` returns one.
fn pointed(
    files: &[&ClientFile],
    text: &str,
    project: &Path,
    entry: &dyn Fn(&ClientFile) -> Option<Json>,
) -> anyhow::Result<String> {
    let mut text = text.to_owned();
    for file in files {
        let Some(ours) = entry(file) else { continue };
        match file.layout {
            Layout::Toml => {
                let (command, arguments) = (&ours["command"], &ours["args"]);
                let block = format!("[mcp_servers.{OURS}]\ncommand = {command}\nargs = {arguments}\n");
                text = toml_with(file, &text, &block, &json!({OURS: ours}))?;
            }
            layout => {
                let mut servers = Map::from_iter([(OURS.to_owned(), ours)]);
                // Servers that only the client can start stay.
                servers.extend(entries(servers_of(file, &text, project)).filter(|(_, server)| !can_move(server)));
                if let Some(changed) = with_servers(file, &text, &path_of(layout, project), &Json::Object(servers))? {
                    text = changed;
                }
            }
        }
    }
    Ok(text)
}

/// The text before OneTool was inserted, if the file was not changed since: `Some(None)` if there was no file.
fn unchanged_since(
    files: &[&ClientFile],
    now: &str,
    backups: &[String],
    project: &Path,
) -> anyhow::Result<Option<Option<String>>> {
    let ours = |file: &ClientFile| servers_of(file, now, project)?.get(OURS).cloned();
    if files.iter().all(|file| ours(file).is_none()) {
        return Ok(None);
    }
    let was_like = |before: &String| {
        let adds_none = |file: &&ClientFile| added_since(file, before, now, backups, project).is_empty();
        files.iter().all(adds_none) && pointed(files, before, project, &ours).is_ok_and(|text| text == now)
    };
    let is_without_ours = |copy: &&String| files.iter().all(|file| !has_ours(file, copy, project));
    if let Some(before) = backups.iter().filter(is_without_ours).find(|before| was_like(before)) {
        return Ok(Some(Some(before.clone())));
    }
    if pointed(files, "", project, &ours).is_ok_and(|text| text == now) {
        return Ok(Some(None));
    }
    // OneTool was already there before.
    let before = backups.iter().find(|before| *before != now && was_like(before));
    Ok(before.map(|before| Some(before.clone())))
}

/// Restores the servers of the newest earlier copy, and keeps those added since.
fn restored(files: &[&ClientFile], now: &str, backups: &[String], project: &Path) -> anyhow::Result<String> {
    let mut text = now.to_owned();
    for file in files {
        let has_others = |copy: &&String| {
            entries(servers_of(file, copy, project)).any(|(name, server)| name != OURS && can_move(&server))
        };
        let is_from_before = |copy: &&String| !has_ours(file, copy, project) && has_others(copy);
        let before = backups.iter().find(is_from_before).or_else(|| backups.iter().find(has_others));
        if before.is_none() && !has_ours(file, &text, project) {
            continue;
        }
        let known: Map<String, Json> =
            before.map(|copy| entries(servers_of(file, copy, project)).collect()).unwrap_or_default();
        let added = match before {
            Some(before) => added_since(file, before, &text, backups, project),
            None => entries(servers_of(file, &text, project)).filter(|(name, _)| name != OURS).collect(),
        };
        let path = path_of(file.layout, project);
        text = match (file.layout, before) {
            (Layout::Toml, before) => {
                let mut blocks = before.map(|copy| tables::servers(copy, &|_| true)).unwrap_or_default();
                for name in added.keys() {
                    let texts = std::iter::once(&text).chain(backups);
                    let written = texts.map(|text| tables::servers(text, &|server| server == name));
                    blocks.push_str(&written.into_iter().find(|block| !block.is_empty()).unwrap_or_default());
                }
                let mut all = known;
                all.extend(added);
                toml_with(file, &text, &blocks, &Json::Object(all))?
            }
            // The original text, with its comments.
            (_, Some(copy)) if added.is_empty() && jsonc::raw(copy, &path).is_some() => {
                jsonc::raw(copy, &path).and_then(|raw| jsonc::replace_raw(&text, &path, raw)).unwrap_or(text)
            }
            (_, _) => {
                let mut all = known;
                all.extend(added);
                with_servers(file, &text, &path, &Json::Object(all))?.unwrap_or(text)
            }
        };
    }
    Ok(text)
}

/// Servers that were added after the copy `before`: in the file, or in a newer copy.
fn added_since(file: &ClientFile, before: &String, now: &str, backups: &[String], project: &Path) -> Map<String, Json> {
    let known = servers_of(file, before, project);
    let newer = backups.iter().take_while(|copy| *copy != before).map(String::as_str);
    let is_new = |name: &str| name != OURS && known.as_ref().is_none_or(|known| known.get(name).is_none());
    let mut added = Map::new();
    for text in std::iter::once(now).chain(newer) {
        for (name, server) in entries(servers_of(file, text, project)).filter(|(name, _)| is_new(name)) {
            added.entry(name).or_insert(server);
        }
    }
    added
}

fn has_ours(file: &ClientFile, text: &str, project: &Path) -> bool {
    servers_of(file, text, project).is_some_and(|servers| servers.get(OURS).is_some())
}

/// Replaces the servers of a file; `None` if it has no place for them.
fn with_servers(file: &ClientFile, text: &str, path: &[String], servers: &Json) -> anyhow::Result<Option<String>> {
    let Some(changed) = jsonc::set(text, path, servers) else { return Ok(None) };
    let parsed = jsonc::parse(&changed).with_context(|| unsafe_change(file))?;
    let written = path.iter().try_fold(&parsed, |value, step| value.get(step));
    anyhow::ensure!(written == Some(servers), unsafe_change(file));
    Ok(Some(changed))
}

/// Replaces all server tables with these, and changes nothing else.
fn toml_with(file: &ClientFile, text: &str, blocks: &str, servers: &Json) -> anyhow::Result<String> {
    let changed = tables::with_servers(text, blocks);
    let parse = |text: &str| toml::from_str::<Map<String, Json>>(text).with_context(|| unsafe_change(file));
    let (mut before, mut after) = (parse(text)?, parse(&changed)?);
    before.shift_remove("mcp_servers");
    let written = after.shift_remove("mcp_servers").unwrap_or_else(|| json!({}));
    anyhow::ensure!(before == after && written == *servers, unsafe_change(file));
    Ok(changed)
}

fn unsafe_change(file: &ClientFile) -> String {
    format!("{} cannot be changed safely\nhint: edit it by hand", file.path.display())
}

fn entries(servers: Option<Json>) -> impl Iterator<Item = (String, Json)> {
    let servers = match servers {
        Some(Json::Object(servers)) => servers,
        _ => Map::new(),
    };
    servers.into_iter()
}

/// Whether a server can be reached by OneTool instead of the client: it has a command or an address.
fn can_move(server: &Json) -> bool {
    ["command", "url", "serverUrl", "httpUrl"].iter().any(|key| server.get(key).is_some())
}

/// The servers in a file's text.
pub fn servers_of(file: &ClientFile, text: &str, project: &Path) -> Option<Json> {
    let root: Json = match file.layout {
        Layout::Toml => toml::from_str(text).ok()?,
        _ => jsonc::parse(text).ok()?,
    };
    path_of(file.layout, project).iter().try_fold(&root, |value, step| value.get(step)).cloned()
}

/// The entry for OneTool in this client's format.
fn entry(client: Client, words: &[String]) -> Json {
    let (program, arguments) = words.split_first().map_or(("", words), |(first, rest)| (first.as_str(), rest));
    match client {
        Client::Vscode => json!({"type": "stdio", "command": program, "args": arguments}),
        Client::Opencode => json!({"type": "local", "command": words, "enabled": true}),
        Client::Zed => json!({"source": "custom", "command": program, "args": arguments, "env": {}}),
        _ => json!({"command": program, "args": arguments}),
    }
}

/// The copies of a file, newest first.
fn backups(path: &Path) -> anyhow::Result<Vec<String>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let prefix = format!("{}{BACKUP}", path.file_name().unwrap_or_default().to_string_lossy());
    let Ok(files) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut copies: Vec<PathBuf> = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|copy| copy.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .collect();
    copies.sort();
    copies.iter().rev().filter_map(|copy| text_of(copy).transpose()).collect()
}
