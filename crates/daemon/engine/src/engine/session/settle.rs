//! Effects of a turn besides its log: usage, the stored reply, statistics, and events for other parts of the daemon.

use std::sync::Arc;

use agentd_core::rollups::{self, Counter};
use agentd_core::runtime::AppContext;
use agentd_llm::Usage;
use agentd_store::{NewEvent, StoreError, Tx};
use serde_json::{Value, json};

use crate::engine::model::{
    Attempt, CallStatus, EventKind, HistoryMessage, NoAnswer, OriginKind, Reply, Session, SessionEvent, SessionStatus,
    Sources,
};
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn_sink::{ConversationSummary, Settled, TurnSink};
use crate::providers::ModelCall;

impl EngineState {
    /// Stores a summary through the turn sink of a session.
    pub(crate) async fn store_summary(
        &self,
        session: &Session,
        summary: String,
        sources: Sources,
        through: Option<u64>,
    ) -> Result<(), StoreError> {
        let (Some(conversation_id), Some(through)) = (session.conversation_id.clone(), through) else { return Ok(()) };
        let Some(sink) = self.sink(session) else { return Ok(()) };
        let write = async move |tx: &mut Tx| {
            let summary = ConversationSummary { text: &summary, sources: &sources, through };
            sink.store_summary(tx, &conversation_id, summary).await
        };
        self.context.db.write(write).await
    }

    /// Returns the messages between two entries from the turn sink.
    pub(crate) async fn messages_between(
        &self,
        session: &Session,
        after: u64,
        before: u64,
    ) -> Result<Vec<(u64, HistoryMessage)>, StoreError> {
        match (&session.conversation_id, self.sink(session)) {
            (Some(conversation_id), Some(sink)) => sink.messages_between(conversation_id, after, before).await,
            _ => Ok(Vec::new()),
        }
    }

    fn sink(&self, session: &Session) -> Option<Arc<dyn TurnSink>> {
        let name = session.sink.as_deref()?;
        self.sinks.all().iter().find(|sink| sink.name() == name).cloned()
    }

    pub(crate) async fn record_usage(
        &self,
        tx: &mut Tx,
        session: &Session,
        attempt: &Attempt,
    ) -> Result<(), StoreError> {
        let cost_micro_usd = self.providers.record_usage(tx, model_call(session, attempt.usage)).await?;
        store::insert_step(tx, &session.id, &attempt.step(cost_micro_usd)).await
    }

    /// Records usage of a deleted session: the tokens count, but are not attributed.
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

    /// Stores the reply through the turn sink, counts the turn and publishes its end. Returns the outcome.
    pub(crate) async fn settle(
        &self,
        tx: &mut Tx,
        session: &Session,
        reply: &Reply,
        total_tokens: u64,
    ) -> Result<Settled, StoreError> {
        let settled = match (&session.sink, self.sink(session)) {
            (None, _) => Settled::Ended,
            (Some(_), Some(sink)) => sink.settle(tx, reply).await?,
            (Some(name), None) => {
                tracing::error!(sink = name, "turn sink not found; reply not stored");
                Settled::Ended
            }
        };
        if matches!(settled, Settled::Ended | Settled::EndedFor(_)) {
            count_turn(tx, session, reply).await?;
        }
        match &settled {
            Settled::Ended => emit_ended(tx, session, reply, total_tokens).await?,
            Settled::EndedFor(reason) => {
                let reply = Reply { error: Some(reason.clone()), ..reply.clone() };
                emit_ended(tx, session, &reply, total_tokens).await?;
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

/// Counts a turn and its tool calls for the statistics.
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

/// Maximum length of the answer in an event.
const MAX_OUTPUT_CHARACTERS: usize = 2_000;

fn data(session: &Session) -> Value {
    json!({
        "session_id": session.id,
        "agent_id": session.agent_id,
        "origin": session.origin.kind.as_str(),
        "conversation_id": session.conversation_id,
        "job_id": session.origin.job_id,
        "run_id": session.origin.run_id,
    })
}

fn event(session: &Session, event_type: &str, data: Value) -> NewEvent {
    NewEvent::new(event_type, data).for_agent(session.agent_id.as_str())
}

/// Returns the kind of an unsuccessful end; `code` in the event has the details.
fn reason(status: SessionStatus, error: Option<&NoAnswer>) -> &'static str {
    match status {
        // A caller with a time limit cancels the turn and then reports this code.
        _ if error.is_some_and(|error| error.code == "timeout") => "timeout",
        SessionStatus::Cancelled => "cancelled",
        SessionStatus::Interrupted => "interrupted",
        SessionStatus::Running | SessionStatus::Done | SessionStatus::Failed => "error",
    }
}

/// Runs in the transaction that stores the session.
pub(crate) async fn emit_started(tx: &mut Tx, session: &Session) -> Result<(), StoreError> {
    let started = event(session, "task.started", data(session));
    let events = match session.origin.kind {
        OriginKind::Auxiliary => return Ok(()),
        OriginKind::Scheduler => vec![started],
        // Unscheduled turns are queued at the moment they start.
        _ => vec![event(session, "task.queued", data(session)), started],
    };
    tx.emit_all(events).await
}

/// Runs in the transaction that ends the session.
pub(crate) async fn emit_ended(
    tx: &mut Tx,
    session: &Session,
    reply: &Reply,
    total_tokens: u64,
) -> Result<(), StoreError> {
    if session.origin.kind == OriginKind::Auxiliary {
        return Ok(());
    }
    let mut data = data(session);
    let event_type = match (reply.status, &reply.error) {
        (SessionStatus::Done, _) => {
            let duration = tx.clock().now().since(session.started_at);
            data["duration_ms"] = json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
            data["total_tokens"] = json!(total_tokens);
            data["output"] = json!(reply.content.chars().take(MAX_OUTPUT_CHARACTERS).collect::<String>());
            "task.completed"
        }
        (status, error) => {
            data["reason"] = json!(reason(status, error.as_ref()));
            data["code"] = json!(error.as_ref().map(|error| &error.code));
            data["error"] = json!(error.as_ref().map(|error| &error.message));
            "task.failed"
        }
    };
    tx.emit(event(session, event_type, data)).await.map(|_| ())
}

/// Publishes tool steps on the live feed. Inputs and results are only in the session's log.
pub(crate) fn publish_steps(context: &AppContext, session: &Session, events: &[SessionEvent]) {
    if !context.feed.has_subscribers() {
        return;
    }
    for event in events {
        let event_type = match event.kind {
            EventKind::ToolUse => "turn.tool_use",
            EventKind::ToolResult => "turn.tool_result",
            _ => continue,
        };
        context.feed.publish(event_type, context.clock.now(), || {
            let step = event.value();
            let mut payload = data(session);
            for field in ["tool", "call_id", "round", "status"] {
                payload[field] = step[field].clone();
            }
            payload
        });
    }
}
