//! Stores the events and the usage of a turn, and its end, and publishes events after they are stored. Retries while the
//! database is unavailable.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_llm::ModelErrorCode;
use agentd_store::{StoreError, Tx};
use futures_util::future::BoxFuture;

use super::context::TurnContext;
use super::log::{End, Log};
use super::recall::TurnRecall;
use super::usage::UsageLedger;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{Approval, Attempt, NoAnswer, Session, SessionEvent, SessionStatus};
use crate::engine::session::recovery::INTERRUPTED;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn_sink::Settled;

/// A write is retried for about 30 seconds while the database is unavailable.
const STORE_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), multiplier: 2.0, cap: Duration::from_secs(2), jitter: 0.2 };
const STORE_ATTEMPTS: u32 = 20;

/// A pending write of text events; resolves to the events that may be published.
pub(super) type Writing = BoxFuture<'static, Result<Vec<SessionEvent>, EngineError>>;

/// Stores text events.
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
            Err(error) if is_sequence_conflict(&error) => confirm_written(&engine, &session, &events, error).await?,
            Err(error) => return Err(error),
        }
        Ok(Arc::unwrap_or_clone(events))
    })
}

/// Changes that the start of a tool round stores besides its events.
#[derive(Clone, Default)]
pub(super) struct Opening {
    pub(super) approvals: Vec<Approval>,
    /// The turn was parked. Its parked state is deleted, so that it cannot be resumed from there again.
    pub(super) unpark: bool,
}

/// Stores unstored events and usage, then publishes the events.
pub(super) async fn store_progress(
    context: &TurnContext,
    log: &mut Log,
    usage: &mut UsageLedger,
    opening: Opening,
) -> Result<(), EngineError> {
    let is_full = opening.unpark || !opening.approvals.is_empty();
    if !is_full && !log.has_unstored() && !usage.has_unstored_attempts() {
        return Ok(());
    }
    let progress = Arc::new((log.take_unstored(), usage.take_unstored(), opening));
    let (engine, session) = (&context.engine, &context.session);
    let write = || {
        let (here, session, progress) = (Arc::clone(engine), Arc::clone(session), Arc::clone(&progress));
        let body = async move |tx: &mut Tx| {
            let (events, used, Opening { approvals, unpark }) = &*progress;
            // Deleting an agent cancels its approvals; none may be requested after that.
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
        Err(error) if is_sequence_conflict(&error) => confirm_written(engine, session, &progress.0, error).await,
        stored => stored,
    };
    let (events, used, opening) = Arc::unwrap_or_clone(progress);
    if let Err(error) = stored {
        usage.put_back(used);
        return Err(error);
    }
    usage.stored();
    if !opening.approvals.is_empty() {
        engine.approvals.requested().notify_one();
    }
    context.publish(events);
    Ok(())
}

fn store_error(error: &EngineError) -> Option<&StoreError> {
    match error {
        EngineError::Store(error) => Some(error),
        _ => None,
    }
}

fn is_sequence_conflict(error: &EngineError) -> bool {
    matches!(store_error(error), Some(StoreError::Unique { .. }))
}

/// The sequence numbers are taken. Either an earlier commit succeeded although its response was lost, or another
/// process owns the session.
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

/// Retries a write while the database is unavailable.
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
        let is_transient = matches!(store_error(&error), Some(StoreError::Unavailable { .. } | StoreError::Contended));
        if !is_transient || attempt >= STORE_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(STORE_BACKOFF.delay(attempt, engine.context.entropy.unit())).await;
        attempt += 1;
    }
}

/// Stores the last event, the status, the usage and the reply in one transaction.
pub(super) async fn finish(
    context: &TurnContext,
    log: Log,
    usage: &mut UsageLedger,
    recall: TurnRecall,
    end: End,
) -> Result<(), EngineError> {
    let (engine, session) = (&context.engine, &context.session);
    let (status, error) = status_of(end);
    let spent = usage.spent();
    let tokens = (spent.input_tokens, spent.output_tokens);
    let has_requested_approval = log.has_requested_approval();
    let (reply, events) = log.close(session, (status, error), tokens);
    let ending = Arc::new((reply, events, usage.take_unstored()));
    let write = || {
        let (here, session, ending) = (Arc::clone(engine), Arc::clone(session), Arc::clone(&ending));
        engine.context.db.write(async move |tx: &mut Tx| {
            let (reply, events, used) = &*ending;
            let error_code = reply.error.as_ref().map(|error| error.code.as_str());
            if !store::end_session(tx, &session.id, &session.owner, status, error_code).await? {
                // An earlier attempt may have committed although its response was lost.
                return match store::ended_by(tx, &session.id, &session.owner).await? == Some(status) {
                    true => Ok(Settled::Ended),
                    false => Err(EngineError::Lost),
                };
            }
            store::insert_events(tx, &session.id, events).await?;
            used.store(tx, &here, &session).await?;
            if has_requested_approval {
                let now = tx.clock().now();
                store::approvals::cancel_of_session(tx, &session.id, now).await?;
                store::parked::delete_state(tx, &session.id).await?;
            }
            Ok(here.settle(tx, &session, reply, tokens.0 + tokens.1).await?)
        })
    };
    let stored = persist(engine, write).await;
    let (reply, events, used) = Arc::unwrap_or_clone(ending);
    let settled = match stored {
        Ok(settled) => settled,
        Err(error) => {
            usage.put_back(used);
            return Err(error);
        }
    };
    usage.stored();
    let code = reply.error.as_ref().map(|error| error.code.as_str());
    engine.record_turn(session, Some(&context.agent), (status, code), Some(tokens));
    engine.ended(session, status, settled.reason().map(|reason| reason.code.as_str()));
    recall.note_answered(context, status, reply.content);
    context.publish(events);
    Ok(())
}

/// Maps the end of a turn to its status and, unless it succeeded, its error.
fn status_of(end: End) -> (SessionStatus, Option<NoAnswer>) {
    let error = |status, code: &str, message: String| (status, Some(NoAnswer { code: code.to_owned(), message }));
    match end {
        End::Finished => (SessionStatus::Done, None),
        End::Failed(failure) => {
            let pause = failure.retry_after.filter(|_| failure.code == ModelErrorCode::RateLimit);
            let when = pause.map(|pause| format!("; retry in {} seconds", pause.as_secs().max(1)));
            let message = format!("{failure}{}", when.unwrap_or_default());
            // A rejected request, such as an unknown model, is not an internal error of the daemon.
            let code = match failure.code {
                ModelErrorCode::Internal => ModelErrorCode::ProviderUnavailable,
                code => code,
            };
            error(SessionStatus::Failed, code.as_str(), message)
        }
        End::Stopped(Stop::Cancel) => {
            error(SessionStatus::Cancelled, "cancelled", "The reply was cancelled.".to_owned())
        }
        End::Stopped(Stop::Interrupt) => error(SessionStatus::Interrupted, "internal", INTERRUPTED.to_owned()),
        End::TooLong => error(
            SessionStatus::Failed,
            "internal",
            "The reply exceeded 8 MiB and was truncated; ask for a shorter reply.".to_owned(),
        ),
        End::TooManyRounds(limit) => error(
            SessionStatus::Failed,
            "tool_limit",
            format!(
                "The agent reached the limit of {limit} tool rounds without an answer; raise max_tool_rounds with \
                 PUT /api/settings/agent, or ask for a smaller step."
            ),
        ),
    }
}

/// Abandons a turn whose end cannot be stored. Its usage is still counted if possible.
pub(super) async fn abandon(context: &TurnContext, error: &EngineError, attempts: Vec<Attempt>) {
    // The session was deleted with its agent or conversation, or ended by another replica.
    let is_lost = match error {
        EngineError::Lost => true,
        EngineError::Store(error) => matches!(error, StoreError::ForeignKey { .. } | StoreError::Unique { .. }),
        _ => false,
    };
    let session = &context.session;
    if !is_lost {
        tracing::error!(session = %session.id, cause = error as &dyn std::error::Error, "failed to store the end of a turn");
        return;
    }
    context.engine.ended(session, SessionStatus::Cancelled, None);
    record_orphaned_usage(context, attempts).await;
}

/// Records the usage of calls whose session does not exist.
pub(super) async fn record_orphaned_usage(context: &TurnContext, attempts: Vec<Attempt>) {
    let (here, session) = (Arc::clone(&context.engine), Arc::clone(&context.session));
    let counted: Result<(), StoreError> = context
        .engine
        .context
        .db
        .write(async move |tx: &mut Tx| {
            for attempt in &attempts {
                here.record_orphaned_usage(tx, &session, attempt.usage).await?;
            }
            here.providers.settle_reservation(tx, session.id.as_str()).await
        })
        .await;
    if let Err(error) = counted {
        tracing::warn!(session = %context.session.id, %error, "failed to record usage of an abandoned turn");
    }
}
