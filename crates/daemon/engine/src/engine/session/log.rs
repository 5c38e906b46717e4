//! Reconstructs the content of a session from its stored log.

use std::collections::HashMap;

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError};
use serde_json::Value;

use crate::engine::model::{
    ApprovalStatus, CallApproval, CallRecord, CallStatus, EventKind, Round, Session, SessionEvent, elapsed_ms,
    unknown_source,
};
use crate::engine::store;

const EVENT_BATCH_SIZE: u32 = 1_000;

/// Collects the text and the rounds of a log event by event. Without tool calls there are no rounds.
#[derive(Default)]
struct LogReader {
    content: String,
    rounds: Vec<Round>,
    text: String,
    /// Round of the most recent call.
    round: Option<u64>,
    /// Start of each call.
    began: HashMap<String, Timestamp>,
}

impl LogReader {
    fn apply(&mut self, event: &SessionEvent) {
        match event.kind {
            EventKind::Token => {
                let data = event.value();
                let piece = data["content"].as_str().unwrap_or_default();
                self.content.push_str(piece);
                self.text.push_str(piece);
            }
            EventKind::ToolUse => self.apply_tool_use(event),
            EventKind::ToolResult => self.apply_tool_result(event),
            EventKind::ApprovalRequest => self.apply_approval_request(&event.value()),
            EventKind::Start | EventKind::Done | EventKind::Error => {}
        }
    }

    /// Returns the call of an event; adds it if it is new.
    fn call(&mut self, data: &Value, round: u64) -> &mut CallRecord {
        if self.round != Some(round) || self.rounds.is_empty() {
            self.round = Some(round);
            let text = std::mem::take(&mut self.text).trim_start_matches('\n').to_owned();
            self.rounds.push(Round { text, calls: Vec::new() });
        }
        let last = self.rounds.len() - 1;
        let calls = &mut self.rounds[last].calls;
        let id = data["call_id"].as_str().unwrap_or_default();
        let at = calls.iter().position(|call| call.id == id).unwrap_or_else(|| {
            calls.push(CallRecord {
                id: id.to_owned(),
                tool: data["tool"].as_str().unwrap_or_default().to_owned(),
                input: data["input"].clone(),
                output: None,
                status: CallStatus::Running,
                untrusted_source: None,
                duration_ms: None,
                approval: None,
            });
            calls.len() - 1
        });
        &mut calls[at]
    }

    fn apply_approval_request(&mut self, data: &Value) {
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        // A call's id starts with the number of its round.
        let round = text("call_id").split('.').next().and_then(|round| round.parse().ok()).unwrap_or_default();
        let approval = CallApproval { id: text("approval_id").to_owned(), status: ApprovalStatus::Pending };
        let call = self.call(data, round);
        call.status = CallStatus::Waiting;
        call.approval = Some(approval);
    }

    fn apply_tool_use(&mut self, event: &SessionEvent) {
        let data = event.value();
        let call = self.call(&data, data["round"].as_u64().unwrap_or_default());
        call.status = CallStatus::Running;
        if let Some(approval) = &mut call.approval {
            approval.status = ApprovalStatus::Approved;
        }
        if let (id, Some(at)) = (call.id.clone(), event.at) {
            self.began.insert(id, at);
        }
    }

    fn apply_tool_result(&mut self, event: &SessionEvent) {
        let data = event.value();
        let began_at = data["call_id"].as_str().and_then(|id| self.began.get(id).copied());
        let call = self.call(&data, data["round"].as_u64().unwrap_or_default());
        call.status = serde_json::from_value(data["status"].clone()).unwrap_or(CallStatus::Failed);
        call.output = Some(data["output"].clone());
        call.untrusted_source = match data.get("untrusted_source") {
            Some(source) => source.as_str().map(str::to_owned),
            None => unknown_source(),
        };
        call.duration_ms = elapsed_ms(began_at, event.at);
        if let Some(approval) = &mut call.approval {
            approval.status = match call.status {
                CallStatus::Rejected => ApprovalStatus::Rejected,
                CallStatus::Expired => ApprovalStatus::Expired,
                _ => ApprovalStatus::Approved,
            };
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

/// Stored content of a session.
pub(crate) struct StoredLog {
    /// Complete text.
    pub(crate) content: String,
    pub(crate) rounds: Vec<Round>,
    /// Sequence number of the last event.
    pub(crate) last_seq: u64,
}

pub(crate) async fn read_log(read: &mut Read, session: &Session) -> Result<StoredLog, StoreError> {
    let (mut reader, mut seen) = (LogReader::default(), 0);
    loop {
        let events = store::list_events(read, &session.id, seen, EVENT_BATCH_SIZE).await?;
        for event in &events {
            seen = event.seq;
            reader.apply(event);
        }
        if events.len() < EVENT_BATCH_SIZE as usize {
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
            reader.apply(&event);
        }
        reader.finish()
    }

    #[test]
    fn log_is_reconstructed_as_rounds() {
        let progress = |id: &str, name: &str| CallProgress {
            has_begun: true,
            ..CallProgress::new(id.to_owned(), ToolCall::new("v", name, json!({"a": 1})))
        };
        let done = Outcome::done(json!({"text": "x"})).with_source(Some("a web page".to_owned()));
        let events = [
            SessionEvent::token(1, "Let me look."),
            SessionEvent::tool_use(2, 0, &progress("0.0", "read_file")),
            SessionEvent::tool_use(3, 0, &progress("0.1", "shell")).at(Timestamp::from_micros(1_000_000)),
            SessionEvent::tool_result(4, 0, &progress("0.1", "shell"), &done).at(Timestamp::from_micros(1_250_000)),
            SessionEvent::token(5, "\n\nNow this."),
            SessionEvent::tool_use(6, 1, &progress("1.0", "shell")),
        ];
        let (content, mut rounds) = read_back(events);
        assert_eq!(content, "Let me look.\n\nNow this.");
        assert_eq!(rounds.len(), 3);
        assert_eq!((rounds[0].text.as_str(), rounds[1].text.as_str()), ("Let me look.", "Now this."));
        assert_eq!((rounds[0].calls[1].status, rounds[0].calls[1].duration_ms), (CallStatus::Done, Some(250)));
        assert_eq!(rounds[0].calls[1].untrusted_source.as_deref(), Some("a web page"));
        close_calls(&mut rounds);
        assert_eq!(rounds[0].calls[0].status, CallStatus::Unknown);
    }

    #[test]
    fn approval_requests_are_reconstructed_with_their_decisions() {
        let request = |call_id: &str| {
            let data = json!({"approval_id": "appr_1", "tool": "shell", "input": {}, "call_id": call_id});
            SessionEvent::new(1, EventKind::ApprovalRequest, &data)
        };
        let status = |mut rounds: Vec<Round>| {
            let call = rounds.remove(0).calls.remove(0);
            (call.status, call.approval.unwrap().status)
        };
        let progress = CallProgress {
            approval_id: Some("appr_1".to_owned()),
            ..CallProgress::new("0.0".to_owned(), ToolCall::new("v", "shell", json!({})))
        };
        let (_, mut rounds) = read_back([request("0.0")]);
        assert_eq!(status(rounds.clone()), (CallStatus::Waiting, ApprovalStatus::Pending));
        close_calls(&mut rounds);
        assert_eq!(status(rounds), (CallStatus::Cancelled, ApprovalStatus::Cancelled));
        let (_, rounds) = read_back([request("0.0"), SessionEvent::tool_use(2, 0, &progress)]);
        assert_eq!(status(rounds), (CallStatus::Running, ApprovalStatus::Approved));
        let rejected = Outcome::refused(CallStatus::Rejected, "the owner rejected the call");
        let (_, rounds) = read_back([request("0.0"), SessionEvent::tool_result(2, 0, &progress, &rejected)]);
        assert_eq!(status(rounds), (CallStatus::Rejected, ApprovalStatus::Rejected));
    }

    #[test]
    fn text_without_calls_has_no_rounds() {
        assert_eq!(read_back([SessionEvent::token(1, "hi")]), ("hi".to_owned(), Vec::new()));
    }
}
