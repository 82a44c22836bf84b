//! YAML as models see it, and as YAML parsers read it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(json: serde_json::Value) -> Value {
    Value::from_json(json)
}

/// Parses a text with our own YAML reader, as JSON.
fn read(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn flow_is_one_line() {
    let shown = to_yaml_flow(&value(json!({"aliases": {"ws": "brave.web_search"}, "servers": ["a"], "nothing": null})));
    assert_eq!(shown, "{aliases: {ws: brave.web_search}, servers: [a], nothing: null}");
}

#[test]
fn block_indents_and_keeps_lines() {
    let shown = to_yaml_block(&value(json!({
        "name": "x", "params": {"a": {"default": 5}}, "list": [{"k": 1, "l": 2}, []], "body": "one\n  two\n\nthree\n"
    })));
    assert_eq!(
        shown,
        "name: x\nparams:\n  a:\n    default: 5\nlist:\n  - k: 1\n    l: 2\n  - []\nbody: |\n  one\n    two\n\n  three"
    );
}

#[test]
fn a_simple_object_is_shown_as_flow() {
    assert_eq!(
        to_ot_display(&value(json!({"aliases": {}, "snippets": {}, "servers": []}))),
        "{aliases: {}, snippets: {}, servers: []}"
    );
}

#[test]
fn an_object_of_objects_is_a_line_a_key() {
    let health = json!({
        "version": "1.0.0", "cwd": "/current/working/directory",
        "proxy": {"status": "ok", "server_count": 1, "servers": {"github": "connected"}},
    });
    assert_eq!(
        to_ot_display(&value(health)),
        "version: \"1.0.0\"\ncwd: /current/working/directory\n\
         proxy: {status: ok, server_count: 1, servers: {github: connected}}"
    );
}

#[test]
fn a_list_of_objects_is_a_block_sequence_of_flow_items() {
    let tools = json!([{"name": "a.b", "args": ["q: what"]}, {"name": "c.d", "deep": {"p": {"q": {"r": 1}}}}]);
    assert_eq!(
        to_ot_display(&value(tools)),
        "- {name: a.b, args: [\"q: what\"]}\n- name: c.d\n  deep:\n    p: {q: {r: 1}}"
    );
}

#[test]
fn a_short_list_is_one_line_and_a_long_one_a_line_an_item() {
    assert_eq!(to_ot_display(&value(json!(["a", "b"]))), "[a, b]");
    let names: Vec<String> = (0..40).map(|n| format!("pack.tool_{n}")).collect();
    assert!(to_ot_display(&value(json!(names))).starts_with("- pack.tool_0\n- pack.tool_1\n"));
    assert_eq!(to_ot_display(&Value::Str("as: it is\n".into())), "as: it is\n");
}

#[test]
fn special_floats_have_their_yaml_names() {
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e100, 1.5, 2.0].map(Value::Float);
    assert_eq!(to_yaml_flow(&Value::List(floats.to_vec())), "[.nan, .inf, -.inf, 1.0e+100, 1.5, 2.0]");
}

#[test]
fn a_key_beyond_what_parsers_guess_is_explicit() {
    let key = "k".repeat(3000);
    let long = value(json!({"a": {key.clone(): 1}}));
    assert_eq!(read(&to_yaml_flow(&long)), json!({"a": {key.clone(): 1}}));
    assert_eq!(read(&to_yaml_block(&long)), json!({"a": {key: 1}}));
}

/// Texts that some parser reads as something else.
const TRICKY: &[&str] = &[
    "",
    " ",
    "~",
    "null",
    "Null",
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "N",
    "true",
    "1",
    "1.0",
    "1e3",
    "0x1f",
    "0o17",
    "017",
    "1_000",
    "1:30",
    "12:30:45",
    "2001-01-01",
    "2001-01-01T00:00:00Z",
    ".inf",
    ".NaN",
    "-.inf",
    "<<",
    "=",
    "-",
    "- a",
    "? a",
    ": a",
    "a: b",
    "a:",
    "a #b",
    "#a",
    "&a",
    "*a",
    "!a",
    "|",
    ">",
    "'a'",
    "\"a\"",
    "%a",
    "@a",
    "`a",
    "{a}",
    "[a]",
    "a, b",
    "a]b",
    "http://x/?q=1",
    "a\nb",
    "a\n",
    "\na",
    " a\nb",
    "a \nb",
    "a\r\nb",
    "tab\there",
    "\u{7f}",
    "\u{85}",
    "\u{2028}x",
    "\u{feff}",
    "\0",
    "\u{1b}[31m",
    "größe",
    "日本語",
    "😀",
    "---",
    "...",
    "--- a",
    "a\\b",
    "C:\\x",
    "+1",
    "-1",
    "0",
    "inf",
    "nan",
    "Infinity",
    "a\n\nb\n",
    "a\n  b\n",
    "a\n\tb",
    "a\n#b\n",
    "x: |\n  y\n",
];

#[test]
fn tricky_texts_come_back_from_our_reader() {
    let texts: Vec<Value> = TRICKY.iter().map(|text| Value::from(*text)).collect();
    let list = Value::List(texts.clone());
    let map = Value::Dict(texts.iter().map(|text| (text.clone(), text.clone())).collect());
    for value in [&list, &map] {
        for shown in [to_yaml_flow(value), to_yaml_block(value), to_ot_display(value)] {
            assert_eq!(read(&shown), value.to_json(), "{shown}");
        }
    }
}

/// PyYAML reads YAML 1.1, the stricter of the two versions. Skipped if Python does not have it.
#[test]
fn tricky_texts_come_back_from_pyyaml() {
    let probe = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return;
    }
    let texts: Vec<Value> = TRICKY.iter().map(|text| Value::from(*text)).collect();
    let value = Value::Dict(vec![
        ("list".into(), Value::List(texts.clone())),
        ("map".into(), Value::Dict(texts.iter().map(|text| (text.clone(), text.clone())).collect())),
        (
            "numbers".into(),
            Value::List(vec![Value::Float(1e100), Value::Float(1e-7), Value::Int(-5), Value::Bool(true)]),
        ),
        ("k".repeat(3000).into(), Value::None),
    ]);
    for shown in [to_yaml_flow(&value), to_yaml_block(&value), to_ot_display(&value)] {
        let mut child = Command::new("python3")
            .args(["-c", "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin.buffer.read()), sys.stdout)"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(shown.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let back: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(back, value.to_json(), "{shown}");
    }
}

proptest! {
    #[test]
    fn any_text_comes_back(text in "\\PC*", wild in any::<String>()) {
        for text in [text, wild] {
            let value = Value::Dict(vec![(Value::from(text.as_str()), Value::List(vec![Value::from(text.as_str())]))]);
            for shown in [to_yaml_flow(&value), to_yaml_block(&value), to_ot_display(&value)] {
                prop_assert_eq!(read(&shown), value.to_json(), "{}", shown);
            }
        }
    }
}
