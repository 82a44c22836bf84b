//! Documents as rows. The database checks the conditions; one round trip per change.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use onetool_state::StateError;
use onetool_state::interface::{
    Change, Changes, Collection, Condition, Cursor, Document, Documents, Effort, Expect, Guard, Key, Revision,
};
use tokio_postgres::types::ToSql;

use crate::connection::{Database, Failure};

/// Poll interval for changes by other servers.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// How long removals are remembered for servers that have not seen them yet.
const REMEMBERED_SECONDS: f64 = 3600.0;
/// How often a server that removes documents forgets old removals, and how many per statement.
const FORGET_EVERY: Duration = Duration::from_mins(10);
const FORGOTTEN_AT_ONCE: i64 = 1_000;
/// Maximum size of a document.
const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

impl Database {
    async fn put_or_remove(
        &self,
        collection: Collection,
        key: &Key,
        content: Option<Vec<u8>>,
        condition: &Condition,
    ) -> Result<(), StateError> {
        let revision = content.as_deref().map(|content| Revision::of(content).as_str().to_owned());
        let (expected, expected_revision) = match &condition.expect {
            Expect::Anything => ("anything", None),
            Expect::Absent => ("absent", None),
            Expect::Revision(revision) => ("revision", Some(revision.as_str().to_owned())),
        };
        let prefix = condition.guard.as_ref().map(|guard| guard.prefix.clone());
        let seen = condition.guard.as_ref().map_or(0, |guard| number(guard.seen));
        let name = key.to_string();
        let outcome = self
            .run(move |connection| async move {
                let statement =
                    connection.prepare_cached("SELECT onetool_put_1($1, $2, $3, $4, $5, $6, $7, $8)").await?;
                let collection = collection.as_str();
                let row = connection
                    .query_one(
                        &statement,
                        &[&collection, &name, &expected, &expected_revision, &prefix, &seen, &revision, &content],
                    )
                    .await?;
                Ok(row.get::<_, String>(0))
            })
            .await?;
        match outcome.as_str() {
            "done" => Ok(()),
            "stale" => Err(StateError::Stale(format!("what {key} belongs to"))),
            _ => Err(StateError::Conflict(key.to_string())),
        }
    }
}

impl Database {
    /// Now and then forgets removals that every server has seen, and rate limits that are full again.
    fn tidy(&self) {
        {
            let mut tidied = self.tidied.lock();
            if tidied.is_some_and(|at| at.elapsed() < FORGET_EVERY) {
                return;
            }
            *tidied = Some(Instant::now());
        }
        self.spawn(|connection| async move {
            let collections = connection.query("SELECT collection FROM onetool_collections", &[]).await?;
            let statement = connection.prepare_cached("SELECT onetool_forget_1($1, $2, $3)").await?;
            for row in collections {
                let collection: String = row.get(0);
                loop {
                    let values: [&(dyn ToSql + Sync); 3] = [&collection, &REMEMBERED_SECONDS, &FORGOTTEN_AT_ONCE];
                    if connection.query_one(&statement, &values).await?.get::<_, i64>(0) < FORGOTTEN_AT_ONCE {
                        break;
                    }
                }
            }
            let full = "DELETE FROM onetool_limits WHERE full_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1";
            connection.execute(full, &[&((REMEMBERED_SECONDS * 1e6) as i64)]).await?;
            Ok(())
        });
    }
}

fn number(cursor: Cursor) -> i64 {
    i64::try_from(cursor.0).unwrap_or(i64::MAX)
}

#[async_trait]
impl Documents for Database {
    async fn get(&self, collection: Collection, key: &Key) -> Result<Option<Document>, StateError> {
        let name = key.to_string();
        let found = self
            .read(move |connection| {
                let name = name.clone();
                async move {
                    let statement = connection
                        .prepare_cached(
                            "SELECT revision, content FROM onetool_documents
                             WHERE collection = $1 AND key = $2 AND content IS NOT NULL",
                        )
                        .await?;
                    let row = connection.query_opt(&statement, &[&collection.as_str(), &name]).await?;
                    Ok(row.map(|row| (row.get::<_, String>(0), row.get::<_, Vec<u8>>(1))))
                }
            })
            .await?;
        Ok(found.map(|(revision, content)| Document { key: key.clone(), revision: Revision::new(revision), content }))
    }

    async fn put(
        &self,
        collection: Collection,
        key: &Key,
        content: &[u8],
        condition: &Condition,
    ) -> Result<Revision, StateError> {
        if content.len() > DOCUMENT_BYTES {
            let bytes = content.len();
            return Err(StateError::TooLarge(format!("{key} has {bytes} bytes; at most {DOCUMENT_BYTES} are allowed")));
        }
        self.put_or_remove(collection, key, Some(content.to_owned()), condition).await?;
        Ok(Revision::of(content))
    }

    async fn create_all(
        &self,
        collection: Collection,
        documents: &[(Key, Vec<u8>)],
        guard: Option<&Guard>,
    ) -> Result<(), StateError> {
        if let Some((key, content)) = documents.iter().find(|(_, content)| content.len() > DOCUMENT_BYTES) {
            let bytes = content.len();
            return Err(StateError::TooLarge(format!("{key} has {bytes} bytes; at most {DOCUMENT_BYTES} are allowed")));
        }
        let documents: Vec<(String, String, Vec<u8>)> = documents
            .iter()
            .map(|(key, content)| (key.to_string(), Revision::of(content).as_str().to_owned(), content.clone()))
            .collect();
        let (mut prefix, seen) = (guard.map(|guard| guard.prefix.clone()), guard.map_or(0, |guard| number(guard.seen)));
        let refused = self
            .run(move |mut connection| async move {
                // Dropping the transaction without a commit rolls it back.
                let transaction = connection.transaction().await?;
                let statement =
                    transaction.prepare_cached("SELECT onetool_put_1($1, $2, 'absent', NULL, $3, $4, $5, $6)").await?;
                for (key, revision, content) in &documents {
                    // The first insert locks the collection until the end, so its guard covers all of them.
                    let prefix = prefix.take();
                    let values: [&(dyn ToSql + Sync); 6] =
                        [&collection.as_str(), key, &prefix, &seen, revision, content];
                    let row = transaction.query_one(&statement, &values).await?;
                    match row.get::<_, &str>(0) {
                        "done" => {}
                        "stale" => return Ok(Some(StateError::Stale(format!("what {key} belongs to")))),
                        _ => return Ok(Some(StateError::Conflict(key.clone()))),
                    }
                }
                transaction.commit().await?;
                Ok(None)
            })
            .await?;
        match refused {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    async fn delete(&self, collection: Collection, key: &Key, condition: &Condition) -> Result<(), StateError> {
        self.tidy();
        self.put_or_remove(collection, key, None, condition).await
    }

    async fn changes(&self, collection: Collection, since: Cursor, _effort: Effort) -> Result<Changes, StateError> {
        self.read(move |connection| async move {
            let collection = collection.as_str();
            let statement = connection
                .prepare_cached(
                    "SELECT key, seq, revision, content FROM onetool_documents
                     WHERE collection = $1 AND seq > $2 ORDER BY seq",
                )
                .await?;
            let mut is_whole = since == Cursor::START;
            let after = number(since);
            let mut rows = connection.query(&statement, &[&collection, &after]).await?;
            if !is_whole {
                // Read afterwards, so that it covers every removal forgotten before the rows were read.
                let floor =
                    connection.prepare_cached("SELECT floor FROM onetool_collections WHERE collection = $1").await?;
                let row = connection.query_opt(&floor, &[&collection]).await?;
                is_whole = row.is_some_and(|row| row.get::<_, i64>(0) > after);
                if is_whole {
                    rows = connection.query(&statement, &[&collection, &0_i64]).await?;
                }
            }
            let mut changes = Vec::with_capacity(rows.len());
            let mut last = after;
            for row in rows {
                last = last.max(row.get::<_, i64>(1));
                let Ok(key) = row.get::<_, &str>(0).parse::<Key>() else { continue };
                match (row.get::<_, Option<String>>(2), row.get::<_, Option<Vec<u8>>>(3)) {
                    (Some(revision), Some(content)) => {
                        changes.push(Change::Put(Document { key, revision: Revision::new(revision), content }));
                    }
                    _ if is_whole => {}
                    _ => changes.push(Change::Gone(key)),
                }
            }
            Ok(Changes { is_whole, changes, cursor: Cursor(u64::try_from(last).unwrap_or_default()) })
        })
        .await
    }

    async fn set_aside(&self, collection: Collection, key: &Key) -> Result<Option<String>, StateError> {
        let Some(document) = Documents::get(self, collection, key).await? else { return Ok(None) };
        let (name, content) = (key.to_string(), document.content);
        let id = self
            .run(move |connection| async move {
                let row = connection
                    .query_one(
                        "INSERT INTO onetool_quarantine (collection, key, content) VALUES ($1, $2, $3) RETURNING id",
                        &[&collection.as_str(), &name, &content],
                    )
                    .await?;
                Ok::<_, Failure>(row.get::<_, i64>(0))
            })
            .await?;
        Documents::delete(self, collection, key, &Expect::Revision(document.revision).into()).await?;
        Ok(Some(format!("row {id} of onetool_quarantine")))
    }

    fn poll_every(&self) -> Option<Duration> {
        Some(POLL_EVERY)
    }

    fn place(&self, collection: Collection, key: &Key) -> String {
        format!("{}/{collection}/{key}", Database::place(self))
    }
}
