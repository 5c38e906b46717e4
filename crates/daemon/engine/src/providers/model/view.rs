//! Provider in the public API.

use agentd_base::{SecretState, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::ProviderStatus;

/// A provider. Its key is never returned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProviderView {
    pub id: String,
    /// Display name.
    pub name: String,
    /// Whether it can be called: it has a key or a base URL; `local` has a model file.
    pub configured: bool,
    pub key: Option<SecretState>,
    /// Base URL that replaces the vendor's; null for the vendor's own.
    pub base_url: Option<String>,
    /// Base URL used without `base_url`; null for `local`, which sends no requests.
    pub default_base_url: Option<String>,
    /// Model used if none is specified.
    pub default_model: Option<String>,
    pub status: ProviderStatus,
    /// Reason why it is not `ok`, with a remedy; null if none.
    pub message: Option<String>,
    /// Time of the call or test that determined `status`.
    pub checked_at: Option<Timestamp>,
    /// State of the built-in model; only for `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LocalModelView, required = false)]
    pub local: Option<LocalModelView>,
}

/// State of the built-in model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LocalModelView {
    /// Name of the model file in use.
    pub model: Option<String>,
    /// Whether the file contains a small model, suitable for first tests only.
    pub small: bool,
    /// Valid values of `local_model` in the agent settings.
    pub available_models: Vec<String>,
    pub state: LocalModelState,
    /// Whether agents can use tools with this model: its chat template must support them. Null without a file.
    pub tools: Option<bool>,
    /// Reason why `tools` is `false`, with a remedy.
    pub tools_message: Option<String>,
    /// Memory of the model's process in bytes; 0 while unloaded.
    pub resident_bytes: u64,
    pub prompt_tokens_per_second: Option<f64>,
    pub generation_tokens_per_second: Option<f64>,
    /// Context window in tokens, including the reply.
    pub context_length: Option<u32>,
    /// Number of running and waiting requests.
    pub active_requests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LocalModelState {
    /// Not in memory; the next request loads it.
    Unloaded,
    Loading,
    Ready,
    /// Loading failed; the next request retries.
    Failed,
}

/// Result of a check of the default provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultCheck {
    /// `latency` is `None` if it was checked without a network request.
    Answered {
        provider: String,
        latency: Option<std::time::Duration>,
    },
    Failed {
        provider: String,
        reason: String,
    },
    /// No model is available; the reason.
    NoModel(String),
}
