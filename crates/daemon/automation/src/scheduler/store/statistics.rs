//! Statistics of jobs and runs.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_store::{Args, Read, StoreError, args};

use crate::scheduler::activity::ACTIVITY_QUARTER_MICROS;
use crate::scheduler::model::JobId;

/// Number of runs in one state, and their total duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFigures {
    pub(crate) status: String,
    pub(crate) runs: u64,
    /// Number of runs with a start and an end.
    pub(crate) begun: u64,
    pub(crate) duration_micros: u64,
}

pub(crate) async fn count_jobs(read: &mut Read) -> Result<BTreeMap<String, u64>, StoreError> {
    let sql = "SELECT status, COUNT(*) AS jobs FROM jobs WHERE deleted_at IS NULL GROUP BY status";
    let rows = read.fetch_all(sql, args![]).await?;
    rows.iter().map(|row| Ok((row.get("status")?, row.get("jobs")?))).collect()
}

/// Counts the active jobs with a next run.
pub(crate) async fn count_active(read: &mut Read) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) FROM jobs WHERE next_run_at IS NOT NULL";
    read.fetch_one(sql, args![]).await?.first()
}

async fn figures(read: &mut Read, condition: &str, values: Args) -> Result<Vec<RunFigures>, StoreError> {
    let sql = format!(
        "SELECT status, COUNT(*) AS runs, \
         CAST(COALESCE(SUM(CASE WHEN started_at IS NOT NULL AND completed_at IS NOT NULL THEN 1 ELSE 0 END), 0) AS BIGINT) \
         AS begun, \
         CAST(COALESCE(SUM(CASE WHEN started_at IS NOT NULL AND completed_at IS NOT NULL THEN completed_at - started_at \
         ELSE 0 END), 0) AS BIGINT) AS duration \
         FROM job_runs WHERE {condition} GROUP BY status ORDER BY status"
    );
    let rows = read.fetch_all(sql, values).await?;
    rows.iter()
        .map(|row| {
            Ok(RunFigures {
                status: row.get("status")?,
                runs: row.get("runs")?,
                begun: row.get("begun")?,
                duration_micros: u64::try_from(row.get::<i64>("duration")?).unwrap_or(0),
            })
        })
        .collect()
}

/// Returns statistics of runs created since `since`.
pub(crate) async fn figures_since(read: &mut Read, since: Timestamp) -> Result<Vec<RunFigures>, StoreError> {
    figures(read, "created_at >= $1", args![since]).await
}

/// Returns statistics of all retained runs of a job.
pub(crate) async fn figures_of_job(read: &mut Read, job: &JobId) -> Result<Vec<RunFigures>, StoreError> {
    figures(read, "job_id = $1", args![job]).await
}

/// Counts the runs created since `since`, including deleted ones.
pub(crate) async fn count_runs_since(read: &mut Read, since: Timestamp) -> Result<u64, StoreError> {
    let retained: u64 =
        read.fetch_one("SELECT COUNT(*) FROM job_runs WHERE created_at >= $1", args![since]).await?.first()?;
    // The days of every time zone start at a quarter of an hour.
    let first = since.as_micros() / ACTIVITY_QUARTER_MICROS;
    let sql = "SELECT CAST(COALESCE(SUM(runs), 0) AS BIGINT) FROM job_runs_gone WHERE quarter >= $1";
    let deleted: u64 = read.fetch_one(sql, args![first]).await?.first()?;
    Ok(retained + deleted)
}

/// Returns the highest number of failed runs of any job since `since` and since the job's last success.
pub(crate) async fn max_consecutive_failures(read: &mut Read, since: Timestamp) -> Result<u64, StoreError> {
    let sql = "WITH ended AS (SELECT job_id, status, completed_at FROM job_runs \
               WHERE completed_at >= $1 AND status IN ('success', 'failed', 'timeout')) \
               SELECT COALESCE(MAX(failed), 0) FROM (SELECT COUNT(*) AS failed FROM ended LEFT JOIN \
               (SELECT job_id, MAX(completed_at) AS at FROM ended WHERE status = 'success' GROUP BY job_id) AS well \
               ON well.job_id = ended.job_id \
               WHERE ended.status <> 'success' AND (well.at IS NULL OR ended.completed_at > well.at) \
               GROUP BY ended.job_id) AS jobs";
    read.fetch_one(sql, args![since]).await?.first()
}
