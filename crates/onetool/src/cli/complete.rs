//! `onetool __complete SHELL LINE`: completes a command line, for the scripts of `onetool completions`.
//!
//! Completes commands and their options, and the project's packs, functions, parameters, servers, snippets and saved
//! code. Servers are not started: their last known tools are used.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use onetool_sdk::{QualifiedName, ToolSpec};
use serde_json::Value as Json;

use super::{Cli, Location, packs, table};
use crate::assemble::App;

#[derive(Args)]
pub struct CompleteArgs {
    /// The shell that asks
    shell: String,
    /// The command line up to the cursor
    #[arg(allow_hyphen_values = true)]
    line: String,
}

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 64 << 10;
/// Maximum number of candidates.
const MAX_SHOWN: usize = 500;

pub fn main(args: &CompleteArgs) -> anyhow::Result<ExitCode> {
    if args.line.len() > MAX_LINE {
        return Ok(ExitCode::SUCCESS);
    }
    let words = words(&args.line);
    let current = words.last().cloned().unwrap_or_default();
    let mut found = candidates(&words);
    found.retain(|(value, _)| value.starts_with(&current));
    found.truncate(MAX_SHOWN);
    // bash completes only the part after the last `=`.
    let cut = if args.shell == "bash" { current.rfind('=').map_or(0, |at| at + 1) } else { 0 };
    let mut text = String::new();
    for (value, description) in found {
        text.push_str(&value[cut..]);
        if args.shell != "bash" && !description.is_empty() {
            text.push('\t');
            text.push_str(description.lines().next().unwrap_or_default());
        }
        text.push('\n');
    }
    table::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Splits a line into words, without quotes; the last one is under the cursor.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let Some(word) = words.last_mut() else { break };
        match (c, quote) {
            ('\\', None) => word.extend(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (c, _) => word.push(c),
        }
    }
    words
}

type Candidates = Vec<(String, String)>;

/// The position of the cursor in the tree of commands.
struct Place {
    command: Command,
    path: Vec<String>,
    positional: Vec<String>,
    location: Location,
    /// The option whose value is being typed.
    option: Option<String>,
}

fn place(words: &[String]) -> Place {
    let mut command = Cli::command();
    command.build();
    let mut place =
        Place { command, path: Vec::new(), positional: Vec::new(), location: Location::default(), option: None };
    let typed = words.len().saturating_sub(1);
    for word in words.iter().take(typed).skip(1) {
        if let Some(option) = place.option.take() {
            match option.as_str() {
                "project" => place.location.project = Some(PathBuf::from(word)),
                "config" => place.location.config = Some(PathBuf::from(word)),
                _ => {}
            }
        } else if let Some(name) = word.strip_prefix("--") {
            let takes_value = place
                .command
                .get_arguments()
                .any(|argument| argument.get_long() == Some(name) && argument.get_action().takes_values());
            if takes_value {
                place.option = Some(name.to_owned());
            }
        } else if word.starts_with('-') {
        } else if let Some(next) = place.command.find_subcommand(word).filter(|_| place.positional.is_empty()) {
            place.path.push(next.get_name().to_owned());
            place.command = next.clone();
        } else {
            place.positional.push(word.clone());
        }
    }
    place
}

fn candidates(words: &[String]) -> Candidates {
    let place = place(words);
    let current = words.last().map(String::as_str).unwrap_or_default();
    let path: Vec<&str> = place.path.iter().map(String::as_str).collect();
    if let Some(option) = &place.option {
        let argument = place.command.get_arguments().find(|argument| argument.get_long() == Some(option));
        return argument.map(possible_values).unwrap_or_default();
    }
    if current.starts_with('-') {
        return options(&place.command);
    }
    if place.positional.is_empty() && place.command.has_subcommands() {
        return subcommands(&place.command);
    }
    let position = place.positional.len();
    match (path.as_slice(), position) {
        (["call"], 0) => with_app(place.location, |app| tools(app, current)),
        (["call"], _) => with_app(place.location, |app| parameters(app, &place.positional, current)),
        (["help"], 0) => {
            let mut all = subcommands(&Cli::command());
            all.extend(with_app(place.location, |app| tools(app, current)));
            all
        }
        (["tools"], 0) => with_app(place.location, |app| tools(app, current)),
        (["run"], 0) => with_app(place.location, snippets),
        (["servers", _], 0) => with_app(place.location, servers),
        (["saved", _], 0) => with_app(place.location, |app| {
            app.saved().all().values().map(|entry| (entry.name.clone(), entry.description.clone())).collect()
        }),
        (["packs", _], _) => packs::gallery_names().into_iter().map(|name| (name, String::new())).collect(),
        _ => {
            let argument =
                place.command.get_positionals().nth(position).or_else(|| place.command.get_positionals().last());
            argument.map(possible_values).unwrap_or_default()
        }
    }
}

fn subcommands(command: &Command) -> Candidates {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown
        .map(|command| {
            (command.get_name().to_owned(), command.get_about().map(ToString::to_string).unwrap_or_default())
        })
        .collect()
}

fn options(command: &Command) -> Candidates {
    let help = |argument: &clap::Arg| argument.get_help().map(ToString::to_string).unwrap_or_default();
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown.filter_map(|argument| Some((format!("--{}", argument.get_long()?), help(argument)))).collect()
}

fn possible_values(argument: &clap::Arg) -> Candidates {
    let values = argument.get_possible_values();
    values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| (value.get_name().to_owned(), String::new()))
        .collect()
}

/// Looks something up in the project. Problems are left to other commands to report.
fn with_app(location: Location, look: impl FnOnce(&App) -> Candidates + Send) -> Candidates {
    let Ok(places) = location.places() else { return Vec::new() };
    let Ok(app) = App::start_offline(places) else { return Vec::new() };
    look(&app)
}

/// Packs with a trailing dot, or the functions of a pack.
fn tools(app: &App, current: &str) -> Candidates {
    let shared = app.runner.toolbox().now();
    let catalog = shared.catalog();
    let functions = |pack: &onetool_sdk::Pack| -> Candidates {
        let named = pack.tools.values();
        named.map(|tool| (format!("{}.{}", pack.name, tool.name), tool.summary().to_owned())).collect()
    };
    if let Some((pack, _)) = current.split_once('.') {
        return catalog.pack(pack).map(|entry| functions(&entry.pack)).unwrap_or_default();
    }
    let matching: Vec<_> = catalog.packs().filter(|pack| pack.name.starts_with(current)).collect();
    match matching.as_slice() {
        [only] => functions(only),
        several => several
            .iter()
            .map(|pack| (format!("{}.", pack.name), pack.description.lines().next().unwrap_or_default().to_owned()))
            .collect(),
    }
}

/// Parameters that are not given yet, or the values of one.
fn parameters(app: &App, positional: &[String], current: &str) -> Candidates {
    let Some(name) = positional.first().and_then(|name| name.parse::<QualifiedName>().ok()) else { return Vec::new() };
    let shared = app.runner.toolbox().now();
    let Some(tool) = shared.catalog().tool(&name) else { return Vec::new() };
    let properties = properties(tool);
    if let Some((parameter, _)) = current.split_once('=') {
        let Some((_, schema)) = properties.iter().find(|(name, _)| name == parameter) else { return Vec::new() };
        return values(schema).into_iter().map(|value| (format!("{parameter}={value}"), String::new())).collect();
    }
    let is_given = |name: &str| positional.iter().skip(1).any(|word| word.split(['=', ':']).next() == Some(name));
    let describe = |schema: &Json| schema.get("description").and_then(Json::as_str).unwrap_or_default().to_owned();
    properties
        .iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, schema)| (format!("{name}="), describe(schema)))
        .collect()
}

fn properties(tool: &ToolSpec) -> Vec<(String, Json)> {
    let properties = tool.input_schema.get("properties").and_then(Json::as_object);
    properties.into_iter().flatten().map(|(name, schema)| (name.clone(), schema.clone())).collect()
}

fn values(schema: &Json) -> Vec<String> {
    if schema.get("type").and_then(Json::as_str) == Some("boolean") {
        return vec!["true".to_owned(), "false".to_owned()];
    }
    let listed = schema.get("enum").and_then(Json::as_array);
    let shown = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let own: Vec<String> = listed.into_iter().flatten().map(shown).collect();
    let nested = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    own.into_iter().chain(nested.flat_map(values)).collect()
}

fn snippets(app: &App) -> Candidates {
    let shared = app.runner.toolbox().now();
    let all = shared.state.snippets.iter();
    all.map(|(name, snippet)| (format!("${name}"), snippet.description.clone())).collect()
}

fn servers(app: &App) -> Candidates {
    app.settings().servers.iter().map(|server| (server.name.clone(), String::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values_of(line: &str) -> Vec<String> {
        let words = words(line);
        let current = words.last().cloned().unwrap_or_default();
        candidates(&words).into_iter().map(|(value, _)| value).filter(|value| value.starts_with(&current)).collect()
    }

    #[test]
    fn commands_and_options_are_known() {
        assert_eq!(values_of("onetool sc"), ["scaffold"]);
        assert_eq!(values_of("onetool servers en"), ["enable"]);
        assert_eq!(values_of("onetool call --js"), ["--json"]);
        assert_eq!(values_of("onetool completions fi"), ["fish"]);
        assert!(values_of("onetool __").is_empty());
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        assert_eq!(words("a 'b c' d\\ e \"f"), ["a", "b c", "d e", "f"]);
        assert_eq!(words("a "), ["a", ""]);
    }
}
