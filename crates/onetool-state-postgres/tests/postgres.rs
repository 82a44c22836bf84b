//! State in a real PostgreSQL server, started from the installed programs.
#![expect(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use onetool_state::bundles::{
    BundleDraft, BundleError, BundleId, BundleStore, HttpImplementation, Implementation, ImportPlan, ImportTarget,
    Limits, Options, Precondition, ToolDraft,
};
use onetool_state::flat::{FlatFiles, FlatPlaces};
use onetool_state::interface::{Collection, Condition, Cursor, Effort, Expect, Guard, Key, Retention, Stream};
use onetool_state::results::{Query, ResultStore};
use onetool_state::runs::RunStore;
use onetool_state::stats::{Assumptions, Outcome, Period, Record, Report, StatsRecorder};
use onetool_state::{State, StateError, contract, copy, wait};
use onetool_state_postgres::PostgresState;
use onetool_state_postgres::testing::Server;

const ADDRESS: &str = "ONETOOL_CONTRACT_ADDRESS";

fn open(address: &str) -> State {
    Arc::new(PostgresState::open(address).unwrap())
}

#[tokio::test]
async fn the_contract() {
    let server = Server::start();
    let address = server.database("one");
    contract::check(&|| open(&address)).await;
    let address = server.database("several");
    let command = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(ADDRESS, &address);
        command
    };
    contract::check_processes(&|| open(&address), &command).await;
}

/// Run as a child process by the test above.
#[tokio::test]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    assert!(contract::play(&|| open(&address)).await);
}

fn bundles(state: &State) -> BundleStore {
    BundleStore::open(Options {
        state: state.clone(),
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
    let name = (slug.parse().unwrap(), "v1".parse().unwrap());
    store.put_tool(bundle, (&name.0, &name.1), draft(), &Precondition::None).map(drop)
}

fn draft() -> ToolDraft {
    ToolDraft {
        display_name: String::new(),
        description: "does it".to_owned(),
        tags: Vec::new(),
        implementation: Implementation::Http(Box::new(HttpImplementation::get("https://example.com/"))),
        is_enabled: true,
        arg_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
        max_calls_per_minute: None,
        example: None,
        translations: onetool_state::bundles::Translations::default(),
    }
}

/// Two servers create and import bundles of the same names at the same time: each name is given once.
#[test]
fn a_name_is_given_to_one_of_two_servers_that_import() {
    const NAMES: usize = 20;
    let server = Server::start();
    let address = server.database("imports");
    let stores = [bundles(&open(&address)), bundles(&open(&address)), bundles(&open(&address))];
    let wins = |number: usize, store: &BundleStore| -> Vec<usize> {
        let taken = |n: &usize| {
            let bundle = BundleDraft::new(format!("wanted{n}").parse().unwrap());
            let outcome = if number == 0 {
                store.put_bundle(BundleId::generate(), bundle, &Precondition::None).map(drop)
            } else {
                let tools = ["a", "b"].map(|slug| (slug.parse().unwrap(), "v1".parse().unwrap(), draft().into()));
                store
                    .take_in(&ImportPlan { bundle: ImportTarget::New(Box::new(bundle)), tools: tools.into() })
                    .map(drop)
            };
            let is_refused = matches!(outcome, Err(BundleError::Conflict(_)));
            assert!(outcome.is_ok() || is_refused, "{outcome:?}");
            outcome.is_ok()
        };
        (0..NAMES).filter(taken).collect()
    };
    let mut all: Vec<usize> = std::thread::scope(|scope| {
        let each = stores.iter().enumerate();
        let handles: Vec<_> = each.map(|(number, store)| scope.spawn(move || wins(number, store))).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (0..NAMES).collect::<Vec<_>>());
}

/// Waits for a condition; gives up after a minute.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_nodes_share_bundles_and_every_name_has_one_winner() {
    let server = Server::start();
    let address = server.database("bundles");
    let stores = [bundles(&open(&address)), bundles(&open(&address))];
    let bundle = new_bundle(&stores[0]);
    let names = 40;
    let wins =
        |store: &BundleStore| (0..names).filter(|number| put(store, bundle, &format!("tool-{number}")).is_ok()).count();
    until("the other node sees the bundle", || stores[1].bundle(bundle).is_ok());
    let total: usize = std::thread::scope(|scope| {
        let handles: Vec<_> = [&stores[0], &stores[1], &stores[1]].map(|store| scope.spawn(move || wins(store))).into();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert_eq!(total, names);
    for store in &stores {
        until("both nodes see every tool", || store.tools_of(bundle).unwrap().len() == names);
    }
    let tool = stores[0].tools_of(bundle).unwrap()[0].tool.clone();
    for store in &stores {
        store.record_call(tool.id, Utc::now());
        store.flush_usage().unwrap();
    }
    drop(stores);
    let usage = bundles(&open(&address)).tool(bundle, &tool.slug, &tool.version).unwrap().usage;
    assert_eq!(usage.call_count, 2);
}

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn assumptions() -> Assumptions {
    Assumptions {
        context_per_call: Some(1),
        time_overhead_per_call_ms: Some(1),
        input_cost: 1.0,
        output_cost: 1.0,
        chars_per_token: 4.0,
    }
}

#[test]
fn away_it_fails_clearly_and_back_it_goes_on() {
    let mut server = Server::start();
    let state = open(&server.database("away"));
    let documents = state.documents();
    wait(documents.put(Collection::PINS, &key("pins"), b"kept", &Expect::Anything.into())).unwrap();
    let store = bundles(&state);
    let bundle = new_bundle(&store);
    let recorder = StatsRecorder::new(state.trail(), Duration::from_hours(1));

    server.stop();
    for failed in [
        wait(documents.get(Collection::PINS, &key("pins"))).map(drop),
        wait(documents.put(Collection::PINS, &key("pins"), b"lost", &Expect::Anything.into())).map(drop),
        wait(state.leases().acquire("x", "y", Duration::from_secs(1))).map(drop),
    ] {
        let error = failed.unwrap_err();
        assert!(matches!(error, StateError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("hint: check that the database runs"), "{error}");
    }
    assert_eq!(store.tools_of(bundle).unwrap().len(), 0, "what is known is still answered");
    let error = put(&store, bundle, "not-now").unwrap_err();
    assert!(matches!(error, BundleError::State(StateError::Unavailable { .. })), "{error}");
    recorder.record(Record::run(Utc::now(), Outcome { chars_in: 1, chars_out: 1, ms: 1.0, error: None }));
    assert!(recorder.flush().is_err());
    until("health tells of it", || store.problems().iter().any(|problem| problem.path.ends_with("state")));

    server.restart();
    until("it answers again", || {
        wait(documents.get(Collection::PINS, &key("pins"))).is_ok_and(|found| found.unwrap().content == b"kept")
    });
    until("bundles can be changed again", || put(&store, bundle, "again").is_ok());
    until("health is well again", || store.problems().is_empty());
    recorder.flush().unwrap();
    let report = Report::read(recorder.trail(), Period::All, None, assumptions(), Utc::now()).unwrap();
    assert_eq!((report.runs.calls, recorder.dropped()), (1, 0), "what was recorded meanwhile is there");
}

#[test]
fn an_address_that_is_wrong_is_told_without_its_password() {
    for address in ["postgres://", "nonsense", "postgres://u:secret@h:port/d"] {
        let error = PostgresState::open(address).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("postgres://user:password@host") && !error.contains("secret"), "{address}: {error}");
    }
    let state = open("postgres://u:secret@127.0.0.1:1/d?connect_timeout=1");
    let error = wait(state.documents().get(Collection::PINS, &key("pins"))).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1/d") && !error.contains("secret"), "{error}");
}

#[tokio::test]
async fn a_team_moves_from_files_and_back() {
    let server = Server::start();
    let address = server.database("moved");
    let folder = tempfile::tempdir().unwrap();
    let files: State = Arc::new(FlatFiles::new(FlatPlaces::standard(folder.path())));
    let database = open(&address);
    let source = files.clone();
    let (bundle, handle) = tokio::task::spawn_blocking(move || {
        let store = bundles(&source);
        let bundle = new_bundle(&store);
        put(&store, bundle, "moved").unwrap();
        let results = ResultStore::new(&source, Retention::default());
        let handle = results.store(&"line\n".repeat(200_000), "t", 1).unwrap().meta.handle;
        let recorder = StatsRecorder::new(source.trail(), Duration::from_hours(1));
        recorder.record(Record::run(Utc::now(), Outcome { chars_in: 1, chars_out: 1, ms: 1.0, error: None }));
        recorder.flush().unwrap();
        (bundle, handle)
    })
    .await
    .unwrap();
    let copied = copy(&files, &database).await.unwrap();
    assert_eq!((copied.documents, copied.blobs, copied.lines), (2, 1, 1));
    let again = copy(&files, &database).await.unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
    let other = tempfile::tempdir().unwrap();
    let back: State = Arc::new(FlatFiles::new(FlatPlaces::standard(other.path())));
    copy(&database, &back).await.unwrap();
    tokio::task::spawn_blocking(move || {
        for state in [&database, &back] {
            assert_eq!(bundles(state).tools_of(bundle).unwrap().len(), 1);
            let results = ResultStore::new(state, Retention::default());
            let page = results.query(&handle, &Query::new(199_999, 10, 10_000).unwrap(), &|| true).unwrap();
            assert_eq!((page.lines, page.total_lines), (vec!["line".to_owned(); 2], 200_000));
            let report = Report::read(Some(&*state.trail()), Period::All, None, assumptions(), Utc::now()).unwrap();
            assert_eq!(report.runs.calls, 1);
        }
    })
    .await
    .unwrap();
}

/// Removals are forgotten after a while, and a server that missed them starts over.
#[tokio::test]
async fn removals_are_forgotten_and_whoever_missed_them_reads_everything() {
    let server = Server::start();
    let state = open(&server.database("forgets"));
    let documents = state.documents();
    let changes = async |since| documents.changes(Collection::PINS, since, Effort::Usual).await.unwrap();
    let names: Vec<Key> = (0..50).map(|number| key(&format!("pins/p{number}"))).collect();
    for name in &names {
        documents.put(Collection::PINS, name, b"x", &Expect::Anything.into()).await.unwrap();
    }
    let behind = changes(Cursor::START).await.cursor;
    for name in &names {
        documents.delete(Collection::PINS, name, &Expect::Anything.into()).await.unwrap();
    }
    assert_eq!(changes(behind).await.changes.len(), 50);
    let known = changes(behind).await.cursor;
    let forget =
        |age: u32, most: u32| server.ask("forgets", &format!("SELECT onetool_forget_1('pins', {age}, {most})"));
    assert_eq!(forget(3600, 1000), "0", "they are young");
    assert_eq!((forget(0, 20), forget(0, 1000), forget(0, 1000)), ("20".into(), "29".into(), "0".into()));
    let quiet = changes(known).await;
    assert!(!quiet.is_whole && quiet.changes.is_empty(), "{quiet:?}");
    let all = changes(behind).await;
    assert_eq!((all.is_whole, all.changes.len(), all.cursor), (true, 0, known));
    let begun = changes(Cursor::START).await;
    assert!(!changes(begun.cursor).await.is_whole, "once is enough");
    // A decision based on the forgotten state must be made again.
    let put = async |seen| {
        let guard = Some(Guard { prefix: "pins/".to_owned(), seen });
        documents.put(Collection::PINS, &names[0], b"y", &Condition { expect: Expect::Absent, guard }).await
    };
    assert!(matches!(put(behind).await, Err(StateError::Stale(_))));
    put(known).await.unwrap();
}

/// A team updates one server after the other.
#[tokio::test]
async fn old_and_new_servers_share_a_database() {
    let server = Server::start();
    let address = server.database("updated");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/migrations");
    server.ask(
        "updated",
        "CREATE TABLE onetool_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
    );
    for (version, name) in [(1, "0001_state.sql"), (2, "0002_jobs.sql")] {
        server.ask("updated", &std::fs::read_to_string(folder.join(name)).unwrap());
        server.ask("updated", &format!("INSERT INTO onetool_migrations (version) VALUES ({version})"));
    }
    // Writes like a server of that version.
    let old = |name: &str| {
        let put = format!("SELECT onetool_put_1('pins', '{name}', 'absent', NULL, 'p', 0, 'r', 'old')");
        server.ask("updated", &put)
    };
    assert_eq!(old("p-before"), "done");
    // Several new servers start at once.
    let started: Vec<_> = (0..5)
        .map(|number| {
            let state = open(&address);
            tokio::spawn(async move {
                let name = key(&format!("new{number}"));
                state.documents().put(Collection::PINS, &name, b"new", &Expect::Absent.into()).await
            })
        })
        .collect();
    for one in started {
        one.await.unwrap().unwrap();
    }
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(server.ask("updated", "SELECT count(*) FROM onetool_migrations"), files.to_string(), "each once");
    assert_eq!(old("p-beside"), "stale", "its guard sees what it wrote before");
    let documents = open(&address).documents();
    let seen = documents.changes(Collection::PINS, Cursor::START, Effort::Usual).await.unwrap();
    assert_eq!(seen.changes.len(), 6);
    // A server of this version works with a database that a newer one has migrated.
    server.ask("updated", "INSERT INTO onetool_migrations (version) VALUES (99)");
    assert!(open(&address).documents().get(Collection::PINS, &key("new1")).await.unwrap().is_some());
}

/// Owners of runs and handles derive from the same secret: both are preserved.
#[tokio::test]
async fn runs_belong_to_the_same_people_in_a_copy() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let files: State = Arc::new(FlatFiles::new(FlatPlaces::standard(folder.path())));
    let database = open(&server.database("people"));
    let owner = |state: &State| {
        let store = RunStore::new(state, "node");
        tokio::task::spawn_blocking(move || store.owner(7).unwrap())
    };
    let before = owner(&files).await.unwrap();
    copy(&files, &database).await.unwrap();
    assert_eq!(owner(&database).await.unwrap(), before);
}

/// A backup contains everything: each kind of document, and every stream.
#[tokio::test]
async fn a_backup_holds_every_kind() {
    let server = Server::start();
    let (database, restored) = (open(&server.database("whole")), open(&server.database("restored")));
    for collection in Collection::ALL {
        let name = if collection == Collection::RUNS { "owner/run" } else { "one" };
        let name = match collection {
            Collection::PINS => "pins",
            Collection::SWITCHES => "switches",
            Collection::SHAPES => "shapes",
            Collection::RUN_CONTENTS => "owner/run.command",
            _ => name,
        };
        let documents = database.documents();
        documents.put(collection, &key(name), br#"{"kept":true}"#, &Expect::Absent.into()).await.unwrap();
    }
    for stream in Stream::ALL {
        database.trail().append(stream, &[r#"{"kept":true}"#.to_owned()]).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let files = || -> State { Arc::new(FlatFiles::new(FlatPlaces::standard(folder.path()))) };
    let expected = (Collection::ALL.len() as u64, Stream::ALL.len() as u64);
    let there = copy(&database, &files()).await.unwrap();
    assert_eq!((there.documents, there.lines), expected);
    // Read by a different process than the one that wrote it.
    let back = copy(&files(), &restored).await.unwrap();
    assert_eq!((back.documents, back.lines), expected, "nothing stayed in memory");
    for collection in Collection::ALL {
        let found = restored.documents().changes(collection, Cursor::START, Effort::Usual).await.unwrap();
        assert_eq!(found.changes.len(), 1, "{collection}");
    }
}
