//! Looks for something that an agent may begin about, and begins it.

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
use super::turns::TRANSCRIPT;
use super::waking::WokenFor;
use super::{prompt, store};

/// How long turns about failed runs are kept: as long as the runs.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
const ROWS_A_BATCH: u32 = 500;

/// Needs no lease: a turn begins with its row, and of several daemons one writes that.
#[derive(Debug)]
pub(super) struct StartProactive(pub Proactive);

/// Why a turn did not begin.
enum NoTurn {
    /// The day is full, it has become quiet, or another daemon was faster.
    NotNow,
    Engine(EngineError),
    Store(StoreError),
}

impl From<StoreError> for NoTurn {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<EngineError> for NoTurn {
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
        // Old turns can wait for the next write.
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
        let mut report = self.purge(now - KEPT).await?;
        if context.draining.is_cancelled() || !proactive.may_begin(now) {
            return Ok(report);
        }
        let mut is_done = true;
        for cause in proactive.causes(now).await? {
            is_done &= self.consider(&cause, now).await?;
            report.items += 1;
        }
        if is_done {
            proactive.note_suggestions(now);
        }
        Ok(report)
    }

    /// Forgets what has had its time.
    async fn purge(&self, before: Timestamp) -> Result<WorkerReport, WorkerError> {
        let db = &self.0.context().db;
        if !store::has_old(&mut db.read().await?, before).await? {
            return Ok(WorkerReport::IDLE);
        }
        let purge = async move |tx: &mut Tx| store::purge_turns(tx, before, ROWS_A_BATCH).await;
        Ok(WorkerReport::batch(db.write_relaxed::<_, StoreError, _>(purge).await?, ROWS_A_BATCH))
    }

    /// Begins a turn about a cause if its agent may; answers whether there is nothing more to do about it today.
    async fn consider(&self, cause: &Cause, now: Timestamp) -> Result<bool, WorkerError> {
        let proactive = &self.0;
        let agent = match self.agent_for(cause).await {
            Ok(agent) => agent,
            Err(AgentError::Store(error)) => return Err(error.into()),
            // It was deleted, or none of several is the default one.
            Err(_) => return Ok(true),
        };
        let day = proactive.day(now);
        let begun = store::count_of_day(&mut proactive.context().db.read().await?, &agent.id, &day).await?;
        if begun >= u64::from(proactive.settings().proactive().max_per_day) {
            return Ok(true);
        }
        match self.begin(cause, agent).await {
            Ok(()) => Ok(true),
            Err(NoTurn::NotNow) => Ok(false),
            Err(NoTurn::Engine(error)) => {
                tracing::debug!(cause = cause.id(), %error, "an agent does not begin by itself now");
                Ok(false)
            }
            Err(NoTurn::Store(error)) => Err(error.into()),
        }
    }

    async fn agent_for(&self, cause: &Cause) -> Result<Arc<Agent>, AgentError> {
        match cause {
            Cause::FailedRun(failed) => self.0.agents().get(failed.run.agent_id.as_str()).await,
            Cause::Suggestion(_) => self.0.agents().default_agent().await,
        }
    }

    async fn begin(&self, cause: &Cause, agent: Arc<Agent>) -> Result<(), NoTurn> {
        let proactive = &self.0;
        let context = proactive.context();
        let Some(place) = proactive.engine().try_background_permit(&agent, None).await? else {
            return Err(NoTurn::NotNow);
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
            transcript: Some(TRANSCRIPT),
            tools: ToolUse::ReadingOnly,
            recall: Some(row.reason.clone()),
            ..StartTurn::aside(agent, prompt::history(cause, now, is_sent, &context.entropy))
        };
        let here = proactive.clone();
        let open = async move |tx: &mut Tx, session: &SessionId| {
            let now = tx.clock().now();
            if !here.may_begin(now) {
                return Err(NoTurn::NotNow);
            }
            let day = here.day(now);
            let begun = store::count_of_day(tx, &row.agent_id, &day).await?;
            if begun >= u64::from(here.settings().proactive().max_per_day) {
                return Err(NoTurn::NotNow);
            }
            let session_id = Some(session.to_string());
            let row = ProactiveTurn { day, ordinal: begun + 1, session_id, started_at: now, ..row.clone() };
            if store::insert_turn(tx, &row).await? { Ok(()) } else { Err(NoTurn::NotNow) }
        };
        let session = proactive.engine().start(turn, open).await?;
        proactive.engine().hold_until_let_go(place, session);
        Ok(())
    }
}

/// Wakes devices for approvals, and takes the messages away when those are answered.
#[derive(Debug)]
pub(super) struct WakeDevices {
    proactive: Proactive,
    next_look: NextDue,
    woken_for: Mutex<WokenFor>,
}

impl WakeDevices {
    pub(super) fn new(proactive: Proactive) -> Self {
        Self { proactive, next_look: NextDue::default(), woken_for: Mutex::default() }
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
        Some(self.next_look.at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            // Where this fails, nothing is known, and the next look is as the first.
            let mut woken_for = self.woken_for.lock().take();
            let (told, next) = self.proactive.look_at_approvals(&mut woken_for).await?;
            *self.woken_for.lock() = woken_for;
            self.next_look.note(Some(next));
            Ok(WorkerReport::done(told))
        }
        .boxed()
    }
}
