//! Jobs: one holder at a time, fences, tags, journals.

use std::time::Duration;

use super::Open;
use crate::interface::{Holder, Key, Rest, StateError};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(30);

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn by(node: &str, ttl: Duration) -> Holder<'_> {
    Holder { node, ttl }
}

pub(super) async fn check(open: Open<'_>) {
    let (one, other) = (open().jobs(), open().jobs());
    assert_eq!(one.claim(by("n1", LONG), &[]).await.unwrap(), None, "there is nothing to do");
    let (first, second, held) = (key("me/first"), key("me/second"), key("me/held"));

    // Held by one node from the start.
    let mine = one.submit(&held, &[], Some(by("n1", LONG))).await.unwrap().unwrap();
    assert_eq!(other.submit(&held, &[], Some(by("n2", LONG))).await.unwrap(), None, "there is one of that name");
    assert_eq!(other.claim(by("n2", LONG), &[]).await.unwrap(), None);
    assert_eq!(other.claim_one(&held, by("n2", LONG)).await.unwrap(), None);
    assert_eq!(other.state(&held).await.unwrap().unwrap().node.as_deref(), Some("n1"));
    assert_eq!(other.state(&key("me/none")).await.unwrap(), None);

    // The journal is read in order; lines that are written twice are stored once.
    one.append(&mine, 0, &texts(&["a", "b"])).await.unwrap();
    one.append(&mine, 1, &texts(&["b", "c"])).await.unwrap();
    assert_eq!(other.journal(&held).await.unwrap(), texts(&["a", "b", "c"]));
    assert_eq!(other.journal(&first).await.unwrap(), texts(&[]));

    // Waiting jobs are claimed in order, and only with matching tags.
    one.submit(&first, &texts(&["gpu"]), None).await.unwrap();
    one.submit(&second, &[], None).await.unwrap();
    let backlog = one.backlog().await.unwrap();
    assert_eq!((backlog.jobs, backlog.by_tag), (2, vec![("gpu".to_owned(), 1)]));
    assert!(backlog.oldest.is_some_and(|oldest| oldest < LONG), "{:?}", backlog.oldest);
    let plain = other.claim(by("n2", SHORT), &texts(&["cpu"])).await.unwrap().unwrap();
    assert_eq!(plain.job, second);
    let tagged = other.claim(by("n2", LONG), &texts(&["cpu", "gpu"])).await.unwrap().unwrap();
    assert_eq!(tagged.job, first);

    // An expired hold: the job is claimed with a higher fence, and its former holder can no longer write.
    let taken = loop {
        if let Some(claim) = one.claim(by("n1", LONG), &[]).await.unwrap() {
            break claim;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(taken.job, second);
    assert!(taken.fence > plain.fence, "{taken:?} after {plain:?}");
    let late = other.append(&plain, 0, &texts(&["late"])).await;
    assert!(matches!(late, Err(StateError::LeaseLost(_))), "{late:?}");
    assert!(matches!(other.release(&plain, Rest::Waiting).await, Err(StateError::LeaseLost(_))));
    assert_eq!(other.renew(&[plain.clone(), tagged.clone()], LONG).await.unwrap(), [second.clone()]);
    assert_eq!(one.renew(std::slice::from_ref(&taken), LONG).await.unwrap(), []);
    one.append(&taken, 0, &texts(&["mine"])).await.unwrap();
    assert_eq!(one.journal(&second).await.unwrap(), texts(&["mine"]));

    // A released job waits; a parked one, until it is woken or claimed by name.
    one.release(&taken, Rest::Waiting).await.unwrap();
    assert!(matches!(one.append(&taken, 1, &texts(&["x"])).await, Err(StateError::LeaseLost(_))));
    let again = other.claim(by("n2", LONG), &[]).await.unwrap().unwrap();
    assert!(again.job == second && again.fence > taken.fence);
    other.release(&again, Rest::Parked).await.unwrap();
    assert!(one.state(&second).await.unwrap().unwrap().is_parked);
    assert_eq!(one.claim(by("n1", LONG), &[]).await.unwrap(), None);
    assert!(one.wake(&second).await.unwrap());
    let woken = one.claim(by("n1", LONG), &[]).await.unwrap().unwrap();
    one.release(&woken, Rest::Parked).await.unwrap();
    let named = other.claim_one(&second, by("n2", LONG)).await.unwrap().unwrap();
    assert!(named.fence > woken.fence);
    assert_eq!(other.journal(&second).await.unwrap(), texts(&["mine"]), "its journal stays");

    // A removed job is gone for its holder too.
    one.remove(&second).await.unwrap();
    assert!(matches!(other.append(&named, 1, &texts(&["x"])).await, Err(StateError::LeaseLost(_))));
    assert!(!one.wake(&second).await.unwrap());
    assert_eq!(one.journal(&second).await.unwrap(), texts(&[]));
    let mut left: Vec<String> = one.list().await.unwrap().into_iter().map(|(key, _)| key.to_string()).collect();
    left.sort();
    assert_eq!(left, ["me/first", "me/held"]);
    for job in [&first, &held] {
        one.remove(job).await.unwrap();
    }

    // Many concurrent claims: each job is claimed once.
    for number in 0..20 {
        one.submit(&key(&format!("many/{number}")), &[], None).await.unwrap();
    }
    let takers: Vec<_> = (0..4)
        .map(|number| {
            let jobs = open().jobs();
            tokio::spawn(async move {
                let node = format!("n{number}");
                let mut taken = Vec::new();
                while let Some(claim) = jobs.claim(by(&node, LONG), &[]).await.unwrap() {
                    taken.push(claim.job);
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.unwrap());
    }
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 20, "each one once");
    for job in taken {
        one.remove(&job).await.unwrap();
    }
}
