//! Removes blobs that have expired, and the oldest ones if there are too many.
//!
//! Designed for millions of blobs: expired ones are found by age and removed in batches; now and then, one server
//! checks the total size from an index.

use std::sync::Arc;

use deadpool_postgres::Object;
use onetool_state::interface::Chunks;
use uuid::Uuid;

use crate::connection::Failure;

/// How long expired blobs are remembered, and how long unfinished uploads are kept.
const REMEMBERED_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
const UPLOAD_SECONDS: f64 = 24.0 * 3600.0;
/// Maximum number of blobs removed by one transaction.
const BATCH: i64 = 5_000;
/// Maximum number of uploads that one sweep removes elsewhere.
const REMOVED_AT_ONCE: i64 = 1_000;
/// Advisory lock held by the server that checks the total size.
const SIZE_LOCK: i64 = 0x6f6e_6574_6f6f_6c02;
/// One in this many sweeps checks the total size.
const SIZE_EVERY: u8 = 10;

type Parameter = dyn tokio_postgres::types::ToSql + Sync;

/// How much a sweep checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thoroughness {
    /// Expired blobs; now and then, also the total size.
    Usual,
    Everything,
}

pub(crate) struct Sweep {
    pub(crate) elsewhere: Option<Arc<dyn Chunks>>,
    /// In seconds; zero keeps blobs forever.
    pub(crate) ttl: f64,
    pub(crate) max_bytes: i64,
    pub(crate) thoroughness: Thoroughness,
}

impl Sweep {
    /// Returns the number of removed blobs.
    pub(crate) async fn run(self, mut connection: Object) -> Result<usize, Failure> {
        let mut gone = 0;
        if self.ttl > 0.0 {
            gone += self.remove_before(&mut connection, "now() - make_interval(secs => $1::float8)", &self.ttl).await?;
        }
        let looks_at_size =
            self.thoroughness == Thoroughness::Everything || Uuid::new_v4().as_bytes()[0] % SIZE_EVERY == 0;
        if looks_at_size && let Some(border) = self.border(&mut connection).await? {
            gone += self.remove_before(&mut connection, "$1::text::timestamptz", &border).await?;
        }
        self.forget(&mut connection).await?;
        Ok(gone)
    }

    /// Removes blobs older than the given time, in batches.
    async fn remove_before(&self, connection: &mut Object, before: &str, value: &Parameter) -> Result<usize, Failure> {
        let mut gone = 0;
        loop {
            let transaction = connection.transaction().await?;
            let rows = transaction
                .query(
                    &format!(
                        "WITH due AS (
                             SELECT id, upload FROM onetool_blobs
                             WHERE upload IS NOT NULL AND created_at <= {before}
                             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
                         )
                         UPDATE onetool_blobs b SET upload = NULL FROM due WHERE b.id = due.id AND b.upload = due.upload
                         RETURNING due.upload"
                    ),
                    &[value, &BATCH],
                )
                .await?;
            let uploads: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
            transaction.execute("DELETE FROM onetool_chunks WHERE upload = ANY ($1)", &[&uploads]).await?;
            if self.elsewhere.is_some() {
                transaction
                    .execute(
                        "INSERT INTO onetool_uploads (upload, started_at) SELECT unnest($1::uuid[]), 'epoch'
                         ON CONFLICT (upload) DO UPDATE SET started_at = 'epoch'",
                        &[&uploads],
                    )
                    .await?;
            }
            transaction.commit().await?;
            gone += uploads.len();
            if (uploads.len() as i64) < BATCH {
                return Ok(gone);
            }
        }
    }

    /// The time up to which blobs exceed the size limit, in the database's notation. `None` if all fit.
    async fn border(&self, connection: &mut Object) -> Result<Option<String>, Failure> {
        let transaction = connection.transaction().await?;
        if self.thoroughness == Thoroughness::Usual {
            let row = transaction.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&SIZE_LOCK]).await?;
            if !row.get::<_, bool>(0) {
                return Ok(None);
            }
        }
        // With many millions of blobs, this takes longer than the usual timeout.
        transaction.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
        let found = transaction
            .query_opt(
                "SELECT created_at::text FROM (
                     SELECT created_at, sum(bytes) OVER (ORDER BY created_at DESC ROWS UNBOUNDED PRECEDING) AS total
                     FROM onetool_blobs WHERE upload IS NOT NULL
                 ) AS ranked
                 WHERE total > $1::bigint ORDER BY created_at DESC LIMIT 1",
                &[&self.max_bytes],
            )
            .await?;
        transaction.commit().await?;
        Ok(found.map(|row| row.get(0)))
    }

    /// Forgets blobs that expired long ago, and uploads that were never finished.
    async fn forget(&self, connection: &mut Object) -> Result<(), Failure> {
        connection
            .execute(
                "DELETE FROM onetool_blobs WHERE upload IS NULL AND created_at < now() - make_interval(secs => $1)",
                &[&REMEMBERED_SECONDS],
            )
            .await?;
        let old = connection
            .query(
                "SELECT upload FROM onetool_uploads WHERE started_at < now() - make_interval(secs => $1) LIMIT $2",
                &[&UPLOAD_SECONDS, &REMOVED_AT_ONCE],
            )
            .await?;
        for upload in old.iter().map(|row| row.get::<_, Uuid>(0)) {
            // Forgotten only once the content is removed: the other store may be unreachable.
            if let Some(chunks) = &self.elsewhere {
                chunks.remove(upload).await?;
            }
            connection.execute("DELETE FROM onetool_chunks WHERE upload = $1", &[&upload]).await?;
            connection.execute("DELETE FROM onetool_uploads WHERE upload = $1", &[&upload]).await?;
        }
        Ok(())
    }
}
