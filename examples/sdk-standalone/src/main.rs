//! A tool with a dependency, run once unchanged and once with the dependency replaced. Needs only `onetool-sdk`.

use onetool_sdk::{Dependencies, DependencyKey, Tool, ToolContext, ToolMessage, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// The dependency: the word to greet with.
struct Greetings {
    word: String,
}

fn greetings() -> DependencyKey<Greetings> {
    DependencyKey::new("greetings", || Greetings { word: "Hello".to_owned() })
}

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// Whom to greet.
    name: String,
}

fn greet() -> Tool {
    define_tool("greet", "Greets somebody.", |input: Input, ctx: ToolContext| async move {
        let greetings = ctx.resolve(&greetings()).await?;
        Ok(format!("{}, {}!", greetings.word, input.name))
    })
}

async fn answers() -> [ToolMessage; 3] {
    let tool = greet();
    let raw = r#"{"name": "Ada"}"#;
    let deps = Dependencies::new().with_value("greetings", Greetings { word: "Moin".to_owned() });
    [
        tool.answer("1", raw, ToolContext::default()).await,
        tool.answer("2", raw, ToolContext::default().with_dependencies(deps)).await,
        tool.answer("3", r#"{"nme": "Ada"}"#, ToolContext::default()).await,
    ]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for answer in answers().await {
        println!("{}", answer.content.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_replaced_dependency_is_used() {
        let [own, replaced, wrong] = answers().await;
        assert_eq!(own.content.text(), "Hello, Ada!");
        assert_eq!(replaced.content.text(), "Moin, Ada!");
        assert!(wrong.is_error && wrong.content.text().contains("did you mean 'name'?"));
    }
}
