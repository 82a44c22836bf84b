//! Requirement: Query Stored Results.

use serde_json::{Value as Json, json};

use crate::client::Project;

use super::{House, house, keys};

/// Stores a command's result, because it is too large to show.
fn stored(house: &House, command: &str) -> String {
    let summary: Json = serde_json::from_str(&house.ok(command)).unwrap();
    summary["handle"].as_str().unwrap().to_owned()
}

/// 20,000 lines, every seventh with an error.
fn lines(house: &House) -> String {
    stored(house, "demo.lines(count=20000, every=7)")
}

fn numbered(range: std::ops::RangeInclusive<usize>) -> Vec<String> {
    range.map(|line| if line % 7 == 0 { format!("error {line}") } else { format!("line {line}") }).collect()
}

#[test]
fn basic_query_with_defaults() {
    let house = house();
    let handle = lines(&house);
    let page = house.yaml(&format!("ot.result(handle='{handle}')"));
    assert_eq!(
        page,
        json!({"lines": numbered(1..=100), "total_lines": 20_000, "returned": 100, "offset": 1, "has_more": true})
    );
}

#[test]
fn query_with_offset_and_limit() {
    let house = house();
    let handle = lines(&house);
    let page = house.yaml(&format!("ot.result(handle='{handle}', offset=101, limit=50)"));
    assert_eq!(
        page,
        json!({"lines": numbered(101..=150), "total_lines": 20_000, "returned": 50, "offset": 101, "has_more": true})
    );
    let end = house.yaml(&format!("ot.result(handle='{handle}', offset=19_991, limit=50)"));
    assert_eq!((&end["returned"], &end["has_more"]), (&json!(10), &json!(false)));
}

#[test]
fn query_with_search_filter() {
    let house = house();
    let handle = lines(&house);
    let found = house.yaml(&format!("ot.result(handle='{handle}', search='error', offset=3, limit=2)"));
    assert_eq!(
        found,
        json!({"lines": ["error 21", "error 28"], "total_lines": 20_000, "returned": 2, "offset": 3, "has_more": true})
    );
    let found = house.yaml(&format!("ot.result(handle='{handle}', search='^(ERROR|line) 1?[57]$')"));
    assert_eq!(found["lines"], json!(["line 5", "error 7", "line 15", "line 17"]), "an expression, in any case");
}

#[test]
fn query_with_fuzzy_matching() {
    let house = house();
    let text =
        "'\\n'.join(['nothing here', 'the confgi was lost', 'reading configuration', 'config'] + ['-' * 70] * 900)";
    let handle = stored(&house, text);
    let found = house.yaml(&format!("ot.result(handle='{handle}', search='config', fuzzy=True)"));
    assert_eq!(found["lines"], json!(["config", "reading configuration", "the confgi was lost"]), "the best first");
}

#[test]
fn invalid_handle() {
    assert_eq!(house().ok("ot.result(handle='nonexistent')"), "Result not found: nonexistent");
}

#[test]
fn expired_handle() {
    let house = House::of(Project::with("output: {max_inline_size: 1000, result_ttl: 1}\n"));
    let handle = stored(&house, "'text ' * 1000");
    let answer = house.until(&format!("ot.result(handle='{handle}')"), |text| !text.contains("lines"));
    assert_eq!(answer, format!("Result expired: {handle}"));
    // Even after another result has been stored.
    stored(&house, "'more ' * 1000");
    let answer = house.ok(&format!("ot.result(handle='{handle}')"));
    assert_eq!(answer, format!("Result expired: {handle}"));
    let text = house.project.path().join(format!(".onetool/tmp/result-{handle}.txt"));
    assert!(!text.exists(), "nothing of it is kept");
}

#[test]
fn query_response_format() {
    let house = house();
    let handle = lines(&house);
    assert_eq!(
        house.ok(&format!("ot.result(handle='{handle}', limit=3)")),
        "lines: [line 1, line 2, line 3]\ntotal_lines: 20000\nreturned: 3\noffset: 1\nhas_more: true"
    );
    let none = house.yaml(&format!("ot.result(handle='{handle}', search='nowhere')"));
    assert_eq!(keys(&none), ["lines", "total_lines", "returned", "offset", "has_more"]);
    assert_eq!(none, json!({"lines": [], "total_lines": 20_000, "returned": 0, "offset": 1, "has_more": false}));
}

#[test]
fn one_indexed_offset() {
    let house = house();
    let handle = lines(&house);
    let page = house.yaml(&format!("ot.result(handle='{handle}', offset=1)"));
    assert_eq!(page["lines"][0], "line 1");
    assert_eq!(page["offset"], 1);
}

#[test]
fn offset_validation() {
    let house = house();
    let handle = lines(&house);
    let call = format!("ot.result(handle='{handle}', offset=0)");
    let error = house.err(&call);
    assert!(error.starts_with("ValueError: offset must be >= 1 (1-indexed), got 0\n"), "{error}");
    // It is an ordinary exception.
    let caught = house.ok(&format!("try:\n    {call}\nexcept ValueError as error:\n    x = str(error)\nx"));
    assert_eq!(caught, "offset must be >= 1 (1-indexed), got 0");
}

#[test]
fn limit_validation() {
    let house = house();
    let handle = lines(&house);
    let error = house.err(&format!("ot.result(handle='{handle}', limit=0)"));
    assert!(error.starts_with("ValueError: limit must be >= 1, got 0\n"), "{error}");
    let error = house.err(&format!("ot.result(handle='{handle}', limit=-5)"));
    assert!(error.starts_with("ValueError: limit must be >= 1, got -5\n"), "{error}");
}
