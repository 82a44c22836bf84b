//! `onetool bundles tools`: lists, changes and calls the tools of bundles.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use onetool_http::ApiError;
use onetool_http::rest::{self, Invoker, Mode, ToolBody, ToolPage, ToolPath, ToolReply};
use onetool_sdk::{CallContext, Caller, NoProgress};
use onetool_state::bundles::{BundleId, BundleStore, Enabled, Precondition, ToolFilter};
use serde_json::{Map, Value as Json};

use super::answer::{Answer, read_json, tools_table};
use super::{Outcome, PagingArgs, names};
use crate::assemble::App;
use crate::cli::table::OutputArgs;

#[derive(Subcommand)]
pub(super) enum ToolsCommand {
    /// List tools, the newest first
    #[command(after_help = "Examples:\n  onetool bundles tools list weather --json")]
    List(ListArgs),
    /// Show a tool as JSON
    #[command(after_help = "Examples:\n  onetool bundles tools show weather now v1")]
    Show(ToolArgs),
    /// Store a new tool from JSON; slug and version must be free
    #[command(after_help = "Examples:\n  onetool bundles tools put weather now v1 tool.json")]
    Put(PutArgs),
    /// Enable a tool
    #[command(after_help = "Examples:\n  onetool bundles tools enable weather now")]
    Enable(ToolArgs),
    /// Disable a tool
    #[command(after_help = "Examples:\n  onetool bundles tools disable weather now v1")]
    Disable(ToolArgs),
    /// Delete a tool for good
    #[command(after_help = "Examples:\n  onetool bundles tools delete weather now v1")]
    Delete(ToolArgs),
    /// Search tools by name, tag and description
    #[command(after_help = "Examples:\n  onetool bundles tools search weather")]
    Search(SearchArgs),
    /// Call a tool and print its value
    #[command(
        after_help = "Examples:\n  onetool bundles tools invoke weather now --args '{\"city\": \"Bern\"}'\n  onetool bundles tools invoke weather now --args-file args.json --dry-run"
    )]
    Invoke(InvokeArgs),
}

#[derive(Args)]
pub(super) struct ListArgs {
    /// Only tools of these bundles
    #[arg(value_name = "BUNDLE")]
    named: Vec<String>,

    /// The same as an option; repeatable
    #[arg(long, short, value_name = "BUNDLE")]
    bundle: Vec<String>,

    /// Only tools with this tag; repeatable
    #[arg(long, short, value_name = "TAG")]
    tag: Vec<String>,

    #[command(flatten)]
    paging: PagingArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(super) struct NameArgs {
    /// The bundle's id or slug
    bundle: String,

    /// The tool's slug
    tool: String,

    /// The tool's version; may be left out where there is only one
    version: Option<String>,
}

#[derive(Args)]
pub(super) struct ToolArgs {
    #[command(flatten)]
    name: NameArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(super) struct PutArgs {
    /// The bundle's id or slug
    bundle: String,

    /// The tool's slug
    tool: String,

    /// The tool's version
    version: String,

    /// A JSON file with type, impl, argSchema and so on; `-` reads standard input
    #[arg(default_value = "-")]
    file: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(super) struct SearchArgs {
    /// Words, or beginnings of words
    query: String,

    #[command(flatten)]
    paging: PagingArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(super) struct InvokeArgs {
    #[command(flatten)]
    name: NameArgs,

    /// The arguments, one JSON object
    #[arg(long, short, value_name = "OBJECT", conflicts_with = "args_file")]
    args: Option<String>,

    /// A file with the arguments; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    args_file: Option<PathBuf>,

    /// Show the request instead of sending it, secrets masked
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// A command whose body has been read.
pub(super) enum Operation {
    List { bundles: Vec<String>, tags: Vec<String>, paging: PagingArgs },
    Show(NameArgs),
    Put { name: NameArgs, body: Json },
    Switch { name: NameArgs, enabled: Enabled },
    Delete(NameArgs),
    Search { query: String, paging: PagingArgs },
    Invoke { name: NameArgs, arguments: Map<String, Json>, mode: Mode },
}

pub(super) fn prepare(command: ToolsCommand) -> anyhow::Result<(Operation, OutputArgs)> {
    Ok(match command {
        ToolsCommand::List(args) => {
            let bundles = args.named.into_iter().chain(args.bundle).collect();
            (Operation::List { bundles, tags: args.tag, paging: args.paging }, args.output)
        }
        ToolsCommand::Show(args) => (Operation::Show(args.name), args.output),
        ToolsCommand::Put(args) => {
            let body = read_json(&args.file)?;
            let name = NameArgs { bundle: args.bundle, tool: args.tool, version: Some(args.version) };
            (Operation::Put { name, body }, args.output)
        }
        ToolsCommand::Enable(args) => (Operation::Switch { name: args.name, enabled: true.into() }, args.output),
        ToolsCommand::Disable(args) => (Operation::Switch { name: args.name, enabled: false.into() }, args.output),
        ToolsCommand::Delete(args) => (Operation::Delete(args.name), args.output),
        ToolsCommand::Search(args) => (Operation::Search { query: args.query, paging: args.paging }, args.output),
        ToolsCommand::Invoke(args) => {
            let arguments = match (&args.args, &args.args_file) {
                (Some(text), _) => serde_json::from_str(text).context("--args: invalid JSON")?,
                (None, Some(file)) => read_json(file)?,
                (None, None) => Json::Object(Map::new()),
            };
            let Json::Object(arguments) = arguments else {
                anyhow::bail!("the arguments must be one JSON object, such as {{\"city\": \"Oslo\"}}")
            };
            let mode = if args.dry_run { Mode::DryRun } else { Mode::Send };
            (Operation::Invoke { name: args.name, arguments, mode }, args.output)
        }
    })
}

pub(super) async fn run(app: &App, operation: Operation) -> Outcome {
    let bundles = app.bundles();
    let store = &bundles.store;
    match operation {
        Operation::List { bundles, tags, paging } => {
            let bundles = bundles.iter().map(|name| names::bundle(store, name)).collect::<Result<Vec<_>, _>>()?;
            let filter = ToolFilter { bundles, tags, disabled: paging.disabled() };
            let page = store.tools(&filter, paging.page_size, paging.page_token.as_deref())?;
            Ok(listed(store, &page.into()))
        }
        Operation::Search { query, paging } => {
            let token = paging.page_token.as_deref();
            let page = store.search(&query, paging.disabled(), paging.page_size, token)?;
            Ok(listed(store, &page.into()))
        }
        Operation::Show(name) => {
            let path = name.find(store)?;
            Ok(Answer::document(&ToolReply::from(store.tool(path.bundle, &path.slug, &path.version)?)))
        }
        Operation::Put { name, body } => {
            let path = name.find(store)?;
            let body: ToolBody = rest::from_json(body)?;
            let draft = body.draft(&path)?;
            let view = store.put_tool(path.bundle, (&path.slug, &path.version), draft, &Precondition::None)?;
            Ok(Answer::sentence(&ToolReply::from(view), format!("{} {} is stored", path.slug, path.version)))
        }
        Operation::Switch { name, enabled } => {
            let path = name.find(store)?;
            let view =
                store.set_tool_enabled(path.bundle, (&path.slug, &path.version), enabled, &Precondition::None)?;
            let state = if view.tool.is_enabled { "enabled" } else { "disabled" };
            Ok(Answer::sentence(&ToolReply::from(view), format!("{} {} is {state}", path.slug, path.version)))
        }
        Operation::Delete(name) => {
            let path = name.find(store)?;
            store.delete_tool(path.bundle, (&path.slug, &path.version), &Precondition::None)?;
            let sentence = format!("{} {} is deleted", path.slug, path.version);
            Ok(Answer::sentence(&serde_json::json!({"ok": true}), sentence))
        }
        Operation::Invoke { name, arguments, mode } => {
            let path = name.find(store)?;
            let invoker = Invoker {
                bundles: bundles.clone(),
                tools: Arc::new(app.runner.toolbox().clone()),
                timeout: app.settings().server.api.invoke_timeout,
                context: CallContext::new(Caller::Cli),
                redactor: app.runner.redactor(),
            };
            let reply = tokio::select! {
                reply = invoker.invoke(path, arguments, mode, Arc::new(NoProgress)) => reply?,
                _ = tokio::signal::ctrl_c() => return Err(ApiError::conflict("the call was cancelled")),
            };
            let value = match mode {
                Mode::Send => reply.value.clone(),
                Mode::DryRun => match &reply.steps {
                    Some(steps) => serde_json::to_value(steps).unwrap_or_default(),
                    None => serde_json::to_value(&reply.request).unwrap_or_default(),
                },
            };
            let cut = reply.meta.cut.as_ref().map(|cut| format!("note: the list was cut ({cut}); there is more"));
            Ok(Answer::value(&reply, value).with_note(cut))
        }
    }
}

impl NameArgs {
    fn find(&self, store: &BundleStore) -> Result<ToolPath, ApiError> {
        names::tool(store, &self.bundle, &self.tool, self.version.as_deref())
    }
}

/// A page of tools; people see the slugs of bundles.
fn listed(store: &BundleStore, page: &ToolPage) -> Answer {
    let mut slugs: HashMap<&str, String> = HashMap::new();
    for tool in &page.tools {
        slugs.entry(&tool.bundle_id).or_insert_with(|| {
            let bundle = tool.bundle_id.parse::<BundleId>().ok().and_then(|id| store.bundle(id).ok());
            bundle.map_or_else(|| tool.bundle_id.clone(), |view| view.bundle.slug.to_string())
        });
    }
    Answer::table(page, tools_table(page, |id| slugs.get(id).cloned().unwrap_or_default()))
}
