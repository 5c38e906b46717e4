//! What a turn has written so far, and how it comes to its end.

use agentd_base::{Clock, Timestamp};
use agentd_core::runtime::{Recorder, Series};
use agentd_llm::{FinishReason, ModelError, ToolCall};

use crate::engine::call::CallEvent;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::model::{Attempt, SessionEvent};

/// Pieces that wait for the store; at this many the model is read no further.
const MAX_WAITING: usize = 512;
/// A reply longer than this is cut off.
const MAX_REPLY_BYTES: usize = 8 << 20;
/// More calls in one answer are not heard.
const MAX_CALLS: usize = 64;

/// Tokens of all the calls of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Spent {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// How the model's part ended.
pub(crate) enum End {
    Finished,
    Failed(ModelError),
    Stopped(Stop),
    TooLong,
    TooManyRounds(u32),
}

/// Why a turn cannot be brought to its end, with what is not counted yet.
pub(crate) type GivenUp = (EngineError, Vec<Attempt>);

/// What was said. `waiting` is what is not stored yet.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) text: String,
    /// Of the present round.
    pub(crate) round_text: String,
    pub(crate) next_seq: u64,
    pub(crate) waiting: Vec<SessionEvent>,
    pub(crate) calls: Vec<ToolCall>,
    /// The last answer reached the output limit.
    pub(crate) is_cut_off: bool,
    /// Until the first word.
    pub(crate) first_token: Option<FirstToken>,
}

/// Measures how long the first word took.
#[derive(Debug)]
pub(crate) struct FirstToken {
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) began_at: Timestamp,
}

impl FirstToken {
    fn came(self) {
        let elapsed = self.clock.now().since(self.began_at);
        self.recorder.record(Series::FirstToken, "", elapsed, false);
    }
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { next_seq: 1, ..Self::default() }
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Takes what the model said; answers the end, if it is one.
    pub(crate) fn take(&mut self, event: Option<CallEvent>) -> Option<End> {
        match event? {
            CallEvent::Text(text) => {
                if let Some(first) = self.first_token.take() {
                    first.came();
                }
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
            CallEvent::End(Ok(finish)) => {
                self.is_cut_off = finish.reason == FinishReason::Length;
                Some(End::Finished)
            }
            CallEvent::End(Err(error)) => Some(End::Failed(error)),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }
}
