//! `ot.tools`, `ot.packs`, `ot.aliases`, `ot.snippets`, `ot.config`, `ot.version`.

use serde_json::json;
use tempfile::tempdir;

use super::fixture::toolbox;
use crate::present::to_ot_display;

#[tokio::test]
async fn all_tools_are_listed_with_descriptions() {
    let folder = tempdir().unwrap();
    let listed = toolbox(folder.path()).json("tools", json!({})).await;
    let listed = listed.as_array().unwrap();
    assert_eq!(listed[0], json!({"name": "brave.search", "description": "Search the web."}));
    assert!(listed.iter().any(|tool| tool["name"] == "ot.tools"));
    assert_eq!(listed.len(), 6 + 13);
}

#[tokio::test]
async fn tools_are_found_by_a_part_of_the_name_in_any_case() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let names = toolbox.json("tools", json!({"pattern": "SEARCH", "info": "list"})).await;
    assert_eq!(names, json!(["brave.search", "brave.web_search", "github.search"]));
    assert_eq!(toolbox.json("tools", json!({"pattern": "nothing-like-it"})).await, json!([]));
}

#[tokio::test]
async fn a_full_entry_tells_everything() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let listed = toolbox.json("tools", json!({"pattern": "brave.search", "info": "full"})).await;
    assert_eq!(
        listed,
        json!([{
            "name": "brave.search",
            "signature": "brave.search(query: str, count: int = 10) -> list[dict]",
            "description": "Search the web.\n\nUses an index of its own.",
            "source": "local",
            "args": ["query: what to look for"],
            "returns": "one dict a page",
            "example": "brave.search(query=\"rust\")",
        }])
    );
}

#[tokio::test]
async fn a_servers_tool_is_described_by_its_schema() {
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
async fn an_unknown_info_level_is_refused() {
    let folder = tempdir().unwrap();
    let error = toolbox(folder.path()).try_call("tools", json!({"info": "max"})).await.unwrap_err();
    for part in ["info", "list", "min", "full", "max"] {
        assert!(error.message.contains(part), "{part} is missing in {error}");
    }
}

#[tokio::test]
async fn packs_have_a_source_and_a_count() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let names = toolbox.json("packs", json!({"info": "list"})).await;
    assert_eq!(names, json!(["brave", "excel", "firecrawl", "github", "ot", "web"]));
    assert_eq!(
        toolbox.json("packs", json!({"pattern": "BRAV"})).await,
        json!([{"name": "brave", "source": "local", "tool_count": 2}])
    );
    assert_eq!(
        toolbox.json("packs", json!({"pattern": "git", "info": "min"})).await,
        json!([{"name": "github", "source": "proxy", "tool_count": 1}])
    );
}

#[tokio::test]
async fn a_full_pack_has_a_header_instructions_and_tools() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(
        toolbox.text("packs", json!({"pattern": "excel", "info": "full"})).await,
        "# excel\n\nsource: local\n\nSheets\n\n## Instructions\n\nOpen the workbook before you write.\n\n\
         ## Tools\n\n- excel.scaffold: Make an empty workbook."
    );
    let github = toolbox.text("packs", json!({"pattern": "github", "info": "full"})).await;
    assert!(github.contains("source: proxy\n") && github.contains("- github.search: Find code."), "{github}");
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
async fn aliases_at_every_level() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(toolbox.json("aliases", json!({})).await, json!(["ws -> brave.web_search", "alias_f -> demo.foo"]));
    assert_eq!(toolbox.json("aliases", json!({"info": "list"})).await, json!(["ws", "alias_f"]));
    // The pattern is in the target here.
    assert_eq!(
        toolbox.json("aliases", json!({"pattern": "SEARCH", "info": "full"})).await,
        json!([{"name": "ws", "target": "brave.web_search"}])
    );
}

#[tokio::test]
async fn snippets_at_every_level() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(
        toolbox.json("snippets", json!({})).await,
        json!(["brv_research: Search web and extract structured findings", "pkg_v: Versions"])
    );
    assert_eq!(toolbox.json("snippets", json!({"pattern": "pkg", "info": "list"})).await, json!(["pkg_v"]));
    assert_eq!(
        toolbox.json("snippets", json!({"pattern": "structured", "info": "list"})).await,
        json!(["brv_research"])
    );
}

#[tokio::test]
async fn a_full_snippet_shows_its_definition_and_an_example() {
    let folder = tempdir().unwrap();
    let text = toolbox(folder.path()).text("snippets", json!({"pattern": "brv_research", "info": "full"})).await;
    assert_eq!(
        text,
        r#"name: brv_research
description: Search web and extract structured findings
params:
  topic: {description: "Topic to research"}
  count: {default: 5, description: "Number of sources"}
body: |
  results = brave.search(query="{{ topic }}", count={{ count }})
  llm.transform(input=results, prompt="Extract key findings")

# Example with defaults:
# $brv_research topic=Python
# Expands to:
results = brave.search(query="Python", count=5)
llm.transform(input=results, prompt="Extract key findings")"#
    );
}

#[tokio::test]
async fn the_configuration_in_short() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let shown = to_ot_display(&toolbox.call("config", json!({})).await);
    assert_eq!(
        shown,
        "aliases: {ws: brave.web_search, alias_f: demo.foo}\n\
         snippets: {brv_research: {description: Search web and extract structured findings}, pkg_v: {description: Versions}}\n\
         servers: [github]"
    );
    toolbox.change(|state| {
        state.aliases.clear();
        state.snippets.clear();
        state.servers.clear();
    });
    let shown = to_ot_display(&toolbox.call("config", json!({})).await);
    assert_eq!(shown, "{aliases: {}, snippets: {}, servers: []}");
}

#[tokio::test]
async fn lists_of_objects_are_shown_a_line_an_object() {
    let folder = tempdir().unwrap();
    let shown = to_ot_display(&toolbox(folder.path()).call("packs", json!({"pattern": "r"})).await);
    assert_eq!(
        shown,
        "- {name: brave, source: local, tool_count: 2}\n- {name: firecrawl, source: local, tool_count: 1}"
    );
}

#[tokio::test]
async fn the_version_is_a_text() {
    let folder = tempdir().unwrap();
    assert_eq!(toolbox(folder.path()).text("version", json!({})).await, env!("CARGO_PKG_VERSION"));
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
