//! Streams as rows.

use async_trait::async_trait;
use onetool_state::StateError;
use onetool_state::interface::{IsOld, Merge, Position, Stream, Trail, TrailRead, Visit, VisitBack};

use crate::connection::Database;

/// Number of lines fetched at once.
const PAGE_LINES: i64 = 10_000;
/// Number of lines fetched at once from the end, where few are usually wanted.
const BACK_LINES: i64 = 500;

impl Database {
    /// Returns a page of lines after a number, each with its own number, and the stream's generation.
    async fn lines(&self, stream: Stream, after: i64) -> Result<(i64, Vec<(i64, String)>), StateError> {
        self.read(move |mut connection| async move {
            // Both in one snapshot: a stream that is rewritten in between must not appear half old.
            let transaction = connection
                .build_transaction()
                .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()
                .await?;
            let generation = transaction
                .query_opt("SELECT generation FROM onetool_streams WHERE stream = $1", &[&stream.as_str()])
                .await?
                .map_or(0, |row| row.get::<_, i64>(0));
            let rows = transaction
                .query(
                    "SELECT seq, line FROM onetool_trail WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                    &[&stream.as_str(), &after, &PAGE_LINES],
                )
                .await?;
            transaction.commit().await?;
            Ok((generation, rows.into_iter().map(|row| (row.get(0), row.get(1))).collect()))
        })
        .await
    }
}

#[async_trait]
impl Trail for Database {
    async fn append(&self, stream: Stream, lines: &[String]) -> Result<(), StateError> {
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.to_vec();
        self.run(move |connection| async move {
            let statement = connection.prepare_cached("SELECT onetool_append_1($1, $2)").await?;
            connection.execute(&statement, &[&stream.as_str(), &lines]).await?;
            Ok(())
        })
        .await
    }

    async fn read(&self, stream: Stream, since: Position, visit: Visit<'_>) -> Result<TrailRead, StateError> {
        let mut after = i64::try_from(since.offset).unwrap_or(i64::MAX);
        let (mut generation, mut page) = self.lines(stream, after).await?;
        let is_known = u64::try_from(generation).unwrap_or_default() == since.generation;
        let restarted = !is_known && since != Position::default();
        if restarted {
            after = 0;
            (generation, page) = self.lines(stream, 0).await?;
        }
        loop {
            let is_full = page.len() as i64 == PAGE_LINES;
            for (seq, line) in page {
                after = after.max(seq);
                visit(&line);
            }
            if !is_full {
                break;
            }
            page = self.lines(stream, after).await?.1;
        }
        let position = Position {
            generation: u64::try_from(generation).unwrap_or_default(),
            offset: u64::try_from(after).unwrap_or_default(),
        };
        Ok(TrailRead { position, restarted })
    }

    async fn read_back(&self, stream: Stream, visit: VisitBack<'_>) -> Result<(), StateError> {
        let mut before = i64::MAX;
        loop {
            let page: Vec<(i64, String)> = Database::read(self, move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "SELECT seq, line FROM onetool_trail WHERE stream = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
                    )
                    .await?;
                let rows = connection.query(&statement, &[&stream.as_str(), &before, &BACK_LINES]).await?;
                Ok(rows.into_iter().map(|row| (row.get(0), row.get(1))).collect())
            })
            .await?;
            let is_full = page.len() as i64 == BACK_LINES;
            for (seq, line) in page {
                before = seq;
                if visit(&line).is_break() {
                    return Ok(());
                }
            }
            if !is_full {
                return Ok(());
            }
        }
    }

    async fn trim(&self, stream: Stream, is_old: IsOld<'_>) -> Result<(), StateError> {
        loop {
            let (_, page) = self.lines(stream, 0).await?;
            let is_full = page.len() as i64 == PAGE_LINES;
            let old: Vec<&(i64, String)> = page.iter().take_while(|(_, line)| is_old(line)).collect();
            let Some((last, _)) = old.last() else { return Ok(()) };
            let (last, is_all) = (*last, old.len() == page.len());
            self.run(move |mut connection| async move {
                let transaction = connection.transaction().await?;
                // The remaining lines keep their numbers, so readers continue where they were.
                transaction
                    .execute(
                        "WITH gone AS (DELETE FROM onetool_trail WHERE stream = $1 AND seq <= $2 RETURNING line)
                         UPDATE onetool_streams SET bytes = bytes -
                             (SELECT coalesce(sum(octet_length(line) + 1), 0) FROM gone) WHERE stream = $1",
                        &[&stream.as_str(), &last],
                    )
                    .await?;
                transaction.commit().await?;
                Ok(())
            })
            .await?;
            if !is_all || !is_full {
                return Ok(());
            }
        }
    }

    async fn compact(&self, stream: Stream, over_bytes: u64, merge: Merge<'_>) -> Result<(), StateError> {
        let limit = i64::try_from(over_bytes).unwrap_or(i64::MAX);
        let is_large = Database::read(self, move |connection| async move {
            let statement = connection.prepare_cached("SELECT bytes FROM onetool_streams WHERE stream = $1").await?;
            let row = connection.query_opt(&statement, &[&stream.as_str()]).await?;
            Ok(row.is_some_and(|row| row.get::<_, i64>(0) > limit))
        })
        .await?;
        if !is_large {
            return Ok(());
        }
        // Only lines read here are merged; lines appended meanwhile have higher numbers, and stay.
        let mut old = Vec::new();
        let (mut last, mut generation) = (0, 0);
        loop {
            let (now, page) = self.lines(stream, last).await?;
            generation = if generation == 0 { now } else { generation };
            if now != generation {
                return Ok(());
            }
            let is_full = page.len() as i64 == PAGE_LINES;
            for (seq, line) in page {
                last = last.max(seq);
                old.push(line);
            }
            if !is_full {
                break;
            }
        }
        let merged = merge(old);
        self.run(move |mut connection| async move {
            let transaction = connection.transaction().await?;
            let row = transaction
                .query_one("SELECT generation FROM onetool_streams WHERE stream = $1 FOR UPDATE", &[&stream.as_str()])
                .await?;
            // Another server compacted the stream first.
            if row.get::<_, i64>(0) != generation {
                return Ok(());
            }
            let late = transaction
                .query(
                    "SELECT line FROM onetool_trail WHERE stream = $1 AND seq > $2 ORDER BY seq",
                    &[&stream.as_str(), &last],
                )
                .await?;
            let mut lines = merged;
            lines.extend(late.into_iter().map(|row| row.get::<_, String>(0)));
            transaction.execute("DELETE FROM onetool_trail WHERE stream = $1", &[&stream.as_str()]).await?;
            transaction
                .execute(
                    "UPDATE onetool_streams SET bytes = 0, generation = generation + 1 WHERE stream = $1",
                    &[&stream.as_str()],
                )
                .await?;
            transaction.execute("SELECT onetool_append_1($1, $2)", &[&stream.as_str(), &lines]).await?;
            transaction.commit().await?;
            Ok(())
        })
        .await
    }
}
