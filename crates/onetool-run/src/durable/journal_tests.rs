use std::sync::Arc;

use chrono::Utc;
use onetool_state::State;
use onetool_state::flat::{FlatFiles, FlatPlaces};
use onetool_state::runs::{Created, NewRun, Owner, RunId, RunLimits, RunOrigin, Taken};

use super::*;

const ROOM: usize = 1 << 20;

const LIMITS: RunLimits = RunLimits { active: 9, kept: 9, reply_bytes: 1000 };

struct Place {
    _folder: tempfile::TempDir,
    store: RunStore,
    taken: Taken,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let state: State = Arc::new(FlatFiles::new(FlatPlaces::standard(folder.path())));
    let store = RunStore::new(&state, "one");
    let new = NewRun {
        id: RunId::random(),
        owner: Owner::local(),
        command: "1".to_owned(),
        origin: RunOrigin::Rest,
        created_at: Utc::now(),
        ttl: Duration::from_mins(1),
        tags: Vec::new(),
        client: serde_json::Value::Null,
    };
    let Created::New(record, Some(claim)) = store.create(&new, true, LIMITS).unwrap() else { panic!("it is held") };
    Place { _folder: folder, store, taken: Taken { record, claim } }
}

fn name(tool: &str) -> QualifiedName {
    QualifiedName::new("p", tool)
}

fn one(text: &str) -> Arguments {
    Arguments { positional: vec![Value::from(text)], ..Arguments::default() }
}

/// Makes a call as the call path does; returns whether it was actually made.
async fn call(journal: &Journal, tool: &str, text: &str, effect: Effect) -> Result<(Value, bool), ToolError> {
    match journal.recall(&name(tool), None, &one(text), effect)? {
        Recall::Known(outcome) => outcome.map(|value| (value, false)),
        Recall::New(made) => {
            journal.begin(&name(tool), &made, String::new()).await?;
            let value = Value::Str(format!("{tool}:{text}"));
            journal.end(&name(tool), &made, &Ok(value.clone())).await?;
            Ok((value, true))
        }
    }
}

fn again(place: &Place) -> Journal {
    let lines = place.store.journal(&place.taken.claim).unwrap();
    Journal::read("run", &lines, &[], ROOM, CancellationToken::new()).unwrap()
}

#[tokio::test]
async fn calls_with_a_known_outcome_are_not_made_again_and_reads_cost_no_line_of_their_own() {
    let place = place();
    let journal = Journal::new("run", ROOM, CancellationToken::new());
    journal.attach(&place.store, &place.taken.claim).await.unwrap();
    let now = journal.now();
    call(&journal, "read", "a", Effect::ReadOnly).await.unwrap();
    assert_eq!(place.store.journal(&place.taken.claim).unwrap().len(), 0, "nothing is written for a read");
    call(&journal, "send", "a", Effect::Unknown).await.unwrap();
    call(&journal, "send", "b", Effect::Unknown).await.unwrap();
    call(&journal, "read", "b", Effect::ReadOnly).await.unwrap();

    let journal = again(&place);
    assert!(journal.trouble().is_none() && journal.is_continued() && journal.is_repeating());
    assert_eq!(journal.now(), now, "the clock says the same");
    // In another order, as concurrent calls may be.
    assert!(!call(&journal, "send", "b", Effect::Unknown).await.unwrap().1);
    assert!(!call(&journal, "read", "a", Effect::ReadOnly).await.unwrap().1);
    assert_eq!(call(&journal, "send", "a", Effect::Unknown).await.unwrap(), (Value::from("send:a"), false));
    assert!(!journal.is_repeating(), "all that was recorded has been asked for");
    assert!(call(&journal, "read", "b", Effect::ReadOnly).await.unwrap().1, "what was not written is read again");
    assert!(call(&journal, "send", "a", Effect::Unknown).await.unwrap().1, "a second one is another call");
    assert!(matches!(journal.fate(), JournalState::Running));
    assert_eq!(journal.seed(), Journal::new("run", ROOM, CancellationToken::new()).seed());
}

#[tokio::test]
async fn a_call_without_an_outcome_is_unknown_until_somebody_decides() {
    let place = place();
    let journal = Journal::new("run", ROOM, CancellationToken::new());
    journal.attach(&place.store, &place.taken.claim).await.unwrap();
    call(&journal, "send", "a", Effect::Unknown).await.unwrap();
    let Recall::New(begun) = journal.recall(&name("send"), None, &one("b"), Effect::Unknown).unwrap() else {
        panic!("it is new")
    };
    journal.begin(&name("send"), &begun, "{\"0\": \"b\"}".to_owned()).await.unwrap();
    // The process ends here.
    let (reason, report) = again(&place).trouble().unwrap();
    assert!(reason.contains("p.send"), "{reason}");
    assert_eq!((report.done.len(), report.unknown.len()), (1, 1));
    assert_eq!(report.unknown[0].arguments, "{\"0\": \"b\"}");

    for (unknown, is_made) in [(Unknown::Repeat, true), (Unknown::Raise, false)] {
        let mut lines = place.store.journal(&place.taken.claim).unwrap();
        let decided = Line::Again { calls: again(&place).unanswered(), unknown };
        lines.push(serde_json::to_string(&decided).unwrap());
        let journal = Journal::read("run", &lines, &[], ROOM, CancellationToken::new()).unwrap();
        assert!(journal.trouble().is_none());
        assert!(!call(&journal, "send", "a", Effect::Unknown).await.unwrap().1);
        match call(&journal, "send", "b", Effect::Unknown).await {
            Ok((_, made)) => assert!(made && is_made),
            Err(error) => assert!(!is_made && error.message.contains("nobody knows"), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn code_that_goes_another_way_is_stopped_before_it_does_anything() {
    let place = place();
    let journal = Journal::new("run", ROOM, CancellationToken::new());
    journal.attach(&place.store, &place.taken.claim).await.unwrap();
    call(&journal, "send", "a", Effect::Unknown).await.unwrap();
    let journal = again(&place);
    assert!(call(&journal, "read", "z", Effect::ReadOnly).await.unwrap().1, "a read does no harm");
    call(&journal, "send", "z", Effect::Unknown).await.unwrap_err();
    assert!(journal.stop().is_cancelled());
    let JournalState::Strayed(how) = journal.fate() else { panic!("it strayed") };
    assert!(how.contains("p.send") && how.contains('z'), "{how}");
    // Code that leaves out an earlier call strays as well.
    let journal = again(&place);
    assert!(matches!(journal.fate(), JournalState::Strayed(_)));
}

#[tokio::test]
async fn whoever_lost_the_run_makes_no_further_call() {
    let place = place();
    let journal = Journal::new("run", ROOM, CancellationToken::new());
    journal.attach(&place.store, &place.taken.claim).await.unwrap();
    place.store.hand_over(&place.taken.claim).unwrap();
    place.store.take_next(&[]).unwrap().unwrap();
    let error = call(&journal, "send", "a", Effect::Unknown).await.unwrap_err();
    assert!(error.message.contains("another server"), "{error:?}");
    assert!(matches!(journal.fate(), JournalState::Lost) && journal.stop().is_cancelled());
}

#[tokio::test]
async fn an_outcome_for_which_there_is_no_room_stops_the_second_run() {
    let place = place();
    let journal = Journal::new("run", 10, CancellationToken::new());
    journal.attach(&place.store, &place.taken.claim).await.unwrap();
    call(&journal, "send", "a", Effect::Unknown).await.unwrap();
    let journal = again(&place);
    call(&journal, "send", "a", Effect::Unknown).await.unwrap_err();
    let JournalState::Strayed(how) = journal.fate() else { panic!("it cannot go on") };
    assert!(how.contains("too large"), "{how}");
    // Somebody decides: the code gets an error, or the call is repeated.
    let mut lines = place.store.journal(&place.taken.claim).unwrap();
    let number = again(&place).unanswered();
    assert_eq!(number.len(), 1);
    for (unknown, is_made) in [(Unknown::Raise, false), (Unknown::Repeat, true)] {
        lines.push(serde_json::to_string(&Line::Again { calls: number.clone(), unknown }).unwrap());
        let journal = Journal::read("run", &lines, &[], ROOM, CancellationToken::new()).unwrap();
        match call(&journal, "send", "a", Effect::Unknown).await {
            Ok((_, made)) => assert!(is_made && made),
            Err(error) => assert!(!is_made && error.message.contains("took place"), "{error:?}"),
        }
        assert!(matches!(journal.fate(), JournalState::Running));
    }
}
