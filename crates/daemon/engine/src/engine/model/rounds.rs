//! Work of an agent for a reply: rounds of text and tool calls.

use agentd_base::Timestamp;
use agentd_llm::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::approval::ApprovalStatus;

/// State of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Waits for an approval.
    Waiting,
    /// Runs, or waits for a free slot.
    Running,
    /// Completed.
    Done,
    /// Ended with an error.
    Failed,
    /// The owner rejected it.
    Rejected,
    /// The approval expired.
    Expired,
    /// The turn ended before the call started, so it had no effect.
    Cancelled,
    /// The turn ended while the call ran; it may have had an effect. It is never repeated automatically.
    Unknown,
}

/// A tool call, as stored with the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallRecord {
    /// Id of the call, unique in its session.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Input of the call, as sent by the model; any value that is not an object is wrapped as `input`.
    #[schema(value_type = Object)]
    pub input: Value,
    /// Result of the call; null while there is none.
    #[serde(default)]
    #[schema(required, value_type = Option<Object>)]
    pub output: Option<Value>,
    pub status: CallStatus,
    /// Source of `output` if it is untrusted; null if it is trusted.
    #[serde(default = "unknown_source")]
    #[schema(required, value_type = Option<String>)]
    pub untrusted_source: Option<String>,
    /// Run time of the tool in milliseconds; null if it did not run or has not ended.
    #[serde(default)]
    #[schema(required)]
    pub duration_ms: Option<u64>,
    /// Approval that the call required; null if none.
    #[serde(default)]
    #[schema(required)]
    pub approval: Option<CallApproval>,
}

/// An approval that a call required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallApproval {
    /// Id of the approval.
    pub id: String,
    pub status: ApprovalStatus,
}

/// Source of results that were stored without one.
pub(crate) fn unknown_source() -> Option<String> {
    Some("a result of an earlier version".to_owned())
}

/// Tool name of a plan among the steps of a reply.
pub(crate) const PLAN: &str = "plan";

impl CallRecord {
    /// Whether a tool ran for the call. A plan is stored as a call but runs no tool.
    pub(crate) fn has_begun(&self) -> bool {
        self.tool != PLAN && matches!(self.status, CallStatus::Done | CallStatus::Failed | CallStatus::Unknown)
    }
}

/// Text and the tool calls that followed it. The last round of a reply has text only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
}

/// Outcome of a completed call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) output: Value,
    pub(crate) status: CallStatus,
    /// Source of the output if it is untrusted.
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

    /// Sets the source of an untrusted output.
    pub(crate) fn with_source(self, untrusted_source: Option<String>) -> Self {
        Self { untrusted_source, ..self }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status != CallStatus::Done
    }
}

/// A call in progress: the request of the model, its approval and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallProgress {
    pub(crate) id: String,
    pub(crate) call: ToolCall,
    pub(crate) approval_id: Option<String>,
    /// Fingerprint of the tool when the approval was requested.
    #[serde(default)]
    pub(crate) tool_fingerprint: Option<String>,
    /// Whether the call was started; from then on it may have had an effect.
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

    /// Returns the record to store if the turn ends now.
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

/// Returns the milliseconds between two times if both are known.
pub(crate) fn elapsed_ms(began_at: Option<Timestamp>, ended_at: Option<Timestamp>) -> Option<u64> {
    u64::try_from(ended_at?.since(began_at?).as_millis()).ok()
}

/// Events contain objects; any other input of a model is wrapped in one.
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
    fn call_without_start_is_recorded_as_cancelled() {
        let mut progress = CallProgress::new("0.0".to_owned(), ToolCall::new("v", "shell", json!({})));
        let record = progress.record();
        assert_eq!(record.status, CallStatus::Cancelled);
        let written = serde_json::to_value(&record).unwrap();
        assert_eq!(written.get("output"), Some(&Value::Null), "always there");
        progress.has_begun = true;
        assert_eq!(progress.record().status, CallStatus::Unknown);
    }
}
