//! Workers that start proactive turns and send push notifications about approvals.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_engine::agents::{Agent, AgentError};
use agentd_engine::engine::{EngineError, Origin, OriginKind, SessionId, StartTurn, ToolUse};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::model::{Cause, ProactiveTurn, ProactiveTurnId, TurnStatus};
use super::service::Proactive;
use super::turns::TURN_SINK;
use super::waking::NotifiedApprovals;
use super::{prompt, store};

/// Retention of turns about failed runs, equal to that of the runs.
const RETENTION_PERIOD: Duration = Duration::from_secs(30 * 86_400);
const BATCH_SIZE: u32 = 500;

/// Starts proactive turns. Needs no lease: a turn starts with its row, and only one daemon can insert that.
#[derive(Debug)]
pub(super) struct StartProactive(pub Proactive);

/// Reason a turn did not start.
enum StartFailure {
    /// The daily limit is reached, quiet hours have started, or another daemon was faster.
    NotNow,
    Engine(EngineError),
    Store(StoreError),
}

impl From<StoreError> for StartFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<EngineError> for StartFailure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => Self::Store(error),
            other => Self::Engine(other),
        }
    }
}

impl Worker for StartProactive {
    fn name(&self) -> &'static str {
        "proactive.start"
    }

    fn description(&self) -> &'static str {
        "Starts proactive turns after failed runs and for suggestions."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Purging can wait for the next wake-up.
        (!self.0.settings().proactive().enabled).then_some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl StartProactive {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let proactive = &self.0;
        let context = proactive.context();
        let now = context.clock.now();
        let mut report = self.purge(now - RETENTION_PERIOD).await?;
        if context.draining.is_cancelled() || !proactive.is_permitted(now) {
            return Ok(report);
        }
        let mut is_done = true;
        for cause in proactive.causes(now).await? {
            is_done &= self.handle_cause(&cause, now).await?;
            report.items += 1;
        }
        if is_done {
            proactive.record_suggestions(now);
        }
        Ok(report)
    }

    /// Deletes expired turns.
    async fn purge(&self, before: Timestamp) -> Result<WorkerReport, WorkerError> {
        let db = &self.0.context().db;
        if !store::has_expired(&mut db.read().await?, before).await? {
            return Ok(WorkerReport::IDLE);
        }
        let purge = async move |tx: &mut Tx| store::purge_turns(tx, before, BATCH_SIZE).await;
        Ok(WorkerReport::batch(db.write_relaxed::<_, StoreError, _>(purge).await?, BATCH_SIZE))
    }

    /// Starts a turn for a cause if its agent is permitted to. Returns whether the cause needs no further attempt
    /// today.
    async fn handle_cause(&self, cause: &Cause, now: Timestamp) -> Result<bool, WorkerError> {
        let proactive = &self.0;
        let agent = match self.agent_for(cause).await {
            Ok(agent) => agent,
            Err(AgentError::Store(error)) => return Err(error.into()),
            // The agent was deleted, or there is no default agent.
            Err(_) => return Ok(true),
        };
        let day = proactive.day(now);
        let begun = store::count_on_day(&mut proactive.context().db.read().await?, &agent.id, &day).await?;
        if begun >= u64::from(proactive.settings().proactive().max_per_day) {
            return Ok(true);
        }
        match self.begin(cause, agent).await {
            Ok(()) => Ok(true),
            Err(StartFailure::NotNow) => Ok(false),
            Err(StartFailure::Engine(error)) => {
                tracing::debug!(cause = cause.id(), %error, "proactive turn deferred");
                Ok(false)
            }
            Err(StartFailure::Store(error)) => Err(error.into()),
        }
    }

    async fn agent_for(&self, cause: &Cause) -> Result<Arc<Agent>, AgentError> {
        match cause {
            Cause::FailedRun(failed) => self.0.agents().get(failed.run.agent_id.as_str()).await,
            Cause::Suggestion(_) => self.0.agents().default_agent().await,
        }
    }

    async fn begin(&self, cause: &Cause, agent: Arc<Agent>) -> Result<(), StartFailure> {
        let proactive = &self.0;
        let context = proactive.context();
        let Some(permit) = proactive.engine().try_background_permit(&agent, None).await? else {
            return Err(StartFailure::NotNow);
        };
        let now = context.clock.now();
        let id = ProactiveTurnId::generate(&context.ids);
        let row = ProactiveTurn {
            id: id.clone(),
            agent_id: agent.id.clone(),
            day: String::new(),
            ordinal: 0,
            cause: cause.kind(),
            cause_id: cause.id(),
            job_id: cause.job_id(),
            subject: cause.subject(),
            reason: cause.reason(),
            status: TurnStatus::Running,
            session_id: None,
            output: None,
            error: None,
            started_at: now,
            completed_at: None,
        };
        let is_sent = proactive.settings().proactive().delivery.is_some();
        let turn = StartTurn {
            origin: Origin::of(OriginKind::Proactive),
            message_id: Some(id.to_string()),
            sink: Some(TURN_SINK),
            tools: ToolUse::ReadingOnly,
            recall: Some(row.reason.clone()),
            ..StartTurn::auxiliary(agent, prompt::history(cause, now, is_sent, &context.entropy))
        };
        let here = proactive.clone();
        let open = async move |tx: &mut Tx, session: &SessionId| {
            let now = tx.clock().now();
            if !here.is_permitted(now) {
                return Err(StartFailure::NotNow);
            }
            let day = here.day(now);
            let begun = store::count_on_day(tx, &row.agent_id, &day).await?;
            if begun >= u64::from(here.settings().proactive().max_per_day) {
                return Err(StartFailure::NotNow);
            }
            let session_id = Some(session.to_string());
            let row = ProactiveTurn { day, ordinal: begun + 1, session_id, started_at: now, ..row.clone() };
            if store::insert_turn(tx, &row).await? { Ok(()) } else { Err(StartFailure::NotNow) }
        };
        let session = proactive.engine().start(turn, open).await?;
        proactive.engine().hold_until_released(permit, session);
        Ok(())
    }
}

/// Sends push notifications about pending approvals, and withdraws them once answered.
#[derive(Debug)]
pub(super) struct WakeDevices {
    proactive: Proactive,
    next_check: NextDue,
    notified_before: Mutex<NotifiedApprovals>,
}

impl WakeDevices {
    pub(super) fn new(proactive: Proactive) -> Self {
        Self { proactive, next_check: NextDue::default(), notified_before: Mutex::default() }
    }
}

impl Worker for WakeDevices {
    fn name(&self) -> &'static str {
        "proactive.wake"
    }

    fn description(&self) -> &'static str {
        "Sends push messages for approvals, and withdraws them once those are answered."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.next_check.at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            // After a failure, the state is unknown, and the next check starts from scratch.
            let mut notified_before = self.notified_before.lock().take();
            let (sent, next) = self.proactive.notify_about_approvals(&mut notified_before).await?;
            *self.notified_before.lock() = notified_before;
            self.next_check.note(Some(next));
            Ok(WorkerReport::done(sent))
        }
        .boxed()
    }
}
