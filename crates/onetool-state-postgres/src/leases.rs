//! Leases and limits as rows, by the database's clock.

use std::time::Duration;

use async_trait::async_trait;
use onetool_state::StateError;
use onetool_state::interface::{Granted, Lease, Leases, Limits, Rate};

use crate::connection::Database;

pub(crate) fn seconds(ttl: Duration) -> f64 {
    // A year is as good as forever, and fits every clock.
    ttl.as_secs_f64().min(366.0 * 24.0 * 3600.0)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Leases for Database {
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Option<Lease>, StateError> {
        let (lease_name, lease_owner) = (name.to_owned(), owner.to_owned());
        let fence = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "INSERT INTO onetool_leases AS held (name, owner, fence, until)
                         VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
                         ON CONFLICT (name) DO UPDATE
                             SET owner = excluded.owner, fence = held.fence + 1, until = excluded.until
                             WHERE held.until <= clock_timestamp()
                         RETURNING fence",
                    )
                    .await?;
                let row = connection.query_opt(&statement, &[&lease_name, &lease_owner, &seconds(ttl)]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)))
            })
            .await?;
        Ok(fence.map(|fence| Lease {
            name: name.to_owned(),
            owner: owner.to_owned(),
            fence: u64::try_from(fence).unwrap_or_default(),
        }))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StateError> {
        let held = lease.clone();
        let renewed = self
            .run(move |connection| async move {
                let statement = connection
                    .prepare_cached(
                        "UPDATE onetool_leases SET until = clock_timestamp() + make_interval(secs => $4)
                         WHERE name = $1 AND owner = $2 AND fence = $3 AND until > clock_timestamp()",
                    )
                    .await?;
                let fence = i64::try_from(held.fence).unwrap_or(-1);
                Ok(connection.execute(&statement, &[&held.name, &held.owner, &fence, &seconds(ttl)]).await?)
            })
            .await?;
        if renewed == 1 { Ok(()) } else { Err(StateError::LeaseLost(lease.name.clone())) }
    }

    async fn release(&self, lease: &Lease) -> Result<(), StateError> {
        let held = lease.clone();
        self.run(move |connection| async move {
            let statement = connection
                .prepare_cached(
                    "UPDATE onetool_leases SET until = '-infinity' WHERE name = $1 AND owner = $2 AND fence = $3",
                )
                .await?;
            let fence = i64::try_from(held.fence).unwrap_or(-1);
            connection.execute(&statement, &[&held.name, &held.owner, &fence]).await?;
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl Limits for Database {
    async fn take(&self, bucket: &str, wanted: u32, rate: Rate) -> Result<Granted, StateError> {
        if rate.burst == 0 || wanted == 0 {
            return Ok(Granted { tokens: 0, retry_after: (wanted > 0).then_some(rate.period) });
        }
        let bucket = bucket.to_owned();
        let (tokens, retry) = self
            .run(move |connection| async move {
                let statement =
                    connection.prepare_cached("SELECT tokens, retry FROM onetool_take_1($1, $2, $3, $4)").await?;
                let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                    [&bucket, &i64::from(wanted), &i64::from(rate.burst), &micros(rate.period)];
                let row = connection.query_one(&statement, &parameters).await?;
                Ok((row.get::<_, i64>(0), row.get::<_, i64>(1)))
            })
            .await?;
        let retry_after = (tokens == 0).then(|| Duration::from_micros(u64::try_from(retry).unwrap_or_default()));
        Ok(Granted { tokens: u32::try_from(tokens).unwrap_or_default(), retry_after })
    }
}
