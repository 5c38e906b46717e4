//! Approvals: actions that the owner must permit before they run.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::session::SessionId;
use super::untrusted::Sources;
use crate::agents::AgentId;

agentd_base::typed_id!(
    /// The id of an approval.
    ApprovalId,
    "appr"
);
agentd_store::stored_ids!(ApprovalId);

/// Status of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Waits for the owner's decision.
    Pending,
    /// The owner approved the action.
    Approved,
    /// The owner rejected the action.
    Rejected,
    /// No decision was made before `expires_at`.
    Expired,
    /// The turn ended, or the action is no longer possible.
    Cancelled,
}

impl ApprovalStatus {
    const ALL: [Self; 5] = [Self::Pending, Self::Approved, Self::Rejected, Self::Expired, Self::Cancelled];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// A table constraint guarantees one of these values.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Cancelled)
    }
}

/// An action that requires, or required, the owner's approval.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Approval {
    pub id: ApprovalId,
    /// `tool` for tool calls, otherwise the requesting feature.
    pub kind: String,
    pub agent_id: AgentId,
    /// Session that waits for the decision; null if none does.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
    /// Conversation of the session; null if there is none.
    pub conversation_id: Option<String>,
    /// Id of the tool call, unique in its session; null unless `kind` is `tool`.
    pub call_id: Option<String>,
    /// Name of the tool or action.
    pub tool: String,
    /// Complete input of the action.
    #[schema(value_type = Object)]
    pub input: Value,
    /// SHA-256 of the tool name and the input, in hex; verified before the action runs.
    pub input_sha256: String,
    pub status: ApprovalStatus,
    /// Sources of the untrusted text that made the approval necessary; empty if it is required for another reason.
    #[schema(value_type = Vec<String>)]
    pub untrusted_sources: Sources,
    /// Sentence that names the untrusted sources; null if the approval is required for another reason.
    pub request_reason: Option<String>,
    /// Reason given by the owner, or the reason for a cancellation; null if none.
    pub reason: Option<String>,
    pub requested_at: Timestamp,
    /// Time at which the approval expires if it is not decided.
    pub expires_at: Timestamp,
    /// Time of the decision, expiry or cancellation; null while `pending`.
    pub decided_at: Option<Timestamp>,
}

/// Returns the SHA-256 of a tool's name and its complete input.
pub(crate) fn fingerprint(tool: &str, input: &Value) -> String {
    hex::encode(Sha256::digest(json!([tool, input]).to_string()))
}
