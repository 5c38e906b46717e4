//! What an agent did for a reply: rounds of words and tool calls, and how they are read back from
//! a session's log.

use std::borrow::Cow;

use agentd_llm::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::model::{EventKind, SessionEvent};
use crate::skills::{KeptOutput, MAX_READ_CHARACTERS, ToolError, ToolOutput};

/// A result longer than this is cut in the log and in what is kept of it.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;
/// Of results of earlier turns it is given less: their answers say what mattered.
const MAX_REMEMBERED_CHARACTERS: usize = 2_000;

/// The field of a long result that names the file in the workspace in which it is kept.
const KEPT_IN: &str = "kept_in";
/// The field that says how much of it that file has, where it is not all.
const KEPT_PART: &str = "kept_part";
/// The field that says how much is missing of a result that is too long even for the log.
const LEFT_OUT: &str = "left_out";

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It runs, or waits for its turn.
    Running,
    Done,
    Failed,
    /// Its owner said no.
    Rejected,
    /// Nobody said yes in time.
    Expired,
    /// The turn ended before it began, so it had no effect.
    Cancelled,
    /// The turn ended while it ran; whether it had an effect is not known. It is never run again by
    /// itself.
    Unknown,
}

/// One call of a tool, as it is kept with the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallRecord {
    /// Unique in its session.
    pub id: String,
    pub tool: String,
    #[schema(value_type = Object)]
    pub input: Value,
    /// Null while there is none.
    #[serde(default)]
    #[schema(required, value_type = Option<Object>)]
    pub output: Option<Value>,
    pub status: CallStatus,
}

/// Words, and the calls that followed them. The last round of a reply has words alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
}

/// What came of a call that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) output: Value,
    pub(super) status: CallStatus,
}

impl Outcome {
    pub(super) fn failed(sentence: impl Into<String>) -> Self {
        Self { output: json!({"error": sentence.into()}), status: CallStatus::Failed }
    }

    pub(super) fn refused(status: CallStatus, sentence: impl Into<String>) -> Self {
        Self { output: json!({"error": sentence.into()}), status }
    }

    /// `kept` is where a long result stands.
    pub(super) fn of(result: Result<ToolOutput, ToolError>, kept: Option<KeptOutput>) -> Self {
        match result {
            Ok(output) => {
                let mut output = bounded(output);
                if let Some(KeptOutput { path, bytes, whole_bytes }) = kept {
                    output[KEPT_IN] = path.into();
                    if bytes < whole_bytes {
                        output[KEPT_PART] = format!("the first {bytes} of {whole_bytes} bytes").into();
                    }
                }
                Self { output, status: CallStatus::Done }
            }
            Err(error) => Self::failed(error.to_string()),
        }
    }

    pub(super) fn is_error(&self) -> bool {
        self.status != CallStatus::Done
    }
}

/// A call on its way: what the model asked for, who must agree, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CallProgress {
    pub(super) id: String,
    pub(super) call: ToolCall,
    pub(super) approval_id: Option<String>,
    /// What the tool was when its owner was asked about it.
    #[serde(default)]
    pub(super) tool_fingerprint: Option<String>,
    /// It was let run: from there on it may have had an effect.
    #[serde(default)]
    pub(super) has_begun: bool,
    pub(super) outcome: Option<Outcome>,
}

impl CallProgress {
    /// What is kept of it if the turn ends now.
    pub(super) fn record(&self) -> CallRecord {
        let status = match &self.outcome {
            Some(outcome) => outcome.status,
            None if self.has_begun => CallStatus::Unknown,
            None => CallStatus::Cancelled,
        };
        CallRecord {
            id: self.id.clone(),
            tool: self.call.name.clone(),
            input: as_object(&self.call.input),
            output: self.outcome.as_ref().map(|outcome| outcome.output.clone()),
            status,
        }
    }
}

/// Events carry objects; what a model wrote instead is shown inside one.
pub(super) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => Value::Object(Map::new()),
        other => json!({ "input": other }),
    }
}

/// Keeps a result within bounds: the log, the message and the prompt all carry it.
fn bounded(output: ToolOutput) -> Value {
    let whole_bytes = output.whole_bytes.unwrap_or(0);
    let value = Value::Object(output.value);
    let length = value.to_string().len();
    if length <= MAX_OUTPUT_BYTES {
        return value;
    }
    let text = match value.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let mut end = MAX_OUTPUT_BYTES / 2;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let left_out = whole_bytes.max(text.len()) - end;
    json!({"text": &text[..end], LEFT_OUT: format!("{left_out} bytes; ask for a part of it")})
}

/// A result that a model cannot read in one piece, as it is kept.
pub(super) fn too_long_to_read(output: &ToolOutput) -> Option<Cow<'_, str>> {
    if let Some(whole) = &output.whole {
        return Some(Cow::Borrowed(whole));
    }
    let is_too_long = output.for_model().chars().nth(MAX_READ_CHARACTERS).is_some();
    is_too_long.then(|| Cow::Owned(output.in_lines()))
}

/// What a model reads of a result in the turn that made it.
pub(super) fn read_by_model(output: &Value) -> String {
    shortened(output, MAX_READ_CHARACTERS)
}

/// What it reads of it later.
pub(super) fn remembered_by_model(record: &CallRecord) -> String {
    match (&record.output, record.status) {
        (Some(output), _) => shortened(output, MAX_REMEMBERED_CHARACTERS),
        (None, CallStatus::Unknown) => {
            "There is no result: the turn ended while this ran, and it may or may not have taken effect. Look before \
             you do it again."
                .to_owned()
        }
        (None, CallStatus::Cancelled) => "It was not run: the turn ended before it began.".to_owned(),
        (None, _) => "There is no result.".to_owned(),
    }
}

/// Whether this is what [`bounded`] makes of a long result, and is cut again.
fn is_bounded(value: &Map<String, Value>, limit: usize) -> bool {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    value.len() == 2 && text(LEFT_OUT).is_some() && text("text").is_some_and(|text| text.chars().nth(limit).is_some())
}

fn shortened(output: &Value, limit: usize) -> String {
    let (text, kept, gone) = match output {
        Value::Object(value) => {
            let mut value = value.clone();
            let kept = (value.remove(KEPT_IN), value.remove(KEPT_PART));
            let gone = if is_bounded(&value, limit) { value.remove(LEFT_OUT) } else { None };
            (ToolOutput { value, ..ToolOutput::default() }.for_model(), kept, gone)
        }
        other => (other.to_string(), (None, None), None),
    };
    let kept_in = kept.0.as_ref().and_then(Value::as_str).map(|path| {
        let path = format!("the file {path} of your workspace");
        match kept.1.as_ref().and_then(Value::as_str) {
            Some(part) => format!(
                "{part} of the result are kept in {path}, read them with read_file; for what comes after them, write \
                 it to a file yourself or ask for a smaller part"
            ),
            None => format!("the result is kept in {path}, read it with read_file"),
        }
    });
    let gone = gone.as_ref().and_then(Value::as_str).and_then(|gone| gone.split(' ').next());
    let Some((end, _)) = text.char_indices().nth(limit) else {
        // Short enough, and yet not all.
        return match kept_in {
            Some(kept_in) => format!("{text}\n[… some of it was left out; {kept_in}]"),
            None => text,
        };
    };
    let left_out = text[end..].chars().count();
    let more = gone.map(|bytes| format!(", and {bytes} bytes after them,")).unwrap_or_default();
    let remedy = kept_in.unwrap_or_else(|| "ask for a smaller part to see them".to_owned());
    format!("{}\n[… {left_out} more characters{more} were left out; {remedy}]", &text[..end])
}

/// Reads a log event by event, into all its words and the rounds that it shows. Where no tool was
/// used there are no rounds.
#[derive(Default)]
pub(super) struct LogReader {
    content: String,
    rounds: Vec<Round>,
    text: String,
    /// The round whose calls were last seen.
    round: Option<u64>,
}

impl LogReader {
    pub(super) fn take(&mut self, event: &SessionEvent) {
        match event.kind {
            EventKind::Token => {
                let data = event.value();
                let piece = data["content"].as_str().unwrap_or_default();
                self.content.push_str(piece);
                self.text.push_str(piece);
            }
            EventKind::ToolUse => {
                let data = event.value();
                self.calls_of(data["round"].as_u64().unwrap_or_default()).push(CallRecord {
                    id: data["call_id"].as_str().unwrap_or_default().to_owned(),
                    tool: data["tool"].as_str().unwrap_or_default().to_owned(),
                    input: data["input"].clone(),
                    output: None,
                    status: CallStatus::Running,
                });
            }
            EventKind::ToolResult => self.take_result(&event.value()),
            EventKind::Start | EventKind::ApprovalRequest | EventKind::Done | EventKind::Error => {}
        }
    }

    fn calls_of(&mut self, round: u64) -> &mut Vec<CallRecord> {
        if self.round != Some(round) || self.rounds.is_empty() {
            self.round = Some(round);
            let text = std::mem::take(&mut self.text).trim_start_matches('\n').to_owned();
            self.rounds.push(Round { text, calls: Vec::new() });
        }
        let last = self.rounds.len() - 1;
        &mut self.rounds[last].calls
    }

    fn take_result(&mut self, data: &Value) {
        let id = data["call_id"].as_str().unwrap_or_default().to_owned();
        let status = serde_json::from_value(data["status"].clone()).unwrap_or(CallStatus::Failed);
        let output = Some(data["output"].clone());
        let calls = self.calls_of(data["round"].as_u64().unwrap_or_default());
        match calls.iter_mut().find(|call| call.id == id) {
            Some(call) => {
                call.output = output;
                call.status = status;
            }
            // Refused before it began.
            None => calls.push(CallRecord {
                id,
                tool: data["tool"].as_str().unwrap_or_default().to_owned(),
                input: data["input"].clone(),
                output,
                status,
            }),
        }
    }

    pub(super) fn finish(mut self) -> (String, Vec<Round>) {
        if !self.rounds.is_empty() {
            let text = self.text.trim_start_matches('\n').to_owned();
            self.rounds.push(Round { text, calls: Vec::new() });
        }
        (self.content, self.rounds)
    }
}

/// After the end nothing runs any more.
pub(super) fn close_calls(rounds: &mut [Round]) {
    for call in rounds.iter_mut().flat_map(|round| round.calls.iter_mut()) {
        if call.status == CallStatus::Running {
            call.status = CallStatus::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(events: impl IntoIterator<Item = SessionEvent>) -> (String, Vec<Round>) {
        let mut reader = LogReader::default();
        for event in events {
            reader.take(&event);
        }
        reader.finish()
    }

    #[test]
    fn a_log_is_read_back_into_rounds() {
        let progress = |id: &str, name: &str| CallProgress {
            id: id.to_owned(),
            call: ToolCall::new("v", name, json!({"a": 1})),
            approval_id: None,
            tool_fingerprint: None,
            has_begun: true,
            outcome: None,
        };
        let done = Outcome { output: json!({"text": "x"}), status: CallStatus::Done };
        let events = [
            SessionEvent::token(1, "Let me look."),
            SessionEvent::tool_use(2, 0, &progress("0.0", "read_file")),
            SessionEvent::tool_use(3, 0, &progress("0.1", "shell")),
            SessionEvent::tool_result(4, 0, &progress("0.1", "shell"), &done),
            SessionEvent::token(5, "\n\nNow this."),
            SessionEvent::tool_use(6, 1, &progress("1.0", "shell")),
        ];
        let (content, mut rounds) = read_back(events);
        assert_eq!(content, "Let me look.\n\nNow this.");
        assert_eq!(rounds.len(), 3);
        assert_eq!((rounds[0].text.as_str(), rounds[1].text.as_str()), ("Let me look.", "Now this."));
        assert_eq!(rounds[0].calls[1].status, CallStatus::Done);
        close_calls(&mut rounds);
        assert_eq!(rounds[0].calls[0].status, CallStatus::Unknown);
        assert!(remembered_by_model(&rounds[1].calls[0]).contains("may or may not"));
    }

    #[test]
    fn a_call_that_never_began_had_no_effect() {
        let mut progress = CallProgress {
            id: "0.0".to_owned(),
            call: ToolCall::new("v", "shell", json!({})),
            approval_id: None,
            tool_fingerprint: None,
            has_begun: false,
            outcome: None,
        };
        let record = progress.record();
        assert_eq!(record.status, CallStatus::Cancelled);
        let written = serde_json::to_value(&record).unwrap();
        assert_eq!(written.get("output"), Some(&Value::Null), "always there");
        assert!(remembered_by_model(&record).contains("was not run"));
        progress.has_begun = true;
        assert_eq!(progress.record().status, CallStatus::Unknown);
    }

    #[test]
    fn words_alone_make_no_rounds() {
        assert_eq!(read_back([SessionEvent::token(1, "hi")]), ("hi".to_owned(), Vec::new()));
    }

    #[test]
    fn long_results_are_cut_at_a_character() {
        let outcome = Outcome::of(Ok(ToolOutput::text("é".repeat(MAX_OUTPUT_BYTES))), None);
        assert!(outcome.output.to_string().len() <= MAX_OUTPUT_BYTES);
        assert!(outcome.output["left_out"].as_str().unwrap().contains("bytes"));
        let text = read_by_model(&json!({"text": "é".repeat(MAX_READ_CHARACTERS + 7)}));
        assert!(text.ends_with("[… 7 more characters were left out; ask for a smaller part to see them]"));
        let long = ToolOutput::text("é".repeat(MAX_READ_CHARACTERS + 7));
        assert!(too_long_to_read(&long).is_some() && too_long_to_read(&ToolOutput::text("short")).is_none());
        let file = KeptOutput { path: "a/b.txt".to_owned(), bytes: 60_014, whole_bytes: 60_014 };
        let text = read_by_model(&Outcome::of(Ok(long.clone()), Some(file.clone())).output);
        let kept = "the result is kept in the file a/b.txt of your workspace, read it with read_file]";
        assert!(text.ends_with(kept), "{text}");
        let text = read_by_model(&Outcome::of(Ok(long), Some(KeptOutput { bytes: 50_000, ..file.clone() })).output);
        assert!(text.contains("; the first 50000 of 60014 bytes of the result are kept in the file a/b.txt"), "{text}");
        // What a tool cut itself may be short enough to read.
        let cut = ToolOutput { whole: Some("all".to_owned()), ..ToolOutput::text("al") };
        assert_eq!(too_long_to_read(&cut).as_deref(), Some("all"));
        let text = read_by_model(&Outcome::of(Ok(cut), Some(file)).output);
        assert!(text.starts_with("al\n[… some of it was left out; the result is kept in"), "{text}");
    }

    #[test]
    fn what_a_tool_left_out_itself_counts() {
        let output = ToolOutput { whole_bytes: Some(9_000_000), ..ToolOutput::text("x".repeat(MAX_OUTPUT_BYTES)) };
        let outcome = Outcome::of(Ok(output), None);
        let gone = 9_000_000 - MAX_OUTPUT_BYTES / 2;
        assert_eq!(outcome.output["left_out"], format!("{gone} bytes; ask for a part of it"));
        let read = read_by_model(&outcome.output);
        assert!(
            read.starts_with("xxx") && read.contains(&format!("and {gone} bytes after them")),
            "{}",
            &read[30_000..]
        );
    }
}
