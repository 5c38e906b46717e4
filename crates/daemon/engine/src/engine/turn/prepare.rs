//! Preparation of a turn: resolves its model, tools, prompt and reservation, and builds its session row.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::trace;
use agentd_store::{StoreError, Tx};

use super::Turn;
use super::context::{MAX_RECALLED_TOKENS, TurnContext, TurnModel};
use super::conversation::Conversation;
use super::log::{FirstToken, Log};
use super::recall::TurnRecall;
use super::usage::{UsageLedger, planned_call};
use crate::agents::Agent;
use crate::engine::error::EngineError;
use crate::engine::live::RunningTurn;
use crate::engine::model::{Origin, OriginKind, Session, SessionId, SessionStatus, StartTurn, ToolUse, TurnTrace};
use crate::engine::prompt::Prompt;
use crate::engine::state::{EngineState, LEASE_DURATION};
use crate::engine::store;
use crate::providers::ModelPreference;

/// A turn that is not stored yet.
pub(crate) struct Prepared {
    pub(crate) session: Session,
    agent: Arc<Agent>,
    model: TurnModel,
    tools: ToolUse,
    conversation: Conversation,
    usage: UsageLedger,
    recall: TurnRecall,
}

impl Prepared {
    pub(crate) fn into_turn(self, engine: Arc<EngineState>, running: RunningTurn) -> Turn {
        let first_token = FirstToken {
            recorder: engine.context.recorder.clone(),
            clock: engine.context.clock.clone(),
            began_at: self.session.started_at,
        };
        let mut turn = Turn {
            context: TurnContext::new(engine, self.session, self.agent, self.model, self.tools, running),
            conversation: self.conversation,
            log: Log::new(first_token),
            usage: self.usage,
            recall: self.recall,
        };
        // Messages must be summarized before they are dropped.
        if !turn.conversation.must_compact(&turn.context) {
            turn.conversation.fit(&turn.context);
        }
        turn
    }
}

impl EngineState {
    pub(crate) async fn prepare(self: &Arc<Self>, turn: StartTurn) -> Result<Prepared, EngineError> {
        if self.context.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        let profile = &turn.agent.profile;
        let preference = ModelPreference::parse(turn.model.as_deref())
            .or(ModelPreference::new(profile.provider.as_deref(), profile.model.as_deref()));
        let resolved = self.providers.resolve(preference).await?;
        let offer = self.offer(&turn.agent, &turn.tools).await;
        let system = self.agents.system_prompt(&turn.agent);
        let keys = turn.history.iter().map_while(|entry| entry.key).collect();
        let history = turn.history.into_iter().map(|entry| entry.message).collect();
        let mut prompt = Prompt::new(system, history, !offer.is_empty(), &self.marker);
        if !is_user_authored(&turn.origin) {
            prompt.clear_named_hosts();
        }
        let options = self.call_options(&turn.origin, resolved.model.clone(), &offer, turn.conversation_id.is_some());
        let options = options.with_max_output(&resolved.provider, turn.max_output_tokens);
        prompt.set_summary(turn.summary, !turn.sources.is_empty());
        prompt.add_sources(&turn.sources);
        let id = SessionId::generate(&self.context.ids);
        let mut call = planned_call(&id, &turn.agent, &resolved.provider, &options, &prompt);
        // Recalled memories are added to the prompt later.
        call.prompt += turn.recall.as_ref().map_or(0, |_| MAX_RECALLED_TOKENS);
        let mut reservation = None;
        self.providers.reserve(&call, &mut reservation).await?;
        let session = Session {
            trace: TurnTrace::new(&id, trace::current()),
            id,
            agent_id: turn.agent.id.clone(),
            origin: turn.origin,
            project_id: turn.project_id,
            conversation_id: turn.conversation_id,
            message_id: turn.message_id,
            sink: turn.sink.map(str::to_owned),
            provider: resolved.provider,
            model: resolved.model,
            prompt_tokens_estimate: prompt.tokens(),
            status: SessionStatus::Running,
            error_code: None,
            owner: self.holder.as_str().to_owned(),
            started_at: self.context.clock.now(),
            completed_at: None,
            waiting_since: None,
            waited: Duration::ZERO,
        };
        Ok(Prepared {
            session,
            agent: turn.agent,
            model: TurnModel::new(resolved.backend, options, resolved.context_window),
            tools: turn.tools,
            conversation: Conversation::new(prompt, offer, keys, turn.unsummarized),
            usage: UsageLedger::new(reservation),
            recall: TurnRecall::new(turn.recall),
        })
    }
    pub(crate) async fn insert(&self, tx: &mut Tx, session: &Session) -> Result<(), EngineError> {
        if !self.agents.is_alive(tx, &session.agent_id).await? {
            return Err(EngineError::AgentGone);
        }
        let lease_until = tx.clock().now() + LEASE_DURATION;
        if store::insert_session(tx, session, lease_until).await? {
            return Ok(());
        }
        let conversation_id = session.conversation_id.clone().unwrap_or_default();
        match store::find_running_in_conversation(tx, &conversation_id).await? {
            Some(session_id) => Err(EngineError::TurnInProgress { conversation_id, session_id }),
            None => Err(StoreError::Contended.into()),
        }
    }
}

/// Whether the user wrote the user messages of a turn.
fn is_user_authored(origin: &Origin) -> bool {
    match origin.kind {
        OriginKind::Chat | OriginKind::Device | OriginKind::Scheduler | OriginKind::Channel => true,
        OriginKind::Webhook | OriginKind::Hook | OriginKind::Proactive | OriginKind::Auxiliary => false,
    }
}
