use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::*;
use crate::State;
use crate::flat::{FlatFiles, FlatPlaces};
use crate::interface::Claim;

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
        ttl: Duration::from_mins(1),
        tags: Vec::new(),
        client: serde_json::Value::Null,
    }
}

fn created(outcome: Result<Created, RunStoreError>) -> (RunRecord, Claim) {
    match outcome {
        Ok(Created::New(record, Some(claim))) => (record, claim),
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
    let (run, claim) = created(one.create(&new(&mine, "\n  1 + 1\n2"), true, LIMITS));
    assert_eq!((run.title.as_str(), run.status), ("1 + 1", RunStatus::Working));
    assert!(matches!(other.get(&theirs, &run.id), Err(RunStoreError::NotFound)));
    assert!(other.list(&theirs, None, 10).unwrap().runs.is_empty());
    assert_eq!(other.get(&mine, &run.id).unwrap(), run);
    assert_eq!(other.command(&mine, &run.id).unwrap(), "\n  1 + 1\n2");
    assert_eq!(other.reply(&mine, &run.id).unwrap(), None);
    one.finish(&claim, RunStatus::Completed, b"2", LIMITS).unwrap();
    let ended = &other.list(&mine, None, 10).unwrap().runs[0];
    assert_eq!((ended.status, ended.finished_at.is_some()), (RunStatus::Completed, true));
    assert_eq!(other.reply(&mine, &run.id).unwrap().unwrap(), b"2");
    // A run that has ended stays as it is.
    let again = other.finish(&claim, RunStatus::Failed, b"3", LIMITS).unwrap();
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
    let first = created(store.create(&new(&owner, "1"), true, LIMITS));
    let second = created(store.create(&new(&owner, "2"), true, LIMITS));
    let refused = store.create(&new(&owner, "3"), true, LIMITS).unwrap_err();
    assert!(refused.to_string().contains("background.max_active"), "{refused}");
    for (_, claim) in [&first, &second] {
        store.finish(claim, RunStatus::Completed, b"x", LIMITS).unwrap();
    }
    let large = store.finish(&first.1, RunStatus::Completed, &[b'x'; 1001], LIMITS).unwrap_err();
    assert!(large.to_string().contains("background.max_result_mb"), "{large}");
    let mut newest = Vec::new();
    for command in ["3", "4", "5"] {
        let (run, claim) = created(store.create(&new(&owner, command), true, LIMITS));
        store.finish(&claim, RunStatus::Completed, b"x", LIMITS).unwrap();
        newest.insert(0, run.id);
    }
    let page = store.list(&owner, None, 2).unwrap();
    assert_eq!(page.runs.iter().map(|run| &run.id).collect::<Vec<_>>(), newest[..2].iter().collect::<Vec<_>>());
    let rest = store.list(&owner, page.next.as_deref(), 2).unwrap();
    assert_eq!((rest.runs.len(), rest.runs[0].id.clone(), rest.next), (1, newest[2].clone(), None));
    assert!(matches!(store.list(&owner, Some("nonsense"), 2), Err(RunStoreError::Cursor)));
    assert!(matches!(store.get(&owner, &first.0.id), Err(RunStoreError::NotFound)));
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
                scope.spawn(move || matches!(store.create(&run, true, LIMITS).unwrap(), Created::New(_, _)))
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|is_new| **is_new).count(), 1, "{outcomes:?}");
    let other = NewRun { id, ..new(&owner, "2") };
    assert!(matches!(stores[0].create(&other, true, LIMITS), Err(RunStoreError::OtherCommand)));
}

#[test]
fn a_run_that_was_given_back_is_taken_over_and_its_former_process_can_write_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::local();
    let (one, other) = (RunStore::new(&state(folder.path()), "one"), RunStore::new(&state(folder.path()), "other"));
    let (run, claim) = created(one.create(&new(&owner, "1"), true, LIMITS));
    assert!(other.take_next(&[]).unwrap().is_none(), "its process has it");
    one.append(&claim, 0, &["first".to_owned()]).unwrap();
    one.hand_over(&claim).unwrap();
    assert_eq!(other.get(&owner, &run.id).unwrap().status, RunStatus::Queued);
    // A process that released it cannot end it, even before another one takes it.
    assert!(matches!(one.finish(&claim, RunStatus::Cancelled, b"late", LIMITS), Err(RunStoreError::Lost)));
    let taken = other.take_next(&[]).unwrap().unwrap();
    assert_eq!((taken.record.node.as_str(), taken.record.status), ("other", RunStatus::Working));
    assert!(taken.record.fence > run.fence);
    assert_eq!(other.journal(&taken.claim).unwrap(), ["first"]);
    // The former holder finds out that it lost the run.
    assert!(matches!(one.append(&claim, 1, &["late".to_owned()]), Err(RunStoreError::Lost)));
    assert!(matches!(one.finish(&claim, RunStatus::Failed, b"late", LIMITS), Err(RunStoreError::Lost)));
    other.finish(&taken.claim, RunStatus::Completed, b"1", LIMITS).unwrap();
    assert_eq!(one.reply(&owner, &run.id).unwrap().unwrap(), b"1");

    let brief = NewRun { ttl: Duration::ZERO, ..new(&owner, "2") };
    let (brief, claim) = created(one.create(&brief, true, LIMITS));
    assert_eq!(one.sweep().unwrap(), 0, "it has not ended");
    one.finish(&claim, RunStatus::Completed, b"2", LIMITS).unwrap();
    assert_eq!(one.sweep().unwrap(), 1);
    assert!(matches!(other.get(&owner, &brief.id), Err(RunStoreError::NotFound)));
}

#[test]
fn a_run_that_was_interrupted_is_resumed_or_abandoned_and_a_cancelled_one_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::local();
    let store = RunStore::new(&state(folder.path()), "one");
    let (run, claim) = created(store.create(&new(&owner, "1"), true, LIMITS));
    assert!(matches!(store.reopen(&owner, &run.id), Err(RunStoreError::NotInterrupted("working"))));
    let ended = store.interrupt(&claim, "why", CallReport::default()).unwrap();
    assert_eq!((ended.status, ended.finished_at.is_some()), (RunStatus::Interrupted, true));
    assert!(store.take_next(&[]).unwrap().is_none(), "nobody goes on by himself");
    let again = store.reopen(&owner, &run.id).unwrap();
    assert_eq!((again.record.status, again.record.finished_at), (RunStatus::Working, None));
    store.interrupt(&again.claim, "why", CallReport::default()).unwrap();
    assert_eq!(store.abandon(&owner, &run.id).unwrap().status, RunStatus::Cancelled);
    assert!(matches!(store.reopen(&owner, &run.id), Err(RunStoreError::NotInterrupted("cancelled"))));

    let (run, claim) = created(store.create(&new(&owner, "2"), true, LIMITS));
    store.cancel(&owner, &run.id).unwrap();
    assert_eq!(store.renew(std::slice::from_ref(&claim)).unwrap(), [claim.job.clone()]);
    // A run with tags that no one here has waits; so does one for which there is no capacity here.
    let tagged = NewRun { tags: vec!["gpu".to_owned()], ..new(&owner, "3") };
    assert!(
        matches!(store.create(&tagged, false, LIMITS).unwrap(), Created::New(record, None) if record.status == RunStatus::Queued)
    );
    assert!(store.take_next(&["cpu".to_owned()]).unwrap().is_none());
    assert_eq!(store.take_next(&["gpu".to_owned()]).unwrap().unwrap().record.id, tagged.id);
}

#[test]
fn a_permission_is_decided_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = ApprovalStore::new(&state(folder.path()));
    let run = RunId::random();
    let asked = ApprovalRecord {
        id: "a1".to_owned(),
        owner: Owner::local(),
        run: run.clone(),
        tool: "p.f".to_owned(),
        arguments: String::new(),
        hash: "h".to_owned(),
        nth: 0,
        at: Utc::now(),
        expires_at: Utc::now(),
        live: None,
        verdict: None,
    };
    store.ask(&asked).unwrap();
    let yes = Verdict::new(true, "me");
    assert_eq!(store.decide("a1", &yes).unwrap().unwrap().verdict, Some(yes.clone()));
    assert_eq!(store.decide("a1", &Verdict { is_allowed: false, ..yes }).unwrap(), None);
    assert!(store.of(&Owner::local(), &run).unwrap()[0].verdict.as_ref().unwrap().is_allowed);
    store.forget(&Owner::local(), &run).unwrap();
    assert_eq!((store.list().unwrap(), store.get("../x").unwrap()), (Vec::new(), None));
}
