//! One running turn: a task of its own, from the first call of the model to the end of its log.

use std::sync::Arc;

use agentd_llm::{FinishReason, ModelBackend, ModelError, ModelErrorCode, ToolCall, Usage};
use agentd_store::Tx;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{Notify, oneshot, watch};

use super::call::{Call, CallEvent, CallOptions};
use super::context::Prompt;
use super::ending::{count_of_nobody, give_up};
use super::error::EngineError;
use super::live::{RunningTurn, Stop};
use super::model::{Round, Session, SessionEvent, ToolUse, Unread};
use super::persist::{confirm_written, is_taken, persist};
use super::recall::Recalled;
use super::service::Inner;
use super::store;
use super::tool_round::AfterTools;
use crate::agents::Agent;
use crate::skills::Offer;

/// Pieces that wait for the store; at this many the model is read no further.
const MAX_WAITING: usize = 512;
/// A reply longer than this is cut off.
const MAX_REPLY_BYTES: usize = 8 << 20;
/// More calls in one answer are not heard.
const MAX_CALLS: usize = 64;
/// A prompt that the model refuses as too long is shortened so often.
const MAX_SHORTENINGS: u32 = 3;

pub(super) struct Turn {
    pub(super) engine: Arc<Inner>,
    pub(super) session: Arc<Session>,
    pub(super) agent: Arc<Agent>,
    pub(super) place: RunningTurn,
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
    /// What was said before the history and is in no summary yet.
    pub(super) unread: Option<Unread>,
    /// Calls that are counted but not written down yet.
    pub(super) unrecorded: Vec<Usage>,
    /// How often the model has refused the prompt as too long.
    pub(super) shortenings: u32,
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
    /// The provider let no word of the answer through.
    Filtered,
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
            CallEvent::End(Ok(finish)) => match finish.reason {
                FinishReason::ContentFilter if self.round_text.trim().is_empty() && self.calls.is_empty() => {
                    Some(End::Filtered)
                }
                _ => Some(End::Finished),
            },
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
        Call::new(Arc::clone(&self.backend), self.options.clone(), prompt).without_halving()
    }

    /// Runs the turn. `stored` is the transaction that brings it into the world; the caller is told
    /// of its outcome at once. Meanwhile the agent's memory is asked. The model is asked when that
    /// transaction has done its part without a refusal (`entered`): while it is committed, not
    /// before, because a call costs money.
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
        self.note_recalled();
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
            if let Some(stop) = self.compact().await {
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
            // Where no tools are offered, words are the answer, whatever was called beside them.
            if self.offer.is_empty() && !self.log.round_text.trim().is_empty() {
                self.log.calls.clear();
            }
            if matches!(ended, End::Finished) && self.log.calls.is_empty() {
                return self.conclude(usages).await;
            }
            if self.may_shorten(&ended) {
                self.shortenings += 1;
                self.count(&usages);
                self.unrecorded.extend(usages);
                match self.shorten().await {
                    Ok(true) => call = self.call(),
                    Ok(false) => return self.finish(ended, Vec::new()).await,
                    Err(stop) => return self.finish(End::Stopped(stop), Vec::new()).await,
                }
                continue;
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

    /// Whether the prompt was refused as too long, before a word was said.
    fn may_shorten(&self, ended: &End) -> bool {
        let is_too_long = matches!(ended, End::Failed(error) if error.code == ModelErrorCode::ContextLength);
        is_too_long && self.shortenings < MAX_SHORTENINGS && self.log.round_text.is_empty() && self.log.calls.is_empty()
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

    /// Makes room for an answer, where the window is known, by leaving out what is oldest: after it had its chance to
    /// become a summary.
    pub(super) fn fit_prompt(&mut self) {
        if self.window.is_some() {
            self.prompt.make_room(self.prompt_limit());
        }
    }

    pub(super) fn count(&mut self, usages: &[Usage]) {
        for usage in usages {
            self.spent.input_tokens += usage.input_tokens;
            self.spent.output_tokens += usage.output_tokens;
        }
    }
}

/// How a turn is told to end early; never returns while nobody says so.
pub(super) async fn stopped(stops: &mut watch::Receiver<Option<Stop>>) -> Stop {
    let told = stops.wait_for(Option::is_some).await.map(|stop| *stop);
    match told {
        Ok(Some(stop)) => stop,
        _ => std::future::pending().await,
    }
}
