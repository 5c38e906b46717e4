//! One running turn: a task of its own, from the first call of the model to the end of its log.

mod approval;
mod auxiliary;
mod budget;
mod compaction;
mod ending;
mod leases;
mod log;
pub(super) mod park;
mod prepare;
mod recall;
mod tool_round;

pub use compaction::MAX_HISTORY;
pub(super) use leases::WOKEN_A_BATCH;
pub(super) use prepare::Prepared;

use log::{End, GivenUp, Log, Spent};

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_llm::{ModelBackend, ModelErrorCode};
use agentd_store::Tx;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{Notify, oneshot, watch};

use crate::agents::Agent;
use crate::engine::call::{Call, CallOptions};
use crate::engine::error::EngineError;
use crate::engine::live::{RunningTurn, Stop};
use crate::engine::model::{Attempt, Purpose, Round, Session, SessionEvent, Step, ToolUse, Unread};
use crate::engine::prompt::Prompt;
use crate::engine::recall::Recalled;
use crate::engine::session::persist::{confirm_written, is_taken, persist};
use crate::engine::session::task_events;
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::providers::Reservation;
use crate::tools::Offer;
use ending::{count_of_nobody, give_up};
use tool_round::AfterTools;

/// A prompt that the model refuses as too long is shortened so often.
const MAX_SHORTENINGS: u32 = 3;

pub(crate) struct Turn {
    pub(crate) engine: Arc<EngineState>,
    pub(crate) session: Arc<Session>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) running: RunningTurn,
    pub(crate) backend: Arc<dyn ModelBackend>,
    pub(crate) options: CallOptions,
    /// How many tokens the model's window has, where that is known.
    pub(crate) window: Option<u64>,
    pub(crate) prompt: Prompt,
    pub(crate) offer: Offer,
    pub(crate) tools: ToolUse,
    pub(crate) log: Log,
    pub(crate) rounds: Vec<Round>,
    /// Calls of the present round whose results stand in the log already.
    pub(crate) logged: Vec<String>,
    /// What the transcript calls the entries of the history.
    pub(crate) keys: Vec<u64>,
    /// What was said before the history and is in no summary yet.
    pub(crate) unread: Option<Unread>,
    /// Calls that are counted but not written down yet.
    pub(crate) unrecorded: Vec<Attempt>,
    /// What else it did and is not written down yet.
    pub(crate) steps: Vec<Step>,
    /// How often the model has refused the prompt as too long.
    pub(crate) shortenings: u32,
    pub(crate) spent: Spent,
    /// Some of its calls asked for approval.
    pub(crate) has_asked: bool,
    /// What is asked of the agent's memory before the answer.
    pub(crate) question: Option<String>,
    pub(crate) recalled: Option<Recalled>,
    /// What is set aside of the budgets, where there are any.
    pub(crate) reservation: Option<Reservation>,
    /// Since when it is asked.
    pub(crate) recall_began: Option<Timestamp>,
}

/// A write of tokens under way; it answers what may then be shown.
type Writing = BoxFuture<'static, Result<Vec<SessionEvent>, EngineError>>;

impl Turn {
    /// Runs the turn. `stored` is the transaction that brings it into the world; the caller is told
    /// of its outcome at once. Meanwhile the agent's memory is asked. The model is asked when that
    /// transaction has done its part without a refusal (`entered`): while it is committed, not
    /// before, because a call costs money.
    pub(crate) async fn run<E: Send>(
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
            self.running.live.publish([SessionEvent::start(&self.session)]);
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

    /// Shows that the model is asked from now on.
    fn note_call(&self, purpose: Purpose) {
        self.running.live.note_call(Some((purpose, self.engine.context.clock.now())));
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
            Ok(None) => match self.reserve_next().await {
                Ok(()) => {
                    let call = self.call();
                    self.converse(call, None).await
                }
                Err(error) => self.finish(End::Failed(error), Vec::new()).await,
            },
            Ok(Some(stop)) => self.finish(End::Stopped(stop), Vec::new()).await,
            Err(given_up) => Err(given_up),
        };
        if let Err((error, usages)) = ended {
            give_up(&engine, &session, &error, usages).await;
        }
    }

    /// Goes on with tools, and then with the model, until there is an end.
    pub(crate) async fn go_on_after(self, after: AfterTools) {
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
            self.running.live.note_call(None);
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
                    Ok(true) => match self.reserve_next().await {
                        Ok(()) => call = self.call(),
                        Err(error) => return self.finish(End::Failed(error), Vec::new()).await,
                    },
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
    async fn conclude(mut self, usages: Vec<Attempt>) -> Result<(), GivenUp> {
        self.count(&usages);
        self.unrecorded.extend(usages);
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
        self.finish(end, Vec::new()).await
    }

    /// Stores and shows pieces as they come, until the model's part is over. What is read while a
    /// write is under way goes into the next one; what is left in the log is stored with the end.
    async fn write_down(&mut self, call: &mut Call, mut end: Option<End>) -> Result<End, EngineError> {
        let mut stops = self.running.live.stops();
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
                    self.show(written?);
                }
                event = call.next(), if self.log.has_room() => end = self.log.take(event),
            }
        };
        if let Some(writing) = writing {
            self.show(writing.await?);
        }
        Ok(end)
    }

    /// Shows what is stored.
    fn show(&self, events: Vec<SessionEvent>) {
        task_events::tell_steps(&self.engine.context, &self.session, &events);
        self.running.live.publish(events);
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
    pub(crate) fn fit_prompt(&mut self) {
        if self.window.is_some() {
            self.prompt.make_room(self.prompt_limit());
        }
    }

    /// Counts attempts that are over, each once.
    pub(crate) fn count(&mut self, usages: &[Attempt]) {
        for attempt in usages {
            self.engine.record_call(&self.session, &self.options, attempt);
            let usage = &attempt.usage;
            self.spent.input_tokens += usage.input_tokens;
            self.spent.output_tokens += usage.output_tokens;
        }
    }
}

/// How a turn is told to end early; never returns while nobody says so.
pub(crate) async fn stopped(stops: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stops.wait_for(Option::is_some).await.map(|stop| *stop) {
        Ok(Some(stop)) => stop,
        _ => std::future::pending().await,
    }
}
