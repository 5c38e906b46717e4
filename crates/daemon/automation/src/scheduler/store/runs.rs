//! Rows of runs.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::{Page, Timestamp};
use agentd_engine::agents::AgentId;
use agentd_engine::engine::SessionId;
use agentd_store::{Args, Read, Row, StoreError, Tx, args, batch_size, in_list, row_placeholders};

use crate::scheduler::activity::ACTIVITY_QUARTER_MICROS;
use crate::scheduler::model::run::Outcome;
use crate::scheduler::model::{JobId, Run, RunCause, RunId, RunStatus, StopReason};

pub(crate) const COLUMNS: &str = "id, job_id, agent_id, scheduled_for, cause, status, may_overlap, due_at, \
    attempt, fence, owner, session_id, deadline_at, stop_reason, output, error, created_at, started_at, completed_at";
const COLUMN_COUNT: usize = 19;
/// Retention of the counts of deleted runs. Covers the current day in every time zone.
const DELETED_COUNT_RETENTION: Duration = Duration::from_secs(3 * 86_400);

pub(crate) fn run(row: &Row) -> Result<Run, StoreError> {
    let text = |name: &str| row.get::<String>(name);
    Ok(Run {
        id: row.get("id")?,
        job_id: row.get("job_id")?,
        agent_id: row.get("agent_id")?,
        scheduled_for: row.get("scheduled_for")?,
        // The database constraint excludes unknown values.
        cause: RunCause::parse(&text("cause")?).unwrap_or(RunCause::Schedule),
        status: RunStatus::parse(&text("status")?).unwrap_or(RunStatus::Failed),
        may_overlap: row.get("may_overlap")?,
        due_at: row.get("due_at")?,
        attempt: row.get("attempt")?,
        fence: row.get("fence")?,
        owner: row.get("owner")?,
        session_id: row.get("session_id")?,
        deadline_at: row.get("deadline_at")?,
        stop_reason: row.get::<Option<String>>("stop_reason")?.as_deref().and_then(StopReason::parse),
        output: row.get("output")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
    })
}

/// Inserts runs, ignoring slots that already have one. Returns the ids of the inserted runs.
pub(crate) async fn insert_runs(tx: &mut Tx, runs: &[Run]) -> Result<Vec<RunId>, StoreError> {
    let mut left = runs;
    let mut added = Vec::with_capacity(runs.len());
    while !left.is_empty() {
        let (now, rest) = left.split_at(batch_size(left.len()));
        let mut values = Args::with_capacity(COLUMN_COUNT * now.len());
        for run in now {
            values.push(&run.id);
            values.push(&run.job_id);
            values.push(&run.agent_id);
            values.push(run.scheduled_for);
            values.push(run.cause.as_str());
            values.push(run.status.as_str());
            values.push(run.may_overlap);
            values.push(run.due_at);
            values.push(run.attempt);
            values.push(run.fence);
            values.push(&run.owner);
            values.push(run.session_id.as_ref().map(SessionId::as_str));
            values.push(run.deadline_at);
            values.push(run.stop_reason.map(StopReason::as_str));
            values.push(&run.output);
            values.push(&run.error);
            values.push(run.created_at);
            values.push(run.started_at);
            values.push(run.completed_at);
        }
        let sql = format!(
            "INSERT INTO job_runs ({COLUMNS}) VALUES {} ON CONFLICT (job_id, scheduled_for) DO NOTHING RETURNING id",
            row_placeholders(1, COLUMN_COUNT, now.len())
        );
        for row in tx.fetch_all(sql, values).await? {
            added.push(row.get("id")?);
        }
        left = rest;
    }
    Ok(added)
}

/// Returns the open runs of the given jobs.
pub(crate) async fn list_open(read: &mut Read, jobs: &[JobId]) -> Result<Vec<Run>, StoreError> {
    let mut open = Vec::new();
    for jobs in jobs.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, jobs);
        let sql = format!(
            "SELECT {COLUMNS} FROM job_runs WHERE status IN ('pending', 'running') AND job_id IN ({list}) ORDER BY id"
        );
        for row in read.fetch_all(sql, values).await? {
            open.push(run(&row)?);
        }
    }
    Ok(open)
}

pub(crate) async fn find_run(read: &mut Read, job: &JobId, id: &RunId) -> Result<Option<Run>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM job_runs WHERE id = $1 AND job_id = $2");
    let row = read.fetch_optional(sql, args![id, job]).await?;
    row.as_ref().map(run).transpose()
}

/// Returns the running run whose current attempt has the given session.
pub(crate) async fn find_by_session(read: &mut Read, session: &SessionId) -> Result<Option<Run>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM job_runs WHERE session_id = $1 AND status = 'running'");
    let row = read.fetch_optional(sql, args![session]).await?;
    row.as_ref().map(run).transpose()
}

/// Returns the last completed run of a job.
pub(crate) async fn find_last_ended(read: &mut Read, job: &JobId) -> Result<Option<Run>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM job_runs WHERE job_id = $1 AND status IN ('success', 'failed', 'timeout', 'cancelled') \
         ORDER BY created_at DESC, id DESC LIMIT 1"
    );
    let row = read.fetch_optional(sql, args![job]).await?;
    row.as_ref().map(run).transpose()
}

/// Returns runs that failed since `since` and are the latest of their jobs, oldest first, with the job's name and goal.
pub(crate) async fn list_failed(
    read: &mut Read,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<(Run, String, String)>, StoreError> {
    let of_run: Vec<String> = COLUMNS.split(", ").map(|column| format!("r.{}", column.trim())).collect();
    let sql = format!(
        "SELECT {}, j.name AS job_name, j.goal AS job_goal FROM job_runs r JOIN jobs j ON j.id = r.job_id \
         WHERE r.completed_at >= $1 AND r.status IN ('failed', 'timeout') AND j.deleted_at IS NULL \
         AND NOT EXISTS (SELECT 1 FROM job_runs n WHERE n.job_id = r.job_id \
         AND n.status IN ('success', 'failed', 'timeout') AND (n.created_at, n.id) > (r.created_at, r.id)) \
         ORDER BY r.completed_at, r.id LIMIT $2",
        of_run.join(", ")
    );
    let rows = read.fetch_all(sql, args![since, limit]).await?;
    rows.iter().map(|row| Ok((run(row)?, row.get("job_name")?, row.get("job_goal")?))).collect()
}

/// Returns a page of runs, newest first, and the total number of matches.
pub(crate) async fn list_runs(
    read: &mut Read,
    job: &JobId,
    status: Option<RunStatus>,
    page: Page,
) -> Result<(Vec<Run>, u64), StoreError> {
    let mut values = args![job];
    let mut condition = String::from("job_id = $1");
    if let Some(status) = status {
        condition.push_str(&format!(" AND status = ${}", values.push(status.as_str())));
    }
    let sql = format!("SELECT COUNT(*) FROM job_runs WHERE {condition}");
    let total = read.fetch_one(sql, values.clone()).await?.first()?;
    let (limit, offset) = (values.push(page.limit), values.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM job_runs WHERE {condition} ORDER BY created_at DESC, id DESC \
         LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, values).await?;
    Ok((rows.iter().map(run).collect::<Result<_, _>>()?, total))
}

/// Ends an open run. Returns false if it had already ended.
pub(crate) async fn end_run(tx: &mut Tx, id: &RunId, attempt: u32, outcome: &Outcome) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let ended = tx
        .execute(
            "UPDATE job_runs SET status = $2, attempt = $3, output = $4, error = $5, completed_at = $6, due_at = NULL, \
             deadline_at = NULL, owner = NULL WHERE id = $1 AND status IN ('pending', 'running')",
            args![id, outcome.status.as_str(), attempt, outcome.output.as_deref(), outcome.error.as_deref(), now],
        )
        .await?;
    Ok(ended == 1)
}

/// Schedules the next attempt of a failed run at `due_at`. The error stays visible until then.
pub(crate) async fn schedule_retry(
    tx: &mut Tx,
    id: &RunId,
    attempt: u32,
    error: Option<&str>,
    due_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE job_runs SET status = 'pending', attempt = $2, error = $3, due_at = $4, deadline_at = NULL, \
         stop_reason = NULL, owner = NULL WHERE id = $1 AND status = 'running'",
        args![id, attempt, error, due_at],
    )
    .await
    .map(|_| ())
}

/// Records why a running run is stopped. The first reason is retained.
pub(crate) async fn request_stop(tx: &mut Tx, id: &RunId, reason: StopReason) -> Result<(), StoreError> {
    let sql = "UPDATE job_runs SET stop_reason = COALESCE(stop_reason, $2), deadline_at = NULL \
               WHERE id = $1 AND status = 'running'";
    tx.execute(sql, args![id, reason.as_str()]).await.map(|_| ())
}

/// Returns the open runs of an agent.
pub(crate) async fn list_open_of_agent(read: &mut Read, agent: &AgentId) -> Result<Vec<Run>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM job_runs WHERE status IN ('pending', 'running') \
         AND job_id IN (SELECT id FROM jobs WHERE agent_id = $1)"
    );
    let rows = read.fetch_all(sql, args![agent]).await?;
    rows.iter().map(run).collect()
}

/// Deletes up to `limit` runs that ended before `before` and returns their number.
pub(crate) async fn purge_runs(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM job_runs WHERE id IN \
         (SELECT id FROM job_runs WHERE completed_at < $1 ORDER BY completed_at LIMIT $2)",
        args![before, limit],
    )
    .await
}

/// Deletes up to `limit` of a job's runs beyond the newest `max_count` and returns their number.
pub(crate) async fn trim_runs(tx: &mut Tx, job: &JobId, max_count: u32, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM job_runs WHERE id IN (SELECT id FROM job_runs WHERE job_id = $1 \
         ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $2) AND completed_at IS NOT NULL RETURNING created_at";
    let deleted = tx.fetch_all(sql, args![job, max_count, limit]).await?;
    record_deleted(tx, &deleted).await?;
    Ok(deleted.len() as u64)
}

/// Deletes up to `limit` runs of a job and returns their number.
pub(crate) async fn delete_of_job(tx: &mut Tx, job: &JobId, limit: u64) -> Result<u64, StoreError> {
    let sql = "DELETE FROM job_runs WHERE id IN (SELECT id FROM job_runs WHERE job_id = $1 ORDER BY id LIMIT $2) \
         RETURNING created_at";
    let deleted = tx.fetch_all(sql, args![job, limit]).await?;
    record_deleted(tx, &deleted).await?;
    Ok(u64::try_from(deleted.len()).unwrap_or(u64::MAX))
}

/// Counts recently deleted runs, so that the daily totals still include them.
async fn record_deleted(tx: &mut Tx, rows: &[Row]) -> Result<(), StoreError> {
    let since = tx.clock().now() - DELETED_COUNT_RETENTION;
    let mut quarters: BTreeMap<i64, u64> = BTreeMap::new();
    for row in rows {
        let created_at: Timestamp = row.get("created_at")?;
        if created_at >= since {
            *quarters.entry(created_at.as_micros() / ACTIVITY_QUARTER_MICROS).or_default() += 1;
        }
    }
    for (quarter, runs) in quarters {
        let sql = "INSERT INTO job_runs_gone (quarter, runs) VALUES ($1, $2) \
                   ON CONFLICT (quarter) DO UPDATE SET runs = job_runs_gone.runs + excluded.runs";
        tx.execute(sql, args![quarter, runs]).await?;
    }
    Ok(())
}

/// Deletes expired counts of deleted runs.
pub(crate) async fn purge_deleted_counts(tx: &mut Tx, now: Timestamp) -> Result<(), StoreError> {
    let before = (now - DELETED_COUNT_RETENTION).as_micros() / ACTIVITY_QUARTER_MICROS;
    tx.execute("DELETE FROM job_runs_gone WHERE quarter < $1", args![before]).await.map(|_| ())
}
