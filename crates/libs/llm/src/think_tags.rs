//! Extraction of reasoning that a model writes into its answer because the server has no parser for it.
//!
//! Only blocks at the very beginning of an answer are reasoning: one or more `<think>…</think>`, including one that is
//! never closed. Everything after the first other character is text, even if it mentions the tags.

use std::collections::VecDeque;

use futures_util::{StreamExt, stream};

use crate::{ModelError, ModelEvent, ModelStream};

/// Opening and closing tags.
const TAGS: &[(&str, &str)] = &[("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>")];

/// Maximum number of blank bytes before the first tag; with more, everything is text.
const MAX_BLANK_BYTES: usize = 256;

/// Converts leading `<think>` blocks of a stream's text into [`ModelEvent::Reasoning`]. Text events are passed on
/// unchanged, except for those that contain a tag.
#[must_use]
pub fn separate_think_tags(events: ModelStream) -> ModelStream {
    let state = (events.fuse(), TagReader::default(), VecDeque::new());
    let separated = stream::unfold(state, |(mut events, mut reader, mut ready)| async move {
        loop {
            if let Some(item) = ready.pop_front() {
                return Some((item, (events, reader, ready)));
            }
            match events.next().await {
                Some(Ok(ModelEvent::Text(piece))) => reader.read(piece, &mut ready),
                Some(Ok(reasoning @ ModelEvent::Reasoning(_))) => {
                    reader.flush_before_reasoning(&mut ready);
                    ready.push_back(Ok(reasoning));
                }
                // A tool call, the end, or an error.
                other => {
                    reader.finish(&mut ready);
                    ready.extend(other);
                    if ready.is_empty() {
                        return None;
                    }
                }
            }
        }
    });
    separated.boxed()
}

type Ready = VecDeque<Result<ModelEvent, ModelError>>;

/// State of the reader within the answer.
#[derive(Default)]
enum TagReader {
    /// Only blanks and the beginning of a tag have arrived, in the buffered pieces.
    #[default]
    Undecided,
    Buffering(Vec<String>),
    /// Inside a block; a possible beginning of the closing tag is buffered.
    InsideBlock {
        closing: &'static str,
        buffered: String,
    },
    /// After a block; blanks and a possible beginning of another block are buffered.
    AfterBlock(String),
    Text,
}

enum TagMatch {
    /// Closing tag, and the length of the opening tag.
    Tag(&'static str, usize),
    /// More text is needed to decide.
    Partial,
    None,
}

/// Matches the beginning of `text`, which has no leading blanks, against the opening tags.
fn match_opening_tag(text: &str) -> TagMatch {
    let begins = |longer: &str, shorter: &str| {
        longer.len() >= shorter.len() && longer.as_bytes()[..shorter.len()].eq_ignore_ascii_case(shorter.as_bytes())
    };
    match TAGS.iter().find(|(tag, _)| begins(text, tag)) {
        Some((tag, closing)) => TagMatch::Tag(closing, tag.len()),
        None if TAGS.iter().any(|(tag, _)| begins(tag, text)) => TagMatch::Partial,
        None => TagMatch::None,
    }
}

impl TagReader {
    fn read(&mut self, piece: String, ready: &mut Ready) {
        match std::mem::replace(self, Self::Text) {
            Self::Text => ready.push_back(Ok(ModelEvent::Text(piece))),
            Self::Undecided => self.begin(vec![piece], ready),
            Self::Buffering(mut pieces) => {
                pieces.push(piece);
                self.begin(pieces, ready);
            }
            Self::InsideBlock { closing, buffered } => self.read_blocks(Some(closing), &(buffered + &piece), ready),
            Self::AfterBlock(buffered) => self.read_blocks(None, &(buffered + &piece), ready),
        }
    }

    fn begin(&mut self, pieces: Vec<String>, ready: &mut Ready) {
        let whole = pieces.concat();
        let text = whole.trim_start();
        match match_opening_tag(text) {
            TagMatch::Tag(..) => self.read_blocks(None, text, ready),
            TagMatch::Partial if whole.len() - text.len() <= MAX_BLANK_BYTES => *self = Self::Buffering(pieces),
            TagMatch::Partial | TagMatch::None => {
                ready.extend(pieces.into_iter().map(|piece| Ok(ModelEvent::Text(piece))))
            }
        }
    }

    /// Continues inside a block that ends with `closing`, or after a block if that is `None`.
    fn read_blocks(&mut self, mut closing: Option<&'static str>, text: &str, ready: &mut Ready) {
        let lower = text.to_ascii_lowercase();
        let mut at = 0;
        loop {
            let Some(tag) = closing else {
                at = text.len() - text[at..].trim_start().len();
                match match_opening_tag(&text[at..]) {
                    TagMatch::Tag(tag, length) => (closing, at) = (Some(tag), at + length),
                    TagMatch::Partial => return *self = Self::AfterBlock(text[at..].to_owned()),
                    TagMatch::None => return ready.push_back(Ok(ModelEvent::Text(text[at..].to_owned()))),
                }
                continue;
            };
            let Some(length) = lower[at..].find(tag) else {
                let mut brackets = lower[at..].match_indices('<').map(|(bracket, _)| at + bracket);
                let end = brackets.find(|bracket| tag.starts_with(&lower[*bracket..])).unwrap_or(text.len());
                push_reasoning(&text[at..end], ready);
                return *self = Self::InsideBlock { closing: tag, buffered: text[end..].to_owned() };
            };
            push_reasoning(&text[at..at + length], ready);
            (closing, at) = (None, at + length + tag.len());
        }
    }

    /// Reasoning arrives in its own field: the buffered blanks before it were text.
    fn flush_before_reasoning(&mut self, ready: &mut Ready) {
        if matches!(self, Self::Buffering(_)) {
            self.finish(ready);
        }
    }

    /// Ends the stream: the buffered text is emitted as it is.
    fn finish(&mut self, ready: &mut Ready) {
        match std::mem::replace(self, Self::Text) {
            Self::Undecided | Self::Text => {}
            Self::Buffering(pieces) => ready.extend(pieces.into_iter().map(|piece| Ok(ModelEvent::Text(piece)))),
            Self::InsideBlock { buffered, .. } => push_reasoning(&buffered, ready),
            Self::AfterBlock(buffered) if buffered.is_empty() => {}
            Self::AfterBlock(buffered) => ready.push_back(Ok(ModelEvent::Text(buffered))),
        }
    }
}

fn push_reasoning(text: &str, ready: &mut Ready) {
    if !text.is_empty() {
        ready.push_back(Ok(ModelEvent::Reasoning(text.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Finish, FinishReason, Usage};

    /// Returns the reasoning, the text, and the text events for the given pieces.
    fn separate(pieces: &[&str]) -> (String, String, Vec<String>) {
        let end = ModelEvent::Finished(Finish { reason: FinishReason::Stop, usage: Usage::default() });
        let events = pieces.iter().map(|piece| ModelEvent::Text((*piece).to_owned())).chain([end.clone()]);
        let events: Vec<_> = events.map(Ok::<_, ModelError>).collect();
        let separated = separate_think_tags(stream::iter(events).boxed()).collect::<Vec<_>>();
        let separated = futures_util::FutureExt::now_or_never(separated).unwrap();
        let (mut reasoning, mut texts) = (String::new(), Vec::new());
        for event in &separated {
            match event.as_ref().unwrap() {
                ModelEvent::Reasoning(text) => reasoning.push_str(text),
                ModelEvent::Text(text) => texts.push(text.clone()),
                ModelEvent::Finished(_) | ModelEvent::ToolCall(_) => {}
            }
        }
        assert_eq!(separated.last().unwrap().as_ref().unwrap(), &end);
        (reasoning, texts.concat(), texts)
    }

    /// Answer, expected reasoning, expected text.
    const ANSWERS: &[(&str, &str, &str)] = &[
        ("<think>plan</think>\n\nHello!", "plan", "Hello!"),
        (" \n<think>\nplan\n</think>Hello!", "\nplan\n", "Hello!"),
        ("<think></think>Hello!", "", "Hello!"),
        ("<think>a</think>\n<think>b</think>\nHello <think> c", "ab", "Hello <think> c"),
        ("<THINK>plan</Think>Hello!", "plan", "Hello!"),
        ("<thinking>1 < 2</think></thinking>Hello!", "1 < 2</think>", "Hello!"),
        ("<think>never closed", "never closed", ""),
        ("<think>never closed</thin", "never closed</thin", ""),
        ("<think>plan</think>", "plan", ""),
        ("<think>plan</think> <thi", "plan", "<thi"),
        ("<think>é</think>ü", "é", "ü"),
        ("Use the <think> tag.", "", "Use the <think> tag."),
        ("```\n<think>x</think>\n```", "", "```\n<think>x</think>\n```"),
        ("<thin", "", "<thin"),
        ("<thinker>x", "", "<thinker>x"),
        ("< think>x", "", "< think>x"),
        ("  \n", "", "  \n"),
        ("</think>x", "", "</think>x"),
        ("", "", ""),
    ];

    #[test]
    fn leading_blocks_are_reasoning_and_other_tags_are_text() {
        for (answer, reasoning, text) in ANSWERS {
            let (found, shown, _) = separate(&[answer]);
            assert_eq!((found.as_str(), shown.as_str()), (*reasoning, *text), "{answer}");
        }
    }

    #[test]
    fn text_events_are_not_joined() {
        let pieces = ["\n", " <", "b", ">", "Hello", " <think>"];
        assert_eq!(separate(&pieces).2, pieces);
        assert_eq!(separate(&["<think>x</think>\nHel", "lo", "!"]).2, ["Hel", "lo", "!"]);
    }

    proptest! {
        #[test]
        fn result_is_independent_of_chunk_boundaries(
            (answer, reasoning, text) in prop::sample::select(ANSWERS),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len() + 1)).collect();
            ends.retain(|end| answer.is_char_boundary(*end));
            ends.push(answer.len());
            ends.sort_unstable();
            let mut begin = 0;
            let pieces: Vec<&str> = ends.iter().map(|&end| { let piece = &answer[begin..end]; begin = end; piece }).collect();
            let (found, shown, _) = separate(&pieces);
            prop_assert_eq!((found.as_str(), shown.as_str()), (reasoning, text));
        }

        #[test]
        fn text_is_preserved(pieces in prop::collection::vec("[<>/thinko \n]{0,6}|<think>|</think>|é", 0..10)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            let (reasoning, text, _) = separate(&pieces);
            let (at_once, shown_at_once, _) = separate(&[whole.as_str()]);
            prop_assert_eq!((&reasoning, &text), (&at_once, &shown_at_once));
            prop_assert!(whole.ends_with(&text) || reasoning.is_empty());
            if !whole.trim_start().to_ascii_lowercase().starts_with("<th") {
                prop_assert_eq!(text, whole);
            }
        }
    }
}
