//! What every agent starts from, and what agents may use up.

use agentd_base::Problems;
use agentd_llm::Vendor;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// The id of the model inside the daemon, beside those of the vendors.
const LOCAL: &str = "local";

/// Models, limits and budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AgentSettings {
    /// Where an agent names no provider; `null`: the first that is configured, `local` last.
    #[schema(max_length = 32)]
    pub default_provider: Option<String>,
    /// Where an agent names no model: the provider's own name of it, or `provider/model`;
    /// `null`: the provider's default.
    #[schema(min_length = 1, max_length = 200)]
    pub default_model: Option<String>,
    /// 0 is the most predictable; `null` leaves it to the model.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Limits one reply; `null` leaves it to the model.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_output_tokens: Option<u32>,
    /// How often a turn may go back to the model with results of tools.
    #[schema(minimum = 1, maximum = 200)]
    pub max_tool_rounds: u32,
    /// Limits one call of a model, from its start to its last token.
    #[schema(minimum = 1, maximum = 3600)]
    pub request_timeout_seconds: u32,
    /// Stands in the system prompt of every agent.
    #[schema(max_length = 20_000)]
    pub instructions: String,
    /// Tokens a day, the day being that of the profile's time zone; `null`: no limit.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub daily_token_limit: Option<u64>,
    /// Tokens in all; `null`: no limit.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub total_token_limit: Option<u64>,
    /// A GGUF file under `models/` in the data directory; `null`: the one that is there.
    #[schema(min_length = 1, max_length = 255)]
    pub local_model: Option<String>,
}

section_patch!(
    /// Any fields of the agent settings; those left out stay as they are.
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

/// Whether this is the id of a vendor, or of the model inside.
#[must_use]
pub fn is_provider(id: &str) -> bool {
    id == LOCAL || Vendor::from_id(id).is_some()
}

/// Every id of a provider, for a sentence.
#[must_use]
pub fn provider_names() -> String {
    format!("{LOCAL}, {}", Vendor::ALL.map(Vendor::id).join(", "))
}

/// Vendors use letters, digits and punctuation in the names of their models, never spaces.
fn is_model_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

/// A plain file name: no folder, nothing hidden, and the ending of the format.
fn is_model_file(text: &str) -> bool {
    !text.starts_with('.')
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
        && std::path::Path::new(text).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_file_is_a_plain_name() {
        assert!(is_model_file("smollm2-135m-instruct-q4_1.gguf"));
        assert!(is_model_file("Größer v2.GGUF"));
        for bad in ["", ".gguf", "../x.gguf", "a/b.gguf", "/etc/x.gguf", "x.bin", "..", "a\\b.gguf", "x\n.gguf"] {
            assert!(!is_model_file(bad), "{bad}");
        }
    }
}
