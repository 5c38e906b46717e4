//! Supported vendors and the address conventions of their SDKs.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    Anthropic,
    Openai,
    Google,
    Mistral,
    Groq,
    Deepseek,
    Xai,
    Openrouter,
}

impl Vendor {
    /// All vendors, in display order.
    pub const ALL: [Self; 8] = [
        Self::Anthropic,
        Self::Openai,
        Self::Google,
        Self::Mistral,
        Self::Groq,
        Self::Deepseek,
        Self::Xai,
        Self::Openrouter,
    ];

    /// Returns the provider id used in the public API.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Google => "google",
            Self::Mistral => "mistral",
            Self::Groq => "groq",
            Self::Deepseek => "deepseek",
            Self::Xai => "xai",
            Self::Openrouter => "openrouter",
        }
    }

    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|vendor| vendor.id() == id)
    }

    /// Returns the display name.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Openai => "OpenAI",
            Self::Google => "Google",
            Self::Mistral => "Mistral",
            Self::Groq => "Groq",
            Self::Deepseek => "DeepSeek",
            Self::Xai => "xAI",
            Self::Openrouter => "OpenRouter",
        }
    }

    /// Returns the base URL in the form that the vendor's own SDK accepts, without the path that the SDK appends: `/v1`
    /// for Anthropic and Mistral, `/v1beta` for Google, `/openai/v1` for Groq. OpenAI's SDK appends no version; xAI,
    /// OpenRouter and DeepSeek document it as theirs.
    #[must_use]
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::Openai => "https://api.openai.com/v1",
            Self::Google => "https://generativelanguage.googleapis.com",
            Self::Mistral => "https://api.mistral.ai",
            Self::Groq => "https://api.groq.com",
            Self::Deepseek => "https://api.deepseek.com",
            Self::Xai => "https://api.x.ai/v1",
            Self::Openrouter => "https://openrouter.ai/api/v1",
        }
    }

    /// Returns a general-purpose default model; an alias if the vendor maintains one.
    #[must_use]
    pub fn default_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5",
            Self::Openai => "gpt-5.4-mini",
            Self::Google => "gemini-flash-latest",
            Self::Mistral => "mistral-medium-latest",
            Self::Groq => "openai/gpt-oss-120b",
            Self::Deepseek => "deepseek-v4-flash",
            Self::Xai => "grok-4.5",
            Self::Openrouter => "openrouter/auto",
        }
    }

    /// Returns the path segments that the SDK inserts between base URL and method.
    pub(crate) fn version_path(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic | Self::Mistral => &["v1"],
            Self::Google => &["v1beta"],
            Self::Groq => &["openai", "v1"],
            Self::Openai | Self::Deepseek | Self::Xai | Self::Openrouter => &[],
        }
    }
}

impl std::fmt::Display for Vendor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.display_name())
    }
}
