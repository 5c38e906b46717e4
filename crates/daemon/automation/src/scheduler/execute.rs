//! Carrying runs out: claim, evaluate the condition, wait for a permit at the provider, begin the turn.
//!
//! A run is `running` from its claim on. Its session begins when there is a permit at its provider, so a
//! thousand runs of the same second ask the provider a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_base::{DomainError, Timestamp};
use agentd_core::runtime::{Worker, WorkerError, WorkerReport};
use agentd_engine::agents::{Agent, AgentError};
use agentd_engine::engine::{EngineError, HistoryMessage, Origin, SessionId, StartTurn};
use agentd_schedule::Zone;
use agentd_store::{Durability, Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::message;
use super::model::run::Outcome;
use super::model::{Job, Run, RunCause, RunDelivery, RunId, RunStatus, condition};
use super::service::{Scheduler, TRANSCRIPT};
use super::store::{claims, jobs, runs};
use crate::notify::NotifyError;

/// Renewed every ten seconds, so that a daemon that died holds nothing for long.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Runs that one daemon holds at once; more than this stay for others, and for later.
const MOST_HELD: usize = 1_500;
const RUNS_A_BATCH: usize = 256;
/// So that the daemon can come to rest, and takes up what became due meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// After what has nothing to do with the run.
const SHORT_DELAY: Duration = Duration::from_secs(5);

/// Claims runs that are due and carries them out, many at once.
#[derive(Debug)]
pub(super) struct StartRuns {
    scheduler: Scheduler,
    has_voided: AtomicBool,
}

impl StartRuns {
    #[must_use]
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, has_voided: AtomicBool::new(false) }
    }
}

impl Worker for StartRuns {
    fn name(&self) -> &'static str {
        "scheduler.runs"
    }

    fn description(&self) -> &'static str {
        "Starts runs that are due."
    }

    fn interval(&self) -> Duration {
        let now = self.scheduler.context().clock.now();
        self.scheduler.next_claim().since(now).clamp(Duration::from_millis(20), LONGEST_WAIT)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.scheduler.next_claim())
    }

    fn wake(&self) -> Option<Arc<tokio::sync::Notify>> {
        Some(self.scheduler.run_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl StartRuns {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let scheduler = &self.scheduler;
        let context = scheduler.context();
        if context.db.is_exclusive() && !self.has_voided.load(Ordering::Acquire) {
            // The database is this daemon's alone: whoever else claimed something is gone.
            let owner = Arc::clone(&context.instance);
            context.db.write(async move |tx: &mut Tx| claims::void_foreign_claims(tx, &owner).await).await?;
            self.has_voided.store(true, Ordering::Release);
        }
        let mut running = scheduler.running().subscribe();
        let before = *running.borrow_and_update();
        let free = MOST_HELD.saturating_sub(before).min(RUNS_A_BATCH);
        let due = claims::next_claimable(&mut context.db.read().await?).await?;
        scheduler.note_next_claim(due);
        let mut items = 0;
        if free > 0 && due.is_some_and(|due| due <= context.clock.now()) {
            items = self.claim(free).await? as u64;
            if items == free as u64 {
                return Ok(WorkerReport::more(items));
            }
        }
        let now_running = *running.borrow_and_update();
        // What ended after the look at what is due may have made room for more.
        if now_running < before + usize::try_from(items).unwrap_or(0) {
            return Ok(WorkerReport { items, has_more: true });
        }
        if now_running == 0 {
            return Ok(WorkerReport::done(items));
        }
        let wake = scheduler.run_wake();
        tokio::select! {
            _ = running.wait_for(|running| *running < now_running) => {}
            () = wake.notified() => {}
            () = tokio::time::sleep(LONGEST_WAIT) => {}
        }
        Ok(WorkerReport { items, has_more: true })
    }

    async fn claim(&self, limit: usize) -> Result<usize, WorkerError> {
        let scheduler = &self.scheduler;
        let context = scheduler.context();
        let owner = Arc::clone(&context.instance);
        let limit = u32::try_from(limit).unwrap_or(1);
        let work = async move |tx: &mut Tx| claims::claim_runs(tx, &owner, limit, LEASE).await;
        let claimed = context.db.write_locking::<_, StoreError, _>(Durability::Full, work).await?;
        let now = context.clock.now();
        let count = claimed.len();
        for run in claimed {
            if let (Some(slot), 0) = (run.scheduled_for, run.attempt) {
                scheduler.counts().note_lateness(now.since(slot));
            }
            let place = RunPermit::take(scheduler, &run);
            // In a task of its own: a turn takes its time, and what has begun is not cut off with the worker.
            tokio::spawn(async move { carry_out(place, run).await });
        }
        Ok(count)
    }
}

/// One of the runs that this process holds; released when dropped. Its claim is renewed until it has a session.
struct RunPermit {
    scheduler: Scheduler,
    claim: (RunId, u32),
}

impl RunPermit {
    fn take(scheduler: &Scheduler, run: &Run) -> Self {
        let claim = (run.id.clone(), run.fence);
        scheduler.running().send_modify(|running| *running += 1);
        scheduler.claims().lock().insert(claim.clone());
        Self { scheduler: scheduler.clone(), claim }
    }

    fn stop_renewing(&self) {
        self.scheduler.claims().lock().remove(&self.claim);
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.stop_renewing();
        self.scheduler.running().send_modify(|running| *running -= 1);
        // What waited for the end of this one may begin.
        self.scheduler.run_wake().notify_one();
    }
}

/// Why an attempt has no turn.
enum NoTurn {
    /// The claim does not stand any more, so somebody else decided.
    NotHeld,
    /// It has nothing to do with the run, which may be claimed again after a while; with the cause where it is a fault.
    Later(Duration, Option<StoreError>),
    /// The run is over, or this attempt of it.
    Ended(Outcome, &'static str),
}

impl From<StoreError> for NoTurn {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LostLease { .. } => Self::NotHeld,
            error => Self::Later(SHORT_DELAY, Some(error)),
        }
    }
}

impl From<EngineError> for NoTurn {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Draining => Self::Later(Duration::ZERO, None),
            EngineError::TooManyTurns { .. } => Self::Later(SHORT_DELAY, None),
            EngineError::Store(error) => error.into(),
            other => Self::Ended(Outcome::failed(other.to_string()), other.code()),
        }
    }
}

async fn carry_out(place: RunPermit, run: Run) {
    let scheduler = &place.scheduler;
    let written = match begin(scheduler, &run).await {
        Ok((session, background)) => {
            place.stop_renewing();
            scheduler.engine().wait_until_let_go(&session).await;
            drop(background);
            return;
        }
        Err(NoTurn::NotHeld) => return,
        Err(NoTurn::Later(delay, cause)) => {
            if let Some(error) = cause {
                tracing::warn!(run = %run.id, %error, "a run begins later, because the database did not take its beginning");
            }
            let (run, due_at) = (run.clone(), scheduler.context().clock.now() + delay);
            let work = async move |tx: &mut Tx| claims::release_run(tx, &run, due_at).await;
            scheduler.context().db.write(work).await
        }
        Err(NoTurn::Ended(outcome, code)) => scheduler.end_without_turn(run.clone(), outcome, code).await,
    };
    match written {
        Ok(()) | Err(StoreError::LostLease { .. }) => {}
        // The claim ends by itself when it is renewed no more.
        Err(error) => {
            tracing::warn!(run = %run.id, %error, "failed to store the outcome of a run; its claim expires");
        }
    }
}

/// Brings a run's attempt on its way; answers its session, with the permit to hold while it asks the model.
async fn begin(
    scheduler: &Scheduler,
    run: &Run,
) -> Result<(SessionId, agentd_engine::engine::BackgroundPermit), NoTurn> {
    let preparing = scheduler.preparing().acquire().await;
    let mut read = scheduler.context().db.read().await?;
    let Some(job) = jobs::find_job(&mut read, &run.job_id).await? else {
        let outcome = Outcome::ended(RunStatus::Cancelled, "The job was deleted.");
        return Err(NoTurn::Ended(outcome, "job_not_found"));
    };
    let last = match (&job.condition, run.attempt) {
        (Some(_), 0) => runs::find_last_ended(&mut read, &job.id).await?,
        _ => None,
    };
    let delivery = match &last {
        Some(last) => find_delivery(scheduler, &mut read, last).await?,
        None => None,
    };
    drop(read);
    let now = scheduler.context().clock.now();
    if run.attempt == 0 {
        evaluate(&job, last, delivery, now).await?;
    }
    let agent = scheduler.agents().get(job.agent_id.as_str()).await.map_err(|error| match error {
        AgentError::Store(error) => error.into(),
        other => NoTurn::Ended(Outcome::failed("the agent of the job is not there any more"), other.code()),
    })?;
    drop(preparing);
    let background = scheduler.engine().background_permit(job.id.as_str(), &agent, job.model.as_deref()).await?;
    let history = history(&job, run, scheduler.context().clock.now(), &scheduler.zone());
    let turn = turn_of(&job, run, agent, history);
    let (claimed, limit) = (run.clone(), Duration::from_secs(u64::from(job.time_limit_seconds)));
    let open = async move |tx: &mut Tx, session: &SessionId| {
        let now = tx.clock().now();
        claims::begin_attempt(tx, &claimed, session, now + limit).await?;
        if claimed.attempt == 0 {
            jobs::note_begun(tx, &claimed.job_id, now).await?;
        }
        Ok::<_, NoTurn>(())
    };
    let session = scheduler.engine().start(turn, open).await?;
    Ok((session, background))
}

/// What became of the message about a run.
async fn find_delivery(scheduler: &Scheduler, read: &mut Read, run: &Run) -> Result<Option<RunDelivery>, NoTurn> {
    let key = message::key(&run.id);
    let mut outcomes = match scheduler.notify().outcomes(read, std::slice::from_ref(&key)).await {
        Ok(outcomes) => outcomes,
        Err(NotifyError::Store(error)) => return Err(error.into()),
        Err(_) => return Err(NoTurn::Later(SHORT_DELAY, None)),
    };
    Ok(outcomes.remove(&key).map(|(status, error)| RunDelivery { status, error }))
}

/// Whether the run may begin.
async fn evaluate(job: &Job, last: Option<Run>, delivery: Option<RunDelivery>, now: Timestamp) -> Result<(), NoTurn> {
    let Some(rule) = &job.condition else { return Ok(()) };
    let (expression, job) = (rule.expression.clone(), job.clone());
    let evaluate = move || {
        let last = last.as_ref().map(|last| (last, delivery.as_ref()));
        condition::evaluate(&expression, &job, last, now)
    };
    let evaluated = tokio::task::spawn_blocking(evaluate).await;
    match evaluated {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => {
            Err(NoTurn::Ended(Outcome::ended(RunStatus::Skipped, "the condition was false"), "condition_false"))
        }
        Ok(Err(error)) => {
            let sentence = format!("the condition could not be evaluated: {error}");
            // The next attempt would begin unguarded.
            Err(NoTurn::Ended(Outcome::failed_for_good(sentence), "condition_failed"))
        }
        Err(_) => Err(NoTurn::Later(SHORT_DELAY, None)),
    }
}

/// A time as the owner's clock shows it, and in UTC.
fn told(at: Timestamp, zone: &Zone) -> String {
    if *zone == Zone::UTC {
        return at.to_string();
    }
    format!("{} in {zone} ({at})", zone.wall(at).strftime("%A, %Y-%m-%d %H:%M"))
}

/// The goal, and where the agent finds itself; `zone` is the profile's.
fn history(job: &Job, run: &Run, now: Timestamp, zone: &Zone) -> Vec<HistoryMessage> {
    let why = match (run.cause, run.scheduled_for) {
        (RunCause::Schedule, Some(slot)) => format!("as planned for {}", told(slot, zone)),
        (RunCause::Chain, _) => "after the job before it in a chain".to_owned(),
        _ => "because somebody asked for it now".to_owned(),
    };
    let reader = match &job.delivery {
        Some(_) => "Your answer is sent to the owner as it is.",
        None => "Your answer is kept for the owner.",
    };
    let note = format!(
        "You were started by the scheduler for the job \"{}\", {why}. It is {}. Nobody reads along and nobody can \
         answer questions: do what is asked, then answer with the result alone. {reader}",
        job.name,
        told(now, zone)
    );
    vec![HistoryMessage::Note(note), HistoryMessage::User(job.goal.clone())]
}

fn turn_of(job: &Job, run: &Run, agent: Arc<Agent>, history: Vec<HistoryMessage>) -> StartTurn {
    StartTurn {
        origin: Origin::run(job.id.as_str(), run.id.as_str()),
        model: job.model.clone(),
        project_id: job.project_id.as_ref().map(ToString::to_string),
        transcript: Some(TRANSCRIPT),
        tools: job.execution_mode.tool_use(),
        recall: Some(job.goal.clone()),
        ..StartTurn::aside(agent, history)
    }
}
