//! Every file of `cases/run` is a command; the file next to it has the expected reply.
//!
//! An expectation that begins with `!error` is for a run that fails. `${PROJECT}` is the project's folder, and `${ANY}`
//! stands for text that differs from run to run, such as a handle. What is not text is a line like `[image/png, 28
//! bytes]`. With `UPDATE_CASES=1`, expectations are rewritten instead of compared.

use std::path::Path;

use base64::Engine as _;
use serde_json::Value as Json;

use crate::client::{Answer, Project};

const ANY: &str = "${ANY}";

#[tokio::test]
async fn every_case_gives_what_stands_beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let project = Project::copy_of(&root.join("project"));
    let client = project.serve().await;
    let folder = project.path().to_string_lossy().into_owned();
    let mut files: Vec<_> = std::fs::read_dir(root.join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    assert!(files.len() > 50);
    let mut failures = Vec::new();
    for file in files {
        let command = std::fs::read_to_string(&file).unwrap();
        let answer = client.run(&command).await;
        let text = shown(&answer).replace(&folder, "${PROJECT}");
        let actual = if answer.is_error { format!("!error\n{text}") } else { text };
        let expectation = file.with_extension("out");
        let expected = std::fs::read_to_string(&expectation).ok();
        if expected.as_deref().is_some_and(|expected| matches(expected, &actual)) {
            continue;
        }
        if std::env::var_os("UPDATE_CASES").is_some() {
            std::fs::write(&expectation, &actual).unwrap();
        } else {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let expected = expected.as_deref().unwrap_or("(no file)");
            failures.push(format!("--- {name}\nexpected: {expected}\nactual:   {actual}"));
        }
    }
    assert!(failures.is_empty(), "{} cases differ\n{}", failures.len(), failures.join("\n"));
}

fn shown(answer: &Answer) -> String {
    answer.content.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &Json) -> String {
    if let Some(text) = block["text"].as_str() {
        return text.to_owned();
    }
    let data = block["data"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    format!("[{}, {} bytes]", block["mimeType"].as_str().unwrap_or("?"), bytes.len())
}

fn matches(expected: &str, actual: &str) -> bool {
    if !expected.contains(ANY) {
        return expected == actual;
    }
    let (first, rest) = expected.split_once(ANY).unwrap_or_default();
    let (parts, last) = rest.rsplit_once(ANY).map_or((None, rest), |(parts, last)| (Some(parts), last));
    let Some(middle) = actual.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    let mut parts = parts.into_iter().flat_map(|parts| parts.split(ANY));
    parts.try_fold(middle, |rest, part| rest.split_once(part).map(|(_, rest)| rest)).is_some()
}

#[test]
fn an_expectation_accepts_nothing_else() {
    assert!(matches("a", "a") && !matches("a", "b") && !matches("a", "ab") && !matches("", "a"));
    assert!(matches("{\"handle\":\"${ANY}\",\"n\":1}", "{\"handle\":\"f00\",\"n\":1}"));
    assert!(!matches("x ${ANY} y ${ANY} z", "x 1 z"));
    assert!(!matches("aba${ANY}aba", "aba"));
    assert!(!matches("!error\n${ANY}x", "x"));
}
