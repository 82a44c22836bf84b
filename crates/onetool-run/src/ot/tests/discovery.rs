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
        signatures
            .contains(&"ot.tools(pattern: str | None = None, info: Literal['list', 'min', 'full'] = 'min') -> list"),
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
