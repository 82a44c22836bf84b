//! The store's rules, on real folders.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::*;
use crate::flat::{FlatFiles, FlatPlaces};

fn open_with(folder: &Path, limits: Limits, built_in: Vec<BuiltInBundle>) -> BundleStore {
    let check: ToolCheck =
        Arc::new(|_, tool, _| if tool.description == "refuse me" { Err("refused".to_owned()) } else { Ok(()) });
    BundleStore::open(Options {
        state: Arc::new(FlatFiles::new(FlatPlaces::new(folder).with_bundles(folder))),
        limits,
        built_in,
        native_functions: vec!["demo.read".to_owned()],
        check,
        check_bundle: Arc::new(|_| Ok(())),
    })
    .unwrap()
}

fn open(folder: &Path) -> BundleStore {
    open_with(folder, Limits::default(), Vec::new())
}

fn bundle_draft(slug: &str) -> BundleDraft {
    BundleDraft::new(slug.parse().unwrap())
}

fn tool_draft(description: &str) -> ToolDraft {
    ToolDraft {
        display_name: String::new(),
        description: description.to_owned(),
        tags: vec!["t".to_owned()],
        implementation: Implementation::Http(Box::new(HttpImplementation::get("https://example.com/"))),
        is_enabled: true,
        arg_schema: json!({"type": "object"}),
        output_schema: None,
        max_calls_per_minute: None,
        example: None,
        translations: Translations::default(),
    }
}

fn with_bundle(store: &BundleStore) -> BundleId {
    let id = BundleId::generate();
    let (_, written) = store.put_bundle(id, bundle_draft("demo"), &Precondition::None).unwrap();
    assert_eq!(written, Written::Created);
    id
}

fn put(store: &BundleStore, bundle: BundleId, slug: &str, version: &str) -> Result<ToolView, BundleError> {
    put_described(store, bundle, slug, version, "does it")
}

fn put_described(
    store: &BundleStore,
    bundle: BundleId,
    slug: &str,
    version: &str,
    description: &str,
) -> Result<ToolView, BundleError> {
    let (slug, version) = (slug.parse().unwrap(), version.parse().unwrap());
    store.put_tool(bundle, (&slug, &version), tool_draft(description), &Precondition::None)
}

fn get(store: &BundleStore, bundle: BundleId, slug: &str, version: &str) -> Result<ToolView, BundleError> {
    store.tool(bundle, &slug.parse().unwrap(), &version.parse().unwrap())
}

fn demo_built_in() -> BuiltInBundle {
    let tool = |function: &str, native: &str| BuiltInTool {
        function: function.to_owned(),
        description: "reads".to_owned(),
        tags: Vec::new(),
        implementation: Implementation::Native(NativeImplementation { function: native.to_owned() }),
        arg_schema: json!({"type": "object"}),
        output_schema: None,
        max_calls_per_minute: None,
        unavailable: None,
        example: None,
    };
    BuiltInBundle {
        pack: "demo".to_owned(),
        display_name: "Demo".to_owned(),
        description: String::new(),
        secrets: Vec::new(),
        is_enabled: true,
        tools: vec![tool("read", "demo.read"), tool("gone_by_now", "demo.gone_by_now")],
    }
}

/// Two stores act as two servers: when both take a name at the same time, one gets it.
#[test]
fn a_bundles_name_is_free_for_one_of_many() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (open(folder.path()), open(folder.path()));
    let wins = |store: &BundleStore| -> Vec<usize> {
        let taken = |n: &usize| {
            let slug = format!("wanted{n}");
            store.put_bundle(BundleId::generate(), bundle_draft(&slug), &Precondition::None).is_ok()
        };
        (0..40).filter(taken).collect()
    };
    let mut all: Vec<usize> = std::thread::scope(|scope| {
        let handles: Vec<_> = [&first, &second].map(|store| scope.spawn(move || wins(store))).into();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
}

/// The same for bundles imported with their tools, alongside bundles without.
#[test]
fn an_imported_bundles_name_is_free_for_one_of_many() {
    const NAMES: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let stores = [open(folder.path()), open(folder.path()), open(folder.path())];
    let wins = |number: usize, store: &BundleStore| -> Vec<usize> {
        let taken = |n: &usize| {
            let draft = bundle_draft(&format!("wanted{n}"));
            if number == 0 {
                return store.put_bundle(BundleId::generate(), draft, &Precondition::None).is_ok();
            }
            let tools =
                ["a", "b"].map(|slug| (slug.parse().unwrap(), "v1".parse().unwrap(), tool_draft("does it").into()));
            let plan = ImportPlan { bundle: ImportTarget::New(Box::new(draft)), tools: tools.into() };
            match store.take_in(&plan) {
                Ok(_) => true,
                Err(error) => {
                    assert!(matches!(error, BundleError::Conflict(_)), "{error}");
                    false
                }
            }
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

/// Two servers import the same tools into one bundle: only one succeeds.
#[test]
fn tools_that_are_imported_twice_are_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [open(folder.path()), open(folder.path())];
    let bundle = with_bundle(&stores[0]);
    for round in 0..10 {
        let slug = format!("tool{round}");
        let outcomes: Vec<bool> = std::thread::scope(|scope| {
            let take = |store: &BundleStore| {
                let tools = vec![(slug.parse().unwrap(), "v1".parse().unwrap(), tool_draft("does it").into())];
                store.take_in(&ImportPlan { bundle: ImportTarget::Existing(bundle), tools }).is_ok()
            };
            let handles: Vec<_> = stores.iter().map(|store| scope.spawn(move || take(store))).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|won| **won).count(), 1, "round {round}");
    }
}

#[test]
fn a_name_is_given_once_and_the_first_tool_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let first = put_described(&store, bundle, "weather", "v1", "first").unwrap();
    let error = put_described(&store, bundle, "weather", "v1", "second").unwrap_err();
    assert!(matches!(error, BundleError::Conflict(_)), "{error}");
    assert_eq!(get(&store, bundle, "weather", "v1").unwrap(), first);
    put(&store, bundle, "weather", "v1.1").unwrap();
    put(&store, bundle, "Weather", "v1").unwrap();
    let other = BundleId::generate();
    store.put_bundle(other, bundle_draft("other"), &Precondition::None).unwrap();
    put(&store, other, "weather", "v1").unwrap();
    let file = folder.path().join(bundle.to_string()).join(format!("{}.json", first.tool.id));
    assert!(file.is_file());
}

#[test]
fn a_new_process_finds_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let stored = put(&store, bundle, "weather", "v1").unwrap();
    drop(store);
    assert_eq!(get(&open(folder.path()), bundle, "weather", "v1").unwrap(), stored);
}

#[test]
fn two_stores_race_and_each_name_has_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let second = open(folder.path());
    let bundle = with_bundle(&first);
    let names = 25;
    let wins = |store: &BundleStore| {
        (0..names).filter(|number| put(store, bundle, &format!("tool-{number}"), "v1").is_ok()).count()
    };
    let total: usize = std::thread::scope(|scope| {
        let handles: Vec<_> = [&first, &second, &first].map(|store| scope.spawn(move || wins(store))).into();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert_eq!(total, names);
    assert_eq!(second.tools_of(bundle).unwrap().len(), names);
}

#[test]
fn a_disabled_bundle_changes_nothing_but_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let tool = put(&store, bundle, "weather", "v1").unwrap();
    store.set_bundle_enabled(bundle, Enabled::Off, &Precondition::None).unwrap();
    let name = (&tool.tool.slug, &tool.tool.version);
    assert!(matches!(put(&store, bundle, "x", "v1"), Err(BundleError::Conflict(_))));
    assert!(matches!(
        store.set_tool_enabled(bundle, name, Enabled::Off, &Precondition::None),
        Err(BundleError::Conflict(_))
    ));
    assert!(matches!(store.delete_tool(bundle, name, &Precondition::None), Err(BundleError::Conflict(_))));
    assert_eq!(get(&store, bundle, "weather", "v1").unwrap().disabled_reason.unwrap(), "its bundle is disabled");
    assert!(store.tools(&ToolFilter::default(), 10, None).unwrap().items.is_empty());
    store.set_bundle_enabled(bundle, Enabled::On, &Precondition::None).unwrap();
    store.delete_tool(bundle, name, &Precondition::None).unwrap();
    assert!(matches!(get(&store, bundle, "weather", "v1"), Err(BundleError::NotFound(_))));
}

#[test]
fn a_switch_keeps_modified_at_and_unknown_fields() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let tool = put(&store, bundle, "weather", "v1").unwrap();
    let file = folder.path().join(bundle.to_string()).join(format!("{}.json", tool.tool.id));
    let mut json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    json["fromTheFuture"] = json!([1]);
    fs::write(&file, json.to_string()).unwrap();
    let name = (&tool.tool.slug, &tool.tool.version);
    let stale = Precondition::Matches(vec![tool.etag.clone()]);
    let current = get(&store, bundle, "weather", "v1").unwrap();
    assert_ne!(current.etag, tool.etag, "an edit in place is noticed");
    assert!(matches!(store.set_tool_enabled(bundle, name, Enabled::Off, &stale), Err(BundleError::Changed(_))));
    let fresh = Precondition::Matches(vec![current.etag]);
    let off = store.set_tool_enabled(bundle, name, Enabled::Off, &fresh).unwrap();
    assert_eq!(off.disabled_reason.as_deref(), Some("the tool is disabled"));
    assert_eq!(off.tool.modified_at, tool.tool.modified_at);
    assert!(fs::read_to_string(&file).unwrap().contains("fromTheFuture"));
}

#[test]
fn broken_files_are_set_aside_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    put(&store, bundle, "good", "v1").unwrap();
    drop(store);
    let place = folder.path().join(bundle.to_string());
    let half = place.join(format!("{}.json", ToolId::generate()));
    let young = place.join(format!("{}.json", ToolId::generate()));
    for file in [&half, &young] {
        fs::write(file, "{\"schemaVersion\": \"1\", \"slu").unwrap();
    }
    let foreign = place.join(format!("{}.json", ToolId::generate()));
    fs::write(&foreign, json!({"type": "from-the-future", "impl": {}}).to_string()).unwrap();
    let old = SystemTime::now() - Duration::from_mins(1);
    for file in [&half, &foreign] {
        fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    let store = open(folder.path());
    assert_eq!(store.tools_of(bundle).unwrap().len(), 1);
    assert!(!half.exists(), "a settled broken file is moved");
    assert!(young.exists(), "a file that may be half-saved stays");
    assert!(foreign.exists(), "a file of another build stays");
    assert_eq!(fs::read_dir(folder.path().join("quarantine")).unwrap().count(), 1);
    let problems = store.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().any(|problem| problem.message.contains("set aside")), "{problems:?}");
}

#[test]
fn deletion_is_soft_first_and_put_revives() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let tool = put(&store, bundle, "weather", "v1").unwrap();
    assert!(matches!(store.delete_bundle(bundle, &Precondition::None), Err(BundleError::Conflict(_))));
    store.delete_tool(bundle, (&tool.tool.slug, &tool.tool.version), &Precondition::None).unwrap();
    store.delete_bundle(bundle, &Precondition::None).unwrap();
    assert!(matches!(store.bundle(bundle), Err(BundleError::NotFound(_))));
    assert!(matches!(put(&store, bundle, "weather", "v1"), Err(BundleError::NotFound(_))));
    assert_eq!(store.reap(chrono::Utc::now()).unwrap(), 0, "two days have not passed");
    let (view, written) = store.put_bundle(bundle, bundle_draft("again"), &Precondition::None).unwrap();
    assert_eq!((written, view.bundle.soft_deleted_at), (Written::Created, None));
    store.delete_bundle(bundle, &Precondition::None).unwrap();
    let later = chrono::Utc::now() + chrono::TimeDelta::days(2);
    assert_eq!(store.reap(later).unwrap(), 1);
    assert!(!folder.path().join(bundle.to_string()).exists());
}

#[test]
fn of_a_built_in_only_the_switch_changes_and_it_persists() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_with(folder.path(), Limits::default(), vec![demo_built_in()]);
    let page = store.bundles(&[], Disabled::Shown, 10, None).unwrap();
    let id = page.items[0].bundle.id;
    assert!(page.items[0].bundle.is_built_in);
    let gone = get(&store, id, "gone-by-now", "v1").unwrap();
    assert_eq!(gone.disabled_reason.unwrap(), "the native function demo.gone_by_now is not in this build");
    let read = get(&store, id, "read", "v1").unwrap();
    assert_eq!(read.disabled_reason, None);
    let name = (&read.tool.slug, &read.tool.version);
    assert!(matches!(store.put_bundle(id, bundle_draft("x"), &Precondition::None), Err(BundleError::BuiltIn(_))));
    assert!(matches!(store.delete_bundle(id, &Precondition::None), Err(BundleError::BuiltIn(_))));
    assert!(matches!(store.delete_tool(id, name, &Precondition::None), Err(BundleError::BuiltIn(_))));
    assert!(matches!(put(&store, id, "x", "v1"), Err(BundleError::BuiltIn(_))));
    let off = store.set_tool_enabled(id, name, Enabled::Off, &Precondition::None).unwrap();
    assert_ne!(off.etag, read.etag);
    drop(store);
    let store = open_with(folder.path(), Limits::default(), vec![demo_built_in()]);
    assert!(!get(&store, id, "read", "v1").unwrap().is_callable());
    assert!(!store.is_native_enabled("demo", "read"));
    store.set_bundle_enabled(id, Enabled::Off, &Precondition::None).unwrap();
    assert!(store.bundles(&[], Disabled::Hidden, 10, None).unwrap().items.is_empty());
}

#[test]
fn limits_and_the_check_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bundles: 1, tools: 1, file_bytes: 2000, ..Limits::default() };
    let store = open_with(folder.path(), limits, Vec::new());
    let bundle = with_bundle(&store);
    let another = store.put_bundle(BundleId::generate(), bundle_draft("b"), &Precondition::None);
    assert!(matches!(another, Err(BundleError::Limit(_))));
    assert!(matches!(put_described(&store, bundle, "a", "v1", &"x".repeat(3000)), Err(BundleError::Limit(_))));
    assert!(matches!(put_described(&store, bundle, "a", "v1", "refuse me"), Err(BundleError::Invalid(_))));
    put(&store, bundle, "a", "v1").unwrap();
    assert!(matches!(put(&store, bundle, "b", "v1"), Err(BundleError::Limit(_))));
}

#[test]
fn pages_follow_each_other_and_hold_every_tool_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    for number in 0..7 {
        put(&store, bundle, &format!("tool-{number}"), "v1").unwrap();
    }
    let filter = ToolFilter { tags: vec!["t".to_owned()], ..ToolFilter::default() };
    let mut seen = Vec::new();
    let mut token = None;
    loop {
        let page = store.tools(&filter, 3, token.as_deref()).unwrap();
        seen.extend(page.items.iter().map(|view| view.tool.slug.to_string()));
        match page.next {
            Some(next) => token = Some(next.as_str().to_owned()),
            None => break,
        }
    }
    assert_eq!(seen, ["tool-6", "tool-5", "tool-4", "tool-3", "tool-2", "tool-1", "tool-0"]);
    let wrong = store.tools(&ToolFilter::default(), 3, token.as_deref());
    assert!(matches!(wrong, Err(BundleError::PageToken)));
}

#[test]
fn search_ranks_prefix_then_word_then_near_then_recent() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    put_described(&store, bundle, "storm", "v1", "wether balloons").unwrap();
    put_described(&store, bundle, "forecast", "v1", "the weather of tomorrow").unwrap();
    put_described(&store, bundle, "weatherman", "v1", "talks").unwrap();
    put_described(&store, bundle, "outlook", "v1", "the weather of today").unwrap();
    put_described(&store, bundle, "cooking", "v1", "soup").unwrap();
    let slugs = |size, token: Option<&str>| {
        let page = store.search("weather", Disabled::Hidden, size, token).unwrap();
        let slugs: Vec<String> = page.items.iter().map(|view| view.tool.slug.to_string()).collect();
        (slugs, page.next)
    };
    assert_eq!(slugs(10, None).0, ["weatherman", "outlook", "forecast", "storm"]);
    let (first, next) = slugs(2, None);
    let (second, end) = slugs(2, next.as_ref().map(PageToken::as_str));
    assert_eq!([first, second].concat(), ["weatherman", "outlook", "forecast", "storm"]);
    assert_eq!(end, None);
    let other = store.search("soup", Disabled::Hidden, 2, next.as_ref().map(PageToken::as_str));
    assert!(matches!(other, Err(BundleError::PageToken)));
    let storm = ("storm".parse().unwrap(), "v1".parse().unwrap());
    store.set_tool_enabled(bundle, (&storm.0, &storm.1), Enabled::Off, &Precondition::None).unwrap();
    assert_eq!(slugs(10, None).0, ["weatherman", "outlook", "forecast"]);
    assert_eq!(store.search("weather", Disabled::Shown, 10, None).unwrap().items.len(), 4);
}

#[test]
fn calls_are_counted_aside() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let tool = put(&store, bundle, "weather", "v1").unwrap();
    let other = open(folder.path());
    let at = chrono::Utc::now();
    for _ in 0..3 {
        store.record_call(tool.tool.id, at);
    }
    store.flush_usage().unwrap();
    other.record_call(tool.tool.id, at);
    other.flush_usage().unwrap();
    let seen = get(&other, bundle, "weather", "v1").unwrap();
    assert_eq!(seen.usage, Usage { call_count: 4, last_called_at: Some(at) });
    assert_eq!(seen.etag, tool.etag, "counting changes no tool");
}

#[test]
fn duplicates_made_by_hand_are_reported_and_the_older_answers() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let bundle = with_bundle(&store);
    let older = put(&store, bundle, "weather", "v1").unwrap();
    let place = folder.path().join(bundle.to_string());
    let text = fs::read_to_string(place.join(format!("{}.json", older.tool.id))).unwrap();
    let id = ToolId::generate();
    let copy = place.join(format!("{id}.json"));
    fs::write(&copy, text.replace(&older.tool.id.to_string(), &id.to_string())).unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(get(&store, bundle, "weather", "v1").unwrap().tool.id, older.tool.id);
    assert_eq!(store.problems().len(), 1);
    fs::remove_file(place.join(format!("{}.json", older.tool.id))).unwrap();
    drop(store);
    assert_eq!(get(&open(folder.path()), bundle, "weather", "v1").unwrap().tool.id, id);
}
