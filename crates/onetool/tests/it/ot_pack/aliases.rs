//! Requirement: Alias Introspection.

use super::house;

#[test]
fn list_all_aliases() {
    let house = house();
    assert_eq!(
        house.ok("ot.aliases()"),
        "[ws -> brave.web_search, alias_f -> demo.foo, page -> web.fetch, al -> ot.aliases]"
    );
    assert_eq!(house.ok("ot.aliases()"), house.ok("ot.aliases(info='min')"), "min is the default");
    assert_eq!(house.ok("ws(query='rust')"), "pages about rust", "an alias that is listed works");
}

#[test]
fn filter_by_pattern() {
    let house = house();
    assert_eq!(house.ok("ot.aliases(pattern='search')"), "[ws -> brave.web_search]", "by target");
    assert_eq!(
        house.ok("ot.aliases(pattern='ALIAS')"),
        "[alias_f -> demo.foo, al -> ot.aliases]",
        "by name and by target, in any case"
    );
    assert_eq!(house.ok("ot.aliases(pattern='nothing')"), "[]");
}

#[test]
fn info_level_list() {
    assert_eq!(house().ok("ot.aliases(info='list')"), "[ws, alias_f, page, al]");
}

#[test]
fn info_level_min() {
    assert_eq!(house().ok("ot.aliases(pattern='ws', info='min')"), "[ws -> brave.web_search]");
}

#[test]
fn info_level_full() {
    assert_eq!(
        house().ok("ot.aliases(info='full')"),
        "- {name: ws, target: brave.web_search}\n- {name: alias_f, target: demo.foo}\n- {name: page, target: web.fetch}\n\
         - {name: al, target: ot.aliases}"
    );
}
