//! Rows of jobs. A deleted job is hidden immediately, and its rows are purged later in batches.

use agentd_base::{Page, Timestamp};
use agentd_core::vault::Vault;
use agentd_engine::agents::AgentId;
use agentd_engine::projects::{ProjectId, live_project_sql};
use agentd_schedule::MisfirePolicy;
use agentd_store::{Args, Read, Row, StoreError, Tx, args, batch_size, row_placeholders};

use super::runs;
use crate::scheduler::model::{Job, JobExecutionMode, JobId, JobStatus, OverlapPolicy, RunStatus};

/// Returns the columns of a job. The project is NULL if it was deleted.
pub(crate) fn columns() -> String {
    format!(
        "id, name, goal, agent_id, schedule, status, delivery, condition, retry, overlap, misfire, execution_mode, \
         time_limit_seconds, model, counted_from, next_run_at, last_run_at, run_count, created_at, updated_at, \
         made_by_agent, {} AS project_id",
        live_project_sql("jobs.project_id")
    )
}

/// Result of a job's last completed run, excluding skipped ones.
const LAST_RUN_STATUS: &str = "(SELECT job_runs.status FROM job_runs WHERE job_runs.job_id = jobs.id \
    AND job_runs.status NOT IN ('pending', 'running', 'skipped') \
    ORDER BY job_runs.created_at DESC, job_runs.id DESC LIMIT 1)";

/// Filter of the job list.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobFilter {
    /// Only jobs whose last run failed or timed out.
    pub(crate) is_failing: bool,
    pub(crate) status: Option<JobStatus>,
    pub(crate) agent: Option<AgentId>,
    pub(crate) project: Option<ProjectId>,
}

pub(crate) fn misfire_name(policy: MisfirePolicy) -> &'static str {
    match policy {
        MisfirePolicy::RunOnce => "run_once",
        MisfirePolicy::Skip => "skip",
        MisfirePolicy::RunAll => "run_all",
    }
}

fn misfire(text: &str) -> MisfirePolicy {
    let all = [MisfirePolicy::RunOnce, MisfirePolicy::Skip, MisfirePolicy::RunAll];
    all.into_iter().find(|policy| misfire_name(*policy) == text).unwrap_or_default()
}

pub(crate) fn job(row: &Row) -> Result<Job, StoreError> {
    let text = |name: &str| row.get::<String>(name);
    let optional_json = |name: &str| row.get::<Option<String>>(name);
    Ok(Job {
        id: row.get("id")?,
        name: row.get("name")?,
        goal: row.get("goal")?,
        agent_id: row.get("agent_id")?,
        project_id: row.get("project_id")?,
        schedule: row.json("schedule")?,
        // The database constraint excludes unknown values.
        status: JobStatus::parse(&text("status")?).unwrap_or(JobStatus::Paused),
        delivery: optional_json("delivery")?.map(|_| row.json("delivery")).transpose()?,
        condition: optional_json("condition")?.map(|_| row.json("condition")).transpose()?,
        retry: row.json("retry")?,
        overlap: OverlapPolicy::parse(&text("overlap")?).unwrap_or(OverlapPolicy::Skip),
        misfire: misfire(&text("misfire")?),
        execution_mode: JobExecutionMode::parse(&text("execution_mode")?).unwrap_or(JobExecutionMode::ApprovalRequired),
        time_limit_seconds: row.get("time_limit_seconds")?,
        model: row.get("model")?,
        counted_from: row.get("counted_from")?,
        next_run_at: row.get("next_run_at")?,
        last_run_at: row.get("last_run_at")?,
        last_run_status: None,
        run_count: row.get("run_count")?,
        made_by_agent: row.get("made_by_agent")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Converts a row that includes the result of the last run.
fn job_with_result(row: &Row) -> Result<Job, StoreError> {
    let status: Option<String> = row.get("last_run_status")?;
    Ok(Job { last_run_status: status.as_deref().and_then(RunStatus::parse), ..job(row)? })
}

/// Returns the vault scope of the credentials in a job's delivery URL.
pub(crate) fn secret_scope(id: &JobId) -> String {
    format!("jobs.{id}")
}

fn json_text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(crate) async fn insert_job(tx: &mut Tx, job: &Job) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO jobs (id, name, goal, agent_id, schedule, status, delivery, condition, retry, overlap, misfire, \
         execution_mode, time_limit_seconds, model, counted_from, next_run_at, last_run_at, run_count, created_at, \
         updated_at, project_id, made_by_agent) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)",
        args![
            &job.id,
            &job.name,
            &job.goal,
            &job.agent_id,
            json_text(&job.schedule),
            job.status.as_str(),
            job.delivery.as_ref().map(json_text),
            job.condition.as_ref().map(json_text),
            json_text(&job.retry),
            job.overlap.as_str(),
            misfire_name(job.misfire),
            job.execution_mode.as_str(),
            job.time_limit_seconds,
            &job.model,
            job.counted_from,
            job.next_run_at,
            job.last_run_at,
            job.run_count,
            job.created_at,
            job.updated_at,
            job.project_id.as_ref(),
            job.made_by_agent
        ],
    )
    .await?;
    Ok(())
}

/// Counts the active jobs created by an agent.
pub(crate) async fn count_made_by(read: &mut Read, agent: &AgentId) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) FROM jobs WHERE agent_id = $1 AND made_by_agent = 1 AND status = 'active' \
               AND deleted_at IS NULL";
    read.fetch_one(sql, args![agent]).await?.first()
}

/// Updates all columns except those written by runs.
pub(crate) async fn update_job(tx: &mut Tx, job: &Job) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET name = $2, goal = $3, agent_id = $4, schedule = $5, status = $6, delivery = $7, \
         condition = $8, retry = $9, overlap = $10, misfire = $11, execution_mode = $12, time_limit_seconds = $13, \
         model = $14, counted_from = $15, next_run_at = $16, updated_at = $17, project_id = $18 WHERE id = $1",
        args![
            &job.id,
            &job.name,
            &job.goal,
            &job.agent_id,
            json_text(&job.schedule),
            job.status.as_str(),
            job.delivery.as_ref().map(json_text),
            job.condition.as_ref().map(json_text),
            json_text(&job.retry),
            job.overlap.as_str(),
            misfire_name(job.misfire),
            job.execution_mode.as_str(),
            job.time_limit_seconds,
            &job.model,
            job.counted_from,
            job.next_run_at,
            job.updated_at,
            job.project_id.as_ref()
        ],
    )
    .await?;
    Ok(())
}

pub(crate) async fn find_job(read: &mut Read, id: &JobId) -> Result<Option<Job>, StoreError> {
    let sql = format!(
        "SELECT {}, {LAST_RUN_STATUS} AS last_run_status FROM jobs WHERE id = $1 AND deleted_at IS NULL",
        columns()
    );
    let row = read.fetch_optional(sql, args![id]).await?;
    row.as_ref().map(job_with_result).transpose()
}

/// Returns a page of jobs, newest first, and the total number of matches.
pub(crate) async fn list_jobs(read: &mut Read, filter: &JobFilter, page: Page) -> Result<(Vec<Job>, u64), StoreError> {
    let mut values = Args::new();
    let mut condition = String::from("deleted_at IS NULL");
    if let Some(status) = filter.status {
        condition.push_str(&format!(" AND status = ${}", values.push(status.as_str())));
    }
    if let Some(agent) = &filter.agent {
        condition.push_str(&format!(" AND agent_id = ${}", values.push(agent)));
    }
    if let Some(project) = &filter.project {
        condition.push_str(&format!(" AND project_id = ${}", values.push(project)));
    }
    if filter.is_failing {
        condition.push_str(&format!(" AND {LAST_RUN_STATUS} IN ('failed', 'timeout')"));
    }
    let count =
        read.fetch_one(format!("SELECT COUNT(*) FROM jobs WHERE {condition}"), values.clone()).await?.first()?;
    let (limit, offset) = (values.push(page.limit), values.push(page.offset));
    let sql = format!(
        "SELECT {columns}, {LAST_RUN_STATUS} AS last_run_status FROM jobs WHERE {condition} \
         ORDER BY created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}",
        columns = columns()
    );
    let rows = read.fetch_all(sql, values).await?;
    Ok((rows.iter().map(job_with_result).collect::<Result<_, _>>()?, count))
}

/// Returns when the next job is due, with a single index lookup.
pub(crate) async fn next_due(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT next_run_at FROM jobs WHERE next_run_at IS NOT NULL ORDER BY next_run_at, id LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("next_run_at")).transpose()
}

/// Locks and returns due jobs, oldest due time first. Jobs locked by other transactions are omitted.
pub(crate) async fn take_due(tx: &mut Tx, now: Timestamp, limit: u32) -> Result<Vec<Job>, StoreError> {
    let locked = tx.dialect().skip_locked();
    let sql = format!(
        "SELECT {columns} FROM jobs WHERE next_run_at IS NOT NULL AND next_run_at <= $1 \
         ORDER BY next_run_at, id LIMIT $2 {locked}",
        columns = columns()
    );
    let rows = tx.fetch_all(sql, args![now, limit]).await?;
    rows.iter().map(job).collect()
}

/// Updates the position and the next due time of jobs.
pub(crate) async fn advance_jobs(
    tx: &mut Tx,
    moved: &[(JobId, Timestamp, Option<Timestamp>)],
) -> Result<(), StoreError> {
    let mut left = moved;
    while !left.is_empty() {
        let (now, rest) = left.split_at(batch_size(left.len()));
        let mut values = Args::with_capacity(3 * now.len());
        for (id, counted_from, next_run_at) in now {
            values.push(id);
            values.push(*counted_from);
            values.push(*next_run_at);
        }
        let sql = format!(
            "UPDATE jobs SET counted_from = v.column2, next_run_at = v.column3 \
             FROM (VALUES {}) AS v WHERE jobs.id = v.column1",
            row_placeholders(1, 3, now.len())
        );
        tx.execute(sql, values).await?;
        left = rest;
    }
    Ok(())
}

/// Records that a run of the job has started.
pub(crate) async fn record_start(tx: &mut Tx, id: &JobId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE jobs SET last_run_at = $2, run_count = run_count + 1 WHERE id = $1";
    tx.execute(sql, args![id, now]).await.map(|_| ())
}

/// Closes a one-time job after its run, even if it was paused meanwhile.
pub(crate) async fn close_job(tx: &mut Tx, id: &JobId, status: JobStatus) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE jobs SET status = $2, next_run_at = NULL, updated_at = $3 \
               WHERE id = $1 AND status IN ('active', 'paused')";
    tx.execute(sql, args![id, status.as_str(), now]).await.map(|_| ())
}

/// Removes a deleted project from up to `limit` jobs and returns their number.
pub(crate) async fn release_project(tx: &mut Tx, project: &ProjectId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE jobs SET project_id = NULL WHERE id IN (SELECT id FROM jobs WHERE project_id = $1 LIMIT $2)",
        args![project, limit],
    )
    .await
}

/// Marks a job as deleted. Returns whether it existed.
pub(crate) async fn mark_deleted(tx: &mut Tx, id: &JobId, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE jobs SET deleted_at = $2, next_run_at = NULL WHERE id = $1 AND deleted_at IS NULL";
    Ok(tx.execute(sql, args![id, now]).await? == 1)
}

/// Marks all jobs of an agent as deleted.
pub(crate) async fn mark_deleted_of_agent(tx: &mut Tx, agent: &AgentId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE jobs SET deleted_at = $2, next_run_at = NULL WHERE agent_id = $1 AND deleted_at IS NULL";
    tx.execute(sql, args![agent, now]).await.map(|_| ())
}

/// Purges up to about `limit` rows of deleted jobs, runs first, and returns their number.
pub(crate) async fn purge_deleted(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM jobs WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT $1";
    let ids: Vec<JobId> =
        tx.fetch_all(sql, args![limit]).await?.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
    let mut left = u64::from(limit);
    for id in &ids {
        let deleted = runs::delete_of_job(tx, id, left).await?;
        left = left.saturating_sub(deleted + 1);
        if left == 0 {
            return Ok(u64::from(limit));
        }
        Vault::clear_scope(tx, &secret_scope(id)).await?;
        tx.execute("DELETE FROM jobs WHERE id = $1", args![id]).await?;
    }
    Ok(u64::from(limit) - left)
}

/// Returns existing jobs ordered by id, for validation. Rows that cannot be parsed are returned as errors.
pub(crate) async fn list_after(
    read: &mut Read,
    after: &str,
    limit: u32,
) -> Result<Vec<(String, Result<Job, StoreError>)>, StoreError> {
    let sql = format!("SELECT {} FROM jobs WHERE id > $1 AND deleted_at IS NULL ORDER BY id LIMIT $2", columns());
    let rows = read.fetch_all(sql, args![after, limit]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, job(row)))).collect()
}

pub(crate) async fn has_due_deleted_job(read: &mut Read) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM jobs WHERE next_run_at IS NOT NULL AND deleted_at IS NOT NULL LIMIT 1";
    Ok(read.fetch_optional(sql, args![]).await?.is_some())
}
