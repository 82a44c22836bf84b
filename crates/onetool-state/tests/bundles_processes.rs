//! Several processes on one store. The children are the same test binary; a variable selects their role.
#![expect(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use onetool_state::bundles::{
    BundleDraft, BundleError, BundleId, BundleStore, HttpImplementation, Implementation, Limits, Options, Precondition,
    ToolDraft,
};
use onetool_state::flat::{FlatFiles, FlatPlaces};

const FOLDER: &str = "ONETOOL_TEST_BUNDLES";
const BUNDLE: &str = "ONETOOL_TEST_BUNDLE";
const ROUNDS: &str = "ONETOOL_TEST_ROUNDS";

fn open(folder: &Path) -> BundleStore {
    BundleStore::open(Options {
        state: Arc::new(FlatFiles::new(FlatPlaces::new(folder).with_bundles(folder))),
        limits: Limits::default(),
        built_in: Vec::new(),
        native_functions: Vec::new(),
        check: Arc::new(|_, _, _| Ok(())),
        check_bundle: Arc::new(|_| Ok(())),
    })
    .unwrap()
}

fn new_bundle(store: &BundleStore) -> BundleId {
    let id = BundleId::generate();
    let draft = BundleDraft::new("race".parse().unwrap());
    store.put_bundle(id, draft, &Precondition::None).unwrap();
    id
}

fn put(store: &BundleStore, bundle: BundleId, slug: &str) -> Result<(), BundleError> {
    let draft = ToolDraft {
        display_name: String::new(),
        description: "x".repeat(2000),
        tags: Vec::new(),
        implementation: Implementation::Http(Box::new(HttpImplementation::get("https://example.com/"))),
        is_enabled: true,
        arg_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
        max_calls_per_minute: None,
        example: None,
        translations: onetool_state::bundles::Translations::default(),
    };
    let name = (slug.parse().unwrap(), "v1".parse().unwrap());
    store.put_tool(bundle, (&name.0, &name.1), draft, &Precondition::None).map(drop)
}

/// The child: stores tools one after the other, and prints for each whether it won.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let bundle: BundleId = std::env::var(BUNDLE).unwrap().parse().unwrap();
    let rounds: usize = std::env::var(ROUNDS).unwrap().parse().unwrap();
    let store = open(Path::new(&folder));
    for round in 0..rounds {
        let slug = format!("tool-{round}");
        match put(&store, bundle, &slug) {
            Ok(()) => println!("\nwon {slug}"),
            Err(BundleError::Conflict(_)) => println!("\nlost {slug}"),
            Err(error) => println!("\nfailed {error}"),
        }
    }
}

fn spawn(folder: &Path, bundle: BundleId, rounds: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(BUNDLE, bundle.to_string())
        .env(ROUNDS, rounds.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
}

#[test]
fn two_processes_race_and_every_name_has_exactly_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = new_bundle(&store);
    let rounds = 1000;
    let mut children = [spawn(folder.path(), bundle, rounds), spawn(folder.path(), bundle, rounds)];
    let readers = children.each_mut().map(|child| {
        let lines = lines(child);
        std::thread::spawn(move || lines.collect::<Vec<_>>())
    });
    let said: Vec<String> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut wins: HashMap<&str, usize> = HashMap::new();
    for slug in said.iter().filter_map(|line| line.strip_prefix("won ")) {
        *wins.entry(slug).or_default() += 1;
    }
    assert_eq!(said.iter().find(|line| line.starts_with("failed ")), None);
    assert_eq!(wins.len(), rounds, "every name has a winner");
    assert!(wins.values().all(|&count| count == 1), "no name has two");
    assert_eq!(store.tools_of(bundle).unwrap().len(), rounds);
}

#[test]
fn what_a_killed_process_acknowledged_is_there_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = new_bundle(&open(folder.path()));
    let mut acknowledged = Vec::new();
    for wanted in [5, 40, 90] {
        let mut child = spawn(folder.path(), bundle, 100_000);
        let mut lines = lines(&mut child);
        // Killed in the middle of its work, at whatever point.
        while acknowledged.len() < wanted {
            let line = lines.next().unwrap();
            acknowledged.extend(line.strip_prefix("won ").map(str::to_owned));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.filter_map(|line| line.strip_prefix("won ").map(str::to_owned)));
    }
    let store = open(folder.path());
    let stored: Vec<String> = store.tools_of(bundle).unwrap().iter().map(|view| view.tool.slug.to_string()).collect();
    for slug in &acknowledged {
        assert_eq!(stored.iter().filter(|one| *one == slug).count(), 1, "{slug}");
    }
    assert_eq!(store.problems(), [], "nothing is half-written");
    put(&store, bundle, "after").unwrap();
}
