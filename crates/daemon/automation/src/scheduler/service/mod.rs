//! Taking jobs, showing them, starting and stopping their runs.

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
pub(super) use ending::TRANSCRIPT;
pub use jobs::{CreateJob, ListJobs, UpdateJob};
pub use parse::{ParseMethod, PlainSchedule, Validation};
pub use smart::{Calendar, CalendarEntry, Heatmap};
pub(super) use statistics::TICK_INTERVAL;
pub use statistics::{JobStatistics, SchedulerStatus, Statistics};

/// Figures of this process, for the metrics.
#[derive(Debug, Default)]
pub struct RunCounts {
    ended: [AtomicU64; 5],
    lateness_ms: AtomicU64,
}

impl RunCounts {
    /// The states in which a run ends.
    pub const ENDS: [RunStatus; 5] =
        [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled, RunStatus::Skipped, RunStatus::Timeout];

    pub(super) fn count(&self, status: RunStatus) {
        if let Some(place) = Self::ENDS.iter().position(|end| *end == status) {
            self.ended[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_lateness(&self, late: Duration) {
        self.lateness_ms.store(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many runs ended in each state since the daemon started.
    #[must_use]
    pub fn ended(&self) -> [(RunStatus, u64); 5] {
        std::array::from_fn(|place| (Self::ENDS[place], self.ended[place].load(Ordering::Relaxed)))
    }

    /// How late the newest claimed slot was.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        Duration::from_millis(self.lateness_ms.load(Ordering::Relaxed))
    }
}

const PREPARED_AT_ONCE: usize = 8;
const MAX_GROWN_JOBS: usize = 10_000;

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    projects: Projects,
    engine: Engine,
    notify: Notify,
    tick_wake: Arc<tokio::sync::Notify>,
    run_wake: Arc<tokio::sync::Notify>,
    /// Runs that this process holds.
    running: watch::Sender<usize>,
    /// Those of them that have no session yet: their claims are renewed.
    claims: Mutex<BTreeSet<(RunId, u32)>>,
    /// Jobs that got runs since their oldest ones were trimmed.
    grown: Mutex<BTreeSet<JobId>>,
    /// Runs that are being prepared at once: a thousand of them must not stand in the way of the next claim.
    preparing: tokio::sync::Semaphore,
    counts: RunCounts,
    /// Sees the owner do something.
    activity: Arc<dyn ActivitySource>,
    /// For show and for sleeping; rows decide. Microseconds.
    next_due: NextDue,
    next_claim: NextDue,
    last_tick: AtomicI64,
    last_checked: AtomicU64,
    /// As it was a minute ago at most: the bound on jobs needs no better.
    known_jobs: AtomicU64,
    has_started: AtomicBool,
}

/// Cheap to clone.
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
            grown: Mutex::default(),
            preparing: tokio::sync::Semaphore::new(PREPARED_AT_ONCE),
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

    /// Waits until nothing is begun here any more, and tells that this scheduler stopped. The engine was
    /// drained before.
    pub async fn drain(&self, grace: Duration) {
        let mut running = self.0.running.subscribe();
        if tokio::time::timeout(grace, running.wait_for(|running| *running == 0)).await.is_err() {
            tracing::warn!("some runs are only taken up again when their claims end");
        }
        if !self.0.has_started.swap(false, Ordering::AcqRel) {
            return;
        }
        let instance = Arc::clone(&self.0.context.instance);
        let stop = async move |tx: &mut Tx| tx.emit(events::stopped(&instance)).await.map(|_| ());
        if let Err(error) = self.0.context.db.write::<_, StoreError, _>(stop).await {
            tracing::warn!(%error, "that the scheduler stopped is not told");
        }
    }

    /// What ran and how late, in this process.
    #[must_use]
    pub fn counts(&self) -> &RunCounts {
        &self.0.counts
    }

    /// How many jobs wait for their next run.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn count_active(&self) -> Result<u64, SchedulerError> {
        Ok(store::statistics::count_active(&mut self.0.context.db.read().await?).await?)
    }

    /// Counts the jobs, for the bound on them.
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

    /// Claims of this process that have no session yet, each with its fence.
    pub(super) fn claims(&self) -> &Mutex<BTreeSet<(RunId, u32)>> {
        &self.0.claims
    }

    /// Remembers that a job got runs, so that its oldest are trimmed. One that is not remembered is so with its next run.
    pub(super) fn note_grown(&self, job: &JobId) {
        let mut grown = self.0.grown.lock();
        if grown.len() < MAX_GROWN_JOBS {
            grown.insert(job.clone());
        }
    }

    /// Takes up to `limit` of the jobs whose runs are to be trimmed.
    pub(super) fn take_grown(&self, limit: usize) -> Vec<JobId> {
        let mut grown = self.0.grown.lock();
        std::iter::from_fn(|| grown.pop_first()).take(limit).collect()
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

    /// Answers whether this is the first time.
    pub(super) fn note_started(&self) -> bool {
        !self.0.has_started.swap(true, Ordering::AcqRel)
    }

    pub(super) fn note_tick(&self, at: Timestamp, checked: usize, next_due: Option<Timestamp>) {
        self.0.last_tick.store(at.as_micros(), Ordering::Relaxed);
        self.0.last_checked.store(u64::try_from(checked).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.next_due.note(next_due);
    }

    pub(super) fn next_due(&self) -> Timestamp {
        self.0.next_due.at()
    }

    pub(super) fn note_next_claim(&self, at: Option<Timestamp>) {
        self.0.next_claim.note(at);
    }

    pub(super) fn next_claim(&self) -> Timestamp {
        self.0.next_claim.at()
    }

    /// The profile's zone, in which a date without an offset is read.
    pub(super) fn zone(&self) -> Zone {
        // Checked when it was saved.
        Zone::parse(&self.0.settings.profile().timezone).unwrap_or(Zone::UTC)
    }

    /// As the owner would say it: in the interface's language, and in the profile's zone unless it has its own.
    pub(super) fn human_readable(&self, schedule: &Schedule) -> String {
        schedule.human_readable(self.language(), &self.zone())
    }

    /// The interface's, which schedules are put into words in.
    pub(super) fn language(&self) -> Language {
        Language::from_tag(&self.0.settings.interface().language)
    }

    /// When this month began in the profile's zone.
    pub(super) fn first_of_month(&self) -> Option<Timestamp> {
        let zone = self.zone();
        let today = zone.wall(self.0.context.clock.now()).date();
        zone.instant(today.first_of_month().to_datetime(jiff::civil::Time::midnight()))
    }
}
