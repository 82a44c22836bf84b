//! Sequences that are refused when they are stored.

use chrono::Utc;
use onetool_state::bundles::{BundleId, Implementation, ToolId};
use serde_json::json;

use super::*;

fn tool(implementation: &Json) -> Tool {
    Tool {
        bundle_id: BundleId::generate(),
        id: ToolId::generate(),
        ..serde_json::from_value(json!({
            "toolID": ToolId::generate().to_string(), "bundleID": BundleId::generate().to_string(),
            "slug": "own", "version": "v1", "type": "sequence", "impl": implementation,
            "argSchema": {"type": "object", "properties": {"n": {}}, "additionalProperties": false},
            "createdAt": Utc::now(), "modifiedAt": Utc::now(),
        }))
        .unwrap()
    }
}

fn compiled(implementation: &Json) -> Result<Sequence, String> {
    let tool = tool(implementation);
    let Implementation::Sequence(sequence) = &tool.implementation else { panic!("{implementation}") };
    Sequence::compile(&tool, sequence, &SequenceSettings::default())
}

#[test]
fn what_cannot_run_is_refused() {
    let step = |id: &str, args: Json| json!({"id": id, "tool": "file.read", "args": args});
    for (steps, part) in [
        (json!([]), "at least one step"),
        (json!([step("a", json!({})), step("a", json!({}))]), "two steps 'a'"),
        (json!([step("a b", json!({}))]), "impl.steps[0].id"),
        (json!([{"id": "a", "tool": "read"}]), "pack.function"),
        (json!([step("a", json!({"x": "${steps.a.value}"}))]), "refers to itself"),
        (json!([step("a", json!({"x": "${steps.b.value}"})), step("b", json!({"x": ["${steps.a.ok}"]}))]), "a, b"),
        (json!([step("a", json!({"x": "${steps.z.value}"}))]), "no step 'z'"),
        (json!([step("a", json!({"x": "${args.m}"}))]), "argSchema has no 'm'"),
        (json!([{"id": "a", "tool": "p.f", "dependsOn": ["z"]}]), "dependsOn"),
        (json!([{"id": "a", "tool": "p.f", "args": {"x": "${item}"}}]), "starts with args"),
        (json!([{"id": "a", "tool": "p.f", "forEach": "text"}]), "forEach"),
        (json!([{"id": "a", "tool": "p.f", "forEach": [1], "as": "args"}]), "as: 'args'"),
        (json!([{"id": "a", "tool": "p.f", "maxItems": 3}]), "need a forEach"),
        (json!([{"id": "a", "tool": "p.f", "if": "${args.n} > 1"}]), "one reference alone"),
        (json!([{"id": "a", "tool": "p.f", "retry": {"max": 11}}]), "retry.max"),
        (json!([{"id": "a", "tool": "p.f", "retry": {"max": 1, "on": ["sometimes"]}}]), "retry.on"),
    ] {
        let error = compiled(&json!({"steps": steps})).unwrap_err();
        assert!(error.contains(part), "{steps}: {error}");
    }
    let many: Vec<Json> = (0..101).map(|at| step(&format!("s{at}"), json!({}))).collect();
    assert!(compiled(&json!({"steps": many})).unwrap_err().contains("at most 100"));
    assert!(compiled(&json!({"steps": many[..100]})).is_ok());
    let output = json!({"steps": [step("a", json!({}))], "output": {"x": "${steps.b.value}"}});
    assert!(compiled(&output).unwrap_err().contains("impl.output"));
}

struct Known(Vec<(&'static str, &'static str)>);

impl Neighbours for Known {
    fn calls_of(&self, tool: &str, _: Option<&str>) -> Vec<(String, Option<String>)> {
        self.0.iter().filter(|(from, _)| *from == tool).map(|(_, to)| ((*to).to_owned(), None)).collect()
    }
}

#[test]
fn recursion_and_depth_are_seen_through_others() {
    let bundle: Bundle = serde_json::from_value(json!({
        "bundleID": BundleId::generate().to_string(), "slug": "my-pack", "createdAt": Utc::now(), "modifiedAt": Utc::now(),
    }))
    .unwrap();
    let check = |called: &str, version: Option<&str>, known: Vec<(&'static str, &'static str)>| {
        let tool = tool(&json!({"steps": [{"id": "a", "tool": called, "version": version}]}));
        let Implementation::Sequence(sequence) = &tool.implementation else { panic!() };
        check_nesting(&bundle, &tool, sequence, &Known(known), &SequenceSettings::default())
    };
    assert!(check("my_pack.own", None, vec![]).unwrap_err().contains("my_pack.own → my_pack.own"));
    assert!(check("my_pack.own", Some("v1"), vec![]).is_err());
    assert_eq!(check("my_pack.own", Some("v0"), vec![]), Ok(()));
    let through = check("p.a", None, vec![("p.a", "p.b"), ("p.b", "my_pack.own")]).unwrap_err();
    assert!(through.contains("my_pack.own → p.a → p.b → my_pack.own"), "{through}");
    let deep = vec![("p.a", "p.b"), ("p.b", "p.c"), ("p.c", "p.d"), ("p.d", "p.e")];
    assert_eq!(check("p.a", None, deep.clone()), Ok(()));
    let deeper = [deep, vec![("p.e", "p.f")]].concat();
    assert!(check("p.a", None, deeper).unwrap_err().contains("more than 5 deep"));
}
