//! `std.todo_read` and `std.todo_write`: a plan that is always complete and valid.

use std::collections::HashSet;
use std::sync::Arc;

use onetool_sdk::{CallContext, Tool, ToolError, ToolResult, define_tool};
use onetool_state::StateError;
use onetool_state::interface::{Collection, Documents, Expect, Key};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MAX_ITEMS: usize = 200;
const MAX_CONTENT_CHARS: usize = 2000;
const MAX_ID_CHARS: usize = 100;

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

fn pending() -> Status {
    Status::Pending
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// A name for it, unlike the others'; by default its number in the plan.
    #[serde(default)]
    id: String,
    /// What is to be done.
    content: String,
    /// pending, in_progress (one at a time), completed or cancelled.
    #[serde(default = "pending")]
    status: Status,
}

/// The plan, in shared state.
pub(super) struct List {
    documents: Arc<dyn Documents>,
}

impl List {
    pub(super) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents }
    }

    async fn read(&self, ctx: &CallContext) -> Result<Vec<Item>, ToolError> {
        let key = key(ctx)?;
        let Some(document) = self.documents.get(Collection::TODO, &key).await.map_err(failure)? else {
            return Ok(Vec::new());
        };
        serde_json::from_slice(&document.content)
            .map_err(|error| ToolError::internal(format!("the stored plan can't be read: {error}")))
    }

    async fn write(&self, items: &[Item], ctx: &CallContext) -> Result<(), ToolError> {
        let key = key(ctx)?;
        let content = serde_json::to_vec(items).map_err(|error| ToolError::internal(error.to_string()))?;
        let put = self.documents.put(Collection::TODO, &key, &content, &Expect::Anything.into()).await;
        put.map(drop).map_err(failure)
    }
}

/// Each named user has their own plan.
fn key(ctx: &CallContext) -> Result<Key, ToolError> {
    let name = match ctx.principal_owner() {
        Some(owner) => format!("plan-{}", owner.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        None => "plan".to_owned(),
    };
    name.parse().map_err(failure)
}

fn failure(error: StateError) -> ToolError {
    ToolError::unavailable(format!("the plan can't be reached: {error}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInput {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    /// The whole plan: each item a dict with id, content and status (pending, in_progress, completed, cancelled).
    todos: Vec<Item>,
}

pub(super) fn read_tool(list: Arc<List>) -> Tool {
    define_tool("todo_read", "Read the plan: what is to be done, and how far it is.", move |_: ReadInput, ctx| {
        let list = list.clone();
        async move { answer(&list.read(&ctx.call).await?) }
    })
    .with_example("std.todo_read()")
    .with_returns("dict", "todos: a list of id, content and status; open: how many are not finished")
}

pub(super) fn write_tool(list: Arc<List>) -> Tool {
    define_tool(
        "todo_write",
        "Write the plan, in place of the one before.\n\n\
         Ids are unique and at most one item is in progress; a plan that breaks this is refused and the old one stays.",
        move |input: WriteInput, ctx| {
            let list = list.clone();
            let todos = numbered(input.todos);
            async move {
                check(&todos)?;
                list.write(&todos, &ctx.call).await?;
                answer(&todos)
            }
        },
    )
    .with_example(
        "std.todo_write(todos=[{\"id\": \"1\", \"content\": \"Read the code\", \"status\": \"in_progress\"}])",
    )
    .with_returns("dict", "todos as they are now; open: how many are not finished")
}

fn answer(items: &[Item]) -> Result<ToolResult, ToolError> {
    let open = items.iter().filter(|item| matches!(item.status, Status::Pending | Status::InProgress)).count();
    ToolResult::json(json!({"todos": items, "open": open}))
}

/// Numbers items without an id by position, or with the next free number.
fn numbered(mut items: Vec<Item>) -> Vec<Item> {
    let mut taken: HashSet<String> = items.iter().map(|item| item.id.clone()).collect();
    for (index, item) in items.iter_mut().enumerate() {
        if item.id.is_empty() {
            let free = (index + 1..).map(|number| number.to_string()).find(|id| !taken.contains(id));
            item.id = free.unwrap_or_default();
            taken.insert(item.id.clone());
        }
    }
    items
}

fn check(items: &[Item]) -> Result<(), ToolError> {
    if items.len() > MAX_ITEMS {
        return Err(ToolError::value_error(format!("the plan has {} items, at most {MAX_ITEMS} fit", items.len())));
    }
    let mut ids = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let which = format!("item {} ({:?})", index + 1, item.id);
        if item.id.trim().is_empty() || item.id.chars().count() > MAX_ID_CHARS {
            return Err(ToolError::value_error(format!("item {} has no id, or one that is too long", index + 1)));
        }
        if item.content.trim().is_empty() {
            return Err(ToolError::value_error(format!("{which} has no content")));
        }
        if item.content.chars().count() > MAX_CONTENT_CHARS {
            return Err(ToolError::value_error(format!("{which} is longer than {MAX_CONTENT_CHARS} characters")));
        }
        if !ids.insert(&item.id) {
            return Err(ToolError::value_error(format!("the id {:?} is there twice", item.id))
                .with_hint("give each item its own id"));
        }
    }
    let busy: Vec<&str> =
        items.iter().filter(|item| item.status == Status::InProgress).map(|item| item.id.as_str()).collect();
    if busy.len() > 1 {
        return Err(ToolError::value_error(format!("{} items are in progress: {}", busy.len(), busy.join(", ")))
            .with_hint("keep one in progress and the others pending"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onetool_sdk::ToolContext;
    use onetool_state::flat::{FlatFiles, FlatPlaces};
    use onetool_state::interface::Backend as _;
    use serde_json::Value as Json;

    use super::*;

    async fn call(tool: &Tool, arguments: Json) -> Result<Json, ToolError> {
        tool.execute(arguments, ToolContext::default()).await.map(|result| result.into_value().to_json())
    }

    #[tokio::test]
    async fn a_plan_that_is_not_valid_leaves_the_old_one() {
        let list = Arc::new(List::new(FlatFiles::new(FlatPlaces::new("unused")).documents()));
        let (read, write) = (read_tool(list.clone()), write_tool(list));
        let plan = json!({"todos": [
            {"id": "a", "content": "one", "status": "completed"},
            {"id": "b", "content": "two", "status": "in_progress"},
            {"id": "c", "content": "three"},
        ]});
        let written = call(&write, plan).await.unwrap();
        assert_eq!((&written["open"], &written["todos"][2]["status"]), (&json!(2), &json!("pending")));
        let item = |id: &str, content: &str, status: &str| json!({"id": id, "content": content, "status": status});
        for (todos, reason) in [
            (json!([item("a", "x", "pending"), item("a", "y", "pending")]), "twice"),
            (json!([item("a", "x", "in_progress"), item("b", "y", "in_progress")]), "2 items are in progress: a, b"),
            (json!([item("a", " ", "pending")]), "no content"),
            (json!([item("a", &"x".repeat(3000), "pending")]), "longer"),
            (json!([item("a", "x", "someday")]), "someday"),
            (json!([{"id": "a", "content": "x", "colour": "red"}]), "colour"),
        ] {
            let error = call(&write, json!({"todos": todos})).await.unwrap_err();
            assert!(error.message.contains(reason), "{error}");
        }
        assert_eq!(call(&read, json!({})).await.unwrap(), written);
    }
}
