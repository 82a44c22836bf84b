//! Requirement: Pack Discovery.

use super::{column, house, keys, texts};

#[test]
fn list_all_packs() {
    let house = house();
    let listed = house.yaml("ot.packs()");
    let names = column(&listed, "name");
    for name in ["brave", "demo", "excel", "file", "firecrawl", "github", "ot", "proj", "std", "web"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    assert_eq!(house.ok("ot.packs()"), house.ok("ot.packs(info='min')"), "min is the default");
}

#[test]
fn filter_by_pattern() {
    let house = house();
    assert_eq!(
        house.ok("ot.packs(pattern='brav')"),
        "- {name: brave, source: local, tool_count: 2, description: \"Web search, answered from memory.\"}"
    );
    assert_eq!(house.ok("ot.packs(pattern='RAV')"), house.ok("ot.packs(pattern='brav')"), "case does not matter");
    assert_eq!(house.ok("ot.packs(pattern='no-such-pack')"), "[]");
}

#[test]
fn info_level_list() {
    let house = house();
    assert_eq!(house.ok("ot.packs(pattern='e', info='list')"), "[brave, demo, excel, file, firecrawl, web]");
    assert_eq!(texts(&house.yaml("ot.packs(info='list')")), column(&house.yaml("ot.packs()"), "name"));
}

#[test]
fn info_level_min() {
    let listed = house().yaml("ot.packs()");
    for entry in listed.as_array().unwrap() {
        assert_eq!(keys(entry)[..3], ["name", "source", "tool_count"]);
        assert_eq!(entry["source"], if entry["name"] == "github" { "proxy" } else { "local" });
        assert!(entry["tool_count"].as_u64().unwrap() > 0, "{entry}");
    }
}

#[test]
fn info_level_full() {
    assert_eq!(
        house().ok("ot.packs(pattern='brave', info='full')"),
        "# brave\n\nsource: local\n\nWeb search, answered from memory.\n\n## Tools\n\n\
         - brave.search: Search the web.\n- brave.web_search: Search pages, and give their text."
    );
}

#[test]
fn pack_with_configured_instructions() {
    let page = house().ok("ot.packs(pattern='excel', info='full')");
    assert!(page.contains("## Instructions\n\nOpen the workbook before you write, and save it once.\n"), "{page}");
}

#[test]
fn proxy_pack() {
    let page = house().ok("ot.packs(pattern='github', info='full')");
    assert!(page.starts_with("# github\n\nsource: proxy\n"), "{page}");
    assert!(
        page.ends_with("- github.search: Find code in repositories.\n- github.version: Newest version of a package."),
        "{page}"
    );
}
