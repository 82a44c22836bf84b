//! The example tools of the repository work as documented.

use std::path::Path;
use std::sync::Arc;

use onetool_sdk::{Arguments, CallContext, ToolCall, ToolSource as _, Value};
use onetool_worker::{NoServices, WorkerSettings, WorkerSource, scaffold};

use crate::toolbox::{Toolbox, dict};

fn examples() -> WorkerSource {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    WorkerSource::new(WorkerSettings { project_tools: Some(folder), ..WorkerSettings::default() }, Arc::new(NoServices))
}

async fn call(source: &WorkerSource, pack: &str, function: &str, arguments: &[(&str, Value)]) -> Value {
    let pack = source.packs().into_iter().find(|known| known.name == pack).unwrap();
    let tool = pack.tools[function].clone();
    let arguments = Arguments::named(arguments.iter().map(|(name, value)| (*name, value.clone())));
    source.call(ToolCall { pack, tool, version: None, arguments }, &CallContext::default()).await.unwrap()
}

#[test]
fn every_example_is_read_without_a_remark() {
    let source = examples();
    assert_eq!(source.health(), []);
    let packs = source.packs();
    assert_eq!(packs.iter().map(|pack| pack.name.as_str()).collect::<Vec<_>>(), ["dates", "notes", "ports", "tables"]);
    for tool in packs.iter().flat_map(|pack| pack.tools.values()) {
        assert!(tool.example.is_some() && tool.returns.is_some(), "{}", tool.name);
        assert_eq!(tool.signature.described_parameters().len(), tool.signature.parameters.len(), "{}", tool.name);
        assert!(tool.checkable, "{}", tool.name);
    }
}

#[test]
fn every_pack_of_the_gallery_is_read_without_a_remark() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs");
    let settings = WorkerSettings { project_tools: Some(folder), ..WorkerSettings::default() };
    let source = WorkerSource::new(settings, Arc::new(NoServices));
    let packs = source.packs();
    let names: Vec<_> = packs.iter().map(|pack| pack.name.as_str()).collect();
    assert_eq!(names, ["code", "convert", "db", "diagram", "excel", "git", "pdf", "plot"]);
    for tool in packs.iter().flat_map(|pack| pack.tools.values()) {
        assert!(tool.example.is_some() && tool.returns.is_some() && tool.checkable, "{}", tool.name);
        assert_eq!(tool.signature.described_parameters().len(), tool.signature.parameters.len(), "{}", tool.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_dependencies() {
    let source = examples();
    let table = Value::from("city,area,people\nBern,51.6,134000\nGenf,15.9,203000\nBern,0.4,1000\n");
    let described = call(&source, "tables", "describe", &[("source", table.clone())]).await;
    assert_eq!(described.repr(), "{'columns': {'city': 'text', 'area': 'number', 'people': 'number'}, 'rows': 3}");
    let arguments = [("source", table.clone()), ("where", dict(&[("city", Value::from("Genf"))]))];
    assert_eq!(
        call(&source, "tables", "rows", &arguments).await.repr(),
        "[{'city': 'Genf', 'area': 15.9, 'people': 203000}]"
    );
    let arguments = [("source", table), ("by", Value::from("city")), ("column", Value::from("people"))];
    assert_eq!(call(&source, "tables", "summarise", &arguments).await.repr(), "{'Bern': 135000, 'Genf': 203000}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_with_a_dependency() {
    let source = examples();
    let parsed = call(&source, "dates", "parse", &[("text", Value::from("3 May 2024, 4pm"))]).await;
    assert_eq!(parsed.str(), "2024-05-03 16:00:00");
    let arguments = [("start", Value::from("2024-02-29")), ("end", Value::from("2025-03-01"))];
    let between = call(&source, "dates", "between", &arguments).await;
    assert_eq!(between.repr(), "{'years': 1, 'months': 0, 'days': 1, 'total_days': 366}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_side_by_side() {
    let source = examples();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().to_string();
    let closed = {
        let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        unused.local_addr().unwrap().to_string()
    };
    let targets = Value::List(vec![Value::from(open), Value::from(closed)]);
    let Value::List(answers) = call(&source, "ports", "check", &[("targets", targets)]).await else {
        panic!("no list")
    };
    let open: Vec<_> = answers.iter().map(|answer| answer.get("open").cloned()).collect();
    assert_eq!(open, [Some(Value::Bool(true)), Some(Value::Bool(false))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_from_the_scaffold_works() {
    let text = scaffold("fresh");
    let tools = Toolbox::new(&[("fresh", text.as_str())]);
    let greeting = tools.call("fresh.greet", &[("name", Value::from("Ada"))]).await.unwrap();
    assert_eq!(greeting, Value::from("Hello, Ada!"));
    let texts = Value::List(vec![Value::from("one two")]);
    assert_eq!(tools.call("fresh.count_words", &[("texts", texts)]).await.unwrap().repr(), "{'one two': 2}");
}
