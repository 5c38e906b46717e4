//! Queries for the calendar and for owner activity.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::{Read, StoreError, args};

use super::jobs::{columns, job};
use crate::scheduler::activity::{ACTIVITY_QUARTER_MICROS, Activity};
use crate::scheduler::model::{Job, JobId, RunId, RunStatus};

/// A run in the calendar.
#[derive(Debug, Clone)]
pub(crate) struct CalendarRun {
    pub(crate) run_id: RunId,
    pub(crate) job_id: JobId,
    pub(crate) agent_id: AgentId,
    pub(crate) name: String,
    pub(crate) at: Timestamp,
    pub(crate) status: RunStatus,
}

/// Returns runs within a time range, earliest first.
pub(crate) async fn list_runs(
    read: &mut Read,
    from: Timestamp,
    until: Timestamp,
    limit: u32,
) -> Result<Vec<CalendarRun>, StoreError> {
    // The row of a slot is inserted when it is due or later, so the index on `created_at` bounds the scan.
    let sql = "SELECT job_runs.id, job_runs.job_id, job_runs.agent_id, jobs.name, job_runs.status, \
        COALESCE(job_runs.scheduled_for, job_runs.created_at) AS at \
        FROM job_runs JOIN jobs ON jobs.id = job_runs.job_id \
        WHERE job_runs.created_at >= $1 AND jobs.deleted_at IS NULL \
        AND COALESCE(job_runs.scheduled_for, job_runs.created_at) >= $1 \
        AND COALESCE(job_runs.scheduled_for, job_runs.created_at) < $2 \
        ORDER BY at, job_runs.id LIMIT $3";
    let rows = read.fetch_all(sql, args![from, until, limit]).await?;
    rows.iter()
        .map(|row| {
            let status: String = row.get("status")?;
            Ok(CalendarRun {
                run_id: row.get("id")?,
                job_id: row.get("job_id")?,
                agent_id: row.get("agent_id")?,
                name: row.get("name")?,
                at: row.get("at")?,
                // The database constraint excludes unknown values.
                status: RunStatus::parse(&status).unwrap_or(RunStatus::Failed),
            })
        })
        .collect()
}

/// Returns active jobs that are due before `until`, earliest first.
pub(crate) async fn list_due_before(read: &mut Read, until: Timestamp, limit: u32) -> Result<Vec<Job>, StoreError> {
    let sql = format!("SELECT {} FROM jobs WHERE next_run_at < $1 ORDER BY next_run_at, id LIMIT $2", columns());
    read.fetch_all(sql, args![until, limit]).await?.iter().map(job).collect()
}

/// Returns the number of manually started runs by 15-minute period.
pub(crate) async fn activity_since(read: &mut Read, since: Timestamp) -> Result<Vec<Activity>, StoreError> {
    let sql = "SELECT created_at / $2 AS quarter, COUNT(*) AS runs FROM job_runs \
        WHERE created_at >= $1 AND cause = 'manual' GROUP BY quarter ORDER BY quarter";
    let rows = read.fetch_all(sql, args![since, ACTIVITY_QUARTER_MICROS]).await?;
    rows.iter()
        .map(|row| {
            let quarter: i64 = row.get("quarter")?;
            Ok(Activity { at: Timestamp::from_micros(quarter * ACTIVITY_QUARTER_MICROS), count: row.get("runs")? })
        })
        .collect()
}
