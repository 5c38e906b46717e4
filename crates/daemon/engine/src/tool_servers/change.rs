//! Changes to a tool server's registration.

use std::collections::BTreeMap;

use agentd_base::SecretUpdate;
use agentd_core::vault::UnknownMask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

agentd_base::typed_id!(
    /// The id of a tool server.
    ToolServerId,
    "mcp"
);
agentd_store::stored_ids!(ToolServerId);

/// Transport of a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransportKind {
    /// A program that the daemon starts; communicates over its standard streams.
    Stdio,
    /// Streamable HTTP.
    Http,
}

/// Changes to write-only values, by name. A name that is absent, or sent as it was returned, keeps its value; `None`
/// clears it.
pub type SecretChanges = BTreeMap<String, Option<SecretUpdate>>;

/// Fields of a new registration, or changes to an existing one.
#[derive(Debug, Clone, Default)]
pub struct ToolServerChange {
    pub name: Option<String>,
    pub transport: Option<TransportKind>,
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub env: SecretChanges,
    pub network: Option<bool>,
    pub readable_paths: Option<Vec<String>>,
    pub writable_paths: Option<Vec<String>>,
    pub url: Option<String>,
    /// Handling of a `***` in the URL that has no stored value.
    pub unknown_masks: UnknownMask,
    pub headers: SecretChanges,
    pub enabled: Option<bool>,
    pub trusted: Option<bool>,
    pub timeout_seconds: Option<u32>,
}
