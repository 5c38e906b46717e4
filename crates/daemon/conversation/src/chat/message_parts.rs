//! Parts of a message in chronological order.

use agentd_engine::engine::{ApprovalStatus, CallRecord, CallStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::model::Message;

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagePart {
    Text {
        text: String,
    },
    /// Call of a tool.
    ToolCall {
        call_id: String,
        name: String,
        #[schema(value_type = Object)]
        input: Value,
        /// Output of the tool; null until there is one.
        #[schema(required, value_type = Option<Object>)]
        output: Option<Value>,
        status: CallStatus,
        /// Time from the start of the tool to its result, in milliseconds; null if it did not run or has not ended.
        #[schema(required)]
        duration_ms: Option<u64>,
    },
    /// Approval that the following call requires.
    Approval {
        approval_id: String,
        call_id: String,
        status: ApprovalStatus,
    },
}

impl Message {
    /// Returns text, calls and approvals in order. A message without tools consists of its text only.
    pub(super) fn parts(&self) -> Vec<MessagePart> {
        let text = |text: &str| (!text.is_empty()).then(|| MessagePart::Text { text: text.to_owned() });
        if self.rounds.is_empty() {
            return text(&self.content).into_iter().collect();
        }
        let mut parts = Vec::new();
        for round in &self.rounds {
            parts.extend(text(&round.text));
            parts.extend(round.calls.iter().flat_map(parts_of_call));
        }
        parts
    }
}

fn parts_of_call(call: &CallRecord) -> impl Iterator<Item = MessagePart> + use<> {
    let approval = call.approval.as_ref().map(|approval| MessagePart::Approval {
        approval_id: approval.id.clone(),
        call_id: call.id.clone(),
        status: approval.status,
    });
    let call = MessagePart::ToolCall {
        call_id: call.id.clone(),
        name: call.tool.clone(),
        input: call.input.clone(),
        output: call.output.clone(),
        status: call.status,
        duration_ms: call.duration_ms,
    };
    approval.into_iter().chain([call])
}
