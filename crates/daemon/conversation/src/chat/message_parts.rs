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
    /// Text that the author wrote, before, between or after tool calls.
    Text {
        /// The text, never empty.
        text: String,
    },
    /// Call of a tool.
    ToolCall {
        /// Id of the call, unique in its session; matches `call_id` of the stream events.
        call_id: String,
        /// Name of the tool; `plan` for a plan that the agent wrote before it acted.
        name: String,
        /// Arguments of the call, chosen by the model.
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
        /// Id of the approval, for `POST /api/chat/approvals/{id}`.
        approval_id: String,
        /// Id of the call that needs the approval.
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
