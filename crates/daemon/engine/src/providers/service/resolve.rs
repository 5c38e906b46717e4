//! Choosing the model that answers.

use std::sync::Arc;

use agentd_llm::ModelBackend;

use super::tracked::TrackedBackend;
use super::{Providers, file_name};
use crate::providers::error::ProviderError;
use crate::providers::local::LocalBackend;
use crate::providers::model::{Candidates, Choice, LOCAL, ModelPreference, ResolvedModel, choose};

impl Providers {
    /// The model that answers: what is wished for, else what the agent settings say, else the
    /// first provider that is configured, else the model inside.
    ///
    /// # Errors
    /// `NoModel`, with what is missing and what would mend it.
    pub async fn resolve(&self, preference: ModelPreference) -> Result<ResolvedModel, ProviderError> {
        self.0.settings.refresh().await?;
        let agent = self.0.settings.agent();
        let configured = self.configured().await?;
        let prices = self.price_table().await?;
        let usable = configured.iter().filter(|provider| provider.backend.is_ok());
        let candidates = Candidates {
            vendors: usable.map(|provider| (provider.vendor, provider.default_model.clone())).collect(),
            local: &|| self.0.local.find(agent.local_model.as_deref()).map(|path| file_name(&path)),
            default: ModelPreference::new(agent.default_provider.as_deref(), agent.default_model.as_deref()),
        };
        let choice = choose(preference, &candidates).map_err(ProviderError::no_model)?;
        let (vendor, model) = match choice {
            Choice::Local => return self.resolve_local(agent.local_model.as_deref()),
            Choice::Vendor { vendor, model } => (vendor, model),
        };
        let chosen = configured.iter().find(|provider| provider.vendor == vendor);
        let backend = chosen.and_then(|provider| provider.backend.as_ref().ok()).cloned();
        let backend = backend.ok_or_else(|| ProviderError::no_model(format!("{vendor} was taken away just now")))?;
        let context_window = prices.context_window(vendor.id(), &model);
        let backend = self.tracked(vendor.id(), backend);
        Ok(ResolvedModel { backend, provider: vendor.id().to_owned(), model, context_window })
    }

    fn resolve_local(&self, wanted: Option<&str>) -> Result<ResolvedModel, ProviderError> {
        let path = self.0.local.find(wanted).map_err(ProviderError::no_model)?;
        let status = self.0.local.model.subscribe();
        let loaded = status.borrow().clone();
        let is_loaded = loaded.model.as_ref() == Some(&path);
        Ok(ResolvedModel {
            provider: LOCAL.to_owned(),
            model: file_name(&path),
            context_window: loaded.context_length.filter(|_| is_loaded).map(u64::from),
            backend: Arc::new(TrackedBackend {
                file: Some(file_name(&path)),
                inner: Arc::new(LocalBackend::new(self.0.local.model.clone(), path)),
                provider: LOCAL,
                providers: self.clone(),
            }),
        })
    }

    fn tracked(&self, provider: &'static str, inner: Arc<dyn ModelBackend>) -> Arc<dyn ModelBackend> {
        Arc::new(TrackedBackend { inner, provider, file: None, providers: self.clone() })
    }
}
