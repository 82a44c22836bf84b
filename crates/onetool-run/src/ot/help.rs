//! `ot.help`: one question, an answer about whatever it names.
//!
//! An exact name (tool, pack, alias, snippet) gets its own page; anything else is searched for.

use std::fmt::Write as _;

use onetool_sdk::{Origin, Pack, PackDocs, QualifiedName, Tool, ToolSpec, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::search::{Hit, Kind};
use super::span::observed;
use super::{Awaited, Info, ToolboxHandle, blocking, describe, first_line, packs, snippets, texts};
use crate::ToolboxState;

const DOCUMENTATION: &str = "https://onetool.beycom.online/reference/tools";
/// Maximum number of hits shown of each kind.
const SHOWN_HITS: usize = 10;
/// Number of hits shown with their signature and return value.
const SIGNED_HITS: usize = 3;
/// Number of packs listed if nothing was found.
const SHOWN_PACKS: usize = 30;
/// Maximum length of a line about a hit, and of the signature below it.
const SHOWN_LINE: usize = 200;
const SHOWN_SIGNATURE: usize = 1_000;
/// Maximum number of hits of each kind with `info="list"`.
const LISTED_HITS: usize = 50;
/// Maximum number of tools that a search with `info="full"` describes completely.
const FULL_HITS: usize = 5;
/// Maximum length of a schema on a help page.
const SHOWN_SCHEMA: usize = 4_000;
/// Maximum length of a query that is repeated.
const SHOWN_QUERY: usize = 100;

/// `{EXAMPLES}` is replaced by calls to existing tools.
const OVERVIEW: &str = "\
# OneTool

Python code calls every tool as pack.function(name=value). The value of the last expression is the answer.

## Discovery

- ot.tools(pattern=\"search\"): tools by name
- ot.packs(): the packs that tools come in
- ot.snippets(): templates for $name key=value
- ot.aliases(): short names for tools
- ot.help(query=\"...\"): a tool, pack, $snippet or alias; anything else is searched for
- ot.config(), ot.health(), ot.stats(): configuration, state, use

## Info levels

- info=\"list\": names only
- info=\"sig\": a line per tool with its signature
- info=\"min\": names and short descriptions (the default)
- info=\"full\": everything that is known

## Examples

- ot.help(query=\"find text in files\")
{EXAMPLES}
- ot.result(handle=\"...\", search=\"error\")

## Tips

- Arguments have names: ot.tools(pattern=\"file\"). A unique beginning of a name is enough: p=\"file\".
- One run may call many tools; keep what is large in variables and return only what you need.
- A result too large to show is stored; ot.result reads it in pieces.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A tool, a pack, a $snippet, an alias, or words to search for. Nothing: an overview.
    #[serde(default)]
    query: Option<String>,
    /// list: names that match; min: what one needs to know; sig: every match with its signature; full: everything.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("help", "Explain a tool, pack, snippet or alias, or search for one.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.help", query = input.query), async move {
            let state = toolbox.settled(Awaited::Tools, &ctx.call).await?;
            blocking(move || Ok(answer(&state, input.query.as_deref().unwrap_or("").trim(), input.info))).await
        })
    })
    .with_returns("str | list", "a text, or names with info=\"list\"")
    .with_example("ot.help(query=\"find text in files\")")
}

fn answer(state: &ToolboxState, query: &str, info: Info) -> Value {
    if query.is_empty() {
        return Value::Str(overview(state));
    }
    if info != Info::List
        && let Some(page) = page(state, query, info)
    {
        return Value::Str(page);
    }
    let mut hits = state.search.search(state, query.trim_start_matches('$'));
    if query.starts_with('$') {
        hits.retain(|hit| hit.kind == Kind::Snippet);
    }
    match info {
        Info::List => names(&hits),
        _ if hits.is_empty() => Value::Str(nothing(state, query)),
        _ => Value::Str(results(state, query, &hits, info)),
    }
}

/// Introduction, with examples that work here.
fn overview(state: &ToolboxState) -> String {
    let mut examples = Vec::new();
    if let Some(pack) = example_pack(state) {
        examples.push(format!("- ot.packs(pattern=\"{}\", info=\"full\")", pack.name));
        examples.push(format!("- ot.tools(pattern=\"{}.\", info=\"full\")", pack.name));
        examples.extend(pack.tools.keys().next().map(|tool| format!("- ot.help(query=\"{}.{tool}\")", pack.name)));
    }
    OVERVIEW.replace("{EXAMPLES}", &examples.join("\n"))
}

/// The pack for examples: preferably one that the user added, then a built-in one, then `ot`.
fn example_pack(state: &ToolboxState) -> Option<&Pack> {
    let packs = || state.catalog.packs().map(AsRef::as_ref).filter(|pack: &&Pack| !pack.tools.is_empty());
    packs()
        .find(|pack| matches!(pack.origin, Origin::Worker { .. } | Origin::Proxy { .. }))
        .or_else(|| packs().find(|pack| pack.name == "file"))
        .or_else(|| packs().next())
}

/// The page of what the query names exactly; case is ignored only if no name matches exactly.
fn page(state: &ToolboxState, query: &str, info: Info) -> Option<String> {
    if let Some(name) = query.strip_prefix('$') {
        return state.snippets.get_key_value(name).map(|(name, snippet)| snippet_page(state, name, snippet));
    }
    if let Ok(name) = query.parse::<QualifiedName>()
        && let (Some(entry), Some(tool)) = (state.catalog.pack(&name.pack), state.catalog.tool(&name))
    {
        return Some(tool_page(state, &entry.pack, tool, info));
    }
    if let Some(entry) = state.catalog.pack(query) {
        return Some(pack_page(state, &entry.pack));
    }
    if let Some(target) = state.aliases.get(query) {
        return Some(alias_page(state, query, target));
    }
    if let Some((name, snippet)) = state.snippets.get_key_value(query) {
        return Some(snippet_page(state, name, snippet));
    }
    let lower = query.to_lowercase();
    if lower == query { None } else { page(state, &lower, info) }
}

fn tool_page(state: &ToolboxState, pack: &Pack, tool: &ToolSpec, info: Info) -> String {
    let name = format!("{}.{}", pack.name, tool.name);
    let mut text = format!("# {name}\n\n");
    if let Some(policy) = describe::policy(state, &name) {
        let _ = write!(text, "Policy: {policy}\n\n");
    }
    if !tool.description.trim().is_empty() {
        let _ = write!(text, "{}\n\n", tool.description.trim());
    }
    let _ = write!(text, "## Signature\n\n{}\n\n", describe::signature(state, &name, tool));
    if !tool.signature.parameters.is_empty() {
        text.push_str("## Arguments\n\n");
        for parameter in &tool.signature.parameters {
            let _ = write!(text, "- {}", parameter.render());
            if let Some(description) = &parameter.description {
                let _ = write!(text, " -- {description}");
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let returns = [tool.signature.returns.as_deref(), tool.returns.as_deref()];
    let returns: Vec<&str> = returns.into_iter().flatten().collect();
    let seen = state.learned.of(&name, tool);
    if !returns.is_empty() || seen.is_some() {
        let _ = write!(text, "## Returns\n\n{}", returns.join(": "));
        if let Some(seen) = seen {
            let before = if returns.is_empty() { "" } else { "\n" };
            let times = if seen.times == 1 { "time" } else { "times" };
            let _ = write!(text, "{before}(seen {} {times}): {}", seen.times, seen.shape);
        }
        text.push_str("\n\n");
    }
    if let Some(example) = &tool.example {
        let _ = write!(text, "## Example\n\n{example}\n\n");
    }
    if info == Info::Full {
        let _ = write!(text, "Source: {}\n\n", pack.origin.label());
        if let Some(note) = &pack.note {
            let _ = write!(text, "Note: {note}\n\n");
        }
        let _ = write!(text, "## Input schema\n\n{}\n\n", clipped(&tool.input_schema.to_string(), SHOWN_SCHEMA));
        if let Some(schema) = &tool.output_schema {
            let _ = write!(text, "## Output schema\n\n{}\n\n", clipped(&schema.to_string(), SHOWN_SCHEMA));
        }
    }
    text.push_str(&documentation(state, pack));
    text.truncate(text.trim_end().len());
    text
}

fn pack_page(state: &ToolboxState, pack: &Pack) -> String {
    format!("{}\n\n{}", packs::described(state, pack), documentation(state, pack)).trim_end().to_owned()
}

fn snippet_page(state: &ToolboxState, name: &str, snippet: &crate::Snippet) -> String {
    format!("# ${name}\n\n{}", snippets::definition(name, snippet, state))
}

fn alias_page(state: &ToolboxState, alias: &str, target: &str) -> String {
    let tool = target.parse().ok().and_then(|name| state.catalog.tool(&name));
    let mut text = format!("# {alias}\n\nAlias for {target}");
    match tool {
        Some(tool) => {
            let _ = write!(text, ": {}\n\nUsage: {}", tool.summary(), tool.signature.render(alias));
        }
        None => {
            let _ = write!(text, ", which is not there now\n\nUsage: {alias}(...)");
        }
    }
    let _ = write!(text, " is the same as {target}(...)\nMore: ot.help(query=\"{target}\")");
    text
}

/// Where a pack is documented: as configured, as its author says, or in OneTool's own documentation.
fn documentation(state: &ToolboxState, pack: &Pack) -> String {
    let own = match &pack.docs {
        PackDocs::Unsaid => None,
        PackDocs::At(address) => Some(Some(address)),
        PackDocs::Off => Some(None),
    };
    match state.docs.get(&pack.name).map(Option::as_ref).or(own) {
        Some(Some(address)) => return format!("Docs: {address}"),
        Some(None) => return String::new(),
        None => {}
    }
    let slug = match pack.name.as_str() {
        "brave" => "brave-search",
        "code" => "code-search",
        "db" => "database",
        "ground" => "grounding-search",
        "llm" => "transform",
        "web" => "web-fetch",
        other => other,
    };
    format!("Docs: {DOCUMENTATION}/{slug}/")
}

const GROUPS: [(Kind, &str); 4] =
    [(Kind::Tool, "Tools"), (Kind::Pack, "Packs"), (Kind::Snippet, "Snippets"), (Kind::Alias, "Aliases")];

fn names(hits: &[Hit]) -> Value {
    texts(GROUPS.iter().flat_map(|(kind, _)| {
        hits.iter().filter(move |hit| hit.kind == *kind).take(LISTED_HITS).map(|hit| match hit.kind {
            Kind::Snippet => format!("${}", hit.name),
            Kind::Tool | Kind::Pack | Kind::Alias => hit.name.clone(),
        })
    }))
}

fn results(state: &ToolboxState, query: &str, hits: &[Hit], info: Info) -> String {
    let mut text = format!("# Matches for '{}'\n", clipped(query, SHOWN_QUERY));
    let mut pages = Vec::new();
    for (kind, title) in GROUPS {
        let group: Vec<&Hit> = hits.iter().filter(|hit| hit.kind == kind).collect();
        if group.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {title}\n\n");
        for (at, hit) in group.iter().take(SHOWN_HITS).enumerate() {
            let _ = writeln!(text, "- {}", clipped(&line(state, hit), SHOWN_LINE));
            if kind == Kind::Tool
                && (at < SIGNED_HITS || info == Info::Sig)
                && let Some(signature) = signature(state, hit)
            {
                let _ = writeln!(text, "  {}", clipped(&signature, SHOWN_SIGNATURE));
            }
        }
        if group.len() > SHOWN_HITS {
            let _ = writeln!(text, "- and {} more: ot.help(query=..., info=\"list\")", group.len() - SHOWN_HITS);
        }
        if info == Info::Full && kind == Kind::Tool {
            pages.extend(group.iter().take(FULL_HITS).filter_map(|hit| page(state, &hit.name, info)));
        }
    }
    for page in pages {
        let _ = write!(text, "\n---\n\n{page}\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// The signature and return value of a tool.
fn signature(state: &ToolboxState, hit: &Hit) -> Option<String> {
    let tool = state.catalog.tool(&hit.name.parse().ok()?)?;
    let signature = describe::signature(state, &hit.name, tool);
    Some(match describe::returns(state, &hit.name, tool) {
        Some(returns) => format!("{signature}  # {returns}"),
        None => signature,
    })
}

fn line(state: &ToolboxState, hit: &Hit) -> String {
    let name = &hit.name;
    let (shown, description) = match hit.kind {
        Kind::Tool => {
            let tool = name.parse().ok().and_then(|name| state.catalog.tool(&name));
            let policy = describe::policy(state, name).map(|policy| format!(" ({policy})")).unwrap_or_default();
            (format!("{name}{policy}"), tool.map_or("", |tool| tool.summary()))
        }
        Kind::Pack => {
            let pack = state.catalog.pack(name).map(|entry| &entry.pack);
            let tools = pack.map_or(0, |pack| pack.tools.len());
            (
                format!("{name} ({tools} {})", if tools == 1 { "tool" } else { "tools" }),
                pack.map_or("", |pack| packs::about(state, pack)),
            )
        }
        Kind::Snippet => {
            (format!("${name}"), state.snippets.get(name).map_or("", |snippet| first_line(&snippet.description)))
        }
        Kind::Alias => return format!("{name} -> {}", state.aliases.get(name).map_or("", String::as_str)),
    };
    if description.is_empty() { shown } else { format!("{shown}: {description}") }
}

/// The answer when nothing matches, with what is available instead.
fn nothing(state: &ToolboxState, query: &str) -> String {
    let mut text = format!(
        "No matches found for '{}'. Use ot.tools() or ot.packs() to browse available items.\n\n## Packs\n",
        clipped(query, SHOWN_QUERY)
    );
    let packs: Vec<&str> = state.catalog.packs().map(|pack| pack.name.as_str()).collect();
    for name in packs.iter().take(SHOWN_PACKS) {
        let hit = Hit { kind: Kind::Pack, name: (*name).to_owned(), score: 0.0 };
        let _ = write!(text, "\n- {}", clipped(&line(state, &hit), SHOWN_LINE));
    }
    if packs.len() > SHOWN_PACKS {
        let _ = write!(text, "\n- and {} more: ot.packs()", packs.len() - SHOWN_PACKS);
    }
    text
}

fn clipped(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
