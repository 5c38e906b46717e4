//! Pausing and resuming jobs.

use agentd_base::Timestamp;
use agentd_store::{Recorder, Tx};

use super::super::Scheduler;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::events;
use crate::scheduler::model::slots::PlannedSlot;
use crate::scheduler::model::{Job, JobId, JobStatus, Run, RunStatus, StopReason};
use crate::scheduler::store::{jobs, runs};

impl Scheduler {
    /// Nothing is started by itself any more until the job is resumed.
    ///
    /// # Errors
    /// `JobNotFound`, `WrongState`, or the store's refusal.
    pub async fn pause(&self, id: &JobId, recorder: Recorder<Job>) -> Result<Job, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let mut job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::no_job(id.as_str()))?;
            if job.status != JobStatus::Active {
                return Err(SchedulerError::WrongState { status: job.status, action: "paused" });
            }
            // A slot that waits is not under way. Before the job is written: the end of its run might close it.
            let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
            let waiting: Vec<Run> = open.into_iter().filter(Run::is_waiting_slot).collect();
            scheduler.stop_open(tx, &waiting, StopReason::Paused).await?;
            job.status = JobStatus::Paused;
            job.next_run_at = None;
            job.updated_at = tx.clock().now();
            jobs::update_job(tx, &job).await?;
            recorder.record(tx, &job).await?;
            Ok(job)
        };
        self.0.context.db.write(work).await
    }

    /// The job is due again, from now on: what it missed while it was paused is not made up for. A job of one date that
    /// has passed is over; a skipped run shows that it had its slot.
    ///
    /// # Errors
    /// `JobNotFound`, `WrongState`, `NeverDue`, or the store's refusal.
    pub async fn resume(&self, id: &JobId, recorder: Recorder<Job>) -> Result<Job, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let mut job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::no_job(id.as_str()))?;
            if job.status != JobStatus::Paused {
                return Err(SchedulerError::WrongState { status: job.status, action: "resumed" });
            }
            let now = tx.clock().now();
            job.status = JobStatus::Active;
            if !job.count_from(now) {
                let slot = job.schedule.only_slot().ok_or(SchedulerError::NeverDue)?;
                job.status = scheduler.leave_out(tx, &job, slot, now).await?;
            }
            job.updated_at = now;
            jobs::update_job(tx, &job).await?;
            recorder.record(tx, &job).await?;
            Ok(job)
        };
        let job = self.0.context.db.write(work).await?;
        self.0.tick_wake.notify_one();
        Ok(job)
    }

    /// Leaves out the only slot of a job, which passed while the job was paused; answers what the job is then.
    pub(super) async fn leave_out(
        &self,
        tx: &mut Tx,
        job: &Job,
        slot: Timestamp,
        now: Timestamp,
    ) -> Result<JobStatus, SchedulerError> {
        let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
        if open.iter().any(|run| run.scheduled_for == Some(slot)) {
            // The slot had begun before the pause; the end of its run closes the job.
            return Ok(JobStatus::Active);
        }
        let reason = "the slot passed while the job was paused";
        let planned = PlannedSlot { at: slot, skipped: Some(reason.to_owned()), may_overlap: false };
        let run = self.planned_run(job, &planned, now);
        // A run that the pause took back stands for the slot already.
        if !runs::insert_runs(tx, std::slice::from_ref(&run)).await?.is_empty() {
            self.counts().count(RunStatus::Skipped);
            tx.emit(events::skipped(&run, reason)).await?;
        }
        Ok(JobStatus::Completed)
    }
}
