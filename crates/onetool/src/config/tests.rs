//! Every key with every kind of invalid value: each mistake affects only its own key and is reported in the user's
//! terms, with file, line and key.

use std::path::PathBuf;

use onetool_config::{Key, Shape, fit};
use serde_json::{Value as Json, json};

use super::{ConfigPlaces, Resolved, SECTIONS, example, load, reference, resolve, schema};

fn resolved(text: &str) -> (Resolved, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
    std::fs::create_dir_all(places.own()).unwrap();
    let file = places.own().join("onetool.yaml");
    std::fs::write(&file, text).unwrap();
    (resolve(&places, load(&places)), file)
}

fn messages(text: &str) -> Vec<String> {
    resolved(text).0.notes.into_iter().map(|note| note.message).collect()
}

/// All key paths with their shapes. A user-defined name is `x`.
fn all_keys() -> Vec<(Vec<String>, Shape)> {
    fn walk(path: &[String], shape: Shape, found: &mut Vec<(Vec<String>, Shape)>) {
        let below = |step: &str| path.iter().cloned().chain([step.to_owned()]).collect::<Vec<_>>();
        found.push((path.to_vec(), shape));
        match shape {
            Shape::Keys(keys) => keys.iter().for_each(|key| walk(&below(key.name), key.shape, found)),
            Shape::Names(inner) => walk(&below("x"), *inner, found),
            Shape::List(item) => walk(&below("[0]"), *item, found),
            Shape::Either(shapes) => {
                for inner in shapes.iter().filter(|inner| matches!(inner, Shape::Keys(_))) {
                    walk(path, *inner, found);
                    found.retain(|(known, shape)| known != path || !matches!(shape, Shape::Keys(_)));
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for section in SECTIONS.iter() {
        let path: Vec<String> = section.path().split('.').map(str::to_owned).collect();
        walk(&path, section.shape(), &mut found);
    }
    found
}

fn document(path: &[String], value: Json) -> String {
    let whole = path
        .iter()
        .rev()
        .fold(value, |inner, step| if step.starts_with('[') { json!([inner]) } else { json!({ step: inner }) });
    // JSON is valid YAML. The comment shifts the line number.
    format!("# first\n{whole}\n")
}

/// Words that only make sense to the program's developers.
const FOREIGN: &[&str] = &[
    "f64",
    "u64",
    "i64",
    "usize",
    "u32",
    "struct ",
    "enum ",
    "variant",
    "untagged",
    "invalid type",
    "invalid value",
    "invalid length",
    "missing field",
    "unknown field",
    "deserialize",
    "serde",
    "Option<",
    "Vec<",
    "Some(",
    "None",
    "os error",
    "sequence",
    "floating point",
    "boolean",
    "Json",
    "raw::",
];

#[test]
fn a_wrong_value_in_any_key_is_told_in_words() {
    let wrong = [
        json!("zz wrong"),
        json!(-5),
        json!(1e300),
        json!(1.5),
        json!(true),
        json!([]),
        json!([[1]]),
        json!({"zz": {"zz": 1}}),
        json!([null]),
    ];
    let mut told = 0;
    for (path, shape) in all_keys() {
        for value in &wrong {
            let mut flaws = Vec::new();
            fit(shape, value.clone(), &mut flaws);
            let text = document(&path, value.clone());
            let (settings, file) = resolved(&text);
            if flaws.is_empty() {
                // It may still be invalid for another reason, which must be reported like the rest.
            } else {
                assert!(!settings.notes.is_empty(), "nothing is told of {text}");
                told += 1;
            }
            for note in &settings.notes {
                assert_eq!(note.subject, file.display().to_string(), "{text} {}", note.message);
                assert!(note.message.starts_with("line 2: "), "{text}: {}", note.message);
                assert!(note.message.contains(&path[0]), "{text}: {}", note.message);
                assert!(note.message.len() < 600, "{text}: {}", note.message);
                // The key's own name may be such a word.
                let message = note.message.replace(&path[0], "");
                for word in FOREIGN {
                    assert!(!message.contains(word), "{word:?} in {}", note.message);
                }
            }
        }
    }
    assert!(told > 500, "{told}");
}

#[test]
fn a_key_without_a_value_is_one_that_is_not_there() {
    for (path, shape) in all_keys() {
        let is_named = path.iter().any(|step| step == "x" || step.starts_with('['));
        if is_named || matches!(shape, Shape::Any) {
            continue;
        }
        let text = document(&path, Json::Null);
        assert_eq!(messages(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn an_unknown_key_is_told_everywhere_with_what_was_meant() {
    for (path, shape) in all_keys() {
        let Shape::Keys(keys) = shape else { continue };
        let name = keys[0].name;
        let text = document(&path, json!({ format!("{name}x"): 1 }));
        let told = messages(&text);
        let expected = format!("unknown key '{name}x'; did you mean '{name}'?");
        assert!(told.iter().any(|message| message.contains(&expected)), "{text}: {told:?}");
    }
    assert_eq!(messages("outptu: 1\n"), ["line 1: outptu: unknown key 'outptu'; did you mean 'output'?"]);
}

/// A valid value.
fn sample(shape: Shape) -> Json {
    match shape {
        Shape::Any | Shape::Text => json!("x"),
        Shape::Flag => json!(true),
        Shape::Count(_, most) => json!(most),
        Shape::Number(least, _) => json!(least),
        Shape::Seconds => json!(0.5),
        Shape::Choice(words) => json!(words[0]),
        Shape::List(item) | Shape::OneOrMore(item) => json!([sample(*item)]),
        Shape::Names(inner) => json!({"x": sample(*inner)}),
        Shape::Keys(keys) => keys.iter().map(|key| (key.name.to_owned(), sample(key.shape))).collect(),
        Shape::Either(shapes) => sample(shapes[shapes.len() - 1]),
    }
}

#[test]
fn every_type_holds_what_its_shape_accepts() {
    for section in SECTIONS.iter() {
        let full = sample(section.shape());
        assert!(section.holds(full.clone()), "{}: {full}", section.path());
        // A default must be a value that can be written.
        let default = section.default_json();
        let mut flaws = Vec::new();
        fit(section.shape(), default.clone(), &mut flaws);
        assert!(flaws.is_empty(), "{}: {default}: {flaws:?}", section.path());
    }
}

/// Every key of a shape, at any depth, with its path.
fn declared(path: &str, shape: Shape, found: &mut Vec<(String, Key)>) {
    match shape {
        Shape::Keys(keys) => {
            for key in keys {
                let path = format!("{path}.{}", key.name);
                found.push((path.clone(), *key));
                declared(&path, key.shape, found);
            }
        }
        Shape::List(inner) | Shape::Names(inner) | Shape::OneOrMore(inner) => declared(path, *inner, found),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| declared(path, *shape, found)),
        _ => {}
    }
}

#[test]
fn every_key_is_documented_and_its_example_is_valid() {
    for section in SECTIONS.iter() {
        assert!(section.doc().ends_with('.'), "{}: {}", section.path(), section.doc());
        let mut keys = Vec::new();
        declared(section.path(), section.shape(), &mut keys);
        for (path, key) in keys {
            assert!(key.doc.trim().ends_with('.'), "{path}: {}", key.doc);
            assert!(
                section.example().is_empty() || section.example().contains(key.name) || section.path() == "tools",
                "{path}"
            );
            if key.example.is_empty() {
                continue;
            }
            let value = yaml(key.example);
            let mut flaws = Vec::new();
            fit(key.shape, value, &mut flaws);
            assert!(flaws.is_empty(), "{path}: {}: {flaws:?}", key.example);
        }
    }
}

fn yaml(text: &str) -> Json {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Files that are generated from the declarations. `UPDATE=1` rewrites them.
#[test]
fn generated_files_are_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, expected) in [("docs/configuration.md", reference()), ("examples/config/onetool.yaml", example())] {
        let path = root.join(file);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{file} is out of date; UPDATE=1 cargo test -p onetool generated");
    }
}

#[test]
fn the_example_is_valid_by_the_checker_and_by_the_schema() {
    assert_eq!(messages(&example()), Vec::<String>::new());
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let example = yaml(&example());
    let problems: Vec<String> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");
}

/// The JSON Schema for editors and the checker agree.
#[test]
fn the_schema_and_the_checker_agree() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let values = [
        json!("zz wrong"),
        json!(-5),
        json!(1.5),
        json!(7),
        json!(true),
        json!([]),
        json!([[1]]),
        json!({"zz": 1}),
        json!(null),
    ];
    let mut refused = 0;
    for (path, shape) in all_keys() {
        let is_named = path.iter().any(|step| step == "x" || step.starts_with('['));
        for value in values.iter().filter(|value| !(is_named && value.is_null())) {
            let mut flaws = Vec::new();
            fit(shape, value.clone(), &mut flaws);
            let text = document(&path, value.clone());
            assert_eq!(validator.is_valid(&yaml(&text)), flaws.is_empty(), "{text}");
            refused += usize::from(!flaws.is_empty());
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn what_cannot_be_read_is_not_laxer_than_what_was_meant() {
    use onetool_proxy::Enabled;
    use onetool_run::Permission;
    use onetool_sdk::QualifiedName;

    let permission = |text: &str, pack: &str| resolved(text).0.permissions.of(&QualifiedName::new(pack, "f"));
    for text in ["security: {policy: deny}\n", "security: [policy]\n", "security: {policy: {'file.*': 5}}\n"] {
        assert_eq!(permission(text, "file"), Permission::Deny, "{text}");
        assert_eq!(permission(text, "ot"), Permission::Allow, "{text}");
    }
    for text in ["security: {sanitize: on}\n", "security: {sanitize: {enabled: maybe}}\n"] {
        assert!(resolved(text).0.run.sanitise, "{text}");
    }
    for text in [
        "server: {tokens: abc}\n",
        "server: {tokens: [{token: 5}]}\n",
        "server: {tokens: [{}]}\n",
        "server: [tokens]\n",
    ] {
        let tokens = resolved(text).0.server.tokens;
        assert!(!tokens.is_empty() && tokens.iter().all(|token| token.token.len() > 60), "{text}");
    }
    for text in ["enabled: maybe", "tools: {include: 5}", "args: [5]", "env: {A: 1}", "pin: strit", "timeout: -1"] {
        let settings = resolved(&format!("servers:\n  s: {{command: c, {text}}}\n")).0;
        assert!(matches!(settings.servers[0].enabled, Enabled::No { .. }), "{text}");
    }
    let settings = resolved("servers:\n  s: {command: c, timout: 5}\n").0;
    assert_eq!(settings.servers[0].enabled, Enabled::Yes);
}

#[test]
fn no_message_shows_what_may_be_a_secret() {
    for text in [
        "server: {tokens: [{token: 8315550199}]}",
        "server: {tokens: ['hush-8315550199']}",
        "servers: {s: {url: u, headers: 'hush-8315550199'}}",
        "servers: {s: {command: c, env: {A: [hush-8315550199]}}}",
        "servers: {s: {command: c, args: 8315550199}}",
        "telemetry: {headers: {Authorization: 8315550199}}",
    ] {
        let told = messages(text);
        assert!(!told.is_empty() && told.iter().all(|message| !message.contains("8315550199")), "{text}: {told:?}");
    }
}

#[test]
fn a_template_that_cannot_work_is_told_at_once_and_the_rest_works() {
    let (settings, _) =
        resolved("snippets:\n  bad:\n    body: \"{{ q \"\n  good: {body: '1 + {{ n }}'}\nalias: {r: file.read}\n");
    let messages: Vec<&str> = settings.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].starts_with("line 3: snippets.bad.body: not a valid template: "), "{messages:?}");
    assert!(settings.snippets.contains_key("good") && settings.aliases.contains_key("r"));
}

#[test]
fn names_that_nothing_could_use_are_told() {
    for (text, expected) in [
        ("servers: {'': {command: c}}", "servers.: this server is left out: a server's name needs a letter"),
        ("servers: {ot: {command: c}}", "servers.ot: this server is left out: its name is that of a pack"),
        ("projects: {'': .}", "projects.: a project needs a name"),
        ("snippets: {'a b': '1'}", "snippets.a b: a snippet's name has letters"),
        ("snippets: {'': '1'}", "snippets.: a snippet's name has letters"),
        ("alias: {class: file.read}", "alias.class: an alias must be a name in Python"),
        ("run: {python: /no/such/python}", "run.python: found no file /no/such/python"),
    ] {
        let told = messages(text);
        assert!(told.len() == 1 && told[0].starts_with(&format!("line 1: {expected}")), "{text}: {told:?}");
    }
}

#[test]
fn a_file_where_a_folder_should_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let places = ConfigPlaces { project: folder.path().to_owned(), global: None, explicit: None };
    let told = |text: &str| -> Vec<String> {
        std::fs::write(places.own().join("onetool.yaml"), text).unwrap();
        resolve(&places, load(&places)).notes.into_iter().map(|note| note.message).collect()
    };
    std::fs::create_dir_all(places.own()).unwrap();
    for (text, key) in [
        ("log_dir: onetool.yaml", "log_dir"),
        ("stats: {persist_dir: onetool.yaml/deeper}", "stats.persist_dir"),
        ("bundles: {dir: onetool.yaml}", "bundles.dir"),
        ("output: {result_store_dir: onetool.yaml}", "output.result_store_dir"),
    ] {
        let told = told(text);
        let expected = format!("line 1: {key}: expected a folder, but ");
        assert!(told.len() == 1 && told[0].starts_with(&expected), "{text}: {told:?}");
    }
    std::fs::remove_dir_all(places.own()).unwrap();
    std::fs::write(places.own(), "").unwrap();
    let notes = resolve(&places, load(&places)).notes;
    assert!(notes[0].message.starts_with("expected a folder, found a file"), "{notes:?}");
}

#[test]
fn a_thousand_mistakes_are_counted_and_each_still_counts() {
    use onetool_proxy::Enabled;

    let servers: Vec<String> = (0..1000).map(|n| format!("  s{n}: {{command: c, args: {n}}}\n")).collect();
    let unknown: Vec<String> = (0..1000).map(|n| format!("zz{n}: 1\n")).collect();
    let (settings, _) = resolved(&format!("servers:\n{}{}", servers.concat(), unknown.concat()));
    assert_eq!(settings.notes.len(), 101);
    assert!(settings.notes[100].message.ends_with("more problems"), "{}", settings.notes[100].message);
    assert!(settings.servers.iter().all(|server| matches!(server.enabled, Enabled::No { .. })));
}
