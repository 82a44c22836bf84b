//! Blobs: content, ranges, expiry, deduplication.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::Open;
use crate::interface::{BlobId, BlobInfo, Blobs, NewBlob, Retention, StateError};

fn new(scope: &str, media_type: &str) -> NewBlob {
    NewBlob { scope: scope.to_owned(), media_type: media_type.to_owned() }
}

fn notes(tool: &str) -> Map<String, Json> {
    Map::from_iter([("tool".to_owned(), json!(tool))])
}

pub(super) async fn put(blobs: &dyn Blobs, new: NewBlob, content: &[u8]) -> BlobInfo {
    let mut writer = blobs.create(new).await.unwrap();
    for chunk in content.chunks(70_000) {
        writer.write(chunk).await.unwrap();
    }
    writer.finish(notes("demo.read")).await.unwrap()
}

/// Every blob, in small pages.
async fn all(blobs: &dyn Blobs) -> Vec<BlobInfo> {
    let mut all: Vec<BlobInfo> = Vec::new();
    loop {
        let page = blobs.page(all.last().map(|last| &last.id), 2).await.unwrap();
        assert!(page.len() <= 2);
        if page.is_empty() {
            assert!(all.is_sorted_by(|one, other| one.id < other.id), "in the order of their ids, each once");
            return all;
        }
        all.extend(page);
    }
}

pub(super) async fn check(open: Open<'_>) {
    let retention = Retention::default();
    let (one, other) = (open().blobs(retention), open().blobs(retention));
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 253) as u8).collect();
    let stored = put(&*one, new("", "text/plain; charset=utf-8"), &content).await;
    assert_eq!((stored.bytes, stored.notes.clone()), (3_000_000, notes("demo.read")));

    // Another process reads it in pieces, from any offset.
    let seen = other.describe(&stored.id).await.unwrap();
    assert_eq!(
        (&seen.id, seen.bytes, &seen.media_type, &seen.notes),
        (&stored.id, stored.bytes, &stored.media_type, &stored.notes)
    );
    for (offset, limit) in [(0, 10), (1_234_567, 300_000), (2_999_990, 100), (0, 3_000_000)] {
        let piece = other.read(&stored.id, offset, limit).await.unwrap();
        let start = offset as usize;
        let end = content.len().min(start + limit);
        assert!(piece == content[start..end], "{offset} {limit}: {} bytes", piece.len());
    }
    assert!(other.read(&stored.id, 3_000_000, 10).await.unwrap().is_empty());

    // Equal content is one blob; with another scope or type it is another.
    assert_eq!(put(&*other, new("", "text/plain; charset=utf-8"), &content).await.id, stored.id);
    let apart = put(&*one, new("somebody", "text/plain; charset=utf-8"), &content).await;
    assert_ne!(apart.id, stored.id);
    assert_ne!(put(&*one, new("", "image/png"), &content).await.id, stored.id);
    assert_eq!(one.describe(&apart.id).await.unwrap().scope, "somebody");
    assert_eq!(all(&*one).await.len(), 3);
    assert!(all(&*one).await.iter().any(|blob| (blob.id.clone(), blob.bytes) == (apart.id.clone(), 3_000_000)));
    let mut newest = one.newest("", 10).await.unwrap();
    assert_eq!(newest.len(), 2, "of one scope");
    assert!(newest[0].created_at >= newest[1].created_at);
    newest.truncate(1);
    assert_eq!(one.newest("", 1).await.unwrap(), newest);
    assert_eq!(one.newest("nobody", 10).await.unwrap(), []);

    // An unfinished blob leaves nothing behind.
    let mut writer = one.create(new("", "x/y")).await.unwrap();
    writer.write(b"half").await.unwrap();
    drop(writer);
    assert_eq!(all(&*other).await.len(), 3);
    let empty = put(&*one, new("", "x/y"), b"").await;
    assert_eq!(other.read(&empty.id, 0, 10).await.unwrap(), b"");

    let unknown: BlobId = "00112233445566778899aabbccddeeff".parse().unwrap();
    assert!(matches!(one.describe(&unknown).await, Err(StateError::NotFound(_))));
    assert!(matches!(one.read(&unknown, 0, 1).await, Err(StateError::NotFound(_))));
    for text in ["", "../x", "ABC", "xyz", &"a".repeat(65)] {
        assert!(text.parse::<BlobId>().is_err(), "{text:?} must not be an id");
    }

    // Too large, and too many.
    let small = Retention { max_blob_bytes: 1000, ..retention };
    let mut writer = open().blobs(small).create(new("", "x/y")).await.unwrap();
    let mut refused = writer.write(&[1; 1001]).await;
    if refused.is_ok() {
        refused = writer.finish(Map::new()).await.map(drop);
    }
    assert!(matches!(refused, Err(StateError::TooLarge(_))), "{refused:?}");
    let tight = open().blobs(Retention { max_bytes: 3_500_000, ..retention });
    let went = tight.sweep().await.unwrap();
    assert!(went >= 2, "{went}");
    let left: u64 = all(&*one).await.iter().map(|blob| blob.bytes).sum();
    assert!(left <= 3_500_000, "{left}");

    // Expired blobs are reported as expired, and swept.
    let brief = open().blobs(Retention { ttl: Duration::from_millis(1), ..retention });
    let fleeting = put(&*brief, new("", "x/y"), b"fleeting").await;
    let expired = loop {
        match brief.describe(&fleeting.id).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert!(matches!(expired, StateError::Expired(_)), "{expired:?}");
    brief.sweep().await.unwrap();
    assert!(all(&*brief).await.is_empty() && brief.newest("", 10).await.unwrap().is_empty());
    assert!(matches!(brief.describe(&fleeting.id).await, Err(StateError::Expired(_))), "it is remembered");
    // Stored again, it is available again.
    let again = put(&*one, new("", "x/y"), b"fleeting").await;
    assert_eq!(again.id, fleeting.id);
    assert_eq!(other.read(&again.id, 0, 100).await.unwrap(), b"fleeting");
    let forever = open().blobs(Retention { ttl: Duration::ZERO, ..retention });
    assert_eq!(forever.describe(&again.id).await.unwrap().bytes, 8);
}
