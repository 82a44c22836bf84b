//! `onetool bundles`: the same operations as the REST API, on the same store, without a server.
//!
//! A running server sees every change. Bundles are named by id or slug. The rules are in the store and in `api`; this
//! module only looks up names and shows answers.

mod answer;
mod auth;
mod exchange;
mod names;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use onetool_state::bundles::{BundleId, BundleStore, Disabled, Enabled, Precondition, Written};

use self::answer::{Answer, bundles_table, read_json};
use super::table::OutputArgs;
use crate::cli::Location;
use onetool_http::ApiError;
use onetool_http::rest::{self, BundleBody, BundlePage, BundleReply, DEFAULT_PAGE, ImportRequest, LARGEST_PAGE};

const EXAMPLES: &str = "\
Examples:
  onetool bundles list                                  what there is
  onetool bundles put weather bundle.json               a bundle of one's own
  onetool bundles tools put weather now v1 tool.json    a tool in it
  onetool bundles tools invoke weather now --args '{}'  call it";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct BundlesArgs {
    #[command(subcommand)]
    command: BundlesCommand,
}

#[derive(Subcommand)]
enum BundlesCommand {
    /// List bundles, the newest first
    #[command(after_help = "Examples:\n  onetool bundles list --all\n  onetool bundles list --json")]
    List(ListArgs),
    /// Show a bundle as JSON
    #[command(after_help = "Examples:\n  onetool bundles show weather")]
    Show(BundleArgs),
    /// Create or replace a bundle from JSON; a deleted one is restored
    #[command(
        after_help = "Examples:\n  echo '{\"displayName\": \"Weather\"}' | onetool bundles put weather\n  onetool bundles put weather bundle.json"
    )]
    Put(PutArgs),
    /// Enable a bundle
    #[command(after_help = "Examples:\n  onetool bundles enable weather")]
    Enable(BundleArgs),
    /// Disable a bundle and all its tools
    #[command(after_help = "Examples:\n  onetool bundles disable weather")]
    Disable(BundleArgs),
    /// Delete an empty bundle; it is removed for good after two days
    #[command(after_help = "Examples:\n  onetool bundles delete weather")]
    Delete(BundleArgs),
    /// Check how bundles authenticate
    #[command(subcommand, after_help = "Examples:\n  onetool bundles auth test weather")]
    Auth(auth::AuthCommand),
    /// Import a bundle: an archive, an OpenAPI, Postman or Arazzo document, or a curl command
    #[command(
        after_help = "Examples:\n  onetool bundles import weather.zip\n  onetool bundles import openapi.yaml --tag repos --slug github-repos\n  onetool bundles import https://api.example.org/openapi.json --pattern 'GET /pets*'\n  onetool bundles import --curl 'curl https://api.example.org/v1/now?city=Oslo'"
    )]
    Import(exchange::ImportArgs),
    /// Export a bundle as a ZIP archive
    #[command(
        after_help = "Examples:\n  onetool bundles export weather\n  onetool bundles export weather --output w.zip"
    )]
    Export(exchange::ExportArgs),
    /// List, change and call tools of bundles
    #[command(
        subcommand,
        after_help = "Examples:\n  onetool bundles tools list\n  onetool bundles tools search weather\n  onetool bundles tools invoke npm package --args '{\"name\": \"left-pad\"}'"
    )]
    Tools(tools::ToolsCommand),
}

#[derive(Args)]
struct ListArgs {
    /// Only these bundles
    #[arg(value_name = "BUNDLE")]
    only: Vec<String>,

    #[command(flatten)]
    paging: PagingArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct BundleArgs {
    /// The bundle's id or slug
    bundle: String,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct PutArgs {
    /// The bundle's id, or its slug: a slug that no bundle has makes a new one
    bundle: String,

    /// A JSON file with slug, displayName, description, isEnabled and secrets; `-` reads standard input
    #[arg(default_value = "-")]
    file: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

/// Which part of a list is shown.
#[derive(Args)]
struct PagingArgs {
    /// Include disabled ones
    #[arg(long)]
    all: bool,

    /// Rows to show, at most
    #[arg(long, default_value_t = DEFAULT_PAGE, value_parser = page_size)]
    page_size: usize,

    /// Continue after an earlier page
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

fn page_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| (1..=LARGEST_PAGE).contains(size));
    size.ok_or_else(|| format!("expected a number from 1 to {LARGEST_PAGE}"))
}

impl PagingArgs {
    fn disabled(&self) -> Disabled {
        if self.all { Disabled::Shown } else { Disabled::Hidden }
    }
}

/// The outcome of a command: an answer to show, or the API's error.
type Outcome = Result<Answer, ApiError>;

pub async fn main(args: BundlesArgs, at: Location) -> anyhow::Result<ExitCode> {
    // The body is read first: a mistake in it can be reported without the app.
    let (command, output) = prepare(args.command)?;
    let app = crate::cli::start(at)?;
    let outcome = match command {
        Prepared::Bundles(command) => bundles(&app.bundles().store, command),
        Prepared::Tools(command) => tools::run(&app, command).await,
        Prepared::Auth(command) => auth::run(&app, command).await,
        Prepared::Import(request) => exchange::import(&app.bundles(), request).await,
        Prepared::Export { bundle, output } => exchange::export(&app.bundles(), &bundle, output.as_deref()),
    };
    app.shutdown().await;
    answer::show(outcome, &output)
}

/// A command whose body has been read.
enum Prepared {
    Bundles(Operation),
    Tools(tools::Operation),
    Auth(auth::Operation),
    Import(ImportRequest),
    Export { bundle: String, output: Option<PathBuf> },
}

enum Operation {
    List { only: Vec<String>, paging: PagingArgs },
    Show(String),
    Put { bundle: String, body: serde_json::Value },
    Switch { bundle: String, enabled: Enabled },
    Delete(String),
}

fn prepare(command: BundlesCommand) -> anyhow::Result<(Prepared, OutputArgs)> {
    let (operation, output) = match command {
        BundlesCommand::List(args) => (Operation::List { only: args.only, paging: args.paging }, args.output),
        BundlesCommand::Show(args) => (Operation::Show(args.bundle), args.output),
        BundlesCommand::Put(args) => {
            (Operation::Put { bundle: args.bundle, body: read_json(&args.file)? }, args.output)
        }
        BundlesCommand::Enable(args) => (Operation::Switch { bundle: args.bundle, enabled: true.into() }, args.output),
        BundlesCommand::Disable(args) => {
            (Operation::Switch { bundle: args.bundle, enabled: false.into() }, args.output)
        }
        BundlesCommand::Delete(args) => (Operation::Delete(args.bundle), args.output),
        BundlesCommand::Auth(command) => {
            let (operation, output) = auth::prepare(command);
            return Ok((Prepared::Auth(operation), output));
        }
        BundlesCommand::Import(args) => {
            let (request, output) = args.prepare()?;
            return Ok((Prepared::Import(request), output));
        }
        BundlesCommand::Export(args) => {
            return Ok((Prepared::Export { bundle: args.bundle, output: args.output }, args.format));
        }
        BundlesCommand::Tools(command) => {
            let (operation, output) = tools::prepare(command)?;
            return Ok((Prepared::Tools(operation), output));
        }
    };
    Ok((Prepared::Bundles(operation), output))
}

fn bundles(store: &BundleStore, operation: Operation) -> Outcome {
    match operation {
        Operation::List { only, paging } => {
            let only = only.iter().map(|name| names::bundle(store, name)).collect::<Result<Vec<_>, _>>()?;
            let disabled = paging.disabled();
            let token = paging.page_token.as_deref();
            let page: BundlePage = store.bundles(&only, disabled, paging.page_size, token)?.into();
            Ok(Answer::table(&page, bundles_table(&page)))
        }
        Operation::Show(bundle) => {
            let view = store.bundle(names::bundle(store, &bundle)?)?;
            Ok(Answer::document(&BundleReply::from(&view)))
        }
        Operation::Put { bundle, body } => put(store, &bundle, body),
        Operation::Switch { bundle, enabled } => {
            let view = store.set_bundle_enabled(names::bundle(store, &bundle)?, enabled, &Precondition::None)?;
            let state = if view.bundle.is_enabled { "enabled" } else { "disabled" };
            Ok(Answer::sentence(&BundleReply::from(&view), format!("{} is {state}", view.bundle.slug)))
        }
        Operation::Delete(bundle) => {
            let id = names::bundle(store, &bundle)?;
            store.delete_bundle(id, &Precondition::None)?;
            Ok(Answer::sentence(&serde_json::json!({"ok": true}), format!("{bundle} is deleted")))
        }
    }
}

fn put(store: &BundleStore, name: &str, mut body: serde_json::Value) -> Outcome {
    let id = match names::find_bundle(store, name)? {
        Some(id) => id,
        None => {
            if let Some(body) = body.as_object_mut() {
                body.entry("slug").or_insert_with(|| name.into());
            }
            BundleId::generate()
        }
    };
    let body: BundleBody = rest::from_json(body)?;
    let (view, written) = store.put_bundle(id, body.draft()?, &Precondition::None)?;
    let verb = match written {
        Written::Created => "created",
        Written::Replaced => "replaced",
    };
    Ok(Answer::sentence(&BundleReply::from(&view), format!("{} is {verb}, with id {id}", view.bundle.slug)))
}
