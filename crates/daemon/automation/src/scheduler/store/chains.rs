//! Rows of chains, chain runs and their steps.

use agentd_base::{Page, Timestamp};
use agentd_engine::agents::AgentId;
use agentd_store::{Read, Row, StoreError, Tx, args, in_list};

use crate::scheduler::model::{
    Chain, ChainCause, ChainId, ChainRun, ChainRunId, ChainRunStatus, ChainStep, JobId, RunId, RunStatus,
};

pub(crate) async fn insert_chain(tx: &mut Tx, chain: &Chain) -> Result<(), StoreError> {
    let edges = serde_json::to_string(&chain.edges).unwrap_or_default();
    tx.execute(
        "INSERT INTO job_chains (id, name, edges, created_at) VALUES ($1, $2, $3, $4)",
        args![&chain.id, &chain.name, edges, chain.created_at],
    )
    .await?;
    let roots: Vec<JobId> = chain.roots().into_iter().cloned().collect();
    for (position, job) in chain.jobs.iter().enumerate() {
        tx.execute(
            "INSERT INTO chain_jobs (chain_id, job_id, position, is_root) VALUES ($1, $2, $3, $4)",
            args![&chain.id, job, position, roots.contains(job)],
        )
        .await?;
    }
    Ok(())
}

async fn with_jobs(read: &mut Read, row: &Row) -> Result<Chain, StoreError> {
    let id: ChainId = row.get("id")?;
    let jobs =
        read.fetch_all("SELECT job_id FROM chain_jobs WHERE chain_id = $1 ORDER BY position", args![&id]).await?;
    Ok(Chain {
        id,
        name: row.get("name")?,
        jobs: jobs.iter().map(|row| row.get("job_id")).collect::<Result<_, _>>()?,
        edges: row.json("edges")?,
        created_at: row.get("created_at")?,
    })
}

pub(crate) async fn find_chain(read: &mut Read, id: &ChainId) -> Result<Option<Chain>, StoreError> {
    let sql = "SELECT id, name, edges, created_at FROM job_chains WHERE id = $1";
    match read.fetch_optional(sql, args![id]).await? {
        Some(row) => Ok(Some(with_jobs(read, &row).await?)),
        None => Ok(None),
    }
}

/// Returns a page of chains, newest first, and their total number.
pub(crate) async fn list_chains(read: &mut Read, page: Page) -> Result<(Vec<Chain>, u64), StoreError> {
    let total = read.fetch_one("SELECT COUNT(*) FROM job_chains", args![]).await?.first()?;
    let sql = "SELECT id, name, edges, created_at FROM job_chains ORDER BY created_at DESC, id DESC LIMIT $1 OFFSET $2";
    let mut chains = Vec::new();
    for row in read.fetch_all(sql, args![page.limit, page.offset]).await? {
        chains.push(with_jobs(read, &row).await?);
    }
    Ok((chains, total))
}

/// Deletes a chain with its chain runs, but not the runs of its jobs. Returns whether it existed.
pub(crate) async fn delete_chain(tx: &mut Tx, id: &ChainId) -> Result<bool, StoreError> {
    tx.execute(
        "DELETE FROM chain_steps WHERE chain_run_id IN (SELECT id FROM chain_runs WHERE chain_id = $1)",
        args![id],
    )
    .await?;
    tx.execute("DELETE FROM chain_runs WHERE chain_id = $1", args![id]).await?;
    tx.execute("DELETE FROM chain_jobs WHERE chain_id = $1", args![id]).await?;
    Ok(tx.execute("DELETE FROM job_chains WHERE id = $1", args![id]).await? == 1)
}

/// Returns the chains that contain a job, or only those in which it is a root.
pub(crate) async fn list_chains_of_job(
    read: &mut Read,
    job: &JobId,
    only_as_root: bool,
) -> Result<Vec<Chain>, StoreError> {
    let sql = "SELECT id, name, edges, created_at FROM job_chains WHERE id IN \
               (SELECT chain_id FROM chain_jobs WHERE job_id = $1 AND is_root >= $2) ORDER BY id";
    let mut chains = Vec::new();
    for row in read.fetch_all(sql, args![job, only_as_root]).await? {
        chains.push(with_jobs(read, &row).await?);
    }
    Ok(chains)
}

/// Removes the jobs of an agent, and jobs reachable only through them, from chains. Deletes chains that become empty.
pub(crate) async fn remove_agent_jobs(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    let sql = "SELECT DISTINCT chain_id FROM chain_jobs WHERE job_id IN (SELECT id FROM jobs WHERE agent_id = $1)";
    let rows = tx.fetch_all(sql, args![agent]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let removed = tx.fetch_all("SELECT id FROM jobs WHERE agent_id = $1", args![agent]).await?;
    let removed: Vec<JobId> = removed.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
    for row in rows {
        let id = row.get("chain_id")?;
        let Some(chain) = find_chain(tx, &id).await? else { continue };
        let Some(left) = chain.without(&removed) else {
            delete_chain(tx, &id).await?;
            continue;
        };
        let edges = serde_json::to_string(&left.edges).unwrap_or_default();
        tx.execute("UPDATE job_chains SET edges = $2 WHERE id = $1", args![&id, edges]).await?;
        for job in chain.jobs.iter().filter(|job| !left.jobs.contains(job)) {
            tx.execute("DELETE FROM chain_jobs WHERE chain_id = $1 AND job_id = $2", args![&id, job]).await?;
        }
    }
    Ok(())
}

/// Returns which of the given jobs exist.
pub(crate) async fn known_jobs(read: &mut Read, jobs: &[JobId]) -> Result<Vec<JobId>, StoreError> {
    let mut values = args![];
    let list = in_list(&mut values, jobs);
    let sql = format!("SELECT id FROM jobs WHERE deleted_at IS NULL AND id IN ({list})");
    read.fetch_all(sql, values).await?.iter().map(|row| row.get("id")).collect()
}

pub(crate) async fn insert_chain_run(
    tx: &mut Tx,
    id: &ChainRunId,
    chain: &ChainId,
    cause: ChainCause,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO chain_runs (id, chain_id, cause, status, started_at) VALUES ($1, $2, $3, 'running', $4)",
        args![id, chain, cause.as_str(), now],
    )
    .await
    .map(|_| ())
}

/// Inserts a step. Returns false if the job already has one in this chain run.
pub(crate) async fn insert_step(tx: &mut Tx, chain_run: &ChainRunId, step: &ChainStep) -> Result<bool, StoreError> {
    let added = tx
        .execute(
            "INSERT INTO chain_steps (chain_run_id, job_id, run_id, status) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (chain_run_id, job_id) DO NOTHING",
            args![chain_run, &step.job_id, &step.run_id, step.status.as_str()],
        )
        .await?;
    Ok(added == 1)
}

/// Records the result of a run in its chain steps. Returns the running chain runs that contain it, with their chains.
pub(crate) async fn record_step_result(
    tx: &mut Tx,
    run: &RunId,
    status: RunStatus,
) -> Result<Vec<(ChainRunId, ChainId)>, StoreError> {
    let noted = tx.execute("UPDATE chain_steps SET status = $2 WHERE run_id = $1", args![run, status.as_str()]).await?;
    if noted == 0 {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, chain_id FROM chain_runs WHERE status = 'running' AND id IN \
               (SELECT chain_run_id FROM chain_steps WHERE run_id = $1) ORDER BY id";
    let rows = tx.fetch_all(sql, args![run]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("chain_id")?))).collect()
}

pub(crate) async fn list_steps(read: &mut Read, chain_run: &ChainRunId) -> Result<Vec<ChainStep>, StoreError> {
    let sql = "SELECT s.job_id, s.run_id, COALESCE(r.status, s.status) AS status FROM chain_steps s \
               LEFT JOIN job_runs r ON r.id = s.run_id WHERE s.chain_run_id = $1 ORDER BY s.run_id";
    let rows = read.fetch_all(sql, args![chain_run]).await?;
    rows.iter()
        .map(|row| {
            Ok(ChainStep {
                job_id: row.get("job_id")?,
                run_id: row.get("run_id")?,
                status: RunStatus::parse(&row.get::<String>("status")?).unwrap_or(RunStatus::Failed),
            })
        })
        .collect()
}

pub(crate) async fn end_chain_run(tx: &mut Tx, id: &ChainRunId, status: ChainRunStatus) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE chain_runs SET status = $2, completed_at = $3 WHERE id = $1 AND status = 'running'",
        args![id, status.as_str(), now],
    )
    .await
    .map(|_| ())
}

async fn with_steps(read: &mut Read, row: &Row) -> Result<ChainRun, StoreError> {
    let id: ChainRunId = row.get("id")?;
    Ok(ChainRun {
        chain_id: row.get("chain_id")?,
        // The database constraint excludes unknown values.
        cause: ChainCause::parse(&row.get::<String>("cause")?).unwrap_or(ChainCause::Job),
        status: ChainRunStatus::parse(&row.get::<String>("status")?).unwrap_or(ChainRunStatus::Failed),
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
        steps: list_steps(read, &id).await?,
        unreachable: Vec::new(),
        id,
    })
}

const RUN_COLUMNS: &str = "id, chain_id, cause, status, started_at, completed_at";

/// Returns a page of chain runs, newest first, and their total number.
pub(crate) async fn list_chain_runs(
    read: &mut Read,
    chain: &ChainId,
    page: Page,
) -> Result<(Vec<ChainRun>, u64), StoreError> {
    let total = read.fetch_one("SELECT COUNT(*) FROM chain_runs WHERE chain_id = $1", args![chain]).await?.first()?;
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM chain_runs WHERE chain_id = $1 ORDER BY started_at DESC, id DESC LIMIT $2 OFFSET $3"
    );
    let mut runs = Vec::new();
    for row in read.fetch_all(sql, args![chain, page.limit, page.offset]).await? {
        runs.push(with_steps(read, &row).await?);
    }
    Ok((runs, total))
}

/// Deletes up to `limit` chain runs that ended before `before` and returns their number.
pub(crate) async fn purge_chain_runs(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM chain_runs WHERE completed_at < $1 ORDER BY completed_at LIMIT $2";
    let rows = tx.fetch_all(sql, args![before, limit]).await?;
    let mut purged = 0;
    for row in rows {
        let id: ChainRunId = row.get("id")?;
        tx.execute("DELETE FROM chain_steps WHERE chain_run_id = $1", args![&id]).await?;
        purged += tx.execute("DELETE FROM chain_runs WHERE id = $1", args![&id]).await?;
    }
    Ok(purged)
}
