//! One running turn: a task of its own, from the call of the model to the end of its log.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_llm::{Finish, ModelError, Usage};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{oneshot, watch};

use super::call::{Call, CallEvent};
use super::error::EngineError;
use super::live::{Place, Stop};
use super::model::{Reply, Session, SessionEvent, SessionStatus};
use super::service::Inner;
use super::store;

/// Pieces that wait for the store; at this many the model is read no further.
const MAX_WAITING: usize = 512;
/// A reply longer than this is cut off.
const MAX_REPLY_BYTES: usize = 8 << 20;
/// While the database is away, a turn keeps what it has and tries again, for half a minute.
const STORE_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), multiplier: 2.0, cap: Duration::from_secs(2), jitter: 0.2 };
const STORE_ATTEMPTS: u32 = 20;

pub(super) struct Turn {
    pub(super) engine: Arc<Inner>,
    pub(super) session: Arc<Session>,
    pub(super) call: Call,
    pub(super) place: Place,
}

/// How the model's part ended.
enum End {
    Finished(Finish),
    Failed(ModelError),
    Stopped(Stop),
    TooLong,
}

/// A write of tokens under way; it answers what may then be shown.
type Writing = BoxFuture<'static, Result<Vec<SessionEvent>, StoreError>>;

/// What was said. `waiting` is what is not stored yet.
struct Log {
    text: String,
    next_seq: u64,
    waiting: Vec<SessionEvent>,
}

impl Log {
    /// Takes what the model said; answers the end, if it is one.
    fn take(&mut self, event: Option<CallEvent>) -> Option<End> {
        match event? {
            CallEvent::Text(text) => {
                // The one character that PostgreSQL cannot store.
                let text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
                self.waiting.push(SessionEvent::token(self.next_seq, &text));
                self.next_seq += 1;
                self.text.push_str(&text);
                (self.text.len() > MAX_REPLY_BYTES).then_some(End::TooLong)
            }
            CallEvent::End(Ok(finish)) => Some(End::Finished(finish)),
            CallEvent::End(Err(error)) => Some(End::Failed(error)),
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }
}

impl Turn {
    /// Runs the turn. `stored` is the transaction that brings it into the world; the caller is told
    /// of its outcome at once.
    pub(super) async fn run<E: Send>(
        mut self,
        mut stored: BoxFuture<'static, Result<(), E>>,
        caller: oneshot::Sender<Result<(), E>>,
    ) {
        let mut log = Log { text: String::new(), next_seq: 1, waiting: Vec::new() };
        let mut end = None;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut stored => break outcome,
                event = self.call.next(), if end.is_none() && log.has_room() => end = log.take(event),
            }
        };
        let is_stored = outcome.is_ok();
        if is_stored {
            self.place.live.publish([self.session.start_event()]);
        }
        // The caller may have gone away; the turn does not mind.
        drop(caller.send(outcome));
        if !is_stored {
            return;
        }
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let written = match self.write_down(&mut log, end).await {
            Ok(end) => self.finish(log, end).await,
            Err(error) => Err((error.into(), self.call.into_usages())),
        };
        if let Err((error, usages)) = written {
            give_up(&engine, &session, &error, usages).await;
        }
    }

    /// Stores and shows pieces as they come, until the model's part is over. What is read while a
    /// write is under way goes into the next one; what is left in `log` is stored with the end.
    async fn write_down(&mut self, log: &mut Log, mut end: Option<End>) -> Result<End, StoreError> {
        let mut stops = self.place.live.stops();
        let mut writing: Option<Writing> = None;
        let end = loop {
            // All that is there already, so that it shares one write, or even the end's.
            while end.is_none() && log.has_room() {
                match self.call.next().now_or_never() {
                    Some(event) => end = log.take(event),
                    None => break,
                }
            }
            if let Some(end) = end.take() {
                break end;
            }
            if writing.is_none() && !log.waiting.is_empty() {
                writing = Some(self.write(std::mem::take(&mut log.waiting)));
            }
            tokio::select! {
                biased;
                stop = stopped(&mut stops) => break End::Stopped(stop),
                Some(written) = OptionFuture::from(writing.as_mut()) => {
                    writing = None;
                    self.place.live.publish(written?);
                }
                event = self.call.next(), if log.has_room() => end = log.take(event),
            }
        };
        if let Some(writing) = writing {
            self.place.live.publish(writing.await?);
        }
        Ok(end)
    }

    fn write(&self, events: Vec<SessionEvent>) -> Writing {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let events = Arc::new(events);
        Box::pin(async move {
            let write = || {
                let (session, events) = (Arc::clone(&session), Arc::clone(&events));
                engine
                    .ground
                    .db
                    .write_relaxed(async move |tx: &mut Tx| store::insert_events(tx, &session.id, &events).await)
            };
            persist(&engine, |error| Some(error), write).await?;
            Ok(Arc::unwrap_or_clone(events))
        })
    }

    /// The last event, the state, the usage and what the caller keeps: one transaction.
    async fn finish(self, log: Log, end: End) -> Result<(), (EngineError, Vec<Usage>)> {
        let Self { engine, session, call, place } = self;
        let (status, error_code, last) = last_event(&session, log.next_seq, &end);
        let usages = call.into_usages();
        let mut events = log.waiting;
        events.push(last);
        let reply = Reply {
            session_id: session.id.clone(),
            conversation_id: session.conversation_id.clone(),
            message_id: session.message_id.clone(),
            content: log.text,
            status,
        };
        let ending = Arc::new((reply, events, usages));
        let write = || {
            let (here, session, ending) = (Arc::clone(&engine), Arc::clone(&session), Arc::clone(&ending));
            engine.ground.db.write(async move |tx: &mut Tx| {
                let (reply, events, usages) = &*ending;
                if !store::end_session(tx, &session.id, &session.owner, status, error_code).await? {
                    return Err(EngineError::Lost);
                }
                store::insert_events(tx, &session.id, events).await?;
                for usage in usages {
                    here.record_usage(tx, &session, *usage).await?;
                }
                here.settle(tx, &session, reply).await?;
                Ok(())
            })
        };
        match persist(&engine, store_error, write).await {
            Ok(()) => {
                engine.ended(status);
                place.live.publish(ending.1.iter().cloned());
                Ok(())
            }
            Err(error) => Err((error, ending.2.clone())),
        }
    }
}

fn store_error(error: &EngineError) -> Option<&StoreError> {
    match error {
        EngineError::Store(error) => Some(error),
        _ => None,
    }
}

/// How a turn is told to end early; never returns while nobody says so.
async fn stopped(stops: &mut watch::Receiver<Option<Stop>>) -> Stop {
    let told = stops.wait_for(Option::is_some).await.map(|stop| *stop);
    match told {
        Ok(Some(stop)) => stop,
        _ => std::future::pending().await,
    }
}

/// Writes again while the database is away.
async fn persist<E, F>(
    engine: &Inner,
    store_error: impl Fn(&E) -> Option<&StoreError>,
    write: impl Fn() -> F,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut attempt = 1;
    loop {
        let error = match write().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let may_pass = matches!(store_error(&error), Some(StoreError::Unavailable { .. } | StoreError::Contended));
        if !may_pass || attempt >= STORE_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(STORE_BACKOFF.delay(attempt, engine.ground.entropy.unit())).await;
        attempt += 1;
    }
}

fn last_event(session: &Session, seq: u64, end: &End) -> (SessionStatus, Option<&'static str>, SessionEvent) {
    let error =
        |status, code: &'static str, message: &str| (status, Some(code), SessionEvent::error(seq, code, message));
    match end {
        End::Finished(finish) => {
            let (input, output) = (finish.usage.input_tokens, finish.usage.output_tokens);
            (SessionStatus::Done, None, SessionEvent::done(seq, session.message_id.as_deref(), input, output))
        }
        End::Failed(failure) => error(SessionStatus::Failed, failure.code.as_str(), &failure.to_string()),
        End::Stopped(Stop::Cancel) => error(SessionStatus::Cancelled, "cancelled", "The reply was cancelled."),
        End::Stopped(Stop::Interrupt) => error(SessionStatus::Interrupted, "internal", super::recovery::INTERRUPTED),
        End::TooLong => error(
            SessionStatus::Failed,
            "internal",
            "The reply grew longer than 8 MiB and was cut off; ask for less at once.",
        ),
    }
}

/// The end cannot be written. What the model used is still counted, where that can be.
async fn give_up(engine: &Arc<Inner>, session: &Arc<Session>, error: &EngineError, usages: Vec<Usage>) {
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
    engine.ended(SessionStatus::Cancelled);
    let (here, row) = (Arc::clone(engine), Arc::clone(session));
    let counted: Result<(), StoreError> = engine
        .ground
        .db
        .write(async move |tx: &mut Tx| {
            for usage in &usages {
                here.record_usage_of_nobody(tx, &row, *usage).await?;
            }
            Ok(())
        })
        .await;
    if let Err(error) = counted {
        tracing::warn!(session = %session.id, %error, "the tokens of a reply that was given up are not counted");
    }
}
