//! Blobs as rows: metadata, and the content in chunks of one size.
//!
//! Content arrives before its name is known (the name is derived from all of it), so chunks belong to an upload;
//! finishing assigns the upload to the blob, or drops it if an equal blob already exists.
//!
//! Contents may be kept elsewhere ([`Chunks`], a bucket): then only the rows are here. Contents to be removed there
//! stay listed as uploads until they are, so that an outage of the other store loses none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_state::StateError;
use onetool_state::interface::{BlobId, BlobInfo, BlobWriter, Blobs, Chunks, NewBlob, Retention};
use serde_json::{Map, Value as Json};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::Database;
use crate::sweep::{Sweep, Thoroughness};

/// Size of a chunk; the last one of a blob may be shorter.
const CHUNK_BYTES: usize = 256 * 1024;
/// How often each server that stores blobs looks for expired ones.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
const KEY: &str = "blobs";
/// Where contents are kept, if not in the database.
pub(crate) type Elsewhere = Option<Arc<dyn Chunks>>;

pub(crate) struct PostgresBlobs {
    database: Arc<Database>,
    elsewhere: Elsewhere,
    retention: Retention,
}

impl PostgresBlobs {
    pub(crate) fn new(database: Arc<Database>, elsewhere: Elsewhere, retention: Retention) -> Self {
        Self { database, elsewhere, retention }
    }

    fn sweep_order(&self, thoroughness: Thoroughness) -> Sweep {
        Sweep {
            elsewhere: self.elsewhere.clone(),
            ttl: self.ttl(),
            max_bytes: i64::try_from(self.retention.max_bytes).unwrap_or(i64::MAX),
            thoroughness,
        }
    }

    /// Reads content that is kept elsewhere. `None` if there is none: it may have been stored while contents were kept
    /// here.
    async fn read_elsewhere(&self, id: &BlobId, offset: u64, limit: usize) -> Result<Option<Vec<u8>>, StateError> {
        let Some(chunks) = &self.elsewhere else { return Ok(None) };
        let name = id.to_string();
        let found = self
            .database
            .read(move |connection| {
                let name = name.clone();
                async move {
                    let statement =
                        connection.prepare_cached("SELECT upload, bytes FROM onetool_blobs WHERE id = $1").await?;
                    let row = connection.query_opt(&statement, &[&name]).await?;
                    Ok(row.map(|row| (row.get::<_, Option<Uuid>>(0), row.get::<_, i64>(1))))
                }
            })
            .await?;
        let Some((Some(upload), bytes)) = found else { return Ok(None) };
        let end = u64::try_from(bytes).unwrap_or_default().min(offset.saturating_add(limit as u64));
        let chunk = chunks.chunk_bytes() as u64;
        let mut content = Vec::new();
        let mut at = offset;
        // Empty content is stored as one empty chunk.
        while at < end || content.is_empty() && at == offset {
            let within = usize::try_from(at % chunk).unwrap_or_default();
            let wanted = usize::try_from((end.saturating_sub(at)).min(chunk - at % chunk)).unwrap_or_default();
            let Some(piece) = chunks.get(upload, at / chunk, within, wanted.max(1)).await? else {
                return if content.is_empty() && end > at { Ok(None) } else { Ok(Some(content)) };
            };
            let read = piece.len().min(wanted);
            content.extend_from_slice(&piece[..read]);
            at += read as u64;
            if read < wanted || wanted == 0 {
                break;
            }
        }
        Ok(Some(content))
    }

    fn ttl(&self) -> f64 {
        self.retention.ttl.as_secs_f64()
    }
}

/// The columns of [`info`]; times as microseconds.
const COLUMNS: &str = "id, scope, media_type, bytes, (extract(epoch FROM created_at) * 1000000)::bigint, notes";

/// Selects unexpired blobs, by the time to live in `$1`. Uses the transaction's time, so that an index is used.
const FRESH: &str = "($1::float8 = 0 OR created_at >= now() - make_interval(secs => $1))";

fn info(row: &Row) -> Option<BlobInfo> {
    Some(BlobInfo {
        id: row.get::<_, &str>(0).parse().ok()?,
        scope: row.get(1),
        media_type: row.get(2),
        bytes: u64::try_from(row.get::<_, i64>(3)).ok()?,
        created_at: DateTime::from_timestamp_micros(row.get::<_, i64>(4))?,
        notes: serde_json::from_str::<Map<String, Json>>(row.get(5)).ok()?,
    })
}

impl Database {
    /// The secret that blob names are derived with; created on first use.
    async fn key(&self) -> Result<[u8; 32], StateError> {
        let fetch = || async {
            let mut hasher = blake3::Hasher::new();
            for _ in 0..3 {
                hasher.update(Uuid::new_v4().as_bytes());
            }
            let fresh = hasher.finalize().as_bytes().to_vec();
            let stored = self
                .run(move |connection| async move {
                    connection
                        .execute(
                            "INSERT INTO onetool_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                            &[&KEY, &fresh],
                        )
                        .await?;
                    let row =
                        connection.query_one("SELECT value FROM onetool_secrets WHERE name = $1", &[&KEY]).await?;
                    Ok(row.get::<_, Vec<u8>>(0))
                })
                .await?;
            <[u8; 32]>::try_from(stored).map_err(|_| StateError::Invalid("the secret of blobs is damaged".to_owned()))
        };
        self.blob_key.get_or_try_init(fetch).await.copied()
    }
}

#[async_trait]
impl Blobs for PostgresBlobs {
    async fn create(&self, new: NewBlob) -> Result<Box<dyn BlobWriter>, StateError> {
        let is_due = {
            let mut swept = self.database.swept.lock();
            let is_due = swept.is_none_or(|at: Instant| at.elapsed() >= SWEEP_EVERY);
            if is_due {
                *swept = Some(Instant::now());
            }
            is_due
        };
        if is_due {
            let sweep = self.sweep_order(Thoroughness::Usual);
            self.database.spawn(move |connection| async move { sweep.run(connection).await.map(drop) });
        }
        Ok(Box::new(PostgresWriter {
            chunk_bytes: self.elsewhere.as_ref().map_or(CHUNK_BYTES, |chunks| chunks.chunk_bytes()),
            database: self.database.clone(),
            elsewhere: self.elsewhere.clone(),
            limit: self.retention.max_blob_bytes.min(self.retention.max_bytes),
            hasher: BlobId::hasher(&new),
            new,
            upload: Uuid::new_v4(),
            buffer: Vec::new(),
            chunks: 0,
            bytes: 0,
            is_finished: false,
        }))
    }

    async fn describe(&self, id: &BlobId) -> Result<BlobInfo, StateError> {
        let (name, ttl) = (id.to_string(), self.ttl());
        let found = self
            .database
            .read(move |connection| {
                let name = name.clone();
                async move {
                    let statement = connection
                        .prepare_cached(&format!(
                            "SELECT {COLUMNS}, upload IS NULL OR
                                 ($2::float8 > 0 AND created_at < clock_timestamp() - make_interval(secs => $2))
                             FROM onetool_blobs WHERE id = $1"
                        ))
                        .await?;
                    let row = connection.query_opt(&statement, &[&name, &ttl]).await?;
                    Ok(row.and_then(|row| Some((info(&row)?, row.get::<_, bool>(6)))))
                }
            })
            .await?;
        match found {
            None => Err(StateError::NotFound(id.to_string())),
            Some((_, true)) => Err(StateError::Expired(id.to_string())),
            Some((info, false)) => Ok(info),
        }
    }

    async fn read(&self, id: &BlobId, offset: u64, limit: usize) -> Result<Vec<u8>, StateError> {
        if let Some(content) = self.read_elsewhere(id, offset, limit).await? {
            if offset == 0 {
                self.describe(id).await?;
            }
            return Ok(content);
        }
        let name = id.to_string();
        let chunk = CHUNK_BYTES as u64;
        let first = i32::try_from(offset / chunk).unwrap_or(i32::MAX);
        let last = i32::try_from((offset + limit.max(1) as u64 - 1) / chunk).unwrap_or(i32::MAX);
        let chunks = self
            .database
            .read(move |connection| {
                let name = name.clone();
                async move {
                    let statement = connection
                        .prepare_cached(
                            "SELECT c.content FROM onetool_blobs b JOIN onetool_chunks c USING (upload)
                             WHERE b.id = $1 AND c.n BETWEEN $2 AND $3 ORDER BY c.n",
                        )
                        .await?;
                    let rows = connection.query(&statement, &[&name, &first, &last]).await?;
                    Ok(rows.into_iter().map(|row| row.get::<_, Vec<u8>>(0)).collect::<Vec<_>>())
                }
            })
            .await?;
        if chunks.is_empty() || offset == 0 {
            // No content, or the first piece: return an error if the blob has expired.
            self.describe(id).await?;
        }
        let mut content = chunks.concat();
        let skipped = usize::try_from(offset % chunk).unwrap_or(usize::MAX).min(content.len());
        content.drain(..skipped);
        content.truncate(limit);
        Ok(content)
    }

    async fn page(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobInfo>, StateError> {
        let (after, limit) = (after.map_or("", BlobId::as_str).to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        let ttl = self.ttl();
        self.database
            .read(move |connection| {
                let after = after.clone();
                async move {
                    let statement = connection
                        .prepare_cached(&format!(
                            "SELECT {COLUMNS} FROM onetool_blobs WHERE id > $2 AND upload IS NOT NULL AND {FRESH}
                             ORDER BY id LIMIT $3"
                        ))
                        .await?;
                    let rows = connection.query(&statement, &[&ttl, &after, &limit]).await?;
                    Ok(rows.iter().filter_map(info).collect())
                }
            })
            .await
    }

    async fn newest(&self, scope: &str, limit: usize) -> Result<Vec<BlobInfo>, StateError> {
        let (scope, limit) = (scope.to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        let ttl = self.ttl();
        self.database
            .read(move |connection| {
                let scope = scope.clone();
                async move {
                    let statement = connection
                        .prepare_cached(&format!(
                            "SELECT {COLUMNS} FROM onetool_blobs WHERE scope = $2 AND upload IS NOT NULL AND {FRESH}
                             ORDER BY created_at DESC LIMIT $3"
                        ))
                        .await?;
                    let rows = connection.query(&statement, &[&ttl, &scope, &limit]).await?;
                    Ok(rows.iter().filter_map(info).collect())
                }
            })
            .await
    }

    async fn sweep(&self) -> Result<usize, StateError> {
        let sweep = self.sweep_order(Thoroughness::Everything);
        self.database.run(move |connection| sweep.run(connection)).await
    }

    async fn secret(&self) -> Result<[u8; 32], StateError> {
        self.database.key().await
    }

    async fn adopt_secret(&self, secret: [u8; 32]) -> Result<(), StateError> {
        let adopted = self
            .database
            .run(move |connection| async move {
                let row = connection
                    .query_one(
                        "WITH put AS (
                             INSERT INTO onetool_secrets (name, value)
                             SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM onetool_blobs)
                             ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING 1
                         ) SELECT EXISTS (SELECT 1 FROM put)",
                        &[&KEY, &secret.to_vec()],
                    )
                    .await?;
                Ok(row.get::<_, bool>(0))
            })
            .await?;
        let is_ours = self.database.key().await? == secret;
        if adopted && is_ours {
            return Ok(());
        }
        Err(StateError::Invalid(format!("{} is not empty", self.database.place())))
    }
}

struct PostgresWriter {
    database: Arc<Database>,
    elsewhere: Elsewhere,
    chunk_bytes: usize,
    limit: u64,
    hasher: blake3::Hasher,
    new: NewBlob,
    upload: Uuid,
    buffer: Vec<u8>,
    chunks: i32,
    bytes: u64,
    is_finished: bool,
}

impl PostgresWriter {
    async fn send(&mut self, content: Vec<u8>) -> Result<(), StateError> {
        let (upload, n) = (self.upload, self.chunks);
        self.chunks += 1;
        if let Some(chunks) = &self.elsewhere {
            if n == 0 {
                // Recorded first, so that a sweep finds the upload whatever happens next.
                self.database
                    .run(move |connection| async move {
                        connection.execute("INSERT INTO onetool_uploads (upload) VALUES ($1)", &[&upload]).await?;
                        Ok(())
                    })
                    .await?;
            }
            return chunks.put(upload, u64::try_from(n).unwrap_or_default(), content).await;
        }
        self.database
            .run(move |connection| async move {
                if n == 0 {
                    connection.execute("INSERT INTO onetool_uploads (upload) VALUES ($1)", &[&upload]).await?;
                }
                let statement = connection
                    .prepare_cached("INSERT INTO onetool_chunks (upload, n, content) VALUES ($1, $2, $3)")
                    .await?;
                connection.execute(&statement, &[&upload, &n, &content]).await?;
                Ok(())
            })
            .await
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        if self.is_finished || self.chunks == 0 {
            return;
        }
        let upload = self.upload;
        if self.elsewhere.is_some() {
            // The next sweep removes it.
            return self.database.spawn(move |connection| async move {
                let forget = "UPDATE onetool_uploads SET started_at = 'epoch' WHERE upload = $1";
                connection.execute(forget, &[&upload]).await?;
                Ok(())
            });
        }
        self.database.spawn(move |mut connection| async move {
            let transaction = connection.transaction().await?;
            transaction.execute("DELETE FROM onetool_chunks WHERE upload = $1", &[&upload]).await?;
            transaction.execute("DELETE FROM onetool_uploads WHERE upload = $1", &[&upload]).await?;
            Ok(transaction.commit().await?)
        });
    }
}

#[async_trait]
impl BlobWriter for PostgresWriter {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), StateError> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.limit {
            return Err(StateError::TooLarge(format!("the result is larger than {} bytes", self.limit)));
        }
        self.hasher.update(chunk);
        self.buffer.extend_from_slice(chunk);
        while self.buffer.len() >= self.chunk_bytes {
            let rest = self.buffer.split_off(self.chunk_bytes);
            let full = std::mem::replace(&mut self.buffer, rest);
            self.send(full).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>, notes: Map<String, Json>) -> Result<BlobInfo, StateError> {
        let rest = std::mem::take(&mut self.buffer);
        if !rest.is_empty() || self.chunks == 0 {
            self.send(rest).await?;
        }
        let id = BlobId::from_hash(&self.database.key().await?, &self.hasher);
        let (name, upload, new) = (id.to_string(), self.upload, self.new.clone());
        let is_elsewhere = self.elsewhere.is_some();
        let (bytes, text) = (i64::try_from(self.bytes).unwrap_or(i64::MAX), Json::Object(notes.clone()).to_string());
        let created = self
            .database
            .run(move |mut connection| async move {
                let transaction = connection.transaction().await?;
                // An equal blob keeps its content, and its age starts again.
                let row = transaction
                    .query_one(
                        "INSERT INTO onetool_blobs AS old (id, scope, media_type, bytes, notes, upload, created_at)
                         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
                         ON CONFLICT (id) DO UPDATE SET created_at = clock_timestamp(), notes = excluded.notes,
                             upload = coalesce(old.upload, excluded.upload)
                         RETURNING upload = $6, (extract(epoch FROM created_at) * 1000000)::bigint",
                        &[&name, &new.scope, &new.media_type, &bytes, &text, &upload],
                    )
                    .await?;
                let is_used = row.get::<_, bool>(0);
                if !is_used {
                    transaction.execute("DELETE FROM onetool_chunks WHERE upload = $1", &[&upload]).await?;
                }
                let forget = if is_elsewhere && !is_used {
                    "UPDATE onetool_uploads SET started_at = 'epoch' WHERE upload = $1"
                } else {
                    "DELETE FROM onetool_uploads WHERE upload = $1"
                };
                transaction.execute(forget, &[&upload]).await?;
                transaction.commit().await?;
                Ok(row.get::<_, i64>(1))
            })
            .await?;
        self.is_finished = true;
        Ok(BlobInfo {
            id,
            scope: self.new.scope.clone(),
            media_type: self.new.media_type.clone(),
            bytes: self.bytes,
            created_at: DateTime::from_timestamp_micros(created).unwrap_or_else(Utc::now),
            notes,
        })
    }
}
