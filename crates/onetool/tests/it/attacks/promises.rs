//! The tests that `SECURITY.md` names for each promise exist.

use std::collections::BTreeSet;
use std::path::Path;

/// The names of all tests in a folder, in Rust and in Python.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            tests(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
                if let Some(name) = name.filter(|_| is_test).and_then(|rest| rest.split(['(', '<']).next()) {
                    found.insert(name.to_owned());
                    is_test = false;
                }
            }
        } else if path.extension().is_some_and(|end| end == "py") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.strip_prefix("def ")?.split('(').next());
            found.extend(names.filter(|name| name.starts_with("test_")).map(str::to_owned));
        }
    }
}

#[test]
fn every_promise_names_tests_and_cases_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    tests(&root.join("crates"), &mut known);
    tests(&root.join("packs"), &mut known);
    let text = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let promises = text.split("## Promises").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() >= 13, "{promises}");
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing holds: {row}");
        for name in &names {
            let is_there = if name.contains('/') { root.join(name).exists() } else { known.contains(*name) };
            assert!(is_there, "there is no `{name}`, which should hold: {row}");
        }
        let has_test = names.iter().any(|name| known.contains(*name) || name.starts_with("cases/attacks/"));
        assert!(has_test, "no test holds: {row}");
    }
}
