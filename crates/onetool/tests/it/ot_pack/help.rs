//! Requirement: Unified Help.

use crate::client::Project;

use super::{House, house, texts};

#[test]
fn general_help_no_query() {
    let house = house();
    let page = house.ok("ot.help()");
    for part in [
        "## Discovery\n",
        "- ot.tools(",
        "- ot.packs()",
        "- ot.snippets()",
        "- ot.aliases()",
        "## Info levels\n",
        "- info=\"list\"",
        "- info=\"min\"",
        "- info=\"full\"",
        "## Examples\n",
        "## Tips\n",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(house.ok("ot.help(query=None)"), page);
    assert_eq!(house.ok("ot.help(query='  ')"), page);
}

#[test]
fn the_examples_of_general_help_work_on_a_fresh_install_and_with_packs_of_ones_own() {
    let fresh = House::of(Project::empty());
    for house in [&*house(), &fresh] {
        let page = house.ok("ot.help()");
        let examples = page.split("## Examples\n\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let examples: Vec<&str> = examples.lines().map(|line| line.trim_start_matches("- ")).collect();
        assert_eq!(examples.len(), 5, "{examples:?}");
        for example in examples {
            let answer = house.ok(example);
            let finds_something = !answer.starts_with("No ") && answer != "[]";
            assert!(finds_something || example.contains("handle=\"...\""), "{example}: {answer}");
        }
    }
}

#[test]
fn exact_tool_lookup() {
    assert_eq!(
        house().ok("ot.help(query='brave.search')"),
        r#"# brave.search

Search the web.

The order is that of relevance.

## Signature

brave.search(query: str, count: int = 10) -> list[dict]

## Arguments

- query: str -- What to look for
- count: int = 10 -- How many pages at most

## Returns

list[dict]: One dict a page, with title and url

## Example

brave.search(query="rust", count=3)

Docs: https://onetool.beycom.online/reference/tools/brave-search/"#
    );
}

#[test]
fn exact_pack_lookup() {
    assert_eq!(
        house().ok("ot.help(query='firecrawl')"),
        r"# firecrawl

source: local

Crawls sites.

## Instructions

Crawl politely, one site at a time.

## Tools

- firecrawl.scrape: Scrape one site.
- firecrawl.crawl: Follow the links of a site.

Docs: https://onetool.beycom.online/reference/tools/firecrawl/"
    );
}

#[test]
fn snippet_lookup() {
    assert_eq!(
        house().ok("ot.help(query='$b_q')"),
        r#"# $b_q

name: b_q
description: Ask the web one question
params:
  q: {type: str, description: "The question"}
  "n": {type: int, default: 3, description: "How many pages"}
body: |
  brave.search(query={{ q | literal }}, count={{ n }})

# Example with defaults:
# $b_q q=Python
# Expands to:
brave.search(query='Python', count=3)"#
    );
}

#[test]
fn alias_lookup() {
    assert_eq!(
        house().ok("ot.help(query='ws')"),
        "# ws\n\nAlias for brave.web_search: Search pages, and give their text.\n\n\
         Usage: ws(query: str) -> str is the same as brave.web_search(...)\n\
         More: ot.help(query=\"brave.web_search\")"
    );
}

#[test]
fn fuzzy_search() {
    let page = house().ok("ot.help(query='web fetch')");
    let mut rest = page.as_str();
    for part in [
        "# Matches for 'web fetch'\n\n## Tools\n\n- web.fetch: Fetch a page as text.\n  web.fetch(url: str) -> str\n",
        "\n\n## Packs\n\n- web (1 tool): Pages of the web.\n",
        "\n\n## Snippets\n\n- $fetch_all: Fetch several pages of the web\n",
        "\n\n## Aliases\n\n- page -> web.fetch\n",
    ] {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} is missing or too early: {page}")).1;
    }
}

#[test]
fn fuzzy_matching_with_typos() {
    let house = house();
    assert_eq!(
        house.ok("ot.help(query='scaffoldl')"),
        "# Matches for 'scaffoldl'\n\n## Tools\n\n- excel.scaffold: Make an empty workbook.\n  excel.scaffold(path: str) -> str"
    );
    let found = house.ok("ot.help(query='frirecrawl')");
    assert!(found.contains("\n- firecrawl (2 tools): Crawls sites."), "{found}");
    // Better matches come first.
    let names = house.yaml("ot.help(query='brave seach', info='list')");
    assert_eq!(texts(&names)[..2], ["brave.search", "brave.web_search"]);
}

#[test]
fn info_level_list() {
    let names = house().yaml("ot.help(query='web', info='list')");
    let names = texts(&names);
    for name in ["web.fetch", "brave.web_search", "web", "$fetch_all", "page", "ws"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    assert!(names.iter().all(|name| !name.contains([' ', ':'])), "names alone: {names:?}");
}

#[test]
fn info_level_min_default() {
    let house = house();
    let page = house.ok("ot.help(query='brave')");
    assert!(page.contains("\n- brave.search: Search the web.\n- brave.web_search: Search pages, and"), "{page}");
    assert_eq!(house.ok("ot.help(query='brave', info='min')"), page);
    let found = house.ok("ot.help(query='look for pages')");
    assert!(found.lines().filter(|line| line.starts_with("- ")).all(|line| line.contains([':', '>'])), "{found}");
}

#[test]
fn info_level_full() {
    let page = house().ok("ot.help(query='brave.search', info='full')");
    for part in [
        "# brave.search\n",
        "Search the web.\n\nThe order is that of relevance.\n",
        "## Signature\n\nbrave.search(query: str, count: int = 10) -> list[dict]\n",
        "- count: int = 10 -- How many pages at most\n",
        "## Returns\n\nlist[dict]: One dict a page, with title and url\n",
        "## Example\n\nbrave.search(query=\"rust\", count=3)\n",
        "Source: local\n",
        "## Input schema\n\n{\"type\":\"object\",",
        "Docs: https://onetool.beycom.online/reference/tools/brave-search/",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn documentation_url_generation() {
    let project = Project::empty();
    let packs = [
        ("brave", "brave-search"),
        ("code", "code-search"),
        ("db", "database"),
        ("ground", "grounding-search"),
        ("llm", "transform"),
        ("web", "web-fetch"),
        ("excel", "excel"),
    ];
    for (pack, _) in packs {
        let code = format!("pack = '{pack}'\ndef act() -> int:\n    \"\"\"Act.\"\"\"\n    return 1\n");
        project.write(&format!(".onetool/tools/{pack}/{pack}_tools.py"), &code);
    }
    let house = House::of(project);
    for (pack, slug) in packs {
        for query in [pack.to_owned(), format!("{pack}.act")] {
            let page = house.ok(&format!("ot.help(query='{query}')"));
            let url = format!("https://onetool.beycom.online/reference/tools/{slug}/");
            assert!(page.ends_with(&format!("Docs: {url}")), "{query}: {page}");
        }
    }
}

#[test]
fn no_matches() {
    let house = house();
    let answer = house.ok("ot.help(query='xyznonexistent')");
    assert!(
        answer.starts_with(
            "No matches found for 'xyznonexistent'. Use ot.tools() or ot.packs() to browse available items.\n\n## Packs\n\n- "
        ),
        "{answer}"
    );
    assert!(answer.contains("\n- brave (2 tools): Web search, answered from memory.\n"), "{answer}");
    assert_eq!(house.ok("ot.help(query='xyznonexistent', info='list')"), "[]");
}
