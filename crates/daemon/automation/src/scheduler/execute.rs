//! Execution of runs: claim, evaluate the condition, acquire a provider permit, start the turn.
//!
//! A run is `running` once it is claimed. Its session starts when its provider has a free permit. A thousand runs of
//! the same second therefore make only a few concurrent calls to the provider.

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
use super::service::{Scheduler, TURN_SINK};
use super::store::{claims, jobs, runs};
use crate::notify::NotifyError;

/// Lease of a claimed run. Renewed every ten seconds, so that the runs of a crashed daemon are released soon.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Maximum number of runs that one daemon holds concurrently. Further runs are left for other daemons, or for later.
const MAX_HELD_RUNS: usize = 1_500;
const RUN_BATCH_SIZE: usize = 256;
/// Maximum wait of one worker round, so that the worker becomes idle regularly and notices due runs.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Delay before a run is claimed again after a failure unrelated to the run.
const DEFERRAL_DELAY: Duration = Duration::from_secs(5);

/// Claims due runs and executes them concurrently.
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
        self.scheduler.next_claim().since(now).clamp(Duration::from_millis(20), MAX_WAIT)
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
            // The database is exclusive to this daemon, so any other owner of a claim has stopped.
            let owner = Arc::clone(&context.instance);
            context.db.write(async move |tx: &mut Tx| claims::void_foreign_claims(tx, &owner).await).await?;
            self.has_voided.store(true, Ordering::Release);
        }
        let mut running = scheduler.running().subscribe();
        let before = *running.borrow_and_update();
        let free = MAX_HELD_RUNS.saturating_sub(before).min(RUN_BATCH_SIZE);
        let due = claims::next_claimable(&mut context.db.read().await?).await?;
        scheduler.set_next_claim(due);
        let mut items = 0;
        if free > 0 && due.is_some_and(|due| due <= context.clock.now()) {
            items = self.claim(free).await? as u64;
            if items == free as u64 {
                return Ok(WorkerReport::more(items));
            }
        }
        let now_running = *running.borrow_and_update();
        // Runs that completed after the query may have freed capacity.
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
            () = tokio::time::sleep(MAX_WAIT) => {}
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
                scheduler.counts().record_lateness(now.since(slot));
            }
            let permit = RunPermit::acquire(scheduler, &run);
            // Runs in its own task, so that a long turn does not block the worker and is not cancelled with it.
            tokio::spawn(async move { execute_run(permit, run).await });
        }
        Ok(count)
    }
}

/// A run held by this process, released on drop. Its claim is renewed until its session starts.
struct RunPermit {
    scheduler: Scheduler,
    claim: (RunId, u32),
}

impl RunPermit {
    fn acquire(scheduler: &Scheduler, run: &Run) -> Self {
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
        // Runs that waited for this one may start.
        self.scheduler.run_wake().notify_one();
    }
}

/// Reason an attempt did not start a turn.
enum StartFailure {
    /// The claim was lost; another daemon has taken over.
    ClaimLost,
    /// A failure unrelated to the run, which may be claimed again after the delay. Holds the cause if it is an error.
    Later(Duration, Option<StoreError>),
    /// The run, or this attempt, has ended.
    Ended(Outcome, &'static str),
}

impl From<StoreError> for StartFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LostLease { .. } => Self::ClaimLost,
            error => Self::Later(DEFERRAL_DELAY, Some(error)),
        }
    }
}

impl From<EngineError> for StartFailure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Draining => Self::Later(Duration::ZERO, None),
            EngineError::TooManyTurns { .. } => Self::Later(DEFERRAL_DELAY, None),
            EngineError::Store(error) => error.into(),
            other => Self::Ended(Outcome::failed(other.to_string()), other.code()),
        }
    }
}

async fn execute_run(permit: RunPermit, run: Run) {
    let scheduler = &permit.scheduler;
    let written = match begin(scheduler, &run).await {
        Ok((session, background)) => {
            permit.stop_renewing();
            scheduler.engine().wait_until_released(&session).await;
            drop(background);
            return;
        }
        Err(StartFailure::ClaimLost) => return,
        Err(StartFailure::Later(delay, cause)) => {
            if let Some(error) = cause {
                tracing::warn!(run = %run.id, %error, "failed to start run; start deferred");
            }
            let (run, due_at) = (run.clone(), scheduler.context().clock.now() + delay);
            let work = async move |tx: &mut Tx| claims::release_run(tx, &run, due_at).await;
            scheduler.context().db.write(work).await
        }
        Err(StartFailure::Ended(outcome, code)) => scheduler.end_without_turn(run.clone(), outcome, code).await,
    };
    match written {
        Ok(()) | Err(StoreError::LostLease { .. }) => {}
        // The claim is no longer renewed and expires.
        Err(error) => {
            tracing::warn!(run = %run.id, %error, "failed to store the outcome of a run; its claim expires");
        }
    }
}

/// Starts an attempt of a run. Returns its session and the permit to hold while the session calls the model.
async fn begin(
    scheduler: &Scheduler,
    run: &Run,
) -> Result<(SessionId, agentd_engine::engine::BackgroundPermit), StartFailure> {
    let preparing = scheduler.preparing().acquire().await;
    let mut read = scheduler.context().db.read().await?;
    let Some(job) = jobs::find_job(&mut read, &run.job_id).await? else {
        let outcome = Outcome::ended(RunStatus::Cancelled, "The job was deleted.");
        return Err(StartFailure::Ended(outcome, "job_not_found"));
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
        other => StartFailure::Ended(Outcome::failed("the agent of the job was deleted"), other.code()),
    })?;
    drop(preparing);
    let background = scheduler.engine().background_permit(job.id.as_str(), &agent, job.model.as_deref()).await?;
    let history = history(&job, run, scheduler.context().clock.now(), &scheduler.zone());
    let turn = build_turn(&job, run, agent, history);
    let (claimed, limit) = (run.clone(), Duration::from_secs(u64::from(job.time_limit_seconds)));
    let open = async move |tx: &mut Tx, session: &SessionId| {
        let now = tx.clock().now();
        claims::begin_attempt(tx, &claimed, session, now + limit).await?;
        if claimed.attempt == 0 {
            jobs::record_start(tx, &claimed.job_id, now).await?;
        }
        Ok::<_, StartFailure>(())
    };
    let session = scheduler.engine().start(turn, open).await?;
    Ok((session, background))
}

/// Returns the delivery status of the message about a run.
async fn find_delivery(scheduler: &Scheduler, read: &mut Read, run: &Run) -> Result<Option<RunDelivery>, StartFailure> {
    let key = message::key(&run.id);
    let mut outcomes = match scheduler.notify().outcomes(read, std::slice::from_ref(&key)).await {
        Ok(outcomes) => outcomes,
        Err(NotifyError::Store(error)) => return Err(error.into()),
        Err(_) => return Err(StartFailure::Later(DEFERRAL_DELAY, None)),
    };
    Ok(outcomes.remove(&key).map(|(status, error)| RunDelivery { status, error }))
}

/// Evaluates the job's condition.
///
/// # Errors
/// The run is skipped, failed or deferred.
async fn evaluate(
    job: &Job,
    last: Option<Run>,
    delivery: Option<RunDelivery>,
    now: Timestamp,
) -> Result<(), StartFailure> {
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
            Err(StartFailure::Ended(Outcome::ended(RunStatus::Skipped, "the condition was false"), "condition_false"))
        }
        Ok(Err(error)) => {
            let sentence = format!("the condition could not be evaluated: {error}");
            // Conditions are evaluated only before the first attempt, so another attempt would run unchecked.
            Err(StartFailure::Ended(Outcome::failed_permanently(sentence), "condition_failed"))
        }
        Err(_) => Err(StartFailure::Later(DEFERRAL_DELAY, None)),
    }
}

/// Formats a time in the owner's zone and in UTC.
fn format_time(at: Timestamp, zone: &Zone) -> String {
    if *zone == Zone::UTC {
        return at.to_string();
    }
    format!("{} in {zone} ({at})", zone.wall(at).strftime("%A, %Y-%m-%d %H:%M"))
}

/// Builds the messages of a run: a note about its circumstances and the goal. `zone` is the zone of the profile.
fn history(job: &Job, run: &Run, now: Timestamp, zone: &Zone) -> Vec<HistoryMessage> {
    let why = match (run.cause, run.scheduled_for) {
        (RunCause::Schedule, Some(slot)) => format!("as planned for {}", format_time(slot, zone)),
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
        format_time(now, zone)
    );
    vec![HistoryMessage::Note(note), HistoryMessage::User(job.goal.clone())]
}

fn build_turn(job: &Job, run: &Run, agent: Arc<Agent>, history: Vec<HistoryMessage>) -> StartTurn {
    StartTurn {
        origin: Origin::run(job.id.as_str(), run.id.as_str()),
        model: job.model.clone(),
        project_id: job.project_id.as_ref().map(ToString::to_string),
        sink: Some(TURN_SINK),
        tools: job.execution_mode.tool_use(),
        recall: Some(job.goal.clone()),
        ..StartTurn::auxiliary(agent, history)
    }
}
