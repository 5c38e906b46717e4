//! Rows of chains, of their runs, and of the steps of these.

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

/// The newest first, and how many there are.
pub(crate) async fn list_chains(read: &mut Read, page: Page) -> Result<(Vec<Chain>, u64), StoreError> {
    let total = read.fetch_one("SELECT COUNT(*) FROM job_chains", args![]).await?.first()?;
    let sql = "SELECT id, name, edges, created_at FROM job_chains ORDER BY created_at DESC, id DESC LIMIT $1 OFFSET $2";
    let mut chains = Vec::new();
    for row in read.fetch_all(sql, args![page.limit, page.offset]).await? {
        chains.push(with_jobs(read, &row).await?);
    }
    Ok((chains, total))
}

/// Deletes a chain with its runs; the runs of its jobs stay. Answers whether it was there.
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

/// The chains that a job is part of; those alone that it is a root of, if asked.
pub(crate) async fn list_of_job(read: &mut Read, job: &JobId, only_as_root: bool) -> Result<Vec<Chain>, StoreError> {
    let sql = "SELECT id, name, edges, created_at FROM job_chains WHERE id IN \
               (SELECT chain_id FROM chain_jobs WHERE job_id = $1 AND is_root >= $2) ORDER BY id";
    let mut chains = Vec::new();
    for row in read.fetch_all(sql, args![job, only_as_root]).await? {
        chains.push(with_jobs(read, &row).await?);
    }
    Ok(chains)
}

/// Takes the jobs of the agent, and what only they led to, out of chains; deletes those of which nothing is left.
pub(crate) async fn release_of_agent(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    let sql = "SELECT DISTINCT chain_id FROM chain_jobs WHERE job_id IN (SELECT id FROM jobs WHERE agent_id = $1)";
    let rows = tx.fetch_all(sql, args![agent]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let gone = tx.fetch_all("SELECT id FROM jobs WHERE agent_id = $1", args![agent]).await?;
    let gone: Vec<JobId> = gone.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
    for row in rows {
        let id = row.get("chain_id")?;
        let Some(chain) = find_chain(tx, &id).await? else { continue };
        let Some(left) = chain.without(&gone) else {
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

/// Which of these jobs are there.
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

/// Adds a step; answers whether the job had none in this run of the chain.
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

/// Notes how a run ended; answers the running runs of chains, with their chains, that it is a step of.
pub(crate) async fn note_step_ended(
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
        // The schema lets nothing else in.
        cause: ChainCause::parse(&row.get::<String>("cause")?).unwrap_or(ChainCause::Job),
        status: ChainRunStatus::parse(&row.get::<String>("status")?).unwrap_or(ChainRunStatus::Failed),
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
        steps: list_steps(read, &id).await?,
        left_out: Vec::new(),
        id,
    })
}

const RUN_COLUMNS: &str = "id, chain_id, cause, status, started_at, completed_at";

/// The newest first, and how many there are.
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

/// Deletes up to `limit` runs of chains that ended before `before`; answers how many.
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
