//! What the rest of the daemon is told of a turn.

use agentd_core::runtime::AppContext;
use agentd_store::{NewEvent, StoreError, Tx};
use serde_json::{Value, json};

use crate::engine::model::{EventKind, NoAnswer, OriginKind, Reply, Session, SessionEvent, SessionStatus};

/// More of an answer does not go into an event.
const OUTPUT_CHARACTERS: usize = 2_000;

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

/// What kind of end it was, where it was no success. `code` says more of an error.
fn reason(status: SessionStatus, error: Option<&NoAnswer>) -> &'static str {
    match status {
        // Whoever has a limit stops the turn as anybody else does, and then says why.
        _ if error.is_some_and(|error| error.code == "timeout") => "timeout",
        SessionStatus::Cancelled => "cancelled",
        SessionStatus::Interrupted => "interrupted",
        SessionStatus::Running | SessionStatus::Done | SessionStatus::Failed => "error",
    }
}

/// In the transaction that stores the session.
pub(crate) async fn emit_started(tx: &mut Tx, session: &Session) -> Result<(), StoreError> {
    let started = event(session, "task.started", data(session));
    let events = match session.origin.kind {
        OriginKind::Aside => return Ok(()),
        OriginKind::Scheduler => vec![started],
        // What nobody has planned is accepted by being begun.
        _ => vec![event(session, "task.queued", data(session)), started],
    };
    tx.emit_all(events).await
}

/// In the transaction that ends the session.
pub(crate) async fn emit_ended(
    tx: &mut Tx,
    session: &Session,
    reply: &Reply,
    total_tokens: u64,
) -> Result<(), StoreError> {
    if session.origin.kind == OriginKind::Aside {
        return Ok(());
    }
    let mut data = data(session);
    let event_type = match (reply.status, &reply.error) {
        (SessionStatus::Done, _) => {
            let duration = tx.clock().now().since(session.started_at);
            data["duration_ms"] = json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
            data["total_tokens"] = json!(total_tokens);
            data["output"] = json!(reply.content.chars().take(OUTPUT_CHARACTERS).collect::<String>());
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

/// Tells whoever watches the daemon of the steps of tools; what they were given and answered is in the turn's own log.
pub(crate) fn tell_steps(context: &AppContext, session: &Session, events: &[SessionEvent]) {
    if !context.feed.is_watched() {
        return;
    }
    for event in events {
        let event_type = match event.kind {
            EventKind::ToolUse => "turn.tool_use",
            EventKind::ToolResult => "turn.tool_result",
            _ => continue,
        };
        context.feed.tell(event_type, context.clock.now(), || {
            let step = event.value();
            let mut told = data(session);
            for field in ["tool", "call_id", "round", "status"] {
                told[field] = step[field].clone();
            }
            told
        });
    }
}
