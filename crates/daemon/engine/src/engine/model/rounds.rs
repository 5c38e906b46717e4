//! What an agent did for a reply: rounds of words and tool calls.

use agentd_base::Timestamp;
use agentd_llm::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::approval::ApprovalStatus;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It waits for an approval.
    Waiting,
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
    /// Where the text of `output` comes from, where others wrote it: the model read it as untrusted.
    #[serde(default = "unknown_source")]
    #[schema(required, value_type = Option<String>)]
    pub untrusted_source: Option<String>,
    /// Time from the start of the tool to its result; null where it did not run or has not ended.
    #[serde(default)]
    #[schema(required)]
    pub duration_ms: Option<u64>,
    /// The approval that the call needed; null where it needed none.
    #[serde(default)]
    #[schema(required)]
    pub approval: Option<CallApproval>,
}

/// An approval that a call needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallApproval {
    pub id: String,
    pub status: ApprovalStatus,
}

/// Of a result that was stored without its source.
pub(crate) fn unknown_source() -> Option<String> {
    Some("a result of an earlier version".to_owned())
}

/// The name under which a plan stands among the steps of a reply.
pub(crate) const PLAN: &str = "plan";

impl CallRecord {
    /// Whether a tool was run for it; of a plan, which is kept as a call, none was.
    pub(crate) fn has_begun(&self) -> bool {
        self.tool != PLAN && matches!(self.status, CallStatus::Done | CallStatus::Failed | CallStatus::Unknown)
    }
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
pub(crate) struct Outcome {
    pub(crate) output: Value,
    pub(crate) status: CallStatus,
    /// Where its text comes from, where others wrote it.
    #[serde(default = "unknown_source")]
    pub(crate) untrusted_source: Option<String>,
}

impl Outcome {
    pub(crate) fn done(output: Value) -> Self {
        Self { output, status: CallStatus::Done, untrusted_source: None }
    }

    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Self::refused(CallStatus::Failed, sentence)
    }

    pub(crate) fn refused(status: CallStatus, sentence: impl Into<String>) -> Self {
        Self { output: json!({"error": sentence.into()}), status, untrusted_source: None }
    }

    /// The same, whose text others wrote.
    pub(crate) fn with_source(self, untrusted_source: Option<String>) -> Self {
        Self { untrusted_source, ..self }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status != CallStatus::Done
    }
}

/// A call on its way: what the model asked for, who must agree, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallProgress {
    pub(crate) id: String,
    pub(crate) call: ToolCall,
    pub(crate) approval_id: Option<String>,
    /// What the tool was when its owner was asked about it.
    #[serde(default)]
    pub(crate) tool_fingerprint: Option<String>,
    /// It was let run: from there on it may have had an effect.
    #[serde(default)]
    pub(crate) has_begun: bool,
    #[serde(default)]
    pub(crate) began_at: Option<Timestamp>,
    #[serde(default)]
    pub(crate) ended_at: Option<Timestamp>,
    /// The owner's decision; `None` while there is none.
    #[serde(default)]
    pub(crate) decision: Option<ApprovalStatus>,
    pub(crate) outcome: Option<Outcome>,
}

impl CallProgress {
    pub(crate) fn new(id: String, call: ToolCall) -> Self {
        Self {
            id,
            call,
            approval_id: None,
            tool_fingerprint: None,
            has_begun: false,
            began_at: None,
            ended_at: None,
            decision: None,
            outcome: None,
        }
    }

    /// What is kept of it if the turn ends now.
    pub(crate) fn record(&self) -> CallRecord {
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
            untrusted_source: self.outcome.as_ref().and_then(|outcome| outcome.untrusted_source.clone()),
            duration_ms: elapsed_ms(self.began_at, self.ended_at),
            approval: self
                .approval_id
                .as_ref()
                .map(|id| CallApproval { id: id.clone(), status: self.decision.unwrap_or(ApprovalStatus::Cancelled) }),
        }
    }
}

/// Milliseconds between two times that are both known.
pub(crate) fn elapsed_ms(began_at: Option<Timestamp>, ended_at: Option<Timestamp>) -> Option<u64> {
    u64::try_from(ended_at?.since(began_at?).as_millis()).ok()
}

/// Events carry objects; what a model wrote instead is shown inside one.
pub(crate) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => Value::Object(Map::new()),
        other => json!({ "input": other }),
    }
}

/// Ends the calls that are still open when a turn ends.
pub(crate) fn close_calls(rounds: &mut [Round]) {
    for call in rounds.iter_mut().flat_map(|round| round.calls.iter_mut()) {
        match call.status {
            CallStatus::Running => call.status = CallStatus::Unknown,
            CallStatus::Waiting => call.status = CallStatus::Cancelled,
            _ => {}
        }
        if let Some(approval) = call.approval.as_mut().filter(|approval| approval.status == ApprovalStatus::Pending) {
            approval.status = ApprovalStatus::Cancelled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_began_had_no_effect() {
        let mut progress = CallProgress::new("0.0".to_owned(), ToolCall::new("v", "shell", json!({})));
        let record = progress.record();
        assert_eq!(record.status, CallStatus::Cancelled);
        let written = serde_json::to_value(&record).unwrap();
        assert_eq!(written.get("output"), Some(&Value::Null), "always there");
        progress.has_begun = true;
        assert_eq!(progress.record().status, CallStatus::Unknown);
    }
}
