//! `ot.tools`, `ot.packs`, `ot.snippets`.

use serde_json::json;
use tempfile::tempdir;

use super::fixture::toolbox;

#[tokio::test]
async fn an_argument_without_a_description_is_in_the_signature_alone() {
    let folder = tempdir().unwrap();
    let listed = toolbox(folder.path()).json("tools", json!({"pattern": "github.search", "info": "full"})).await;
    assert_eq!(
        listed,
        json!([{
            "name": "github.search",
            "signature": "github.search(query: str, repo: str = '...')",
            "description": "Find code.",
            "source": "proxy:github",
            "args": ["query: what to look for"],
        }])
    );
}

#[tokio::test]
async fn a_text_about_nothing_says_so() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    for (function, kind) in [("packs", "pack"), ("snippets", "snippet")] {
        let text = toolbox.text(function, json!({"pattern": "zzz", "info": "full"})).await;
        assert_eq!(text, format!("No {kind} matches 'zzz'. Use ot.{function}() to see all."));
    }
}

#[tokio::test]
async fn signatures_tell_levels_and_defaults() {
    let folder = tempdir().unwrap();
    let listed = toolbox(folder.path()).json("tools", json!({"pattern": "ot.", "info": "full"})).await;
    let signatures: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["signature"].as_str().unwrap()).collect();
    assert!(
        signatures.contains(
            &"ot.tools(pattern: str | None = None, info: Literal['list', 'sig', 'min', 'full'] = 'min') -> list"
        ),
        "{signatures:#?}"
    );
    assert!(
        signatures.contains(
            &"ot.result(handle: str, offset: int = 1, limit: int = 100, search: str | None = None, fuzzy: bool = False) \
              -> dict | str"
        ),
        "{signatures:#?}"
    );
}

#[tokio::test]
async fn a_pattern_that_no_name_contains_is_searched_for() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let listed = toolbox.json("tools", json!({"pattern": "fetch a web page", "info": "list"})).await;
    assert_eq!(listed[0], "web.fetch");
    assert_eq!(toolbox.json("tools", json!({"pattern": "xyznonexistent"})).await, json!([]));
}

#[tokio::test]
async fn a_line_has_the_signature_and_what_it_is_for() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(
        toolbox.json("tools", json!({"pattern": "brave.search", "info": "sig"})).await,
        json!(["brave.search(query: str, count: int = 10) -> list[dict]  # Search the web.; returns one dict a page"])
    );
    assert_eq!(
        toolbox.json("packs", json!({"pattern": "web", "info": "sig"})).await,
        json!(["web.fetch(url: str)  # Fetch a web page as text."])
    );
}

#[tokio::test]
async fn what_the_policy_holds_back_is_marked() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let rules = [("web.*", crate::Permission::Ask), ("excel.*", crate::Permission::Deny)];
    toolbox.change(|state| state.permissions = crate::Permissions::new(rules).unwrap());
    let listed = toolbox.json("tools", json!({"pattern": "web.fetch"})).await;
    assert_eq!(listed[0]["policy"], "asks the user");
    assert!(toolbox.text("help", json!({"query": "excel.scaffold"})).await.contains("Policy: denied by policy\n"));
    let found = toolbox.text("help", json!({"query": "make an empty workbook"})).await;
    assert!(found.contains("- excel.scaffold (denied by policy): Make an empty workbook."), "{found}");
}
