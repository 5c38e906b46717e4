//! Completion of runs: with their turn, without a turn, or because they are stopped. All consequences are part of the
//! transaction that ends the attempt.

use agentd_core::rollups::{self, Counter};
use agentd_core::vault::{VaultError, open_url};
use agentd_engine::engine::{
    EngineError, NoAnswer, Reply, SessionId, SessionStatus, Settled, TurnSink, cancel_session,
};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::Scheduler;
use crate::notify::NotifyError;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::chain::Advance;
use crate::scheduler::model::run::{MAX_OPEN_RUNS, Outcome, too_many_open_runs};
use crate::scheduler::model::{
    Chain, ChainCause, ChainRunId, ChainRunStatus, ChainStep, DeliveryRule, Job, JobId, JobStatus, Run, RunCause,
    RunId, RunStatus, StopReason,
};
use crate::scheduler::store::{chains, claims, jobs, runs};
use crate::scheduler::{events, message};

/// Name of the turn sink that routes replies to their runs.
pub(crate) const TURN_SINK: &str = "scheduler";

impl TurnSink for Scheduler {
    fn name(&self) -> &'static str {
        TURN_SINK
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            let Some(run) = runs::find_by_session(tx, &reply.session_id).await? else { return Ok(Settled::Ended) };
            let job = jobs::find_job(tx, &run.job_id).await?;
            let limit = job.as_ref().map_or(0, |job| job.time_limit_seconds);
            let outcome = Outcome::of_reply(reply, run.stop_reason, limit);
            // The turn reports only that it was cancelled; the timeout is known here.
            let timeout = outcome.error.clone().filter(|_| outcome.status == RunStatus::Timeout);
            let timeout = timeout.map(|message| NoAnswer { code: "timeout".to_owned(), message });
            let settled = self.end_attempt(tx, &run, job.as_ref(), outcome, run.attempt).await?;
            Ok(match (settled, timeout) {
                (Settled::Ended, Some(timeout)) => Settled::EndedFor(timeout),
                (Settled::Repeated, Some(timeout)) => Settled::RepeatedFor(timeout),
                (settled, _) => settled,
            })
        })
    }
}

impl Scheduler {
    /// Ends an attempt that started no turn. Does nothing if the claim was lost.
    pub(crate) async fn end_without_turn(
        &self,
        run: Run,
        outcome: Outcome,
        code: &'static str,
    ) -> Result<(), StoreError> {
        let scheduler = self.clone();
        let work = async move |tx: &mut Tx| {
            if !claims::is_held(tx, &run).await? {
                return Ok(());
            }
            let job = jobs::find_job(tx, &run.job_id).await?;
            let attempt = run.attempt + u32::from(outcome.is_retryable());
            let settled = scheduler.end_attempt(tx, &run, job.as_ref(), outcome.clone(), attempt).await?;
            if settled == Settled::Ended && outcome.status.is_failure() {
                tx.emit(events::failed(&run, code, outcome.error.as_deref().unwrap_or_default())).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.0.context.db.write(work).await
    }

    /// Ends a run whose session ended without reporting its result.
    pub(crate) async fn settle_lost_session(&self, run: &Run, session: &SessionId) -> Result<(), SchedulerError> {
        match self.0.engine.get(session).await {
            Ok(session) if session.status == SessionStatus::Running => return Ok(()),
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let (scheduler, session) = (self.clone(), session.clone());
        let status = if run.stop_reason.is_some() { RunStatus::Cancelled } else { RunStatus::Failed };
        let work = async move |tx: &mut Tx| {
            // The session may have reported its result meanwhile.
            let Some(run) = runs::find_by_session(tx, &session).await? else { return Ok(()) };
            let job = jobs::find_job(tx, &run.job_id).await?;
            let outcome = Outcome::ended(status, "The log of the attempt was deleted.");
            scheduler.end_attempt(tx, &run, job.as_ref(), outcome, run.attempt).await?;
            Ok::<_, SchedulerError>(())
        };
        self.0.context.db.write(work).await
    }

    /// Stops open runs. Runs without a turn end immediately; the others end with their turn.
    pub(crate) async fn stop_open(&self, tx: &mut Tx, open: &[Run], reason: StopReason) -> Result<(), StoreError> {
        for run in open {
            match &run.session_id {
                Some(session) if run.status == RunStatus::Running => {
                    runs::request_stop(tx, &run.id, reason).await?;
                    cancel_session(tx, session).await?;
                }
                _ => {
                    let job = jobs::find_job(tx, &run.job_id).await?;
                    let outcome = Outcome::ended(RunStatus::Cancelled, reason.sentence());
                    self.end_attempt(tx, run, job.as_ref(), outcome, run.attempt).await?;
                }
            }
        }
        Ok(())
    }

    /// Schedules the next attempt of a run, or ends the run with all consequences. `job` is `None` if it was deleted.
    async fn end_attempt(
        &self,
        tx: &mut Tx,
        run: &Run,
        job: Option<&Job>,
        outcome: Outcome,
        attempt: u32,
    ) -> Result<Settled, StoreError> {
        let error = outcome.error.as_deref();
        if let Some(job) = job
            && outcome.is_retryable()
        {
            let delay = match outcome.is_interrupted {
                true => job.retry.delay_after_interruption(attempt),
                false => job.retry.delay_after(attempt),
            };
            if let Some(delay) = delay {
                let due_at = tx.clock().now() + delay;
                runs::schedule_retry(tx, &run.id, attempt, error, due_at).await?;
                tx.emit(events::retrying(run, attempt, due_at, error.unwrap_or_default())).await?;
                return Ok(Settled::Repeated);
            }
        }
        if !runs::end_run(tx, &run.id, attempt, &outcome).await? {
            return Ok(Settled::Ended);
        }
        self.0.counts.count(outcome.status);
        let is_skipped = outcome.status == RunStatus::Skipped;
        let has_failed = outcome.status.is_failure();
        let counted = [(Counter::Runs, "", (!is_skipped).into()), (Counter::FailedRuns, "", has_failed.into())];
        rollups::count(tx, &counted).await?;
        if is_skipped {
            tx.emit(events::skipped(run, error.unwrap_or_default())).await?;
        }
        if let Some(job) = job {
            // A one-time job is closed only if its date has not been changed meanwhile.
            if run.scheduled_for.is_some() && run.scheduled_for == job.schedule.only_slot() {
                let status = if has_failed { JobStatus::Failed } else { JobStatus::Completed };
                jobs::close_job(tx, &job.id, status).await?;
            }
            self.enqueue_output(tx, run, job, &outcome).await?;
            self.mark_for_trimming(&job.id);
        }
        self.advance_chains(tx, run, outcome.status).await?;
        Ok(Settled::Ended)
    }

    /// Enqueues the message about a completed run. A failure is only logged, because the run has ended regardless.
    async fn enqueue_output(&self, tx: &mut Tx, run: &Run, job: &Job, outcome: &Outcome) -> Result<(), StoreError> {
        let Some(rule) = job.delivery.clone() else { return Ok(()) };
        let opened = open_url(tx, self.0.settings.vault(), &jobs::secret_scope(&job.id), &rule.channel).await;
        let problem = match opened {
            Ok(Ok(channel)) => {
                let rule = DeliveryRule { channel, ..rule };
                let Some(message) = message::notification(job, run, &rule, outcome) else { return Ok(()) };
                match self.0.notify.enqueue(tx, &message).await {
                    Ok(_) => return Ok(()),
                    Err(NotifyError::Store(error)) => return Err(error),
                    Err(error) => error.to_string(),
                }
            }
            Ok(Err(problem)) => problem,
            Err(VaultError::Store(error)) => return Err(error),
            Err(error) => error.to_string(),
        };
        tracing::error!(job = %job.id, run = %run.id, problem, "failed to enqueue the output of a run");
        Ok(())
    }

    /// Advances the chain runs that contain the run, and starts the chains whose root is its job.
    async fn advance_chains(&self, tx: &mut Tx, run: &Run, status: RunStatus) -> Result<(), StoreError> {
        for (chain_run, chain) in chains::record_step_result(tx, &run.id, status).await? {
            if let Some(chain) = chains::find_chain(tx, &chain).await? {
                self.advance_chain(tx, &chain, &chain_run).await?;
            }
        }
        if run.cause == RunCause::Chain {
            return Ok(());
        }
        for chain in chains::list_chains_of_job(tx, &run.job_id, true).await? {
            let step = ChainStep { job_id: run.job_id.clone(), run_id: run.id.clone(), status };
            // Skipped runs do not create chain runs without any step to execute.
            let is_idle = matches!(chain.advance(std::slice::from_ref(&step)), Advance::Finished(_));
            if status == RunStatus::Skipped && is_idle {
                continue;
            }
            let id = ChainRunId::generate(tx.ids());
            chains::insert_chain_run(tx, &id, &chain.id, ChainCause::Job).await?;
            chains::insert_step(tx, &id, &step).await?;
            self.advance_chain(tx, &chain, &id).await?;
        }
        Ok(())
    }

    /// Starts the ready steps of a chain run, or ends it.
    pub(super) async fn advance_chain(
        &self,
        tx: &mut Tx,
        chain: &Chain,
        chain_run: &ChainRunId,
    ) -> Result<(), StoreError> {
        loop {
            let steps = chains::list_steps(tx, chain_run).await?;
            match chain.advance(&steps) {
                // Skipped steps complete immediately, so their successors are decided in the next iteration.
                Advance::Start(next) => {
                    if !self.begin_steps(tx, chain_run, &next).await? {
                        return Ok(());
                    }
                }
                Advance::Finished(status) => return chains::end_chain_run(tx, chain_run, status).await,
            }
        }
    }

    /// Creates runs of the given jobs as steps of a chain run. Returns whether steps were skipped because too many runs
    /// of their jobs are open.
    pub(super) async fn begin_steps(
        &self,
        tx: &mut Tx,
        chain_run: &ChainRunId,
        next: &[JobId],
    ) -> Result<bool, StoreError> {
        let open = runs::list_open(tx, next).await?;
        let mut has_skipped = false;
        for id in next {
            let Some(job) = jobs::find_job(tx, id).await? else {
                chains::end_chain_run(tx, chain_run, ChainRunStatus::Failed).await?;
                return Ok(false);
            };
            let now = tx.clock().now();
            let mut run = job.new_run(RunId::generate(tx.ids()), RunCause::Chain, now);
            let is_skipped = open.iter().filter(|run| run.job_id == *id).count() >= MAX_OPEN_RUNS;
            if is_skipped {
                run.skip(&too_many_open_runs(), now);
            }
            let step = ChainStep { job_id: job.id.clone(), run_id: run.id.clone(), status: run.status };
            if !chains::insert_step(tx, chain_run, &step).await? {
                continue;
            }
            runs::insert_runs(tx, std::slice::from_ref(&run)).await?;
            if is_skipped {
                has_skipped = true;
                self.0.counts.count(RunStatus::Skipped);
                self.mark_for_trimming(&job.id);
                tx.emit(events::skipped(&run, run.error.as_deref().unwrap_or_default())).await?;
            } else {
                tx.emit(events::queued(&run)).await?;
            }
        }
        Ok(has_skipped)
    }
}
