//! What a model reads before and around its calls: descriptions, signatures, shapes, and argument errors.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::{House, house};
use crate::client::Project;

/// The size of tools/list and of the instructions on the wire.
fn standing_cost(house: &House) -> (usize, String) {
    let (tools, instructions) = house.standing();
    let text = tools["tools"][0]["description"].as_str().unwrap().to_owned();
    (tools.to_string().len() + instructions.len(), text)
}

fn pack(project: &Project, name: &str, code: &str) {
    project.write(&format!(".onetool/tools/{name}/{name}_tools.py"), code);
}

#[test]
fn the_description_names_the_packs() {
    let (bytes, text) = standing_cost(&house());
    assert!(bytes < 1_600, "{bytes} bytes");
    assert!(text.contains("brave: Web search, answered from memory"), "{text}");
    for part in ["Python exceptions", "asyncio.gather", "runs share no names", "$name", "ot.help(query="] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_description_stays_small_however_many_packs_there_are() {
    let project = Project::empty();
    for number in 0..60 {
        let about = "Ünïcödé \\\"quoted\\\" text about a pack that goes on and on and on and on and on and on";
        let functions: String =
            (0..=number % 7).map(|n| format!("def act_{n}() -> int:\n    return {n}\n\n")).collect();
        pack(&project, &format!("pack_{number}"), &format!("\"\"\"{about}\"\"\"\n{functions}"));
    }
    let house = House::of(project);
    let text = house.until_standing(|text| text.contains(" more: ot.packs()"));
    let (bytes, _) = standing_cost(&house);
    assert!(bytes < 1_600, "{bytes} bytes: {text}");
    assert!(text.contains("pack_13"), "the largest first: {text}");
    assert!(text.matches(" | ").count() >= 8, "short words leave room for more packs: {text}");
}

#[test]
fn the_description_follows_the_packs() {
    let house = House::of(Project::empty());
    assert!(!standing_cost(&house).1.contains("fresh"));
    pack(&house.project, "fresh", "\"\"\"Brand new things.\"\"\"\ndef act() -> int:\n    return 1\n");
    house.until_standing(|text| text.contains("fresh: Brand new things"));
}

/// Clients that begin with `initialize` are notified.
#[tokio::test]
async fn clients_are_told_when_the_packs_change() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let project = Project::empty();
    let mut command = project.command(&["serve"]);
    let mut child = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    for message in &messages {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    // A single change is enough, even soon after the client has started.
    let told = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if line.contains("\"id\":2") {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                pack(&project, "fresh", "\"\"\"New.\"\"\"\ndef act() -> int:\n    return 1\n");
            }
            if line.contains("notifications/tools/list_changed") {
                return;
            }
        }
    };
    tokio::time::timeout(crate::client::PATIENCE, told).await.expect("clients are told");
}

#[test]
fn a_tool_of_others_can_be_described_in_other_words() {
    let project = super::example_project();
    let configuration = project.path().join(".onetool/onetool.yaml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let more = "prompts:\n  tools:\n    github.search:\n      description: Look through the source of everything we own.\n      words: [spelunking]\n";
    assert!(text.contains("\ntools:\n") && !text.contains("\nprompts:"), "{text}");
    let docs = "\ntools:\n  brave: {docs: off}\n  web: {docs: 'https://docs.example/web'}\n";
    std::fs::write(&configuration, format!("{}\n{more}", text.replace("\ntools:\n", docs))).unwrap();
    let house = House::of(project);
    house.until("ot.health()", |text| text.contains("github: connected"));
    let page = house.ok("ot.help(query='github.search')");
    assert!(page.contains("Look through the source of everything we own."), "{page}");
    let names = house.ok("ot.help(query='spelunking', info='list')");
    assert_eq!(names, "[github.search]");
    let page = house.ok("ot.help(query='brave.search')");
    assert!(!page.contains("Docs:"), "{page}");
    assert!(house.ok("ot.help(query='web.fetch')").ends_with("Docs: https://docs.example/web"));
}

#[test]
fn what_a_tool_returns_is_learned() {
    let project = Project::empty();
    let code = "def people(n: int):\n    \"\"\"List people.\"\"\"\n    return {'people': [{'name': 'Ann', 'mail': None if n > 1 else 'a@b.c'}], 'next': n}\n";
    pack(&project, "crm", code);
    let house = House::of(project);
    let page = house.until("ot.help(query='crm.people')", |page| page.starts_with("# crm.people"));
    assert!(!page.contains("seen"), "{page}");
    house.ok("crm.people(n=1)");
    house.ok("[crm.people(n=2), crm.people(n=3)][0]['next']");
    let page = house.ok("ot.help(query='crm.people')");
    assert!(page.contains("(seen 3 times): {people: list[{name: str, mail: str | None}], next: int}"), "{page}");
    let found = house.ok("ot.help(query='who are the people')");
    assert!(found.contains("crm.people(n: int)  # returns (seen 3 times): {people: list["), "{found}");
    // Written in the background.
    let file = house.project.path().join(".onetool/stats/shapes.json");
    let started = std::time::Instant::now();
    let stored = loop {
        match std::fs::read_to_string(&file) {
            Ok(stored) if stored.contains("people") => break stored,
            other => assert!(started.elapsed() < crate::client::PATIENCE, "{other:?}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(stored.contains("people") && !stored.contains("Ann") && !stored.contains("a@b.c"), "{stored}");
}

#[test]
fn shapes_can_be_switched_off() {
    let project = Project::with("stats: {shapes: false}\n");
    pack(&project, "crm", "def people():\n    return {'people': []}\n");
    let house = House::of(project);
    house.until("crm.people()", |text| text.contains("people"));
    assert!(!house.ok("ot.help(query='crm.people')").contains("seen"));
    assert!(!house.project.path().join(".onetool/stats/shapes.json").exists());
}

#[test]
fn code_that_misreads_a_result_is_shown_what_it_was() {
    let project = Project::empty();
    pack(&project, "crm", "def people() -> dict:\n    return {'people': [{'name': 'Ann'}]}\n");
    let house = House::of(project);
    house.until("crm.people()", |text| text.contains("Ann"));
    for code in ["crm.people()['persons']", "x = crm.people()\nx['people']['name']"] {
        let error = house.err(code);
        assert!(
            error.contains("what the calls returned:\n- crm.people: {people: list[{name: str}]}"),
            "{code}: {error}"
        );
    }
    let error = house.err("crm.people()\nraise ValueError('mine')");
    assert!(!error.contains("what the calls returned"), "{error}");
}

#[test]
fn signatures_spell_out_what_is_nested() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ot_pack/nested_server.py");
    let project = Project::with(&format!(
        "servers:\n  review:\n    command: python3\n    args: ['{0}']\n  plain:\n    command: python3\n    args: ['{0}']\n    json: off\n",
        server.display()
    ));
    let house = House::of(project);
    house.until("ot.health()", |text| text.contains("review: connected") && text.contains("plain: connected"));
    assert_eq!(house.yaml("ot.tools(pattern='review.comment', info='list')"), json!(["review.comment"]),);
    let page = house.ok("ot.help(query='review.comment')");
    assert!(
        page.contains(
            "review.comment(comments: list[{path: str, line: int, side?: Literal['LEFT', 'RIGHT']}], draft: bool = False) \
             -> {ids: list[int]}"
        ),
        "{page}"
    );
    // JSON text is parsed to a value, unless the configuration disables it.
    assert_eq!(house.ok("review.text()['answer']"), "42");
    assert_eq!(house.ok("type(plain.text()).__name__"), "str");
    let page = house.ok("ot.help(query='review.text')");
    assert!(page.contains("review.text() -> str | dict | list"), "{page}");
}

/// Every kind of tool, with the same mistake.
#[test]
fn arguments_are_checked_alike_for_every_kind_of_tool() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ot_pack/nested_server.py");
    let project =
        Project::with(&format!("servers:\n  review:\n    command: python3\n    args: ['{}']\n", server.display()));
    pack(&project, "own", "def repeat(text: str, count: int = 1, mode: str = 'a') -> str:\n    return text * count\n");
    let house = House::of(project);
    house.until("ot.health()", |text| text.contains("review: connected"));
    house.until("own.repeat('a', 2)", |text| text == "aa");
    // `value` hides the mistake from the check before the run.
    for (name, call, expected) in [
        ("own.repeat", "own.repeat('a', count=value)", "count: int = 1"),
        ("review.repeat", "review.repeat(text='a', count=value)", "count: int = 1"),
        ("file.read", "file.read(path='x', limit=value)", "limit: int"),
    ] {
        let error = house.err(&format!("value = str(5)\n{call}"));
        let parameter = if name == "file.read" { "limit" } else { "count" };
        assert!(error.starts_with(&format!("TypeError: {name}() argument '{parameter}' must be int")), "{error}");
        assert!(error.contains(&format!("not str '5'; write {parameter}=5")), "{error}");
        assert!(error.contains(&format!("hint: expected {name}(")) && error.contains(expected), "{error}");
        let refused = house.err(&call.replace("value", "'5'"));
        assert!(refused.contains(&format!("write {parameter}=5")), "{refused}");
    }
    let error = house.err("side = 'LEFFT'\nreview.comment(comments=[{'path': 'a', 'line': 1, 'side': side}])");
    assert!(
        error.contains("argument 'comments' at [0]['side'] must be one of") && error.contains("did you mean 'LEFT'?"),
        "{error}"
    );
    let error = house.err("x = {'path': 'a'}\nreview.comment(comments=[x])");
    assert!(error.contains("argument 'comments' at [0] lacks the key 'line'"), "{error}");
}

#[test]
fn a_search_leads_to_a_call_in_one_step() {
    let found = house().ok("ot.help(query='could you search the web for something')");
    let first: Vec<&str> = found.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(first[0].contains("(query: str"), "{found}");
    assert!(first.len() <= 3, "{found}");
}

impl House {
    fn standing(&self) -> (Json, String) {
        self.runtime.block_on(async {
            let service = &self.client().service;
            let tools = service.list_tools(None).await.unwrap();
            let instructions = service.peer_info().and_then(|info| info.instructions.clone()).unwrap_or_default();
            (serde_json::to_value(tools).unwrap(), instructions.clone())
        })
    }

    fn until_standing(&self, expected: impl Fn(&str) -> bool) -> String {
        let patience = std::time::Instant::now() + crate::client::PATIENCE;
        loop {
            let (_, text) = standing_cost(self);
            if expected(&text) {
                return text;
            }
            assert!(std::time::Instant::now() < patience, "never as expected: {text}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn small_things_do_not_cost_a_turn() {
    let house = House::of(Project::empty());
    let plan = house.ok("std.todo_write(todos=[{'content': 'a'}, {'id': '1', 'content': 'b'}, {'content': 'c'}])");
    let ids: Vec<Json> = serde_json::from_str::<Json>(&plan).unwrap()["todos"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].clone())
        .collect();
    assert_eq!(ids, ["2", "1", "3"], "{plan}");
    house.ok("file.edit(path='new/notes.txt', old_string='', new_string='one  two\\n')");
    let file = house.project.path().join("new/notes.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one  two\n");
    let error = house.err("file.edit(path='new/notes.txt', old_string='', new_string='x')");
    assert!(error.contains("exists already"), "{error}");
    let error = house.err("file.edit(path='new/notes.txt', old_string='one two', new_string='x', match='exact')");
    assert!(error.contains("not"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one  two\n");
    house.ok("file.edit(path='new/notes.txt', old_string='one two', new_string='x')");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
}

#[test]
fn code_gets_all_lines_of_a_result_that_it_asks_for() {
    let house = House::of(Project::with("output: {max_inline_size: 2000}\n"));
    let summary = house.ok("'\\n'.join(f'line {n} of a long result' for n in range(1000))");
    let handle = summary.split("handle=\"").nth(1).map_or_else(
        || serde_json::from_str::<Json>(&summary).unwrap()["handle"].as_str().unwrap().to_owned(),
        |rest| rest.split('"').next().unwrap().to_owned(),
    );
    assert_eq!(house.ok(&format!("len(ot.result(handle='{handle}', limit=900)['lines'])")), "900");
    let shown = house.ok(&format!("ot.result(handle='{handle}', limit=900)"));
    assert!(shown.len() <= 2_000 && shown.contains("has_more: true"), "{} {shown:.300}", shown.len());
}

#[test]
fn a_tool_that_raises_shows_where() {
    let project = Project::empty();
    pack(&project, "crm", "def people(n: int) -> int:\n    rows = {}\n    return rows['missing']\n");
    let house = House::of(project);
    let error = house.until("crm.people(n=1)", |text| text.contains("missing"));
    assert!(error.contains("in crm.people, crm_tools.py, line 3, in people: return rows['missing']"), "{error}");
    assert!(!error.contains("Traceback"), "a model sees the last frame only: {error}");
    for arguments in [&["call", "crm.people", "n=1"][..], &["run", "crm.people(n=1)"]] {
        let output = house.project.output(arguments);
        assert!(
            output.contains("Traceback (most recent call last)") && output.contains("line 3, in people"),
            "{output}"
        );
    }
    let log = std::fs::read_to_string(house.project.path().join(".onetool/logs/onetool.log")).unwrap();
    assert!(log.contains("Traceback") && log.contains("line 3, in people"), "{log}");
}

impl Project {
    /// A command's standard error.
    fn output(&self, arguments: &[&str]) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let output = runtime.block_on(async { self.command(arguments).output().await }).unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}
