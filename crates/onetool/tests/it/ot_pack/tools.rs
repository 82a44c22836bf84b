//! Requirement: List Tools.

use serde_json::json;

use super::{column, house, keys, texts};

#[test]
fn list_all_tools() {
    let house = house();
    let listed = house.yaml("ot.tools()");
    let names = column(&listed, "name");
    for name in ["brave.search", "demo.foo", "web.fetch", "github.search", "github.version", "ot.tools", "file.read"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    assert_eq!(house.ok("ot.tools()"), house.ok("ot.tools(info='min')"), "min is the default");
}

#[test]
fn filter_by_pattern() {
    let house = house();
    assert_eq!(
        column(&house.yaml("ot.tools(pattern='search')"), "name"),
        ["brave.search", "brave.web_search", "github.search"]
    );
    assert_eq!(house.ok("ot.tools(pattern='SEARCH')"), house.ok("ot.tools(pattern='search')"), "case does not matter");
    assert_eq!(column(&house.yaml("ot.tools(pattern='b_sea')"), "name"), ["brave.web_search"], "any part of the name");
    assert_eq!(house.ok("ot.tools(pattern='xyznonexistent.*')"), "[]", "a pattern is text, not an expression");
    assert_eq!(
        column(&house.yaml("ot.tools(pattern='make an empty workbook')"), "name")[0],
        "excel.scaffold",
        "words that no name contains are searched for"
    );
}

#[test]
fn info_level_list() {
    let house = house();
    assert_eq!(house.ok("ot.tools(pattern='demo', info='list')"), "[demo.foo, demo.bar, demo.lines, demo.fail]");
    let all = house.yaml("ot.tools(info='list')");
    assert_eq!(texts(&all), column(&house.yaml("ot.tools()"), "name"));
}

#[test]
fn info_level_min() {
    let house = house();
    assert_eq!(
        house.ok("ot.tools(pattern='firecrawl')"),
        "- {name: firecrawl.scrape, description: Scrape one site., signature: \"firecrawl.scrape(site: str) -> str\"}\n\
         - {name: firecrawl.crawl, description: Follow the links of a site., signature: \"firecrawl.crawl(site: str, depth: int = 1) -> list[str]\"}"
    );
    for entry in house.yaml("ot.tools(info='min')").as_array().unwrap() {
        assert_eq!(keys(entry), ["name", "description"]);
    }
}

#[test]
fn info_level_full() {
    let house = house();
    assert_eq!(
        house.yaml("ot.tools(pattern='brave.search', info='full')"),
        json!([{
            "name": "brave.search",
            "signature": "brave.search(query: str, count: int = 10) -> list[dict]",
            "description": "Search the web.\n\nThe order is that of relevance.",
            "source": "local",
            "args": ["query: What to look for", "count: How many pages at most"],
            "returns": "One dict a page, with title and url",
            "example": "brave.search(query=\"rust\", count=3)",
        }])
    );
    for entry in house.yaml("ot.tools(info='full')").as_array().unwrap() {
        let has = keys(entry);
        for key in ["name", "signature", "description", "source"] {
            assert!(has.contains(&key), "{key} is missing: {entry}");
        }
        let is_of_a_server = entry["name"].as_str().unwrap().starts_with("github.");
        assert_eq!(entry["source"], if is_of_a_server { "proxy:github" } else { "local" }, "{entry}");
    }
}

#[test]
fn proxy_tool_signature_from_schema() {
    let house = house();
    let full = house.yaml("ot.tools(pattern='github', info='full')");
    assert_eq!(
        column(&full, "signature"),
        [
            "github.search(query: str, repo: str = '...', page: int = 1) -> str | dict | list",
            "github.version(name: str) -> str | dict | list"
        ]
    );
    // The signature matches what a call accepts.
    assert_eq!(house.ok("github.search('todo', page=2)"), r#"{"tool":"search","arguments":{"query":"todo","page":2}}"#);
}

#[test]
fn proxy_tool_arguments_from_schema() {
    let full = house().yaml("ot.tools(pattern='github.search', info='full')");
    assert_eq!(
        full[0]["args"],
        json!(["query: what to look for", "repo: owner/name; all when left out", "page: which page, from 1"])
    );
}
