//! Reads calls out of a reply while it is written.
//!
//! Invariants: however the reply is cut into pieces, the same text and the same calls come out; nothing of a
//! call that can be read is shown as text, and nothing else is kept back, except for a call that the output
//! limit cut off.

use serde_json::{Deserializer, Map, Value};

use super::ToolFormat;
use crate::FunctionCall;
use crate::worker::text::overlap;

/// Of one reply. What a model makes beyond is not a plan any more.
const MAX_CALLS: usize = 16;

/// What a piece led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// To be shown.
    pub(crate) text: String,
    pub(crate) change: Option<Change>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A call has begun, and so much of it is written.
    Begun(String),
    /// The reply is text again.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A call may begin.
    Text,
    Call,
    /// No call can come any more.
    TextAlone,
}

#[derive(Debug)]
pub(crate) struct ToolCallReader {
    format: ToolFormat,
    state: State,
    /// Text that a call may begin with; in a call, its body.
    held: String,
    calls: Vec<FunctionCall>,
}

/// Where a call begins in a text.
enum Begin {
    /// The text before it, and where its body is.
    At {
        text: usize,
        body: usize,
    },
    /// Not yet: so much of the text is surely none.
    After(usize),
    Never,
}

impl ToolCallReader {
    pub(crate) fn new(format: ToolFormat) -> Self {
        Self { format, state: State::Text, held: String::new(), calls: Vec::new() }
    }

    /// Takes more of the reply.
    pub(crate) fn push(&mut self, piece: &str) -> Read {
        let was_in_call = self.state == State::Call;
        let (mut text, mut has_begun) = (String::new(), false);
        self.held.push_str(piece);
        loop {
            match self.state {
                State::Text => match begin(self.format, &self.held) {
                    Begin::At { text: before, body } => {
                        text.push_str(&self.held[..before]);
                        self.held.drain(..body);
                        self.state = State::Call;
                        has_begun = true;
                    }
                    Begin::After(shown) => {
                        text.extend(self.held.drain(..shown));
                        break;
                    }
                    Begin::Never => self.state = State::TextAlone,
                },
                State::Call => {
                    let Some((body, after)) = end(self.format, &self.held) else { break };
                    let whole: String = self.held.drain(..after).collect();
                    text.push_str(&self.take(&whole[..body], &whole[body..]));
                    self.state = State::Text;
                    has_begun = false;
                }
                State::TextAlone => {
                    text.push_str(&std::mem::take(&mut self.held));
                    break;
                }
            }
        }
        let change = match self.state {
            State::Call if has_begun => Some(Change::Begun(self.held.clone())),
            State::Text | State::TextAlone if was_in_call => Some(Change::Ended),
            _ => None,
        };
        Read { text, change }
    }

    /// The end of the reply: what was held back, and the calls. `is_cut`: it is not the model's own end.
    pub(crate) fn finish(mut self, is_cut: bool) -> (String, Vec<FunctionCall>) {
        let held = std::mem::take(&mut self.held);
        let text = match self.state {
            State::Call => {
                let unread = self.take(&held, "");
                if is_cut { String::new() } else { unread }
            }
            _ if self.calls.is_empty() => held,
            // The space between and after calls is theirs.
            _ => held.trim_end().to_owned(),
        };
        (text, self.calls)
    }

    /// Notes the calls in `body`, or gives back as text what cannot be read.
    fn take(&mut self, body: &str, end: &str) -> String {
        let calls = calls(self.format, body);
        if calls.is_empty() {
            let begin = self.format.delimiters().first().copied().unwrap_or_default();
            return format!("{begin}{body}{end}");
        }
        let room = MAX_CALLS.saturating_sub(self.calls.len());
        self.calls.extend(calls.into_iter().take(room));
        String::new()
    }
}

fn begin(format: ToolFormat, held: &str) -> Begin {
    let Some(delimiter) = format.delimiters().first() else { return begin_of_object(held) };
    match held.find(delimiter) {
        // The space before a call belongs to it.
        Some(at) => Begin::At { text: held[..at].trim_end().len(), body: at + delimiter.len() },
        None => Begin::After(held[..held.len() - overlap(held, delimiter)].trim_end().len()),
    }
}

/// Whether the whole reply is a call, as far as can be said.
fn begin_of_object(held: &str) -> Begin {
    const BEGINNINGS: [&str; 2] = ["{\"name\":", "{\"type\":\"function\",\"name\":"];
    let dense: String = held.chars().filter(|character| !character.is_whitespace()).take(40).collect();
    if BEGINNINGS.iter().any(|begin| dense.starts_with(begin)) {
        Begin::At { text: 0, body: 0 }
    } else if BEGINNINGS.iter().any(|begin| begin.starts_with(&dense)) {
        Begin::After(0)
    } else {
        Begin::Never
    }
}

/// Where the body of a call ends, and where what follows begins.
fn end(format: ToolFormat, held: &str) -> Option<(usize, usize)> {
    let delimiter = format.delimiters().get(1)?;
    let found = held.match_indices(delimiter).find(|(at, _)| !is_in_string(&held[..*at]));
    found.map(|(at, _)| (at, at + delimiter.len()))
}

/// Whether a JSON text stops within a string.
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

/// The calls in the JSON value that `body` begins with; nothing if any of them is none.
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
        // Written as text within the text. What is no JSON stays as it is, and its tool's schema refuses it.
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

    fn read(format: ToolFormat, pieces: &[&str], is_cut: bool) -> (String, Vec<FunctionCall>) {
        let mut reader = ToolCallReader::new(format);
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&reader.push(piece).text);
        }
        let (rest, calls) = reader.finish(is_cut);
        (text + &rest, calls)
    }

    fn call(name: &str, arguments: Value) -> FunctionCall {
        FunctionCall { name: name.to_owned(), arguments }
    }

    #[test]
    fn calls_are_read_and_never_shown() {
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
            // The end may be forgotten, and its marker may stand in an argument.
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
    fn what_the_limit_cuts_off_is_neither_text_nor_a_call() {
        let reply = "Wait. <tool_call>{\"name\": \"a\", \"argu";
        assert_eq!(read(ToolFormat::Hermes, &[reply], true), ("Wait.".to_owned(), vec![]));
        assert_eq!(read(ToolFormat::Llama, &["{\"name\": \"a\", \"par"], true), (String::new(), vec![]));
        // What a model ends there itself is shown as it is.
        assert_eq!(read(ToolFormat::Hermes, &["<tool_call>{\"na"], false).0, "<tool_call>{\"na");
    }

    #[test]
    fn the_beginning_and_the_end_of_a_call_are_told_as_they_come() {
        let mut reader = ToolCallReader::new(ToolFormat::Hermes);
        assert_eq!(reader.push("Hm <tool"), Read { text: "Hm".to_owned(), change: None });
        let begun = Read { text: String::new(), change: Some(Change::Begun("\n{".to_owned())) };
        assert_eq!(reader.push("_call>\n{"), begun);
        assert_eq!(reader.push("\"name\":\"a\"}</tool_call"), Read::default());
        assert_eq!(reader.push(">\n").change, Some(Change::Ended));
        assert_eq!(reader.push("<tool_call>").change, Some(Change::Begun(String::new())));
    }

    #[test]
    fn a_reply_of_calls_alone_is_bounded() {
        let reply = "<tool_call>{\"name\":\"a\"}</tool_call>".repeat(100);
        assert_eq!(read(ToolFormat::Hermes, &[&reply], false).1.len(), MAX_CALLS);
    }

    proptest! {
        #[test]
        fn how_a_reply_is_cut_makes_no_difference(
            parts in prop::collection::vec(
                "(<tool_call>|</tool_call>|\\[TOOL_CALLS\\]|\\{\"name\": ?\"a\"(, \"arguments\": \\{\"é\": \"<\\\\\"\"\\})?\\}|\\[|\\]| |\n|[<a\"é]){0,3}",
                0..6,
            ),
            cuts in prop::collection::vec(1usize..5, 0..60),
            is_cut in any::<bool>(),
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
                prop_assert_eq!(read(format, &pieces, is_cut), read(format, &[&whole], is_cut));
            }
        }
    }
}
