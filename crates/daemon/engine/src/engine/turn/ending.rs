//! How a turn ends: the last event, the state, the usage and what is kept of the reply, all or nothing.

use std::sync::Arc;

use agentd_llm::ModelErrorCode;
use agentd_store::{StoreError, Tx};

use super::{End, GivenUp, Spent, Turn};
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{Attempt, NoAnswer, Reply, Round, Session, SessionEvent, SessionStatus, close_calls};
use crate::engine::session::persist::persist;
use crate::engine::session::task_events;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::engine::turn_sink::Settled;

impl Turn {
    /// The last event, the state, the usage and what the caller keeps: one transaction.
    pub(crate) async fn finish(mut self, end: End, mut usages: Vec<Attempt>) -> Result<(), GivenUp> {
        self.count(&usages);
        usages.append(&mut self.unrecorded);
        let seq = self.log.number();
        let (status, error) = verdict(end);
        let spent = self.spent;
        let last = last_event(&self.session, seq, spent, self.log.is_cut_off, error.as_ref());
        let Self {
            engine, session, running, mut log, mut rounds, has_asked, recalled, reservation, agent, steps, ..
        } = self;
        let has_reserved = reservation.is_some();
        if !rounds.is_empty() {
            rounds.push(Round { text: std::mem::take(&mut log.round_text), calls: Vec::new() });
            close_calls(&mut rounds);
        }
        let mut events = log.waiting;
        events.push(last);
        let reply = Reply {
            session_id: session.id.clone(),
            conversation_id: session.conversation_id.clone(),
            message_id: session.message_id.clone(),
            content: log.text,
            rounds,
            status,
            error,
        };
        let ending = Arc::new((reply, events, usages, steps));
        let write = || {
            let (here, session, ending) = (Arc::clone(&engine), Arc::clone(&session), Arc::clone(&ending));
            engine.context.db.write(async move |tx: &mut Tx| {
                let (reply, events, usages, steps) = &*ending;
                let error_code = reply.error.as_ref().map(|error| error.code.as_str());
                if !store::end_session(tx, &session.id, &session.owner, status, error_code).await? {
                    // A commit whose answer was lost came through after all.
                    return match store::ended_by(tx, &session.id, &session.owner).await? == Some(status) {
                        true => Ok(Settled::Ended),
                        false => Err(EngineError::Lost),
                    };
                }
                store::insert_events(tx, &session.id, events).await?;
                for usage in usages {
                    here.record_usage(tx, &session, usage).await?;
                }
                for step in steps {
                    store::steps::insert_step(tx, &session.id, step).await?;
                }
                if has_reserved {
                    here.providers.settle_reservation(tx, session.id.as_str()).await?;
                }
                if has_asked {
                    let now = tx.clock().now();
                    store::approvals::cancel_of_session(tx, &session.id, now).await?;
                    store::parked::delete_state(tx, &session.id).await?;
                }
                Ok(here.settle(tx, &session, reply, spent.input_tokens + spent.output_tokens).await?)
            })
        };
        match persist(&engine, write).await {
            Ok(settled) => {
                if let Some(reservation) = reservation {
                    reservation.settled();
                }
                let code = ending.0.error.as_ref().map(|error| error.code.as_str());
                let tokens = (spent.input_tokens, spent.output_tokens);
                engine.record_turn(&session, Some(&agent), (status, code), Some(tokens));
                engine.ended(&session, status, settled.reason().map(|reason| reason.code.as_str()));
                engine.answered(&session, status, recalled, &ending.0.content);
                task_events::tell_steps(&engine.context, &session, &ending.1);
                running.live.publish(ending.1.iter().cloned());
                Ok(())
            }
            Err(error) => Err((error, ending.2.clone())),
        }
    }

    /// It cannot be brought to its end.
    pub(crate) async fn abandon(self, (error, usages): GivenUp) {
        give_up(&self.engine, &self.session, &error, usages).await;
    }
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
        End::Stopped(Stop::Interrupt) => {
            error(SessionStatus::Interrupted, "internal", crate::engine::session::recovery::INTERRUPTED.to_owned())
        }
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

fn last_event(session: &Session, seq: u64, spent: Spent, is_cut_off: bool, error: Option<&NoAnswer>) -> SessionEvent {
    match error {
        Some(error) => SessionEvent::error(seq, &error.code, &error.message),
        None => {
            let tokens = (spent.input_tokens, spent.output_tokens);
            SessionEvent::done(seq, session, tokens, is_cut_off)
        }
    }
}

/// The end cannot be written. What the model used is still counted, where that can be.
pub(crate) async fn give_up(
    engine: &Arc<EngineState>,
    session: &Arc<Session>,
    error: &EngineError,
    usages: Vec<Attempt>,
) {
    // Gone with its agent or conversation, or ended by another replica.
    let is_lost = match error {
        EngineError::Lost => true,
        EngineError::Store(error) => matches!(error, StoreError::ForeignKey { .. } | StoreError::Unique { .. }),
        _ => false,
    };
    if !is_lost {
        tracing::error!(session = %session.id, cause = error as &dyn std::error::Error, "a reply could not be stored to its end");
        return;
    }
    engine.ended(session, SessionStatus::Cancelled, None);
    count_of_nobody(engine, session, usages).await;
}

/// Counts calls whose session is not there.
pub(crate) async fn count_of_nobody(engine: &Arc<EngineState>, session: &Arc<Session>, usages: Vec<Attempt>) {
    let (here, row) = (Arc::clone(engine), Arc::clone(session));
    let counted: Result<(), StoreError> = engine
        .context
        .db
        .write(async move |tx: &mut Tx| {
            for usage in &usages {
                here.record_usage_of_nobody(tx, &row, usage.usage).await?;
            }
            here.providers.settle_reservation(tx, row.id.as_str()).await
        })
        .await;
    if let Err(error) = counted {
        tracing::warn!(session = %session.id, %error, "the tokens of a reply that was given up are not counted");
    }
}
