//! Turns that wait for an approval. Nothing of them stays in memory: what they need to go on is a
//! row, so a restart in between changes nothing, and any replica may take them up.

use std::sync::Arc;

use agentd_base::trace;
use agentd_llm::{ModelBackend, ModelError, ModelErrorCode, ModelRequest, ModelStream};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use super::tool_round::{AfterTools, logged};
use super::{End, Log, Spent, Turn};
use crate::agents::AgentError;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{Approval, CallProgress, Round, Session, SessionId, ToolUse};
use crate::engine::prompt::Prompt;
use crate::engine::recall::Recalled;
use crate::engine::spans::turn_span;
use crate::engine::state::{EngineState, LEASE};
use crate::engine::store;
use crate::providers::{ModelPreference, ResolvedModel};

/// What a turn needs to go on.
#[derive(Serialize, Deserialize)]
struct ParkedTurn {
    prompt: Prompt,
    tools: ToolUse,
    text: String,
    round_text: String,
    next_seq: u64,
    rounds: Vec<Round>,
    calls: Vec<CallProgress>,
    spent: Spent,
    #[serde(default)]
    recalled: Option<Recalled>,
    /// What the transcript calls the entries of the history.
    #[serde(default)]
    keys: Vec<u64>,
}

pub(crate) enum Parked {
    Yes,
    /// The owner was faster.
    AlreadyDecided(Vec<Approval>),
}

/// Stands for a model that was taken away meanwhile.
#[derive(Debug)]
struct NoModel(String);

impl ModelBackend for NoModel {
    fn generate(&self, _: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let error = ModelError::new(ModelErrorCode::Auth, self.0.clone());
        async move { Err(error) }.boxed()
    }
}

enum ParkError {
    AlreadyDecided,
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for ParkError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

/// Lets go of a turn that has nothing left to do but wait.
pub(crate) async fn park(turn: &mut Turn, calls: &[CallProgress]) -> Result<Parked, EngineError> {
    let state = ParkedTurn {
        prompt: turn.prompt.clone(),
        tools: turn.tools.clone(),
        text: turn.log.text.clone(),
        round_text: turn.log.round_text.clone(),
        next_seq: turn.log.next_seq,
        rounds: turn.rounds.clone(),
        calls: calls.to_vec(),
        spent: turn.spent,
        recalled: turn.recalled.clone(),
        keys: turn.keys.clone(),
    };
    let state: Arc<str> = serde_json::to_string(&state).map_err(|_| EngineError::Lost)?.into();
    let session = Arc::clone(&turn.session);
    let parked = turn
        .engine
        .context
        .db
        .write(async move |tx: &mut Tx| {
            if !store::approvals::hold_pending(tx, &session.id).await? {
                return Err(ParkError::AlreadyDecided);
            }
            let now = tx.clock().now();
            match store::parked::park(tx, &session.id, &session.owner, &state, now).await? {
                true => Ok(()),
                false => Err(ParkError::Engine(EngineError::Lost)),
            }
        })
        .await;
    match parked {
        Ok(()) => {
            tracing::debug!(session = %turn.session.id, "a turn waits for an approval");
            Ok(Parked::Yes)
        }
        Err(ParkError::AlreadyDecided) => {
            let mut read = turn.engine.context.db.read().await?;
            Ok(Parked::AlreadyDecided(store::approvals::list_of_session(&mut read, &turn.session.id).await?))
        }
        Err(ParkError::Engine(error)) => Err(error),
    }
}

/// Takes up a waiting turn for which everything is decided, or which is to end; answers whether
/// there was one to take.
pub(crate) async fn wake(engine: &Arc<EngineState>, id: &SessionId) -> Result<bool, EngineError> {
    if engine.context.draining.is_cancelled() {
        return Ok(false);
    }
    // A concurrent caller for the same turn must see the claim before it registers the turn, since registering replaces
    // the entry of the running one.
    let waking = engine.waking.lock().await;
    let mut read = engine.context.db.read().await?;
    let Some(session) = store::find_session(&mut read, id).await? else { return Ok(false) };
    let Some(state) = store::parked::find_state(&mut read, id).await? else { return Ok(false) };
    drop(read);
    if session.waiting_since.is_none() {
        return Ok(false);
    }
    // Register before claiming: `interrupt_abandoned` treats a claimed turn that is not registered as abandoned.
    let running = engine.live.enter(id, &session.agent_id)?;
    let owner = engine.holder.as_str().to_owned();
    let claimed = id.clone();
    let is_ours = engine
        .context
        .db
        .write(async move |tx: &mut Tx| store::parked::claim(tx, &claimed, &owner, LEASE).await)
        .await?;
    if !is_ours {
        return Ok(false);
    }
    drop(waking);
    engine.supervise();
    let session = Session { owner: engine.holder.as_str().to_owned(), waiting_since: None, ..session };
    let (place, span) = (session.trace.turn(), turn_span(&session));
    let turn = match restore(engine, session, &state, running).await {
        Ok(turn) => turn,
        Err(error) => {
            if matches!(error, EngineError::Lost | EngineError::Agent(AgentError::NotFound { .. })) {
                // It can never go on. Without its state it does not wait again, and is ended as one that nobody holds.
                let lost = id.clone();
                let forget = async move |tx: &mut Tx| store::parked::delete_state(tx, &lost).await;
                engine.context.db.write::<_, StoreError, _>(forget).await?;
            }
            return Err(error);
        }
    };
    tokio::spawn(trace::within(Some(place), turn).instrument(span));
    Ok(true)
}

/// Takes up each of these that it can; answers how many. One that cannot go on keeps no other waiting.
pub(crate) async fn wake_all(engine: &Arc<EngineState>, ids: &[SessionId]) -> Result<u64, EngineError> {
    let mut woken = 0;
    for id in ids {
        match wake(engine, id).await {
            Ok(is_woken) => woken += u64::from(is_woken),
            Err(error @ (EngineError::Store(_) | EngineError::Agent(AgentError::Store(_)))) => return Err(error),
            Err(error) => tracing::warn!(session = %id, %error, "a waiting turn cannot go on"),
        }
    }
    Ok(woken)
}

/// The turn as it stood, and how it goes on. From here on it ends one way or another.
async fn restore(
    engine: &Arc<EngineState>,
    session: Session,
    state: &str,
    running: crate::engine::live::RunningTurn,
) -> Result<impl Future<Output = ()> + use<>, EngineError> {
    // Written by us; another version of the daemon may have written it differently.
    let parked: ParkedTurn = serde_json::from_str(state).map_err(|error| {
        tracing::error!(session = %session.id, %error, "a waiting turn cannot be read");
        EngineError::Lost
    })?;
    let mut read = engine.context.db.read().await?;
    let decisions = store::approvals::list_of_session(&mut read, &session.id).await?;
    let is_cancelled = store::parked::is_cancelled(&mut read, &session.id).await?;
    drop(read);
    let agent = engine.agents.get(session.agent_id.as_str()).await?;
    let preference = ModelPreference::new(Some(&session.provider), Some(&session.model));
    let resolved = match engine.providers.resolve(preference).await {
        Ok(resolved) => resolved,
        // The turn ends with the reason when it asks the model.
        Err(error) => ResolvedModel {
            backend: Arc::new(NoModel(error.to_string())),
            provider: session.provider.clone(),
            model: session.model.clone(),
            context_window: None,
        },
    };
    let offer = engine.offer(&agent, &parked.tools).await;
    let mut turn = Turn {
        options: engine.call_options(
            &session.origin,
            resolved.model.clone(),
            &offer,
            session.conversation_id.is_some(),
        ),
        backend: resolved.backend,
        window: resolved.context_window,
        engine: Arc::clone(engine),
        session: Arc::new(session),
        agent,
        running,
        prompt: parked.prompt,
        offer,
        tools: parked.tools,
        log: Log { text: parked.text, round_text: parked.round_text, next_seq: parked.next_seq, ..Log::default() },
        rounds: parked.rounds,
        logged: logged(&parked.calls),
        keys: parked.keys,
        unread: None,
        unrecorded: Vec::new(),
        steps: Vec::new(),
        shortenings: 0,
        spent: parked.spent,
        has_asked: true,
        question: None,
        recalled: parked.recalled,
        reservation: None,
        recall_began: None,
    };
    let calls = parked.calls;
    turn.engine.record_approvals(&turn.session, &calls, &decisions);
    Ok(async move {
        let after = if is_cancelled {
            turn.keep_round(&calls);
            Ok(AfterTools::Ended(End::Stopped(Stop::Cancel)))
        } else {
            turn.resume_round(calls, &decisions).await
        };
        match after {
            Ok(after) => turn.go_on_after(after).await,
            Err(given_up) => turn.abandon(given_up).await,
        }
    })
}
