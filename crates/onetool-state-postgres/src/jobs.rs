//! Jobs as rows, by the database's clock: claimed with `FOR UPDATE SKIP LOCKED`, every write checked against the fence.

use std::time::Duration;

use async_trait::async_trait;
use onetool_state::StateError;
use onetool_state::interface::{Backlog, Claim, Holder, JobState, Jobs, Key, MAX_BACKLOG_TAGS, Rest};

use crate::connection::{Database, Failure};
use crate::leases::seconds;

/// Poll interval for waiting jobs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

fn number(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(-1)
}

fn fence(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[async_trait]
impl Jobs for Database {
    async fn submit(
        &self,
        job: &Key,
        tags: &[String],
        holder: Option<Holder<'_>>,
    ) -> Result<Option<Claim>, StateError> {
        let (name, tags) = (job.to_string(), tags.to_vec());
        let node = holder.as_ref().map(|holder| holder.node.to_owned());
        let (who, ttl) = (node.clone(), holder.map_or(0.0, |holder| seconds(holder.ttl)));
        let is_new = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "INSERT INTO onetool_jobs (job, tags, node, fence, until)
                         VALUES ($1, $2, $3, CASE WHEN $3::text IS NULL THEN 0 ELSE 1 END,
                                 CASE WHEN $3::text IS NULL THEN '-infinity'
                                      ELSE clock_timestamp() + make_interval(secs => $4) END)
                         ON CONFLICT DO NOTHING",
                    )
                    .await?;
                Ok(connection.execute(&statement, &[&name, &tags, &who, &ttl]).await? == 1)
            })
            .await?;
        Ok(node.filter(|_| is_new).map(|node| Claim { job: job.clone(), node, fence: 1 }))
    }

    async fn claim(&self, holder: Holder<'_>, tags: &[String]) -> Result<Option<Claim>, StateError> {
        let (who, tags, ttl) = (holder.node.to_owned(), tags.to_vec(), seconds(holder.ttl));
        let taken = self
            .run(move |connection| async move {
                let statement = connection.prepare_cached("SELECT job, fence FROM onetool_claim_1($1, $2, $3)").await?;
                let row = connection.query_one(&statement, &[&who, &tags, &ttl]).await?;
                Ok(row.get::<_, Option<String>>(0).zip(row.get::<_, Option<i64>>(1)))
            })
            .await?;
        let Some((job, number)) = taken else { return Ok(None) };
        Ok(Some(Claim { job: job.parse()?, node: holder.node.to_owned(), fence: fence(number) }))
    }

    async fn claim_one(&self, job: &Key, holder: Holder<'_>) -> Result<Option<Claim>, StateError> {
        let (name, who, ttl) = (job.to_string(), holder.node.to_owned(), seconds(holder.ttl));
        let taken = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "UPDATE onetool_jobs SET fence = fence + 1, node = $2, parked = false,
                                until = clock_timestamp() + make_interval(secs => $3)
                         WHERE job = $1 AND until <= clock_timestamp() RETURNING fence",
                    )
                    .await?;
                let row = connection.query_opt(&statement, &[&name, &who, &ttl]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)))
            })
            .await?;
        Ok(taken.map(|number| Claim { job: job.clone(), node: holder.node.to_owned(), fence: fence(number) }))
    }

    async fn renew(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<Key>, StateError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let jobs: Vec<String> = claims.iter().map(|claim| claim.job.to_string()).collect();
        let nodes: Vec<String> = claims.iter().map(|claim| claim.node.clone()).collect();
        let fences: Vec<i64> = claims.iter().map(|claim| number(claim.fence)).collect();
        let held: Vec<String> = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "UPDATE onetool_jobs j SET until = clock_timestamp() + make_interval(secs => $4)
                         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS held (job, node, fence)
                         WHERE j.job = held.job AND j.node = held.node AND j.fence = held.fence
                               AND j.until > clock_timestamp()
                         RETURNING j.job",
                    )
                    .await?;
                let rows = connection.query(&statement, &[&jobs, &nodes, &fences, &seconds(ttl)]).await?;
                Ok(rows.into_iter().map(|row| row.get(0)).collect())
            })
            .await?;
        Ok(claims
            .iter()
            .map(|claim| &claim.job)
            .filter(|job| !held.iter().any(|held| held == job.as_str()))
            .cloned()
            .collect())
    }

    async fn release(&self, claim: &Claim, rest: Rest) -> Result<(), StateError> {
        let held = claim.clone();
        let released = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "UPDATE onetool_jobs SET node = NULL, until = '-infinity', parked = $4, since = clock_timestamp()
                         WHERE job = $1 AND node = $2 AND fence = $3 AND until > clock_timestamp()",
                    )
                    .await?;
                let is_parked = rest == Rest::Parked;
                let name = held.job.to_string();
                Ok(connection.execute(&statement, &[&name, &held.node, &number(held.fence), &is_parked]).await?)
            })
            .await?;
        if released == 1 { Ok(()) } else { Err(StateError::LeaseLost(claim.job.to_string())) }
    }

    async fn wake(&self, job: &Key) -> Result<bool, StateError> {
        let name = job.to_string();
        self.run(move |connection| async move {
            let statement = connection
                .prepare_cached(
                    "UPDATE onetool_jobs SET parked = false,
                            since = CASE WHEN parked THEN clock_timestamp() ELSE since END
                     WHERE job = $1",
                )
                .await?;
            Ok(connection.execute(&statement, &[&name]).await? == 1)
        })
        .await
    }

    async fn append(&self, claim: &Claim, first: u64, lines: &[String]) -> Result<(), StateError> {
        let (held, lines) = (claim.clone(), lines.to_vec());
        let is_held = self
            .run(move |connection| async move {
                let statement = connection.prepare_cached("SELECT onetool_journal_1($1, $2, $3, $4, $5)").await?;
                let name = held.job.to_string();
                let row = connection
                    .query_one(&statement, &[&name, &held.node, &number(held.fence), &number(first), &lines])
                    .await?;
                Ok(row.get::<_, bool>(0))
            })
            .await?;
        if is_held { Ok(()) } else { Err(StateError::LeaseLost(claim.job.to_string())) }
    }

    async fn journal(&self, job: &Key) -> Result<Vec<String>, StateError> {
        let name = job.to_string();
        self.read(move |connection| {
            let name = name.clone();
            async move {
                let statement =
                    connection.prepare_cached("SELECT line FROM onetool_journal WHERE job = $1 ORDER BY n").await?;
                let rows = connection.query(&statement, &[&name]).await?;
                Ok(rows.into_iter().map(|row| row.get(0)).collect())
            }
        })
        .await
    }

    async fn state(&self, job: &Key) -> Result<Option<JobState>, StateError> {
        let name = job.to_string();
        self.read(move |connection| {
            let name = name.clone();
            async move {
                let statement = connection.prepare_cached(&format!("{STATES} WHERE job = $1")).await?;
                let row = connection.query_opt(&statement, &[&name]).await?;
                Ok(row.map(|row| state_of(&row)))
            }
        })
        .await
    }

    async fn remove(&self, job: &Key) -> Result<(), StateError> {
        let name = job.to_string();
        self.run(move |connection| async move {
            let statement = connection.prepare_cached("DELETE FROM onetool_jobs WHERE job = $1").await?;
            connection.execute(&statement, &[&name]).await?;
            Ok(())
        })
        .await
    }

    async fn backlog(&self) -> Result<Backlog, StateError> {
        self.read(|connection| async move {
            let statement = connection.prepare_cached(BACKLOG).await?;
            let most = i64::try_from(MAX_BACKLOG_TAGS).unwrap_or(i64::MAX);
            let rows = connection.query(&statement, &[&most]).await?;
            let mut backlog = Backlog::default();
            for row in rows {
                let jobs = fence(row.get("jobs"));
                match row.get::<_, Option<String>>("tag") {
                    Some(tag) => backlog.by_tag.push((tag, jobs)),
                    None => {
                        let age: Option<f64> = row.get("age");
                        backlog.jobs = jobs;
                        backlog.oldest = age.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default());
                    }
                }
            }
            Ok(backlog)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<(Key, JobState)>, StateError> {
        self.read(|connection| async move {
            let rows = connection.query(&format!("{STATES} ORDER BY job"), &[]).await?;
            let jobs = rows.into_iter().map(|row| Ok((row.get::<_, String>("job").parse()?, state_of(&row))));
            jobs.collect::<Result<_, Failure>>()
        })
        .await
    }

    fn look_every(&self) -> Duration {
        LOOK_EVERY
    }
}

/// The first row counts all waiting jobs, the others those of one tag each. Reads only the index of unparked jobs.
const BACKLOG: &str = "WITH waiting AS MATERIALIZED (
        SELECT tags, greatest(since, until) AS since FROM onetool_jobs WHERE NOT parked AND until <= clock_timestamp())
    (SELECT NULL::text AS tag, count(*) AS jobs,
            extract(epoch FROM clock_timestamp() - min(since))::double precision AS age FROM waiting)
    UNION ALL
    (SELECT tag, count(*), NULL FROM waiting, unnest(tags) AS tag GROUP BY tag ORDER BY count(*) DESC, tag LIMIT $1)";

const STATES: &str = "SELECT job, CASE WHEN until > clock_timestamp() THEN node END AS node, fence,
    parked AND until <= clock_timestamp() AS is_parked, tags FROM onetool_jobs";

fn state_of(row: &tokio_postgres::Row) -> JobState {
    JobState {
        node: row.get("node"),
        fence: fence(row.get("fence")),
        is_parked: row.get("is_parked"),
        tags: row.get("tags"),
    }
}
