//! What can be done with the engine.

mod activity;
mod background;
mod usage;

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
    Marker, NoAnswer, Round, Session, SessionEvent, SessionId, SessionStatus, SessionTrace, StartTurn,
};
use crate::engine::permits::BackgroundPermits;
use crate::engine::session::log::read_log;
use crate::engine::session::trace::read_trace;
use crate::engine::session::{follow, recovery, task_events};
use crate::engine::spans::turn_span;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn::{Prepared, WOKEN_A_BATCH, resume};
use crate::providers::Providers;
use crate::tools::Tools;

pub use activity::TurnActivity;

/// How long a turn that was told to end may take to write its end down.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long the caller of a cancellation waits for the end.
pub(super) const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Cheap to clone.
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

    /// Ends what an earlier life of this daemon left running. Called once before it is ready, when
    /// every slot is filled.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn recover(&self) -> Result<(), EngineError> {
        while recovery::interrupt_abandoned(&self.0).await?.has_more {}
        self.0.providers.forget_reservations().await?;
        self.wake_decided().await?;
        Ok(())
    }

    /// What owners are asked.
    #[must_use]
    pub fn approvals(&self) -> &Approvals {
        &self.0.approvals
    }

    /// Takes up turns whose approvals were decided while nobody looked; answers whether there may
    /// be more.
    pub(super) async fn wake_decided(&self) -> Result<WorkerReport, EngineError> {
        let decided = store::parked::list_decided(&mut self.0.context.db.read().await?, WOKEN_A_BATCH).await?;
        let items = resume::wake_all(&self.0, &decided).await?;
        Ok(WorkerReport { items, has_more: items > 0 && decided.len() == WOKEN_A_BATCH as usize })
    }

    /// Starts a turn and answers when it is stored: `open` is the caller's part of that
    /// transaction. The turn then goes on by itself; [`follow`](Self::follow) shows it.
    ///
    /// # Errors
    /// `Draining`, `TooManyTurns`, `TurnInProgress`, `AgentGone`, a used-up budget, no model, what
    /// `open` answers, or the store's refusal. Then nothing was stored.
    pub async fn start<E, F>(&self, turn: StartTurn, open: F) -> Result<SessionId, E>
    where
        F: AsyncFn(&mut Tx, &SessionId) -> Result<(), E> + Send + 'static,
        E: From<StoreError> + From<EngineError> + Send + 'static,
    {
        let prepared = self.0.prepare(turn).await?;
        let running = self.0.live.enter(&prepared.session.id, &prepared.session.agent_id)?;
        self.start_prepared(prepared, running, open).await
    }

    /// Starts a turn as [`start`](Self::start) does and answers all its text. When whoever asked stops waiting, after
    /// `limit` at the latest, the turn is cancelled.
    ///
    /// # Errors
    /// As [`start`](Self::start), and why there is no answer.
    pub async fn answer<E, F>(&self, turn: StartTurn, limit: Duration, open: F) -> Result<String, E>
    where
        F: AsyncFn(&mut Tx, &SessionId) -> Result<(), E> + Send + 'static,
        E: From<StoreError> + From<EngineError> + From<NoAnswer> + Send + 'static,
    {
        let prepared = self.0.prepare(turn).await?;
        let running = self.0.live.enter(&prepared.session.id, &prepared.session.agent_id)?;
        let _waiting = CancelledWhenDropped(Arc::clone(&running.live));
        let id = self.start_prepared(prepared, running, open).await?;
        let said = tokio::time::timeout(limit, self.read_text(&id)).await;
        let too_slow = || NoAnswer {
            code: "timeout".to_owned(),
            message: format!("it took longer than {} seconds", limit.as_secs()),
        };
        Ok(said.unwrap_or_else(|_| Err(too_slow()))?)
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
                    task_events::emit_started(tx, &row).await?;
                    entered.notify_one();
                    Ok(())
                })
                .await
            }
        };
        let (caller, answer) = oneshot::channel();
        // A task: whoever asked may go away before the transaction is through.
        let (place, span) = (turn.session().trace.turn(), turn_span(turn.session()));
        let run = turn.run::<E>(Box::pin(stored), entered, caller);
        tokio::spawn(trace::within(Some(place), run).instrument(span));
        answer.await.unwrap_or_else(|_| Err(EngineError::Store(StoreError::Closed).into()))?;
        Ok(id)
    }

    /// The events of a session after number `after`, or all of them, and then live, to the last
    /// one. Events are numbered from 0, which is `start`.
    pub fn follow(&self, id: &SessionId, after: Option<u64>) -> impl Stream<Item = SessionEvent> + Send + use<> {
        follow::follow(Arc::clone(&self.0), id.clone(), after)
    }

    /// Waits for the end of a session and answers all its text.
    ///
    /// # Errors
    /// Why it ended without an answer.
    pub async fn read_text(&self, id: &SessionId) -> Result<String, NoAnswer> {
        follow::read_text(std::pin::pin!(self.follow(id, None))).await
    }

    /// A session whose log is still kept.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn get(&self, id: &SessionId) -> Result<Session, EngineError> {
        let found = store::find_session(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or_else(|| EngineError::no_session(id))
    }

    /// The number of the last event that a session has so far.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn last_event(&self, id: &SessionId) -> Result<u64, EngineError> {
        Ok(store::find_last_event(&mut self.0.context.db.read().await?, id).await?)
    }

    /// A turn as a tree of spans, as far as it is stored; of one that runs here, what the model is being asked, too.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn trace(&self, session: &Session) -> Result<SessionTrace, EngineError> {
        Ok(read_trace(&self.0, session).await?)
    }

    /// What a running session has shown so far: its words, and what it did.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn shown_so_far(&self, read: &mut Read, id: &SessionId) -> Result<(String, Vec<Round>), EngineError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(Default::default()) };
        let log = read_log(read, &session).await?;
        Ok((log.content, log.rounds))
    }

    /// Ends a running session, wherever it runs, and answers it as it is then.
    ///
    /// # Errors
    /// `NotFound`, `Ended` when it is over already, or the store's refusal.
    pub async fn cancel(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.get(id).await?;
        if session.status != SessionStatus::Running {
            return Err(EngineError::Ended { status: session.status });
        }
        let asked = id.clone();
        self.0.context.db.write(async move |tx: &mut Tx| store::request_cancel(tx, &asked).await).await?;
        self.await_cancelled(id).await;
        self.get(id).await
    }

    /// Waits a little for the end of a session that was asked to end by its row.
    pub async fn await_cancelled(&self, id: &SessionId) {
        if let Some(live) = self.0.live.find(id) {
            live.stop(Stop::Cancel);
        } else if let Err(error) = resume::wake(&self.0, id).await {
            tracing::warn!(session = %id, %error, "a waiting session that is to be cancelled ends later");
        }
        // Whoever runs it ends its log; following that is how anybody learns of it.
        let end = async {
            let mut events = std::pin::pin!(self.follow(id, None));
            while events.next().await.is_some() {}
        };
        if tokio::time::timeout(CANCEL_LIMIT, end).await.is_err() {
            tracing::warn!(session = %id, "a session that is to be cancelled has not ended yet");
        }
    }

    /// Takes no new turns and lets running ones come to their end within `grace`; those that do not
    /// are marked as interrupted. The daemon's signal to drain was given before.
    pub async fn drain(&self, grace: Duration) {
        let live = &self.0.live;
        if tokio::time::timeout(grace, live.wait_until_empty()).await.is_ok() {
            return;
        }
        tracing::warn!(turns = live.count(), "replies that are still being written are interrupted");
        live.stop_all(Stop::Interrupt);
        if tokio::time::timeout(STOP_LIMIT, live.wait_until_empty()).await.is_err() {
            tracing::warn!(turns = live.count(), "some replies are only marked as interrupted at the next start");
        }
    }

    /// Whether a session is being written in this process. One that waits for an approval is not.
    #[must_use]
    pub fn is_running_here(&self, id: &SessionId) -> bool {
        self.0.live.find(id).is_some()
    }

    /// How many turns run in this process.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.0.live.count()
    }

    pub(super) fn inner(&self) -> &Arc<EngineState> {
        &self.0
    }
}

/// Wakes turns of an engine that is being made.
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

/// Ends a turn when nobody waits for its answer any more; one that is over does not mind.
struct CancelledWhenDropped(Arc<Live>);

impl Drop for CancelledWhenDropped {
    fn drop(&mut self) {
        self.0.stop(Stop::Cancel);
    }
}
