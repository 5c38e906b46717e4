//! Service for providers: configuration, model selection and usage.

mod budget;
mod key;
mod setup;
mod usage;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::Clock;
use agentd_base::id::IdGenerator;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Recorder, Series};
use agentd_core::settings::Settings;
use agentd_core::vault::{Vault, VaultError};
use agentd_llm::{ModelBackend, ModelError, ModelEvent, ModelRequest, ModelStream, Vendor, VendorBackend};
use agentd_net::{GuardedClient, Trust};
use agentd_store::{Db, Read, Snapshot, StoreError, Tx};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::error::ProviderError;
use super::local::{LocalBackend, LocalOptions};
use super::model::{
    Candidates, Choice, LOCAL, ModelPreference, Outcome, Price, PriceOrigin, PriceTable, ResolvedModel, choose,
    known_ids,
};
use super::store;

pub use budget::{PlannedCall, Reservation};
pub use key::PreparedProvider;

/// Vault scope of keys.
const KEYS: &str = "providers";

/// A configured vendor with its backend.
struct Configured {
    vendor: Vendor,
    has_key: bool,
    default_model: String,
    /// The backend, or the reason why the key cannot be decrypted.
    backend: Result<Arc<VendorBackend>, String>,
}

struct Inner {
    db: Db,
    clock: Clock,
    recorder: Recorder,
    ids: IdGenerator,
    settings: Settings,
    vault: Vault,
    local: LocalOptions,
    client: GuardedClient,
    /// Shipped prices, overridden by the file.
    prices: PriceTable,
    /// Effective prices, including those set through the API.
    price_table: Snapshot<PriceTable>,
    /// Ids of reservations of this process, at most one per turn.
    reservations: Mutex<BTreeSet<String>>,
    /// Locked by the first waiter for released tokens.
    waiting: tokio::sync::Mutex<()>,
    draining: CancellationToken,
    /// Configured vendors in the documented order.
    configured: Snapshot<Vec<Configured>>,
    /// Results of the last call per provider in this process. At most nine.
    outcomes: Mutex<HashMap<&'static str, Outcome>>,
}

/// The providers. Cheap to clone.
#[derive(Clone)]
pub struct Providers(Arc<Inner>);

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Providers")
    }
}

/// Returns the canonical id of a provider.
fn canonical(id: &str) -> Result<&'static str, ProviderError> {
    if id == LOCAL {
        return Ok(LOCAL);
    }
    let unknown = || ProviderError::Unknown { id: id.chars().take(64).collect(), known: known_ids() };
    Vendor::from_id(id).map(Vendor::id).ok_or_else(unknown)
}

impl Providers {
    /// Creates the service. Does no work until the first call.
    pub fn new(context: &AppContext, settings: Settings, local: LocalOptions, prices: PriceTable) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
            ids: context.ids.clone(),
            vault: settings.vault().clone(),
            client: GuardedClient::new(settings.policy(), Trust::Owner),
            configured: Snapshot::new(&context.db, &[store::PROVIDERS]),
            price_table: Snapshot::new(&context.db, &[store::prices::PRICES]),
            reservations: Mutex::default(),
            waiting: tokio::sync::Mutex::default(),
            draining: context.draining.clone(),
            outcomes: Mutex::default(),
            settings,
            local,
            prices,
        })))
    }

    /// Stops the process of the built-in model.
    pub async fn shut_down(&self) {
        self.0.local.model.shutdown().await;
    }

    /// Records the result of a call. Only changes are stored. Backends of [`Self::resolve`] do this automatically.
    pub async fn report_outcome(&self, provider: &str, result: Result<(), &ModelError>) {
        self.report_outcome_of(provider, None, result).await;
    }

    /// Variant of [`Self::report_outcome`] with the model file of the built-in model.
    async fn report_outcome_of(&self, provider: &str, file: Option<String>, result: Result<(), &ModelError>) {
        let now = self.0.clock.now();
        let outcome = match result {
            Ok(()) => Some(Outcome::ok(now)),
            Err(error) => Outcome::from_call_error(error, now),
        };
        if let (Ok(id), Some(outcome)) = (canonical(provider), outcome) {
            self.store_outcome(id, outcome.with_file(file)).await;
        }
    }

    async fn store_outcome(&self, id: &'static str, outcome: Outcome) {
        let before = self.0.outcomes.lock().insert(id, outcome.clone());
        let is_same = before.is_some_and(|before| before.status == outcome.status && before.message == outcome.message);
        if is_same || id == LOCAL {
            return;
        }
        let written =
            self.0.db.write_relaxed(async move |tx: &mut Tx| store::update_outcome(tx, id, &outcome).await).await;
        if let Err(error) = written {
            tracing::warn!(provider = id, %error, "failed to store the status of a provider");
        }
    }

    async fn configured(&self) -> Result<Arc<Vec<Configured>>, ProviderError> {
        let (vault, client) = (self.0.vault.clone(), self.0.client.clone());
        self.0.configured.get(async move |read: &mut Read| load(&vault, &client, read).await).await
    }
}

async fn load(vault: &Vault, client: &GuardedClient, read: &mut Read) -> Result<Vec<Configured>, ProviderError> {
    let rows = store::list_providers(read).await?;
    let mut configured = Vec::new();
    for vendor in Vendor::ALL {
        let Some(row) = rows.iter().find(|row| row.id == vendor.id()) else { continue };
        let base_url = row.base_url.as_deref().and_then(|url| Url::parse(url).ok());
        let (has_key, key) = match vault.get_in(read, KEYS, vendor.id()).await {
            Ok(key) => (key.is_some(), Ok(key)),
            // One key that cannot be decrypted must not make the other providers unavailable.
            Err(error @ VaultError::Unsealable { .. }) => (true, Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        if !has_key && base_url.is_none() {
            // A backup without secrets was restored.
            continue;
        }
        configured.push(Configured {
            vendor,
            has_key,
            default_model: row.default_model.clone().unwrap_or_else(|| vendor.default_model().to_owned()),
            backend: key.map(|key| Arc::new(VendorBackend::new(vendor, client.clone(), base_url, key))),
        });
    }
    Ok(configured)
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returned by [`Providers::resolve`], so that callers cannot forget to report results.
pub(super) struct TrackedBackend {
    pub(super) inner: Arc<dyn ModelBackend>,
    pub(super) provider: &'static str,
    /// Model file, for the built-in model.
    pub(super) file: Option<String>,
    pub(super) providers: Providers,
}

impl std::fmt::Debug for TrackedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl ModelBackend for TrackedBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        async move {
            let (providers, provider, file) = (self.providers.clone(), self.provider, self.file.clone());
            let (recorder, began) = (providers.0.recorder.clone(), Instant::now());
            let events = match self.inner.generate(request).await {
                Ok(events) => events,
                Err(error) => {
                    recorder.record(Series::ModelCall, provider, began.elapsed(), Outcome::is_provider_failure(&error));
                    providers.report_outcome_of(provider, file, Err(&error)).await;
                    return Err(error);
                }
            };
            let tracked = events.then(move |event| {
                let (providers, file) = (providers.clone(), file.clone());
                let is_error = event.as_ref().err().is_some_and(Outcome::is_provider_failure);
                if matches!(event, Err(_) | Ok(ModelEvent::Finished(_))) {
                    recorder.record(Series::ModelCall, provider, began.elapsed(), is_error);
                }
                async move {
                    match &event {
                        Ok(ModelEvent::Finished(_)) => providers.report_outcome_of(provider, file, Ok(())).await,
                        Err(error) => providers.report_outcome_of(provider, file, Err(error)).await,
                        Ok(_) => {}
                    }
                    event
                }
            });
            Ok(tracked.boxed() as ModelStream)
        }
        .boxed()
    }
}

impl Providers {
    /// Returns the model for a preference: the requested model, else the default of the agent settings, else the first
    /// configured provider, else the built-in model.
    ///
    /// # Errors
    /// `NoModel`, with what is missing and a remedy.
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
        let backend = backend
            .ok_or_else(|| ProviderError::no_model(format!("{vendor} was removed during the request; retry")))?;
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

/// Maximum age of cached prices, in case a notification of another replica is lost.
const CACHE_TTL: Duration = Duration::from_secs(5);

impl Providers {
    /// Returns the effective prices, ordered by provider and model.
    ///
    /// # Errors
    /// A store error.
    pub async fn list_prices(&self) -> Result<Vec<(PriceOrigin, Price)>, ProviderError> {
        let base = self.0.prices.clone();
        let table = self.0.price_table.get(async move |read: &mut Read| load_price_table(&base, read).await).await?;
        Ok(table.list())
    }

    /// Replaces all price overrides. Prices that equal the effective ones are not stored. The cost of past calls does
    /// not change.
    ///
    /// # Errors
    /// A store error.
    pub async fn set_prices(&self, mut prices: Vec<Price>) -> Result<Vec<(PriceOrigin, Price)>, ProviderError> {
        let today = self.0.settings.day(self.0.clock.now());
        for price in &mut prices {
            price.as_of = price.as_of.or(Some(today));
        }
        prices.retain(|price| !self.0.prices.contains(price));
        let prices = Arc::new(prices);
        self.0.db.write(async move |tx: &mut Tx| store::prices::replace_prices(tx, &prices).await).await?;
        self.list_prices().await
    }

    /// Returns the table by which calls are priced.
    pub(super) async fn price_table(&self) -> Result<Arc<PriceTable>, StoreError> {
        let base = self.0.prices.clone();
        self.0.price_table.get_recent(CACHE_TTL, async move |read: &mut Read| load_price_table(&base, read).await).await
    }

    /// Variant of [`Self::price_table`] for use within a transaction, which must not wait for another connection.
    pub(super) async fn price_table_in(&self, read: &mut Read) -> Result<Arc<PriceTable>, StoreError> {
        match self.0.price_table.last() {
            Some(table) => Ok(table),
            None => Ok(Arc::new(load_price_table(&self.0.prices, read).await?)),
        }
    }
}

async fn load_price_table(base: &PriceTable, read: &mut Read) -> Result<PriceTable, StoreError> {
    Ok(base.with_overrides(store::prices::list_prices(read).await?))
}
