//! Recovery of sessions whose process died: the published part of their replies is stored.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_core::runtime::WorkerReport;
use agentd_llm::{Usage, UsageSource};
use agentd_store::{StoreError, Tx};

use crate::engine::error::EngineError;
use crate::engine::model::{Attempt, NoAnswer, Reply, Session, SessionEvent, SessionStatus, close_calls};
use crate::engine::prompt::estimate_tokens;
use crate::engine::session::log::{StoredLog, read_log};
use crate::engine::state::EngineState;
use crate::engine::store;

pub(crate) const INTERRUPTED: &str =
    "The daemon stopped before the reply was complete; the partial reply is stored. Send the message again.";
const SESSION_BATCH_SIZE: usize = 50;
/// Exceeds the number of sessions that all replicas run together.
const MAX_RUNNING: u32 = 50_000;

/// Ends running sessions without a live owner; reports whether there may be more. If the database is exclusive to this
/// daemon, every session that it does not run itself is abandoned.
pub(crate) async fn interrupt_abandoned(engine: &Arc<EngineState>) -> Result<WorkerReport, EngineError> {
    let is_exclusive = engine.context.db.is_exclusive();
    let now = engine.context.clock.now();
    let mut read = engine.context.db.read().await?;
    let mut abandoned = store::list_running(&mut read, MAX_RUNNING).await?;
    abandoned.retain(|(session, lease_until)| {
        // Own sessions run if they are registered in memory.
        let has_owner = match *session.owner == *engine.holder.as_str() {
            true => engine.live.find(&session.id).is_some(),
            false => !is_exclusive && *lease_until >= now && !engine.holder.is_dead(&session.owner),
        };
        !has_owner
    });
    let has_more = abandoned.len() > SESSION_BATCH_SIZE;
    let items = abandoned.len().min(SESSION_BATCH_SIZE) as u64;
    drop(read);
    for (session, lease_until) in abandoned.into_iter().take(SESSION_BATCH_SIZE) {
        if park_again(engine, &session, lease_until).await? {
            continue;
        }
        // Read before the transaction: if the owner writes again, the sequence number of the final event is taken and
        // nothing changes.
        let log = read_log(&mut engine.context.db.read().await?, &session).await?;
        match interrupt(engine, session, lease_until, log).await {
            // The owner is still alive.
            Err(EngineError::Store(StoreError::Unique { .. })) => {}
            other => other?,
        }
    }
    Ok(WorkerReport { items, has_more })
}

/// Parks a turn again that was resumed and had not done anything yet.
async fn park_again(engine: &Arc<EngineState>, session: &Session, lease_until: Timestamp) -> Result<bool, EngineError> {
    let (id, owner) = (session.id.clone(), session.owner.clone());
    let park_again = async move |tx: &mut Tx| {
        if !store::has_lease(tx, &id, lease_until).await? {
            return Ok(false);
        }
        let now = tx.clock().now();
        store::parked::park_again(tx, &id, &owner, now).await
    };
    Ok(engine.context.db.write::<_, StoreError, _>(park_again).await?)
}

async fn interrupt(
    engine: &Arc<EngineState>,
    session: Session,
    lease_until: Timestamp,
    log: StoredLog,
) -> Result<(), EngineError> {
    let (here, began) = (Arc::clone(engine), session.clone());
    let StoredLog { content, mut rounds, last_seq } = log;
    close_calls(&mut rounds);
    let ended = engine
        .context
        .db
        .write(async move |tx: &mut Tx| {
            let is_abandoned = store::has_lease(tx, &session.id, lease_until).await?;
            let status = SessionStatus::Interrupted;
            if !is_abandoned || !store::end_session(tx, &session.id, &session.owner, status, Some("internal")).await? {
                return Ok(false);
            }
            store::insert_events(tx, &session.id, &[SessionEvent::error(last_seq + 1, "internal", INTERRUPTED)])
                .await?;
            // The prompt was most likely processed, even if no answer had begun.
            let usage = Usage {
                input_tokens: session.prompt_tokens_estimate,
                output_tokens: estimate_tokens(&content),
                source: UsageSource::Estimated,
                ..Usage::default()
            };
            let attempt = Attempt::interrupted(here.context.ids.next_span(), usage);
            here.record_usage(tx, &session, &attempt).await?;
            here.providers.settle_reservation(tx, session.id.as_str()).await?;
            let now = tx.clock().now();
            store::approvals::cancel_of_session(tx, &session.id, now).await?;
            let reply = Reply {
                session_id: session.id.clone(),
                conversation_id: session.conversation_id.clone(),
                message_id: session.message_id.clone(),
                content: content.clone(),
                rounds: rounds.clone(),
                status: SessionStatus::Interrupted,
                error: Some(NoAnswer { code: "internal".to_owned(), message: INTERRUPTED.to_owned() }),
            };
            let spent = session.prompt_tokens_estimate + estimate_tokens(&content);
            here.settle(tx, &session, &reply, spent).await?;
            Ok::<_, EngineError>(true)
        })
        .await?;
    if ended {
        engine.record_turn(&began, None, (SessionStatus::Interrupted, Some("internal")), None);
        tracing::warn!(session = %began.id, trace_id = %began.trace.turn().trace_id, "session interrupted: its daemon stopped before the reply was complete");
        engine.ended(&began, SessionStatus::Interrupted, None);
    }
    Ok(())
}
