//! Moving everything from one backend to another: to a database, back to files, or into a backup.

use crate::interface::{
    Change, Collection, Cursor, Effort, Expect, Holder, NewBlob, Position, Rest, Retention, State, StateError, Stream,
};

/// Of a blob, so much is copied at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// Lines that are appended at once.
const LINES_AT_ONCE: usize = 5_000;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    pub documents: u64,
    pub blobs: u64,
    pub lines: u64,
}

/// Copies documents, stored results, streams, and what runs did so far; runs that are under way are interrupted in the
/// copy, so that two states do not both go on with them. The destination must be empty; leases and limits, which are short-lived,
/// stay behind. Handles of results stay the same; their time to live begins anew.
pub async fn copy(from: &State, to: &State) -> Result<Copied, StateError> {
    require_empty(to).await?;
    let mut copied = Copied::default();
    let (old, new) = (from.documents(), to.documents());
    for collection in Collection::ALL {
        for change in old.changes(collection, Cursor::START, Effort::Thorough).await?.changes {
            if let Change::Put(document) = change {
                let content = match collection {
                    Collection::RUNS => crate::runs::copied(&document.content).unwrap_or(document.content),
                    _ => document.content,
                };
                new.put(collection, &document.key, &content, &Expect::Absent.into()).await?;
                copied.documents += 1;
            }
        }
    }
    copy_jobs(from, to).await?;
    for stream in Stream::ALL {
        let lines = lines(from, stream).await?;
        for batch in lines.chunks(LINES_AT_ONCE) {
            to.trail().append(stream, batch).await?;
        }
        copied.lines += lines.len() as u64;
    }
    let (old, new) = (from.blobs(forever()), to.blobs(forever()));
    let blobs = old.list().await?;
    if !blobs.is_empty() {
        new.adopt_secret(old.secret().await?).await?;
    }
    for blob in blobs {
        let mut writer = new.create(NewBlob { scope: blob.scope, media_type: blob.media_type }).await?;
        let mut offset = 0;
        while offset < blob.bytes {
            let piece = old.read(&blob.id, offset, PIECE_BYTES).await?;
            if piece.is_empty() {
                return Err(StateError::Invalid(format!("the stored result {} is cut short", blob.id)));
            }
            writer.write(&piece).await?;
            offset += piece.len() as u64;
        }
        writer.finish(blob.notes).await?;
        copied.blobs += 1;
    }
    Ok(copied)
}

/// What runs did so far goes with them; nobody goes on with one by itself.
async fn copy_jobs(from: &State, to: &State) -> Result<(), StateError> {
    let (old, new) = (from.jobs(), to.jobs());
    let holder = || Some(Holder { node: "copy", ttl: std::time::Duration::from_mins(10) });
    for (job, state) in old.list().await? {
        let journal = old.journal(&job).await?;
        let Some(claim) = new.submit(&job, &state.tags, holder()).await? else { continue };
        for (batch, lines) in journal.chunks(LINES_AT_ONCE).enumerate() {
            new.append(&claim, (batch * LINES_AT_ONCE) as u64, lines).await?;
        }
        new.release(&claim, Rest::Parked).await?;
    }
    Ok(())
}

fn forever() -> Retention {
    Retention { ttl: std::time::Duration::ZERO, max_bytes: u64::MAX >> 1, max_blob_bytes: u64::MAX >> 1 }
}

async fn lines(state: &State, stream: Stream) -> Result<Vec<String>, StateError> {
    let mut lines = Vec::new();
    state.trail().read(stream, Position::default(), &mut |line| lines.push(line.to_owned())).await?;
    Ok(lines)
}

async fn require_empty(state: &State) -> Result<(), StateError> {
    let not_empty = |what: &str| {
        let place = state.place();
        Err(StateError::Invalid(format!(
            "{place} is not empty: it has {what}\nhint: copy into a new folder or database"
        )))
    };
    for collection in Collection::ALL {
        let found = state.documents().changes(collection, Cursor::START, Effort::Thorough).await?;
        if found.changes.iter().any(|change| matches!(change, Change::Put(_))) {
            return not_empty(collection.as_str());
        }
    }
    for stream in Stream::ALL {
        if !lines(state, stream).await?.is_empty() {
            return not_empty(stream.as_str());
        }
    }
    if state.blobs(forever()).list().await?.is_empty() { Ok(()) } else { not_empty("stored results") }
}
