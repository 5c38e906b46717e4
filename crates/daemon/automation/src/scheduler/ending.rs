//! What follows from the end of an attempt, in the transaction that ends it.

use agentd_base::DomainError;
use agentd_core::rollups::{self, Counter};
use agentd_core::vault::{VaultError, open_url};
use agentd_engine::engine::{NoAnswer, Reply, Settled, TurnSink, cancel_session};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::error::SchedulerError;
use super::model::chain::Advance;
use super::model::run::Outcome;
use super::model::slots::{MAX_OPEN_RUNS, too_many_open_runs};
use super::model::{
    Chain, ChainCause, ChainRunId, ChainRunStatus, ChainStep, DeliveryRule, Job, JobId, JobStatus, Run, RunCause,
    RunStatus, StopReason,
};
use super::service::Scheduler;
use super::store::{chains, claims, jobs, runs};
use super::{events, prompt};
use crate::notify::NotifyError;

/// Who keeps the replies of runs.
pub(super) const TRANSCRIPT: &str = "scheduler";

impl TurnSink for Scheduler {
    fn name(&self) -> &'static str {
        TRANSCRIPT
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            let Some(run) = runs::find_by_session(tx, &reply.session_id).await? else { return Ok(Settled::Ended) };
            let job = jobs::find_job(tx, &run.job_id).await?;
            let limit = job.as_ref().map_or(0, |job| job.time_limit_seconds);
            let outcome = Outcome::of_reply(reply, run.stop_reason, limit);
            // The turn only knows that it was cancelled.
            let ran_out = outcome.error.clone().filter(|_| outcome.status == RunStatus::Timeout);
            let settled = self.end_attempt(tx, &run, job.as_ref(), outcome, run.attempt).await?;
            Ok(match (settled, ran_out) {
                (Settled::Ended, Some(message)) => Settled::EndedFor(NoAnswer { code: "timeout".to_owned(), message }),
                (Settled::Repeated, Some(message)) => {
                    Settled::RepeatedFor(NoAnswer { code: "timeout".to_owned(), message })
                }
                (settled, _) => settled,
            })
        })
    }
}

impl Scheduler {
    /// An attempt that had no turn has failed, or the run is over without one. Nothing happens when the claim
    /// does not stand any more.
    pub(super) async fn end_without_turn(
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
            let attempt = run.attempt + u32::from(outcome.may_be_repeated());
            let settled = scheduler.end_attempt(tx, &run, job.as_ref(), outcome.clone(), attempt).await?;
            let has_failed = matches!(outcome.status, RunStatus::Failed | RunStatus::Timeout);
            if settled == Settled::Ended && has_failed {
                tx.emit(events::failed(&run, code, outcome.error.as_deref().unwrap_or_default())).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.context().db.write(work).await
    }

    /// The run goes on with another attempt, or is over, with all that follows. `job` is `None` when it was
    /// deleted.
    pub(super) async fn end_attempt(
        &self,
        tx: &mut Tx,
        run: &Run,
        job: Option<&Job>,
        outcome: Outcome,
        attempt: u32,
    ) -> Result<Settled, StoreError> {
        if let Some(job) = job
            && outcome.may_be_repeated()
        {
            let delay = match outcome.is_cut_off {
                true => job.retry.delay_after_cut_off(attempt),
                false => job.retry.delay_after(attempt),
            };
            if let Some(delay) = delay {
                let due_at = tx.clock().now() + delay;
                let error = outcome.error.as_deref();
                runs::repeat_run(tx, &run.id, attempt, error, due_at).await?;
                tx.emit(events::retrying(run, attempt, due_at, error.unwrap_or_default())).await?;
                return Ok(Settled::Repeated);
            }
        }
        if !runs::end_run(tx, &run.id, attempt, &outcome).await? {
            return Ok(Settled::Ended);
        }
        self.counts().count(outcome.status);
        let has_failed = matches!(outcome.status, RunStatus::Failed | RunStatus::Timeout);
        let is_run = outcome.status != RunStatus::Skipped;
        let counted = [(Counter::Runs, "", is_run.into()), (Counter::FailedRuns, "", has_failed.into())];
        rollups::count(tx, &counted).await?;
        self.follow_up(tx, run, job, &outcome).await?;
        Ok(Settled::Ended)
    }

    /// Where a job's output goes, with the credentials in its url.
    async fn opened_delivery(&self, tx: &mut Tx, job: &Job) -> Result<Option<DeliveryRule>, StoreError> {
        let Some(rule) = job.delivery.clone() else { return Ok(None) };
        let opened = open_url(tx, self.settings().vault(), &jobs::secret_scope(&job.id), &rule.channel).await;
        match opened {
            Ok(Ok(channel)) => Ok(Some(DeliveryRule { channel, ..rule })),
            Err(VaultError::Store(error)) => Err(error),
            Ok(Err(problem)) => {
                tracing::error!(job = %job.id, problem, "an output is not sent");
                Ok(None)
            }
            Err(error) => {
                tracing::error!(job = %job.id, %error, "an output is not sent");
                Ok(None)
            }
        }
    }

    /// What others make of the end of a run.
    async fn follow_up(&self, tx: &mut Tx, run: &Run, job: Option<&Job>, outcome: &Outcome) -> Result<(), StoreError> {
        if outcome.status == RunStatus::Skipped {
            tx.emit(events::skipped(run, outcome.error.as_deref().unwrap_or_default())).await?;
        }
        if let Some(job) = job {
            // Another date may have been given meanwhile; then something is still to come.
            if run.scheduled_for.is_some() && run.scheduled_for == job.schedule.only_slot() {
                let has_failed = matches!(outcome.status, RunStatus::Failed | RunStatus::Timeout);
                let status = if has_failed { JobStatus::Failed } else { JobStatus::Completed };
                jobs::close_job(tx, &job.id, status).await?;
            }
            if let Some(rule) = self.opened_delivery(tx, job).await?
                && let Some(message) = prompt::notification(job, run, &rule, outcome)
            {
                match self.notify().enqueue(tx, &message).await {
                    Ok(_) => {}
                    Err(NotifyError::Store(error)) => return Err(error),
                    // The run is over all the same; who looks for the message finds why it is not there.
                    Err(error) => tracing::error!(run = %run.id, code = error.code(), %error, "an output is not sent"),
                }
            }
            self.note_grown(&job.id);
        }
        for (chain_run, chain) in chains::note_step_ended(tx, &run.id, outcome.status).await? {
            if let Some(chain) = chains::find_chain(tx, &chain).await? {
                self.advance_chain(tx, &chain, &chain_run).await?;
            }
        }
        if run.cause != RunCause::Chain {
            for chain in chains::list_of_job(tx, &run.job_id, true).await? {
                let step = ChainStep { job_id: run.job_id.clone(), run_id: run.id.clone(), status: outcome.status };
                // A run that was left out again and again fills no list with chains that had nothing to do.
                let is_idle = matches!(chain.advance(std::slice::from_ref(&step)), Advance::Over(_));
                if outcome.status == RunStatus::Skipped && is_idle {
                    continue;
                }
                let id = ChainRunId::generate(&self.context().ids);
                chains::insert_chain_run(tx, &id, &chain.id, ChainCause::Job).await?;
                chains::insert_step(tx, &id, &step).await?;
                self.advance_chain(tx, &chain, &id).await?;
            }
        }
        Ok(())
    }

    /// Begins what may begin in a run of a chain, or ends it.
    pub(super) async fn advance_chain(
        &self,
        tx: &mut Tx,
        chain: &Chain,
        chain_run: &ChainRunId,
    ) -> Result<(), StoreError> {
        loop {
            let steps = chains::list_steps(tx, chain_run).await?;
            match chain.advance(&steps) {
                // A skipped step is over at once, so what follows it is decided now.
                Advance::Begin(next) => match self.begin_steps(tx, chain_run, &next).await? {
                    true => {}
                    false => return Ok(()),
                },
                Advance::Over(status) => return chains::end_chain_run(tx, chain_run, status).await,
            }
        }
    }

    /// Plans runs of these jobs as steps of a run of a chain. Returns whether steps were skipped, because too many runs
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
            let mut run = self.new_run(&job, RunCause::Chain, now);
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
                self.counts().count(RunStatus::Skipped);
                self.note_grown(&job.id);
                tx.emit(events::skipped(&run, run.error.as_deref().unwrap_or_default())).await?;
            } else {
                tx.emit(events::queued(&run)).await?;
            }
        }
        Ok(has_skipped)
    }

    /// Stops runs that are under way: those without a turn are over, the others end with theirs.
    pub(super) async fn stop_open(&self, tx: &mut Tx, open: &[Run], reason: StopReason) -> Result<(), SchedulerError> {
        for run in open {
            match &run.session_id {
                Some(session) if run.status == RunStatus::Running => {
                    runs::request_stop(tx, &run.id, reason).await?;
                    cancel_session(tx, session).await?;
                }
                _ => {
                    let sentence = match reason {
                        StopReason::Replaced => "A later slot of the job took its place.",
                        StopReason::Paused => "The job was paused before the run began.",
                        StopReason::Cancel | StopReason::Timeout => "The run was cancelled.",
                    };
                    let outcome = Outcome::ended(RunStatus::Cancelled, sentence);
                    let job = jobs::find_job(tx, &run.job_id).await?;
                    self.end_attempt(tx, run, job.as_ref(), outcome, run.attempt).await?;
                }
            }
        }
        Ok(())
    }
}
