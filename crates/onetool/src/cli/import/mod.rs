//! `onetool import` and `onetool export`: imports servers of other clients, and restores them.
//!
//! `clients` knows the locations of files, `read` their meaning, `plan` what would happen, `redirect` how to point a
//! client at OneTool and back, `program` which command starts it. Nothing is written without `--write`.

mod clients;
mod jsonc;
mod own;
mod plan;
mod program;
mod read;
mod redirect;
mod toml_tables;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use onetool_config::ConfigPlaces;
use onetool_sdk::Redactor;
use serde_json::{Map, Value as Json};

use self::clients::{Client, ClientFile, Folders, System, recognise};
use self::plan::{Action, Plan};
pub use self::program::program;
use self::read::{FoundServer, read, text_of};
use self::redirect::Redirect;
use super::Location;
use super::config_file::{self, Backup, ConfigFile, Scope, ignore_private_files};
use super::table::{Page, Tone};
use crate::config;
use crate::secret_values;

const IMPORT_EXAMPLES: &str = "\
Examples:
  onetool import                          show what would be imported from all clients
  onetool import --write                  import it
  onetool import --client cursor --write  import from Cursor, and point Cursor at OneTool
  onetool import ~/other/.mcp.json        show what a file has";

#[derive(Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArgs {
    /// Files to read instead of the ones that clients are known to have
    files: Vec<PathBuf>,

    /// Import only from this client, and replace its servers by OneTool (repeatable)
    #[arg(long, value_enum, value_name = "CLIENT", conflicts_with = "files")]
    client: Vec<Client>,

    /// Write the changes; without it they are only shown
    #[arg(long)]
    write: bool,

    /// Import into ~/.onetool instead of the project
    #[arg(long)]
    global: bool,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  onetool export --client cursor          show how Cursor gets its servers back
  onetool export --client cursor --write  give them back";

#[derive(Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// The client that gets back the servers it had before `onetool import --client`
    #[arg(long, value_enum, value_name = "CLIENT", required = true)]
    client: Vec<Client>,

    /// Write the changes; without it they are only shown
    #[arg(long)]
    write: bool,
}

pub fn import(args: ImportArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    let folders = folders(&places)?;
    let files = if args.files.is_empty() { client_files(&args.client, &folders) } else { named_files(&args.files)? };
    let mut found = Vec::new();
    let mut sources = Vec::new();
    for file in files {
        match read(&file, &places.project) {
            Ok(Some(servers)) if !servers.is_empty() => {
                found.extend(servers);
                sources.push(file);
            }
            Ok(_) => {}
            // A broken file must not block the others, unless it was named explicitly.
            Err(error) if args.files.is_empty() => eprintln!("warning: {error:#}"),
            Err(error) => return Err(error),
        }
    }
    // A client without servers is pointed at OneTool too.
    for client in &args.client {
        if !sources.iter().any(|file| file.client == *client) {
            let files = client.files(&folders);
            let existing = files.iter().find(|file| file.path.exists()).or(files.first());
            sources.extend(existing.cloned());
        }
    }
    if found.is_empty() && sources.is_empty() {
        eprintln!("no servers found");
        eprintln!("hint: name a file, or add a server with `onetool servers add`");
        return Ok(ExitCode::SUCCESS);
    }
    let scope = if args.global { Scope::User } else { Scope::Project };
    let outcome = Import::new(&places, scope, found)?;
    let redirects = if args.client.is_empty() { Vec::new() } else { Redirect::to_onetool(&sources, &places.project)? };
    outcome.show()?;
    show_redirects(&redirects, &sources, &places)?;
    if !outcome.is_change() && redirects.is_empty() {
        eprintln!("there is nothing to write: what can be imported is configured already");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.write {
        eprintln!("nothing was written\nhint: add --write to write it");
        return Ok(ExitCode::SUCCESS);
    }
    outcome.write()?;
    write_redirects(&redirects)?;
    eprintln!("next: onetool servers test");
    Ok(ExitCode::SUCCESS)
}

pub fn export(args: ExportArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    let folders = folders(&places)?;
    let files = client_files(&args.client, &folders);
    let redirects = Redirect::back(&files, &places.project)?;
    if redirects.is_empty() {
        anyhow::bail!(
            "there is nothing to give back: OneTool is not in the files of {}\n\
             hint: `onetool import --client NAME --write` points a client at OneTool, and keeps a backup beside its file",
            args.client.iter().map(|client| client.name()).collect::<Vec<_>>().join(", ")
        );
    }
    show_redirects(&redirects, &files, &places)?;
    if args.write {
        write_redirects(&redirects)?;
    } else {
        eprintln!("nothing was written\nhint: add --write to write it");
    }
    Ok(ExitCode::SUCCESS)
}

/// An import from all clients at once, for `onetool init`.
pub struct ImportOfAll(Import);

impl ImportOfAll {
    pub fn new(places: &ConfigPlaces, scope: Scope) -> anyhow::Result<Self> {
        let folders = folders(places)?;
        let found: Vec<FoundServer> = client_files(&[], &folders)
            .iter()
            .filter_map(|file| read(file, &places.project).ok().flatten())
            .flatten()
            .collect();
        Ok(Self(Import::new(places, scope, found)?))
    }

    /// Number of servers that it would add.
    pub fn count(&self) -> usize {
        let is_new = |step: &&plan::Step| matches!(step.action, Action::Add | Action::Rename(_));
        self.0.plan.steps.iter().filter(is_new).count()
    }

    pub fn show_and_write(&self) -> anyhow::Result<()> {
        self.0.show()?;
        self.0.write()
    }
}

/// An import that is ready to be written.
struct Import {
    plan: Plan,
    file: ConfigFile,
    secrets: ConfigFile,
    /// The folder whose private files must be kept out of version control.
    own: Option<PathBuf>,
}

impl Import {
    fn new(places: &ConfigPlaces, scope: Scope, found: Vec<FoundServer>) -> anyhow::Result<Self> {
        let settings = config::resolve(places, config::load(places));
        let mut file = ConfigFile::main(places, scope)?;
        let mut known = Map::new();
        for path in settings.files.iter().filter(|path| **path != file.path) {
            if let Ok(Some(Json::Object(servers))) =
                ConfigFile::open(path.clone()).and_then(|file| file.value(&["servers"]))
            {
                known.extend(servers);
            }
        }
        let secret = |name: &str| settings.secrets.get(name).map(str::to_owned);
        let plan = Plan::new(found, &mut file, &known, &secret)?;
        let mut secrets = ConfigFile::open(config_file::secrets_path(&file.path))?;
        for (name, value) in &plan.secrets {
            secrets.set(&[name], &Json::String(value.clone()))?;
        }
        Ok(Self {
            plan,
            file,
            secrets,
            own: (scope == Scope::Project && places.explicit.is_none()).then(|| places.own()),
        })
    }

    fn is_change(&self) -> bool {
        self.file.is_changed() || self.secrets.is_changed()
    }

    fn show(&self) -> anyhow::Result<()> {
        let rows: Vec<_> = self
            .plan
            .steps
            .iter()
            .map(|step| {
                let (tone, action) = match &step.action {
                    Action::Add => (Tone::Good, "add".to_owned()),
                    Action::Rename(name) => (Tone::Good, format!("add as {name}")),
                    Action::Same(name) if *name == step.found.name => (Tone::Faint, "configured already".to_owned()),
                    Action::Same(name) => (Tone::Faint, format!("configured already as {name}")),
                    Action::Skip(why) => (Tone::Faint, format!("skip: {why}")),
                };
                let kind = if step.found.settings.contains_key("url") { "http" } else { "stdio" };
                vec![
                    (Tone::Strong, step.found.name.clone()),
                    (Tone::Plain, step.found.client.name().to_owned()),
                    (Tone::Plain, kind.to_owned()),
                    (tone, action),
                    (Tone::Plain, step.found.remarks.join("; ")),
                ]
            })
            .collect();
        let mut page = Page::new();
        if !rows.is_empty() {
            page.table(&["NAME", "FROM", "TYPE", "ACTION", "REMARK"], &rows);
        }
        if self.file.is_changed() {
            page.put(Tone::Plain, "").end_line().text(&self.file.diff());
        }
        if !self.plan.secrets.is_empty() {
            // Only names: terminals keep their output.
            let names: Vec<&str> = self.plan.secrets.keys().map(String::as_str).collect();
            page.put(Tone::Plain, "").end_line();
            page.text(&format!("{}: adds {}", self.secrets.path.display(), names.join(", ")));
        }
        for (name, what) in &self.plan.inputs {
            let what = if what.is_empty() { String::new() } else { format!(" ({what})") };
            page.text(&format!("add the secret {name}{what} to {} yourself", self.secrets.path.display()));
        }
        page.print()
    }

    fn write(&self) -> anyhow::Result<()> {
        if let Some(own) = &self.own {
            ignore_private_files(own)?;
        }
        let mut page = Page::new();
        if self.secrets.is_changed() {
            self.secrets.save_private()?;
            page.put(Tone::Good, "wrote").put(Tone::Plain, &format!(" {}", self.secrets.path.display())).end_line();
        }
        if self.file.is_changed() {
            let copy = self.file.save(Backup::Keep)?;
            page.put(Tone::Good, "wrote").put(Tone::Plain, &format!(" {}", self.file.path.display()));
            if let Some(copy) = copy {
                page.put(Tone::Plain, &format!(" (backup: {})", copy.display()));
            }
            page.end_line();
        }
        page.print()
    }
}

fn folders(places: &ConfigPlaces) -> anyhow::Result<Folders> {
    let home = onetool_config::home_folder().context("there is no home folder\nhint: name the files to import")?;
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    Ok(Folders::new(System::current(), &home, &places.project, &variable))
}

fn client_files(clients: &[Client], folders: &Folders) -> Vec<ClientFile> {
    let clients = if clients.is_empty() { Client::ALL } else { clients };
    clients.iter().flat_map(|client| client.files(folders)).collect()
}

fn named_files(paths: &[PathBuf]) -> anyhow::Result<Vec<ClientFile>> {
    let mut files = Vec::new();
    for path in paths {
        let text = text_of(path)?.with_context(|| {
            format!(
                "{} does not exist\nhint: without a file, `onetool import` looks for those of all clients",
                path.display()
            )
        })?;
        let found = recognise(path, &text).map_err(|error| {
            anyhow::anyhow!(
                "{} is not valid JSON: {error}\nhint: fix the file; comments and trailing commas are fine",
                path.display()
            )
        })?;
        anyhow::ensure!(
            !found.is_empty(),
            "{}: no servers in it\nhint: expected JSON with mcpServers, servers, context_servers or mcp, Codex' TOML, or a OneTool configuration",
            path.display()
        );
        files.extend(found);
    }
    Ok(files)
}

/// Shows the changes in the files of clients, without secrets: terminals keep their output.
fn show_redirects(redirects: &[Redirect], files: &[ClientFile], places: &ConfigPlaces) -> anyhow::Result<()> {
    let mut page = Page::new();
    for redirect in redirects {
        let of_path = files.iter().filter(|file| file.path == redirect.path);
        let hidden: Vec<String> = of_path
            .flat_map(|file| redirect.texts().map(|text| redirect::servers_of(file, text, &places.project)))
            .flatten()
            .flat_map(|servers| secret_values::find(&servers))
            .collect();
        let redactor = Redactor::new(hidden.iter().map(String::as_str));
        page.put(Tone::Plain, "").end_line();
        if redirect.removes_file() {
            page.text(&format!("{}: removed; it was made for OneTool", redirect.path.display()));
        } else {
            page.text(&redactor.text(&redirect.diff()));
        }
    }
    page.print()
}

fn write_redirects(redirects: &[Redirect]) -> anyhow::Result<()> {
    let mut page = Page::new();
    for redirect in redirects {
        let copy = redirect.save()?;
        let done = if redirect.removes_file() { "removed" } else { "wrote" };
        page.put(Tone::Good, done).put(Tone::Plain, &format!(" {}", redirect.path.display()));
        if let Some(copy) = copy {
            page.put(Tone::Plain, &format!(" (backup: {})", copy.display()));
        }
        page.end_line();
    }
    page.print()
}
