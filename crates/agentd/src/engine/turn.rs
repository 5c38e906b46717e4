//! One running turn: a task of its own, from the first call of the model to the end of its log.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_llm::{ModelBackend, ModelError, ToolCall, Usage};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{Notify, oneshot, watch};

use super::call::{Call, CallEvent, CallOptions};
use super::context::{Prompt, prompt_limit};
use super::error::{EngineError, NoAnswer};
use super::live::{Place, Stop};
use super::model::{Reply, Session, SessionEvent, SessionStatus, ToolUse};
use super::recall::Recalled;
use super::rounds::{Round, close_calls};
use super::service::Inner;
use super::store;
use super::tools::AfterTools;
use crate::agents::Agent;
use crate::skills::Offer;

/// Pieces that wait for the store; at this many the model is read no further.
const MAX_WAITING: usize = 512;
/// A reply longer than this is cut off.
const MAX_REPLY_BYTES: usize = 8 << 20;
/// More calls in one answer are not heard.
const MAX_CALLS: usize = 64;
/// While the database is away, a turn keeps what it has and tries again, for half a minute.
const STORE_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), multiplier: 2.0, cap: Duration::from_secs(2), jitter: 0.2 };
const STORE_ATTEMPTS: u32 = 20;

pub(super) struct Turn {
    pub(super) engine: Arc<Inner>,
    pub(super) session: Arc<Session>,
    pub(super) agent: Arc<Agent>,
    pub(super) place: Place,
    pub(super) backend: Arc<dyn ModelBackend>,
    pub(super) options: CallOptions,
    /// How many tokens the model's window has, where that is known.
    pub(super) window: Option<u64>,
    pub(super) prompt: Prompt,
    pub(super) offer: Offer,
    pub(super) tools: ToolUse,
    pub(super) log: Log,
    pub(super) rounds: Vec<Round>,
    /// Calls of the present round whose results stand in the log already.
    pub(super) told: Vec<String>,
    /// What the transcript calls the entries of the history.
    pub(super) keys: Vec<u64>,
    /// Calls that are counted but not written down yet.
    pub(super) unrecorded: Vec<Usage>,
    pub(super) spent: Spent,
    /// Some of its calls asked for approval.
    pub(super) has_asked: bool,
    /// What is asked of the agent's memory before the answer.
    pub(super) question: Option<String>,
    pub(super) recalled: Option<Recalled>,
}

/// Tokens of all the calls of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Spent {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

/// How the model's part ended.
pub(super) enum End {
    Finished,
    Failed(ModelError),
    Stopped(Stop),
    TooLong,
    TooManyRounds(u32),
}

/// Why a turn cannot be brought to its end, with what is not counted yet.
pub(super) type GivenUp = (EngineError, Vec<Usage>);

/// A write of tokens under way; it answers what may then be shown.
type Writing = BoxFuture<'static, Result<Vec<SessionEvent>, EngineError>>;

/// What was said. `waiting` is what is not stored yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) text: String,
    /// Of the present round.
    pub(super) round_text: String,
    pub(super) next_seq: u64,
    pub(super) waiting: Vec<SessionEvent>,
    pub(super) calls: Vec<ToolCall>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { next_seq: 1, ..Self::default() }
    }

    /// The next number.
    pub(super) fn number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Takes what the model said; answers the end, if it is one.
    fn take(&mut self, event: Option<CallEvent>) -> Option<End> {
        match event? {
            CallEvent::Text(text) => {
                // The one character that PostgreSQL cannot store.
                let mut text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
                self.round_text.push_str(&text);
                if self.round_text.len() == text.len() && !self.text.is_empty() {
                    // Words of different rounds are different paragraphs.
                    text.insert_str(0, "\n\n");
                }
                let seq = self.number();
                self.waiting.push(SessionEvent::token(seq, &text));
                self.text.push_str(&text);
                (self.text.len() > MAX_REPLY_BYTES).then_some(End::TooLong)
            }
            CallEvent::ToolCall(call) => {
                if self.calls.len() < MAX_CALLS {
                    self.calls.push(call);
                }
                None
            }
            CallEvent::End(Ok(_)) => Some(End::Finished),
            CallEvent::End(Err(error)) => Some(End::Failed(error)),
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }
}

impl Turn {
    /// A call of the model with the prompt as it is; the prompt comes back with its end.
    fn call(&mut self) -> Call {
        let prompt = std::mem::take(&mut self.prompt);
        Call::new(Arc::clone(&self.backend), self.options.clone(), prompt)
    }

    /// Runs the turn. `stored` is the transaction that brings it into the world; the caller is told
    /// of its outcome at once. Meanwhile the agent's memory is asked. The model is asked when that transaction has done its part without a
    /// refusal (`entered`): while it is committed, not before, because a call costs money.
    pub(super) async fn run<E: Send>(
        mut self,
        mut stored: BoxFuture<'static, Result<(), E>>,
        entered: Arc<Notify>,
        caller: oneshot::Sender<Result<(), E>>,
    ) {
        // What needs a word with the model first is done when the turn is there to see.
        let is_prepared = !self.needs_preparation();
        let mut recalling = self.begin_recall();
        let mut call: Option<Call> = None;
        let mut end = None;
        let mut may_ask = false;
        let outcome = loop {
            if is_prepared && recalling.is_none() && call.is_none() {
                call = Some(self.call());
            }
            let may_read = may_ask && end.is_none() && self.log.has_room();
            tokio::select! {
                biased;
                outcome = &mut stored => break outcome,
                () = entered.notified(), if is_prepared && !may_ask => may_ask = true,
                Some(recalled) = OptionFuture::from(recalling.as_mut()) => {
                    recalling = None;
                    self.take_recalled(recalled, is_prepared);
                }
                Some(event) = OptionFuture::from(call.as_mut().map(Call::next)), if may_read => {
                    end = self.log.take(event);
                }
            }
        };
        let is_stored = outcome.is_ok();
        if is_stored {
            self.place.live.publish([self.session.start_event()]);
        }
        // The caller may have gone away; the turn does not mind.
        drop(caller.send(outcome));
        if !is_stored {
            let usages = call.map(|call| call.into_parts().1).unwrap_or_default();
            if !usages.is_empty() {
                count_of_nobody(&self.engine, &self.session, usages).await;
            }
            return;
        }
        if let Some(recalling) = recalling {
            let recalled = recalling.await;
            self.take_recalled(recalled, is_prepared);
        }
        self.note_told();
        if is_prepared {
            let call = call.unwrap_or_else(|| self.call());
            self.go_on(call, end).await;
        } else {
            self.prepare_and_go_on().await;
        }
    }

    /// Whether the model is to be asked something before it answers.
    fn needs_preparation(&self) -> bool {
        self.wants_plan() || self.must_compact()
    }

    async fn prepare_and_go_on(mut self) {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let prepared = async {
            if let Some(stop) = self.compact().await? {
                return Ok(Some(stop));
            }
            self.plan_ahead().await
        };
        let ended = match prepared.await {
            Ok(None) => {
                let call = self.call();
                self.converse(call, None).await
            }
            Ok(Some(stop)) => self.finish(End::Stopped(stop), Vec::new()).await,
            Err(given_up) => Err(given_up),
        };
        if let Err((error, usages)) = ended {
            give_up(&engine, &session, &error, usages).await;
        }
    }

    /// Goes on with tools, and then with the model, until there is an end.
    pub(super) async fn go_on_after(self, after: AfterTools) {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        if let Err((error, usages)) = self.after_tools(after).await {
            give_up(&engine, &session, &error, usages).await;
        }
    }

    async fn go_on(self, call: Call, end: Option<End>) {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        if let Err((error, usages)) = self.converse(call, end).await {
            give_up(&engine, &session, &error, usages).await;
        }
    }

    async fn after_tools(mut self, after: AfterTools) -> Result<(), GivenUp> {
        match after {
            AfterTools::Again => {
                let call = self.call();
                self.converse(call, None).await
            }
            AfterTools::Ended(end) => self.finish(end, Vec::new()).await,
            AfterTools::Parked => Ok(()),
        }
    }

    /// Model, tools, model, … to the end.
    async fn converse(mut self, mut call: Call, mut end: Option<End>) -> Result<(), GivenUp> {
        loop {
            let ended = self.write_down(&mut call, end.take()).await;
            let (prompt, usages) = call.into_parts();
            self.prompt = prompt;
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) => return Err((error, usages)),
            };
            if matches!(ended, End::Finished) && self.log.calls.is_empty() {
                return self.conclude(usages).await;
            }
            if !matches!(ended, End::Finished) {
                return self.finish(ended, usages).await;
            }
            match self.use_tools(usages).await? {
                AfterTools::Again => call = self.call(),
                after => return Box::pin(self.after_tools(after)).await,
            }
        }
    }

    /// The model has given its answer; a second look may change it.
    async fn conclude(mut self, usages: Vec<Usage>) -> Result<(), GivenUp> {
        let end = match self.reflect().await {
            Ok(None) => End::Finished,
            Ok(Some(better)) => {
                let text = format!("\n\n{better}");
                let seq = self.log.number();
                self.log.waiting.push(SessionEvent::token(seq, &text));
                self.log.text.push_str(&text);
                self.log.round_text.push_str(&text);
                End::Finished
            }
            Err(stop) => End::Stopped(stop),
        };
        self.finish(end, usages).await
    }

    /// Stores and shows pieces as they come, until the model's part is over. What is read while a
    /// write is under way goes into the next one; what is left in the log is stored with the end.
    async fn write_down(&mut self, call: &mut Call, mut end: Option<End>) -> Result<End, EngineError> {
        let mut stops = self.place.live.stops();
        let mut writing: Option<Writing> = None;
        let mut has_shown = false;
        let end = loop {
            // All that is there already, so that it shares one write, or even the end's. The first
            // words wait for nothing.
            while end.is_none() && self.log.has_room() && (has_shown || self.log.waiting.is_empty()) {
                match call.next().now_or_never() {
                    Some(event) => end = self.log.take(event),
                    None => break,
                }
            }
            if writing.is_none() && !self.log.waiting.is_empty() && (end.is_none() || !has_shown) {
                let events = std::mem::take(&mut self.log.waiting);
                writing = Some(self.write(events));
                has_shown = true;
            }
            if let Some(end) = end.take() {
                break end;
            }
            tokio::select! {
                biased;
                stop = stopped(&mut stops) => break End::Stopped(stop),
                Some(written) = OptionFuture::from(writing.as_mut()) => {
                    writing = None;
                    self.place.live.publish(written?);
                }
                event = call.next(), if self.log.has_room() => end = self.log.take(event),
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

    /// Whether the prompt leaves room for an answer; makes it where it can.
    pub(super) fn fit_prompt(&mut self) {
        if let Some(window) = self.window {
            self.prompt.make_room(prompt_limit(window, self.options.max_output_tokens));
        }
    }

    /// The last event, the state, the usage and what the caller keeps: one transaction.
    pub(super) async fn finish(mut self, end: End, mut usages: Vec<Usage>) -> Result<(), GivenUp> {
        self.count(&usages);
        usages.append(&mut self.unrecorded);
        let seq = self.log.number();
        let (status, error) = verdict(end);
        let spent = self.spent;
        let last = last_event(&self.session, seq, spent, error.as_ref());
        let Self { engine, session, place, mut log, mut rounds, has_asked, recalled, .. } = self;
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
        let ending = Arc::new((reply, events, usages));
        let write = || {
            let (here, session, ending) = (Arc::clone(&engine), Arc::clone(&session), Arc::clone(&ending));
            engine.ground.db.write(async move |tx: &mut Tx| {
                let (reply, events, usages) = &*ending;
                let error_code = reply.error.as_ref().map(|error| error.code.as_str());
                if !store::end_session(tx, &session.id, &session.owner, status, error_code).await? {
                    // A commit whose answer was lost came through after all.
                    return match store::ended_by(tx, &session.id, &session.owner).await? == Some(status) {
                        true => Ok(()),
                        false => Err(EngineError::Lost),
                    };
                }
                store::insert_events(tx, &session.id, events).await?;
                for usage in usages {
                    here.record_usage(tx, &session, *usage).await?;
                }
                if has_asked {
                    let now = tx.clock().now();
                    store::approvals::cancel_of_session(tx, &session.id, now).await?;
                    store::parked::delete_state(tx, &session.id).await?;
                }
                here.settle(tx, &session, reply, spent.input_tokens + spent.output_tokens).await?;
                Ok(())
            })
        };
        match persist(&engine, write).await {
            Ok(()) => {
                engine.ended(&session, status);
                engine.answered(&session, status, recalled, &ending.0.content);
                place.live.publish(ending.1.iter().cloned());
                Ok(())
            }
            Err(error) => Err((error, ending.2.clone())),
        }
    }

    /// It cannot be brought to its end.
    pub(super) async fn abandon(self, (error, usages): GivenUp) {
        give_up(&self.engine, &self.session, &error, usages).await;
    }

    pub(super) fn count(&mut self, usages: &[Usage]) {
        for usage in usages {
            self.spent.input_tokens += usage.input_tokens;
            self.spent.output_tokens += usage.output_tokens;
        }
    }
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
    engine: &Inner,
    session: &Session,
    events: &[SessionEvent],
    error: EngineError,
) -> Result<(), EngineError> {
    let (Some(first), Ok(count)) = (events.first(), u32::try_from(events.len())) else { return Ok(()) };
    let mut read = engine.ground.db.read().await?;
    let stored = store::list_events(&mut read, &session.id, first.seq.saturating_sub(1), count).await?;
    if stored == events { Ok(()) } else { Err(error) }
}

/// How a turn is told to end early; never returns while nobody says so.
pub(super) async fn stopped(stops: &mut watch::Receiver<Option<Stop>>) -> Stop {
    let told = stops.wait_for(Option::is_some).await.map(|stop| *stop);
    match told {
        Ok(Some(stop)) => stop,
        _ => std::future::pending().await,
    }
}

/// Writes again while the database is away.
pub(super) async fn persist<F>(engine: &Inner, write: impl Fn() -> F) -> Result<(), EngineError>
where
    F: Future<Output = Result<(), EngineError>>,
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

/// How a turn ended, and what is said of it if it was no success.
fn verdict(end: End) -> (SessionStatus, Option<NoAnswer>) {
    let error = |status, code: &str, message: String| (status, Some(NoAnswer { code: code.to_owned(), message }));
    match end {
        End::Finished => (SessionStatus::Done, None),
        End::Failed(failure) => error(SessionStatus::Failed, failure.code.as_str(), failure.to_string()),
        End::Stopped(Stop::Cancel) => {
            error(SessionStatus::Cancelled, "cancelled", "The reply was cancelled.".to_owned())
        }
        End::Stopped(Stop::Interrupt) => {
            error(SessionStatus::Interrupted, "internal", super::recovery::INTERRUPTED.to_owned())
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

fn last_event(session: &Session, seq: u64, spent: Spent, error: Option<&NoAnswer>) -> SessionEvent {
    match error {
        Some(error) => SessionEvent::error(seq, &error.code, &error.message),
        None => SessionEvent::done(seq, session.message_id.as_deref(), spent.input_tokens, spent.output_tokens),
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
    engine.ended(session, SessionStatus::Cancelled);
    count_of_nobody(engine, session, usages).await;
}

/// Counts calls whose session is not there.
async fn count_of_nobody(engine: &Arc<Inner>, session: &Arc<Session>, usages: Vec<Usage>) {
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
