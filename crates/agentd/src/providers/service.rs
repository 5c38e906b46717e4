//! The use cases of providers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{FieldProblem, Patch, Problems, Secret, SecretUpdate};
use agentd_inference::LocalStatus;
use agentd_llm::{
    ConnectivityReport, ModelBackend, ModelError, ModelErrorCode, ModelMessage, ModelRequest, Vendor, VendorBackend,
};
use agentd_net::{GuardedClient, Trust};
use agentd_store::{Read, Snapshot, StoreError, Topic, Tx};
use futures_util::StreamExt;
use parking_lot::RwLock;
use reqwest::Url;

use super::error::ProviderError;
use super::local::LocalModels;
use super::model::{Choice, LOCAL, LastOutcome, ModelCall, ModelWish, ResolvedModel};
use super::prices::Prices;
use super::store::{self, ProviderRow};
use super::tracked::Tracked;
use crate::ground::Ground;
use crate::settings::{Settings, Vault};

const PROVIDERS: Topic = Topic::new("providers");
const TOPICS: &[Topic] = &[PROVIDERS];
/// Scope of the keys in the vault.
const VAULT_SCOPE: &str = "providers";
/// Models beyond these share the label `other` in the metrics.
const MAX_LABELLED_MODELS: usize = 50;

/// What is set for a vendor.
#[derive(Debug, Clone)]
pub(super) struct Configured {
    pub vendor: Vendor,
    pub has_key: bool,
    pub base_url: Option<String>,
    pub default_model: Option<String>,
    pub backend: Option<Arc<VendorBackend>>,
}

/// A change of what is set for a vendor.
#[derive(Debug, Clone, Default)]
pub struct ProviderUpdate {
    pub api_key: Patch<SecretUpdate>,
    pub base_url: Patch<String>,
    pub default_model: Patch<String>,
}

/// Tokens of one model since the daemon's first day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTotal {
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

pub(super) type Outcomes = Arc<RwLock<HashMap<String, LastOutcome>>>;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Providers {
    ground: Ground,
    settings: Settings,
    client: GuardedClient,
    configured: Arc<Snapshot<Vec<Configured>>>,
    local: LocalModels,
    prices: Arc<Prices>,
    /// At most one entry a provider.
    outcomes: Outcomes,
}

impl Providers {
    #[must_use]
    pub fn new(ground: Ground, settings: Settings, local: LocalModels, prices: Prices) -> Self {
        Self {
            client: GuardedClient::new(settings.policy(), Trust::Owner),
            configured: Arc::new(Snapshot::new(&ground.db, TOPICS)),
            ground,
            settings,
            local,
            prices: Arc::new(prices),
            outcomes: Outcomes::default(),
        }
    }

    pub(super) async fn configured(&self) -> Result<Arc<Vec<Configured>>, ProviderError> {
        let (vault, client) = (self.settings.vault().clone(), self.client.clone());
        self.configured.get(async move |read: &mut Read| load_configured(&vault, &client, read).await).await
    }

    /// Which backend and model a turn gets: its wish, else the settings, else the first vendor
    /// that is configured, else the model inside.
    ///
    /// # Errors
    /// What was chosen is not configured, or nothing is.
    pub async fn resolve(&self, wish: ModelWish) -> Result<ResolvedModel, ProviderError> {
        let settings = self.settings.agent();
        let choice = Choice::of(wish).or(settings.default_provider.clone(), settings.default_model.clone());
        let configured = self.configured().await?;
        let vendor = match choice.provider.as_deref() {
            Some(LOCAL) => None,
            Some(id) => Some(vendor(id)?),
            None => configured.iter().find(|configured| configured.backend.is_some()).map(|first| first.vendor),
        };
        let Some(vendor) = vendor else {
            let named = choice.provider.is_some();
            return self.resolve_local(choice.model.as_deref()).map_err(|error| match error {
                ProviderError::LocalUnavailable(_) if !named => ProviderError::NoModel,
                other => other,
            });
        };
        let set = configured.iter().find(|configured| configured.vendor == vendor);
        let backend = set.and_then(|set| set.backend.clone());
        let backend = backend.ok_or_else(|| ProviderError::NotConfigured { provider: vendor.id().to_owned() })?;
        let own_default = set.and_then(|set| set.default_model.clone());
        let model = choice.model.or(own_default).unwrap_or_else(|| vendor.default_model().to_owned());
        Ok(ResolvedModel {
            backend: self.tracked(vendor.id(), backend),
            provider: vendor.id().to_owned(),
            model,
            context_window: None,
        })
    }

    fn resolve_local(&self, model: Option<&str>) -> Result<ResolvedModel, ProviderError> {
        let settings = self.settings.agent();
        let file = self.local.find(model.or(settings.local_model.as_deref()))?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let context_window = self.local.status().context_length.map(u64::from);
        Ok(ResolvedModel {
            backend: self.tracked(LOCAL, Arc::new(self.local.backend(file))),
            provider: LOCAL.to_owned(),
            model: name,
            context_window: Some(context_window.unwrap_or(4096)),
        })
    }

    fn tracked(&self, provider: &str, backend: Arc<dyn ModelBackend>) -> Arc<dyn ModelBackend> {
        Arc::new(Tracked::new(backend, provider, self.ground.clock.clone(), Arc::clone(&self.outcomes)))
    }

    pub(super) fn last_outcome(&self, provider: &str) -> Option<LastOutcome> {
        self.outcomes.read().get(provider).cloned()
    }

    /// The state of the model inside, and the file it would use or what is missing.
    pub(super) fn local_state(&self) -> (LocalStatus, Result<String, ProviderError>) {
        let file = self.local.find(self.settings.agent().local_model.as_deref());
        let name =
            file.map(|file| file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
        (self.local.status(), name)
    }

    /// Sets the key, the base URL and the default model of a vendor; what is left out stays.
    ///
    /// # Errors
    /// Bad fields, an unknown provider.
    pub async fn update(&self, id: &str, update: ProviderUpdate) -> Result<(), ProviderError> {
        if id == LOCAL {
            return Err(ProviderError::LocalHasNoKey);
        }
        let vendor = vendor(id)?;
        self.check(&update)?;
        let vault = self.settings.vault().clone();
        self.ground
            .db
            .write(async move |tx: &mut Tx| {
                let name = vendor.id();
                let found = store::find_provider(tx, name).await?;
                let (mut base_url, mut default_model) =
                    found.map_or((None, None), |row| (row.base_url, row.default_model));
                update.base_url.clone().apply(&mut base_url);
                update.default_model.clone().apply(&mut default_model);
                match &update.api_key {
                    Patch::Set(SecretUpdate::New(key)) => {
                        let key = Secret::new(key.expose().trim().to_owned());
                        vault.put(tx, VAULT_SCOPE, name, &key).await?;
                    }
                    Patch::Clear => vault.clear(tx, VAULT_SCOPE, name).await?,
                    Patch::Keep | Patch::Set(SecretUpdate::Shown(_)) => {}
                }
                let has_key = vault.get_in(tx, VAULT_SCOPE, name).await?.is_some();
                if !has_key && base_url.is_none() {
                    return Err(invalid("api_key", "is required unless a `base_url` names a server that needs none"));
                }
                store::put_provider(
                    tx,
                    &ProviderRow { id: name.to_owned(), base_url, default_model },
                    tx.clock().now(),
                )
                .await?;
                tx.touch(PROVIDERS);
                Ok(())
            })
            .await?;
        self.outcomes.write().remove(vendor.id());
        Ok(())
    }

    fn check(&self, update: &ProviderUpdate) -> Result<(), ProviderError> {
        let mut problems = Problems::new();
        if let Patch::Set(SecretUpdate::New(key)) = &update.api_key {
            let key = key.expose().trim();
            let is_header_text = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
            problems.require(is_header_text, "api_key", "must be printable ASCII without spaces");
        }
        if let Patch::Set(url) = &update.base_url {
            match Url::parse(url) {
                Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                    problems.add("base_url", "must not hold a user name or password");
                }
                Ok(url) if url.query().is_some() || url.fragment().is_some() => {
                    problems.add("base_url", "must not have a query or a fragment");
                }
                Ok(url) => {
                    if let Err(error) = self.client.check_url(&url) {
                        problems.add("base_url", error.to_string());
                    }
                }
                Err(_) => problems.add("base_url", "must be an address such as http://127.0.0.1:11434/v1"),
            }
        }
        if let Patch::Set(model) = &update.default_model {
            problems.require(!model.trim().is_empty(), "default_model", "must not be empty");
        }
        problems.into_result().map_err(ProviderError::Invalid)
    }

    /// Forgets everything that was set for a vendor.
    ///
    /// # Errors
    /// An unknown provider.
    pub async fn clear(&self, id: &str) -> Result<(), ProviderError> {
        if id == LOCAL {
            return Err(ProviderError::LocalHasNoKey);
        }
        let vendor = vendor(id)?;
        let vault = self.settings.vault().clone();
        self.ground
            .db
            .write(async move |tx: &mut Tx| {
                vault.clear(tx, VAULT_SCOPE, vendor.id()).await?;
                store::delete_provider(tx, vendor.id()).await?;
                tx.touch(PROVIDERS);
                Ok::<_, ProviderError>(())
            })
            .await?;
        self.outcomes.write().remove(vendor.id());
        Ok(())
    }

    /// Asks a provider whether it answers; for the model inside, lets it write one token.
    ///
    /// # Errors
    /// The provider is unknown or not configured; that it does not answer is the inner error.
    pub async fn test(&self, id: &str) -> Result<Result<ConnectivityReport, ModelError>, ProviderError> {
        if id == LOCAL {
            let resolved = self.resolve_local(None)?;
            return Ok(test_local(resolved).await);
        }
        let vendor = vendor(id)?;
        let configured = self.configured().await?;
        let backend = configured.iter().find(|set| set.vendor == vendor).and_then(|set| set.backend.clone());
        let backend = backend.ok_or_else(|| ProviderError::NotConfigured { provider: vendor.id().to_owned() })?;
        let outcome = backend.test().await;
        let last = LastOutcome::of(outcome.as_ref().err(), self.ground.clock.now());
        self.outcomes.write().insert(vendor.id().to_owned(), last);
        Ok(outcome)
    }

    /// Whether a call may be made.
    ///
    /// # Errors
    /// A budget is used up.
    pub async fn check_budget(&self) -> Result<(), ProviderError> {
        let settings = self.settings.agent();
        if settings.daily_token_limit.is_none() && settings.total_token_limit.is_none() {
            return Ok(());
        }
        let mut read = self.ground.db.read().await?;
        if let Some(limit) = settings.daily_token_limit {
            let now = self.ground.clock.now();
            let day = self.settings.day(now);
            if store::tokens_used(&mut read, Some(&day.to_string())).await? >= limit {
                let midnight = day.tomorrow().and_then(|next| next.to_zoned(self.settings.timezone()));
                let until_midnight = midnight.map_or(Duration::from_secs(3600), |midnight| {
                    agentd_base::Timestamp::from(midnight.timestamp()).since(now)
                });
                return Err(ProviderError::DailyBudget { limit, until_midnight });
            }
        }
        if let Some(limit) = settings.total_token_limit
            && store::tokens_used(&mut read, None).await? >= limit
        {
            return Err(ProviderError::TotalBudget { limit });
        }
        Ok(())
    }

    /// Writes the usage row of a call, in the transaction that ends it.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn record_usage(&self, tx: &mut Tx, call: ModelCall) -> Result<(), StoreError> {
        let day = self.settings.day(tx.clock().now()).to_string();
        // A server of one's own behind a vendor's format has prices of its own.
        let is_list_price = call.provider == LOCAL || !self.has_own_base_url(&call.provider);
        let cost =
            is_list_price.then(|| self.prices.cost_micro_usd(&call.provider, &call.model, &call.usage)).flatten();
        store::insert_usage(tx, &call, &day, cost).await
    }

    fn has_own_base_url(&self, provider: &str) -> bool {
        let configured = self.configured.last();
        configured.is_some_and(|configured| {
            configured.iter().any(|set| set.vendor.id() == provider && set.base_url.is_some())
        })
    }

    /// Tokens by model, for the metrics: bounded, and no figure ever goes back.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn token_totals(&self) -> Result<Vec<TokenTotal>, StoreError> {
        let mut read = self.ground.db.read().await?;
        let mut totals: Vec<TokenTotal> = Vec::new();
        for (index, (model, input_tokens, output_tokens)) in
            store::totals_by_model(&mut read).await?.into_iter().enumerate()
        {
            match totals.get_mut(MAX_LABELLED_MODELS) {
                Some(other) => {
                    other.input_tokens += input_tokens;
                    other.output_tokens += output_tokens;
                }
                None => {
                    let model = if index == MAX_LABELLED_MODELS { "other".to_owned() } else { model };
                    totals.push(TokenTotal { model, input_tokens, output_tokens });
                }
            }
        }
        Ok(totals)
    }

    /// Ends the process of the model inside.
    pub async fn shut_down(&self) {
        self.local.shut_down().await;
    }
}

fn vendor(id: &str) -> Result<Vendor, ProviderError> {
    Vendor::from_id(id).ok_or_else(|| {
        let known: Vec<&str> = Vendor::ALL.iter().map(|vendor| vendor.id()).chain([LOCAL]).collect();
        ProviderError::Unknown { id: id.chars().take(64).collect(), known: known.join(", ") }
    })
}

fn invalid(field: &str, message: &str) -> ProviderError {
    ProviderError::Invalid(vec![FieldProblem { field: field.to_owned(), message: message.to_owned() }])
}

async fn test_local(resolved: ResolvedModel) -> Result<ConnectivityReport, ModelError> {
    let started = std::time::Instant::now();
    let request = ModelRequest {
        model: resolved.model.clone(),
        system: None,
        messages: vec![ModelMessage::User { content: "Say hello.".to_owned() }],
        tools: Vec::new(),
        temperature: Some(0.0),
        max_output_tokens: Some(1),
        timeout: Duration::from_secs(120),
    };
    let mut stream = resolved.backend.generate(request).await?;
    while let Some(event) = stream.next().await {
        event?;
    }
    let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(ConnectivityReport { latency_ms, models: vec![resolved.model] })
}

impl LastOutcome {
    pub(super) fn of(error: Option<&ModelError>, checked_at: agentd_base::Timestamp) -> Self {
        Self {
            is_ok: error.is_none(),
            is_rate_limited: error.is_some_and(|error| error.code == ModelErrorCode::RateLimit),
            message: error.map(|error| error.message.clone()),
            checked_at,
        }
    }
}

async fn load_configured(
    vault: &Vault,
    client: &GuardedClient,
    read: &mut Read,
) -> Result<Vec<Configured>, ProviderError> {
    let rows = store::list_providers(read).await?;
    let mut configured = Vec::new();
    for vendor in Vendor::ALL {
        let row = rows.iter().find(|row| row.id == vendor.id());
        let key = vault.get_in(read, VAULT_SCOPE, vendor.id()).await?;
        let base_url = row.and_then(|row| row.base_url.clone());
        let has_key = key.is_some();
        let backend = (has_key || base_url.is_some()).then(|| {
            let url = base_url.as_deref().and_then(|url| Url::parse(url).ok());
            Arc::new(VendorBackend::new(vendor, client.clone(), url, key))
        });
        let default_model = row.and_then(|row| row.default_model.clone());
        configured.push(Configured { vendor, has_key, base_url, default_model, backend });
    }
    Ok(configured)
}
