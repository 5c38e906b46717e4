//! Scheduler service: management of jobs, runs and chains.

mod chains;
mod ending;
mod jobs;
mod parse;
mod runs;
mod smart;
mod statistics;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::engine::Engine;
use agentd_engine::projects::Projects;
use agentd_schedule::{Language, Schedule, Zone};
use agentd_store::{StoreError, Tx};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::activity::ActivitySource;
use super::error::SchedulerError;
use super::model::{JobId, RunId, RunStatus};
use super::{events, store};
use crate::notify::Notify;

pub use chains::NewChain;
pub(super) use ending::TURN_SINK;
pub use jobs::{CreateJob, ListJobs, UpdateJob};
pub use parse::{ParseMethod, PlainSchedule, Validation};
pub use smart::{Calendar, CalendarEntry, Heatmap};
pub(super) use statistics::TICK_INTERVAL;
pub use statistics::{JobStatistics, SchedulerStatus, Statistics};

/// Counters of this process for the metrics.
#[derive(Debug, Default)]
pub struct RunCounts {
    ended: [AtomicU64; 5],
    lateness_ms: AtomicU64,
}

impl RunCounts {
    /// Final states of a run.
    pub const FINAL_STATES: [RunStatus; 5] =
        [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled, RunStatus::Skipped, RunStatus::Timeout];

    pub(super) fn count(&self, status: RunStatus) {
        if let Some(index) = Self::FINAL_STATES.iter().position(|end| *end == status) {
            self.ended[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn record_lateness(&self, late: Duration) {
        self.lateness_ms.store(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the number of runs that ended in each state since the daemon started.
    #[must_use]
    pub fn ended(&self) -> [(RunStatus, u64); 5] {
        std::array::from_fn(|index| (Self::FINAL_STATES[index], self.ended[index].load(Ordering::Relaxed)))
    }

    /// Returns the delay between the most recently claimed slot and its claim.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        Duration::from_millis(self.lateness_ms.load(Ordering::Relaxed))
    }
}

/// Maximum number of runs that are prepared concurrently.
const MAX_CONCURRENT_PREPARATIONS: usize = 8;
/// Maximum number of jobs remembered for trimming.
const MAX_JOBS_TO_TRIM: usize = 10_000;

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    projects: Projects,
    engine: Engine,
    notify: Notify,
    tick_wake: Arc<tokio::sync::Notify>,
    run_wake: Arc<tokio::sync::Notify>,
    /// Number of runs held by this process.
    running: watch::Sender<usize>,
    /// Claims of runs without a session, which must be renewed.
    claims: Mutex<BTreeSet<(RunId, u32)>>,
    /// Jobs with new runs since their oldest runs were trimmed.
    jobs_to_trim: Mutex<BTreeSet<JobId>>,
    /// Limits concurrent preparation, so that a thousand runs do not delay the next claim.
    preparing: tokio::sync::Semaphore,
    counts: RunCounts,
    /// Source of owner activity.
    activity: Arc<dyn ActivitySource>,
    /// Hint for the status and for sleeping; the rows are authoritative.
    next_due: NextDue,
    next_claim: NextDue,
    last_tick: AtomicI64,
    last_checked: AtomicU64,
    /// Number of active jobs, up to one minute old. This is precise enough for the job limit.
    known_jobs: AtomicU64,
    has_started: AtomicBool,
}

/// Service for jobs, runs and chains. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler(Arc<Inner>);

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("running", &*self.0.running.borrow()).finish_non_exhaustive()
    }
}

impl Scheduler {
    pub fn new(
        context: AppContext,
        settings: Settings,
        agents: Agents,
        projects: Projects,
        engine: Engine,
        notify: Notify,
        activity: Arc<dyn ActivitySource>,
    ) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            context,
            settings,
            agents,
            projects,
            engine,
            notify,
            tick_wake: Arc::default(),
            run_wake: Arc::default(),
            running: watch::Sender::new(0),
            claims: Mutex::default(),
            jobs_to_trim: Mutex::default(),
            preparing: tokio::sync::Semaphore::new(MAX_CONCURRENT_PREPARATIONS),
            counts: RunCounts::default(),
            activity,
            next_due: NextDue::default(),
            next_claim: NextDue::default(),
            last_tick: AtomicI64::new(0),
            last_checked: AtomicU64::new(0),
            known_jobs: AtomicU64::new(0),
            has_started: AtomicBool::new(false),
        })))
    }

    /// Waits until no run is starting, and emits the event that this scheduler stopped. The engine is drained first.
    pub async fn drain(&self, grace: Duration) {
        let mut running = self.0.running.subscribe();
        if tokio::time::timeout(grace, running.wait_for(|running| *running == 0)).await.is_err() {
            tracing::warn!("scheduler drain timed out; remaining runs resume after their claims expire");
        }
        if !self.0.has_started.swap(false, Ordering::AcqRel) {
            return;
        }
        let instance = Arc::clone(&self.0.context.instance);
        let stop = async move |tx: &mut Tx| tx.emit(events::stopped(&instance)).await.map(|_| ());
        if let Err(error) = self.0.context.db.write::<_, StoreError, _>(stop).await {
            tracing::warn!(%error, "failed to emit scheduler stopped event");
        }
    }

    /// Returns the run counters of this process.
    #[must_use]
    pub fn counts(&self) -> &RunCounts {
        &self.0.counts
    }

    /// Returns the number of jobs with a next run.
    ///
    /// # Errors
    /// A store error.
    pub async fn count_active(&self) -> Result<u64, SchedulerError> {
        Ok(store::statistics::count_active(&mut self.0.context.db.read().await?).await?)
    }

    /// Refreshes the job count used for the job limit.
    pub(super) async fn refresh_known_jobs(&self) -> Result<(), StoreError> {
        let active = store::statistics::count_active(&mut self.0.context.db.read().await?).await?;
        self.0.known_jobs.store(active, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn notify(&self) -> &Notify {
        &self.0.notify
    }

    pub(super) fn running(&self) -> &watch::Sender<usize> {
        &self.0.running
    }

    /// Returns the claims of this process without a session, each with its fence.
    pub(super) fn claims(&self) -> &Mutex<BTreeSet<(RunId, u32)>> {
        &self.0.claims
    }

    /// Marks a job with new runs for trimming. If the list is full, the job is marked with its next run.
    pub(super) fn mark_for_trimming(&self, job: &JobId) {
        let mut jobs_to_trim = self.0.jobs_to_trim.lock();
        if jobs_to_trim.len() < MAX_JOBS_TO_TRIM {
            jobs_to_trim.insert(job.clone());
        }
    }

    /// Takes up to `limit` jobs marked for trimming.
    pub(super) fn take_jobs_to_trim(&self, limit: usize) -> Vec<JobId> {
        let mut jobs_to_trim = self.0.jobs_to_trim.lock();
        std::iter::from_fn(|| jobs_to_trim.pop_first()).take(limit).collect()
    }

    pub(super) fn preparing(&self) -> &tokio::sync::Semaphore {
        &self.0.preparing
    }

    pub(super) fn tick_wake(&self) -> Arc<tokio::sync::Notify> {
        Arc::clone(&self.0.tick_wake)
    }

    pub(super) fn run_wake(&self) -> Arc<tokio::sync::Notify> {
        Arc::clone(&self.0.run_wake)
    }

    /// Records that the scheduler started. Returns whether this is the first call.
    pub(super) fn mark_started(&self) -> bool {
        !self.0.has_started.swap(true, Ordering::AcqRel)
    }

    pub(super) fn record_tick(&self, at: Timestamp, checked: usize, next_due: Option<Timestamp>) {
        self.0.last_tick.store(at.as_micros(), Ordering::Relaxed);
        self.0.last_checked.store(u64::try_from(checked).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.next_due.note(next_due);
    }

    pub(super) fn next_due(&self) -> Timestamp {
        self.0.next_due.at()
    }

    pub(super) fn set_next_claim(&self, at: Option<Timestamp>) {
        self.0.next_claim.note(at);
    }

    pub(super) fn next_claim(&self) -> Timestamp {
        self.0.next_claim.at()
    }

    /// Returns the time zone of the profile, which applies to dates without an offset.
    pub(super) fn zone(&self) -> Zone {
        // Validated when it was saved.
        Zone::parse(&self.0.settings.profile().timezone).unwrap_or(Zone::UTC)
    }

    /// Describes a schedule in the interface language, and in the profile's zone unless it has its own.
    pub(super) fn human_readable(&self, schedule: &Schedule) -> String {
        schedule.human_readable(self.language(), &self.zone())
    }

    /// Returns the interface language, used for descriptions of schedules.
    pub(super) fn language(&self) -> Language {
        Language::from_tag(&self.0.settings.interface().language)
    }

    /// Returns the start of the current month in the profile's zone.
    pub(super) fn first_of_month(&self) -> Option<Timestamp> {
        let zone = self.zone();
        let today = zone.wall(self.0.context.clock.now()).date();
        zone.instant(today.first_of_month().to_datetime(jiff::civil::Time::midnight()))
    }
}
