//! Copies everything from one backend to another: to a database, back to files, or into a backup.

use std::ops::ControlFlow;

use crate::interface::{
    BlobInfo, Blobs, Change, Collection, Cursor, Effort, Expect, Holder, NewBlob, Position, Rest, Retention, State,
    StateError, Stream,
};
use crate::wait;

/// Number of bytes of a blob copied at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// Number of stored results listed at once.
const BLOBS_AT_ONCE: usize = 500;
/// Number of lines appended at once.
const LINES_AT_ONCE: usize = 5_000;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    pub documents: u64,
    pub blobs: u64,
    pub lines: u64,
}

/// Copies documents, stored results, streams, and the journals of runs; active runs are interrupted in the copy, so
/// that two states do not both continue them. The destination must be empty; leases and limits, which are short-lived,
/// are not copied. Handles of results stay the same; their time to live starts again.
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
        copied.lines += copy_lines(from, to, stream).await?;
    }
    copied.blobs = copy_blobs(from, to).await?;
    Ok(copied)
}

/// Copies the journals of runs. The copied jobs are not resumed by themselves.
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

/// Reads on a separate thread while writing, so that a long trail takes no memory.
async fn copy_lines(from: &State, to: &State, stream: Stream) -> Result<u64, StateError> {
    let (sender, mut lines) = tokio::sync::mpsc::channel(LINES_AT_ONCE);
    let (old, new) = (from.trail(), to.trail());
    let reading = tokio::task::spawn_blocking(move || {
        // If the channel is closed, the writer has failed and reports the error.
        let mut send = |line: &str| drop(sender.blocking_send(line.to_owned()));
        wait(old.read(stream, Position::default(), &mut send))
    });
    let (mut batch, mut count) = (Vec::new(), 0);
    while lines.recv_many(&mut batch, LINES_AT_ONCE).await > 0 {
        new.append(stream, &batch).await?;
        count += batch.len() as u64;
        batch.clear();
    }
    reading.await.map_err(|error| StateError::Invalid(format!("the copy failed inside: {error}")))??;
    Ok(count)
}

async fn copy_blobs(from: &State, to: &State) -> Result<u64, StateError> {
    let (old, new) = (from.blobs(forever()), to.blobs(forever()));
    // Handles and the owners of runs are derived from this secret.
    new.adopt_secret(old.secret().await?).await?;
    let (mut last, mut count) = (None, 0);
    loop {
        let page = old.page(last.as_ref(), BLOBS_AT_ONCE).await?;
        let Some(end) = page.last() else { return Ok(count) };
        last = Some(end.id.clone());
        for blob in page {
            count += u64::from(copy_blob(&*old, &*new, blob).await?);
        }
    }
}

/// Returns whether the blob still existed.
async fn copy_blob(old: &dyn Blobs, new: &dyn Blobs, blob: BlobInfo) -> Result<bool, StateError> {
    let mut writer = new.create(NewBlob { scope: blob.scope, media_type: blob.media_type }).await?;
    let mut offset = 0;
    while offset < blob.bytes {
        let piece = match old.read(&blob.id, offset, PIECE_BYTES).await {
            Ok(piece) => piece,
            // A running server removes expired blobs meanwhile.
            Err(StateError::NotFound(_) | StateError::Expired(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        if piece.is_empty() {
            return Err(StateError::Invalid(format!("the stored result {} is cut short", blob.id)));
        }
        writer.write(&piece).await?;
        offset += piece.len() as u64;
    }
    writer.finish(blob.notes).await?;
    Ok(true)
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
        let mut has_lines = false;
        let mut look = |_: &str| {
            has_lines = true;
            ControlFlow::Break(())
        };
        state.trail().read_back(stream, &mut look).await?;
        if has_lines {
            return not_empty(stream.as_str());
        }
    }
    if state.blobs(forever()).page(None, 1).await?.is_empty() { Ok(()) } else { not_empty("stored results") }
}
