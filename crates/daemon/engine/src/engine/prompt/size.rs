//! How many tokens a prompt takes, and how it becomes smaller.

use agentd_llm::{ModelMessage, ToolDefinition};

use super::Prompt;

/// What the wire format adds to a message.
const TOKENS_A_MESSAGE: u64 = 4;
/// About what a summary takes.
pub(crate) const SUMMARY_TOKENS: u64 = 600;
const RESULT_LEFT_OUT: &str = "(This result was left out to make room; call the tool again if it is needed.)";

/// How many tokens of a window the prompt may take, so that an answer fits too.
pub(crate) fn prompt_limit(window: u64, max_output_tokens: Option<u32>) -> u64 {
    let answer = max_output_tokens.map_or(window / 4, u64::from).min(window / 2);
    window.saturating_sub(answer)
}

fn message_tokens(message: &ModelMessage) -> u64 {
    let (content, calls) = match message {
        ModelMessage::Assistant { content, tool_calls } => (content, tool_calls.as_slice()),
        ModelMessage::User { content } | ModelMessage::Tool { content, .. } => (content, [].as_slice()),
    };
    let calls: u64 = calls.iter().map(|call| estimate_tokens(&call.input.to_string()) + TOKENS_A_MESSAGE).sum();
    estimate_tokens(content) + calls + TOKENS_A_MESSAGE
}

/// A guess without the model's tokenizer: four ASCII characters a token, one of any others.
pub(crate) fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|character| !character.is_ascii()).count() as u64;
    ascii.div_ceil(4) + others
}

/// What describing tools to a model takes.
pub(crate) fn tool_tokens(tools: &[ToolDefinition]) -> u64 {
    let tokens = |tool: &ToolDefinition| {
        estimate_tokens(&tool.name)
            + estimate_tokens(&tool.description)
            + estimate_tokens(tool.input_schema.as_str())
            + TOKENS_A_MESSAGE
    };
    tools.iter().map(tokens).sum()
}

impl Prompt {
    /// Of the conversation alone.
    pub(crate) fn message_tokens(&self) -> u64 {
        self.messages.iter().map(message_tokens).sum()
    }

    pub(crate) fn tokens(&self) -> u64 {
        estimate_tokens(&self.system)
            + self.notes.iter().map(|(_, note)| estimate_tokens(note)).sum::<u64>()
            + self.summary.as_deref().map_or(0, estimate_tokens)
            + self.recalled.as_deref().map_or(0, estimate_tokens)
            + self.message_tokens()
    }

    /// The oldest messages, where the whole is longer than `limit` or has more than `most` entries of the history, so
    /// that about `keep` tokens and at most half of the entries are left; and the last entry of the history among
    /// them. What is to be answered never is.
    pub(crate) fn oldest_beyond(&self, limit: u64, keep: u64, most: usize) -> Option<(&[ModelMessage], usize)> {
        let newest = self.origins.last().copied().unwrap_or_default();
        let entries_from = |position: usize| self.origins.get(position).map_or(0, |origin| newest - origin + 1);
        if self.tokens() <= limit && entries_from(0) <= most {
            return None;
        }
        let question = self.messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }))?;
        // What is beside the messages stays, and a summary comes to it.
        let beside = self.tokens() - self.message_tokens();
        let beside = beside + SUMMARY_TOKENS.min(limit / 4);
        let keep = keep.min(limit.saturating_sub(beside));
        let mut kept: u64 = self.messages[question..].iter().map(message_tokens).sum();
        let mut split = question;
        for position in (0..question).rev() {
            kept += message_tokens(&self.messages[position]);
            if kept > keep || entries_from(position) > most / 2 {
                break;
            }
            if matches!(self.messages[position], ModelMessage::User { .. }) {
                split = position;
            }
        }
        let through = *self.origins.get(split.checked_sub(1)?)?;
        Some((&self.messages[..split], through))
    }

    /// Leaves out the oldest messages until at most `limit` tokens are left; what is to be answered
    /// always stays. Answers whether anything went.
    pub(crate) fn fit(&mut self, limit: u64) -> bool {
        let mut tokens = self.tokens();
        if tokens <= limit || self.messages.len() <= 1 {
            return false;
        }
        // What is to be answered, and all that was done for it since.
        let question = self.messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }));
        let question = question.unwrap_or(self.messages.len() - 1);
        let mut first = 0;
        while tokens > limit && first < question {
            tokens -= message_tokens(&self.messages[first]);
            first += 1;
            // An answer without its question helps nobody, a result without its call is refused.
            while first < question && !matches!(self.messages[first], ModelMessage::User { .. }) {
                tokens -= message_tokens(&self.messages[first]);
                first += 1;
            }
        }
        if first == 0 {
            return false;
        }
        self.messages.drain(..first);
        self.origins.drain(..first.min(self.origins.len()));
        self.let_user_begin();
        self.is_cut = true;
        true
    }

    /// About half of the conversation, for a model whose window is smaller than was thought. Answers
    /// whether anything went.
    pub(crate) fn halve(&mut self) -> bool {
        let (before, system) = (self.tokens(), estimate_tokens(&self.system));
        self.make_room(system + (before - system) / 2);
        self.tokens() < before
    }

    /// Makes room within a turn: first the results of its older rounds go, then the oldest messages.
    pub(crate) fn make_room(&mut self, limit: u64) {
        self.leave_out_results(limit);
        self.fit(limit);
    }

    /// Leaves out the results of older rounds, until at most `limit` tokens are left if that suffices.
    pub(crate) fn leave_out_results(&mut self, limit: u64) {
        let mut tokens = self.tokens();
        // The newest results are what the model waits for.
        let newest = self.messages.iter().rposition(|message| matches!(message, ModelMessage::Assistant { .. }));
        for message in self.messages.iter_mut().take(newest.unwrap_or(0)) {
            if tokens <= limit {
                return;
            }
            if let ModelMessage::Tool { content, .. } = message
                && content.len() > RESULT_LEFT_OUT.len()
            {
                tokens -= estimate_tokens(content);
                RESULT_LEFT_OUT.clone_into(content);
                tokens += estimate_tokens(content);
            }
        }
    }
}
