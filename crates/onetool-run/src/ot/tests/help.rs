//! `ot.help`.

use std::sync::Arc;

use onetool_sdk::Origin;
use serde_json::json;
use tempfile::tempdir;

use super::fixture::{TestToolbox, pack, spec, toolbox, toolbox_with};

async fn help(query: &str) -> String {
    let folder = tempdir().unwrap();
    toolbox(folder.path()).text("help", json!({"query": query})).await
}

#[tokio::test]
async fn words_are_searched_for_in_any_order() {
    assert!(help("webfetch").await.contains("## Tools\n\n- web.fetch: Fetch a web page as text."));
    for query in ["web fetch", "fetch web", "how to fetch a web page"] {
        let text = help(query).await;
        assert!(text.contains("## Tools\n\n- web.fetch: Fetch a web page as text.\n"), "{query}: {text}");
        assert!(text.contains("## Packs\n\n- web (1 tool): Pages"), "{query}: {text}");
    }
    let text = help("web").await;
    assert!(text.starts_with("# web\n"), "{text}");
}

#[tokio::test]
async fn results_are_grouped_by_type() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let text = toolbox.text("help", json!({"query": "search web pages"})).await;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing in {text}"));
    assert!(
        at("## Tools") < at("## Packs") && at("## Packs") < at("## Snippets") && at("## Snippets") < at("## Aliases")
    );
    assert!(text.contains("- ws -> brave.web_search"), "{text}");
    assert!(text.contains("- $brv_research: Search web"), "{text}");
    let names = toolbox.json("help", json!({"query": "web", "info": "list"})).await;
    let names: Vec<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"web.fetch") && names.contains(&"web") && names.contains(&"$brv_research"), "{names:?}");
    let full = toolbox.text("help", json!({"query": "fetch page", "info": "full"})).await;
    assert!(full.contains("web.fetch(url: str)"), "{full}");
}

#[tokio::test]
async fn arguments_are_searched_too() {
    assert!(help("address document").await.contains("- web.fetch"));
}

#[tokio::test]
async fn nothing_found_says_where_to_look() {
    let text = help("xyznonexistent").await;
    assert!(text.starts_with("No matches found for 'xyznonexistent'"), "{text}");
    assert!(text.contains("ot.tools()") && text.contains("ot.packs()"), "{text}");
    assert!(text.contains("\n\n## Packs\n\n- brave (2 tools): Web search\n"), "{text}");
    assert!(help("$nothing_of_that_name").await.starts_with("No matches found"));
}

fn large(folder: &std::path::Path, packs: usize, tools: usize) -> Arc<TestToolbox> {
    let packs = (0..packs).map(|number| {
        let tools = (0..tools).map(|tool| {
            let schema = json!({"properties": {format!("field_{tool}"): {"type": "string", "description": "a value"}}});
            spec(&format!("action_{number}_{tool}"), &format!("Does thing{number}x{tool} to a subject."), schema)
        });
        pack(&format!("pack{number}"), "", Origin::Native, tools.collect())
    });
    toolbox_with(folder, packs.collect())
}

#[tokio::test]
async fn thousands_of_tools_are_searched() {
    let folder = tempdir().unwrap();
    let toolbox = large(folder.path(), 50, 100);
    let text = toolbox.text("help", json!({"query": "thing17x42"})).await;
    assert!(text.contains("## Tools\n\n- pack17.action_17_42"), "{text}");
    let text = toolbox.text("help", json!({"query": "thnig17x42"})).await;
    assert!(text.contains("- pack17.action_17_42"), "{text}");
}

#[tokio::test]
async fn the_index_follows_the_configuration() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert!(toolbox.text("help", json!({"query": "frehs"})).await.starts_with("No matches"));
    toolbox.call("reload", json!({})).await;
    assert!(toolbox.text("help", json!({"query": "frehs"})).await.contains("- fresh -> brave.search"));
}

#[tokio::test]
async fn the_best_hits_come_with_their_signature() {
    let text = help("search the web").await;
    assert!(
        text.contains("- brave.search: Search the web.\n  brave.search(query: str, count: int = 10) -> list[dict]  # returns one dict a page\n"),
        "{text}"
    );
}

#[tokio::test]
async fn of_equal_hits_the_one_in_use_comes_first() {
    let folder = tempdir().unwrap();
    let tools = |word: &str| vec![spec("play", &format!("Play a {word}."), json!({}))];
    let packs = vec![
        pack("aaa", "", Origin::Native, tools("song")),
        pack("bbb", "", Origin::Native, tools("song")),
        pack("ccc", "", Origin::Native, tools("song")),
    ];
    let toolbox = toolbox_with(folder.path(), packs);
    let names = async || toolbox.json("help", json!({"query": "play a song", "info": "list"})).await;
    assert_eq!(names().await, json!(["aaa.play", "bbb.play", "ccc.play"]));
    let state = crate::ot::Toolbox::state(&*toolbox);
    state.search.used(&"ccc.play".parse().unwrap());
    assert_eq!(names().await, json!(["ccc.play", "aaa.play", "bbb.play"]));
}
