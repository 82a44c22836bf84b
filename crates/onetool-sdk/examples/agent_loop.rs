//! A whole agent without a model: a script plays the model's part, everything else is real.
//!
//! In each turn the "model" calls some tools; they run in parallel, their results go into the conversation, and the
//! output cache keeps the conversation small. The last turn is cancelled while a tool runs.
//!
//! `cargo run -p onetool-sdk --example agent_loop`

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use onetool_sdk::{
    Budget, CallContext, DependencyKey, LineRange, LogLevel, MemoryOutputStore, OutputCache, Provider, ProviderNames,
    Tool, ToolContext, ToolError, ToolMessage, define_sync_tool, define_tool, lint_request,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

/// The data that the tools look up. Made once per run.
struct Library {
    books: HashMap<&'static str, usize>,
}

fn library() -> DependencyKey<Library> {
    DependencyKey::from_async("library", |ctx: ToolContext| async move {
        ctx.log(LogLevel::Info, "opening the library");
        Ok(Library { books: HashMap::from([("Momo", 300), ("Krabat", 260)]) })
    })
    .per_run()
}

#[derive(Deserialize, JsonSchema)]
struct PagesInput {
    /// The book's title.
    title: String,
    /// Maximum number of pages to count.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadInput {
    /// The book's title.
    title: String,
}

#[derive(Deserialize, JsonSchema)]
struct WaitInput {}

/// Three tools: one that computes, one with a long result, one that never ends by itself.
fn tools(waiting: Arc<Notify>) -> Vec<Tool> {
    let pages = define_tool("library.pages", "How many pages a book has.", |input: PagesInput, ctx| async move {
        let library = ctx.resolve(&library()).await?;
        let pages = library.books.get(input.title.as_str()).copied();
        let pages = pages.ok_or_else(|| ToolError::not_found(format!("no book named '{}'", input.title)))?;
        Ok(pages.min(input.limit.unwrap_or(usize::MAX)).to_string())
    });
    let read = define_sync_tool("library.read", "The text of a book.", |input: ReadInput, _ctx| {
        Ok((1..=300).map(|line| format!("{}, line {line}\n", input.title)).collect::<Vec<_>>().concat())
    });
    let wait = define_tool("wait", "Waits until it is cancelled.", move |_: WaitInput, _ctx| {
        let waiting = waiting.clone();
        async move {
            waiting.notify_one();
            std::future::pending::<()>().await;
            Ok("never seen")
        }
    });
    vec![pages, read, wait]
}

/// A tool call by the model: the call's id, the provider's name of the tool, raw arguments.
struct Request(&'static str, &'static str, &'static str);

/// The calls of the "model", turn by turn. The second call of the first turn is wrong, as models' calls sometimes are.
fn script() -> Vec<Vec<Request>> {
    vec![
        vec![
            Request("c1", "library_pages", r#"{"title": "Momo", "limit": null}"#),
            Request("c2", "library_pages", r#"{"titel": "Momo"}"#),
            Request("c3", "library_read", r#"{"title": "Krabat"}"#),
        ],
        vec![
            Request("c4", "library_read", r#"{"title": "Momo"}"#),
            Request("c5", "library_pages", r#"{"title": "Momo"}"#),
        ],
        vec![Request("c6", "wait", "")],
    ]
}

#[tokio::main]
async fn main() -> Result<(), ToolError> {
    let waiting = Arc::new(Notify::new());
    let tools = tools(waiting.clone());

    // What a provider would be sent.
    let names = ProviderNames::new(tools.iter().map(|tool| tool.name().to_owned()));
    let schemas: Vec<_> = tools.iter().map(|tool| tool.compile_for(Provider::OpenAi)).collect();
    for (tool, schema) in tools.iter().zip(&schemas) {
        let name = names.to_provider(tool.name()).unwrap_or_default();
        println!("offer {name} (strict: {}): {}", schema.strict, tool.description());
    }
    assert!(lint_request(Provider::OpenAi, &schemas.iter().collect::<Vec<_>>()).is_empty());

    let call = CallContext::default();
    let cancel = call.cancel.clone();
    let ctx = ToolContext::new(call);
    let cache = OutputCache::new(Arc::new(MemoryOutputStore::default()), "conversation", Budget::new(8_000));
    let mut conversation: Vec<ToolMessage> = Vec::new();

    let stop = tokio::spawn(async move {
        // A user who loses patience with the third turn, or with everything after a while.
        let _ = tokio::time::timeout(Duration::from_mins(1), waiting.notified()).await;
        cancel.cancel();
    });
    for requests in script() {
        let answers = join_all(requests.iter().map(|Request(id, name, raw)| {
            let tool = names.to_tool(name).and_then(|name| tools.iter().find(|tool| tool.name() == name));
            let ctx = ctx.next_call();
            async move {
                match tool {
                    Some(tool) => tool.answer(id, raw, ctx).await,
                    None => ToolMessage::new(*id, *name, Err(ToolError::not_found(format!("no tool named '{name}'")))),
                }
            }
        }))
        .await;
        conversation.extend(answers);
        let trimmed = cache.fit(&mut conversation).await;
        println!("turn: {} answers so far, {} trimmed now", conversation.len(), trimmed.messages);
    }
    stop.await.map_err(|error| ToolError::internal(error.to_string()))?;

    for message in &conversation {
        let text = message.content.text();
        let first = text.lines().next().unwrap_or_default();
        println!("{} {}{first}", message.tool_call_id, if message.is_error { "failed: " } else { "" });
    }
    // Trimmed output can still be read.
    let trimmed = conversation.iter().find_map(|message| message.output_ref.as_ref());
    if let Some(reference) = trimmed {
        let page = cache.lines(&reference.parse()?, LineRange { first: 299, count: 5 }).await?;
        print!("{}", page.render());
    }
    assert_eq!(conversation[0].content.text(), "300");
    assert!(conversation[1].is_error && conversation[5].is_error);
    assert!(trimmed.is_some(), "the first book was trimmed");
    Ok(())
}
