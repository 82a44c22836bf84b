//! Documents: compare-and-swap, guards, the feed.

use std::collections::BTreeMap;

use super::Open;
use crate::interface::{
    Change, Changes, Collection, Condition, Cursor, Documents, Effort, Expect, Guard, Key, Revision, StateError,
};

pub(super) const TESTED: Collection = Collection::BUNDLES;

pub(super) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

pub(super) fn anything() -> Condition {
    Expect::Anything.into()
}

/// The content of all documents in the changes, and the removed keys.
fn contents(changes: &Changes) -> (BTreeMap<String, String>, Vec<String>) {
    let mut there = BTreeMap::new();
    let mut gone = Vec::new();
    for change in &changes.changes {
        match change {
            Change::Put(document) => {
                let content = String::from_utf8(document.content.clone()).unwrap();
                assert!(there.insert(document.key.to_string(), content).is_none(), "{} is there twice", document.key);
            }
            Change::Gone(key) => gone.push(key.to_string()),
            Change::Unreadable { place, reason, .. } => panic!("{place}: {reason}"),
        }
    }
    gone.sort();
    (there, gone)
}

async fn changes(documents: &dyn Documents, since: Cursor) -> Changes {
    documents.changes(TESTED, since, Effort::Usual).await.unwrap()
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, content)| (key.to_owned(), content.to_owned())).collect()
}

pub(super) async fn check(open: Open<'_>) {
    let (one, other) = (open().documents(), open().documents());
    swaps(&*one, &*other).await;
    guards(&*one, &*other).await;
    all_or_none(&*one, &*other).await;
    feed(&*one, &*other).await;
    collections_are_apart(&*one).await;
    bytes_come_back(&*one).await;
}

async fn swaps(one: &dyn Documents, other: &dyn Documents) {
    let swap = key("swaps/a");
    assert_eq!(one.get(TESTED, &swap).await.unwrap(), None);
    let first = one.put(TESTED, &swap, b"1", &Expect::Absent.into()).await.unwrap();
    let seen = other.get(TESTED, &swap).await.unwrap().unwrap();
    assert_eq!((seen.content.as_slice(), &seen.revision, &seen.key), (&b"1"[..], &first, &swap));
    let again = other.put(TESTED, &swap, b"2", &Expect::Absent.into()).await;
    assert!(matches!(again, Err(StateError::Conflict(_))), "{again:?}");
    let second = other.put(TESTED, &swap, b"2", &Expect::Revision(first.clone()).into()).await.unwrap();
    let late = one.put(TESTED, &swap, b"3", &Expect::Revision(first.clone()).into()).await;
    assert!(matches!(late, Err(StateError::Conflict(_))), "{late:?}");
    let late = one.delete(TESTED, &swap, &Expect::Revision(first).into()).await;
    assert!(matches!(late, Err(StateError::Conflict(_))), "{late:?}");
    assert_eq!(one.get(TESTED, &swap).await.unwrap().unwrap().content, b"2");
    one.delete(TESTED, &swap, &Expect::Revision(second.clone()).into()).await.unwrap();
    assert_eq!(other.get(TESTED, &swap).await.unwrap(), None);
    let gone = other.put(TESTED, &swap, b"3", &Expect::Revision(second).into()).await;
    assert!(matches!(gone, Err(StateError::Conflict(_))), "{gone:?}");
    one.delete(TESTED, &swap, &anything()).await.unwrap();
    for text in ["", "/", "a/", "/a", "a/b/c", "../a", "a/..", ".a", "a b", "ä", &"x".repeat(101)] {
        assert!(text.parse::<Key>().is_err(), "{text:?} must not be a key");
    }
}

async fn guards(one: &dyn Documents, other: &dyn Documents) {
    let guarded = |prefix: &str, seen| Condition {
        expect: Expect::Absent,
        guard: Some(Guard { prefix: prefix.to_owned(), seen }),
    };
    one.put(TESTED, &key("guard/a"), b"a", &anything()).await.unwrap();
    let mine = changes(one, Cursor::START).await.cursor;
    let theirs = changes(other, Cursor::START).await.cursor;
    other.put(TESTED, &key("guard/b"), b"b", &guarded("guard/", theirs)).await.unwrap();
    let stale = one.put(TESTED, &key("guard/c"), b"c", &guarded("guard/", mine)).await;
    assert!(matches!(stale, Err(StateError::Stale(_))), "{stale:?}");
    assert_eq!(one.get(TESTED, &key("guard/c")).await.unwrap(), None, "what is refused is not written");
    // Changes outside the prefix do not matter.
    one.put(TESTED, &key("elsewhere/c"), b"c", &guarded("elsewhere/", mine)).await.unwrap();
    let mine = changes(one, mine).await.cursor;
    one.put(TESTED, &key("guard/c"), b"c", &guarded("guard/", mine)).await.unwrap();
    let mine = changes(one, mine).await.cursor;
    other.delete(TESTED, &key("guard/b"), &anything()).await.unwrap();
    let stale = one.put(TESTED, &key("guard/d"), b"d", &guarded("guard/", mine)).await;
    assert!(matches!(stale, Err(StateError::Stale(_))), "a removal is a change too: {stale:?}");
    let stale = one.delete(TESTED, &key("guard/a"), &guarded("guard/", mine)).await;
    assert!(matches!(stale, Err(StateError::Stale(_))), "{stale:?}");
    let stale = one.put(TESTED, &key("other"), b"d", &guarded("", mine)).await;
    assert!(matches!(stale, Err(StateError::Stale(_))), "an empty prefix is everything: {stale:?}");
    for name in ["guard/a", "guard/c", "elsewhere/c"] {
        one.delete(TESTED, &key(name), &anything()).await.unwrap();
    }
}

async fn all_or_none(one: &dyn Documents, other: &dyn Documents) {
    let before = changes(other, Cursor::START).await.cursor;
    let several = |names: &[&str]| -> Vec<(Key, Vec<u8>)> {
        names.iter().map(|name| (key(name), name.as_bytes().to_vec())).collect()
    };
    one.create_all(TESTED, &[], None).await.unwrap();
    one.create_all(TESTED, &several(&["all/a", "all/b", "all-c"]), None).await.unwrap();
    let seen = changes(other, before).await;
    assert_eq!(contents(&seen), (map([("all/a", "all/a"), ("all/b", "all/b"), ("all-c", "all-c")]), vec![]));
    let conflict = other.create_all(TESTED, &several(&["all/d", "all/a", "all/e"]), None).await;
    assert!(matches!(conflict, Err(StateError::Conflict(_))), "{conflict:?}");
    assert_eq!(one.get(TESTED, &key("all/d")).await.unwrap(), None);
    // A guard covers all of them.
    for (prefix, is_stale) in [("all/", true), ("", true), ("elsewhere/", false)] {
        let guard = Guard { prefix: prefix.to_owned(), seen: before };
        let outcome = other.create_all(TESTED, &several(&["all/f", "all/g"]), Some(&guard)).await;
        assert_eq!(matches!(outcome, Err(StateError::Stale(_))), is_stale, "{prefix}: {outcome:?}");
        assert_eq!(one.get(TESTED, &key("all/g")).await.unwrap().is_none(), is_stale, "{prefix}");
    }
    let now = changes(other, Cursor::START).await.cursor;
    let guard = Guard { prefix: String::new(), seen: now };
    other.create_all(TESTED, &several(&["all/h", "all/i"]), Some(&guard)).await.unwrap();
    for name in ["all/f", "all/g", "all/h", "all/i"] {
        one.delete(TESTED, &key(name), &anything()).await.unwrap();
    }
    assert!(
        changes(one, seen.cursor)
            .await
            .changes
            .iter()
            .all(|change| !matches!(change, Change::Put(document) if document.key.as_str() == "all/d"))
    );
    for name in ["all/a", "all/b", "all-c"] {
        one.delete(TESTED, &key(name), &anything()).await.unwrap();
    }
}

async fn feed(one: &dyn Documents, other: &dyn Documents) {
    for (name, content) in [("feed/a", "1"), ("feed/b", "1"), ("top", "1")] {
        one.put(TESTED, &key(name), content.as_bytes(), &anything()).await.unwrap();
    }
    let start = changes(other, Cursor::START).await;
    assert!(start.is_whole);
    assert_eq!(contents(&start), (map([("feed/a", "1"), ("feed/b", "1"), ("top", "1")]), vec![]));
    let nothing = changes(other, start.cursor).await;
    assert_eq!((nothing.is_whole, nothing.changes.len(), nothing.cursor), (false, 0, start.cursor));
    one.put(TESTED, &key("feed/a"), b"2", &anything()).await.unwrap();
    one.put(TESTED, &key("feed/a"), b"3", &anything()).await.unwrap();
    one.delete(TESTED, &key("feed/b"), &anything()).await.unwrap();
    one.put(TESTED, &key("feed/c"), b"1", &anything()).await.unwrap();
    let next = changes(other, start.cursor).await;
    assert!(!next.is_whole && next.cursor > start.cursor);
    assert_eq!(contents(&next), (map([("feed/a", "3"), ("feed/c", "1")]), vec!["feed/b".to_owned()]));
    // Reading again from the same cursor loses nothing.
    assert_eq!(contents(&changes(other, start.cursor).await), contents(&next));
    // A writer sees its own changes too.
    assert_eq!(contents(&changes(one, Cursor::START).await).0, map([("feed/a", "3"), ("feed/c", "1"), ("top", "1")]));
    other.delete(TESTED, &key("feed/c"), &anything()).await.unwrap();
    other.put(TESTED, &key("feed/c"), b"back", &anything()).await.unwrap();
    assert_eq!(contents(&changes(other, next.cursor).await), (map([("feed/c", "back")]), vec![]));
    for name in ["feed/a", "feed/c", "top"] {
        one.delete(TESTED, &key(name), &anything()).await.unwrap();
    }
    assert_eq!(contents(&changes(other, Cursor::START).await), (map([]), vec![]));
}

async fn collections_are_apart(one: &dyn Documents) {
    one.put(Collection::PINS, &key("pins"), b"{}", &Expect::Absent.into()).await.unwrap();
    assert_eq!(one.get(TESTED, &key("pins")).await.unwrap(), None);
    assert_eq!(contents(&changes(one, Cursor::START).await).0, map([]));
    one.delete(Collection::PINS, &key("pins"), &anything()).await.unwrap();
}

async fn bytes_come_back(one: &dyn Documents) {
    let content: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    let revision = one.put(TESTED, &key("bytes"), &content, &anything()).await.unwrap();
    let found = one.get(TESTED, &key("bytes")).await.unwrap().unwrap();
    assert!(found.content == content, "bytes come back as they were");
    assert_eq!(found.revision, revision);
    assert_ne!(revision, Revision::new(""));
    one.delete(TESTED, &key("bytes"), &anything()).await.unwrap();
}
