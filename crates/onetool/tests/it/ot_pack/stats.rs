//! Requirement: Runtime Statistics.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::client::Project;

use super::{House, column, example_project, keys};

/// A house with two successful searches and a failed one.
fn used_house() -> House {
    let house = House::of(example_project());
    house.ok("brave.search(query='rust', count=1)");
    house.ok("brave.search(query='python', count=2)");
    house.err("brave.search(query='x', count='many')");
    house.ok("demo.foo()");
    house
}

#[test]
fn get_all_time_stats() {
    let house = used_house();
    let stats = house.yaml("ot.stats()");
    for key in ["total_calls", "success_rate", "context_saved", "time_saved_ms", "tools"] {
        assert!(keys(&stats).contains(&key), "{key} is missing: {stats}");
    }
    assert_eq!(stats["total_calls"], 4);
    assert_eq!(stats["success_rate"], 75.0);
    assert!(stats["computed"]["context_saved"].as_str().unwrap().starts_with("measured: "), "{stats}");
    assert!(stats["computed"]["time_saved_ms"].as_str().unwrap().starts_with("measured: "), "{stats}");
    assert_eq!(column(&stats["tools"], "tool"), ["brave.search", "demo.foo"]);
    assert_eq!(stats["tools"][0]["calls"], 3);
    assert_eq!(stats["tools"][0]["success_rate"], 66.7);
    assert_eq!(stats["tools"][0]["errors"], json!({"TypeError": 1}));
}

#[test]
fn filter_by_period() {
    let project = Project::empty();
    let line = |days: i64| {
        let at = (Utc::now() - TimeDelta::days(days)).to_rfc3339();
        format!("{{\"ts\":\"{at}\",\"kind\":\"call\",\"tool\":\"old.{days}\",\"in\":1,\"out\":1,\"ms\":1.0}}\n")
    };
    project.write(".onetool/stats/stats.jsonl", &[40, 20, 3].map(line).concat());
    let house = House::of(project);
    house.ok("ot.version()");
    let tools = |period: &str| {
        let stats = house.yaml(&format!("ot.stats(period='{period}')"));
        assert_eq!(stats["period"], *period);
        let mut tools: Vec<String> = column(&stats["tools"], "tool").into_iter().map(str::to_owned).collect();
        tools.retain(|tool| tool != "ot.stats");
        tools.sort();
        tools
    };
    assert_eq!(tools("day"), ["ot.version"]);
    assert_eq!(tools("week"), ["old.3", "ot.version"]);
    assert_eq!(tools("month"), ["old.20", "old.3", "ot.version"]);
    assert_eq!(tools("all"), ["old.20", "old.3", "old.40", "ot.version"]);
}

#[test]
fn filter_by_tool() {
    let house = used_house();
    let stats = house.yaml("ot.stats(tool='brave.search')");
    assert_eq!(stats["tool"], "brave.search");
    assert_eq!(stats["total_calls"], 3);
    assert_eq!(column(&stats["tools"], "tool"), ["brave.search"]);
    assert_eq!(house.yaml("ot.stats(tool='demo')")["total_calls"], 1, "a pack counts its tools");
    assert_eq!(house.yaml("ot.stats(tool='no.such')")["total_calls"], 0);
}

#[test]
fn generate_html_report() {
    let house = used_house();
    let stats = house.yaml("ot.stats(output='reports/stats.html')");
    let path = house.project.path().join("reports/stats.html");
    assert_eq!(stats["html_report"], path.display().to_string());
    assert_eq!(stats["total_calls"], 4);
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains(">brave.search<"), "{page:.300}");
}

#[test]
fn stats_disabled() {
    let house = House::of(Project::with("stats: {enabled: false}\n"));
    assert_eq!(
        house.ok("ot.stats()"),
        "Error: Statistics are disabled. Set stats.enabled: true in onetool.yaml to collect them."
    );
    house.ok("ot.version()");
    assert!(!house.project.path().join(".onetool/stats/stats.jsonl").exists(), "nothing is collected");
}

#[test]
fn html_write_error() {
    let house = House::of(Project::empty());
    std::fs::create_dir(house.project.path().join("report.html")).unwrap();
    house.project.write("file", "");
    assert_eq!(house.ok("ot.stats(output='report.html')"), "Error: Cannot write to 'report.html': it is a folder");
    for output in ["file/report.html", "../report.html", "/proc/report.html", "report.txt"] {
        let answer = house.ok(&format!("ot.stats(output='{output}')"));
        assert!(answer.starts_with(&format!("Error: Cannot write to '{output}': ")), "{answer}");
    }
}

#[test]
fn invalid_period() {
    let house = super::house();
    assert_eq!(
        house.ok("ot.stats(period='invalid')"),
        "Error: Invalid period 'invalid'. Valid: day, week, month, all. Example: ot.stats(period='day')"
    );
}

#[test]
fn what_never_reached_the_model_is_saved() {
    let house = House::of(example_project());
    let saved = || house.yaml("ot.stats()")["context_saved"].as_u64().unwrap();
    assert_eq!(saved(), 0);
    house.err("brave.search(query='x', count='many')");
    house.ok("ot.help(query='search')");
    assert_eq!(saved(), 0, "failed calls and looking save nothing");
    house.ok("len(str([demo.lines(count=200) for _ in range(20)]))");
    let after = saved();
    assert!(after > 1_000, "{after}");
    assert_eq!(saved(), after, "looking at statistics changes nothing");
    let seen = house.yaml("ot.stats()");
    assert_eq!(house.yaml("ot.stats()"), seen, "neither runs nor costs");
    assert_eq!((&seen["total_runs"], &seen["total_calls"]), (&json!(3), &json!(22)), "{seen}");
}

#[test]
fn flat_figures_are_used_where_they_are_configured() {
    let project = example_project();
    let configuration = project.path().join(".onetool/onetool.yaml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let figures = "stats:\n  context_per_call: 30000\n  time_overhead_per_call_ms: 4000\n";
    std::fs::write(&configuration, text.replace("stats:\n", figures)).unwrap();
    let house = House::of(project);
    house.ok("brave.search(query='rust', count=1)");
    house.ok("demo.foo()");
    let stats = house.yaml("ot.stats()");
    assert_eq!((&stats["context_saved"], &stats["time_saved_ms"]), (&json!(60_000), &json!(8_000)));
    assert!(stats["computed"]["context_saved"].as_str().unwrap().contains("stats.context_per_call"), "{stats}");
}
