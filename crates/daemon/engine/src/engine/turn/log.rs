//! Log of a turn: unstored events, the text, and the rounds of tool calls.

use agentd_base::{Clock, Timestamp};
use agentd_core::runtime::{Recorder, Series};
use agentd_llm::{FinishReason, ModelError, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::engine::call::CallEvent;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{
    CallProgress, CallRecord, EventKind, NoAnswer, Outcome, PLAN, Reply, Round, Session, SessionEvent, SessionStatus,
    close_calls,
};

/// Maximum number of unstored events; beyond it, the model stream is paused.
const MAX_UNSTORED_EVENTS: usize = 512;
/// Maximum length of a reply in bytes.
const MAX_REPLY_BYTES: usize = 8 << 20;
/// Maximum number of calls in one answer; further ones are ignored.
const MAX_CALLS: usize = 64;

/// Reason why the model's part of a turn ended.
pub(super) enum End {
    Finished,
    Failed(ModelError),
    Stopped(Stop),
    TooLong,
    TooManyRounds(u32),
}

/// Reason why a turn stops running.
pub(super) enum Halt {
    Ended(End),
    /// The turn waits for an approval; a decision resumes it.
    Parked,
    /// The end of the turn cannot be stored.
    Abandoned(EngineError),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Ended(End::Stopped(stop))
    }
}

impl From<ModelError> for Halt {
    fn from(error: ModelError) -> Self {
        Self::Ended(End::Failed(error))
    }
}

impl From<EngineError> for Halt {
    fn from(error: EngineError) -> Self {
        Self::Abandoned(error)
    }
}

/// Serialized while its turn is parked, without the fields of the current answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Log {
    text: String,
    /// Text of the current round.
    round_text: String,
    next_seq: u64,
    rounds: Vec<Round>,
    /// Events that are not stored yet.
    #[serde(skip)]
    unstored: Vec<SessionEvent>,
    #[serde(skip)]
    calls: Vec<ToolCall>,
    /// The last answer reached the output limit.
    #[serde(skip)]
    is_truncated: bool,
    #[serde(skip)]
    has_requested_approval: bool,
    /// Set until the first token arrives.
    #[serde(skip)]
    first_token: Option<FirstToken>,
}

/// Measures the time to the first token.
#[derive(Debug, Clone)]
pub(super) struct FirstToken {
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    pub(super) began_at: Timestamp,
}

impl FirstToken {
    fn record(self) {
        let elapsed = self.clock.now().since(self.began_at);
        self.recorder.record(Series::FirstToken, "", elapsed, false);
    }
}

impl Log {
    pub(super) fn new(first_token: FirstToken) -> Self {
        Self { next_seq: 1, first_token: Some(first_token), ..Self::default() }
    }

    /// Restores the log of a parked turn.
    pub(super) fn resumed(self) -> Self {
        Self { has_requested_approval: true, ..self }
    }

    /// Appends an event with the next sequence number.
    pub(super) fn add(&mut self, event: impl FnOnce(u64) -> SessionEvent) {
        let event = event(self.next_seq);
        self.next_seq += 1;
        self.has_requested_approval |= event.kind == EventKind::ApprovalRequest;
        self.unstored.push(event);
    }

    fn add_text(&mut self, text: &str) {
        self.add(|seq| SessionEvent::token(seq, text));
        self.text.push_str(text);
    }

    /// Applies an event of the model call; returns the end if the event is the last one.
    pub(super) fn apply(&mut self, event: Option<CallEvent>) -> Option<End> {
        match event? {
            CallEvent::Text(text) => {
                if let Some(first) = self.first_token.take() {
                    first.record();
                }
                // PostgreSQL cannot store NUL in text.
                let mut text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
                self.round_text.push_str(&text);
                if self.round_text.len() == text.len() && !self.text.is_empty() {
                    // Text of different rounds is separated by a blank line.
                    text.insert_str(0, "\n\n");
                }
                self.add_text(&text);
                (self.text.len() > MAX_REPLY_BYTES).then_some(End::TooLong)
            }
            CallEvent::ToolCall(call) => {
                if self.calls.len() < MAX_CALLS {
                    self.calls.push(call);
                }
                None
            }
            CallEvent::End(Ok(finish)) => {
                self.is_truncated = finish.reason == FinishReason::Length;
                Some(End::Finished)
            }
            CallEvent::End(Err(error)) => Some(End::Failed(error)),
        }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.unstored.len() < MAX_UNSTORED_EVENTS
    }

    pub(super) fn has_unstored(&self) -> bool {
        !self.unstored.is_empty()
    }

    pub(super) fn take_unstored(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.unstored)
    }

    /// Whether the turn has any text.
    pub(super) fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }

    pub(super) fn round_text(&self) -> &str {
        &self.round_text
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn take_calls(&mut self) -> Vec<ToolCall> {
        std::mem::take(&mut self.calls)
    }

    /// Drops the tool calls of an answer that contains text.
    pub(super) fn drop_calls_if_text(&mut self) {
        if !self.round_text.trim().is_empty() {
            self.calls.clear();
        }
    }

    /// Appends a paragraph to a completed answer.
    pub(super) fn append_to_answer(&mut self, text: &str) {
        let text = format!("\n\n{text}");
        self.add_text(&text);
        self.round_text.push_str(&text);
    }

    /// Adds a plan as a round with one completed call.
    pub(super) fn add_plan(&mut self, plan: &str) {
        let outcome = Outcome::done(json!({ "text": plan }));
        let call = ToolCall::new(PLAN, PLAN, json!({}));
        let progress = CallProgress { has_begun: true, ..CallProgress::new(PLAN.to_owned(), call) };
        self.add(|seq| SessionEvent::tool_use(seq, 0, &progress));
        self.add(|seq| SessionEvent::tool_result(seq, 0, &progress, &outcome));
        self.end_round([CallProgress { outcome: Some(outcome), ..progress }.record()]);
    }

    /// Ends the current round with its calls; returns its text.
    pub(super) fn end_round(&mut self, calls: impl IntoIterator<Item = CallRecord>) -> &str {
        let round = Round { text: std::mem::take(&mut self.round_text), calls: calls.into_iter().collect() };
        &self.rounds.push_mut(round).text
    }

    /// Number of the current round.
    pub(super) fn round(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)
    }

    /// Number of rounds in which a tool was called.
    pub(super) fn tool_rounds(&self) -> usize {
        self.rounds.iter().filter(|round| round.calls.iter().any(|call| call.tool != PLAN)).count()
    }

    /// Whether a call requested an approval.
    pub(super) fn has_requested_approval(&self) -> bool {
        self.has_requested_approval
    }

    /// Closes the log with its last event; returns the reply and the unstored events.
    pub(super) fn close(
        mut self,
        session: &Session,
        (status, error): (SessionStatus, Option<NoAnswer>),
        tokens: (u64, u64),
    ) -> (Reply, Vec<SessionEvent>) {
        let is_truncated = self.is_truncated;
        self.add(|seq| match &error {
            Some(error) => SessionEvent::error(seq, &error.code, &error.message),
            None => SessionEvent::done(seq, session, tokens, is_truncated),
        });
        if !self.rounds.is_empty() {
            self.end_round([]);
            close_calls(&mut self.rounds);
        }
        let reply = Reply {
            session_id: session.id.clone(),
            conversation_id: session.conversation_id.clone(),
            message_id: session.message_id.clone(),
            content: self.text,
            rounds: self.rounds,
            status,
            error,
        };
        (reply, self.unstored)
    }
}
