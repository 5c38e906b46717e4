//! Resumes turns that waited for an approval, in whichever process sees the answer first.

use std::sync::Arc;

use agentd_base::trace;
use agentd_llm::{ModelBackend, ModelError, ModelErrorCode, ModelRequest, ModelStream};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tracing::Instrument as _;

use super::Turn;
use super::context::{TurnContext, TurnModel};
use super::conversation::Conversation;
use super::park::ParkedTurn;
use super::recall::TurnRecall;
use super::usage::UsageLedger;
use crate::agents::AgentError;
use crate::engine::error::EngineError;
use crate::engine::live::RunningTurn;
use crate::engine::model::{Session, SessionId};
use crate::engine::spans::turn_span;
use crate::engine::state::{EngineState, LEASE_DURATION};
use crate::engine::store;
use crate::providers::{ModelPreference, ResolvedModel};

/// Placeholder for a model that was removed while the turn was parked.
#[derive(Debug)]
struct UnavailableModel(String);

impl ModelBackend for UnavailableModel {
    fn generate(&self, _: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let error = ModelError::new(ModelErrorCode::Auth, self.0.clone());
        async move { Err(error) }.boxed()
    }
}

/// Resumes a parked turn if all its approvals are decided or it was cancelled. Returns whether this call claimed it.
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
    let running = engine.live.register(id, &session.agent_id)?;
    let owner = engine.holder.as_str().to_owned();
    let claimed = id.clone();
    let is_ours = engine
        .context
        .db
        .write(async move |tx: &mut Tx| store::parked::claim(tx, &claimed, &owner, LEASE_DURATION).await)
        .await?;
    if !is_ours {
        return Ok(false);
    }
    drop(waking);
    engine.supervise();
    let session = Session { owner: engine.holder.as_str().to_owned(), waiting_since: None, ..session };
    let (trace_context, span) = (session.trace.turn(), turn_span(&session));
    let turn = match restore(engine, session, &state, running).await {
        Ok(turn) => turn,
        Err(error) => {
            if matches!(error, EngineError::Lost | EngineError::Agent(AgentError::NotFound { .. })) {
                // The turn can never continue. Without its state it is no longer parked, and is ended like an abandoned
                // turn.
                let lost = id.clone();
                let forget = async move |tx: &mut Tx| store::parked::delete_state(tx, &lost).await;
                engine.context.db.write::<_, StoreError, _>(forget).await?;
            }
            return Err(error);
        }
    };
    tokio::spawn(trace::with_context(Some(trace_context), turn).instrument(span));
    Ok(true)
}

/// Resumes as many of these turns as possible; returns their number. A turn that cannot resume does not block the
/// others.
pub(crate) async fn wake_all(engine: &Arc<EngineState>, ids: &[SessionId]) -> Result<u64, EngineError> {
    let mut woken = 0;
    for id in ids {
        match wake(engine, id).await {
            Ok(is_woken) => woken += u64::from(is_woken),
            Err(error @ (EngineError::Store(_) | EngineError::Agent(AgentError::Store(_)))) => return Err(error),
            Err(error) => tracing::warn!(session = %id, %error, "failed to resume a parked turn"),
        }
    }
    Ok(woken)
}

/// Restores a parked turn and returns the future that runs it to its end.
async fn restore(
    engine: &Arc<EngineState>,
    session: Session,
    state: &str,
    running: RunningTurn,
) -> Result<impl Future<Output = ()> + use<>, EngineError> {
    // Another version of the daemon may have written it in a different format.
    let parked: ParkedTurn = serde_json::from_str(state).map_err(|error| {
        tracing::error!(session = %session.id, %error, "failed to parse a parked turn");
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
        // The turn fails with this reason when it calls the model.
        Err(error) => ResolvedModel {
            backend: Arc::new(UnavailableModel(error.to_string())),
            provider: session.provider.clone(),
            model: session.model.clone(),
            context_window: None,
        },
    };
    let offer = engine.offer(&agent, &parked.tools).await;
    let options = engine.call_options(&session.origin, resolved.model, &offer, session.conversation_id.is_some());
    let model = TurnModel::new(resolved.backend, options, resolved.context_window);
    engine.record_approvals(&session, &parked.calls, &decisions);
    let turn = Turn {
        context: TurnContext::new(Arc::clone(engine), session, agent, model, parked.tools, running),
        conversation: Conversation::new(parked.prompt, offer, parked.keys, None),
        log: parked.log.resumed(),
        usage: UsageLedger::resumed(parked.spent),
        recall: TurnRecall::resumed(parked.recalled),
    };
    Ok(turn.resume(parked.calls, decisions, is_cancelled))
}
