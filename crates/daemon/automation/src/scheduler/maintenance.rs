//! Keeps claims, ends attempts whose time is up, and forgets what has had its time.

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

const HEARTBEAT: Duration = Duration::from_secs(10);
const BETWEEN_PURGES: Duration = Duration::from_secs(60);
const OVERDUE_A_BATCH: u32 = 50;
const ROWS_A_BATCH: u32 = 500;
const JOBS_A_BATCH: usize = 50;
/// Newest runs of a job that are kept, however many there were.
const RUNS_KEPT: u32 = 1_000;
/// How long runs are kept after their end.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
/// A run that waits for its owner is checked again after the time that it has left, within these bounds.
const WAITING_CHECK: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// Needs no lease: doing its work twice changes nothing.
#[derive(Debug)]
pub(super) struct RunMaintenance {
    scheduler: Scheduler,
    last_heartbeat: AtomicI64,
    last_purge: AtomicI64,
    /// The database as it was purged last; there is nothing more in it while it stays the same.
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
        &[Retention { what: "Runs of jobs, the newest 1,000 of each job at most", kept: KEPT }]
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
        Some(self.next_overdue.at().min(last_purge + BETWEEN_PURGES))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

/// Whether it is time again, and if so, notes it. A clock that was set back counts as time again.
fn is_time(last: &AtomicI64, now: Timestamp, pause: Duration) -> bool {
    let before = Timestamp::from_micros(last.load(Ordering::Relaxed));
    let is_time = now < before || now.since(before) >= pause;
    if is_time {
        last.store(now.as_micros(), Ordering::Relaxed);
    }
    is_time
}

impl RunMaintenance {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.scheduler.context();
        let now = context.clock.now();
        if *self.scheduler.running().borrow() > 0 && is_time(&self.last_heartbeat, now, HEARTBEAT) {
            self.renew_claims().await?;
        }
        let mut read = context.db.read().await?;
        let next = claims::next_deadline(&mut read).await?;
        self.next_overdue.note(next);
        let overdue = match next {
            Some(next) if next <= now => claims::list_overdue(&mut read, now, OVERDUE_A_BATCH).await?,
            _ => Vec::new(),
        };
        drop(read);
        for run in &overdue {
            self.end_overdue(run, now).await?;
        }
        let mut report = WorkerReport::batch(overdue.len(), OVERDUE_A_BATCH);
        if is_time(&self.last_purge, now, BETWEEN_PURGES) {
            *self.purged.lock() = context.db.version();
            self.scheduler.refresh_known_jobs().await?;
            let purge = async move |tx: &mut Tx| {
                let jobs = jobs::purge_deleted(tx, ROWS_A_BATCH).await?;
                let before = now - KEPT;
                let runs = runs::purge_runs(tx, before, ROWS_A_BATCH).await?;
                runs::purge_gone(tx, now).await?;
                let chain_runs = chains::purge_chain_runs(tx, before, ROWS_A_BATCH).await?;
                Ok::<_, StoreError>(WorkerReport::batches(&[jobs, runs, chain_runs], ROWS_A_BATCH))
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

    /// A claim that no task of this process holds any more is left to expire, so that the run is claimed again.
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

    /// Deletes the oldest runs of jobs that have too many.
    async fn trim_runs(&self) -> Result<WorkerReport, WorkerError> {
        let grown = self.scheduler.take_grown(JOBS_A_BATCH);
        if grown.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let is_full = grown.len() == JOBS_A_BATCH;
        let trim = async move |tx: &mut Tx| {
            let mut unfinished = Vec::new();
            let mut trimmed = 0;
            for job in &grown {
                let gone = runs::trim_runs(tx, job, RUNS_KEPT, ROWS_A_BATCH).await?;
                trimmed += gone;
                if gone == u64::from(ROWS_A_BATCH) {
                    unfinished.push(job.clone());
                }
            }
            Ok::<_, StoreError>((trimmed, unfinished))
        };
        let (items, unfinished) = self.scheduler.context().db.write(trim).await?;
        unfinished.iter().for_each(|job| self.scheduler.note_grown(job));
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
            self.scheduler.settle_lost(run, session).await?;
        }
        Ok(())
    }

    /// When the attempt is checked next; `None` when its time is up. The time in which it waited for its owner does not
    /// count.
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
            Some(_) => Some(now + left.clamp(*WAITING_CHECK.start(), *WAITING_CHECK.end())),
            None if left > Duration::ZERO => Some(deadline),
            None => None,
        })
    }
}
