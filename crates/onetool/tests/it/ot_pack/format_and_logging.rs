//! Requirements: YAML Flow Style Output, Logging, Result Query Logging.

use serde_json::Value as Json;

use super::{House, example_project, house};

/// One call of every function that returns data rather than a page of text.
const DATA: &[&str] = &[
    "ot.tools()",
    "ot.tools(info='list')",
    "ot.tools(info='full')",
    "ot.packs()",
    "ot.packs(info='list')",
    "ot.aliases()",
    "ot.aliases(info='full')",
    "ot.snippets()",
    "ot.snippets(info='list')",
    "ot.config()",
    "ot.health()",
    "ot.stats()",
    "ot.help(query='web', info='list')",
    "ot.timed(ot.version)",
];

#[test]
fn flow_style_formatting() {
    let house = house();
    // A simple object is one line.
    assert!(house.ok("ot.timed(ot.version)").starts_with("{ms: "));
    // A list of objects is a block sequence of objects in flow style.
    for command in ["ot.tools(pattern='brave')", "ot.packs()", "ot.aliases(info='full')", "ot.tools(info='full')"] {
        let text = house.ok(command);
        assert!(text.lines().all(|line| line.starts_with("- {") && line.ends_with('}')), "{command}: {text}");
    }
    let stats = house.ok("ot.stats()");
    assert!(stats.contains("\ntools:\n  - {tool: "), "{stats}");
    // However the call is written.
    let table = "- {name: ws, target: brave.web_search}";
    for command in [
        "return ot.aliases(pattern='ws', info='full')",
        "x = 'ws'\n(ot.aliases(x, info='full'))",
        "await ot.aliases(pattern='ws', info='full')",
        "al(pattern='ws', info='full')",
        "```python\not.aliases(pattern='ws', info='full')\n```",
    ] {
        assert_eq!(house.ok(command), table, "{command}");
    }
    // In a larger program it is an ordinary value.
    assert_eq!(house.ok("names = ot.packs(info='list')\nlen(names) > 5"), "True");
    assert_eq!(
        house.ok("__format__ = 'json'\not.aliases(pattern='ws', info='full')"),
        r#"[{"name":"ws","target":"brave.web_search"}]"#
    );
}

/// The deepest nesting of brackets, outside quoted texts.
fn flow_levels(line: &str) -> usize {
    let (mut depth, mut deepest, mut quote) = (0_usize, 0, None);
    let mut previous = ' ';
    for c in line.chars() {
        match quote {
            Some('"') if c == '\\' && previous == '\\' => {
                previous = ' ';
                continue;
            }
            Some(open) if c == open && previous != '\\' => quote = None,
            Some(_) => {}
            // A quote begins a text only at the beginning of a value.
            None if (c == '"' || c == '\'') && matches!(previous, ' ' | '{' | '[') => quote = Some(c),
            None if matches!(c, '{' | '[') && matches!(previous, ' ' | '{' | '[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            None if matches!(c, '}' | ']') => depth = depth.saturating_sub(1),
            None => {}
        }
        previous = c;
    }
    deepest
}

#[test]
fn readability() {
    let house = house();
    for command in DATA {
        let text = house.ok(command);
        let parsed: Result<Json, _> = serde_saphyr::from_str(&text);
        assert!(parsed.is_ok(), "{command}: {parsed:?}\n{text}");
        // The same data as a program sees it.
        if !command.contains("stats") && !command.contains("timed") {
            let value: Json = serde_json::from_str(&house.ok(&format!("__format__ = 'json'\n{command}"))).unwrap();
            assert_eq!(parsed.unwrap(), value, "{command}");
        }
        for line in text.lines() {
            assert!(flow_levels(line) <= 2, "{command}: {line}");
        }
    }
    assert_eq!(flow_levels("a: {b: [1, {c: 2}], d: \"[[[[\"}"), 3, "the measure measures");
}

#[test]
fn span_naming() {
    let house = House::of(example_project());
    for call in [
        "tools()",
        "packs()",
        "aliases()",
        "snippets()",
        "config()",
        "health()",
        "help()",
        "reload()",
        "stats()",
        "version()",
        "notify(topic='notes', message='m')",
        "timed('demo.foo')",
    ] {
        house.ok(&format!("ot.{call}"));
        let name = format!("ot.{}", call.split('(').next().unwrap());
        let spans = house.spans(&name, 1);
        assert_eq!(spans.len(), 1, "{spans:?}");
        assert_eq!(spans[0]["outcome"], "ok");
        assert!(spans[0]["duration_ms"].is_number(), "{spans:?}");
    }
}

/// The span of `ot.result`.
#[test]
fn span_naming_of_result_queries() {
    let house = House::of(example_project());
    house.ok("ot.result(handle='abc123', offset=2, limit=3, search='error')");
    house.ok("ot.result(handle='abc123')");
    house.err("ot.result(handle='abc123', limit=0)");
    let spans = house.spans("ot.result", 3);
    assert_eq!(spans.len(), 3, "{spans:?}");
    for span in &spans {
        assert_eq!(span["handle"], "abc123");
    }
    assert_eq!((&spans[0]["offset"], &spans[0]["limit"], &spans[0]["search"]), (&2.into(), &3.into(), &"error".into()));
    assert_eq!((&spans[1]["offset"], &spans[1]["limit"]), (&1.into(), &100.into()));
    assert!(spans[1].get("search").is_none(), "only where it was given: {}", spans[1]);
    assert_eq!((&spans[2]["outcome"], &spans[2]["error"]), (&"error".into(), &"ValueError".into()));
}
