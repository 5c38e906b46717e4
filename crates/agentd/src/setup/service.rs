//! The steps, each through the façade of its domain.

use agentd_base::{Patch, Secret, SecretUpdate};
use agentd_store::Recorder;
use agentd_web::Caller;
use serde_json::json;

use super::error::SetupError;
use super::model::Progress;
use crate::agents::{Agent, Agents, CreateAgent};
use crate::auth::{Auth, IssuedKey, LoggedIn, NewKey};
use crate::providers::{LOCAL, ModelWish, ProviderChange, ProviderError, Providers};
use crate::settings::{AgentSettings, PartialObject, Settings};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Setup {
    settings: Settings,
    auth: Auth,
    providers: Providers,
    agents: Agents,
}

/// Where replies are to come from.
#[derive(Debug, Clone)]
pub struct ProviderChoice {
    /// One of the vendors, or `local`.
    pub provider: String,
    pub api_key: Option<Secret>,
    pub base_url: Option<String>,
    /// The provider's own name of a model.
    pub model: Option<String>,
}

impl Setup {
    #[must_use]
    pub fn new(settings: Settings, auth: Auth, providers: Providers, agents: Agents) -> Self {
        Self { settings, auth, providers, agents }
    }

    /// What is done.
    ///
    /// # Errors
    /// The database is away.
    pub async fn progress(&self) -> Result<Progress, SetupError> {
        let state = self.auth.bootstrap_state().await?;
        Ok(Progress {
            account: !state.needs_setup,
            provider: self.can_use(ModelWish::default()).await?,
            agent: !self.agents.list().await?.is_empty(),
            complete: !state.bootstrap_mode,
        })
    }

    /// Makes the account.
    ///
    /// # Errors
    /// As [`Auth::register`].
    pub async fn make_account(
        &self,
        caller: &Caller,
        username: String,
        password: Secret,
        recorder: Recorder<LoggedIn>,
    ) -> Result<LoggedIn, SetupError> {
        Ok(self.auth.register(caller, username, password, recorder).await?)
    }

    /// Sets a provider up and makes it the default, with the model if one is named.
    ///
    /// # Errors
    /// `Invalid` when a vendor would be left without key and address, or what the provider refuses.
    pub async fn choose_provider(&self, choice: ProviderChoice) -> Result<(), SetupError> {
        let ProviderChoice { provider, api_key, base_url, model } = choice;
        let changes_nothing = api_key.is_none() && base_url.is_none();
        if provider == LOCAL && !changes_nothing {
            return Err(ProviderError::LocalHasNoKey.into());
        }
        if changes_nothing {
            let wish = ModelWish { provider: Some(provider.clone()), model: model.clone() };
            if !self.can_use(wish).await? && provider != LOCAL {
                return Err(SetupError::field("api_key", "is needed, or a base_url whose server wants none"));
            }
        } else {
            let change = ProviderChange {
                api_key: api_key.map_or(Patch::Keep, |key| Patch::Set(SecretUpdate::New(key))),
                base_url: base_url.map_or(Patch::Keep, Patch::Set),
                default_model: Patch::Keep,
            };
            self.providers.set_key(&provider, change).await?;
        }
        let change = json!({"default_provider": provider, "default_model": model});
        let serde_json::Value::Object(change) = change else { return Ok(()) };
        self.settings.update::<AgentSettings>(PartialObject(change)).await?;
        Ok(())
    }

    /// Makes an agent.
    ///
    /// # Errors
    /// As [`Agents::create`].
    pub async fn make_agent(&self, wanted: CreateAgent, recorder: Recorder<Agent>) -> Result<Agent, SetupError> {
        Ok(self.agents.create(wanted, recorder).await?)
    }

    /// Makes the first API key, which ends bootstrap and the wizard.
    ///
    /// # Errors
    /// As [`Auth::create_first_key`].
    pub async fn complete(
        &self,
        caller: &Caller,
        key_name: Option<String>,
        recorder: Recorder<IssuedKey>,
    ) -> Result<IssuedKey, SetupError> {
        let new = NewKey::named(key_name.unwrap_or_else(|| "first".to_owned()));
        Ok(self.auth.create_first_key(caller, new, recorder).await?)
    }

    /// Whether a model would be found for the wish.
    async fn can_use(&self, wish: ModelWish) -> Result<bool, SetupError> {
        match self.providers.resolve(wish).await {
            Ok(_) => Ok(true),
            Err(ProviderError::NoModel { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
