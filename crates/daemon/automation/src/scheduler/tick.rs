//! The tick: creates runs for due slots and advances their jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{Worker, WorkerError, WorkerReport};
use agentd_store::{Durability, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::events;
use super::model::slots::{self, OpenRuns, Plan, PlannedSlot};
use super::model::{Job, JobId, JobStatus, Run, RunId, RunStatus, StopReason};
use super::service::{Scheduler, TICK_INTERVAL};
use super::store::{jobs, runs, statistics};

/// Minimum pause between ticks, so that other database users are not starved.
const MIN_TICK_PAUSE: Duration = Duration::from_millis(1);
const JOB_BATCH_SIZE: u32 = 256;

/// Creates runs for due slots. Any number of daemons can tick concurrently; row locks coordinate them.
#[derive(Debug)]
pub struct Tick(pub Scheduler);

impl Worker for Tick {
    fn name(&self) -> &'static str {
        "scheduler.tick"
    }

    fn description(&self) -> &'static str {
        "Creates runs for jobs that are due."
    }

    /// Returns the time until the next job is due, at most one second.
    fn interval(&self) -> Duration {
        let now = self.0.context().clock.now();
        self.0.next_due().since(now).clamp(MIN_TICK_PAUSE, TICK_INTERVAL)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_due())
    }

    fn wake(&self) -> Option<Arc<tokio::sync::Notify>> {
        Some(self.0.tick_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl Tick {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let scheduler = &self.0;
        let context = scheduler.context();
        if scheduler.mark_started() {
            let instance = Arc::clone(&context.instance);
            let announce = async move |tx: &mut Tx| {
                let active = statistics::count_active(tx).await?;
                tx.emit(events::started(&instance, active)).await.map(|_| ())
            };
            context.db.write::<_, StoreError, _>(announce).await?;
        }
        let due = jobs::next_due(&mut context.db.read().await?).await?;
        let now = context.clock.now();
        if due.is_none_or(|due| due > now) {
            scheduler.record_tick(now, 0, due);
            return Ok(WorkerReport::IDLE);
        }
        let planner = scheduler.clone();
        let work = async move |tx: &mut Tx| planner.plan_due_jobs(tx).await;
        let checked = context.db.write_locking(Durability::Full, work).await?;
        scheduler.record_tick(now, checked, Some(now));
        if checked > 0 {
            scheduler.run_wake().notify_one();
        }
        // Jobs locked by other daemons are processed there, so an empty batch means that no job is left.
        Ok(WorkerReport { items: checked as u64, has_more: checked > 0 })
    }
}

/// Decisions of a tick for one job.
struct PlannedJob {
    job: Job,
    plan: Plan,
    runs: Vec<(Run, Option<String>)>,
}

impl Scheduler {
    /// Plans a batch of due jobs and stores the resulting runs. Returns the number of jobs.
    async fn plan_due_jobs(&self, tx: &mut Tx) -> Result<usize, StoreError> {
        let now = tx.clock().now();
        let due = jobs::take_due(tx, now, JOB_BATCH_SIZE).await?;
        if due.is_empty() {
            return Ok(0);
        }
        let ids: Vec<JobId> = due.iter().map(|job| job.id.clone()).collect();
        let mut open: BTreeMap<JobId, Vec<Run>> = BTreeMap::new();
        for run in runs::list_open(tx, &ids).await? {
            open.entry(run.job_id.clone()).or_default().push(run);
        }
        let mut decided = Vec::with_capacity(due.len());
        for job in due {
            let open_runs = open.get(&job.id).map(Vec::as_slice).unwrap_or_default();
            let plan = slots::plan(&job, count_open(open_runs), now);
            if plan.replaces_open {
                self.stop_open(tx, open_runs, StopReason::Replaced).await?;
            }
            let new_run = |slot: &PlannedSlot| slot.new_run(&job, RunId::generate(tx.ids()), now);
            let runs = plan.slots.iter().map(|slot| (new_run(slot), slot.skipped.clone())).collect();
            decided.push(PlannedJob { job, plan, runs });
        }
        self.store_decisions(tx, &decided).await?;
        Ok(decided.len())
    }

    async fn store_decisions(&self, tx: &mut Tx, decided: &[PlannedJob]) -> Result<(), StoreError> {
        let planned: Vec<Run> = decided.iter().flat_map(|one| one.runs.iter().map(|(run, _)| run.clone())).collect();
        let added = runs::insert_runs(tx, &planned).await?;
        let moved: Vec<(JobId, Timestamp, Option<Timestamp>)> =
            decided.iter().map(|one| (one.job.id.clone(), one.plan.counted_from, one.plan.next_run_at)).collect();
        jobs::advance_jobs(tx, &moved).await?;
        let mut emitted = Vec::with_capacity(planned.len() + 1);
        let mut queued = Vec::new();
        for one in decided {
            let mut has_run = false;
            for (run, skipped) in one.runs.iter().filter(|(run, _)| added.contains(&run.id)) {
                match skipped {
                    Some(reason) => {
                        self.counts().count(RunStatus::Skipped);
                        emitted.push(events::skipped(run, reason));
                    }
                    None => {
                        has_run = true;
                        queued.push(run);
                        emitted.push(events::queued(run));
                    }
                }
            }
            if !one.runs.is_empty() {
                self.mark_for_trimming(&one.job.id);
            }
            // A one-time job whose slot was skipped is complete.
            if one.plan.next_run_at.is_none() && !has_run {
                jobs::close_job(tx, &one.job.id, JobStatus::Completed).await?;
            }
        }
        emitted.insert(0, events::ticked(decided.len(), &queued));
        tx.emit_all(emitted).await
    }
}

fn count_open(runs: &[Run]) -> OpenRuns {
    let running = runs.iter().filter(|run| run.status == RunStatus::Running).count();
    OpenRuns { running, pending: runs.len() - running }
}
