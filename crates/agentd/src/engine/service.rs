//! What can be done with the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agentd_llm::{ModelBackend, ToolDefinition, Usage};
use agentd_store::{Read, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};
use futures_util::{Stream, StreamExt};
use parking_lot::RwLock;
use tokio::sync::{Notify, oneshot, watch};

use super::approvals::Approvals;
use super::background::BackgroundPlaces;
use super::call::CallOptions;
use super::context::Prompt;
use super::error::{EngineError, NoAnswer};
use super::holder::Holder;
use super::live::{LiveTurns, Place, Stop};
use super::model::{Reply, Session, SessionEvent, SessionId, SessionStatus, StartTurn, ToolUse};
use super::recall::Recall;
use super::rounds::Round;
use super::transcript::{Settled, Transcript, TurnObserver};
use super::turn::{Log, Spent, Turn};
use super::{follow, origin, park, recovery, store};
use crate::agents::{Agent, AgentId, Agents, OwnsAgentData};
use crate::ground::Ground;
use crate::providers::{ModelCall, ModelWish, Providers};
use crate::settings::Settings;
use crate::skills::{Effect, Offer, Skills, ToolDescription};

pub(super) const LEASE: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a turn that was told to end may take to write its end down.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long the caller of a cancellation waits for the end.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
const WOKEN_A_BATCH: u32 = 50;

pub(super) struct Inner {
    pub(super) ground: Ground,
    pub(super) settings: Settings,
    pub(super) agents: Agents,
    pub(super) providers: Providers,
    pub(super) skills: Skills,
    pub(super) approvals: Approvals,
    pub(super) live: Arc<LiveTurns>,
    pub(super) holder: Holder,
    transcripts: RwLock<Vec<Arc<dyn Transcript>>>,
    observers: RwLock<Vec<Arc<dyn TurnObserver>>>,
    recall: RwLock<Option<Arc<dyn Recall>>>,
    pub(super) background: BackgroundPlaces,
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
    pub(super) fn recall(&self) -> Option<Arc<dyn Recall>> {
        self.recall.read().clone()
    }

    /// Tells that a turn's end is stored.
    pub(super) fn ended(&self, session: &Session, status: SessionStatus) {
        for observer in self.observers.read().iter() {
            observer.turn_ended(session, status);
        }
    }
}

impl Engine {
    #[must_use]
    pub fn new(ground: Ground, settings: Settings, agents: Agents, providers: Providers, skills: Skills) -> Self {
        Self(Arc::new_cyclic(|engine| Inner {
            approvals: Approvals::new(ground.clone(), settings.clone(), engine.clone()),
            skills,
            holder: Holder::of_this_process(&ground.instance),
            ground,
            settings,
            agents,
            providers,
            live: Arc::default(),
            transcripts: RwLock::default(),
            observers: RwLock::default(),
            recall: RwLock::default(),
            background: BackgroundPlaces::default(),
            is_supervised: AtomicBool::new(false),
        }))
    }

    /// Registers who hears of ends. Called while the daemon is composed.
    pub fn observe(&self, observer: Arc<dyn TurnObserver>) {
        self.0.observers.write().push(observer);
    }

    /// Registers what agents remember. Called while the daemon is composed.
    pub fn set_recall(&self, recall: Arc<dyn Recall>) {
        *self.0.recall.write() = Some(recall);
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
    pub(super) async fn wake_decided(&self) -> Result<bool, EngineError> {
        let decided = store::parked::list_decided(&mut self.0.ground.db.read().await?, WOKEN_A_BATCH).await?;
        let mut has_woken = false;
        for id in &decided {
            has_woken |= park::wake(&self.0, id).await?;
        }
        Ok(has_woken && decided.len() == WOKEN_A_BATCH as usize)
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
        let prepared = self.prepare(turn).await?;
        let id = prepared.session.id.clone();
        let place = self.0.live.enter(&id, &prepared.session.agent_id)?;
        self.0.supervise();
        let turn = prepared.into_turn(Arc::clone(&self.0), place);
        let (inner, row) = (Arc::clone(&self.0), Arc::clone(&turn.session));
        let entered = Arc::new(Notify::new());
        let stored = {
            let entered = Arc::clone(&entered);
            async move {
                let db = inner.ground.db.clone();
                db.write(async move |tx: &mut Tx| {
                    inner.insert(tx, &row).await?;
                    open(tx, &row.id).await?;
                    origin::emit_started(tx, &row).await?;
                    entered.notify_one();
                    Ok(())
                })
                .await
            }
        };
        let (caller, answer) = oneshot::channel();
        // A task: whoever asked may go away before the transaction is through.
        tokio::spawn(turn.run::<E>(Box::pin(stored), entered, caller));
        answer.await.unwrap_or_else(|_| Err(EngineError::Store(StoreError::Closed).into()))?;
        Ok(id)
    }

    async fn prepare(&self, turn: StartTurn) -> Result<Prepared, EngineError> {
        let inner = &*self.0;
        if inner.ground.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        inner.providers.check_budget().await?;
        let profile = &turn.agent.profile;
        let wish = ModelWish::parse(turn.model.as_deref())
            .or(ModelWish::new(profile.provider.as_deref(), profile.model.as_deref()));
        let resolved = inner.providers.resolve(wish).await?;
        let offer = inner.offer(&turn.agent, &turn.tools).await;
        let mut prompt = Prompt::new(inner.agents.system_prompt(&turn.agent), turn.history, !offer.is_empty());
        let options = inner.call_options(resolved.model.clone(), &offer);
        prompt.set_summary(turn.summary);
        let session = Session {
            id: SessionId::generate(&inner.ground.ids),
            agent_id: turn.agent.id.clone(),
            origin: turn.origin,
            project_id: turn.project_id,
            conversation_id: turn.conversation_id,
            message_id: turn.message_id,
            transcript: turn.transcript.map(str::to_owned),
            provider: resolved.provider,
            model: resolved.model,
            prompt_tokens_estimate: prompt.tokens(),
            status: SessionStatus::Running,
            error_code: None,
            owner: inner.holder.as_str().to_owned(),
            started_at: inner.ground.clock.now(),
            completed_at: None,
            waiting_since: None,
        };
        Ok(Prepared {
            session,
            agent: turn.agent,
            backend: resolved.backend,
            window: resolved.context_window,
            options,
            prompt,
            offer,
            tools: turn.tools,
            keys: turn.keys,
            question: turn.recall,
        })
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
        let found = store::find_session(&mut self.0.ground.db.read().await?, id).await?;
        found.ok_or_else(|| EngineError::no_session(id))
    }

    /// The number of the last event that a session has so far.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn last_event(&self, id: &SessionId) -> Result<u64, EngineError> {
        Ok(store::find_last_event(&mut self.0.ground.db.read().await?, id).await?)
    }

    /// What a running session has shown so far: its words, and what it did.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn shown_so_far(&self, read: &mut Read, id: &SessionId) -> Result<(String, Vec<Round>), EngineError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(Default::default()) };
        let log = recovery::read_log(read, &session).await?;
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
        self.0.ground.db.write(async move |tx: &mut Tx| store::request_cancel(tx, &asked).await).await?;
        self.await_cancelled(id).await;
        self.get(id).await
    }

    /// Waits a little for the end of a session that was asked to end by its row.
    pub async fn await_cancelled(&self, id: &SessionId) {
        if let Some(live) = self.0.live.find(id) {
            live.stop(Stop::Cancel);
        } else if let Err(error) = park::wake(&self.0, id).await {
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

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

/// A turn before it has a place and a row.
struct Prepared {
    session: Session,
    agent: Arc<Agent>,
    backend: Arc<dyn ModelBackend>,
    window: Option<u64>,
    options: CallOptions,
    prompt: Prompt,
    offer: Offer,
    tools: ToolUse,
    keys: Vec<u64>,
    question: Option<String>,
}

impl Prepared {
    fn into_turn(self, engine: Arc<Inner>, place: Place) -> Turn {
        let mut turn = Turn {
            engine,
            session: Arc::new(self.session),
            agent: self.agent,
            place,
            backend: self.backend,
            options: self.options,
            window: self.window,
            prompt: self.prompt,
            offer: self.offer,
            tools: self.tools,
            log: Log::new(),
            rounds: Vec::new(),
            told: Vec::new(),
            keys: self.keys,
            unrecorded: Vec::new(),
            spent: Spent::default(),
            has_asked: false,
            question: self.question,
            recalled: None,
        };
        // What becomes a summary must not be left out before.
        if !turn.must_compact() {
            turn.fit_prompt();
        }
        turn
    }
}

impl Inner {
    /// The tools of a turn.
    pub(super) async fn offer(&self, agent: &Agent, tools: &ToolUse) -> Offer {
        match tools {
            ToolUse::None => Offer::default(),
            ToolUse::ReadingOnly => self.skills.offer(agent).await.reading_only(),
            ToolUse::ReadingAnd(named) => {
                let is_wanted = |tool: &ToolDescription| tool.effect == Effect::Reads || named.contains(&tool.name);
                self.skills.offer(agent).await.filtered(is_wanted)
            }
            ToolUse::Asking | ToolUse::Free => self.skills.offer(agent).await,
        }
    }

    pub(super) fn call_options(&self, model: String, offer: &Offer) -> CallOptions {
        let settings = self.settings.agent();
        CallOptions {
            model,
            temperature: settings.temperature,
            max_output_tokens: settings.max_output_tokens,
            timeout: Duration::from_secs(u64::from(settings.request_timeout_seconds)),
            tools: offer
                .iter()
                .map(|tool| {
                    let description = tool.description();
                    ToolDefinition {
                        name: description.name.clone(),
                        description: description.description.clone(),
                        input_schema: description.input_schema.value().clone(),
                    }
                })
                .collect(),
        }
    }

    pub(super) fn max_parallel_tools(&self) -> usize {
        self.settings.strategy().max_parallel_tools as usize
    }

    /// Gives a summary to whoever keeps the conversation.
    pub(super) async fn keep_summary(
        &self,
        session: &Session,
        summary: String,
        through: Option<u64>,
    ) -> Result<(), StoreError> {
        let (Some(conversation_id), Some(through)) = (session.conversation_id.clone(), through) else { return Ok(()) };
        let Some(keeper) = self.transcript(session) else { return Ok(()) };
        let keep = async move |tx: &mut Tx| keeper.keep_summary(tx, &conversation_id, &summary, through).await;
        self.ground.db.write(keep).await
    }

    fn transcript(&self, session: &Session) -> Option<Arc<dyn Transcript>> {
        let name = session.transcript.as_deref()?;
        self.transcripts.read().iter().find(|keeper| keeper.name() == name).cloned()
    }

    /// Starts, once, what renews leases and hears of cancellations. A daemon that never runs a
    /// turn has nothing to supervise.
    pub(super) fn supervise(self: &Arc<Self>) {
        if self.is_supervised.swap(true, Ordering::AcqRel) {
            return;
        }
        let cancels = self.ground.db.watch(store::CANCELS);
        let engine = Arc::downgrade(self);
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
                if engine.live.count() == 0 && !is_cancel {
                    continue;
                }
                let outcome = if is_cancel { engine.hear_cancels().await } else { engine.renew_leases().await };
                if let Err(error) = outcome {
                    tracing::warn!(%error, "running sessions cannot be looked after now");
                }
            }
        };
        let work = move || look_after(engine.clone(), cancels.clone());
        self.ground.supervise("engine.supervisor", work);
    }

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

    async fn renew_leases(&self) -> Result<(), EngineError> {
        let owner = self.holder.as_str().to_owned();
        let renew = async move |tx: &mut Tx| store::renew_leases(tx, &owner, LEASE).await;
        Ok(self.ground.db.write_relaxed::<_, StoreError, _>(renew).await?)
    }

    async fn hear_cancels(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut read = self.ground.db.read().await?;
        for id in store::list_cancelled(&mut read, self.holder.as_str()).await? {
            if let Some(live) = self.live.find(&id) {
                live.stop(Stop::Cancel);
            }
        }
        // Those that wait are held by nobody: any replica may end them.
        let waiting = store::parked::list_decided(&mut read, WOKEN_A_BATCH).await?;
        drop(read);
        for id in &waiting {
            park::wake(self, id).await?;
        }
        Ok(())
    }

    pub(super) async fn record_usage(&self, tx: &mut Tx, session: &Session, usage: Usage) -> Result<(), StoreError> {
        let call = ModelCall {
            provider: session.provider.clone(),
            model: session.model.clone(),
            usage,
            agent_id: Some(session.agent_id.to_string()),
            project_id: session.project_id.clone(),
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
            project_id: session.project_id.clone(),
            conversation_id: None,
            session_id: None,
        };
        self.providers.record_usage(tx, call).await
    }

    /// Gives the reply to whoever keeps it, and tells of the end.
    pub(super) async fn settle(
        &self,
        tx: &mut Tx,
        session: &Session,
        reply: &Reply,
        total_tokens: u64,
    ) -> Result<(), StoreError> {
        let settled = match (&session.transcript, self.transcript(session)) {
            (None, _) => Settled::Ended,
            (Some(_), Some(keeper)) => keeper.settle(tx, reply).await?,
            (Some(name), None) => {
                tracing::error!(transcript = name, "nobody keeps the replies of a session");
                Settled::Ended
            }
        };
        match settled {
            Settled::Ended => origin::emit_ended(tx, session, reply, total_tokens).await,
            Settled::Repeated => Ok(()),
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
                if store::approvals::delete_of_agent(tx, agent, limit).await? > 0 {
                    return Ok(true);
                }
                // What was told of its turns holds its words. No session is left to tell more.
                return Ok(tx.forget_events_of(agent.as_str(), limit).await? > 0);
            }
            // A turn that still runs notices by its next write.
            store::delete_sessions(tx, &sessions, limit).await?;
            Ok(true)
        })
    }
}
