//! The tables and their migrations: forward only, each in a transaction, once.
//!
//! Old and new servers run at the same time while a team updates: nothing that the previous version uses is removed or
//! made stricter. A function that a newer version needs differently gets a new name (`onetool_put_2`), and the old one
//! stays until no supported version uses it; it is replaced under its own name only if that also protects old servers.

use tokio_postgres::{Client, Error};

/// Lock held while migrations run, so that servers that start together run them once.
const LOCK: i64 = 0x6f6e_6574_6f6f_6c01;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_state.sql"),
    include_str!("migrations/0002_jobs.sql"),
    include_str!("migrations/0003_blob_age.sql"),
    include_str!("migrations/0004_upkeep.sql"),
];

pub(crate) async fn run(client: &mut Client) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS onetool_migrations (
                 version integer PRIMARY KEY,
                 applied_at timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await?;
    let row = transaction.query_one("SELECT coalesce(max(version), 0) FROM onetool_migrations", &[]).await?;
    let applied: i32 = row.get(0);
    for (number, migration) in (1_i32..).zip(MIGRATIONS).filter(|(number, _)| *number > applied) {
        transaction.batch_execute(migration).await?;
        transaction.execute("INSERT INTO onetool_migrations (version) VALUES ($1)", &[&number]).await?;
        tracing::info!(version = number, "the state database was migrated");
    }
    transaction.commit().await
}
