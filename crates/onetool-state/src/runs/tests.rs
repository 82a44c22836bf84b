use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::*;
use crate::State;
use crate::flat::{FlatFiles, FlatPlaces};

const LIMITS: RunLimits = RunLimits { active: 2, kept: 3, reply_bytes: 1000 };

fn state(folder: &Path) -> State {
    Arc::new(FlatFiles::new(FlatPlaces::standard(folder)))
}

fn new(owner: &Owner, command: &str) -> NewRun {
    NewRun {
        id: RunId::random(),
        owner: owner.clone(),
        command: command.to_owned(),
        origin: RunOrigin::Rest,
        created_at: Utc::now(),
        ttl: Duration::from_secs(60),
    }
}

fn created(outcome: Result<Created, RunStoreError>) -> RunRecord {
    match outcome {
        Ok(Created::New(record)) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_known_to_its_owner_alone_and_to_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (RunStore::new(&state(folder.path()), "one"), RunStore::new(&state(folder.path()), "other"));
    let (mine, theirs) = (one.owner(7).unwrap(), one.owner(8).unwrap());
    assert_eq!(other.owner(7).unwrap(), mine);
    assert_ne!(mine, theirs);
    let run = created(one.create(&new(&mine, "\n  1 + 1\n2"), LIMITS));
    assert_eq!((run.title.as_str(), run.status), ("1 + 1", RunStatus::Working));
    assert!(matches!(other.get(&theirs, &run.id), Err(RunStoreError::NotFound)));
    assert!(other.list(&theirs, None, 10).unwrap().runs.is_empty());
    assert_eq!(other.get(&mine, &run.id).unwrap(), run);
    assert_eq!(other.command(&mine, &run.id).unwrap(), "\n  1 + 1\n2");
    assert_eq!(other.reply(&mine, &run.id).unwrap(), None);
    one.finish((&mine, &run.id), RunStatus::Completed, b"2", LIMITS).unwrap();
    let ended = &other.list(&mine, None, 10).unwrap().runs[0];
    assert_eq!((ended.status, ended.finished_at.is_some()), (RunStatus::Completed, true));
    assert_eq!(other.reply(&mine, &run.id).unwrap().unwrap(), b"2");
    // What has ended stays as it is.
    let again = other.finish((&mine, &run.id), RunStatus::Failed, b"3", LIMITS).unwrap();
    assert_eq!(again.status, RunStatus::Completed);
    other.remove(&mine, &run.id).unwrap();
    assert!(one.list(&mine, None, 10).unwrap().runs.is_empty());
    assert_eq!(one.reply(&mine, &run.id).unwrap(), None);
}

#[test]
fn the_number_of_runs_is_bounded_and_the_oldest_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(&state(folder.path()), "one");
    let owner = Owner::local();
    let first = created(store.create(&new(&owner, "1"), LIMITS));
    let second = created(store.create(&new(&owner, "2"), LIMITS));
    let refused = store.create(&new(&owner, "3"), LIMITS).unwrap_err();
    assert!(refused.to_string().contains("background.max_active"), "{refused}");
    for run in [&first, &second] {
        store.finish((&owner, &run.id), RunStatus::Completed, b"x", LIMITS).unwrap();
    }
    let large = store.finish((&owner, &first.id), RunStatus::Completed, &[b'x'; 1001], LIMITS).unwrap_err();
    assert!(large.to_string().contains("background.max_result_mb"), "{large}");
    let mut newest = Vec::new();
    for command in ["3", "4", "5"] {
        let run = created(store.create(&new(&owner, command), LIMITS));
        store.finish((&owner, &run.id), RunStatus::Completed, b"x", LIMITS).unwrap();
        newest.insert(0, run.id);
    }
    let page = store.list(&owner, None, 2).unwrap();
    assert_eq!(page.runs.iter().map(|run| &run.id).collect::<Vec<_>>(), newest[..2].iter().collect::<Vec<_>>());
    let rest = store.list(&owner, page.next.as_deref(), 2).unwrap();
    assert_eq!((rest.runs.len(), rest.runs[0].id.clone(), rest.next), (1, newest[2].clone(), None));
    assert!(matches!(store.list(&owner, Some("nonsense"), 2), Err(RunStoreError::Cursor)));
    assert!(matches!(store.get(&owner, &first.id), Err(RunStoreError::NotFound)));
}

#[test]
fn a_key_leads_to_one_run_whoever_asks_first() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::local();
    let id = RunId::of_key(&owner, "order-17");
    assert_ne!(id, RunId::of_key(&owner, "order-18"));
    let stores: Vec<RunStore> =
        (0..4).map(|number| RunStore::new(&state(folder.path()), &format!("node{number}"))).collect();
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let starts: Vec<_> = stores
            .iter()
            .map(|store| {
                let run = NewRun { id: id.clone(), ..new(&owner, "1") };
                scope.spawn(move || matches!(store.create(&run, LIMITS).unwrap(), Created::New(_)))
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|is_new| **is_new).count(), 1, "{outcomes:?}");
    let other = NewRun { id, ..new(&owner, "2") };
    assert!(matches!(stores[0].create(&other, LIMITS), Err(RunStoreError::OtherCommand)));
}

#[test]
fn a_run_whose_process_ended_is_interrupted_and_one_that_expired_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::local();
    let one = RunStore::new(&state(folder.path()), "one");
    let run = created(one.create(&new(&owner, "1"), LIMITS));
    let other = RunStore::new(&state(folder.path()), "other");
    assert_eq!(other.get(&owner, &run.id).unwrap().status, RunStatus::Working, "its process lives");
    one.leave();
    // A store that has not asked before does not believe that it still lives.
    let third = RunStore::new(&state(folder.path()), "third");
    let ended = third.get(&owner, &run.id).unwrap();
    assert_eq!(ended.status, RunStatus::Failed);
    assert!(ended.message.unwrap().starts_with("interrupted"), "says why");
    // The one who ran it finds out that it lost it.
    assert_eq!(one.finish((&owner, &run.id), RunStatus::Completed, b"1", LIMITS).unwrap().status, RunStatus::Failed);

    let brief = NewRun { ttl: Duration::ZERO, ..new(&owner, "2") };
    let brief = created(one.create(&brief, LIMITS));
    assert_eq!(one.sweep().unwrap(), 0, "it has not ended");
    one.finish((&owner, &brief.id), RunStatus::Completed, b"2", LIMITS).unwrap();
    assert_eq!(one.sweep().unwrap(), 1);
    assert!(matches!(other.get(&owner, &brief.id), Err(RunStoreError::NotFound)));
}
