//! The steps, each through the façade of its domain.

use agentd_base::{Patch, Secret, SecretUpdate};
use agentd_store::Recorder;
use agentd_web::Caller;
use serde_json::{Map, Value};

use super::error::SetupError;
use super::model::Progress;
use crate::agents::{Agent, Agents, CreateAgent};
use crate::auth::{Auth, IssuedKey, LoggedIn, NewKey};
use crate::providers::{ModelWish, ProviderChange, ProviderError, Providers};
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
            provider: self.has_model().await?,
            agent: !self.agents.list().await?.is_empty(),
            complete: !state.bootstrap_mode,
        })
    }

    /// Whether some model would answer a request that names none.
    async fn has_model(&self) -> Result<bool, SetupError> {
        match self.providers.resolve(ModelWish::default()).await {
            Ok(_) => Ok(true),
            Err(ProviderError::NoModel { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
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

    /// Sets a provider up and makes it the default, with the model if one is named. The model
    /// inside is only chosen: a model is then one of its files.
    ///
    /// # Errors
    /// As [`Providers::set_key`] and [`Settings::update`].
    pub async fn choose_provider(&self, choice: ProviderChoice) -> Result<(), SetupError> {
        let ProviderChoice { provider, api_key, base_url, model } = choice;
        let found = self.providers.get(&provider).await?;
        let is_inside = found.local.is_some();
        if !is_inside || api_key.is_some() || base_url.is_some() {
            let change = ProviderChange {
                api_key: api_key.map_or(Patch::Keep, |key| Patch::Set(SecretUpdate::New(key))),
                base_url: base_url.map_or(Patch::Keep, Patch::Set),
                default_model: Patch::Keep,
            };
            self.providers.set_key(&found.id, change).await?;
        }
        let mut change = Map::from_iter([("default_provider".to_owned(), Value::from(found.id))]);
        if is_inside {
            change.insert("default_model".to_owned(), Value::Null);
            change.extend(model.map(|file| ("local_model".to_owned(), Value::from(file))));
        } else {
            change.insert("default_model".to_owned(), Value::from(model));
        }
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
}
