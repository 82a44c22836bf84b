//! State in a real PostgreSQL, started from the machine's own programs.
#![expect(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use onetool_state::bundles::{
    BundleDraft, BundleError, BundleId, BundleStore, HttpImplementation, Implementation, Intake, IntakeBundle, Limits,
    Options, Precondition, ToolDraft,
};
use onetool_state::flat::{FlatFiles, FlatPlaces};
use onetool_state::interface::{Collection, Expect, Key, Retention};
use onetool_state::results::{Query, ResultStore};
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

/// A child of the test above.
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
                let tools = ["a", "b"].map(|slug| (slug.parse().unwrap(), "v1".parse().unwrap(), draft()));
                store.take_in(Intake { bundle: IntakeBundle::New(Box::new(bundle)), tools: tools.into() }).map(drop)
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

/// Waits until it is so; gives up after a minute.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
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
