//! Rows of long work, each held by one daemon at a time.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::memory::jobs::Tally;

/// Long work as it stands.
#[derive(Debug, Clone)]
pub(crate) struct JobRow {
    pub name: String,
    pub owner: Option<String>,
    /// Rises with every claim.
    pub attempt: i64,
    pub lease_until: Timestamp,
    /// Where to go on.
    pub place: i64,
    /// Conversations or episodes that are done, of `total`.
    pub done: u64,
    pub total: u64,
    pub tally: Tally,
    pub started_at: Option<Timestamp>,
    /// When it last came to its end; `None` while it is in the middle.
    pub finished_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "name, owner, attempt, lease_until, place, done, total, processed, created, merged, skipped, \
                       started_at, finished_at, updated_at";

fn job(row: &Row) -> Result<JobRow, StoreError> {
    Ok(JobRow {
        name: row.get("name")?,
        owner: row.get("owner")?,
        attempt: row.get("attempt")?,
        lease_until: row.get("lease_until")?,
        place: row.get("place")?,
        done: row.get("done")?,
        total: row.get("total")?,
        tally: Tally {
            processed: row.get("processed")?,
            created: row.get("created")?,
            merged: row.get("merged")?,
            skipped: row.get("skipped")?,
        },
        started_at: row.get("started_at")?,
        finished_at: row.get("finished_at")?,
        updated_at: row.get("updated_at")?,
    })
}

pub(crate) async fn list_jobs(read: &mut Read) -> Result<Vec<JobRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory_jobs ORDER BY name");
    read.fetch_all(sql, args![]).await?.iter().map(job).collect()
}

pub(crate) async fn find_job(read: &mut Read, name: &str) -> Result<Option<JobRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory_jobs WHERE name = $1");
    read.fetch_optional(sql, args![name]).await?.as_ref().map(job).transpose()
}

/// Takes the work, unless another run holds it; work that was left in the middle goes on, other begins
/// anew. A daemon that is alone with its database waits for no lease but its own.
pub(crate) async fn claim_job(
    tx: &mut Tx,
    name: &str,
    owner: &str,
    lease: Duration,
) -> Result<Option<JobRow>, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO memory_jobs (name, attempt, lease_until, place, done, total, processed, created, merged, skipped, \
         updated_at) VALUES ($1, 0, 0, 0, 0, 0, 0, 0, 0, 0, $2) ON CONFLICT (name) DO NOTHING",
        args![name, now],
    )
    .await?;
    let Some(found) = find_job(tx, name).await? else { return Ok(None) };
    let is_alone = tx.is_exclusive();
    let is_held = match &found.owner {
        None => false,
        Some(holder) => (!is_alone || holder == owner) && found.lease_until > now,
    };
    if is_held {
        return Ok(None);
    }
    let begins_anew = found.started_at.is_none() || found.finished_at.is_some();
    let sql = if begins_anew {
        "UPDATE memory_jobs SET owner = $2, attempt = attempt + 1, lease_until = $3, done = 0, total = 0, \
         processed = 0, created = 0, merged = 0, skipped = 0, started_at = $4, finished_at = NULL, updated_at = $4 \
         WHERE name = $1 AND attempt = $5"
    } else {
        "UPDATE memory_jobs SET owner = $2, attempt = attempt + 1, lease_until = $3, updated_at = $4 \
         WHERE name = $1 AND attempt = $5"
    };
    if tx.execute(sql, args![name, owner, now + lease, now, found.attempt]).await? == 0 {
        return Ok(None);
    }
    find_job(tx, name).await
}

/// Notes how far the work is and holds it for longer; `false` when it is not held any more.
pub(crate) async fn record_progress(tx: &mut Tx, job: &JobRow, lease: Duration) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let tally = job.tally;
    let updated = tx
        .execute(
            "UPDATE memory_jobs SET lease_until = $4, place = $5, done = $6, total = $7, processed = $8, created = $9, \
             merged = $10, skipped = $11, updated_at = $12 WHERE name = $1 AND owner = $2 AND attempt = $3",
            args![
                &job.name,
                job.owner.as_deref(),
                job.attempt,
                now + lease,
                job.place,
                job.done,
                job.total,
                tally.processed,
                tally.created,
                tally.merged,
                tally.skipped,
                now
            ],
        )
        .await?;
    Ok(updated == 1)
}

/// Holds the work for longer; `false` when it is not held any more.
pub(crate) async fn renew_lease(tx: &mut Tx, job: &JobRow, lease: Duration) -> Result<bool, StoreError> {
    let until = tx.clock().now() + lease;
    let renewed = tx
        .execute(
            "UPDATE memory_jobs SET lease_until = $4 WHERE name = $1 AND owner = $2 AND attempt = $3",
            args![&job.name, job.owner.as_deref(), job.attempt, until],
        )
        .await?;
    Ok(renewed == 1)
}

/// Lets go of the work, at its end or in the middle; `false` when it is not held any more.
pub(crate) async fn release_job(tx: &mut Tx, job: &JobRow, is_finished: bool) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let finished_at = is_finished.then_some(now);
    let updated = tx
        .execute(
            "UPDATE memory_jobs SET owner = NULL, lease_until = 0, finished_at = $4, updated_at = $5 \
             WHERE name = $1 AND owner = $2 AND attempt = $3",
            args![&job.name, job.owner.as_deref(), job.attempt, finished_at, now],
        )
        .await?;
    Ok(updated == 1)
}
