//! Sessions whose daemon is gone: their replies are kept as far as they were shown.

use std::sync::Arc;

use agentd_llm::{Usage, UsageSource};
use agentd_store::{Dialect, Tx};
use serde::Deserialize;

use super::context::estimate_tokens;
use super::error::EngineError;
use super::model::{EventKind, Reply, Session, SessionEvent, SessionStatus};
use super::service::Inner;
use super::store;

pub(super) const INTERRUPTED: &str =
    "The daemon was stopped before the reply was complete; what was written is kept. Send the message again.";
const SESSIONS_A_BATCH: usize = 50;
/// More than all replicas together run.
const MAX_RUNNING: u32 = 50_000;
const EVENTS_A_READ: u32 = 1_000;

#[derive(Deserialize)]
struct Token {
    content: String,
}

/// Ends running sessions that nobody holds any more; answers whether there may be more. With one
/// database for this daemon alone, whatever it does not run itself is nobody's.
pub(super) async fn interrupt_abandoned(engine: &Arc<Inner>) -> Result<bool, EngineError> {
    let is_alone = engine.ground.db.dialect() == Dialect::Sqlite;
    let now = engine.ground.clock.now();
    let mut read = engine.ground.db.read().await?;
    let mut abandoned = store::list_running(&mut read, MAX_RUNNING).await?;
    abandoned.retain(|(session, lease_until)| {
        // Of our own, those that run are known by memory.
        let is_held = match *session.owner == *engine.holder.as_str() {
            true => engine.live.find(&session.id).is_some(),
            false => !is_alone && *lease_until >= now && !engine.holder.knows_dead(&session.owner),
        };
        !is_held
    });
    let is_full = abandoned.len() > SESSIONS_A_BATCH;
    for (session, _) in abandoned.into_iter().take(SESSIONS_A_BATCH) {
        // Read before the transaction: should its owner write once more after all, the number of
        // our last event is taken and nothing changes.
        let (content, last_seq) = read_text(&mut read, &session).await?;
        interrupt(engine, session, content, last_seq).await?;
    }
    Ok(is_full)
}

async fn interrupt(engine: &Arc<Inner>, session: Session, content: String, last_seq: u64) -> Result<(), EngineError> {
    let (here, id) = (Arc::clone(engine), session.id.clone());
    let ended = engine
        .ground
        .db
        .write(async move |tx: &mut Tx| {
            let ended =
                store::end_session(tx, &session.id, &session.owner, SessionStatus::Interrupted, Some("internal"))
                    .await?;
            if !ended {
                return Ok(false);
            }
            store::insert_events(tx, &session.id, &[SessionEvent::error(last_seq + 1, "internal", INTERRUPTED)])
                .await?;
            let usage = match content.is_empty() {
                true => Usage::default(),
                false => Usage {
                    input_tokens: session.prompt_tokens_estimate,
                    output_tokens: estimate_tokens(&content),
                    source: UsageSource::Estimated,
                    ..Usage::default()
                },
            };
            here.record_usage(tx, &session, usage).await?;
            let reply = Reply {
                session_id: session.id.clone(),
                conversation_id: session.conversation_id.clone(),
                message_id: session.message_id.clone(),
                content: content.clone(),
                status: SessionStatus::Interrupted,
            };
            here.settle(tx, &session, &reply).await?;
            Ok::<_, EngineError>(true)
        })
        .await?;
    if ended {
        tracing::warn!(session = %id, "a reply was cut off when its daemon ended; it is marked as interrupted");
    }
    Ok(())
}

/// Everything that was shown, and the number of the last event.
pub(super) async fn read_text(
    read: &mut agentd_store::Read,
    session: &Session,
) -> Result<(String, u64), agentd_store::StoreError> {
    let (mut content, mut seen) = (String::new(), 0);
    loop {
        let events = store::list_events(read, &session.id, seen, EVENTS_A_READ).await?;
        let count = events.len() as u64;
        for event in events {
            seen = event.seq;
            if event.kind == EventKind::Token
                && let Ok(token) = serde_json::from_str::<Token>(&event.data)
            {
                content.push_str(&token.content);
            }
        }
        if count < u64::from(EVENTS_A_READ) {
            return Ok((content, seen));
        }
    }
}
