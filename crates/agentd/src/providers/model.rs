//! Providers and calls as values; which provider is meant, as a pure function.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_llm::{ModelBackend, Usage, Vendor};

/// The id of the model inside.
pub const LOCAL: &str = "local";

/// What a turn would like: the request's wish, else its agent's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelWish {
    pub provider: Option<String>,
    /// The provider's own name of a model, or `provider/model`.
    pub model: Option<String>,
}

/// What a turn gets.
#[derive(Debug, Clone)]
pub struct ResolvedModel {
    pub backend: Arc<dyn ModelBackend>,
    pub provider: String,
    pub model: String,
    /// In tokens, where it is known.
    pub context_window: Option<u64>,
}

/// One call of a model, for the usage row.
#[derive(Debug, Clone)]
pub struct ModelCall {
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub agent_id: Option<String>,
    pub conversation_id: Option<String>,
    pub session_id: Option<String>,
}

/// How a provider did when it was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastOutcome {
    pub is_ok: bool,
    pub is_rate_limited: bool,
    pub message: Option<String>,
    pub checked_at: Timestamp,
}

/// A wish with its provider told apart from its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub provider: Option<String>,
    pub model: Option<String>,
}

fn is_provider(name: &str) -> bool {
    name == LOCAL || Vendor::from_id(name).is_some()
}

impl Choice {
    /// Splits `provider/model`. The models of a router have slashes of their own, so where it is
    /// named as the provider, the model is left whole.
    pub(super) fn of(wish: ModelWish) -> Self {
        let ModelWish { provider, model } = wish;
        let is_router = provider.as_deref() == Some(Vendor::Openrouter.id());
        if let Some((prefix, rest)) = model.as_deref().and_then(|model| model.split_once('/'))
            && is_provider(prefix)
            && !rest.is_empty()
            && !is_router
        {
            return Self { provider: Some(prefix.to_owned()), model: Some(rest.to_owned()) };
        }
        Self { provider, model }
    }

    /// This choice, with what the settings say where it says nothing. The default model goes with
    /// the default provider alone: another provider would not know it.
    pub(super) fn or(self, default_provider: Option<String>, default_model: Option<String>) -> Self {
        let defaults = Self::of(ModelWish { provider: default_provider, model: default_model });
        match (self.provider, self.model) {
            (None, None) => defaults,
            (None, model) => Self { provider: defaults.provider, model },
            (Some(provider), None) if defaults.provider.as_deref() == Some(&provider) => {
                Self { provider: Some(provider), model: defaults.model }
            }
            (provider, model) => Self { provider, model },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(provider: Option<&str>, model: Option<&str>) -> (Option<String>, Option<String>) {
        let wish = ModelWish { provider: provider.map(str::to_owned), model: model.map(str::to_owned) };
        let choice = Choice::of(wish);
        (choice.provider, choice.model)
    }

    #[test]
    fn a_prefix_names_the_provider() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(choice(None, Some("anthropic/claude-x")), (some("anthropic"), some("claude-x")));
        assert_eq!(choice(Some("groq"), Some("local/a.gguf")), (some("local"), some("a.gguf")));
        assert_eq!(choice(Some("openrouter"), Some("openai/gpt-x")), (some("openrouter"), some("openai/gpt-x")));
        assert_eq!(choice(None, Some("meta-llama/llama")), (None, some("meta-llama/llama")));
        assert_eq!(choice(None, Some("openai/")), (None, some("openai/")));
        assert_eq!(choice(Some("xai"), None), (some("xai"), None));
    }

    #[test]
    fn defaults_fill_only_what_fits() {
        let some = |text: &str| Some(text.to_owned());
        let or = |provider: Option<&str>, model: Option<&str>| {
            let choice = Choice { provider: provider.map(str::to_owned), model: model.map(str::to_owned) };
            let choice = choice.or(some("openai"), some("gpt-x"));
            (choice.provider, choice.model)
        };
        assert_eq!(or(None, None), (some("openai"), some("gpt-x")));
        assert_eq!(or(None, Some("gpt-y")), (some("openai"), some("gpt-y")));
        assert_eq!(or(Some("openai"), None), (some("openai"), some("gpt-x")));
        assert_eq!(or(Some("xai"), None), (some("xai"), None));
    }
}
