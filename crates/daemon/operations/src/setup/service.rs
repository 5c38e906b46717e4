//! Steps of the wizard, each through the facade of its domain.

use agentd_base::{FieldProblem, Patch, Secret, SecretUpdate};
use agentd_core::auth::{Auth, IssuedKey, LoggedIn, LoginOrigin, NewKey};
use agentd_core::parts::Detached;
use agentd_core::settings::{AgentSettings, PartialObject, Settings, SettingsError};
use agentd_engine::agents::{Agent, Agents, CreateAgent};
use agentd_engine::providers::{LOCAL, ModelPreference, ProviderChange, ProviderError, Providers};
use agentd_llm::Vendor;
use agentd_store::{Db, Recorder, Tx};
use agentd_web::Caller;
use serde_json::{Map, Value};

use super::error::SetupError;
use super::model::Progress;

/// Service for the initial setup. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Setup {
    db: Db,
    settings: Settings,
    auth: Auth,
    providers: Providers,
    agents: Agents,
}

/// Provider of the models.
#[derive(Debug, Clone)]
pub struct ProviderChoice {
    /// Id of a vendor, or `local`.
    pub provider: String,
    pub api_key: Option<Secret>,
    pub base_url: Option<String>,
    /// Model name of the provider.
    pub model: Option<String>,
}

impl Setup {
    pub fn new(db: Db, settings: Settings, auth: Auth, providers: Providers, agents: Agents) -> Detached<Self> {
        Detached::new(Self { db, settings, auth, providers, agents })
    }

    /// Returns the completed steps.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn progress(&self) -> Result<Progress, SetupError> {
        let state = self.auth.bootstrap_state().await?;
        Ok(Progress {
            account: !state.needs_setup,
            provider: self.has_model().await?,
            agent: !self.agents.list().await?.is_empty(),
            complete: !state.bootstrap_mode,
        })
    }

    /// Returns whether a model is available for a request without a model name.
    async fn has_model(&self) -> Result<bool, SetupError> {
        match self.providers.resolve(ModelPreference::default()).await {
            Ok(_) => Ok(true),
            Err(ProviderError::NoModel { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the account.
    ///
    /// # Errors
    /// Same as [`Auth::register`].
    pub async fn create_account(
        &self,
        caller: &Caller,
        username: String,
        password: Secret,
        origin: LoginOrigin,
        recorder: Recorder<LoggedIn>,
    ) -> Result<LoggedIn, SetupError> {
        Ok(self.auth.register(caller, username, password, origin, recorder).await?)
    }

    /// Configures a provider and makes it the default, with the model if given, atomically. For the local provider, the
    /// model is one of its files.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, or as [`Providers::set_key`]; nothing is changed then.
    pub async fn choose_provider(&self, choice: ProviderChoice) -> Result<(), SetupError> {
        if self.providers.check_id(&choice.provider).is_err() {
            return Err(SetupError::Invalid(self.provider_problems(choice).await));
        }
        let ProviderChoice { provider, api_key, base_url, model } = choice;
        let found = self.providers.get(&provider).await?;
        let is_local = found.local.is_some();
        let mut problems = Vec::new();
        let mut prepared = None;
        if !is_local || api_key.is_some() || base_url.is_some() {
            match self.providers.prepare(&found.id, provider_change(api_key, base_url)) {
                Ok(provider) => prepared = Some(provider),
                Err(ProviderError::Invalid(found)) => problems = found,
                Err(error) => return Err(error.into()),
            }
        }
        let mut default = Map::from_iter([("default_provider".to_owned(), Value::from(found.id))]);
        if is_local {
            default.insert("default_model".to_owned(), Value::Null);
            default.extend(model.map(|file| ("local_model".to_owned(), Value::from(file))));
        } else {
            default.insert("default_model".to_owned(), Value::from(model));
        }
        let default = self.settings.prepare::<AgentSettings>(PartialObject(default)).await;
        let (providers, settings, to_write) = (self.providers.clone(), self.settings.clone(), prepared.clone());
        let work = async move |tx: &mut Tx| {
            let mut problems = problems.clone();
            if let Some(provider) = &to_write {
                match providers.write(tx, provider).await {
                    Err(ProviderError::Invalid(found)) => problems.extend(found),
                    other => other?,
                }
            }
            match settings.write(tx, &default).await {
                Ok(written) if problems.is_empty() => return Ok(written),
                Ok(_) => {}
                Err(SettingsError::Invalid(found)) => problems.extend(found.into_iter().map(rename_field)),
                Err(error) => return Err(error.into()),
            }
            Err(SetupError::Invalid(problems))
        };
        let written = self.db.write(work).await?;
        if let Some(provider) = &prepared {
            self.providers.written(provider);
        }
        self.settings.apply_committed(written).await;
        Ok(())
    }

    /// Returns the problems of a choice, as far as they can be determined without applying it.
    pub async fn provider_problems(&self, choice: ProviderChoice) -> Vec<FieldProblem> {
        let ProviderChoice { provider, api_key, base_url, model } = choice;
        let mut problems = Vec::new();
        let id = match self.providers.check_id(&provider) {
            Ok(id) => id,
            Err(known) => {
                let message = format!("must be one of {known}");
                problems.push(FieldProblem { field: "provider".to_owned(), message });
                // Key and base URL are validated in the same way for all vendors.
                Vendor::Openai.id()
            }
        };
        if (id != LOCAL || api_key.is_some() || base_url.is_some())
            && let Err(ProviderError::Invalid(found)) = self.providers.prepare(id, provider_change(api_key, base_url))
        {
            problems.extend(found);
        }
        if let Some(model) = model {
            let field = if id == LOCAL { "local_model" } else { "default_model" };
            let change = PartialObject(Map::from_iter([(field.to_owned(), Value::from(model))]));
            problems.extend(self.settings.problems::<AgentSettings>(change).await.into_iter().map(rename_field));
        }
        problems
    }

    /// Creates an agent.
    ///
    /// # Errors
    /// Same as [`Agents::create`].
    pub async fn create_agent(&self, wanted: CreateAgent, recorder: Recorder<Agent>) -> Result<Agent, SetupError> {
        Ok(self.agents.create(wanted, recorder).await?)
    }

    /// Creates the first API key, which ends bootstrap mode and completes the wizard.
    ///
    /// # Errors
    /// Same as [`Auth::create_first_key`].
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

fn provider_change(api_key: Option<Secret>, base_url: Option<String>) -> ProviderChange {
    ProviderChange {
        api_key: api_key.map_or(Patch::Keep, |key| Patch::Set(SecretUpdate::New(key))),
        base_url: base_url.map_or(Patch::Keep, Patch::Set),
        default_model: Patch::Keep,
    }
}

/// Maps the field of a settings problem to the field of the wizard.
fn rename_field(problem: FieldProblem) -> FieldProblem {
    let field = match problem.field.as_str() {
        "default_model" | "local_model" => "model".to_owned(),
        "default_provider" => "provider".to_owned(),
        _ => problem.field,
    };
    FieldProblem { field, message: problem.message }
}
