//! What comes of a turn besides its log: the tokens it took, and what whoever asked for it keeps.

use std::sync::Arc;

use agentd_core::rollups::{self, Counter};
use agentd_llm::Usage;
use agentd_store::{StoreError, Tx};

use crate::engine::model::{Attempt, CallStatus, HistoryMessage, Reply, Session, SessionStatus, Sources};
use crate::engine::session::task_events;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn_sink::{ConversationSummary, Settled, TurnSink};
use crate::providers::ModelCall;

impl EngineState {
    /// Gives a summary to whoever keeps the conversation.
    pub(crate) async fn keep_summary(
        &self,
        session: &Session,
        summary: String,
        sources: Sources,
        through: Option<u64>,
    ) -> Result<(), StoreError> {
        let (Some(conversation_id), Some(through)) = (session.conversation_id.clone(), through) else { return Ok(()) };
        let Some(keeper) = self.transcript(session) else { return Ok(()) };
        let keep = async move |tx: &mut Tx| {
            let summary = ConversationSummary { text: &summary, sources: &sources, through };
            keeper.keep_summary(tx, &conversation_id, summary).await
        };
        self.context.db.write(keep).await
    }

    /// What was said in the conversation after and before two entries, from whoever keeps it.
    pub(crate) async fn said_between(
        &self,
        session: &Session,
        after: u64,
        before: u64,
    ) -> Result<Vec<(u64, HistoryMessage)>, StoreError> {
        match (&session.conversation_id, self.transcript(session)) {
            (Some(conversation_id), Some(keeper)) => keeper.said_between(conversation_id, after, before).await,
            _ => Ok(Vec::new()),
        }
    }

    fn transcript(&self, session: &Session) -> Option<Arc<dyn TurnSink>> {
        let name = session.transcript.as_deref()?;
        self.sinks.all().iter().find(|keeper| keeper.name() == name).cloned()
    }

    pub(crate) async fn record_usage(
        &self,
        tx: &mut Tx,
        session: &Session,
        attempt: &Attempt,
    ) -> Result<(), StoreError> {
        let cost_micro_usd = self.providers.record_usage(tx, model_call(session, attempt.usage)).await?;
        store::steps::insert_step(tx, &session.id, &attempt.step(cost_micro_usd)).await
    }

    /// For a session that is gone: the tokens count, whose they were is no longer known.
    pub(crate) async fn record_orphaned_usage(
        &self,
        tx: &mut Tx,
        session: &Session,
        usage: Usage,
    ) -> Result<(), StoreError> {
        let call = model_call(session, usage);
        let call = ModelCall { agent_id: None, conversation_id: None, session_id: None, ..call };
        self.providers.record_usage(tx, call).await.map(|_| ())
    }

    /// Gives the reply to whoever keeps it, and tells of the end. Answers what became of the turn.
    pub(crate) async fn settle(
        &self,
        tx: &mut Tx,
        session: &Session,
        reply: &Reply,
        total_tokens: u64,
    ) -> Result<Settled, StoreError> {
        let settled = match (&session.transcript, self.transcript(session)) {
            (None, _) => Settled::Ended,
            (Some(_), Some(keeper)) => keeper.settle(tx, reply).await?,
            (Some(name), None) => {
                tracing::error!(transcript = name, "nobody keeps the replies of a session");
                Settled::Ended
            }
        };
        if matches!(settled, Settled::Ended | Settled::EndedFor(_)) {
            count_turn(tx, session, reply).await?;
        }
        match &settled {
            Settled::Ended => task_events::emit_ended(tx, session, reply, total_tokens).await?,
            Settled::EndedFor(reason) => {
                let reply = Reply { error: Some(reason.clone()), ..reply.clone() };
                task_events::emit_ended(tx, session, &reply, total_tokens).await?;
            }
            Settled::Repeated | Settled::RepeatedFor(_) => {}
        }
        Ok(settled)
    }
}

fn model_call(session: &Session, usage: Usage) -> ModelCall {
    ModelCall {
        provider: session.provider.clone(),
        model: session.model.clone(),
        usage,
        agent_id: Some(session.agent_id.to_string()),
        project_id: session.project_id.clone(),
        origin: session.origin.source(),
        key_id: session.origin.key_id.clone(),
        conversation_id: session.conversation_id.clone(),
        session_id: Some(session.id.to_string()),
    }
}

/// A turn and its calls of tools, by all that they are shown by.
async fn count_turn(tx: &mut Tx, session: &Session, reply: &Reply) -> Result<(), StoreError> {
    let agent = session.agent_id.as_str();
    let has_failed = matches!(reply.status, SessionStatus::Failed | SessionStatus::Interrupted);
    let mut counted = vec![
        (Counter::Turns, agent, 1),
        (Counter::FailedTurns, agent, has_failed.into()),
        (Counter::TurnsByOrigin, session.origin.source(), 1),
    ];
    for call in reply.rounds.iter().flat_map(|round| &round.calls).filter(|call| call.has_begun()) {
        let has_failed = call.status == CallStatus::Failed;
        counted.push((Counter::ToolCalls, call.tool.as_str(), 1));
        counted.push((Counter::FailedToolCalls, call.tool.as_str(), has_failed.into()));
        counted.push((Counter::ToolCallsByAgent, agent, 1));
    }
    rollups::count(tx, &counted).await
}
