//! What an owner is asked before it happens.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
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

    /// What the database holds is one of these: a rule of the table says so.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Cancelled)
    }
}

/// Something that waits for an owner's word, or waited for it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Approval {
    pub id: ApprovalId,
    /// `tool`, or what else asks.
    pub kind: String,
    pub agent_id: AgentId,
    /// The turn that waits for it.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
    pub conversation_id: Option<String>,
    pub call_id: Option<String>,
    pub tool: String,
    /// The whole of what is to happen.
    #[schema(value_type = Object)]
    pub input: Value,
    /// SHA-256 over tool and input, in hex; what runs is held against it.
    pub input_sha256: String,
    pub status: ApprovalStatus,
    /// Where the untrusted text comes from because of which it asks; empty where it asks for another reason.
    #[schema(value_type = Vec<String>)]
    pub untrusted_sources: Sources,
    /// Why it asks, as a sentence that names those sources; null where it asks for another reason.
    pub request_reason: Option<String>,
    /// Why, in the owner's words.
    pub reason: Option<String>,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
    pub decided_at: Option<Timestamp>,
}

/// SHA-256 over a tool's name and its whole input.
pub(crate) fn fingerprint(tool: &str, input: &Value) -> String {
    hex::encode(Sha256::digest(json!([tool, input]).to_string()))
}
