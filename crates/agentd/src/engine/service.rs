//! What can be done with the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use agentd_llm::Usage;
use agentd_store::{Read, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};
use futures_util::{Stream, StreamExt};
use parking_lot::RwLock;
use tokio::sync::{oneshot, watch};

use super::call::{Call, CallOptions};
use super::context::{Prompt, prompt_limit};
use super::error::EngineError;
use super::holder::Holder;
use super::live::{LiveTurns, Stop};
use super::model::{Reply, Session, SessionEvent, SessionId, SessionStatus, StartTurn};
use super::transcript::{Transcript, TurnObserver};
use super::turn::Turn;
use super::{follow, recovery, store};
use crate::agents::{AgentId, Agents, OwnsAgentData};
use crate::ground::Ground;
use crate::providers::{ModelCall, ModelWish, Providers};
use crate::settings::Settings;

const LEASE: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a turn that was told to end may take to write its end down.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long the caller of a cancellation waits for the end.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Inner {
    pub(super) ground: Ground,
    settings: Settings,
    agents: Agents,
    providers: Providers,
    pub(super) live: Arc<LiveTurns>,
    pub(super) holder: Holder,
    transcripts: RwLock<Vec<Arc<dyn Transcript>>>,
    observer: OnceLock<Arc<dyn TurnObserver>>,
    is_supervised: AtomicBool,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("running", &self.0.live.count()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Tells that a turn's end is stored.
    pub(super) fn ended(&self, status: SessionStatus) {
        if let Some(observer) = self.observer.get() {
            observer.turn_ended(status);
        }
    }
}

impl Engine {
    #[must_use]
    pub fn new(ground: Ground, settings: Settings, agents: Agents, providers: Providers) -> Self {
        Self(Arc::new(Inner {
            holder: Holder::of_this_process(&ground.instance),
            ground,
            settings,
            agents,
            providers,
            live: Arc::default(),
            transcripts: RwLock::default(),
            observer: OnceLock::new(),
            is_supervised: AtomicBool::new(false),
        }))
    }

    /// Registers who hears of ends, once. Called while the daemon is composed.
    pub fn observe(&self, observer: Arc<dyn TurnObserver>) {
        if self.0.observer.set(observer).is_err() {
            tracing::error!("turns have an observer already");
        }
    }

    /// Registers who keeps replies. Called while the daemon is composed.
    pub fn register(&self, transcript: Arc<dyn Transcript>) {
        self.0.transcripts.write().push(transcript);
    }

    /// Ends what an earlier life of this daemon left running. Called once before it is ready, when
    /// every transcript is registered.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn recover(&self) -> Result<(), EngineError> {
        while recovery::interrupt_abandoned(&self.0).await? {}
        Ok(())
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
        let (session, call) = self.prepare(turn).await?;
        let id = session.id.clone();
        let place = self.0.live.enter(&id, &session.agent_id)?;
        self.supervise();
        let session = Arc::new(session);
        let (inner, row) = (Arc::clone(&self.0), Arc::clone(&session));
        let stored = async move {
            let db = inner.ground.db.clone();
            db.write(async move |tx: &mut Tx| {
                inner.insert(tx, &row).await?;
                open(tx, &row.id).await
            })
            .await
        };
        let (caller, answer) = oneshot::channel();
        let turn = Turn { engine: Arc::clone(&self.0), session, call, place };
        // A task: whoever asked may go away before the transaction is through.
        tokio::spawn(turn.run::<E>(Box::pin(stored), caller));
        answer.await.unwrap_or_else(|_| Err(EngineError::Store(StoreError::Closed).into()))?;
        Ok(id)
    }

    async fn prepare(&self, turn: StartTurn) -> Result<(Session, Call), EngineError> {
        let inner = &*self.0;
        if inner.ground.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        inner.providers.check_budget().await?;
        let profile = &turn.agent.profile;
        let wish = ModelWish::parse(turn.model.as_deref())
            .or(ModelWish::new(profile.provider.as_deref(), profile.model.as_deref()));
        let resolved = inner.providers.resolve(wish).await?;
        let settings = inner.settings.agent();
        let mut prompt = Prompt::new(inner.agents.system_prompt(&turn.agent), turn.history);
        if let Some(window) = resolved.context_window {
            prompt.fit(prompt_limit(window, settings.max_output_tokens));
        }
        let session = Session {
            id: SessionId::generate(&inner.ground.ids),
            agent_id: turn.agent.id.clone(),
            conversation_id: turn.conversation_id,
            message_id: turn.message_id,
            transcript: turn.transcript.map(str::to_owned),
            provider: resolved.provider,
            model: resolved.model.clone(),
            prompt_tokens_estimate: prompt.tokens(),
            status: SessionStatus::Running,
            error_code: None,
            owner: inner.holder.as_str().to_owned(),
            started_at: inner.ground.clock.now(),
            completed_at: None,
        };
        let options = CallOptions {
            model: resolved.model,
            temperature: settings.temperature,
            max_output_tokens: settings.max_output_tokens,
            timeout: Duration::from_secs(u64::from(settings.request_timeout_seconds)),
        };
        Ok((session, Call::new(resolved.backend, options, prompt)))
    }

    /// The events of a session after number `after`, or all of them, and then live, to the last
    /// one. Events are numbered from 0, which is `start`.
    pub fn follow(&self, id: &SessionId, after: Option<u64>) -> impl Stream<Item = SessionEvent> + Send + use<> {
        follow::follow(Arc::clone(&self.0), id.clone(), after)
    }

    /// A session whose log is still kept.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn get(&self, id: &SessionId) -> Result<Session, EngineError> {
        let found = store::find_session(&mut self.0.ground.db.read().await?, id).await?;
        found.ok_or_else(|| EngineError::NotFound { session_id: id.as_str().chars().take(80).collect() })
    }

    /// The text that a running session has shown so far.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn text_so_far(&self, read: &mut Read, id: &SessionId) -> Result<String, EngineError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(String::new()) };
        Ok(recovery::read_text(read, &session).await?.0)
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
        self.0.ground.db.write(async move |tx: &mut Tx| store::request_cancel(tx, &asked).await).await?;
        self.await_cancelled(id).await;
        self.get(id).await
    }

    /// Waits a little for the end of a session that was asked to end by its row.
    pub async fn await_cancelled(&self, id: &SessionId) {
        if let Some(live) = self.0.live.find(id) {
            live.stop(Stop::Cancel);
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

    /// How many turns run in this process.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.0.live.count()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Starts, once, what renews leases and hears of cancellations. A daemon that never runs a
    /// turn has nothing to supervise.
    fn supervise(&self) {
        if self.0.is_supervised.swap(true, Ordering::AcqRel) {
            return;
        }
        let cancels = self.0.ground.db.watch(store::CANCELS);
        let engine = Arc::downgrade(&self.0);
        let look_after = async |engine: Weak<Inner>, mut cancels: watch::Receiver<u64>| {
            let mut heartbeat = tokio::time::interval(HEARTBEAT);
            heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                let is_cancel = tokio::select! {
                    changed = cancels.changed() => match changed {
                        Ok(()) => true,
                        Err(_) => return,
                    },
                    _ = heartbeat.tick() => false,
                };
                let Some(engine) = engine.upgrade() else { return };
                if engine.live.count() == 0 {
                    continue;
                }
                let outcome = if is_cancel { engine.hear_cancels().await } else { engine.renew_leases().await };
                if let Err(error) = outcome {
                    tracing::warn!(%error, "running sessions cannot be looked after now");
                }
            }
        };
        let work = move || look_after(engine.clone(), cancels.clone());
        self.0.ground.supervise("engine.supervisor", work);
    }
}

impl Inner {
    async fn insert(&self, tx: &mut Tx, session: &Session) -> Result<(), EngineError> {
        if !self.agents.is_alive(tx, &session.agent_id).await? {
            return Err(EngineError::AgentGone);
        }
        let lease_until = tx.clock().now() + LEASE;
        if store::insert_session(tx, session, lease_until).await? {
            return Ok(());
        }
        let conversation_id = session.conversation_id.clone().unwrap_or_default();
        match store::find_running_in_conversation(tx, &conversation_id).await? {
            Some(session_id) => Err(EngineError::TurnInProgress { conversation_id, session_id }),
            None => Err(StoreError::Contended.into()),
        }
    }

    async fn renew_leases(&self) -> Result<(), StoreError> {
        let owner = self.holder.as_str().to_owned();
        self.ground.db.write_relaxed(async move |tx: &mut Tx| store::renew_leases(tx, &owner, LEASE).await).await
    }

    async fn hear_cancels(&self) -> Result<(), StoreError> {
        let mut read = self.ground.db.read().await?;
        for id in store::list_cancelled(&mut read, self.holder.as_str()).await? {
            if let Some(live) = self.live.find(&id) {
                live.stop(Stop::Cancel);
            }
        }
        Ok(())
    }

    pub(super) async fn record_usage(&self, tx: &mut Tx, session: &Session, usage: Usage) -> Result<(), StoreError> {
        let call = ModelCall {
            provider: session.provider.clone(),
            model: session.model.clone(),
            usage,
            agent_id: Some(session.agent_id.to_string()),
            conversation_id: session.conversation_id.clone(),
            session_id: Some(session.id.to_string()),
        };
        self.providers.record_usage(tx, call).await
    }

    /// For sessions that are gone: the tokens count, whose they were is no longer known.
    pub(super) async fn record_usage_of_nobody(
        &self,
        tx: &mut Tx,
        session: &Session,
        usage: Usage,
    ) -> Result<(), StoreError> {
        let call = ModelCall {
            provider: session.provider.clone(),
            model: session.model.clone(),
            usage,
            agent_id: None,
            conversation_id: None,
            session_id: None,
        };
        self.providers.record_usage(tx, call).await
    }

    /// Gives the reply to whoever keeps it.
    pub(super) async fn settle(&self, tx: &mut Tx, session: &Session, reply: &Reply) -> Result<(), StoreError> {
        let Some(name) = &session.transcript else { return Ok(()) };
        let keeper = self.transcripts.read().iter().find(|keeper| keeper.name() == name).cloned();
        match keeper {
            Some(keeper) => keeper.settle(tx, reply).await,
            None => {
                tracing::error!(transcript = name, "nobody keeps the replies of a session");
                Ok(())
            }
        }
    }
}

impl OwnsAgentData for Engine {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(store::cancel_of_agent(tx, agent))
    }

    fn after_hide<'t>(&'t self, agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(async move {
            let turns = self.0.live.of_agent(agent);
            for live in &turns {
                live.stop(Stop::Cancel);
            }
            if tokio::time::timeout(CANCEL_LIMIT, join_all(turns.iter().map(|live| live.ended()))).await.is_err() {
                tracing::warn!(%agent, "turns of a deleted agent have not ended yet");
            }
        })
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move {
            let sessions = store::list_of_agent(tx, agent, limit.min(50)).await?;
            if sessions.is_empty() {
                return Ok(false);
            }
            // A turn that still runs notices by its next write.
            store::delete_sessions(tx, &sessions, limit).await?;
            Ok(true)
        })
    }
}
