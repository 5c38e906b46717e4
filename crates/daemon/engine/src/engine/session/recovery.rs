//! Sessions whose daemon is gone: their replies are kept as far as they were shown.

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
    "The daemon was stopped before the reply was complete; what was written is kept. Send the message again.";
const SESSIONS_A_BATCH: usize = 50;
/// More than all replicas together run.
const MAX_RUNNING: u32 = 50_000;

/// Ends running sessions that nobody holds any more; answers whether there may be more. With one
/// database for this daemon alone, whatever it does not run itself is nobody's.
pub(crate) async fn interrupt_abandoned(engine: &Arc<EngineState>) -> Result<WorkerReport, EngineError> {
    let is_alone = engine.context.db.is_exclusive();
    let now = engine.context.clock.now();
    let mut read = engine.context.db.read().await?;
    let mut abandoned = store::list_running(&mut read, MAX_RUNNING).await?;
    abandoned.retain(|(session, lease_until)| {
        // Of our own, those that run are known by memory.
        let is_held = match *session.owner == *engine.holder.as_str() {
            true => engine.live.find(&session.id).is_some(),
            false => !is_alone && *lease_until >= now && !engine.holder.knows_dead(&session.owner),
        };
        !is_held
    });
    let has_more = abandoned.len() > SESSIONS_A_BATCH;
    let items = abandoned.len().min(SESSIONS_A_BATCH) as u64;
    drop(read);
    for (session, lease_until) in abandoned.into_iter().take(SESSIONS_A_BATCH) {
        if put_back(engine, &session, lease_until).await? {
            continue;
        }
        // Read before the transaction: should its owner write once more after all, the number of
        // our last event is taken and nothing changes.
        let log = read_log(&mut engine.context.db.read().await?, &session).await?;
        match interrupt(engine, session, lease_until, log).await {
            // It is held after all.
            Err(EngineError::Store(StoreError::Unique { .. })) => {}
            other => other?,
        }
    }
    Ok(WorkerReport { items, has_more })
}

/// A turn that was taken up after its approval and had done nothing yet waits again.
async fn put_back(engine: &Arc<EngineState>, session: &Session, lease_until: Timestamp) -> Result<bool, EngineError> {
    let (id, owner) = (session.id.clone(), session.owner.clone());
    let put_back = async move |tx: &mut Tx| {
        if !store::has_lease(tx, &id, lease_until).await? {
            return Ok(false);
        }
        let now = tx.clock().now();
        store::parked::put_back(tx, &id, &owner, now).await
    };
    Ok(engine.context.db.write::<_, StoreError, _>(put_back).await?)
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
            // Its prompt was most likely read, whether or not an answer had begun.
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
        tracing::warn!(session = %began.id, trace_id = %began.trace.turn().trace_id, "a reply was cut off when its daemon ended; it is marked as interrupted");
        engine.ended(&began, SessionStatus::Interrupted, None);
    }
    Ok(())
}
