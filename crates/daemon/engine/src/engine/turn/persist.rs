//! Stores what a turn has, and shows it once it is stored, even if the database is unavailable for a while.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_store::{StoreError, Tx};
use futures_util::future::BoxFuture;

use super::context::TurnContext;
use super::log::Log;
use super::usage::UsageLedger;
use crate::engine::error::EngineError;
use crate::engine::model::{Approval, Session, SessionEvent};
use crate::engine::state::EngineState;
use crate::engine::store;

/// While the database is unavailable, a turn keeps what it has and tries again, for half a minute.
const STORE_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), multiplier: 2.0, cap: Duration::from_secs(2), jitter: 0.2 };
const STORE_ATTEMPTS: u32 = 20;

/// A write of tokens under way; it answers the events that may then be shown.
pub(super) type Writing = BoxFuture<'static, Result<Vec<SessionEvent>, EngineError>>;

/// Stores pieces of text.
pub(super) fn write_tokens(context: &TurnContext, events: Vec<SessionEvent>) -> Writing {
    let (engine, session) = (Arc::clone(&context.engine), Arc::clone(&context.session));
    let events = Arc::new(events);
    Box::pin(async move {
        let write = || {
            let (session, events) = (Arc::clone(&session), Arc::clone(&events));
            engine
                .context
                .db
                .write_relaxed(async move |tx: &mut Tx| Ok(store::insert_events(tx, &session.id, &events).await?))
        };
        match persist(&engine, write).await {
            Ok(()) => {}
            Err(error) if is_taken(&error) => confirm_written(&engine, &session, &events, error).await?,
            Err(error) => return Err(error),
        }
        Ok(Arc::unwrap_or_clone(events))
    })
}

/// What changes when a round of tools begins, besides its events.
#[derive(Clone, Default)]
pub(super) struct Opening {
    pub(super) approvals: Vec<Approval>,
    /// The turn was parked; from here on it may not be resumed again from where it was.
    pub(super) unpark: bool,
}

/// Stores the events that wait and what was used, and shows those events.
pub(super) async fn store_progress(
    context: &TurnContext,
    log: &mut Log,
    usage: &mut UsageLedger,
    opening: Opening,
) -> Result<(), EngineError> {
    let is_full = opening.unpark || !opening.approvals.is_empty();
    if !is_full && !log.has_waiting() && !usage.has_unstored_attempts() {
        return Ok(());
    }
    let progress = Arc::new((log.take_waiting(), usage.take_unstored(), opening));
    let (engine, session) = (&context.engine, &context.session);
    let write = || {
        let (here, session, progress) = (Arc::clone(engine), Arc::clone(session), Arc::clone(&progress));
        let body = async move |tx: &mut Tx| {
            let (events, used, Opening { approvals, unpark }) = &*progress;
            // A deletion has closed what its agent had asked for; nothing is asked after it.
            if !approvals.is_empty() && !here.agents.is_alive(tx, &session.agent_id).await? {
                return Err(EngineError::AgentGone);
            }
            if *unpark {
                store::parked::delete_state(tx, &session.id).await?;
            }
            store::insert_events(tx, &session.id, events).await?;
            for approval in approvals {
                store::approvals::insert_approval(tx, approval).await?;
            }
            Ok::<_, EngineError>(used.store(tx, &here, &session).await?)
        };
        let db = engine.context.db.clone();
        async move { if is_full { db.write(body).await } else { db.write_relaxed(body).await } }
    };
    let stored = match persist(engine, write).await {
        Err(error) if is_taken(&error) => confirm_written(engine, session, &progress.0, error).await,
        stored => stored,
    };
    let (events, used, opening) = Arc::unwrap_or_clone(progress);
    if let Err(error) = stored {
        usage.put_back(used);
        return Err(error);
    }
    usage.stored();
    if !opening.approvals.is_empty() {
        engine.approvals.asked().notify_one();
    }
    context.show(events);
    Ok(())
}

fn store_error(error: &EngineError) -> Option<&StoreError> {
    match error {
        EngineError::Store(error) => Some(error),
        _ => None,
    }
}

fn is_taken(error: &EngineError) -> bool {
    matches!(store_error(error), Some(StoreError::Unique { .. }))
}

/// The numbers are taken. Either a commit of ours whose answer was lost came through after all, or
/// the session belongs to somebody else by now.
async fn confirm_written(
    engine: &EngineState,
    session: &Session,
    events: &[SessionEvent],
    error: EngineError,
) -> Result<(), EngineError> {
    let (Some(first), Ok(count)) = (events.first(), u32::try_from(events.len())) else { return Ok(()) };
    let mut read = engine.context.db.read().await?;
    let stored = store::list_events(&mut read, &session.id, first.seq.saturating_sub(1), count).await?;
    if stored == events { Ok(()) } else { Err(error) }
}

/// Writes again while the database is unavailable.
pub(super) async fn persist<F, T>(engine: &EngineState, write: impl Fn() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut attempt = 1;
    loop {
        let error = match write().await {
            Ok(written) => return Ok(written),
            Err(error) => error,
        };
        let may_pass = matches!(store_error(&error), Some(StoreError::Unavailable { .. } | StoreError::Contended));
        if !may_pass || attempt >= STORE_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(STORE_BACKOFF.delay(attempt, engine.context.entropy.unit())).await;
        attempt += 1;
    }
}
