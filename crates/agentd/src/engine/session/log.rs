//! A session's log, read back from the store.

use agentd_store::{Read, StoreError};
use serde_json::Value;

use crate::engine::model::{CallRecord, CallStatus, EventKind, Round, Session, SessionEvent, unknown_source};
use crate::engine::store;

const EVENTS_A_READ: u32 = 1_000;

/// Reads a log event by event, into all its words and the rounds that it shows. Where no tool was
/// used there are no rounds.
#[derive(Default)]
struct LogReader {
    content: String,
    rounds: Vec<Round>,
    text: String,
    /// The round whose calls were last seen.
    round: Option<u64>,
}

impl LogReader {
    fn take(&mut self, event: &SessionEvent) {
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
                    untrusted_source: None,
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
        let untrusted_source = match data.get("untrusted_source") {
            Some(source) => source.as_str().map(str::to_owned),
            None => unknown_source(),
        };
        let calls = self.calls_of(data["round"].as_u64().unwrap_or_default());
        match calls.iter_mut().find(|call| call.id == id) {
            Some(call) => {
                call.output = output;
                call.status = status;
                call.untrusted_source = untrusted_source;
            }
            // Refused before it began.
            None => calls.push(CallRecord {
                id,
                tool: data["tool"].as_str().unwrap_or_default().to_owned(),
                input: data["input"].clone(),
                output,
                status,
                untrusted_source,
            }),
        }
    }

    fn finish(mut self) -> (String, Vec<Round>) {
        if !self.rounds.is_empty() {
            let text = self.text.trim_start_matches('\n').to_owned();
            self.rounds.push(Round { text, calls: Vec::new() });
        }
        (self.content, self.rounds)
    }
}

/// What the store holds of a session.
pub(in crate::engine) struct StoredLog {
    /// Everything that was said.
    pub(in crate::engine) content: String,
    pub(in crate::engine) rounds: Vec<Round>,
    /// The number of the last event.
    pub(in crate::engine) last_seq: u64,
}

pub(in crate::engine) async fn read_log(read: &mut Read, session: &Session) -> Result<StoredLog, StoreError> {
    let (mut reader, mut seen) = (LogReader::default(), 0);
    loop {
        let events = store::list_events(read, &session.id, seen, EVENTS_A_READ).await?;
        for event in &events {
            seen = event.seq;
            reader.take(event);
        }
        if events.len() < EVENTS_A_READ as usize {
            let (content, rounds) = reader.finish();
            return Ok(StoredLog { content, rounds, last_seq: seen });
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_llm::ToolCall;
    use serde_json::json;

    use super::*;
    use crate::engine::model::{CallProgress, Outcome, close_calls};

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
        let done = Outcome::done(json!({"text": "x"})).with_source(Some("a web page".to_owned()));
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
        assert_eq!(rounds[0].calls[1].untrusted_source.as_deref(), Some("a web page"));
        close_calls(&mut rounds);
        assert_eq!(rounds[0].calls[0].status, CallStatus::Unknown);
    }

    #[test]
    fn words_alone_make_no_rounds() {
        assert_eq!(read_back([SessionEvent::token(1, "hi")]), ("hi".to_owned(), Vec::new()));
    }
}
