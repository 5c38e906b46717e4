//! A provider as it is shown.

use agentd_base::{SecretState, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::ProviderStatus;

/// One provider. Its key is never shown.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProviderView {
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether it can be asked: it has a key or a base URL; `local` has a model file.
    pub configured: bool,
    pub key: Option<SecretState>,
    /// Where requests go instead of to the vendor; `null`: to the vendor.
    pub base_url: Option<String>,
    /// Where requests go without `base_url`; `null` for `local`, which makes none.
    pub default_base_url: Option<String>,
    /// The model that answers where none is named.
    pub default_model: Option<String>,
    pub status: ProviderStatus,
    /// Why it is not `ok`, and what would mend it.
    pub message: Option<String>,
    /// When the last call or test ended that `status` speaks of.
    pub checked_at: Option<Timestamp>,
    /// Only of the model inside the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LocalModelView, required = false)]
    pub local: Option<LocalModelView>,
}

/// The model inside the daemon at this moment.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LocalModelView {
    /// The file in use, by its name.
    pub model: Option<String>,
    /// Whether the file in use holds a small model, which is good for a first try only.
    pub small: bool,
    /// What `local_model` of the agent settings can be set to.
    pub available_models: Vec<String>,
    pub state: LocalModelState,
    /// Whether agents that use the file can be offered tools: its chat template must have them. `null` without a file.
    pub tools: Option<bool>,
    /// Why `tools` is `false`, and what to do about it.
    pub tools_message: Option<String>,
    /// Memory of the process that holds it; 0 while it is not loaded.
    pub resident_bytes: u64,
    pub prompt_tokens_per_second: Option<f64>,
    pub generation_tokens_per_second: Option<f64>,
    /// Tokens of a conversation, its reply included.
    pub context_length: Option<u32>,
    /// Replies that are being written or wait.
    pub active_requests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LocalModelState {
    /// Takes no memory; the next request loads it.
    Unloaded,
    Loading,
    Ready,
    /// The last attempt failed; the next request tries again.
    Failed,
}

/// How the provider that answers by default does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultCheck {
    /// `None`: it was not asked over a network.
    Answered {
        provider: String,
        latency: Option<std::time::Duration>,
    },
    Failed {
        provider: String,
        reason: String,
    },
    /// There is none.
    NoModel(String),
}
