//! Requirement: Snippet Introspection.

use super::{house, texts};

#[test]
fn list_all_snippets() {
    let house = house();
    let listed = house.yaml("ot.snippets()");
    assert_eq!(
        texts(&listed),
        [
            "foon: Get foo() for n items",
            "barn: Get bar() for n items",
            "brv_research: Search web and extract structured findings",
            "b_q: Ask the web one question",
            "pkg_versions: Newest versions of a few libraries",
            "fetch_all: Fetch several pages of the web",
            "latest: The newest release of one PKG",
        ]
    );
    assert_eq!(house.ok("ot.snippets()"), house.ok("ot.snippets(info='min')"), "min is the default");
    assert_eq!(house.ok("$foon n=2"), r#"["foo 0","foo 1"]"#, "a snippet that is listed works");
}

#[test]
fn filter_snippets_by_pattern() {
    let house = house();
    assert_eq!(
        texts(&house.yaml("ot.snippets(pattern='pkg')")),
        ["pkg_versions: Newest versions of a few libraries", "latest: The newest release of one PKG"],
        "by name and by description, in any case"
    );
    assert_eq!(house.ok("ot.snippets(pattern='nothing')"), "[]");
}

#[test]
fn info_level_list() {
    assert_eq!(
        house().ok("ot.snippets(info='list')"),
        "[foon, barn, brv_research, b_q, pkg_versions, fetch_all, latest]"
    );
}

#[test]
fn info_level_min() {
    assert_eq!(house().ok("ot.snippets(pattern='barn', info='min')"), r#"["barn: Get bar() for n items"]"#);
}

#[test]
fn info_level_full() {
    let definition = house().ok("ot.snippets(pattern='b_q', info='full')");
    for part in [
        "description: Ask the web one question\n",
        "  q: {type: str, description: \"The question\"}\n",
        "{type: int, default: 3, description: \"How many pages\"}\n",
        "body: |\n  brave.search(query={{ q | literal }}, count={{ n }})\n",
        "# $b_q q=Python\n",
    ] {
        assert!(definition.contains(part), "{part}: {definition}");
    }
}

#[test]
fn snippet_output_format() {
    assert_eq!(
        house().ok("ot.snippets(pattern='brv_research', info='full')"),
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
