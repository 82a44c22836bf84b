//! `onetool servers add|remove|enable|disable`: edits the configuration in place.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use onetool_config::ConfigPlaces;
use onetool_sdk::{RESERVED_PACKS, is_python_identifier, to_python_identifier};
use serde_json::{Map, Value as Json, json};

use crate::cli::config_file::{self, Backup, ConfigFile, Scope, ignore_private_files};
use crate::cli::table::{Page, Tone};
use crate::config;
use crate::secret_values;

#[derive(Args)]
#[command(
    group(ArgGroup::new("target").required(true).args(["url", "command"])),
    override_usage = "onetool servers add [OPTIONS] <NAME> -- <COMMAND>...\n       onetool servers add [OPTIONS] <NAME> --url <URL>"
)]
pub struct AddArgs {
    /// Name of the server; its pack is named after it
    name: String,

    /// Address of an HTTP server
    #[arg(long, value_parser = address)]
    url: Option<String>,

    /// Header of every request (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "url", value_parser = pair)]
    header: Vec<(String, String)>,

    /// Environment variable of the program (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "command", value_parser = pair)]
    env: Vec<(String, String)>,

    /// Seconds for connecting and for each call [default: 30]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,

    /// Add it to ~/.onetool instead of the project
    #[arg(long)]
    global: bool,

    /// Program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Checks an HTTP address. One with `${NAME}` is only known when it is used.
fn address(text: &str) -> Result<String, String> {
    let is_of_web = |url: reqwest::Url| ["http", "https"].contains(&url.scheme()) && url.has_host();
    if text.contains("${") || reqwest::Url::parse(text).is_ok_and(is_of_web) {
        return Ok(text.to_owned());
    }
    Err("expected an address like https://example.org/mcp".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

pub fn add(args: AddArgs, places: &ConfigPlaces) -> anyhow::Result<ExitCode> {
    let settings = config::resolve(places, config::load(places));
    let pack = to_python_identifier(&args.name);
    if !args.name.chars().any(char::is_alphanumeric) || args.name.contains(char::is_control) {
        anyhow::bail!("'{}' is not a name for a server; it needs a letter or a digit", args.name);
    }
    if RESERVED_PACKS.contains(&pack.as_str()) {
        anyhow::bail!("'{}' is the name of a pack of OneTool's own\nhint: choose another name", args.name);
    }
    if let Some(known) = settings.servers.iter().find(|server| to_python_identifier(&server.name) == pack) {
        anyhow::bail!(
            "a server named '{}' is configured already\nhint: `onetool servers remove {}` removes it",
            known.name,
            known.name
        );
    }
    let mut entry = entry(&args);
    let secret = |name: &str| settings.secrets.get(name).map(str::to_owned);
    let moved = secret_values::take(&args.name, &mut entry, &secret);
    let scope = if args.global { Scope::User } else { Scope::Project };
    let mut file = ConfigFile::main(places, scope)?;
    file.set(&["servers", &args.name], &Json::Object(entry))?;
    if scope == Scope::Project && places.explicit.is_none() {
        ignore_private_files(&places.own())?;
    }
    let mut page = Page::new();
    if !moved.is_empty() {
        let mut secrets = ConfigFile::open(config_file::secrets_path(&file.path))?;
        for (name, value) in &moved {
            secrets.set(&[name], &Json::String(value.clone()))?;
        }
        secrets.save_private()?;
        let names: Vec<&str> = moved.keys().map(String::as_str).collect();
        page.put(Tone::Good, "moved");
        page.put(Tone::Plain, &format!(" {} to {}", names.join(", "), secrets.path.display())).end_line();
    }
    file.save(Backup::Skip)?;
    page.put(Tone::Good, "added").put(Tone::Plain, &format!(" {} to {}", args.name, file.path.display()));
    if !is_python_identifier(&args.name) {
        page.put(Tone::Plain, &format!("; its pack is {pack}"));
    }
    page.end_line().print()?;
    let quote = if args.name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) { "" } else { "'" };
    eprintln!("next: onetool servers test {quote}{}{quote}", args.name);
    Ok(ExitCode::SUCCESS)
}

fn entry(args: &AddArgs) -> Map<String, Json> {
    let mut entry = Map::new();
    let map = |pairs: &[(String, String)]| -> Json {
        pairs.iter().map(|(name, value)| (name.clone(), Json::String(value.clone()))).collect::<Map<_, _>>().into()
    };
    if let Some(url) = &args.url {
        entry.insert("url".to_owned(), json!(url));
    }
    if !args.header.is_empty() {
        entry.insert("headers".to_owned(), map(&args.header));
    }
    if let Some((program, arguments)) = args.command.split_first() {
        entry.insert("command".to_owned(), json!(program));
        if !arguments.is_empty() {
            entry.insert("args".to_owned(), json!(arguments));
        }
    }
    if !args.env.is_empty() {
        entry.insert("env".to_owned(), map(&args.env));
    }
    if let Some(timeout) = args.timeout {
        entry.insert("timeout".to_owned(), json!(timeout));
    }
    entry
}

pub fn remove(name: &str, places: &ConfigPlaces) -> anyhow::Result<ExitCode> {
    let (mut file, name) = find(name, places)?;
    file.remove(&["servers", &name])?;
    file.save(Backup::Skip)?;
    done("removed", &name, "from", &file)
}

pub fn switch(name: &str, is_on: bool, places: &ConfigPlaces) -> anyhow::Result<ExitCode> {
    let (mut file, name) = find(name, places)?;
    file.set(&["servers", &name, "enabled"], &json!(is_on))?;
    file.save(Backup::Skip)?;
    done(if is_on { "enabled" } else { "disabled" }, &name, "in", &file)
}

/// Finds the file that configures this server, and the server's name in it. The name of its pack is accepted too.
fn find(name: &str, places: &ConfigPlaces) -> anyhow::Result<(ConfigFile, String)> {
    let settings = config::resolve(places, config::load(places));
    let is_meant = |known: &str| known == name || to_python_identifier(known) == name;
    let Some(server) = settings.servers.iter().find(|server| is_meant(&server.name)) else {
        let known: Vec<&str> = settings.servers.iter().map(|server| server.name.as_str()).collect();
        let known =
            if known.is_empty() { "none is configured".to_owned() } else { format!("there are: {}", known.join(", ")) };
        anyhow::bail!("no server is named '{name}'; {known}");
    };
    match ConfigFile::of_server(&settings.files, &server.name)? {
        Some(file) => Ok((file, server.name.clone())),
        None => {
            anyhow::bail!("no file says where the server '{name}' is configured\nhint: edit the configuration by hand")
        }
    }
}

fn done(what: &str, name: &str, preposition: &str, file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let mut page = Page::new();
    page.put(Tone::Good, what).put(Tone::Plain, &format!(" {name} {preposition} {}", file.path.display())).end_line();
    page.print()?;
    Ok(ExitCode::SUCCESS)
}
