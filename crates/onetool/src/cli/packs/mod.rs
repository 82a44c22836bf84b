//! `onetool packs`: the gallery of packs that are included in the program, copied to where the user can edit them.

mod installed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use onetool_config::ConfigPlaces;
use serde_json::json;

use self::installed::{Installed, State};
use super::Location;
use super::table::{OutputArgs, Page, Tone, print, print_json};
use crate::gallery::{GALLERY, GalleryPack};

const EXAMPLES: &str = "\
Examples:
  onetool packs list
  onetool packs add db excel
  onetool packs update --check";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PacksArgs {
    #[command(subcommand)]
    command: PacksCommand,
}

#[derive(Subcommand)]
enum PacksCommand {
    /// List the packs of the gallery and which of them are added
    #[command(after_help = "Examples:\n  onetool packs list\n  onetool packs list --json")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Explain a pack of the gallery: set-up, limits and examples
    #[command(
        after_help = "Examples:\n  onetool packs show db\n  onetool packs show db --source\n  onetool packs show db --diff"
    )]
    Show {
        /// The pack's name
        name: String,
        /// Print the Python file instead
        #[arg(long, conflicts_with = "diff")]
        source: bool,
        /// Print what you changed in your copy instead
        #[arg(long)]
        diff: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Copy packs into the project, where they are yours to edit
    #[command(after_help = "Examples:\n  onetool packs add db excel\n  onetool packs add git --global")]
    Add {
        /// The packs' names
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Delete the copy of a pack
    #[command(after_help = "Examples:\n  onetool packs remove db\n  onetool packs remove git --global --force")]
    Remove {
        /// The packs' names
        #[arg(required = true)]
        names: Vec<String>,
        /// Also where you edited the copy; a backup is kept
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Bring copies up to date, and show what changes
    #[command(
        after_help = "Examples:\n  onetool packs update\n  onetool packs update db --check\n  onetool packs update db --force"
    )]
    Update {
        /// The packs' names [default: all that are added]
        names: Vec<String>,
        /// Only show what would change; fails if something would
        #[arg(long)]
        check: bool,
        /// Also replace copies that you edited; a backup is kept
        #[arg(long, conflicts_with = "check")]
        force: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

/// Whose tools are meant.
#[derive(Args)]
struct PlaceArgs {
    /// Use ~/.onetool, for all projects, instead of the project's .onetool
    #[arg(long)]
    global: bool,
}

impl PlaceArgs {
    fn tools(&self, places: &ConfigPlaces) -> anyhow::Result<PathBuf> {
        if !self.global {
            return Ok(places.own().join("tools"));
        }
        let global = places.global.as_ref();
        let global = global.ok_or_else(|| anyhow::anyhow!("there is no home folder\nhint: set HOME"))?;
        Ok(global.join("tools"))
    }
}

/// Names of the packs in the gallery.
pub fn gallery_names() -> Vec<String> {
    GALLERY.iter().map(|pack| pack.name.to_owned()).collect()
}

pub fn main(args: PacksArgs, at: Location) -> anyhow::Result<ExitCode> {
    let places = at.places()?;
    places.require_explicit()?;
    match args.command {
        PacksCommand::List { output } => list(&places, &output),
        PacksCommand::Show { name, source, diff, place } => {
            let pack = GalleryPack::find(&name)?;
            match (source, diff) {
                (true, _) => print(pack.source)?,
                (_, true) => return show_edits(&Installed::new(&place.tools(&places)?, pack)),
                _ => print(pack.readme)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        PacksCommand::Add { names, place } => add(&place.tools(&places)?, &names),
        PacksCommand::Remove { names, force, place } => remove(&place.tools(&places)?, &names, force),
        PacksCommand::Update { names, check, force, place } => {
            let change = if check { Change::Check } else { Change::Write { over_edits: force } };
            update(&place.tools(&places)?, &names, change)
        }
    }
}

fn list(places: &ConfigPlaces, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let project = places.own().join("tools");
    let global = places.global.as_ref().map(|global| global.join("tools"));
    let mut rows = Vec::new();
    let mut entries = Vec::new();
    for pack in GALLERY {
        let here = Installed::new(&project, pack).state()?;
        let everywhere = global.as_ref().map_or(Ok(State::Missing), |tools| Installed::new(tools, pack).state())?;
        rows.push(vec![
            (Tone::Strong, pack.name.to_owned()),
            cell(here),
            cell(everywhere),
            (Tone::Plain, pack.summary().to_owned()),
        ]);
        entries.push(json!({
            "name": pack.name,
            "description": pack.summary(),
            "dependencies": pack.dependencies(),
            "project": here.word(),
            "global": everywhere.word(),
        }));
    }
    if output.is_json() {
        print_json(&entries.into())?;
    } else {
        let mut page = Page::new();
        page.table(&["PACK", "PROJECT", "GLOBAL", "FOR"], &rows).print()?;
        eprintln!("hint: `onetool packs show NAME` explains one, `onetool packs add NAME` adds it");
    }
    Ok(ExitCode::SUCCESS)
}

fn cell(state: State) -> (Tone, String) {
    let tone = match state {
        State::Missing => Tone::Faint,
        State::Current | State::Edited | State::Foreign => Tone::Good,
        State::Outdated | State::EditedOutdated => Tone::Doubtful,
    };
    (tone, state.word().to_owned())
}

/// Checks all of them before it writes the first.
fn add(tools: &Path, names: &[String]) -> anyhow::Result<ExitCode> {
    let wanted = installed(tools, names)?;
    let mut page = Page::new();
    for one in &wanted {
        let file = one.file();
        match one.state()? {
            State::Missing | State::Current => {}
            State::Foreign => {
                anyhow::bail!("{} exists already and is not from the gallery; it was left as it is", file.display())
            }
            State::Outdated | State::Edited | State::EditedOutdated => anyhow::bail!(
                "{} exists already\nhint: `onetool packs update {}` brings it up to date",
                file.display(),
                one.pack.name
            ),
        }
    }
    let mut added = Vec::new();
    for one in wanted {
        let known = one.state()? == State::Current;
        one.write()?;
        let (tone, word) = if known { (Tone::Faint, "kept") } else { (Tone::Good, "wrote") };
        page.put(tone, word).put(Tone::Plain, &format!(" {}", one.file().display())).end_line();
        if !known {
            added.push(one.pack.name);
        }
    }
    page.print()?;
    for name in added {
        eprintln!("next: onetool tools {name}; `onetool packs show {name}` explains it");
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(tools: &Path, names: &[String], force: bool) -> anyhow::Result<ExitCode> {
    let wanted = installed(tools, names)?;
    for one in &wanted {
        let (state, file) = (one.state()?, one.file());
        match state {
            State::Missing => {
                anyhow::bail!(
                    "{} does not exist\nhint: `onetool packs list` shows what is added, and where",
                    file.display()
                )
            }
            State::Foreign => anyhow::bail!("{} is not from the gallery; delete it yourself", file.display()),
            _ if state.is_edited() && !force => anyhow::bail!(
                "you edited {}\nhint: `onetool packs show {} --diff` shows how; --force deletes it and keeps a backup",
                file.display(),
                one.pack.name
            ),
            _ => {}
        }
    }
    let mut page = Page::new();
    for one in wanted {
        if one.state()?.is_edited() {
            kept(&mut page, &one.back_up()?);
        }
        one.remove()?;
        page.put(Tone::Good, "deleted").put(Tone::Plain, &format!(" {}", one.file().display())).end_line();
    }
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

/// What `update` is allowed to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Check,
    Write { over_edits: bool },
}

fn update(tools: &Path, names: &[String], change: Change) -> anyhow::Result<ExitCode> {
    let mut wanted = Vec::new();
    if names.is_empty() {
        for pack in GALLERY {
            let one = Installed::new(tools, pack);
            if !matches!(one.state()?, State::Missing | State::Foreign) {
                wanted.push(one);
            }
        }
        if wanted.is_empty() {
            eprintln!(
                "no pack of the gallery is added\nhint: `onetool packs list` shows what there is, `onetool packs add NAME` adds one"
            );
        }
    } else {
        wanted = installed(tools, names)?;
        for one in &wanted {
            let file = one.file();
            match one.state()? {
                State::Missing => {
                    anyhow::bail!("{} does not exist\nhint: `onetool packs add {}`", file.display(), one.pack.name)
                }
                State::Foreign => anyhow::bail!("{} is not from the gallery; it was left as it is", file.display()),
                _ => {}
            }
        }
    }
    let mut page = Page::new();
    let mut left = 0;
    for one in wanted {
        let state = one.state()?;
        let name = one.pack.name;
        if matches!(state, State::Current | State::Edited) {
            page.put(Tone::Faint, &format!("{name}: up to date")).end_line();
            continue;
        }
        // Compared with the user's copy, to show what would be lost or gained.
        diff(&mut page, &one, &one.text()?.unwrap_or_default(), one.pack.source, ("yours", "gallery"));
        match change {
            Change::Check => left += 1,
            Change::Write { over_edits: false } if state.is_edited() => {
                left += 1;
                page.put(Tone::Doubtful, &format!("{name}: left as it is, because you edited it")).end_line();
                eprintln!("hint: `onetool packs update {name} --force` replaces it and keeps a backup of your file");
            }
            Change::Write { .. } => {
                if state.is_edited() {
                    kept(&mut page, &one.back_up()?);
                }
                one.write()?;
                page.put(Tone::Good, &format!("{name}: updated")).end_line();
            }
        }
    }
    page.print()?;
    Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show_edits(one: &Installed) -> anyhow::Result<ExitCode> {
    let file = one.file();
    let Some(text) = one.text()? else {
        anyhow::bail!("{} does not exist\nhint: `onetool packs add {}`", file.display(), one.pack.name)
    };
    let original = one.original_text()?;
    let mut page = Page::new();
    diff(&mut page, one, original.as_deref().unwrap_or(one.pack.source), &text, ("gallery", "yours"));
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

fn installed(tools: &Path, names: &[String]) -> anyhow::Result<Vec<Installed>> {
    names.iter().map(|name| Ok(Installed::new(tools, GalleryPack::find(name)?))).collect()
}

fn kept(page: &mut Page, path: &Path) {
    page.put(Tone::Doubtful, "kept").put(Tone::Plain, &format!(" your file as {}", path.display())).end_line();
}

/// A unified diff, in colour on a terminal.
fn diff(page: &mut Page, one: &Installed, before: &str, after: &str, names: (&str, &str)) {
    let file = format!("{}_tools.py", one.pack.name);
    let (old, new) = (format!("{}/{file}", names.0), format!("{}/{file}", names.1));
    let text = onetool_packs::diff::unified((&old, &new), before, after);
    for line in text.lines() {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Faint,
            _ => Tone::Plain,
        };
        page.put(tone, line).end_line();
    }
}
