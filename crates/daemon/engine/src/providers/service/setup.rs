//! Listing and testing of providers.

use std::time::Duration;

use agentd_base::SecretState;
use agentd_core::settings::{AgentSettings, Section, ValidateReference};
use agentd_inference::{LocalState, LocalStatus};
use agentd_llm::{ModelBackend, ModelError, ModelEvent, ModelMessage, ModelRequest, Usage, Vendor};
use agentd_store::Tx;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{Configured, Providers, canonical, file_name};
use crate::providers::error::ProviderError;
use crate::providers::local::{LocalBackend, SMALL_MODEL_BYTES, no_tools_message};
use crate::providers::model::{
    DefaultCheck, LOCAL, LocalModelState, LocalModelView, ModelCall, ModelPreference, Outcome, ProviderReport,
    ProviderRow, ProviderStatus, ProviderView, ReportedFailure,
};
use crate::providers::store;

const LOCAL_NAME: &str = "Built-in model";
const LOCAL_TEST_LIMIT: Duration = Duration::from_secs(60);

impl Providers {
    /// Returns all providers in the documented order, `local` last.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<ProviderView>, ProviderError> {
        self.0.settings.refresh().await?;
        let rows = store::list_providers(&mut self.0.db.read().await?).await?;
        let configured = self.configured().await?;
        let view = |vendor: Vendor| {
            let row = rows.iter().find(|row| row.id == vendor.id());
            let configured = configured.iter().find(|configured| configured.vendor == vendor);
            self.vendor_view(vendor, row, configured)
        };
        let mut views: Vec<ProviderView> = Vendor::ALL.into_iter().map(view).collect();
        views.push(self.local_view());
        Ok(views)
    }

    /// Returns one provider.
    ///
    /// # Errors
    /// `Unknown`, or a store error.
    pub async fn get(&self, id: &str) -> Result<ProviderView, ProviderError> {
        let id = canonical(id)?;
        let found = self.list().await?.into_iter().find(|view| view.id == id);
        found.ok_or_else(|| ProviderError::Unknown { id: id.to_owned(), known: super::known_ids() })
    }

    /// Returns the canonical id of a provider.
    ///
    /// # Errors
    /// The valid ids, if the id is unknown.
    pub fn check_id(&self, id: &str) -> Result<&'static str, String> {
        canonical(id).map_err(|_| super::known_ids())
    }

    /// Tests a provider. A vendor is asked for its models, which costs no tokens; the built-in model is loaded and
    /// generates one token.
    ///
    /// # Errors
    /// `Unknown`, or a store error. A failure of the provider is part of the report.
    pub async fn test(&self, id: &str) -> Result<ProviderReport, ProviderError> {
        let id = canonical(id)?;
        let started = Instant::now();
        let outcome = if id == LOCAL { self.test_local().await? } else { self.test_vendor(id).await? };
        let latency = started.elapsed();
        let now = self.0.clock.now();
        let file = || {
            let found = self.0.local.find(self.0.settings.agent().local_model.as_deref());
            found.ok().filter(|_| id == LOCAL).map(|path| file_name(&path))
        };
        let outcome = match outcome {
            TestOutcome::Answered(models) => {
                self.store_outcome(id, Outcome::ok(now).with_file(file())).await;
                Ok(models)
            }
            TestOutcome::Failed(error) => {
                self.store_outcome(id, Outcome::from_test_error(&error, now).with_file(file())).await;
                Err(ReportedFailure::from(&error))
            }
            TestOutcome::NotConfigured(message) => Err(ReportedFailure { code: "unconfigured", message }),
        };
        Ok(ProviderReport { latency, outcome })
    }

    /// Checks the default provider without cost: a vendor by listing its models, the built-in model by its state.
    ///
    /// # Errors
    /// A store error. Failures of the provider are part of the result.
    pub async fn check_default(&self) -> Result<DefaultCheck, ProviderError> {
        let provider = match self.resolve(ModelPreference::new(None, None)).await {
            Ok(resolved) => resolved.provider,
            Err(ProviderError::NoModel { reason }) => return Ok(DefaultCheck::NoModel(reason)),
            Err(error) => return Err(error),
        };
        if provider == LOCAL {
            let view = self.local_view();
            return Ok(match view.status {
                ProviderStatus::Failing => DefaultCheck::Failed { provider, reason: view.message.unwrap_or_default() },
                _ => DefaultCheck::Answered { provider, latency: None },
            });
        }
        let report = self.test(&provider).await?;
        Ok(match report.outcome {
            Ok(_) => DefaultCheck::Answered { provider, latency: Some(report.latency) },
            Err(failure) => DefaultCheck::Failed { provider, reason: failure.message },
        })
    }

    async fn test_vendor(&self, id: &'static str) -> Result<TestOutcome, ProviderError> {
        let configured = self.configured().await?;
        let backend = match configured.iter().find(|configured| configured.vendor.id() == id) {
            None => {
                let message = format!("{id} has no key; set it with PUT /api/providers/{id}/key");
                return Ok(TestOutcome::NotConfigured(message));
            }
            Some(Configured { backend: Err(message), .. }) => return Ok(TestOutcome::NotConfigured(message.clone())),
            Some(Configured { backend: Ok(backend), .. }) => backend,
        };
        Ok(match backend.test().await {
            Ok(report) => TestOutcome::Answered(report.models),
            Err(error) => TestOutcome::Failed(error),
        })
    }

    async fn test_local(&self) -> Result<TestOutcome, ProviderError> {
        self.0.settings.refresh().await?;
        let agent = self.0.settings.agent();
        let path = match self.0.local.find(agent.local_model.as_deref()) {
            Ok(path) => path,
            Err(missing) => return Ok(TestOutcome::NotConfigured(missing)),
        };
        let model = file_name(&path);
        match generate_one_token(LocalBackend::new(self.0.local.model.clone(), path), &model).await {
            Ok(usage) => {
                self.record_test(model, usage).await?;
                Ok(TestOutcome::Answered(self.available_models()))
            }
            Err(error) => Ok(TestOutcome::Failed(error)),
        }
    }

    async fn record_test(&self, model: String, usage: Usage) -> Result<(), ProviderError> {
        let (providers, provider) = (self.clone(), LOCAL.to_owned());
        let call = ModelCall {
            provider,
            model,
            usage,
            agent_id: None,
            project_id: None,
            origin: "api",
            key_id: None,
            conversation_id: None,
            session_id: None,
        };
        self.0.db.write(async move |tx: &mut Tx| providers.record_usage(tx, call.clone()).await).await?;
        Ok(())
    }

    fn available_models(&self) -> Vec<String> {
        self.0.local.files().iter().map(|path| file_name(path)).collect()
    }

    fn vendor_view(&self, vendor: Vendor, row: Option<&ProviderRow>, configured: Option<&Configured>) -> ProviderView {
        let updated_at = row.map(|row| row.updated_at).unwrap_or_default();
        let in_memory = self.0.outcomes.lock().get(vendor.id()).cloned();
        let stored = row.and_then(|row| row.outcome.clone());
        let outcome = [in_memory, stored].into_iter().flatten().filter(|outcome| outcome.checked_at >= updated_at);
        let outcome = outcome.max_by_key(|outcome| outcome.checked_at);
        let (status, message, checked_at) = match (configured, outcome) {
            (None, _) => {
                let message = format!("set its key with PUT /api/providers/{}/key", vendor.id());
                (ProviderStatus::Unconfigured, Some(message), None)
            }
            (Some(Configured { backend: Err(message), .. }), _) => {
                (ProviderStatus::Failing, Some(message.clone()), None)
            }
            (Some(_), None) => (ProviderStatus::Configured, None, None),
            (Some(_), Some(outcome)) => (outcome.status, outcome.message, Some(outcome.checked_at)),
        };
        ProviderView {
            id: vendor.id().to_owned(),
            name: vendor.display_name().to_owned(),
            configured: configured.is_some(),
            key: configured.filter(|configured| configured.has_key).map(|_| SecretState { set: true }),
            base_url: row.and_then(|row| row.base_url.clone()),
            default_base_url: Some(vendor.default_base_url().to_owned()),
            default_model: Some(
                row.and_then(|row| row.default_model.clone()).unwrap_or_else(|| vendor.default_model().to_owned()),
            ),
            status,
            message,
            checked_at,
            local: None,
        }
    }

    fn local_view(&self) -> ProviderView {
        let found = self.0.local.find(self.0.settings.agent().local_model.as_deref());
        let mut now = self.0.local.model.status();
        let file = found.as_ref().ok();
        // The status of a file that is no longer in use does not apply.
        if now.model.as_ref() != file {
            now = LocalStatus::default();
        }
        let outcome = self.0.outcomes.lock().get(LOCAL).cloned();
        let outcome =
            outcome.filter(|outcome| outcome.file.is_none() || outcome.file == file.map(|path| file_name(path)));
        let (status, message) = match (&found, now.state, &outcome) {
            (Err(missing), _, _) => (ProviderStatus::Unconfigured, Some(missing.clone())),
            (Ok(_), LocalState::Failed, _) => (ProviderStatus::Failing, now.last_error.clone()),
            (Ok(_), _, Some(outcome)) => (outcome.status, outcome.message.clone()),
            (Ok(_), _, None) => (ProviderStatus::Configured, None),
        };
        let model = found.as_ref().ok().map(|path| file_name(path));
        let supports_tools = file.map(|path| self.0.local.model.supports_tools(path));
        ProviderView {
            id: LOCAL.to_owned(),
            name: LOCAL_NAME.to_owned(),
            configured: found.is_ok(),
            key: None,
            base_url: None,
            default_base_url: None,
            default_model: model.clone(),
            status,
            message,
            checked_at: outcome.map(|outcome| outcome.checked_at).filter(|_| found.is_ok()),
            local: Some(LocalModelView {
                model,
                small: file
                    .is_some_and(|path| std::fs::metadata(path).is_ok_and(|found| found.len() < SMALL_MODEL_BYTES)),
                available_models: self.available_models(),
                state: match now.state {
                    LocalState::Unloaded => LocalModelState::Unloaded,
                    LocalState::Loading => LocalModelState::Loading,
                    LocalState::Ready => LocalModelState::Ready,
                    LocalState::Failed => LocalModelState::Failed,
                },
                tools: supports_tools,
                tools_message: file
                    .filter(|_| supports_tools == Some(false))
                    .map(|path| no_tools_message(&file_name(path))),
                resident_bytes: now.resident_bytes,
                prompt_tokens_per_second: now.prompt_tokens_per_second,
                generation_tokens_per_second: now.generation_tokens_per_second,
                context_length: now.context_length,
                active_requests: u64::try_from(now.active_requests).unwrap_or(u64::MAX),
            }),
        }
    }
}

impl ValidateReference for Providers {
    fn named_by(&self) -> (&'static str, &'static str) {
        (AgentSettings::NAME, "local_model")
    }

    fn problem<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>> {
        let local = self.0.local.clone();
        let name = name.to_owned();
        async move {
            // Reads folders.
            let found = tokio::task::spawn_blocking(move || local.find_file(Some(&name))).await;
            found.ok()?.err()
        }
        .boxed()
    }
}

enum TestOutcome {
    Answered(Vec<String>),
    Failed(ModelError),
    NotConfigured(String),
}

async fn generate_one_token(backend: LocalBackend, model: &str) -> Result<Usage, ModelError> {
    let request = ModelRequest {
        client: "test".into(),
        model: model.to_owned(),
        system: None,
        messages: vec![ModelMessage::User { content: "Hello".to_owned() }],
        tools: [].into(),
        temperature: Some(0.0),
        max_output_tokens: Some(1),
        is_conversation: false,
        timeout: LOCAL_TEST_LIMIT,
    };
    let mut events = backend.generate(request).await?;
    let mut usage = Usage::default();
    while let Some(event) = events.next().await {
        if let ModelEvent::Finished(finish) = event? {
            usage = finish.usage;
        }
    }
    Ok(usage)
}
