//! Triggering, listing and cancelling runs.

use std::collections::BTreeMap;

use agentd_base::{Page, Timestamp};
use agentd_store::{Recorder, Tx};

use super::Scheduler;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::run::MAX_OPEN_RUNS;
use crate::scheduler::model::{
    FailedRun, JobId, OverlapPolicy, Run, RunCause, RunDelivery, RunId, RunStatus, StopReason,
};
use crate::scheduler::store::{jobs, runs, statistics};
use crate::scheduler::{events, message};

impl Scheduler {
    /// Creates a run that is due now, regardless of the schedule and the status of the job.
    ///
    /// # Errors
    /// `JobNotFound`, `RunInProgress` if the overlap policy permits no further run, `TooManyOpenRuns`, or a store
    /// error.
    pub async fn trigger(&self, id: &JobId, recorder: Recorder<RunId>) -> Result<RunId, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
            let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
            if open.len() >= MAX_OPEN_RUNS && job.overlap != OverlapPolicy::CancelOther {
                return Err(SchedulerError::TooManyOpenRuns { limit: MAX_OPEN_RUNS });
            }
            let blocking_run = match job.overlap {
                OverlapPolicy::Allow => None,
                OverlapPolicy::Skip => open.first(),
                OverlapPolicy::BufferOne => {
                    open.iter().find(|run| run.status == RunStatus::Pending).filter(|_| open.len() > 1)
                }
                OverlapPolicy::CancelOther => {
                    scheduler.stop_open(tx, &open, StopReason::Replaced).await?;
                    None
                }
            };
            if let Some(run) = blocking_run {
                return Err(SchedulerError::RunInProgress { run_id: run.id.to_string() });
            }
            let run = job.new_run(RunId::generate(tx.ids()), RunCause::Manual, tx.clock().now());
            runs::insert_runs(tx, std::slice::from_ref(&run)).await?;
            tx.emit(events::queued(&run)).await?;
            recorder.record(tx, &run.id).await?;
            Ok(run.id)
        };
        let run = self.0.context.db.write(work).await?;
        self.0.run_wake.notify_one();
        Ok(run)
    }

    /// Returns runs that failed since `since` and are the latest of their jobs, oldest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list_recent_failures(&self, since: Timestamp, limit: u32) -> Result<Vec<FailedRun>, SchedulerError> {
        let failed = runs::list_failed(&mut self.0.context.db.read().await?, since, limit).await?;
        let failed = failed.into_iter().map(|(run, job_name, job_goal)| FailedRun { run, job_name, job_goal });
        Ok(failed.collect())
    }

    /// Returns the highest number of failed runs of any job since `since` and since the job's last success.
    ///
    /// # Errors
    /// A store error.
    pub async fn max_consecutive_failures(&self, since: Timestamp) -> Result<u64, SchedulerError> {
        Ok(statistics::max_consecutive_failures(&mut self.0.context.db.read().await?, since).await?)
    }

    /// Returns a page of a job's runs, newest first, and the total number of matches.
    ///
    /// # Errors
    /// `JobNotFound`, or a store error.
    pub async fn list_runs(
        &self,
        job: &JobId,
        status: Option<RunStatus>,
        page: Page,
    ) -> Result<(Vec<Run>, u64), SchedulerError> {
        let mut read = self.0.context.db.read_snapshot().await?;
        if jobs::find_job(&mut read, job).await?.is_none() {
            return Err(SchedulerError::job_not_found(job.as_str()));
        }
        Ok(runs::list_runs(&mut read, job, status, page).await?)
    }

    /// Returns a run of a job.
    ///
    /// # Errors
    /// `JobNotFound`, `RunNotFound`, or a store error.
    pub async fn get_run(&self, job: &JobId, id: &RunId) -> Result<Run, SchedulerError> {
        let mut read = self.0.context.db.read().await?;
        if jobs::find_job(&mut read, job).await?.is_none() {
            return Err(SchedulerError::job_not_found(job.as_str()));
        }
        runs::find_run(&mut read, job, id).await?.ok_or_else(|| SchedulerError::run_not_found(id.as_str()))
    }

    /// Returns the delivery status of the messages about the given runs. Runs without a message are omitted.
    ///
    /// # Errors
    /// A store error.
    pub async fn deliveries(&self, runs: &[Run]) -> Result<BTreeMap<RunId, RunDelivery>, SchedulerError> {
        let keys: Vec<String> = runs.iter().map(|run| message::key(&run.id)).collect();
        let mut read = self.0.context.db.read().await?;
        let mut outcomes = self.0.notify.outcomes(&mut read, &keys).await?;
        let of_run = |(run, key): (&Run, &String)| {
            let (status, error) = outcomes.remove(key)?;
            Some((run.id.clone(), RunDelivery { status, error }))
        };
        Ok(runs.iter().zip(&keys).filter_map(of_run).collect())
    }

    /// Cancels a run on whichever daemon executes it, and returns its new state.
    ///
    /// # Errors
    /// `JobNotFound`, `RunNotFound`, `RunEnded`, or a store error.
    pub async fn cancel_run(&self, job: &JobId, id: &RunId, recorder: Recorder<Run>) -> Result<Run, SchedulerError> {
        let (scheduler, job_id, run_id) = (self.clone(), job.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            if jobs::find_job(tx, &job_id).await?.is_none() {
                return Err(SchedulerError::job_not_found(job_id.as_str()));
            }
            let run = runs::find_run(tx, &job_id, &run_id).await?;
            let run = run.ok_or_else(|| SchedulerError::run_not_found(run_id.as_str()))?;
            if run.status.is_over() {
                return Err(SchedulerError::RunEnded { status: run.status });
            }
            scheduler.stop_open(tx, std::slice::from_ref(&run), StopReason::Cancel).await?;
            let stopped = runs::find_run(tx, &job_id, &run_id).await?.unwrap_or(run);
            recorder.record(tx, &stopped).await?;
            Ok(stopped)
        };
        let stopped = self.0.context.db.write(work).await?;
        if stopped.status.is_over() {
            return Ok(stopped);
        }
        if let Some(session) = &stopped.session_id {
            self.0.engine.await_cancelled(session).await;
            self.settle_lost_session(&stopped, session).await?;
        }
        self.get_run(job, id).await
    }
}
