//! Every file of `cases/run` is a command; the file next to it has the expected reply.
//!
//! An expectation that begins with `!error` is for a run that fails. `*` matches anything: alone any text, before a
//! text any answer that contains it. `${PROJECT}` is the project's folder. With `UPDATE_CASES=1`, expectations are
//! rewritten instead of compared.

use std::path::Path;

use crate::client::Project;

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
        let text = answer.text.replace(&folder, "${PROJECT}");
        let actual = if answer.is_error { format!("!error\n{text}") } else { text };
        let expectation = file.with_extension("out");
        let expected = std::fs::read_to_string(&expectation).unwrap_or_default();
        if matches(&expected, &actual) {
            continue;
        }
        if std::env::var_os("UPDATE_CASES").is_some() {
            std::fs::write(&expectation, &actual).unwrap();
        } else {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            failures.push(format!("--- {name}\nexpected: {expected}\nactual:   {actual}"));
        }
    }
    assert!(failures.is_empty(), "{} cases differ\n{}", failures.len(), failures.join("\n"));
}

fn matches(expected: &str, actual: &str) -> bool {
    let (expected, actual) = match expected.strip_prefix("!error\n") {
        Some(expected) => match actual.strip_prefix("!error\n") {
            Some(actual) => (expected, actual),
            None => return false,
        },
        None => (expected, actual),
    };
    match expected.strip_prefix('*') {
        Some(part) => actual.contains(part) && (part.is_empty() || !actual.starts_with("!error")),
        None => expected == actual,
    }
}
