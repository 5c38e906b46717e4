//! Incremental parser of tool calls in a reply.
//!
//! Invariants: the text and the calls are independent of how the reply is split into pieces; no part of a parsable call
//! is shown as text, and nothing else is withheld, except for a call that the output limit truncated.

use serde_json::{Deserializer, Map, Value};

use super::ToolFormat;
use crate::FunctionCall;
use crate::worker::text::overlap;

/// Maximum number of calls per reply.
const MAX_CALLS: usize = 16;

/// Result of adding a piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadResult {
    /// Text to show.
    pub(crate) text: String,
    pub(crate) change: Option<Change>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A call has begun with this text.
    Begun(String),
    /// The reply is text again.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A call may begin.
    Text,
    Call,
    /// No further call can occur.
    TextOnly,
}

#[derive(Debug)]
pub(crate) struct ToolCallReader {
    format: ToolFormat,
    state: State,
    /// Buffered text that may begin a call; inside a call, its body.
    buffered: String,
    calls: Vec<FunctionCall>,
}

/// Position of a call in the buffered text.
enum CallStart {
    /// The length of the text before the call, and the start of its body.
    At {
        text: usize,
        body: usize,
    },
    /// No call yet; this much of the text certainly does not belong to one.
    After(usize),
    Never,
}

impl ToolCallReader {
    pub(crate) fn new(format: ToolFormat) -> Self {
        Self { format, state: State::Text, buffered: String::new(), calls: Vec::new() }
    }

    /// Adds a piece of the reply.
    pub(crate) fn push(&mut self, piece: &str) -> ReadResult {
        let was_in_call = self.state == State::Call;
        let (mut text, mut has_begun) = (String::new(), false);
        self.buffered.push_str(piece);
        loop {
            match self.state {
                State::Text => match find_call_start(self.format, &self.buffered) {
                    CallStart::At { text: before, body } => {
                        text.push_str(&self.buffered[..before]);
                        self.buffered.drain(..body);
                        self.state = State::Call;
                        has_begun = true;
                    }
                    CallStart::After(shown) => {
                        text.extend(self.buffered.drain(..shown));
                        break;
                    }
                    CallStart::Never => self.state = State::TextOnly,
                },
                State::Call => {
                    let Some((body, after)) = find_call_end(self.format, &self.buffered) else { break };
                    let whole: String = self.buffered.drain(..after).collect();
                    text.push_str(&self.take(&whole[..body], &whole[body..]));
                    self.state = State::Text;
                    has_begun = false;
                }
                State::TextOnly => {
                    text.push_str(&std::mem::take(&mut self.buffered));
                    break;
                }
            }
        }
        let change = match self.state {
            State::Call if has_begun => Some(Change::Begun(self.buffered.clone())),
            State::Text | State::TextOnly if was_in_call => Some(Change::Ended),
            _ => None,
        };
        ReadResult { text, change }
    }

    /// Ends the reply and returns the buffered text and the calls. `is_cut` means that the model did not end the reply
    /// itself.
    pub(crate) fn finish(mut self, is_truncated: bool) -> (String, Vec<FunctionCall>) {
        let buffered = std::mem::take(&mut self.buffered);
        let text = match self.state {
            State::Call => {
                let unread = self.take(&buffered, "");
                if is_truncated { String::new() } else { unread }
            }
            _ if self.calls.is_empty() => buffered,
            // White space between and after calls belongs to them.
            _ => buffered.trim_end().to_owned(),
        };
        (text, self.calls)
    }

    /// Records the calls in `body`, or returns the text if it cannot be parsed.
    fn take(&mut self, body: &str, end: &str) -> String {
        let calls = calls(self.format, body);
        if calls.is_empty() {
            let begin = self.format.delimiters().first().copied().unwrap_or_default();
            return format!("{begin}{body}{end}");
        }
        let remaining = MAX_CALLS.saturating_sub(self.calls.len());
        self.calls.extend(calls.into_iter().take(remaining));
        String::new()
    }
}

fn find_call_start(format: ToolFormat, buffered: &str) -> CallStart {
    let Some(delimiter) = format.delimiters().first() else { return find_object_start(buffered) };
    match buffered.find(delimiter) {
        // White space before a call belongs to it.
        Some(at) => CallStart::At { text: buffered[..at].trim_end().len(), body: at + delimiter.len() },
        None => CallStart::After(buffered[..buffered.len() - overlap(buffered, delimiter)].trim_end().len()),
    }
}

/// Whether the whole reply is a call, as far as can be determined.
fn find_object_start(buffered: &str) -> CallStart {
    const BEGINNINGS: [&str; 2] = ["{\"name\":", "{\"type\":\"function\",\"name\":"];
    let dense: String = buffered.chars().filter(|character| !character.is_whitespace()).take(40).collect();
    if BEGINNINGS.iter().any(|begin| dense.starts_with(begin)) {
        CallStart::At { text: 0, body: 0 }
    } else if BEGINNINGS.iter().any(|begin| begin.starts_with(&dense)) {
        CallStart::After(0)
    } else {
        CallStart::Never
    }
}

/// Returns the end of a call's body, and the start of the following text.
fn find_call_end(format: ToolFormat, buffered: &str) -> Option<(usize, usize)> {
    let delimiter = format.delimiters().get(1)?;
    let found = buffered.match_indices(delimiter).find(|(at, _)| !is_in_string(&buffered[..*at]));
    found.map(|(at, _)| (at, at + delimiter.len()))
}

/// Whether a JSON text ends within a string.
fn is_in_string(json: &str) -> bool {
    let (mut inside, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = inside,
            b'"' => inside = !inside,
            _ => {}
        }
    }
    inside
}

/// Parses the calls in the JSON value at the beginning of `body`; empty if any of them is invalid.
fn calls(format: ToolFormat, body: &str) -> Vec<FunctionCall> {
    let first = Deserializer::from_str(body).into_iter::<Value>().next();
    let found: Option<Vec<FunctionCall>> = match first {
        Some(Ok(Value::Array(items))) if format == ToolFormat::Mistral => items.into_iter().map(call).collect(),
        Some(Ok(item)) => call(item).map(|call| vec![call]),
        _ => None,
    };
    found.unwrap_or_default()
}

fn call(value: Value) -> Option<FunctionCall> {
    let Value::Object(mut fields) = value else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    // Models confuse the two names.
    let arguments = ["arguments", "parameters"].into_iter().find_map(|field| fields.remove(field));
    let arguments = match arguments {
        None | Some(Value::Null) => Value::Object(Map::new()),
        // Arguments encoded as a string. Invalid JSON is kept, and rejected by the tool's schema.
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some(arguments) => arguments,
    };
    (!name.is_empty()).then_some(FunctionCall { name, arguments })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(format: ToolFormat, pieces: &[&str], is_truncated: bool) -> (String, Vec<FunctionCall>) {
        let mut reader = ToolCallReader::new(format);
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&reader.push(piece).text);
        }
        let (rest, calls) = reader.finish(is_truncated);
        (text + &rest, calls)
    }

    fn call(name: &str, arguments: Value) -> FunctionCall {
        FunctionCall { name: name.to_owned(), arguments }
    }

    #[test]
    fn calls_are_parsed_and_never_shown() {
        use ToolFormat::{Hermes, Llama, Mistral};
        let a = || call("a", json!({"x": 1}));
        let b = || call("b", json!({}));
        for (format, reply, text, calls) in [
            (Hermes, "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>", "", vec![a()]),
            (
                Hermes,
                "Let me look.\n\n<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":1}}</tool_call>\n\
                 <tool_call>{\"name\":\"b\"}</tool_call>\n",
                "Let me look.",
                vec![a(), b()],
            ),
            // The end may be missing, and its marker may occur in an argument.
            (Hermes, "<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":1}}", "", vec![a()]),
            (
                Hermes,
                "<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":\"\\\"</tool_call>\"}}</tool_call>",
                "",
                vec![call("a", json!({"x": "\"</tool_call>"}))],
            ),
            (Hermes, "1 < 2 and <tool>\n", "1 < 2 and <tool>\n", vec![]),
            (Hermes, "<tool_call>no json</tool_call>", "<tool_call>no json</tool_call>", vec![]),
            (
                Mistral,
                "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {\"x\": 1}}, {\"name\":\"b\"}]",
                "",
                vec![a(), b()],
            ),
            (Mistral, "Well [TOOL", "Well [TOOL", vec![]),
            (Llama, "{\"name\": \"a\", \"parameters\": {\"x\": 1}}", "", vec![a()]),
            (Llama, "\n{\"type\": \"function\", \"name\": \"a\", \"parameters\": \"{\\\"x\\\": 1}\"} ", "", vec![a()]),
            (Llama, "{\"nam\": 1}", "{\"nam\": 1}", vec![]),
            (Llama, "So: {\"name\": \"a\"}", "So: {\"name\": \"a\"}", vec![]),
            (Llama, " {", " {", vec![]),
        ] {
            assert_eq!(read(format, &[reply], false), (text.to_owned(), calls), "{reply}");
        }
    }

    #[test]
    fn truncated_call_is_neither_text_nor_call() {
        let reply = "Wait. <tool_call>{\"name\": \"a\", \"argu";
        assert_eq!(read(ToolFormat::Hermes, &[reply], true), ("Wait.".to_owned(), vec![]));
        assert_eq!(read(ToolFormat::Llama, &["{\"name\": \"a\", \"par"], true), (String::new(), vec![]));
        // An incomplete call that the model ended itself is shown as text.
        assert_eq!(read(ToolFormat::Hermes, &["<tool_call>{\"na"], false).0, "<tool_call>{\"na");
    }

    #[test]
    fn call_start_and_end_are_reported() {
        let mut reader = ToolCallReader::new(ToolFormat::Hermes);
        assert_eq!(reader.push("Hm <tool"), ReadResult { text: "Hm".to_owned(), change: None });
        let begun = ReadResult { text: String::new(), change: Some(Change::Begun("\n{".to_owned())) };
        assert_eq!(reader.push("_call>\n{"), begun);
        assert_eq!(reader.push("\"name\":\"a\"}</tool_call"), ReadResult::default());
        assert_eq!(reader.push(">\n").change, Some(Change::Ended));
        assert_eq!(reader.push("<tool_call>").change, Some(Change::Begun(String::new())));
    }

    #[test]
    fn number_of_calls_is_bounded() {
        let reply = "<tool_call>{\"name\":\"a\"}</tool_call>".repeat(100);
        assert_eq!(read(ToolFormat::Hermes, &[&reply], false).1.len(), MAX_CALLS);
    }

    proptest! {
        #[test]
        fn result_is_independent_of_chunk_boundaries(
            parts in prop::collection::vec(
                "(<tool_call>|</tool_call>|\\[TOOL_CALLS\\]|\\{\"name\": ?\"a\"(, \"arguments\": \\{\"é\": \"<\\\\\"\"\\})?\\}|\\[|\\]| |\n|[<a\"é]){0,3}",
                0..6,
            ),
            cuts in prop::collection::vec(1usize..5, 0..60),
            is_truncated in any::<bool>(),
        ) {
            let whole = parts.concat();
            let mut pieces = Vec::new();
            let mut rest = whole.as_str();
            for cut in cuts {
                let at = (cut.min(rest.len())..=rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap();
                let (piece, tail) = rest.split_at(at);
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            for format in ToolFormat::ALL {
                prop_assert_eq!(read(format, &pieces, is_truncated), read(format, &[&whole], is_truncated));
            }
        }
    }
}
