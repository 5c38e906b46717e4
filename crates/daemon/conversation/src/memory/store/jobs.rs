//! Rows of jobs, each leased by at most one daemon.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{self, HeldRow};
use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::memory::jobs::Tally;

/// State of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobRow {
    pub name: String,
    /// Expiry of the lease; in the past if it was released.
    pub held_until: Option<Timestamp>,
    /// Position to continue from.
    pub place: i64,
    /// Number of processed conversations or episodes, out of `total`.
    pub done: u64,
    pub total: u64,
    pub tally: Tally,
    pub started_at: Option<Timestamp>,
    /// Time of the last completion; `None` while a run is unfinished.
    pub finished_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "name, place, done, total, processed, created, merged, skipped, started_at, finished_at, updated_at, \
                       (SELECT lease_until FROM leases WHERE leases.name = 'memory.' || memory_jobs.name) AS held_until";

fn lease_name(job: &str) -> String {
    format!("memory.{job}")
}

fn job(row: &Row) -> Result<JobRow, StoreError> {
    Ok(JobRow {
        name: row.get("name")?,
        held_until: row.get("held_until")?,
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

/// Claims a job unless another run holds it. An unfinished run is continued, a finished one starts over.
pub(crate) async fn claim_job(
    tx: &mut Tx,
    name: &str,
    owner: &str,
    length: Duration,
) -> Result<Option<(HeldRow, JobRow)>, StoreError> {
    let Some(held) = lease::acquire(tx, &lease_name(name), owner, None, length).await? else { return Ok(None) };
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO memory_jobs (name, place, done, total, processed, created, merged, skipped, started_at, updated_at) \
         VALUES ($1, 0, 0, 0, 0, 0, 0, 0, $2, $2) ON CONFLICT (name) DO UPDATE SET updated_at = excluded.updated_at",
        args![name, now],
    )
    .await?;
    let reset_progress = "UPDATE memory_jobs SET done = 0, total = 0, processed = 0, created = 0, merged = 0, skipped = 0, \
                       started_at = $2, finished_at = NULL WHERE name = $1 AND finished_at IS NOT NULL";
    tx.execute(reset_progress, args![name, now]).await?;
    let row = find_job(tx, name).await?;
    Ok(row.map(|row| (held, row)))
}

/// Saves the progress of a job and renews its lease.
///
/// # Errors
/// `StoreError::LostLease`, or the database fails.
pub(crate) async fn record_progress(
    tx: &mut Tx,
    held: &HeldRow,
    job: &JobRow,
    length: Duration,
) -> Result<(), StoreError> {
    held.extend(tx, length).await?;
    let now = tx.clock().now();
    let tally = job.tally;
    tx.execute(
        "UPDATE memory_jobs SET place = $2, done = $3, total = $4, processed = $5, created = $6, merged = $7, \
         skipped = $8, updated_at = $9 WHERE name = $1",
        args![
            &job.name,
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
    .await
    .map(|_| ())
}

/// Releases a job, finished or not.
///
/// # Errors
/// `StoreError::LostLease`, or the database fails.
pub(crate) async fn release_job(tx: &mut Tx, held: &HeldRow, name: &str, is_finished: bool) -> Result<(), StoreError> {
    lease::release(tx, held).await?;
    let now = tx.clock().now();
    let finished_at = is_finished.then_some(now);
    let sql = "UPDATE memory_jobs SET finished_at = $2, updated_at = $3 WHERE name = $1";
    tx.execute(sql, args![name, finished_at, now]).await.map(|_| ())
}
