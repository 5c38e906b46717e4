//! The tick: slots that are due become runs, and their jobs move on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{Worker, WorkerError, WorkerReport};
use agentd_store::{Durability, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::events;
use super::model::slots::{self, Open, Plan, PlannedSlot};
use super::model::{Job, JobId, JobStatus, Run, RunId, RunStatus, StopReason};
use super::service::{Scheduler, TICK_INTERVAL};
use super::store::{jobs, runs, statistics};

/// One statement's worth of waiting for everybody else.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
const JOBS_A_BATCH: u32 = 256;

/// Hands out slots. Any number of daemons does it side by side; rows decide.
#[derive(Debug)]
pub struct Tick(pub Scheduler);

impl Worker for Tick {
    fn name(&self) -> &'static str {
        "scheduler.tick"
    }

    fn description(&self) -> &'static str {
        "Creates runs for jobs that are due."
    }

    /// Until the next job is due, a second at most.
    fn interval(&self) -> Duration {
        let now = self.0.context().clock.now();
        self.0.next_due().since(now).clamp(SHORTEST_SLEEP, TICK_INTERVAL)
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
        if scheduler.note_started() {
            let instance = Arc::clone(&context.instance);
            let tell = async move |tx: &mut Tx| {
                let active = statistics::count_active(tx).await?;
                tx.emit(events::started(&instance, active)).await.map(|_| ())
            };
            context.db.write::<_, StoreError, _>(tell).await?;
        }
        let due = jobs::next_due(&mut context.db.read().await?).await?;
        let now = context.clock.now();
        if due.is_none_or(|due| due > now) {
            scheduler.note_tick(now, 0, due);
            return Ok(WorkerReport::IDLE);
        }
        let handing_out = scheduler.clone();
        let work = async move |tx: &mut Tx| handing_out.hand_out(tx).await;
        let checked = context.db.write_locking(Durability::Full, work).await?;
        scheduler.note_tick(now, checked, Some(now));
        if checked > 0 {
            scheduler.run_wake().notify_one();
        }
        // What is locked elsewhere is somebody else's, so none taken means none left.
        Ok(WorkerReport { items: checked as u64, has_more: checked > 0 })
    }
}

/// What a tick makes of one job.
struct Decided {
    job: Job,
    plan: Plan,
    runs: Vec<(Run, Option<String>)>,
}

impl Scheduler {
    /// Takes a batch of jobs that are due, and does everything that follows; answers how many there were.
    async fn hand_out(&self, tx: &mut Tx) -> Result<usize, StoreError> {
        let now = tx.clock().now();
        let due = jobs::take_due(tx, now, JOBS_A_BATCH).await?;
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
            let under_way = open.get(&job.id).map(Vec::as_slice).unwrap_or_default();
            let plan = slots::plan(&job, count_open(under_way), now);
            if plan.replaces_open {
                self.stop_open(tx, under_way, StopReason::Replaced).await?;
            }
            let new_run = |slot: &PlannedSlot| slot.new_run(&job, RunId::generate(tx.ids()), now);
            let runs = plan.slots.iter().map(|slot| (new_run(slot), slot.skipped.clone())).collect();
            decided.push(Decided { job, plan, runs });
        }
        self.store_decisions(tx, &decided).await?;
        Ok(decided.len())
    }

    async fn store_decisions(&self, tx: &mut Tx, decided: &[Decided]) -> Result<(), StoreError> {
        let planned: Vec<Run> = decided.iter().flat_map(|one| one.runs.iter().map(|(run, _)| run.clone())).collect();
        let added = runs::insert_runs(tx, &planned).await?;
        let moved: Vec<(JobId, Timestamp, Option<Timestamp>)> =
            decided.iter().map(|one| (one.job.id.clone(), one.plan.counted_from, one.plan.next_run_at)).collect();
        jobs::advance_jobs(tx, &moved).await?;
        let mut told = Vec::with_capacity(planned.len() + 1);
        let mut begun = Vec::new();
        for one in decided {
            let mut has_run = false;
            for (run, skipped) in one.runs.iter().filter(|(run, _)| added.contains(&run.id)) {
                match skipped {
                    Some(reason) => {
                        self.counts().count(RunStatus::Skipped);
                        told.push(events::skipped(run, reason));
                    }
                    None => {
                        has_run = true;
                        begun.push(run);
                        told.push(events::queued(run));
                    }
                }
            }
            if !one.runs.is_empty() {
                self.note_grown(&one.job.id);
            }
            // Nothing is left of a job of one date whose slot was left out.
            if one.plan.next_run_at.is_none() && !has_run {
                jobs::close_job(tx, &one.job.id, JobStatus::Completed).await?;
            }
        }
        told.insert(0, events::ticked(decided.len(), &begun));
        tx.emit_all(told).await
    }
}

fn count_open(runs: &[Run]) -> Open {
    let running = runs.iter().filter(|run| run.status == RunStatus::Running).count();
    Open { running, pending: runs.len() - running }
}
