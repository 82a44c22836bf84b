//! Several processes at once. The children are the same test binary; a variable selects their role.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::Open;
use super::documents::{TESTED as DOCUMENTS, anything, key};
use super::trail::lines;
use crate::interface::{Condition, Cursor, Effort, Expect, Guard, Position, Rate, State, StateError};

/// The variable that selects a child's role.
pub const ROLE: &str = "ONETOOL_CONTRACT_ROLE";

const CHILDREN: usize = 3;
const ROUNDS: usize = 60;
/// Number of tokens for all children together.
const TOKENS: u32 = 50;

/// Plays the role of a child, if this process is one. Returns whether it is.
pub async fn play(open: Open<'_>) -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let state = open();
    for round in 0..ROUNDS {
        increment(&state, "process/counter").await;
        if claim(&state, &format!("claims/name-{round}")).await {
            println!("\nwon {round}");
        }
        state.trail().append(super::trail::TESTED, &[format!("{{\"by\":\"{role}\",\"n\":{round}}}")]).await.unwrap();
        let rate = Rate { burst: TOKENS, period: Duration::from_hours(1000) };
        let granted = state.limits().take("processes", 2, rate).await.unwrap();
        println!("\ntook {}", granted.tokens);
    }
    // Mutual exclusion: the holder of the lease reads and writes without any condition.
    for _ in 0..ROUNDS / 6 {
        let leases = state.leases();
        let lease = loop {
            if let Some(lease) = leases.acquire("process", &role, Duration::from_mins(1)).await.unwrap() {
                break lease;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        let documents = state.documents();
        let counter = key("process/unguarded");
        let found = documents.get(DOCUMENTS, &counter).await.unwrap();
        let count = found.map_or(0, |found| String::from_utf8(found.content).unwrap().parse::<usize>().unwrap());
        documents.put(DOCUMENTS, &counter, (count + 1).to_string().as_bytes(), &anything()).await.unwrap();
        println!("\nfence {}", lease.fence);
        leases.release(&lease).await.unwrap();
    }
    true
}

/// Increments a counter, by compare-and-swap.
async fn increment(state: &State, name: &str) {
    let (documents, counter) = (state.documents(), key(name));
    loop {
        let found = documents.get(DOCUMENTS, &counter).await.unwrap();
        let expect = found.as_ref().map_or(Expect::Absent, |found| Expect::Revision(found.revision.clone()));
        let count = found.map_or(0, |found| String::from_utf8(found.content).unwrap().parse::<usize>().unwrap());
        match documents.put(DOCUMENTS, &counter, (count + 1).to_string().as_bytes(), &expect.into()).await {
            Ok(_) => return,
            Err(StateError::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Claims a name, by a rule over a snapshot: no one else may have it.
async fn claim(state: &State, name: &str) -> bool {
    let documents = state.documents();
    loop {
        let seen = documents.changes(DOCUMENTS, Cursor::START, Effort::Usual).await.unwrap();
        let is_taken = seen.changes.iter().any(|change| match change {
            crate::interface::Change::Put(document) => document.content == name.as_bytes(),
            _ => false,
        });
        if is_taken {
            return false;
        }
        // The key differs from claim to claim: only the guard keeps the name unique.
        let own = key(&format!("claims/{}", uuid::Uuid::now_v7().simple()));
        let guard = Guard { prefix: "claims/".to_owned(), seen: seen.cursor };
        let condition = Condition { expect: Expect::Absent, guard: Some(guard) };
        match documents.put(DOCUMENTS, &own, name.as_bytes(), &condition).await {
            Ok(_) => return true,
            Err(StateError::Stale(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts children with `command`, which must call [`play`], and checks their combined effects.
pub async fn check_processes(open: Open<'_>, command: &dyn Fn() -> Command) {
    let children: Vec<_> = (0..CHILDREN)
        .map(|number| {
            let mut command = command();
            command.env(ROLE, format!("child-{number}")).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            std::thread::spawn(move || child.wait_with_output().unwrap())
        })
        .collect();
    let mut said = String::new();
    for child in children {
        let output = child.join().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        said.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let numbers = |prefix: &str| -> Vec<u64> {
        said.lines().filter_map(|line| line.strip_prefix(prefix)?.trim().parse().ok()).collect()
    };
    let state = open();
    let counter = state.documents().get(DOCUMENTS, &key("process/counter")).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(counter.content).unwrap(), (CHILDREN * ROUNDS).to_string(), "no increment is lost");
    let mut won = numbers("won ");
    won.sort_unstable();
    assert_eq!(won, (0..ROUNDS as u64).collect::<Vec<_>>(), "every name has exactly one winner");
    let took: u64 = numbers("took ").iter().sum();
    assert_eq!(took, u64::from(TOKENS), "all tokens are given, and no more");
    let unguarded = state.documents().get(DOCUMENTS, &key("process/unguarded")).await.unwrap().unwrap();
    let expected = CHILDREN * (ROUNDS / 6);
    assert_eq!(String::from_utf8(unguarded.content).unwrap(), expected.to_string(), "one holder at a time");
    let mut fences = numbers("fence ");
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), expected, "every holder has a fence of its own");
    let trail = state.trail();
    let (mut seen, _) = lines(&*trail, Position::default()).await;
    seen.retain(|line| line.contains("child-"));
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((count, seen.len()), (CHILDREN * ROUNDS, CHILDREN * ROUNDS), "every line is there once");
}
