//! A running turn: one task from the first model call to the last event of its log.
//!
//! [`Turn::run`] and [`Turn::resume`] start it, [`Turn::run_rounds`] is its loop, and [`Turn::close`] ends it.

mod auxiliary;
mod context;
mod conversation;
mod leases;
mod log;
mod park;
mod persist;
mod prepare;
mod recall;
pub(super) mod resume;
mod tool_round;
mod usage;

pub use conversation::MAX_HISTORY_MESSAGES;
pub(super) use leases::WAKE_BATCH_SIZE;
pub(super) use prepare::Prepared;

use std::pin::pin;
use std::sync::Arc;

use agentd_llm::ModelErrorCode;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{Notify, oneshot};

use super::call::Call;
use super::error::EngineError;
use super::live::Stop;
use super::model::{Approval, CallProgress, Purpose, Session, SessionEvent};
use super::recall::Recalled;
use context::TurnContext;
use conversation::Conversation;
use log::{End, Halt, Log};
use park::{Parked, park};
use persist::{Opening, Writing, store_progress, write_tokens};
use recall::TurnRecall;
use tool_round::ToolRound;
use usage::UsageLedger;

/// Maximum number of times a prompt is shortened after the provider rejects it as too long.
const MAX_SHORTENINGS: u32 = 3;

pub(crate) struct Turn {
    context: TurnContext,
    conversation: Conversation,
    log: Log,
    usage: UsageLedger,
    recall: TurnRecall,
}

impl Turn {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.context.session
    }

    /// Runs the turn. `stored` is the transaction that stores it; its outcome is sent to `caller` immediately. Memories
    /// are recalled concurrently. The model call starts once the transaction has run its statements without error
    /// (`entered`), so it overlaps with the commit. It does not start earlier, because a call costs money.
    pub(crate) async fn run<E: Send>(
        mut self,
        mut stored: BoxFuture<'static, Result<(), E>>,
        entered: Arc<Notify>,
        caller: oneshot::Sender<Result<(), E>>,
    ) {
        // Auxiliary calls precede the answer where they are needed. They start after the turn is stored.
        let is_prepared = !self.needs_preparation();
        let mut recalling = self.recall.begin(&self.context, &self.conversation.prompt);
        let mut call: Option<Call> = None;
        let mut end = None;
        let mut may_call = false;
        let outcome = loop {
            if is_prepared && recalling.is_none() && call.is_none() {
                call = Some(self.call());
            }
            let may_read = may_call && end.is_none() && self.log.has_capacity();
            tokio::select! {
                biased;
                outcome = &mut stored => break outcome,
                () = entered.notified(), if is_prepared && !may_call => may_call = true,
                Some(recalled) = OptionFuture::from(recalling.as_mut()) => {
                    recalling = None;
                    self.take_recalled(recalled, is_prepared);
                }
                Some(event) = OptionFuture::from(call.as_mut().map(Call::next)), if may_read => {
                    end = self.log.apply(event);
                }
            }
        };
        let is_stored = outcome.is_ok();
        if is_stored {
            self.context.publish(vec![SessionEvent::start(&self.context.session)]);
        }
        // The turn runs on even if the caller is gone.
        drop(caller.send(outcome));
        if !is_stored {
            let attempts = call.map(|call| call.into_parts().1).unwrap_or_default();
            if !attempts.is_empty() {
                persist::record_orphaned_usage(&self.context, attempts).await;
            }
            return;
        }
        if let Some(recalling) = recalling {
            let recalled = recalling.await;
            self.take_recalled(recalled, is_prepared);
        }
        self.recall.note_stored(&self.context);
        let outcome = if is_prepared {
            let call = call.unwrap_or_else(|| self.call());
            self.run_rounds(call, end).await
        } else {
            self.prepare_and_run_rounds().await
        };
        self.close(outcome).await;
    }

    /// Resumes a turn that was parked in the middle of a round.
    async fn resume(mut self, calls: Vec<CallProgress>, decisions: Vec<Approval>, is_cancelled: bool) {
        let outcome = if is_cancelled {
            self.log.end_round(calls.iter().map(CallProgress::record));
            Ok(End::Stopped(Stop::Cancel))
        } else {
            self.resume_and_run_rounds(calls, &decisions).await
        };
        self.close(outcome).await;
    }

    async fn resume_and_run_rounds(&mut self, calls: Vec<CallProgress>, decisions: &[Approval]) -> Result<End, Halt> {
        let round = ToolRound::resume(&self.context, &self.conversation, &mut self.log, calls, decisions, true).await;
        self.run_round(round).await?;
        let call = self.next_call().await?;
        self.run_rounds(call, None).await
    }

    /// Whether auxiliary calls are needed before the answer.
    fn needs_preparation(&self) -> bool {
        let Conversation { prompt, offer, .. } = &self.conversation;
        auxiliary::wants_plan(&self.context, prompt, offer) || self.conversation.must_compact(&self.context)
    }

    /// Adds recalled memories to the prompt. Messages must be summarized before they are dropped, so the prompt is only
    /// fitted if no compaction is pending.
    fn take_recalled(&mut self, recalled: Option<Recalled>, is_prepared: bool) {
        self.recall.take(&self.context, &mut self.conversation.prompt, &mut self.usage, recalled);
        if is_prepared || !self.conversation.must_compact(&self.context) {
            self.conversation.fit(&self.context);
        }
    }

    async fn prepare_and_run_rounds(&mut self) -> Result<End, Halt> {
        self.conversation.compact(&self.context, &mut self.usage).await?;
        self.plan_ahead().await?;
        let call = self.next_call().await?;
        self.run_rounds(call, None).await
    }

    /// Alternates between model calls and tool rounds until the turn ends.
    async fn run_rounds(&mut self, mut call: Call, mut end: Option<End>) -> Result<End, Halt> {
        let mut shortenings = 0;
        loop {
            match self.read_answer(call, end.take()).await? {
                End::Finished if self.log.has_calls() => self.use_tools().await?,
                End::Finished => {
                    self.reflect().await?;
                    return Ok(End::Finished);
                }
                // The provider rejected the prompt before any output.
                End::Failed(error)
                    if error.code == ModelErrorCode::ContextLength
                        && shortenings < MAX_SHORTENINGS
                        && self.log.round_text().is_empty()
                        && !self.log.has_calls() =>
                {
                    shortenings += 1;
                    if !self.conversation.shorten(&self.context, &mut self.usage).await? {
                        return Ok(End::Failed(error));
                    }
                }
                end => return Ok(end),
            }
            call = self.next_call().await?;
        }
    }

    /// Reserves tokens for the next call and creates it.
    async fn next_call(&mut self) -> Result<Call, Halt> {
        let options = self.context.model.options().clone();
        self.usage.reserve(&self.context, options, &self.conversation.prompt).await?;
        Ok(self.call())
    }

    /// Creates a call with the current prompt, for which tokens are reserved. The prompt is moved into the call and
    /// returned with its end.
    fn call(&mut self) -> Call {
        self.context.note_call(Some(Purpose::Answer));
        let options = self.usage.within_budget(self.context.model.options().clone());
        let prompt = std::mem::take(&mut self.conversation.prompt);
        // After text of an earlier round, some models have nothing to add to tool results.
        self.context.model.call(options, prompt).without_halving().allowing_empty(self.log.has_text())
    }

    /// Reads an answer to its end and counts its usage.
    async fn read_answer(&mut self, mut call: Call, end: Option<End>) -> Result<End, EngineError> {
        let ended = self.persist_stream(&mut call, end).await;
        let (prompt, attempts) = call.into_parts();
        self.context.note_call(None);
        self.conversation.prompt = prompt;
        self.usage.add(&self.context, attempts);
        // Without tools, the text is the answer; tool calls beside it are ignored.
        if self.conversation.offer.is_empty() {
            self.log.drop_calls_if_text();
        }
        ended
    }

    /// Stores and publishes text as it arrives, until the model's part ends. Text that arrives during a write is part
    /// of the next write. Events that are still unstored at the end are stored with the end.
    async fn persist_stream(&mut self, call: &mut Call, mut end: Option<End>) -> Result<End, EngineError> {
        let mut stopped = pin!(self.context.stopped());
        let mut writing: Option<Writing> = None;
        let mut has_published = false;
        let end = loop {
            // Collects all available events so that they share one write, or even the final one. The first token is
            // written immediately.
            while end.is_none() && self.log.has_capacity() && (has_published || !self.log.has_unstored()) {
                match call.next().now_or_never() {
                    Some(event) => end = self.log.apply(event),
                    None => break,
                }
            }
            if writing.is_none() && self.log.has_unstored() && (end.is_none() || !has_published) {
                writing = Some(write_tokens(&self.context, self.log.take_unstored()));
                has_published = true;
            }
            if let Some(end) = end.take() {
                break end;
            }
            tokio::select! {
                biased;
                stop = &mut stopped => break End::Stopped(stop),
                Some(written) = OptionFuture::from(writing.as_mut()) => {
                    writing = None;
                    self.context.publish(written?);
                }
                event = call.next(), if self.log.has_capacity() => end = self.log.apply(event),
            }
        };
        if let Some(writing) = writing {
            self.context.publish(writing.await?);
        }
        Ok(end)
    }

    /// Generates a plan, if configured, and adds it to the prompt.
    async fn plan_ahead(&mut self) -> Result<(), Halt> {
        let Conversation { prompt, offer, .. } = &mut self.conversation;
        if let Some(plan) = auxiliary::plan(&self.context, &mut self.usage, prompt, offer).await? {
            prompt.add_note(&format!("Your plan:\n{plan}"));
            self.log.add_plan(&plan);
            store_progress(&self.context, &mut self.log, &mut self.usage, Opening::default()).await?;
        }
        Ok(())
    }

    /// Reviews the answer, if configured, and appends the correction.
    async fn reflect(&mut self) -> Result<(), Stop> {
        let prompt = &self.conversation.prompt;
        if let Some(correction) = auxiliary::reflect(&self.context, &mut self.usage, prompt, &self.log).await? {
            self.log.append_to_answer(&correction);
        }
        Ok(())
    }

    /// Runs the tool calls of the answer.
    async fn use_tools(&mut self) -> Result<(), Halt> {
        let limit = self.context.engine.settings.agent().max_tool_rounds;
        let calls = self.log.take_calls();
        if self.log.tool_rounds() >= limit as usize {
            self.log.end_round([]);
            return Err(Halt::Ended(End::TooManyRounds(limit)));
        }
        let round = ToolRound::plan(&self.context, &self.conversation, &mut self.log, calls).await;
        self.run_round(round).await
    }

    /// Runs a round and adds its results to the prompt. Parks the turn if only pending approvals remain.
    async fn run_round(&mut self, mut round: ToolRound) -> Result<(), Halt> {
        let Self { context, conversation, log, usage, recall } = self;
        while !round.run(context, conversation, log, usage).await? {
            let decisions = match park(context, conversation, log, usage, recall, round.calls()).await? {
                Parked::Yes => return Err(Halt::Parked),
                Parked::AlreadyDecided(decisions) => decisions,
            };
            context.engine.record_approvals(&context.session, round.calls(), &decisions);
            // Tools may have changed since the round began.
            conversation.offer = context.offer().await;
            round = ToolRound::resume(context, conversation, log, round.into_calls(), &decisions, false).await;
        }
        let text = log.end_round(round.records());
        conversation.prompt.push_round(text, round.calls(), &context.engine.marker);
        Ok(conversation.shrink_to_window(context, usage).await?)
    }

    async fn close(mut self, outcome: Result<End, Halt>) {
        let error = match outcome {
            Ok(end) | Err(Halt::Ended(end)) => {
                match persist::finish(&self.context, self.log, &mut self.usage, self.recall, end).await {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(Halt::Parked) => return,
            Err(Halt::Abandoned(error)) => error,
        };
        persist::abandon(&self.context, &error, self.usage.into_attempts()).await;
    }
}
