//! Model selection: first the request, then the settings, then the configured providers.

use std::sync::Arc;

use agentd_llm::{ModelBackend, Vendor};

use super::provider::{LOCAL, known_ids};

/// Model requested by a request or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelPreference {
    pub provider: Option<String>,
    /// Model name of the provider. Without `provider`, `provider/model` is accepted as well.
    pub model: Option<String>,
}

/// A model that can be called.
#[derive(Debug, Clone)]
pub struct ResolvedModel {
    pub backend: Arc<dyn ModelBackend>,
    pub provider: String,
    pub model: String,
    /// Context window in tokens; `None` if unknown.
    pub context_window: Option<u64>,
}

impl ModelPreference {
    /// Parses the `model` of a request: `provider/model`, or a model name alone.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        Self { provider: None, model: text.map(str::to_owned) }.split()
    }

    /// Creates the preference of an agent's profile.
    #[must_use]
    pub fn new(provider: Option<&str>, model: Option<&str>) -> Self {
        Self { provider: provider.map(str::to_owned), model: model.map(str::to_owned) }.split()
    }

    /// Fills missing fields from a preference of lower rank. A model is only taken together with its provider.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        let (this, lower) = (self.split(), lower.split());
        match (&this.provider, &this.model) {
            (None, None) => lower,
            (None, Some(_)) => Self { provider: lower.provider, model: this.model },
            (Some(_), None) if this.provider == lower.provider => lower,
            _ => this,
        }
    }

    fn split(self) -> Self {
        let Self { provider: None, model: Some(model) } = &self else { return self };
        match model.split_once('/') {
            Some((provider, name)) if is_provider(provider) && !name.is_empty() => {
                Self { provider: Some(provider.to_owned()), model: Some(name.to_owned()) }
            }
            _ => self,
        }
    }
}

pub(super) fn is_provider(id: &str) -> bool {
    id == LOCAL || Vendor::from_id(id).is_some()
}

/// Available models.
pub(crate) struct Candidates<'a> {
    /// Configured vendors in their documented order, each with its default model.
    pub(crate) vendors: Vec<(Vendor, String)>,
    /// Returns the file of the built-in model, or the reason why it is unavailable. Evaluated lazily because it reads
    /// folders.
    pub(crate) local: &'a dyn Fn() -> Result<String, String>,
    /// The agent settings, which rank below every preference.
    pub(crate) default: ModelPreference,
}

/// Selected model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Vendor { vendor: Vendor, model: String },
    Local,
}

/// Chooses a provider and model for a preference.
///
/// # Errors
/// A sentence that describes what is missing and how to fix it.
pub(crate) fn choose(preference: ModelPreference, candidates: &Candidates<'_>) -> Result<Choice, String> {
    let preference = preference.or(candidates.default.clone());
    match (preference.provider, preference.model) {
        (Some(provider), model) => choose_from_provider(&provider, model, candidates),
        (None, Some(model)) => choose_by_model_name(&model, candidates),
        (None, None) => match candidates.vendors.first() {
            Some((vendor, model)) => Ok(Choice::Vendor { vendor: *vendor, model: model.clone() }),
            None => (candidates.local)().map(|_| Choice::Local).map_err(|missing| {
                format!(
                    "no provider has a key; set one with PUT /api/providers/{{id}}/key, or use the built-in \
                 model: {missing}"
                )
            }),
        },
    }
}

fn choose_from_provider(provider: &str, model: Option<String>, candidates: &Candidates<'_>) -> Result<Choice, String> {
    if provider == LOCAL {
        return choose_local(model.as_deref(), candidates);
    }
    let Some(vendor) = Vendor::from_id(provider) else {
        return Err(format!("provider `{provider}` not found; known providers: {}", known_ids()));
    };
    match candidates.vendors.iter().find(|(configured, _)| *configured == vendor) {
        Some((_, default)) => Ok(Choice::Vendor { vendor, model: model.unwrap_or_else(|| default.clone()) }),
        None => Err(format!(
            "{vendor} has no key; set it with PUT /api/providers/{provider}/key, or choose another provider"
        )),
    }
}

fn choose_local(model: Option<&str>, candidates: &Candidates<'_>) -> Result<Choice, String> {
    let file = (candidates.local)()?;
    match model {
        Some(wanted) if !is_same_file(wanted, &file) => Err(format!(
            "the built-in model is {file}, not {wanted}; select the file with `local_model` of PUT /api/settings/agent"
        )),
        _ => Ok(Choice::Local),
    }
}

fn is_same_file(wanted: &str, file: &str) -> bool {
    wanted == LOCAL || wanted == file || file.rsplit_once('.').is_some_and(|(stem, _)| stem == wanted)
}

/// Determines the vendor of a bare model name by the vendors' naming conventions.
fn choose_by_model_name(model: &str, candidates: &Candidates<'_>) -> Result<Choice, String> {
    if (candidates.local)().is_ok_and(|file| is_same_file(model, &file)) {
        return Ok(Choice::Local);
    }
    if let Some(vendor) = vendor_of(model)
        && candidates.vendors.iter().any(|(configured, _)| *configured == vendor)
    {
        return Ok(Choice::Vendor { vendor, model: model.to_owned() });
    }
    match candidates.vendors.first() {
        Some((vendor, _)) => Ok(Choice::Vendor { vendor: *vendor, model: model.to_owned() }),
        None => {
            Err(format!("no provider is configured for model {model}; set a key with PUT /api/providers/{{id}}/key"))
        }
    }
}

fn vendor_of(model: &str) -> Option<Vendor> {
    const NAMES: &[(&str, Vendor)] = &[
        ("claude", Vendor::Anthropic),
        ("gpt-", Vendor::Openai),
        ("chatgpt", Vendor::Openai),
        ("o1", Vendor::Openai),
        ("o3", Vendor::Openai),
        ("o4", Vendor::Openai),
        ("gemini", Vendor::Google),
        ("mistral", Vendor::Mistral),
        ("ministral", Vendor::Mistral),
        ("magistral", Vendor::Mistral),
        ("codestral", Vendor::Mistral),
        ("devstral", Vendor::Mistral),
        ("pixtral", Vendor::Mistral),
        ("deepseek", Vendor::Deepseek),
        ("grok", Vendor::Xai),
    ];
    // Names such as `openai/gpt-oss-120b` belong to resellers of models.
    NAMES.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, vendor)| *vendor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(vendors: &[Vendor], local: bool) -> Candidates<'static> {
        Candidates {
            vendors: vendors.iter().map(|vendor| (*vendor, vendor.default_model().to_owned())).collect(),
            local: if local { &|| Ok("small.gguf".to_owned()) } else { &|| Err("run `make models`".to_owned()) },
            default: ModelPreference::default(),
        }
    }

    fn vendor(vendor: Vendor, model: &str) -> Result<Choice, String> {
        Ok(Choice::Vendor { vendor, model: model.to_owned() })
    }

    #[test]
    fn higher_ranked_preference_wins() {
        let agent = || ModelPreference::new(Some("groq"), Some("llama"));
        assert_eq!(ModelPreference::parse(None).or(agent()), agent());
        assert_eq!(
            ModelPreference::parse(Some("other")).or(agent()),
            ModelPreference::new(Some("groq"), Some("other"))
        );
        assert_eq!(
            ModelPreference::parse(Some("openai/gpt")).or(agent()),
            ModelPreference::new(Some("openai"), Some("gpt"))
        );
        assert_eq!(ModelPreference::new(Some("groq"), None).or(agent()), agent());
        let other = ModelPreference::new(Some("openai"), None);
        assert_eq!(other.clone().or(agent()), other);
    }

    #[test]
    fn names_with_slashes_are_passed_to_the_named_provider() {
        let all = candidates(&Vendor::ALL, false);
        assert_eq!(
            choose(ModelPreference::new(Some("groq"), Some("openai/gpt-oss-120b")), &all),
            vendor(Vendor::Groq, "openai/gpt-oss-120b")
        );
        assert_eq!(
            choose(ModelPreference::parse(Some("openrouter/openai/gpt")), &all),
            vendor(Vendor::Openrouter, "openai/gpt")
        );
        let only = candidates(&[Vendor::Openrouter], false);
        assert_eq!(
            choose(ModelPreference::parse(Some("meta-llama/llama-3")), &only),
            vendor(Vendor::Openrouter, "meta-llama/llama-3")
        );
    }

    #[test]
    fn bare_name_selects_its_vendor() {
        let two = candidates(&[Vendor::Anthropic, Vendor::Xai], true);
        assert_eq!(choose(ModelPreference::parse(Some("grok-4")), &two), vendor(Vendor::Xai, "grok-4"));
        assert_eq!(choose(ModelPreference::parse(Some("claude-x")), &two), vendor(Vendor::Anthropic, "claude-x"));
        assert_eq!(choose(ModelPreference::parse(Some("small")), &two), Ok(Choice::Local));
        assert_eq!(choose(ModelPreference::parse(Some("small.gguf")), &two), Ok(Choice::Local));
    }

    #[test]
    fn settings_then_first_provider_are_the_defaults() {
        let mut some = candidates(&[Vendor::Mistral, Vendor::Xai], true);
        assert_eq!(choose(ModelPreference::default(), &some), vendor(Vendor::Mistral, Vendor::Mistral.default_model()));
        some.default = ModelPreference::new(None, Some("xai/grok-9"));
        assert_eq!(choose(ModelPreference::default(), &some), vendor(Vendor::Xai, "grok-9"));
        some.default = ModelPreference::new(Some("local"), None);
        assert_eq!(choose(ModelPreference::default(), &some), Ok(Choice::Local));
        assert_eq!(choose(ModelPreference::default(), &candidates(&[], true)), Ok(Choice::Local));
    }

    #[test]
    fn error_names_the_missing_item_and_a_remedy() {
        let none = candidates(&[], false);
        for (preference, part) in [
            (ModelPreference::default(), "make models"),
            (ModelPreference::default(), "PUT /api/providers"),
            (ModelPreference::parse(Some("openai/gpt")), "PUT /api/providers/openai/key"),
            (ModelPreference::parse(Some("local/small")), "make models"),
            (ModelPreference::new(Some("nobody"), None), "known providers: anthropic"),
            (ModelPreference::parse(Some("grok-4")), "grok-4"),
        ] {
            let error = choose(preference.clone(), &none).unwrap_err();
            assert!(error.contains(part), "{part} in {error}");
        }
        let error = choose(ModelPreference::parse(Some("local/other")), &candidates(&[], true)).unwrap_err();
        assert!(error.contains("small.gguf") && error.contains("local_model"), "{error}");
    }
}
