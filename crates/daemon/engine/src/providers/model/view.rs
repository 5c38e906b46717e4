//! Provider in the public API.

use agentd_base::{SecretState, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::ProviderStatus;

/// Provider of AI models. Its key is never returned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProviderView {
    /// Id of the provider, for example `anthropic`; `local` is the built-in model.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Whether the provider can be called: a vendor needs a key or a base URL, `local` a model file.
    pub configured: bool,
    /// Whether a key is stored; null without a key.
    pub key: Option<SecretState>,
    /// Base URL that replaces the default one; null if none is set.
    pub base_url: Option<String>,
    /// Base URL that is used without `base_url`; null for `local`.
    pub default_base_url: Option<String>,
    /// Model that is used if none is specified; null for `local` without a model file.
    pub default_model: Option<String>,
    /// Result of the last call or test.
    pub status: ProviderStatus,
    /// Reason why the status is not `ok`, with a remedy; null if there is none.
    pub message: Option<String>,
    /// Time of the call or test that determined `status`; null if there was none.
    pub checked_at: Option<Timestamp>,
    /// State of the built-in model; only for `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LocalModelView, required = false)]
    pub local: Option<LocalModelView>,
}

/// State of the built-in model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LocalModelView {
    /// File name of the model in use; null if no model file was found.
    pub model: Option<String>,
    /// Whether the model is small, that is, its file is smaller than 600 MiB. Such a model is suitable for first tests
    /// only.
    pub small: bool,
    /// File names of the available models; valid values of `local_model` in the agent settings.
    pub available_models: Vec<String>,
    /// State of the model's process.
    pub state: LocalModelState,
    /// Whether agents can use tools with this model, which requires support in its chat template; null without a model
    /// file.
    pub tools: Option<bool>,
    /// Reason why `tools` is `false`, with a remedy; otherwise null.
    pub tools_message: Option<String>,
    /// Resident memory of the model's process in bytes; 0 while unloaded.
    pub resident_bytes: u64,
    /// Prompt processing speed in tokens per second, as a moving average; null before the first call.
    pub prompt_tokens_per_second: Option<f64>,
    /// Generation speed in tokens per second, as a moving average; null before the first call.
    pub generation_tokens_per_second: Option<f64>,
    /// Context window in tokens, including the reply; null while unloaded.
    pub context_length: Option<u32>,
    /// Number of running and waiting requests.
    pub active_requests: u64,
}

/// State of the built-in model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LocalModelState {
    /// Not in memory; the next request loads it.
    Unloaded,
    /// Being loaded into memory.
    Loading,
    /// In memory.
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
