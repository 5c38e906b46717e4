//! Maintenance of runs: renews claims, ends overdue attempts and deletes expired rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Retention, Worker, WorkerError, WorkerReport};
use agentd_engine::engine::{EngineError, Session, cancel_session};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::execute::LEASE;
use super::model::{Run, RunId, StopReason};
use super::service::Scheduler;
use super::store::{chains, claims, jobs, runs};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
const OVERDUE_BATCH_SIZE: u32 = 50;
const ROW_BATCH_SIZE: u32 = 500;
const JOB_BATCH_SIZE: usize = 50;
/// Maximum number of retained runs per job, newest first.
const MAX_RUNS_PER_JOB: u32 = 1_000;
/// Retention of runs after their completion.
const RUN_RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// Bounds of the delay until a run that waits for approval is checked again. The delay is its remaining time.
const APPROVAL_CHECK_DELAY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// Maintains runs. Needs no lease, because the work is idempotent.
#[derive(Debug)]
pub(super) struct RunMaintenance {
    scheduler: Scheduler,
    last_heartbeat: AtomicI64,
    last_purge: AtomicI64,
    /// Database version at the last purge. While it is unchanged, there is nothing to purge.
    purged: Mutex<Option<u64>>,
    next_overdue: NextDue,
}

impl RunMaintenance {
    #[must_use]
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self {
            scheduler,
            last_heartbeat: AtomicI64::new(0),
            last_purge: AtomicI64::new(0),
            purged: Mutex::default(),
            next_overdue: NextDue::default(),
        }
    }
}

impl Worker for RunMaintenance {
    fn name(&self) -> &'static str {
        "scheduler.keep"
    }

    fn description(&self) -> &'static str {
        "Renews claims, ends overdue runs and deletes old ones."
    }

    fn retention(&self) -> &'static [Retention] {
        &[Retention { what: "Runs of jobs, the newest 1,000 of each job at most", kept: RUN_RETENTION }]
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        if *self.scheduler.running().borrow() > 0 {
            return None;
        }
        let version = self.scheduler.context().db.version();
        if version.is_some() && version == *self.purged.lock() {
            return Some(self.next_overdue.at());
        }
        let last_purge = Timestamp::from_micros(self.last_purge.load(Ordering::Relaxed));
        Some(self.next_overdue.at().min(last_purge + PURGE_INTERVAL))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

/// Whether the interval has passed; if so, records the time. A clock that was set back counts as passed.
fn is_due(last: &AtomicI64, now: Timestamp, pause: Duration) -> bool {
    let before = Timestamp::from_micros(last.load(Ordering::Relaxed));
    let is_due = now < before || now.since(before) >= pause;
    if is_due {
        last.store(now.as_micros(), Ordering::Relaxed);
    }
    is_due
}

impl RunMaintenance {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.scheduler.context();
        let now = context.clock.now();
        if *self.scheduler.running().borrow() > 0 && is_due(&self.last_heartbeat, now, HEARTBEAT_INTERVAL) {
            self.renew_claims().await?;
        }
        let mut read = context.db.read().await?;
        let next = claims::next_deadline(&mut read).await?;
        self.next_overdue.note(next);
        let overdue = match next {
            Some(next) if next <= now => claims::list_overdue(&mut read, now, OVERDUE_BATCH_SIZE).await?,
            _ => Vec::new(),
        };
        drop(read);
        for run in &overdue {
            self.end_overdue(run, now).await?;
        }
        let mut report = WorkerReport::batch(overdue.len(), OVERDUE_BATCH_SIZE);
        if is_due(&self.last_purge, now, PURGE_INTERVAL) {
            *self.purged.lock() = context.db.version();
            self.scheduler.refresh_known_jobs().await?;
            let purge = async move |tx: &mut Tx| {
                let jobs = jobs::purge_deleted(tx, ROW_BATCH_SIZE).await?;
                let before = now - RUN_RETENTION;
                let runs = runs::purge_runs(tx, before, ROW_BATCH_SIZE).await?;
                runs::purge_deleted_counts(tx, now).await?;
                let chain_runs = chains::purge_chain_runs(tx, before, ROW_BATCH_SIZE).await?;
                Ok::<_, StoreError>(WorkerReport::batches(&[jobs, runs, chain_runs], ROW_BATCH_SIZE))
            };
            let purged = context.db.write(purge).await?;
            let trimmed = self.trim_runs().await?;
            if purged.has_more || trimmed.has_more {
                self.last_purge.store(0, Ordering::Relaxed);
            }
            report = report.and(purged).and(trimmed);
        }
        Ok(report)
    }

    /// Renews the claims of this process. A claim without a task is left to expire, so that the run is claimed again.
    async fn renew_claims(&self) -> Result<(), WorkerError> {
        let context = self.scheduler.context();
        let claimed: Vec<RunId> = self.scheduler.claims().lock().iter().map(|(run, _)| run.clone()).collect();
        if claimed.is_empty() {
            return Ok(());
        }
        let owner = Arc::clone(&context.instance);
        let renew = async move |tx: &mut Tx| claims::renew_claims(tx, &owner, &claimed, LEASE).await;
        Ok(context.db.write_relaxed::<_, StoreError, _>(renew).await?)
    }

    /// Deletes the oldest runs of jobs that exceed the limit.
    async fn trim_runs(&self) -> Result<WorkerReport, WorkerError> {
        let jobs_to_trim = self.scheduler.take_jobs_to_trim(JOB_BATCH_SIZE);
        if jobs_to_trim.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let is_full = jobs_to_trim.len() == JOB_BATCH_SIZE;
        let trim = async move |tx: &mut Tx| {
            let mut unfinished = Vec::new();
            let mut trimmed = 0;
            for job in &jobs_to_trim {
                let deleted = runs::trim_runs(tx, job, MAX_RUNS_PER_JOB, ROW_BATCH_SIZE).await?;
                trimmed += deleted;
                if deleted == u64::from(ROW_BATCH_SIZE) {
                    unfinished.push(job.clone());
                }
            }
            Ok::<_, StoreError>((trimmed, unfinished))
        };
        let (items, unfinished) = self.scheduler.context().db.write(trim).await?;
        unfinished.iter().for_each(|job| self.scheduler.mark_for_trimming(job));
        Ok(WorkerReport { items, has_more: is_full || !unfinished.is_empty() })
    }

    async fn end_overdue(&self, run: &Run, now: Timestamp) -> Result<(), WorkerError> {
        let Some(session) = &run.session_id else { return Ok(()) };
        let engine = self.scheduler.engine();
        let until = match engine.get(session).await {
            Ok(session) => self.extended_deadline(run, &session, now).await?,
            Err(EngineError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (id, session) = (run.id.clone(), session.clone());
        let work = async move |tx: &mut Tx| {
            if let Some(until) = until {
                return claims::extend_deadline(tx, &id, until).await;
            }
            runs::request_stop(tx, &id, StopReason::Timeout).await?;
            cancel_session(tx, &session).await
        };
        self.scheduler.context().db.write::<_, StoreError, _>(work).await?;
        if until.is_none()
            && let Some(session) = &run.session_id
        {
            engine.await_cancelled(session).await;
            self.scheduler.settle_lost_session(run, session).await?;
        }
        Ok(())
    }

    /// Returns when the attempt is checked next, or `None` if its time limit is reached. Time spent waiting for
    /// approval does not count.
    async fn extended_deadline(
        &self,
        run: &Run,
        session: &Session,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, WorkerError> {
        let job = jobs::find_job(&mut self.scheduler.context().db.read().await?, &run.job_id).await?;
        let Some(job) = job else { return Ok(None) };
        let limit = Duration::from_secs(u64::from(job.time_limit_seconds));
        let waiting = session.waiting_since.map(|since| now.since(since));
        let deadline = session.started_at + limit + session.waited + waiting.unwrap_or_default();
        let left = deadline.since(now);
        Ok(match waiting {
            Some(_) => Some(now + left.clamp(*APPROVAL_CHECK_DELAY.start(), *APPROVAL_CHECK_DELAY.end())),
            None if left > Duration::ZERO => Some(deadline),
            None => None,
        })
    }
}
