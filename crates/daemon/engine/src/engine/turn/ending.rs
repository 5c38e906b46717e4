//! How a turn ends: the last event, the state, the usage and what is kept of the reply, all or nothing.

use std::sync::Arc;

use agentd_llm::ModelErrorCode;
use agentd_store::{StoreError, Tx};

use super::context::TurnContext;
use super::log::{End, Log};
use super::persist::persist;
use super::recall::TurnRecall;
use super::usage::UsageLedger;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{Attempt, NoAnswer, SessionStatus};
use crate::engine::session::recovery::INTERRUPTED;
use crate::engine::store;
use crate::engine::turn_sink::Settled;

/// Stores the last event, the state, the usage and what the caller keeps, in one transaction.
pub(super) async fn finish(
    context: &TurnContext,
    log: Log,
    usage: &mut UsageLedger,
    recall: TurnRecall,
    end: End,
) -> Result<(), EngineError> {
    let (engine, session) = (&context.engine, &context.session);
    let (status, error) = verdict(end);
    let spent = usage.spent();
    let tokens = (spent.input_tokens, spent.output_tokens);
    let has_asked = log.has_asked();
    let (reply, events) = log.close(session, (status, error), tokens);
    let ending = Arc::new((reply, events, usage.take_unstored()));
    let write = || {
        let (here, session, ending) = (Arc::clone(engine), Arc::clone(session), Arc::clone(&ending));
        engine.context.db.write(async move |tx: &mut Tx| {
            let (reply, events, used) = &*ending;
            let error_code = reply.error.as_ref().map(|error| error.code.as_str());
            if !store::end_session(tx, &session.id, &session.owner, status, error_code).await? {
                // A commit whose answer was lost came through after all.
                return match store::ended_by(tx, &session.id, &session.owner).await? == Some(status) {
                    true => Ok(Settled::Ended),
                    false => Err(EngineError::Lost),
                };
            }
            store::insert_events(tx, &session.id, events).await?;
            used.store(tx, &here, &session).await?;
            if has_asked {
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
    context.show(events);
    Ok(())
}

/// How a turn ended, and what is said of it if it was no success.
fn verdict(end: End) -> (SessionStatus, Option<NoAnswer>) {
    let error = |status, code: &str, message: String| (status, Some(NoAnswer { code: code.to_owned(), message }));
    match end {
        End::Finished => (SessionStatus::Done, None),
        End::Failed(failure) => {
            let pause = failure.retry_after.filter(|_| failure.code == ModelErrorCode::RateLimit);
            let when = pause.map(|pause| format!("; try again in {} seconds", pause.as_secs().max(1)));
            let message = format!("{failure}{}", when.unwrap_or_default());
            // A provider that refuses what it is asked, such as an unknown model, is no fault inside the daemon.
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
            "The reply grew longer than 8 MiB and was cut off; ask for less at once.".to_owned(),
        ),
        End::TooManyRounds(limit) => error(
            SessionStatus::Failed,
            "tool_limit",
            format!(
                "The agent used tools {limit} times in a row without coming to an answer; raise max_tool_rounds of \
                 PUT /api/settings/agent, or ask for a smaller step."
            ),
        ),
    }
}

/// Gives up a turn whose end cannot be stored. What the model used is still counted, where that can be.
pub(super) async fn abandon(context: &TurnContext, error: &EngineError, attempts: Vec<Attempt>) {
    // Gone with its agent or conversation, or ended by another replica.
    let is_lost = match error {
        EngineError::Lost => true,
        EngineError::Store(error) => matches!(error, StoreError::ForeignKey { .. } | StoreError::Unique { .. }),
        _ => false,
    };
    let session = &context.session;
    if !is_lost {
        tracing::error!(session = %session.id, cause = error as &dyn std::error::Error, "a reply could not be stored to its end");
        return;
    }
    context.engine.ended(session, SessionStatus::Cancelled, None);
    record_orphaned_usage(context, attempts).await;
}

/// Counts calls whose session does not exist.
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
        tracing::warn!(session = %context.session.id, %error, "the tokens of a reply that was given up are not counted");
    }
}
