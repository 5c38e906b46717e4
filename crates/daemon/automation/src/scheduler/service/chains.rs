//! Creating, triggering, listing and deleting chains.

use agentd_base::{Page, Problems};
use agentd_store::{Recorder, Tx};

use super::Scheduler;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::run::MAX_OPEN_RUNS;
use crate::scheduler::model::{Chain, ChainCause, ChainEdge, ChainId, ChainRun, ChainRunId, JobId};
use crate::scheduler::store::{chains, runs};

/// Maximum number of chains with the same root job. They all start in one transaction when it completes.
const MAX_CHAINS_OF_ROOT: usize = 20;

/// Definition of a new chain.
#[derive(Debug, Clone)]
pub struct NewChain {
    pub name: String,
    pub jobs: Vec<JobId>,
    pub edges: Vec<ChainEdge>,
}

impl Scheduler {
    /// Creates a chain.
    ///
    /// # Errors
    /// `Invalid` (a cycle, an unknown job), `TooManyChains` of a root, or a store error.
    pub async fn create_chain(&self, wanted: NewChain, recorder: Recorder<Chain>) -> Result<Chain, SchedulerError> {
        let chain = Chain {
            id: ChainId::generate(&self.0.context.ids),
            name: wanted.name.trim().to_owned(),
            jobs: wanted.jobs,
            edges: wanted.edges,
            created_at: self.0.context.clock.now(),
        };
        let mut problems = Problems::new();
        chain.check(&mut problems);
        problems.into_result().map_err(SchedulerError::Invalid)?;
        let work = async move |tx: &mut Tx| {
            let known = chains::known_jobs(tx, &chain.jobs).await?;
            let mut problems = Problems::new();
            for (position, job) in chain.jobs.iter().enumerate() {
                problems.require(
                    known.contains(job),
                    &format!("jobs[{position}]"),
                    "is not the id of a job; list jobs with GET /api/scheduler/jobs",
                );
            }
            problems.into_result().map_err(SchedulerError::Invalid)?;
            for root in chain.roots() {
                if chains::list_chains_of_job(tx, root, true).await?.len() >= MAX_CHAINS_OF_ROOT {
                    return Err(SchedulerError::TooManyChains { limit: MAX_CHAINS_OF_ROOT });
                }
            }
            chains::insert_chain(tx, &chain).await?;
            recorder.record(tx, &chain).await?;
            Ok(chain.clone())
        };
        self.0.context.db.write(work).await
    }

    /// Returns a chain.
    ///
    /// # Errors
    /// `ChainNotFound`, or a store error.
    pub async fn get_chain(&self, id: &ChainId) -> Result<Chain, SchedulerError> {
        let found = chains::find_chain(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or_else(|| SchedulerError::chain_not_found(id.as_str()))
    }

    /// Returns a page of chains, newest first, and their total number.
    ///
    /// # Errors
    /// A store error.
    pub async fn list_chains(&self, page: Page) -> Result<(Vec<Chain>, u64), SchedulerError> {
        Ok(chains::list_chains(&mut self.0.context.db.read_snapshot().await?, page).await?)
    }

    /// Deletes a chain and the record of its chain runs. Jobs and their runs are not affected.
    ///
    /// # Errors
    /// `ChainNotFound`, or a store error.
    pub async fn delete_chain(&self, id: &ChainId) -> Result<(), SchedulerError> {
        let id = id.clone();
        let work = async move |tx: &mut Tx| {
            if chains::delete_chain(tx, &id).await? {
                Ok(())
            } else {
                Err(SchedulerError::chain_not_found(id.as_str()))
            }
        };
        self.0.context.db.write(work).await
    }

    /// Starts a chain run from all its roots.
    ///
    /// # Errors
    /// `ChainNotFound`, `TooManyOpenRuns` of a root, or a store error.
    pub async fn trigger_chain(
        &self,
        id: &ChainId,
        recorder: Recorder<ChainRunId>,
    ) -> Result<ChainRunId, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let chain =
                chains::find_chain(tx, &id).await?.ok_or_else(|| SchedulerError::chain_not_found(id.as_str()))?;
            let roots: Vec<JobId> = chain.roots().into_iter().cloned().collect();
            let open = runs::list_open(tx, &roots).await?;
            if roots.iter().any(|root| open.iter().filter(|run| run.job_id == *root).count() >= MAX_OPEN_RUNS) {
                return Err(SchedulerError::TooManyOpenRuns { limit: MAX_OPEN_RUNS });
            }
            let run = ChainRunId::generate(tx.ids());
            chains::insert_chain_run(tx, &run, &chain.id, ChainCause::Manual).await?;
            if scheduler.begin_steps(tx, &run, &roots).await? {
                scheduler.advance_chain(tx, &chain, &run).await?;
            }
            recorder.record(tx, &run).await?;
            Ok::<_, SchedulerError>(run)
        };
        let run = self.0.context.db.write(work).await?;
        self.0.run_wake.notify_one();
        Ok(run)
    }

    /// Returns a page of chain runs, newest first, and their total number.
    ///
    /// # Errors
    /// `ChainNotFound`, or a store error.
    pub async fn list_chain_runs(&self, id: &ChainId, page: Page) -> Result<(Vec<ChainRun>, u64), SchedulerError> {
        let mut read = self.0.context.db.read_snapshot().await?;
        let Some(chain) = chains::find_chain(&mut read, id).await? else {
            return Err(SchedulerError::chain_not_found(id.as_str()));
        };
        let (mut runs, total) = chains::list_chain_runs(&mut read, id, page).await?;
        for run in &mut runs {
            run.unreachable = chain.unreachable_jobs(&run.steps);
        }
        Ok((runs, total))
    }
}
