//! Which files are tool files, and that they are read but not run.

use std::sync::Arc;

use onetool_sdk::{Arguments, CallContext, ToolCall, ToolSource as _, Value};
use onetool_worker::{NoServices, WorkerSettings, WorkerSource};

use crate::toolbox::{Toolbox, write};

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_file_does_not_run_it() {
    let tools = Toolbox::new(&[("r", "open('ran', 'w')\ndef f(): return 1\n")]);
    assert_eq!(tools.source.packs()[0].tools.len(), 1);
    assert!(!tools.folder.path().join("ran").exists());
    assert_eq!(tools.int("r.f").await, 1);
    assert!(tools.folder.path().join("ran").exists(), "the call does");
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_project_and_global_folders_are_one_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let where_from = |name: &str| format!("\ndef where() -> str:\n    return '{name}'\n");
    for (path, source) in [
        ("project/a/a_tools.py", where_from("project")),
        ("global/a/a_tools.py", where_from("global")),
        ("global/b/b_tools.py", where_from("global")),
        ("flat/json.py", where_from("flat").replace("return", "import json; return json.loads('\"\"') +")),
        ("flat/other.py", format!("pack = 'named'{}", where_from("flat").replace('\n', "\r\n"))),
    ] {
        write(&folder.path().join(path), &source);
    }
    let settings = WorkerSettings {
        project_tools: Some(folder.path().join("project")),
        global_tools: Some(folder.path().join("global")),
        tools_dir: vec!["flat/*.py".to_owned()],
        folder: folder.path().to_owned(),
        ..WorkerSettings::default()
    };
    let source = WorkerSource::new(settings, Arc::new(NoServices));
    let mut answers = Vec::new();
    for pack in source.packs() {
        let tool = pack.tools["where"].clone();
        let name = pack.name.clone();
        let call = ToolCall { pack, tool, version: None, arguments: Arguments::default() };
        answers.push((name, source.call(call, &CallContext::default()).await));
    }
    let expected = [("a", "project"), ("json", "flat"), ("named", "flat"), ("b", "global")];
    assert_eq!(answers, expected.map(|(pack, from)| (pack.to_owned(), Ok(Value::from(from)))));
    let notes = source.health();
    assert!(notes.len() == 1 && notes[0].subject.ends_with("global/a/a_tools.py"), "{notes:?}");
}
