//! Default settings and limits of all agents.

use agentd_base::Problems;
use agentd_llm::Vendor;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Provider id of the local model.
const LOCAL: &str = "local";

/// Default model, limits and budgets of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AgentSettings {
    /// Default provider. `null` selects the first configured provider, with `local` last.
    #[schema(max_length = 32)]
    pub default_provider: Option<String>,
    /// Default model, by the provider's name or as `provider/model`. `null` selects the provider's default.
    #[schema(min_length = 1, max_length = 200)]
    pub default_model: Option<String>,
    /// Sampling temperature, from 0 (most predictable) to 2. `null` uses the model's default.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Maximum number of output tokens per reply, 1 to 1,000,000. `null` uses the model's default.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_output_tokens: Option<u32>,
    /// Maximum number of tool rounds per turn, 1 to 200. Default: 16.
    #[schema(minimum = 1, maximum = 200)]
    pub max_tool_rounds: u32,
    /// Maximum duration of a model call in seconds until its last token, 1 to 3,600. Default: 300.
    #[schema(minimum = 1, maximum = 3600)]
    pub request_timeout_seconds: u32,
    /// Instructions in the system prompt of every agent, at most 20,000 characters. Default: none.
    #[schema(max_length = 20_000)]
    pub instructions: String,
    /// Maximum number of tokens per day in the profile's time zone. `null` means no limit.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub daily_token_limit: Option<u64>,
    /// Maximum number of tokens in total. `null` means no limit.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub total_token_limit: Option<u64>,
    /// File name of the local model, a GGUF file under `models/` in the data directory. `null` selects the only file
    /// there.
    #[schema(min_length = 1, max_length = 255)]
    pub local_model: Option<String>,
}

section_patch!(
    /// Fields of the agent settings to change; omitted fields are unchanged.
    AgentPatch, AgentSettings
);

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            default_provider: None,
            default_model: None,
            temperature: None,
            max_output_tokens: None,
            max_tool_rounds: 16,
            request_timeout_seconds: 300,
            instructions: String::new(),
            daily_token_limit: None,
            total_token_limit: None,
            local_model: None,
        }
    }
}

impl Section for AgentSettings {
    const NAME: &'static str = "agent";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = AgentPatch;

    fn validate(&self, problems: &mut Problems) {
        if let Some(provider) = &self.default_provider
            && !is_provider(provider)
        {
            problems.add("default_provider", format!("must be null, or one of {}", provider_names()));
        }
        problems.require(
            self.default_model.as_deref().is_none_or(is_model_name),
            "default_model",
            "must be the name of a model, without spaces",
        );
        problems.require(
            self.local_model.as_deref().is_none_or(is_model_file),
            "local_model",
            "must be the name of a .gguf file under models/ in the data directory, without any folder",
        );
    }
}

/// Whether this is a provider id: a vendor or the local model.
#[must_use]
pub fn is_provider(id: &str) -> bool {
    id == LOCAL || Vendor::from_id(id).is_some()
}

/// Returns all provider ids, separated by commas.
#[must_use]
pub fn provider_names() -> String {
    format!("{LOCAL}, {}", Vendor::ALL.map(Vendor::id).join(", "))
}

/// Whether the text can be a model name. Vendors never use spaces in model names.
fn is_model_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

/// Whether the text is the name of a GGUF file, without a directory and not hidden.
fn is_model_file(text: &str) -> bool {
    !text.starts_with('.')
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
        && std::path::Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_file_must_be_a_plain_gguf_name() {
        assert!(is_model_file("smollm2-135m-instruct-q4_1.gguf"));
        assert!(is_model_file("Größer v2.GGUF"));
        for bad in ["", ".gguf", "../x.gguf", "a/b.gguf", "/etc/x.gguf", "x.bin", "..", "a\\b.gguf", "x\n.gguf"] {
            assert!(!is_model_file(bad), "{bad}");
        }
    }
}
