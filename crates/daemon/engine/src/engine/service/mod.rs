//! Public interface of the engine.

mod activity;
mod background;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agentd_base::trace;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Slots, WorkerReport};
use agentd_core::settings::Settings;
use agentd_store::{Read, StoreError, Tx};
use futures_util::{Stream, StreamExt};
use tokio::sync::{Notify, oneshot};
use tracing::Instrument as _;

use crate::agents::Agents;
use crate::engine::approvals::{Approvals, WakeTurn};
use crate::engine::error::EngineError;
use crate::engine::holder::Holder;
use crate::engine::live::{Live, RunningTurn, Stop};
use crate::engine::model::{
    Marker, NoAnswer, Round, Session, SessionEvent, SessionId, SessionStatus, SessionTrace, StartTurn, StepKind,
    StoredAttempt, TurnUsage, elapsed_ms,
};
use crate::engine::permits::BackgroundPermits;
use crate::engine::session::log::read_log;
use crate::engine::session::trace::read_trace;
use crate::engine::session::{follow, recovery, settle};
use crate::engine::spans::turn_span;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn::{Prepared, WAKE_BATCH_SIZE, resume};
use crate::providers::Providers;
use crate::tools::Tools;

pub use activity::TurnActivity;

/// Time that interrupted turns have to store their end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a cancellation waits for the end of the turn.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Service that runs turns. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("running", &self.0.live.count()).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(
        context: AppContext,
        settings: Settings,
        agents: Agents,
        providers: Providers,
        tools: Tools,
        slots: &mut Slots,
    ) -> Detached<Self> {
        Detached::new(Self(Arc::new_cyclic(|engine: &Weak<EngineState>| EngineState {
            approvals: Approvals::new(context.clone(), settings.clone(), slots, wake_turns(engine.clone())),
            tools,
            marker: Marker::new(settings.vault().hashing_key()),
            holder: Holder::of_this_process(&context.instance),
            context,
            settings,
            agents,
            providers,
            live: Arc::default(),
            sinks: slots.create(),
            observers: slots.create(),
            recall: slots.create(),
            background: BackgroundPermits::default(),
            is_supervised: AtomicBool::new(false),
            waking: tokio::sync::Mutex::default(),
        })))
    }

    /// Recovers turns of an earlier process of this daemon. Called once before the daemon is ready, when every slot is
    /// filled.
    ///
    /// # Errors
    /// A store error.
    pub async fn recover(&self) -> Result<(), EngineError> {
        while recovery::interrupt_abandoned(&self.0).await?.has_more {}
        self.0.providers.delete_stale_reservations().await?;
        self.wake_decided().await?;
        Ok(())
    }

    /// Returns the approvals.
    #[must_use]
    pub fn approvals(&self) -> &Approvals {
        &self.0.approvals
    }

    /// Resumes parked turns whose approvals were decided meanwhile; reports whether there may be more.
    pub(super) async fn wake_decided(&self) -> Result<WorkerReport, EngineError> {
        let decided = store::parked::list_decided(&mut self.0.context.db.read().await?, WAKE_BATCH_SIZE).await?;
        let items = resume::wake_all(&self.0, &decided).await?;
        Ok(WorkerReport { items, has_more: items > 0 && decided.len() == WAKE_BATCH_SIZE as usize })
    }

    /// Starts a turn and returns when it is stored. `open` runs in the same transaction. The turn then runs
    /// independently; use [`follow`](Self::follow) to read its events.
    ///
    /// # Errors
    /// `Draining`, `TooManyTurns`, `TurnInProgress`, `AgentGone`, an exhausted budget, no model, an error of `open`, or
    /// a store error. Nothing is stored then.
    pub async fn start<E, F>(&self, turn: StartTurn, open: F) -> Result<SessionId, E>
    where
        F: AsyncFn(&mut Tx, &SessionId) -> Result<(), E> + Send + 'static,
        E: From<StoreError> + From<EngineError> + Send + 'static,
    {
        let prepared = self.0.prepare(turn).await?;
        let running = self.0.live.register(&prepared.session.id, &prepared.session.agent_id)?;
        self.start_prepared(prepared, running, open).await
    }

    /// Starts a turn like [`start`](Self::start) and returns its complete text. The turn is cancelled when this future
    /// is dropped, or after `limit`.
    ///
    /// # Errors
    /// See [`start`](Self::start); also the reason why there is no answer.
    pub async fn answer<E, F>(&self, turn: StartTurn, limit: Duration, open: F) -> Result<String, E>
    where
        F: AsyncFn(&mut Tx, &SessionId) -> Result<(), E> + Send + 'static,
        E: From<StoreError> + From<EngineError> + From<NoAnswer> + Send + 'static,
    {
        let prepared = self.0.prepare(turn).await?;
        let running = self.0.live.register(&prepared.session.id, &prepared.session.agent_id)?;
        let _cancel = CancelOnDrop(Arc::clone(&running.live));
        let id = self.start_prepared(prepared, running, open).await?;
        let text = tokio::time::timeout(limit, self.read_text(&id)).await;
        let too_slow = || NoAnswer {
            code: "timeout".to_owned(),
            message: format!("no answer within {} seconds", limit.as_secs()),
        };
        Ok(text.unwrap_or_else(|_| Err(too_slow()))?)
    }

    async fn start_prepared<E, F>(&self, prepared: Prepared, running: RunningTurn, open: F) -> Result<SessionId, E>
    where
        F: AsyncFn(&mut Tx, &SessionId) -> Result<(), E> + Send + 'static,
        E: From<StoreError> + From<EngineError> + Send + 'static,
    {
        let id = prepared.session.id.clone();
        self.0.supervise();
        let turn = prepared.into_turn(Arc::clone(&self.0), running);
        let (inner, row) = (Arc::clone(&self.0), Arc::clone(turn.session()));
        let entered = Arc::new(Notify::new());
        let stored = {
            let entered = Arc::clone(&entered);
            async move {
                let db = inner.context.db.clone();
                db.write(async move |tx: &mut Tx| {
                    inner.insert(tx, &row).await?;
                    open(tx, &row.id).await?;
                    settle::emit_started(tx, &row).await?;
                    entered.notify_one();
                    Ok(())
                })
                .await
            }
        };
        let (caller, answer) = oneshot::channel();
        // Spawned, because the caller may be dropped before the transaction completes.
        let (context, span) = (turn.session().trace.turn(), turn_span(turn.session()));
        let run = turn.run::<E>(Box::pin(stored), entered, caller);
        tokio::spawn(trace::with_context(Some(context), run).instrument(span));
        answer.await.unwrap_or_else(|_| Err(EngineError::Store(StoreError::Closed).into()))?;
        Ok(id)
    }

    /// Returns the stored events of a session after sequence number `after` (all if `None`), then live events up to the
    /// last one. Events are numbered from 0, which is `start`.
    pub fn follow(&self, id: &SessionId, after: Option<u64>) -> impl Stream<Item = SessionEvent> + Send + use<> {
        follow::follow(Arc::clone(&self.0), id.clone(), after)
    }

    /// Waits for the end of a session and returns its complete text.
    ///
    /// # Errors
    /// The reason why the session ended without an answer.
    pub async fn read_text(&self, id: &SessionId) -> Result<String, NoAnswer> {
        follow::read_text(std::pin::pin!(self.follow(id, None))).await
    }

    /// Returns a session whose log is still retained.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &SessionId) -> Result<Session, EngineError> {
        let found = store::find_session(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or_else(|| EngineError::no_session(id))
    }

    /// Returns the sequence number of a session's last event so far.
    ///
    /// # Errors
    /// A store error.
    pub async fn last_event(&self, id: &SessionId) -> Result<u64, EngineError> {
        Ok(store::find_last_event(&mut self.0.context.db.read().await?, id).await?)
    }

    /// Returns the stored trace of a turn as a tree of spans, including the current model call if the turn runs in this
    /// process.
    ///
    /// # Errors
    /// A store error.
    pub async fn trace(&self, session: &Session) -> Result<SessionTrace, EngineError> {
        Ok(read_trace(&self.0, session).await?)
    }

    /// Returns the text and the rounds that a running session has published so far.
    ///
    /// # Errors
    /// A store error.
    pub async fn read_partial_reply(
        &self,
        read: &mut Read,
        id: &SessionId,
    ) -> Result<(String, Vec<Round>), EngineError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(Default::default()) };
        let log = read_log(read, &session).await?;
        Ok((log.content, log.rounds))
    }

    /// Cancels a running session in any process and returns its state afterwards.
    ///
    /// # Errors
    /// `NotFound`, `Ended` if it has already ended, or a store error.
    pub async fn cancel(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.get(id).await?;
        if session.status != SessionStatus::Running {
            return Err(EngineError::Ended { status: session.status });
        }
        let session_id = id.clone();
        self.0.context.db.write(async move |tx: &mut Tx| store::request_cancel(tx, &session_id).await).await?;
        self.await_cancelled(id).await;
        self.get(id).await
    }

    /// Waits for a limited time for the end of a session whose cancellation was requested.
    pub async fn await_cancelled(&self, id: &SessionId) {
        if let Some(live) = self.0.live.find(id) {
            live.stop(Stop::Cancel);
        } else if let Err(error) = resume::wake(&self.0, id).await {
            tracing::warn!(session = %id, %error, "failed to resume a cancelled session");
        }
        // The process that runs the session ends its log; following the log detects the end.
        let end = async {
            let mut events = std::pin::pin!(self.follow(id, None));
            while events.next().await.is_some() {}
        };
        if tokio::time::timeout(CANCEL_TIMEOUT, end).await.is_err() {
            tracing::warn!(session = %id, "cancelled session is still running");
        }
    }

    /// Refuses new turns and lets running ones finish within `grace`; the rest are marked as interrupted. The drain
    /// signal must have been given before.
    pub async fn drain(&self, grace: Duration) {
        let live = &self.0.live;
        if tokio::time::timeout(grace, live.wait_until_empty()).await.is_ok() {
            return;
        }
        tracing::warn!(turns = live.count(), "interrupting running turns");
        live.stop_all(Stop::Interrupt);
        if tokio::time::timeout(INTERRUPT_TIMEOUT, live.wait_until_empty()).await.is_err() {
            tracing::warn!(
                turns = live.count(),
                "turns did not stop in time; they are marked as interrupted at the next start"
            );
        }
    }

    /// Whether a session runs in this process. A parked session does not.
    #[must_use]
    pub fn is_running_here(&self, id: &SessionId) -> bool {
        self.0.live.find(id).is_some()
    }

    /// Returns the number of turns that run in this process.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.0.live.count()
    }

    pub(super) fn inner(&self) -> &Arc<EngineState> {
        &self.0
    }
}

/// Returns a callback that resumes turns of an engine under construction.
fn wake_turns(engine: Weak<EngineState>) -> WakeTurn {
    Arc::new(move |session| {
        let engine = engine.upgrade();
        Box::pin(async move {
            match engine {
                Some(engine) => resume::wake(&engine, &session).await.map(|_| ()),
                None => Ok(()),
            }
        })
    })
}

/// Cancels a turn on drop; no effect if it has ended.
struct CancelOnDrop(Arc<Live>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.stop(Stop::Cancel);
    }
}

impl Engine {
    /// Returns model, tokens, cost and duration of a turn; `None` if its session was deleted.
    ///
    /// # Errors
    /// A store error.
    pub async fn turn_usage(&self, read: &mut Read, id: &SessionId) -> Result<Option<TurnUsage>, StoreError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(None) };
        let mut usage = TurnUsage {
            agent_id: session.agent_id,
            provider: session.provider,
            model: session.model,
            input_tokens: 0,
            output_tokens: 0,
            cost_micro_usd: Some(0),
            duration_ms: elapsed_ms(Some(session.started_at), session.completed_at),
        };
        for step in store::list_steps(read, id).await? {
            if step.kind != StepKind::ModelCall {
                continue;
            }
            // Another version of the daemon may have stored it in another form.
            let Ok(attempt) = serde_json::from_value::<StoredAttempt>(step.data) else { continue };
            usage.input_tokens += attempt.usage.input_tokens;
            usage.output_tokens += attempt.usage.output_tokens;
            usage.cost_micro_usd = usage.cost_micro_usd.zip(attempt.cost_micro_usd).map(|(sum, cost)| sum + cost);
        }
        Ok(Some(usage))
    }
}
