//! Compaction: before the window is full, or when the model says that it is, a summary takes the place of the
//! oldest part of a conversation. What was said stays whole where it is kept.
//!
//! Whatever becomes part of a summary was read for it: what is more than one call can take is read slice by
//! slice, each together with the summary so far.

use agentd_llm::{ModelErrorCode, ModelMessage};

use super::aside::Unanswered;
use super::context::{Prompt, estimate_tokens};
use super::live::Stop;
use super::turn::Turn;

/// Where nobody knows how many tokens the window of a model has.
const ASSUMED_WINDOW: u64 = 128_000;
/// More calls for one summary are not made; each message is then read in part.
const MAX_SLICES: u64 = 12;
/// A model that refuses fewer tokens than this does not summarise.
const SMALLEST_SLICE: u64 = 1_000;
/// Of a tool's result.
const MAX_RESULT_CHARACTERS: usize = 500;

const SUMMARY: &str = "You keep the minutes of a conversation between a user and an assistant. Write down what matters \
    for going on with it: facts, names, numbers, wishes, decisions, what was done and what is still open. Use at most \
    300 words. Write the minutes alone.";

impl Turn {
    fn assumed_window(&self) -> u64 {
        self.window.unwrap_or(ASSUMED_WINDOW)
    }

    /// How many tokens the prompt may have before its oldest part becomes a summary.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a number of tokens"
    )]
    fn compaction_limit(&self) -> u64 {
        (self.assumed_window() as f64 * self.engine.settings.strategy().compaction_threshold) as u64
    }

    pub(super) fn must_compact(&self) -> bool {
        let limit = self.compaction_limit();
        self.prompt.oldest_beyond(limit, limit / 2).is_some()
    }

    /// Puts a summary in the place of the oldest messages, before the window is full. Answers how the turn is
    /// to end, if it is.
    pub(super) async fn compact(&mut self) -> Option<Stop> {
        let limit = self.compaction_limit();
        let stop = self.summarise_beyond(limit, limit / 2).await;
        if stop.is_none() {
            self.fit_prompt();
        }
        stop
    }

    /// Shortens a prompt that the model has refused as too long, by a summary if that can be had. Answers
    /// whether it is shorter now.
    pub(super) async fn shorten(&mut self) -> Result<bool, Stop> {
        let before = self.prompt.tokens();
        if let Some(stop) = self.summarise_beyond(before / 2, before / 2).await {
            return Err(stop);
        }
        if self.prompt.tokens() > before / 4 * 3 {
            self.prompt.halve();
        }
        Ok(self.prompt.tokens() < before)
    }

    async fn summarise_beyond(&mut self, limit: u64, keep: u64) -> Option<Stop> {
        let (old, through) = self.prompt.oldest_beyond(limit, keep)?;
        let most = self.assumed_window() / 2;
        let text = in_words(old, most * MAX_SLICES);
        match self.summary_of(&text, most).await {
            Ok(Some(summary)) => {
                self.prompt.put_summary(summary.clone(), through);
                let position = self.keys.get(through).copied();
                if let Err(error) = self.engine.keep_summary(&self.session, summary, position).await {
                    tracing::warn!(session = %self.session.id, %error, "a summary is made again next time");
                }
            }
            Ok(None) => {}
            Err(Unanswered::Stopped(stop)) => return Some(stop),
            // The oldest messages are then left out without one.
            Err(Unanswered::Failed(error)) => {
                tracing::warn!(session = %self.session.id, %error, "a conversation could not be summarised");
            }
        }
        None
    }

    /// A summary of `text`, and of what an earlier summary stands for.
    async fn summary_of(&mut self, text: &str, mut most: u64) -> Result<Option<String>, Unanswered> {
        let mut before = self.prompt.summary().map(str::to_owned);
        let (mut left, mut summary) = (text, None);
        while !left.is_empty() {
            let slice = first_slice(left, most);
            let minutes = match &before {
                Some(before) => format!("The minutes so far:\n{before}\n\nWhat came after:\n{slice}"),
                None => slice.to_owned(),
            };
            match self.ask_aside(Prompt::alone(SUMMARY.to_owned(), minutes)).await {
                Ok(answer) => {
                    left = &left[slice.len()..];
                    if !answer.is_empty() {
                        before = Some(answer.clone());
                        summary = Some(answer);
                    }
                }
                // The window is smaller than was thought.
                Err(Unanswered::Failed(error))
                    if error.code == ModelErrorCode::ContextLength && most / 2 >= SMALLEST_SLICE =>
                {
                    most /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(summary)
    }
}

/// A conversation as text. Where it has more than `limit` tokens, of each message the beginning.
fn in_words(messages: &[ModelMessage], limit: u64) -> String {
    let mut lines: Vec<String> = messages.iter().map(line).collect();
    let tokens: u64 = lines.iter().map(|line| estimate_tokens(line)).sum();
    if tokens > limit {
        let each = (limit / lines.len().max(1) as u64).max(1);
        for line in &mut lines {
            let end = token_end(line, each);
            line.truncate(end);
        }
    }
    lines.join("\n\n")
}

fn line(message: &ModelMessage) -> String {
    match message {
        ModelMessage::User { content } => format!("User: {content}"),
        ModelMessage::Assistant { content, tool_calls } => {
            let tools: Vec<&str> = tool_calls.iter().map(|call| call.name.as_str()).collect();
            let used = if tools.is_empty() { String::new() } else { format!(" [used {}]", tools.join(", ")) };
            format!("Assistant: {content}{used}")
        }
        ModelMessage::Tool { name, content, .. } => {
            format!("{name}: {}", content.chars().take(MAX_RESULT_CHARACTERS).collect::<String>())
        }
    }
}

/// About the first `limit` tokens of a text, up to the end of a message where there is one in their second half.
/// Not empty unless the text is.
fn first_slice(text: &str, limit: u64) -> &str {
    let end = token_end(text, limit.max(1));
    if end == text.len() {
        return text;
    }
    let slice = &text[..end];
    match slice.rfind("\n\n") {
        Some(at) if at > end / 2 => &text[..at + 2],
        _ => slice,
    }
}

/// Where the first `limit` tokens end, as `estimate_tokens` counts them.
fn token_end(text: &str, limit: u64) -> usize {
    let mut quarters: u64 = 0;
    for (at, character) in text.char_indices() {
        quarters += if character.is_ascii() { 1 } else { 4 };
        if quarters > limit.saturating_mul(4) {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> ModelMessage {
        ModelMessage::User { content: text.to_owned() }
    }

    #[test]
    fn every_message_is_read_for_a_summary() {
        let messages: Vec<ModelMessage> =
            (0..40).map(|number| message(&format!("{number} {}", "é ".repeat(50)))).collect();
        let text = in_words(&messages, 100_000);
        let (mut left, mut slices) = (text.as_str(), Vec::new());
        while !left.is_empty() {
            let slice = first_slice(left, 200);
            assert!(!slice.is_empty() && estimate_tokens(slice) <= 200);
            slices.push(slice);
            left = &left[slice.len()..];
        }
        assert_eq!(slices.concat(), text);
        assert!(slices.len() > 10 && slices.iter().all(|slice| slice.starts_with("User: ")), "{slices:?}");
    }

    #[test]
    fn of_far_too_much_each_message_is_read_in_part() {
        let text = in_words(&[message(&"old ".repeat(4_000)), message("new")], 100);
        assert!(text.starts_with("User: old old") && text.ends_with("User: new"), "{text}");
        assert!(estimate_tokens(&text) < 120);
    }

    #[test]
    fn one_long_message_is_cut_anywhere() {
        assert_eq!(first_slice(&"x".repeat(100), 5), "x".repeat(20));
        assert_eq!(first_slice("é", 0), "é");
        assert_eq!(first_slice("", 5), "");
    }
}
